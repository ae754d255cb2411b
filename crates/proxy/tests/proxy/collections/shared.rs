//! Sets and hashes that many clients write at once through two keyfolds. Each knows its own members, so that in the end all that
//! are to be there are known: none is lost, and none was made up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use keyfold_proxy::Handle;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Value, Wire, found};

use super::LAYOUT;
use crate::relay::Relay;
use crate::stage::{address, call, config_behind, eventually, proxy_before, serve, start_server};
use keyfold_core::layout::Layout;

/// Two sets, of which one is spilled, and two hashes of one bucket; the last is a set of its own.
const KEYS: [&str; 5] = ["tags:1", "tags:100", "sess:1", "sess:2", "plain"];
const CLIENTS: usize = 6;
/// Own members of each client in each key.
const OWN: u64 = 25;

/// What one client knows: members by key that are there, and those of which nobody knows.
#[derive(Default)]
struct Known {
    there: BTreeMap<&'static str, BTreeSet<String>>,
    unknown: BTreeMap<&'static str, BTreeSet<String>>,
    errors: BTreeSet<String>,
}

/// What all clients share.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    answered: [AtomicUsize; CLIENTS],
    /// What each has asked last.
    asked: [Mutex<String>; CLIENTS],
    counted: AtomicI64,
    perhaps_counted: AtomicI64,
}

struct Client<'a> {
    number: usize,
    random: Random,
    addresses: &'a [std::net::SocketAddr],
    wire: Option<Wire>,
    known: Known,
    shared: &'a Shared,
}

impl Client<'_> {
    fn work(mut self) -> Known {
        while !self.shared.over.load(Ordering::Acquire) {
            match self.random.below(10) {
                0 => self.count(),
                1 | 2 => self.carry(),
                _ => self.turn(),
            }
        }
        self.known
    }

    /// Asks, by a new connection where there is none; none where nobody knows what became of it.
    fn ask(&mut self, lines: &[String]) -> Option<String> {
        let address = self.addresses[self.random.index(self.addresses.len())];
        if self.wire.is_none() {
            self.wire = Wire::connect(address).ok();
        }
        let mut said = String::new();
        for line in lines {
            self.shared.asked[self.number].lock().unwrap().clone_from(line);
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let reply = self.wire.as_mut()?.call(&args).ok();
            said = reply.map(|reply| String::from_utf8(reply).unwrap()).unwrap_or_default();
            if said.is_empty() || said.starts_with('-') {
                self.known.errors.extend((!said.is_empty()).then(|| said.trim_end().to_owned()));
                // What comes behind goes by what didn't happen.
                self.wire = None;
                return None;
            }
        }
        self.shared.answered[self.number].fetch_add(1, Ordering::Relaxed);
        Some(said)
    }

    fn own(&mut self) -> (&'static str, String) {
        let key = *self.random.pick(&KEYS);
        let member = self.random.below(OWN);
        // Integers, texts, and long ones in the set that is spilled.
        let member = match (key, member % 3) {
            ("tags:100", 0) => format!("{:040}x{member}", self.number),
            (_, 1) => format!("c{}:{member}", self.number),
            _ => (self.number as u64 * 1000 + member).to_string(),
        };
        (key, member)
    }

    fn is_unknown(&self, key: &str, member: &str) -> bool {
        self.known.unknown.get(key).is_some_and(|members| members.contains(member))
    }

    fn lose(&mut self, key: &'static str, member: &str) {
        self.known.there.entry(key).or_default().remove(member);
        self.known.unknown.entry(key).or_default().insert(member.to_owned());
    }

    /// Adds a member of its own, or removes it, alone or in a transaction.
    fn turn(&mut self) {
        let (key, member) = self.own();
        if self.is_unknown(key, &member) {
            return;
        }
        let is_there = self.known.there.entry(key).or_default().contains(&member);
        let command = match (key.starts_with("sess"), is_there) {
            (true, true) => format!("HDEL {key} {member}"),
            (true, false) => format!("HSET {key} {member} {}", self.random.below(100_000)),
            (false, true) => format!("SREM {key} {member}"),
            (false, false) => format!("SADD {key} {member}"),
        };
        let (lines, expected) = match self.random.below(6) {
            0 => (vec!["MULTI".to_owned(), command.clone(), "EXEC".to_owned()], "*1\r\n:1\r\n"),
            _ => (vec![command.clone()], ":1\r\n"),
        };
        match self.ask(&lines) {
            Some(said) => {
                assert_eq!(said, expected, "{command}");
                let there = self.known.there.entry(key).or_default();
                if is_there {
                    there.remove(&member)
                } else {
                    there.insert(member)
                };
            }
            None => self.lose(key, &member),
        }
    }

    /// Moves a member of its own from one set to another.
    fn carry(&mut self) {
        let (from, member) = self.own();
        let to = if from == "tags:1" { "plain" } else { "tags:1" };
        let is_there =
            |client: &Self, key: &str| client.known.there.get(key).is_some_and(|members| members.contains(&member));
        if from.starts_with("sess") || !is_there(self, from) || is_there(self, to) || self.is_unknown(to, &member) {
            return;
        }
        match self.ask(&[format!("SMOVE {from} {to} {member}")]) {
            Some(said) => {
                assert_eq!(said, ":1\r\n", "SMOVE {from} {to} {member}");
                self.known.there.entry(from).or_default().remove(&member);
                self.known.there.entry(to).or_default().insert(member);
            }
            None => [from, to].into_iter().for_each(|key| self.lose(key, &member)),
        }
    }

    /// Counts up what all count up, by HINCRBY or by WATCH.
    fn count(&mut self) {
        let shared = self.shared;
        shared.perhaps_counted.fetch_add(1, Ordering::AcqRel);
        let said = if self.random.chance(50) {
            self.ask(&["HINCRBY sess:1 all 1".to_owned()])
        } else {
            let read = self.ask(&["WATCH sess:1".to_owned(), "HGET sess:1 all".to_owned()]);
            let next =
                read.as_deref().map(|read| read.lines().nth(1).map_or(1, |count| count.parse::<i64>().unwrap() + 1));
            next.and_then(|next| self.ask(&["MULTI".to_owned(), format!("HSET sess:1 all {next}"), "EXEC".to_owned()]))
        };
        if let Some(said) = said {
            shared.perhaps_counted.fetch_sub(1, Ordering::AcqRel);
            shared.counted.fetch_add(i64::from(said != "*-1\r\n"), Ordering::AcqRel);
        }
    }
}

