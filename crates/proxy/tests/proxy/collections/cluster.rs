//! Sets and hashes in buckets of a cluster: by their slots and by their tags, while slots move.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use keyfold_core::layout::{Attempt, Layout};
use keyfold_proxy::{Config, Handle, start};
use keyfold_testkit::cluster::{Node, Options, slot_of};
use keyfold_testkit::servers::{Binary, each, newest_and_others};
use keyfold_testkit::{Cluster, Value, Wire};

use crate::stage::{address, call, eventually};

const LAYOUT: &str = "cluster = true\n\
    [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { count = 1 }\nvalue_limit = 48\n\
    [[namespace]]\nkeys = 'tags:{{{post:int}}}:{id:int}'\ntype = 'set'\nbucket = { span = 16, of = 'id' }\nvalue_limit = 48\n";

const CROSSSLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";

fn stage(binary: &Binary) -> (Cluster, Handle) {
    let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
    let layout = Layout::parse_file(LAYOUT).unwrap().with_attempt(Attempt(1));
    cluster.put_in_force(&layout).unwrap();
    let mut config = Config::new(cluster.url(0).parse().unwrap(), layout);
    config.listen.push("127.0.0.1:0".parse().unwrap());
    config.threads = Some(2.try_into().unwrap());
    config.sweep.pause = Duration::from_millis(100);
    let proxy = start(config).unwrap();
    eventually("it serves", || call(&mut connect(&proxy), "EXISTS sess:1 tags:{1}:1 plain") == ":0\r\n");
    (cluster, proxy)
}

fn connect(proxy: &Handle) -> Wire {
    Wire::connect(address(proxy)).unwrap()
}

#[test]
fn those_of_one_tag_go_together_and_others_are_refused() {
    each(&newest_and_others().0, |binary| {
        let (_cluster, proxy) = stage(binary);
        let mut wire = connect(&proxy);
        for (request, answer) in [
            ("SADD tags:{1}:1 a b 7", ":3\r\n"),
            ("SADD tags:{1}:2 b 7 c", ":3\r\n"),
            ("SADD plain:{1} 7 z", ":2\r\n"),
            ("SINTERSTORE tags:{1}:3 tags:{1}:1 tags:{1}:2", ":2\r\n"),
            ("SISMEMBER tags:{1}:3 7", ":1\r\n"),
            ("SINTERSTORE tags:{1}:4 tags:{1}:1 plain:{1}", ":1\r\n"),
            ("SUNIONSTORE plain:{1} tags:{1}:3 plain:{1}", ":3\r\n"),
            ("SMOVE tags:{1}:1 plain:{1} a", ":1\r\n"),
            ("SCARD plain:{1}", ":4\r\n"),
            ("SINTERCARD 2 tags:{1}:1 tags:{1}:2", ":2\r\n"),
            ("RENAME tags:{1}:4 tags:{1}:40", "+OK\r\n"),
            ("SMEMBERS tags:{1}:40", "*1\r\n$1\r\n7\r\n"),
            ("SINTERSTORE tags:{2}:1 tags:{1}:1 tags:{1}:2", CROSSSLOT),
            ("SUNION tags:{1}:1 tags:{2}:1", CROSSSLOT),
            ("SMOVE tags:{1}:1 tags:{2}:1 b", CROSSSLOT),
            ("HSET sess:1 f v", ":1\r\n"),
            ("RENAME sess:1 sess:2", CROSSSLOT),
            ("MULTI", "+OK\r\n"),
            ("SADD tags:{1}:1 x", "+QUEUED\r\n"),
            ("SADD plain:{1} x", "+QUEUED\r\n"),
            ("EXEC", "*2\r\n:1\r\n:1\r\n"),
            ("EXISTS tags:{1}:1 tags:{1}:2 tags:{1}:3 tags:{1}:40 tags:{2}:1 sess:1 sess:2", ":5\r\n"),
            ("DEL tags:{1}:1 tags:{1}:2 tags:{1}:3 tags:{1}:40 sess:1 plain:{1}", ":6\r\n"),
            ("DBSIZE", ":0\r\n"),
        ] {
            assert_eq!(call(&mut wire, request), answer, "{request}");
        }
    });
}

/// One client's set and hash of a slot, and what is to be in them.
struct Own {
    set: String,
    hash: String,
    members: usize,
    count: usize,
}

