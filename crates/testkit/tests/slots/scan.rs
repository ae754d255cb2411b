//! SCAN shows every key that is there throughout, whatever becomes of slots and nodes meanwhile.

use std::cell::RefCell;
use std::collections::BTreeSet;

use keyfold_core::slot::Slot;
use keyfold_testkit::cluster::{Failover, Options, Resharding, key_in};
use keyfold_testkit::{Binary, Cluster};

use crate::driver::layout;
use crate::{Driver, each, found};

/// The slot that is moved, and how many keys it has.
const SLOT: u16 = 100;
const KEYS: usize = 3000;

/// Writes folded keys over all slots, plain ones, one of another type, and many in one slot.
fn fill(cluster: &Cluster, driver: &mut Driver<'_>) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for id in 0..400 {
        keys.extend([format!("n:{id}"), format!("plain:{id}")]);
    }
    for key in &keys {
        assert_eq!(driver.raw(&[b"SET", key.as_bytes(), b"v"]), b"+OK\r\n", "{key}");
    }
    driver.raw(&[b"SADD", b"set", b"x"]);
    keys.insert("set".to_owned());
    let tagged = key_in(SLOT, "hot");
    let owner = cluster.node(cluster.owner(SLOT).unwrap());
    for first in (0..KEYS).step_by(500) {
        let mut mset = vec![b"MSET".to_vec()];
        for number in first..first + 500 {
            let key = format!("{tagged}:{number}");
            mset.extend([key.clone().into_bytes(), b"v".to_vec()]);
            keys.insert(key);
        }
        owner.call_bytes(&mset.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    }
    keys
}

fn missed(keys: &BTreeSet<String>, seen: &[String]) -> Vec<String> {
    let seen: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(seen.difference(keys).next(), None, "nothing else is shown");
    keys.difference(&seen).take(5).cloned().collect()
}

#[test]
fn every_key_is_shown() {
    each(&found(), |binary| {
        let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
        let layout = layout();
        let mut driver = Driver::plain(&cluster, &layout);
        let keys = fill(&cluster, &mut driver);
        for count in [1, 10, 333, 100_000] {
            let (seen, pages) = driver.scan(&format!("COUNT {count}"), |_, _| {});
            assert_eq!(missed(&keys, &seen), [""; 0], "{} COUNT {count}", binary.name());
            assert!(seen.len() < 2 * keys.len(), "COUNT {count}: {} keys", seen.len());
            assert!(pages <= 3 * keys.len() / count + 40, "{} COUNT {count}: {pages} pages", binary.name());
        }
        let (seen, _) = driver.scan("COUNT 500 MATCH n:1*", |_, _| {});
        let of_ones: BTreeSet<_> = keys.iter().filter(|key| key.starts_with("n:1")).cloned().collect();
        assert_eq!(missed(&of_ones, &seen), [""; 0]);
        let (seen, _) = driver.scan("COUNT 500 TYPE set", |_, _| {});
        assert_eq!(seen, ["set"], "{}", binary.name());
        let (seen, _) = driver.scan("COUNT 500 TYPE STRING", |_, _| {});
        let strings: BTreeSet<_> = keys.iter().filter(|key| *key != "set").cloned().collect();
        assert_eq!(missed(&strings, &seen), [""; 0], "{}", binary.name());
        let steps = driver.steps;
        driver.scan("COUNT 100000", |_, _| {});
        assert!(driver.steps - steps < 40, "{}: {} steps", binary.name(), driver.steps - steps);
    });
}

