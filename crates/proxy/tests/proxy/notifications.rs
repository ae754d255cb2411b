//! Subscribers hear what happens to folded keys by their own names, whichever keyfold does it and however they listen.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use keyfold_proxy::Handle;
use keyfold_testkit::{Server, Value, Wire};

use crate::stage::{ALL_WAYS, address, call, change_layout, eventually, proxy_before, start_server};

const FENCE: &str = "fence";

/// How many subscribers there were.
static EARS: AtomicU64 = AtomicU64::new(0);

/// A subscriber of all that happens to keys.
struct Ear {
    wire: Wire,
    speaker: Wire,
    id: u64,
    fences: u32,
}

impl Ear {
    /// Subscribes at a keyfold or a server, in this protocol.
    fn at(address: SocketAddr, protocol: u8) -> Self {
        let (mut wire, speaker) = (Wire::connect(address).unwrap(), Wire::connect(address).unwrap());
        call(&mut wire, &format!("HELLO {protocol}"));
        call(&mut wire, "PSUBSCRIBE __key*");
        call(&mut wire, &format!("SUBSCRIBE {FENCE}"));
        Self { wire, speaker, id: EARS.fetch_add(1, Ordering::Relaxed), fences: 0 }
    }

    /// What it has heard since it was asked last: channels and messages.
    fn heard(&mut self) -> Vec<String> {
        self.fences += 1;
        let fence = format!("{}:{}", self.id, self.fences);
        call(&mut self.speaker, &format!("PUBLISH {FENCE} {fence}"));
        let mut heard = Vec::new();
        loop {
            let message = Value::parse(&self.wire.reply().unwrap()).unwrap();
            let (Value::Array(parts) | Value::Push(parts)) = &message else { panic!("{message:?}") };
            let parts: Vec<_> = parts.iter().map(|part| part.bytes().unwrap().escape_ascii().to_string()).collect();
            match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["message", FENCE, said] if said == fence => return heard,
                // Another's.
                ["message", FENCE, _] => {}
                ["pmessage", "__key*", channel, message] => heard.push(format!("{channel} {message}")),
                _ => panic!("{parts:?}"),
            }
        }
    }

    /// The same of the channels of events alone.
    fn events(&mut self) -> Vec<String> {
        let of_event = |heard: String| heard.strip_prefix("__keyevent@0__:").map(str::to_owned);
        self.heard().into_iter().filter_map(of_event).collect()
    }
}

/// Two keyfolds before a server that publishes this, as both know.
fn two(setting: &str) -> (Server, Handle, Handle) {
    let server = start_server(&[]);
    let (one, other) = (proxy_before(&server, ALL_WAYS), proxy_before(&server, ALL_WAYS));
    let mut wire = Wire::connect(address(&one)).unwrap();
    assert_eq!(call(&mut wire, "CONFIG SET notify-keyspace-events KEA"), "+OK\r\n");
    let (mut ear, mut wire) = (Ear::at(address(&one), 2), Wire::connect(address(&other)).unwrap());
    eventually("the other keyfold publishes", || {
        call(&mut wire, "SET user:0 v");
        call(&mut wire, "DEL user:0");
        !ear.heard().is_empty()
    });
    // Whoever sets it goes by it at once.
    for proxy in [&one, &other] {
        let mut wire = Wire::connect(address(proxy)).unwrap();
        assert_eq!(call(&mut wire, &format!("CONFIG SET notify-keyspace-events {setting}")), "+OK\r\n");
    }
    (server, one, other)
}

#[test]
fn names_are_the_clients_whatever_lies_where() {
    let (server, one, other) = two("KEA");
    let mut ears = [Ear::at(address(&one), 2), Ear::at(address(&one), 3), Ear::at(address(&other), 2)];
    let mut plain_ear = Ear::at(server.address(), 2);
    for (turn, proxy) in [&one, &other].into_iter().enumerate() {
        let mut wire = Wire::connect(address(proxy)).unwrap();
        for key in ["user:1", "cart:1", "zip:1", "own:1", "plain"] {
            call(&mut wire, &format!("SET {key} {} EX 1000", "ab".repeat(30)));
            call(&mut wire, &format!("DEL {key}"));
            let expected: Vec<String> = ["set", "expire", "del"]
                .iter()
                .flat_map(|event| [format!("__keyspace@0__:{key} {event}"), format!("__keyevent@0__:{event} {key}")])
                .collect();
            for ear in &mut ears {
                assert_eq!(ear.heard(), expected, "{key}, {turn}");
            }
            // Who listens past keyfold hears the same, and what becomes of buckets besides.
            let all = plain_ear.heard();
            let of_key: Vec<_> =
                all.iter().filter(|heard| heard.contains(key) && !heard.contains('~')).cloned().collect();
            assert_eq!(of_key, expected, "{all:?}");
        }
    }
}

