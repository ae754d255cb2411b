//! Sets and hashes that an application split by hand become one each, step by step as `docs/sources.md` has it, while the
//! application goes on by the rules that it has there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use keyfold_testkit::{Server, Value, Wire, found};
use tempfile::TempDir;

use super::program::{Proxy, fold, keyfold, names, write_layout};

const LAYOUT: &str = "[[namespace]]\nkeys = 'followers:{id:int}'\ntype = 'set'\nbucket = { count = 2 }\n\
     [[namespace]]\nkeys = 'cart:{id:int}'\ntype = 'hash'\nbucket = { count = 2 }\n";

const KEYS: u64 = 3;
const PARTITIONS: u64 = 8;
const MEMBERS: u64 = 600;
const WRITERS: u64 = 3;
/// What each writer does at least, before the keys are joined and after.
const ROUNDS: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Set,
    Hash,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Set => "followers",
            Self::Hash => "cart",
        }
    }

    fn key(self, key: u64) -> String {
        format!("{}:{key}", self.name())
    }

    fn partition(self, key: u64, number: u64) -> String {
        format!("{}:{key}:{number}", self.name())
    }
}

/// The application's own hash of a member.
fn number_of(member: u64) -> u64 {
    member.wrapping_mul(2_654_435_761) / 7 % PARTITIONS
}

/// What a writer's members hold; of a set, nothing.
type Held = BTreeMap<(u64, u64), String>;

/// One of the application's processes, which alone writes its members.
struct Writer {
    wire: Wire,
    kind: Kind,
    number: u64,
    held: Held,
}