/// Before Redis 8.0 and Valkey 8.0 such a slot is looked for among all names of its node.
#[test]
fn a_slot_may_hold_very_many_keys() {
    each(&found(), |binary| {
        let cluster = Cluster::start(binary, 2, 0, &Options::default()).unwrap();
        let layout = layout();
        let mut driver = Driver::plain(&cluster, &layout);
        let mut keys = fill(&cluster, &mut driver);
        let tagged = key_in(SLOT, "hot");
        let owner = cluster.node(cluster.owner(SLOT).unwrap());
        for first in (KEYS..KEYS + 9000).step_by(1000) {
            let more: Vec<String> = (first..first + 1000).map(|number| format!("{tagged}:{number}")).collect();
            let pairs = more.iter().flat_map(|key| [key.as_bytes(), b"v"]);
            owner.call_bytes(&[b"MSET".as_slice()].into_iter().chain(pairs).collect::<Vec<_>>()).unwrap();
            keys.extend(more);
        }
        let (seen, _) = driver.scan("COUNT 700", |_, _| {});
        assert_eq!(missed(&keys, &seen), [""; 0], "{}", binary.name());
        let events = [Event::Begin, Event::Move(3000), Event::Move(5000), Event::Finish];
        scan_through(&cluster, &mut driver, &keys, &events, 3);
    });
}

#[test]
fn what_is_no_cursor_is_refused() {
    let binary = found().remove(0);
    let cluster = Cluster::start(&binary, 1, 0, &Options::default()).unwrap();
    let layout = layout();
    let mut driver = Driver::plain(&cluster, &layout);
    for cursor in ["x", "-1", "9007199254740992"] {
        assert_eq!(driver.raw(&[b"SCAN", cursor.as_bytes()]), b"-ERR invalid cursor\r\n");
    }
    assert_eq!(driver.raw(&[b"SCAN", b"0", b"COUNT", b"0"]), b"-ERR syntax error\r\n");
    assert_eq!(driver.raw(&[b"SCAN", b"0", b"NONSENSE"]), b"-ERR syntax error\r\n");
    // A cursor that nobody gave begins its slot anew, or ends.
    for number in [1_u64 << 52, (1 << 53) - 1 - (1 << 14), 77 | 1 << 14, 77 | 2 << 14, 9999 | 1 << 33] {
        let page = driver.ask(&format!("SCAN {number}"));
        assert!(page.elements().is_some(), "{number}: {page:?}");
    }
}

/// What happens to the slot after a page.
#[derive(Clone, Copy, Debug)]
enum Event {
    Begin,
    Move(usize),
    Finish,
    FailOver(usize),
    Atomic(usize),
}

/// Scans while this happens, one event after each few pages from when the slot is being walked.
fn scan_through(cluster: &Cluster, driver: &mut Driver<'_>, keys: &BTreeSet<String>, events: &[Event], every: usize) {
    let name = cluster.binary().name();
    let left = RefCell::new(events.iter());
    let resharding: RefCell<Option<Resharding>> = RefCell::new(None);
    let (seen, pages) = driver.scan("COUNT 100", |page, cursor| {
        if !page.is_multiple_of(every) || cursor % (1 << 14) < SLOT.into() && page < 20 {
            return;
        }
        let mut resharding = resharding.borrow_mut();
        match left.borrow_mut().next() {
            Some(Event::Begin) => {
                let primaries = cluster.primaries().unwrap().len();
                let target = (cluster.owner(SLOT).unwrap() + 1) % primaries;
                *resharding = Some(cluster.begin_reshard(SLOT, target).unwrap());
            }
            Some(Event::Move(count)) => _ = cluster.move_keys(resharding.unwrap(), *count).unwrap(),
            Some(Event::Finish) => cluster.finish_reshard(resharding.unwrap()).unwrap(),
            Some(Event::FailOver(replica)) => cluster.fail_over(*replica, Failover::Clean).unwrap(),
            Some(Event::Atomic(target)) => cluster.reshard_atomically(50..=150, *target).unwrap(),
            None => {}
        }
    });
    let happened = events.len() - left.borrow().len();
    assert!(happened > 0, "{name}: nothing happened in {pages} pages");
    assert_eq!(missed(keys, &seen), [""; 0], "{name}: {events:?}, {happened} of them, every {every}");
    // Whatever is left half-way.
    if let Some(resharding) = *resharding.borrow() {
        let (seen, _) = driver.scan("COUNT 1000", |_, _| {});
        assert_eq!(missed(keys, &seen), [""; 0], "{name}: half-way");
        cluster.finish_reshard(resharding).unwrap();
    }
}