/// What isn't moved yet lies in buckets, of which the server tells nobody.
#[test]
fn what_goes_while_keys_are_moved_back_is_told() {
    let server = start_server(&[]);
    let proxy = proxy_before(&server, ALL_WAYS);
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    assert_eq!(call(&mut wire, "CONFIG SET notify-keyspace-events EA"), "+OK\r\n");
    for id in 1..8 {
        call(&mut wire, &format!("SET user:{id} v"));
        call(&mut wire, &format!("SET zip:{id} v"));
    }
    let before = proxy.layout();
    let next = before.plan_unfold(&before.iter().map(|(index, _)| index).collect::<Vec<_>>()).unwrap().layout;
    change_layout(&server, &before, &next);
    eventually("the layout is adopted", || proxy.layout().epoch() == next.epoch());
    let mut ear = Ear::at(address(&proxy), 3);
    for (commands, expected) in [
        (&["DEL user:1"][..], &["del user:1"][..]),
        (&["UNLINK user:2"], &["del user:2"]),
        (&["GETDEL user:3"], &["del user:3"]),
        (&["PEXPIRE user:4 -1"], &["del user:4"]),
        (&["MULTI", "DEL user:5", "EXEC"], &["del user:5"]),
        // In its new place it is the server's to tell.
        (&["SET user:6 w", "DEL user:6"], &["set user:6", "del user:6"]),
        (&["DEL zip:1"], &["del zip:1"]),
        (&["GETDEL zip:2"], &["del zip:2"]),
        (&["DEL user:99"], &[]),
    ] {
        for command in commands {
            let answer = call(&mut wire, command);
            assert!(!answer.starts_with('-'), "{command}: {answer}");
        }
        assert_eq!(ear.events(), expected, "{commands:?}");
    }
}

#[test]
fn transactions_and_scripts_tell_what_they_did() {
    let (_server, one, other) = two("EA");
    let (mut ear, mut wire) = (Ear::at(address(&other), 3), Wire::connect(address(&one)).unwrap());
    for (commands, expected) in [
        (
            &["MULTI", "SET user:1 1", "INCR user:1", "RENAME user:1 cart:1", "EXEC"][..],
            &["set user:1", "incrby user:1", "rename_from user:1", "rename_to cart:1"][..],
        ),
        // A list in it: what is folded is written beside it.
        (
            &["MULTI", "LPUSH list a", "APPEND cart:1 x", "DEL cart:1", "EXEC"],
            &["lpush list", "append cart:1", "del cart:1"],
        ),
        (
            &["MULTI", "SET user:1 1", "DISCARD", "WATCH user:1", "SET user:1 2", "MULTI", "DEL user:1", "EXEC"],
            &["set user:1"],
        ),
        (
            &["EVAL redis.call('SET',KEYS[1],'v','EX','100');redis.call('GETDEL',KEYS[1])return{} 1 zip:9"],
            &["set zip:9", "expire zip:9", "del zip:9"],
        ),
        // Options are read up to their first NUL.
        (&["EVAL redis.call('SET',KEYS[1],'v','GET\\0x')return{} 1 zip:10"], &["set zip:10"]),
        (
            &["MULTI", "EVAL return(redis.call('INCR',KEYS[1])) 1 user:8", "INCRBY user:8 3", "EXEC"],
            &["incrby user:8", "incrby user:8"],
        ),
    ] {
        for command in commands {
            let answer = call(&mut wire, command);
            assert!(!answer.starts_with('-'), "{command}: {answer}");
        }
        assert_eq!(ear.events(), expected, "{commands:?}");
    }
}

#[test]
fn what_expires_is_told_once() {
    let (server, one, other) = two("Ex");
    let mut ears = [Ear::at(address(&one), 2), Ear::at(address(&other), 3), Ear::at(server.address(), 2)];
    let mut wires = [&one, &other].map(|proxy| Wire::connect(address(proxy)).unwrap());
    let keys: Vec<String> = (0..40).flat_map(|id| ["user", "cart"].map(|kind| format!("{kind}:{id}"))).collect();
    for (index, key) in keys.iter().enumerate() {
        let value = if index % 3 == 0 { "ab".repeat(30) } else { "v".to_owned() };
        call(&mut wires[index % 2], &format!("SET {key} {value} PX 30"));
    }
    // Some are written again when they have expired, before or behind a sweep.
    let mut again = 0;
    eventually("some are seen to be gone", || {
        again = keys.iter().take(10).filter(|key| call(&mut wires[0], &format!("EXISTS {key}")) == ":0\r\n").count();
        again == 10
    });
    keys.iter().take(10).for_each(|key| drop(call(&mut wires[1], &format!("SET {key} v"))));
    let mut told = [(); 3].map(|()| BTreeMap::<String, u32>::new());
    let mut listen = || {
        for (ear, told) in ears.iter_mut().zip(&mut told) {
            for event in ear.events() {
                *told.entry(event.strip_prefix("expired ").unwrap().to_owned()).or_default() += 1;
            }
        }
        told.iter().all(|told| told.len() == keys.len())
    };
    eventually("all are told", &mut listen);
    // Both sweeps come by once more.
    let before = [&one, &other].map(swept);
    eventually("they have", || [&one, &other].map(swept) != before);
    listen();
    for told in told {
        assert!(told.values().all(|count| *count == 1), "{told:?}");
    }
}