impl Own {
    /// Writes once more; every answer says that nothing of it was lost, or done twice.
    fn write(&mut self, wire: &mut Wire) {
        self.members += 1;
        let Self { set, hash, members, .. } = self;
        let mut is = |request: &str, answer: String| {
            let mut said = call(wire, request);
            // A spilled value may lie at one node while its bucket is at another, and nodes may disagree: nothing was carried out.
            while ["-TRYAGAIN ", "-CLUSTERDOWN "].iter().any(|code| said.starts_with(code)) {
                said = call(wire, request);
            }
            assert_eq!(said, answer, "{request}");
        };
        is(&format!("SADD {set} {members} text{members}"), ":2\r\n".to_owned());
        is(&format!("SCARD {set}"), format!(":{}\r\n", 2 * *members));
        if members.is_multiple_of(4) {
            is(&format!("SUNIONSTORE {set}0 {set} {set}1"), format!(":{}\r\n", 2 * *members));
            is(&format!("SINTERCARD 2 {set}0 {set}"), format!(":{}\r\n", 2 * *members));
        }
        self.count += 1;
        is(&format!("HINCRBY {hash} count 1"), format!(":{}\r\n", self.count));
        is(
            &format!("HSET {hash} field{} {}", self.count % 9, self.count),
            format!(":{}\r\n", usize::from(self.count <= 9)),
        );
        is(&format!("HLEN {hash}"), format!(":{}\r\n", 1 + self.count.min(9)));
    }
}

/// Adds so many members to the set, and as many texts.
fn fill(wire: &mut Wire, set: &str, members: usize) {
    for member in 1..=members {
        assert_eq!(call(wire, &format!("SADD {set} {member} text{member}")), ":2\r\n");
    }
}

/// Runs `body` while clients write, each to a set of so many members and to a hash of its own, and gives them back.
fn under_writers(proxy: &Handle, members: usize, body: impl FnOnce(&[Own])) -> Vec<Own> {
    struct SetOnDrop<'a>(&'a AtomicBool);
    impl Drop for SetOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let own = |number: usize| {
        let (set, hash) = (format!("tags:{{{number}}}:1"), format!("sess:{}", 1000 + number));
        Own { set, hash, members, count: 0 }
    };
    let over = AtomicBool::new(false);
    let known: Vec<Own> = (0..4).map(own).collect();
    let mut wire = connect(proxy);
    known.iter().for_each(|own| fill(&mut wire, &own.set, members));
    thread::scope(|scope| {
        let set_over = SetOnDrop(&over);
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let (mut own, mut wire, over) = (own(number), connect(proxy), &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        own.write(&mut wire);
                    }
                    own
                })
            })
            .collect();
        body(&known);
        drop(set_over);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

/// Moves the slots of some while all are written, with so many members of each set to begin with; at the end all is as it should be.
fn move_slots_under_writers(members: usize) {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary);
        let all = under_writers(&proxy, members, |all| {
            for slot in all.iter().take(2).flat_map(|own| [&own.set, &own.hash]).map(|key| slot_of(key.as_bytes())) {
                let target = (cluster.owner(slot).unwrap() + 1) % 3;
                let resharding = cluster.begin_reshard(slot, target).unwrap();
                thread::sleep(Duration::from_millis(40));
                while cluster.move_keys(resharding, 1).unwrap() > 0 {
                    thread::sleep(Duration::from_millis(10));
                }
                cluster.finish_reshard(resharding).unwrap();
            }
        });
        let mut wire = connect(&proxy);
        for Own { set, hash, members: by_now, count } in all {
            assert!(by_now > members + 2, "{set} has {by_now}");
            assert_eq!(call(&mut wire, &format!("SCARD {set}")), format!(":{}\r\n", 2 * by_now));
            let asked: Vec<String> = (1..=by_now).map(|member| format!("{member} text{member}")).collect();
            let said = call(&mut wire, &format!("SMISMEMBER {set} {}", asked.join(" ")));
            assert_eq!(said, format!("*{}\r\n{}", 2 * by_now, ":1\r\n".repeat(2 * by_now)), "{set}");
            assert_eq!(call(&mut wire, &format!("HINCRBY {hash} count 0")), format!(":{count}\r\n"));
        }
    });
}

#[test]
fn their_slots_move_while_they_are_written_and_nobody_notices() {
    move_slots_under_writers(0);
}

#[test]
fn those_in_parts_wait_for_their_slots_and_lose_nothing() {
    move_slots_under_writers(150);
}