/// Lets clients write through these keyfolds while `body` does its part, which may wait until all have gone on; and checks
/// what is there in the end. The errors that they met.
fn write_through(proxies: &[&Handle], body: impl FnOnce(&dyn Fn())) -> BTreeSet<String> {
    struct EndOnDrop<'a>(&'a Shared);
    impl Drop for EndOnDrop<'_> {
        fn drop(&mut self) {
            if thread::panicking() {
                eprintln!(
                    "how often each was answered: {:?}, and what it has asked last: {:?}",
                    self.0.answered, self.0.asked
                );
            }
            self.0.over.store(true, Ordering::Release);
        }
    }
    let addresses: Vec<_> = proxies.iter().map(|proxy| address(proxy)).collect();
    let shared = Shared::default();
    let all_go_on = || {
        let before = shared.answered.each_ref().map(|count| count.load(Ordering::Relaxed));
        eventually("all clients go on", || {
            shared.answered.iter().zip(&before).all(|(count, before)| count.load(Ordering::Relaxed) > before + 20)
        });
    };
    let all: Vec<Known> = thread::scope(|scope| {
        let over = EndOnDrop(&shared);
        let clients = (0..CLIENTS).map(|number| {
            let (random, known) = (Random::new(number as u64), Known::default());
            let client = Client { number, random, addresses: &addresses, wire: None, known, shared: &shared };
            scope.spawn(|| client.work())
        });
        let clients: Vec<_> = clients.collect();
        all_go_on();
        body(&all_go_on);
        all_go_on();
        drop(over);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    check(&addresses, &all, &shared);
    all.into_iter().flat_map(|known| known.errors).collect()
}

/// What is there is what the clients know.
fn check(addresses: &[std::net::SocketAddr], all: &[Known], shared: &Shared) {
    for at in addresses {
        let mut wire = Wire::connect(at).unwrap();
        for key in KEYS {
            let of = |members: &BTreeMap<&str, BTreeSet<String>>| members.get(key).cloned().unwrap_or_default();
            let there: BTreeSet<String> = all.iter().flat_map(|known| of(&known.there)).collect();
            let perhaps: BTreeSet<String> = all.iter().flat_map(|known| of(&known.unknown)).collect();
            let (read, count) = if key.starts_with("sess") { ("HKEYS", "HLEN") } else { ("SMEMBERS", "SCARD") };
            let found = wire.ask(&[read.as_bytes(), key.as_bytes()]).unwrap();
            let texts = found.elements().unwrap().iter().filter_map(Value::bytes);
            let texts: Vec<String> = texts.map(|text| String::from_utf8(text.to_vec()).unwrap()).collect();
            assert_eq!(call(&mut wire, &format!("{count} {key}")), format!(":{}\r\n", texts.len()), "{key}");
            let found: BTreeSet<String> = texts.into_iter().filter(|text| text != "all").collect();
            let lost: Vec<_> = there.difference(&found).collect();
            let made_up: Vec<_> =
                found.iter().filter(|text| !there.contains(*text) && !perhaps.contains(*text)).collect();
            assert!(lost.is_empty() && made_up.is_empty(), "{key}: lost {lost:?}, made up {made_up:?}");
        }
        let least = shared.counted.load(Ordering::Acquire);
        let most = least + shared.perhaps_counted.load(Ordering::Acquire);
        let said = call(&mut wire, "HGET sess:1 all");
        let count: i64 = said.lines().nth(1).unwrap().parse().unwrap();
        assert!((least..=most).contains(&count), "{least} to {most} counted, found {count}");
    }
}

#[test]
fn all_members_that_two_keyfolds_write_are_there() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxies = [proxy_before(&server, LAYOUT), proxy_before(&server, LAYOUT)];
        let errors = write_through(&[&proxies[0], &proxies[1]], |all_go_on| (0..5).for_each(|_| all_go_on()));
        assert!(errors.is_empty(), "{}: {errors:?}", server.name());
    }
}