impl Writer {
    /// Sends both commands in one transaction.
    fn both(&mut self, first: &[&str], second: &[&str]) -> Vec<Value> {
        let commands = [first, second].map(|command| command.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        let Value::Array(replies) = self.wire.transact(&[&commands[0], &commands[1]]).unwrap() else {
            panic!("{first:?} {second:?}")
        };
        assert!(!replies.iter().any(Value::is_error), "{first:?} {second:?}: {replies:?}");
        replies
    }

    /// A read, a removal or an addition. `to_partitions` is the first of the two releases, which adds where all lies still.
    fn act(&mut self, round: u64, to_partitions: bool) {
        let (kind, key) = (self.kind, round % KEYS);
        let member = (round.wrapping_mul(7_919) / 3 % (MEMBERS / WRITERS)) * WRITERS + self.number;
        let (name, partition) = (kind.key(key), kind.partition(key, number_of(member)));
        let text = member.to_string();
        let held = self.held.get(&(key, member)).cloned();
        let ones = |replies: &[Value]| replies.iter().filter_map(Value::integer).sum::<i64>();
        match (round % 3, kind) {
            (0, Kind::Set) => {
                let replies = self.both(&["SISMEMBER", &partition, &text], &["SISMEMBER", &name, &text]);
                assert_eq!(ones(&replies) > 0, held.is_some(), "{name} {text}: {replies:?}");
            }
            (0, Kind::Hash) => {
                let replies = self.both(&["HGET", &partition, &text], &["HGET", &name, &text]);
                let found = replies.iter().find_map(Value::bytes);
                assert_eq!(found, held.as_deref().map(str::as_bytes), "{name} {text}: {replies:?}");
            }
            (1, _) => {
                let remove = if kind == Kind::Set { "SREM" } else { "HDEL" };
                let replies = self.both(&[remove, &name, &text], &[remove, &partition, &text]);
                assert_eq!(ones(&replies) > 0, held.is_some(), "{name} {text}: {replies:?}");
                self.held.remove(&(key, member));
            }
            (_, Kind::Set) => {
                let (to, from) = if to_partitions { (&partition, &name) } else { (&name, &partition) };
                let replies = self.both(&["SADD", to, &text], &["SREM", from, &text]);
                let is_new = replies[0].integer() == Some(1) && replies[1].integer() == Some(0);
                assert_eq!(is_new, held.is_none(), "{name} {text}: {replies:?}");
                self.held.insert((key, member), String::new());
            }
            (_, Kind::Hash) => {
                let (to, from) = if to_partitions { (&partition, &name) } else { (&name, &partition) };
                let value = format!("{round}");
                let replies = self.both(&["HSET", to, &text, &value], &["HDEL", from, &text]);
                let is_new = replies[0].integer() == Some(1) && replies[1].integer() == Some(0);
                assert_eq!(is_new, held.is_none(), "{name} {text}: {replies:?}");
                self.held.insert((key, member), value);
            }
        }
    }
}

/// What the application had written before there was a keyfold.
fn fill(wire: &mut Wire, kind: Kind) -> Held {
    let mut held = Held::new();
    for (key, member) in (0..KEYS).flat_map(|key| (0..MEMBERS).map(move |member| (key, member))) {
        if (key + member) % 3 == 0 {
            continue;
        }
        let (partition, text) = (kind.partition(key, number_of(member)), member.to_string());
        let value = if kind == Kind::Set { String::new() } else { format!("value {member}") };
        let command: &[&[u8]] = match kind {
            Kind::Set => &[b"SADD", partition.as_bytes(), text.as_bytes()],
            Kind::Hash => &[b"HSET", partition.as_bytes(), text.as_bytes(), value.as_bytes()],
        };
        assert_eq!(wire.call(command).unwrap(), b":1\r\n");
        held.insert((key, member), value);
    }
    held
}

/// The union under the key, and then out of each partition what the union has.
fn join_sets(wire: &mut Wire) {
    for key in 0..KEYS {
        let name = Kind::Set.key(key);
        let partitions: Vec<String> = (0..PARTITIONS).map(|number| Kind::Set.partition(key, number)).collect();
        let words = ["SUNIONSTORE", &name, &name].into_iter().chain(partitions.iter().map(String::as_str));
        let command: Vec<&[u8]> = words.map(str::as_bytes).collect();
        assert!(wire.ask(&command).unwrap().integer().is_some());
        for partition in partitions.iter().map(String::as_bytes) {
            let left = wire.ask(&[b"SDIFFSTORE", partition, partition, name.as_bytes()]).unwrap();
            assert_eq!(left.integer(), Some(0), "nobody adds to a partition any more");
        }
    }
}

/// Each partition's fields in one transaction, which does nothing where one of them was written meanwhile; how often that was so.
fn join_hashes(wire: &mut Wire) -> u64 {
    let mut again = 0;
    for (key, number) in (0..KEYS).flat_map(|key| (0..PARTITIONS).map(move |number| (key, number))) {
        let (name, partition) = (Kind::Hash.key(key), Kind::Hash.partition(key, number));
        let (name, partition) = (name.as_bytes(), partition.as_bytes());
        loop {
            assert_eq!(wire.call(&[b"WATCH", partition]).unwrap(), b"+OK\r\n");
            let Value::Array(pairs) = wire.ask(&[b"HGETALL", partition]).unwrap() else { panic!("it is a hash") };
            if pairs.is_empty() {
                wire.call(&[b"UNWATCH"]).unwrap();
                break;
            }
            let pairs: Vec<&[u8]> = pairs.iter().filter_map(Value::bytes).collect();
            let fields: Vec<&[u8]> = [b"HMGET", name].into_iter().chain(pairs.iter().copied().step_by(2)).collect();
            let Value::Array(there) = wire.ask(&fields).unwrap() else { panic!("it is a hash") };
            // One that was written under the key since the partition was read is out of the partition by now.
            let is_there = there.iter().any(|value| *value != Value::Nil);
            let write: Vec<&[u8]> = [b"HSET", name].into_iter().chain(pairs.iter().copied()).collect();
            if !is_there {
                match wire.transact(&[&write, &[b"UNLINK", partition]]).unwrap() {
                    Value::Array(replies) => {
                        assert_eq!(replies[0].integer(), i64::try_from(pairs.len() / 2).ok());
                        break;
                    }
                    refused => assert!(matches!(refused, Value::NilArray | Value::Nil), "{refused:?}"),
                }
            } else {
                wire.call(&[b"UNWATCH"]).unwrap();
            }
            again += 1;
        }
    }
    again
}

/// What is under the keys alone.
fn read_all(wire: &mut Wire, kind: Kind) -> Held {
    let mut held = Held::new();
    for key in 0..KEYS {
        let (read, step): (&[u8], usize) = if kind == Kind::Set { (b"SMEMBERS", 1) } else { (b"HGETALL", 2) };
        let Value::Array(all) = wire.ask(&[read, kind.key(key).as_bytes()]).unwrap() else { panic!("it is there") };
        let text = |value: &Value| String::from_utf8(value.bytes().unwrap().to_vec()).unwrap();
        for item in all.chunks(step) {
            let value = item.get(1).map(text).unwrap_or_default();
            assert_eq!(held.insert((key, text(&item[0]).parse().unwrap()), value), None);
        }
    }
    held
}

/// All steps, with writers that check each answer.
fn taken_over(server: &Server, kind: Kind) {
    let mut wire = server.connect().unwrap();
    let held = fill(&mut wire, kind);
    let proxy = Proxy::start(server);
    let dir = TempDir::new().unwrap();
    let ran = fold(server, &write_layout(dir.path(), LAYOUT), &[]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    // Some are the first release still, which the second goes beside; and then all are the second.
    let (begun, is_joined) = (AtomicU64::new(0), AtomicBool::new(false));
    let written = thread::scope(|scope| {
        let work = |number: u64| {
            let held = held.iter().filter(|((_, member), _)| member % WRITERS == number);
            let held = held.map(|(member, value)| (*member, value.clone())).collect();
            let mut writer = Writer { wire: proxy.connect(), kind, number, held };
            let mut round = number;
            let mut after = 0;
            while after < ROUNDS {
                writer.act(round, number == 0 && round < ROUNDS);
                round += 1;
                if round == ROUNDS {
                    begun.fetch_add(1, Ordering::SeqCst);
                }
                after += u64::from(is_joined.load(Ordering::SeqCst));
            }
            writer.held
        };
        let writers: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || work(number))).collect();
        while begun.load(Ordering::SeqCst) < WRITERS && !writers.iter().any(thread::ScopedJoinHandle::is_finished) {
            thread::yield_now();
        }
        let mut through = proxy.connect();
        match kind {
            Kind::Set => join_sets(&mut through),
            Kind::Hash => drop(join_hashes(&mut through)),
        }
        is_joined.store(true, Ordering::SeqCst);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Held>()
    });
    let what = format!("{} {kind:?}", server.name());
    assert_eq!(names(&mut wire, &format!("{}:*", kind.name())), 0, "{what}: nothing is left beside the buckets");
    assert!(read_all(&mut proxy.connect(), kind) == written, "{what}");
    let verified = keyfold(&["verify", &server.url(), "--skip-encodings"]);
    assert_eq!(verified.code, Some(0), "{what}: {}{}", verified.stdout, verified.stderr);
}