/// With a client, and the slot in which a set of 1,400 members lies, `tags:{7}:1`.
fn stage_with_one_in_parts(binary: &Binary) -> (Cluster, Handle, Wire, u16) {
    let (cluster, proxy) = stage(binary);
    let mut wire = connect(&proxy);
    fill(&mut wire, "tags:{7}:1", 700);
    (cluster, proxy, wire, slot_of(b"tags:{7}:1"))
}

/// How many keys the nodes have in this slot.
fn keys_in(cluster: &Cluster, slot: u16) -> i64 {
    let count = |node: &Node| match node.call(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]) {
        Ok(Value::Integer(count)) => count,
        other => panic!("{other:?}"),
    };
    cluster.nodes().iter().map(count).sum()
}

#[test]
fn what_is_in_parts_half_way_is_answered_as_soon_as_it_is_whole_and_goes_with_all_its_parts() {
    each(&newest_and_others().0, |binary| {
        let (cluster, _proxy, mut wire, slot) = stage_with_one_in_parts(binary);
        assert!(keys_in(&cluster, slot) > 10, "{}", keys_in(&cluster, slot));
        let resharding = cluster.begin_reshard(slot, (cluster.owner(slot).unwrap() + 1) % 3).unwrap();
        let waits = "-TRYAGAIN keyfold: a large set or hash waits while its slot moves\r\n";
        for _ in 0..2 {
            for request in ["SISMEMBER tags:{7}:1 text7", "SADD tags:{7}:1 new", "SMEMBERS tags:{7}:1"] {
                let mut said = call(&mut wire, request);
                // Not all nodes know yet where the slot is.
                while said.starts_with("-CLUSTERDOWN ") {
                    said = call(&mut wire, request);
                }
                assert_eq!(said, waits, "{request}");
            }
            assert_eq!(call(&mut wire, "SCARD tags:{7}:1"), ":1400\r\n");
            assert_eq!(cluster.move_keys(resharding, 5).unwrap(), 5);
        }
        thread::scope(|scope| {
            let finished = scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                cluster.finish_reshard(resharding).unwrap();
            });
            assert_eq!(call(&mut wire, "SADD tags:{7}:1 new"), ":1\r\n");
            finished.join().unwrap();
        });
        assert_eq!(call(&mut wire, "SMEMBERS tags:{7}:1").matches("text").count(), 700);
        assert_eq!(
            call(&mut wire, "SMISMEMBER tags:{7}:1 1 700 text1 text700 new 701"),
            "*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n"
        );
        assert_eq!(call(&mut wire, "DEL tags:{7}:1"), ":1\r\n");
        eventually("nothing is left of it", || keys_in(&cluster, slot) == 0);
    });
}

#[test]
fn parts_that_are_nobodys_go_though_their_slot_moves_meanwhile() {
    each(&newest_and_others().0, |binary| {
        let (cluster, _proxy, mut wire, slot) = stage_with_one_in_parts(binary);
        let resharding = cluster.begin_reshard(slot, (cluster.owner(slot).unwrap() + 1) % 3).unwrap();
        let keys = keys_in(&cluster, slot);
        assert_eq!(cluster.move_keys(resharding, 3).unwrap(), 3);
        assert_eq!(call(&mut wire, "DEL tags:{7}:1"), ":1\r\n");
        thread::sleep(Duration::from_secs(3));
        assert_eq!(keys_in(&cluster, slot), keys - 1, "who can't see all of it leaves it, and only the bucket is gone");
        cluster.finish_reshard(resharding).unwrap();
        eventually("nothing is left of it", || keys_in(&cluster, slot) == 0);
    });
}

/// So many that their answer goes out while it comes from the node.
#[test]
fn all_members_are_listed_before_and_while_their_slot_moves() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary);
        let (mut wire, key) = (connect(&proxy), "tags:{7}:1");
        let members: Members = (0..6000).map(|number| format!("member-{number:020}")).collect();
        for some in members.iter().cloned().collect::<Vec<_>>().chunks(500) {
            assert_eq!(call(&mut wire, &format!("SADD {key} {}", some.join(" "))), ":500\r\n");
        }
        let check = |wire: &mut Wire| {
            let found = wire.ask(&[b"SMEMBERS", key.as_bytes()]).unwrap();
            let found = found.elements().unwrap().iter().filter_map(Value::bytes);
            assert!(found.map(|member| String::from_utf8(member.to_vec()).unwrap()).collect::<Members>() == members);
            assert_eq!(call(wire, "PING"), "+PONG\r\n");
        };
        check(&mut wire);
        let slot = slot_of(key.as_bytes());
        let resharding = cluster.begin_reshard(slot, (cluster.owner(slot).unwrap() + 1) % 3).unwrap();
        while cluster.move_keys(resharding, 100).unwrap() > 0 {}
        cluster.finish_reshard(resharding).unwrap();
        // The map that it has is not the cluster's any more.
        check(&mut wire);
    });
}