/// How many fields its sweep has looked at.
fn swept(proxy: &Handle) -> String {
    let all = call(&mut Wire::connect(address(proxy)).unwrap(), "INFO keyfold");
    let line = all.lines().find_map(|line| line.strip_prefix("keyfold_sweep:")).unwrap();
    line.split(',').next().unwrap().to_owned()
}

#[test]
fn keys_of_their_own_expire_by_their_names() {
    let (_server, one, _other) = two("KEx");
    let mut wire = Wire::connect(address(&one)).unwrap();
    let mut ear = Ear::at(address(&one), 2);
    call(&mut wire, "SET zip:5 v PX 10");
    let mut heard = Vec::new();
    eventually("it expires", || {
        call(&mut wire, "GET zip:5");
        heard.extend(ear.heard());
        heard.len() >= 2
    });
    assert_eq!(heard, ["__keyspace@0__:zip:5 expired", "__keyevent@0__:expired zip:5"]);
}

#[test]
fn nothing_is_published_where_nothing_is_asked_for() {
    let server = start_server(&[]);
    let proxy = proxy_before(&server, ALL_WAYS);
    let (mut wire, mut direct) = (Wire::connect(address(&proxy)).unwrap(), server.connect().unwrap());
    let mut calls = |name: &str| {
        let stats = call(&mut direct, "INFO commandstats");
        stats.lines().any(|line| line.starts_with(&format!("cmdstat_{name}:")))
    };
    let mut write = || ["SET user:1 v", "DEL user:1", "SET zip:1 v"].map(|command| call(&mut wire, command));
    write();
    assert!(calls("hset") && !calls("publish") && !calls("evalsha"), "the quick ways are gone");
    for setting in ["KE", "A", "KEl"] {
        call(&mut Wire::connect(address(&proxy)).unwrap(), &format!("CONFIG SET notify-keyspace-events {setting}"));
        write();
        assert!(!calls("publish"), "{setting}");
    }
    call(&mut Wire::connect(address(&proxy)).unwrap(), "CONFIG SET notify-keyspace-events E$");
    write();
    assert!(calls("publish"));
}

#[test]
fn where_keyfold_may_not_publish_it_writes_all_the_same() {
    let (server, one, _other) = two("KEA");
    let mut direct = server.connect().unwrap();
    assert_eq!(call(&mut direct, "ACL SETUSER default -publish resetchannels"), "+OK\r\n");
    let mut wire = Wire::connect(address(&one)).unwrap();
    assert_eq!(call(&mut wire, "SET user:1 5"), "+OK\r\n");
    for (command, answer) in
        [("MULTI", "+OK"), ("LPUSH list a", "+QUEUED"), ("INCR user:1", "+QUEUED"), ("EXEC", "*2\r\n:1\r\n:6")]
    {
        assert_eq!(call(&mut wire, command), format!("{answer}\r\n"));
    }
    assert_eq!(call(&mut wire, "EVAL return(redis.call('INCR',KEYS[1])) 1 user:1"), ":7\r\n");
    assert_eq!(call(&mut wire, "GET user:1"), "$1\r\n7\r\n");
}

/// The header of a set in parts counts what its parts have.
#[test]
fn where_keyfold_may_not_publish_sets_in_parts_stay_whole() {
    let server = start_server(&[]);
    let layout = "[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 16 }\n";
    let proxy = proxy_before(&server, layout);
    let (mut wire, mut direct) = (Wire::connect(address(&proxy)).unwrap(), server.connect().unwrap());
    assert_eq!(call(&mut wire, "CONFIG SET notify-keyspace-events KEA"), "+OK\r\n");
    assert_eq!(call(&mut direct, "ACL SETUSER default resetchannels"), "+OK\r\n");
    let members = |from: u32| (from..from + 300).map(|number| format!("member{number}")).collect::<Vec<_>>().join(" ");
    assert_eq!(call(&mut wire, &format!("SADD tags:1 {}", members(0))), ":300\r\n");
    for count in 1..=300 {
        assert_eq!(call(&mut wire, &format!("SADD tags:1 more{count}")), ":1\r\n");
    }
    assert_eq!(call(&mut wire, "SREM tags:1 member5 more7"), ":2\r\n");
    assert_eq!(call(&mut wire, "SCARD tags:1"), ":598\r\n");
    let all = wire.ask(&[b"SMEMBERS", b"tags:1"]).unwrap();
    assert_eq!(all.elements().unwrap().len(), 598);
}