#[test]
fn no_key_is_missed_while_a_slot_moves_key_by_key() {
    each(&found(), |binary| {
        let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
        let layout = layout();
        let mut driver = Driver::plain(&cluster, &layout);
        let keys = fill(&cluster, &mut driver);
        use Event::{Begin, Finish, Move};
        for every in [1, 3] {
            for events in [
                &[Begin, Move(500), Move(500), Move(500), Move(500), Move(500)][..],
                &[Begin, Finish, Begin, Finish, Begin, Finish],
                &[Begin, Move(2500), Finish],
                &[Move(1), Begin, Move(100), Move(100), Finish][1..],
            ] {
                scan_through(&cluster, &mut driver, &keys, events, every);
            }
        }
    });
}

#[test]
fn no_key_is_missed_while_slots_move_at_once() {
    let atomic = |binary: &&Binary| binary.name().starts_with("valkey 9");
    each(&found().iter().filter(atomic).cloned().collect::<Vec<_>>(), |binary| {
        let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
        let layout = layout();
        let mut driver = Driver::plain(&cluster, &layout);
        let keys = fill(&cluster, &mut driver);
        for every in [1, 2] {
            let events = [Event::Atomic(1), Event::Atomic(2), Event::Atomic(0)];
            scan_through(&cluster, &mut driver, &keys, &events, every);
        }
    });
}

#[test]
fn no_key_is_missed_through_failovers() {
    each(&found(), |binary| {
        let cluster = Cluster::start(binary, 3, 1, &Options::default()).unwrap();
        let layout = layout();
        let mut driver = Driver::plain(&cluster, &layout);
        let keys = fill(&cluster, &mut driver);
        for index in 0..3 {
            let wait = cluster.node(index).call(&["WAIT", "1", "10000"]).unwrap();
            assert_eq!(wait.integer(), Some(1));
        }
        let owner = cluster.owner(SLOT).unwrap();
        let replica = cluster.replicas_of(owner).unwrap()[0];
        scan_through(&cluster, &mut driver, &keys, &[Event::FailOver(replica), Event::FailOver(owner)], 2);
    });
}

/// The cursor of a client has room for 20 bits of the node's own. What is cut off only repeats.
#[test]
fn a_cursor_without_its_high_bits_leaves_no_key_out() {
    each(&found(), |binary| {
        let cluster = Cluster::start(binary, 1, 0, &Options::default()).unwrap();
        let layout = layout();
        let keys: BTreeSet<String> = {
            let mut driver = Driver::plain(&cluster, &layout);
            fill(&cluster, &mut driver)
        };
        let by_slot = binary.version().major >= 8;
        let tagged = keys.iter().filter(|key| Slot::of(key.as_bytes()).number() == SLOT);
        let mut left: BTreeSet<&String> = tagged.collect();
        let shift = if by_slot { 14 } else { 0 };
        let mut cursor = if by_slot { u64::from(SLOT) } else { 0 };
        for _ in 0..1000 {
            let page = cluster.node(0).call(&["SCAN", &cursor.to_string(), "COUNT", "300"]).unwrap();
            let [next, names] = page.elements().unwrap() else { panic!("{page:?}") };
            names.elements().unwrap().iter().for_each(|name| _ = left.remove(&crate::driver::text(name)));
            let next: u64 = crate::driver::text(next).parse().unwrap();
            if next == 0 || by_slot && next % (1 << 14) != u64::from(SLOT) {
                break;
            }
            // Six bits only.
            cursor = next & ((1 << (shift + 6)) - 1);
        }
        assert_eq!(left.len(), 0, "{}: {:?}", binary.name(), left.first());
    });
}