/// What a script does to the first of its sets, and to the second.
struct Script {
    text: &'static str,
    keys: &'static [u8],
    does: fn(&mut Members, &mut Members),
}

type Members = BTreeSet<String>;

const SCRIPTS: [Script; 3] = [
    Script {
        text: "for i = 1, 30 do redis.call('SMOVE', KEYS[1], KEYS[2], i) end return 'done'",
        keys: b"2",
        does: |from, to| to.extend((1..=30).filter_map(|number| from.take(&number.to_string()))),
    },
    Script {
        text: "for i = 1, 100 do redis.call('SADD', KEYS[1], 'text' .. i, i) end return 'done'",
        keys: b"1",
        does: |set, _| set.extend(numbers_and_texts(100)),
    },
    Script {
        text: "redis.call('RENAME', KEYS[1], KEYS[2]) return 'done'",
        keys: b"2",
        does: |from, to| *to = std::mem::take(from),
    },
];

fn numbers_and_texts(count: usize) -> impl Iterator<Item = String> {
    (1..=count).flat_map(|number| [number.to_string(), format!("text{number}")])
}

/// They move members of sets, make large ones of small ones, and rename them, where some of the parts and of the buckets are at
/// another node.
#[test]
fn scripts_do_all_or_nothing_while_the_slot_moves() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary);
        let mut wire = connect(&proxy);
        // No two lie in one bucket; every second one is large.
        let name = |number: usize| format!("tags:{{7}}:{}", 1 + 16 * number);
        let mut sets: Vec<Members> = Vec::new();
        for number in 0..12 {
            let members: Members = numbers_and_texts(if number % 2 == 0 { 150 } else { 2 }).collect();
            let joined = members.iter().cloned().collect::<Vec<_>>().join(" ");
            assert_eq!(call(&mut wire, &format!("SADD {} {joined}", name(number))), format!(":{}\r\n", members.len()));
            sets.push(members);
        }
        let slot = slot_of(name(0).as_bytes());
        let resharding = cluster.begin_reshard(slot, (cluster.owner(slot).unwrap() + 1) % 3).unwrap();
        let (mut done, mut refused) = ([0; 3], [0; 3]);
        for round in 0.. {
            for (at, Script { text, keys, does }) in SCRIPTS.iter().enumerate() {
                // From a large one to a small one, or the small one alone.
                let (from, to) = (2 * (round % 6) + at % 2, 2 * (round % 6) + 1 - at % 2);
                let [first, second] = [from, to].map(name);
                let mut words = vec![&b"EVAL"[..], text.as_bytes(), keys, first.as_bytes()];
                if *keys == b"2" {
                    words.push(second.as_bytes());
                }
                match wire.ask(&words).unwrap() {
                    Value::Bulk(word) if word == b"done" => {
                        done[at] += 1;
                        let [from, to] = sets.get_disjoint_mut([from, to]).unwrap();
                        does(from, to);
                    }
                    Value::Error(_) => refused[at] += 1,
                    other => panic!("{other:?}"),
                }
            }
            if cluster.move_keys(resharding, 4).unwrap() == 0 {
                break;
            }
        }
        cluster.finish_reshard(resharding).unwrap();
        for (number, members) in sets.iter().enumerate() {
            let found = wire.ask(&[b"SMEMBERS", name(number).as_bytes()]).unwrap();
            let found = found.elements().unwrap().iter().filter_map(Value::bytes);
            let found: Members = found.map(|member| String::from_utf8(member.to_vec()).unwrap()).collect();
            assert_eq!(found, *members, "{}", name(number));
        }
        // What goes by the bucket alone is carried out wherever that is.
        assert!(refused[0] > 0 && refused[1] == 0 && done[1] > 0, "{done:?} {refused:?}");
    });
}