#[test]
fn sets_become_one_while_the_application_goes_on() {
    for binary in found() {
        taken_over(&binary.start(&[]).unwrap(), Kind::Set);
    }
}

#[test]
fn hashes_become_one_while_the_application_goes_on() {
    for binary in found() {
        taken_over(&binary.start(&[]).unwrap(), Kind::Hash);
    }
}

/// What somebody adds to a partition all the same, between the union and its removal, stays there for the next time.
#[test]
fn a_member_that_comes_late_is_not_lost() {
    let Some(binary) = found().pop() else { return };
    let server = binary.start(&[]).unwrap();
    let proxy = Proxy::start(&server);
    let dir = TempDir::new().unwrap();
    assert_eq!(fold(&server, &write_layout(dir.path(), LAYOUT), &[]).code, Some(0));
    let (mut wire, mut through) = (server.connect().unwrap(), proxy.connect());
    let mut joined = |late: bool| {
        let union: [&[u8]; 5] = [b"SUNIONSTORE", b"followers:1", b"followers:1", b"followers:1:0", b"followers:1:1"];
        let members = through.ask(&union).unwrap().integer().unwrap();
        if late {
            assert_eq!(wire.call(&[b"SADD", b"followers:1:1", b"late"]).unwrap(), b":1\r\n");
        }
        let left = [b"followers:1:0", b"followers:1:1"].map(|partition| {
            through.ask(&[b"SDIFFSTORE", partition, partition, b"followers:1"]).unwrap().integer().unwrap()
        });
        (members, left)
    };
    assert_eq!(joined(false), (0, [0, 0]), "nothing there is nothing");
    let mut plain = server.connect().unwrap();
    plain.call(&[b"SADD", b"followers:1:0", b"a", b"b"]).unwrap();
    plain.call(&[b"SADD", b"followers:1:1", b"c"]).unwrap();
    assert_eq!(joined(true), (3, [0, 1]));
    assert_eq!(joined(false), (4, [0, 0]));
    assert_eq!(names(&mut plain, "followers:*"), 0);
}