#[test]
fn scripts_and_keyfolds_own_keys_go_again_and_again() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let proxies = [proxy_before(&server, LAYOUT), proxy_before(&server, LAYOUT)];
    let mut direct = server.connect().unwrap();
    let errors = write_through(&[&proxies[0], &proxies[1]], |all_go_on| {
        for round in 0..4 {
            call(&mut direct, "SCRIPT FLUSH");
            let before = proxies[0].layout().epoch();
            let keys = if round % 2 == 0 {
                "keyfold:{home}:layout keyfold:{home}:layout:copy"
            } else {
                "keyfold:{home}:layout"
            };
            call(&mut direct, &format!("DEL {keys}"));
            eventually("it is put back", || call(&mut direct, "EXISTS keyfold:{home}:layout") == ":1\r\n");
            if round % 2 == 0 {
                eventually("both go by it", || proxies.iter().all(|proxy| proxy.layout().epoch() > before));
            }
            all_go_on();
        }
    });
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn connections_are_cut_and_the_server_stands_still() {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let mut config = config_behind(&relay, &server);
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    let one = serve(&server, config);
    let other = proxy_before(&server, LAYOUT);
    let errors = write_through(&[&one, &other], |all_go_on| {
        for _ in 0..6 {
            relay.lines().iter().for_each(|line| line.cut());
            thread::sleep(Duration::from_millis(30));
            all_go_on();
            server.hang().unwrap();
            thread::sleep(Duration::from_millis(100));
            server.wake().unwrap();
        }
    });
    assert!(errors.iter().all(|error| error.starts_with("-ERR keyfold: the ")), "{errors:?}");
}

#[test]
fn a_keyfold_dies_and_the_server_begins_anew_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let args = ["--appendonly", "yes", "--appendfsync", "always", "--dir", dir];
    let mut server = start_server(&args);
    let one = proxy_before(&server, LAYOUT);
    let mut other = Some(proxy_before(&server, LAYOUT));
    let gone = address(other.as_ref().unwrap());
    write_through(&[&one], |all_go_on| {
        // Its client's members are nobody's but may be there: it writes others than all the rest.
        let mut wire = Wire::connect(gone).unwrap();
        (0..50).for_each(|at| drop(call(&mut wire, &format!("SADD tags:2 {at}"))));
        drop(other.take());
        all_go_on();
        server.kill();
        server.restart().unwrap();
        all_go_on();
    });
    let mut wire = Wire::connect(address(&one)).unwrap();
    assert_eq!(call(&mut wire, "SCARD tags:2"), ":50\r\n");
}
