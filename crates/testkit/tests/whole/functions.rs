//! Functions that somebody replaces while they are called on folded keys: at the server itself, and by another keyfold.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use keyfold_testkit::conformance::{CODED_LAYOUT, LAYOUT};
use keyfold_testkit::{Server, Subject, Value, Wire, found};

/// How often the library is replaced, and how many clients call its function meanwhile.
const VERSIONS: i64 = 60;
const CLIENTS: usize = 3;
const KEY: &[u8] = b"cnt:visits";

/// A library whose function says which version it is, and writes that too.
fn library(version: i64) -> Vec<u8> {
    format!(
        "#!lua name=versions\nredis.register_function('version', function(keys)\n  \
         redis.call('SET', keys[1], '{version}')\n  return {version}\nend)"
    )
    .into_bytes()
}

fn load(wire: &mut Wire, version: i64) {
    let answer = wire.ask(&[b"FUNCTION", b"LOAD", b"REPLACE", &library(version)]).expect("it answers");
    assert!(!answer.is_error(), "{answer:?}");
}

fn version(wire: &mut Wire) -> Option<i64> {
    let answer = wire.ask(&[b"FCALL", b"version", b"1", KEY]).expect("it answers");
    let is_worn_out = format!("{answer:?}").contains("try again");
    assert!(answer.integer().is_some() || is_worn_out, "{answer:?}");
    answer.integer()
}

/// Calls the function until the last version was seen: each call runs one that was the server's while it was under way.
fn follow(address: SocketAddr, loaded: &AtomicI64, begun: &AtomicI64, is_over: &AtomicBool) {
    let mut wire = Wire::connect(address).expect("it listens");
    loop {
        let was_over = is_over.load(Ordering::SeqCst);
        let first = loaded.load(Ordering::SeqCst);
        let ran = version(&mut wire);
        let last = begun.load(Ordering::SeqCst);
        if let Some(ran) = ran {
            assert!((first..=last).contains(&ran), "{ran} ran, of {first} to {last}");
            if was_over {
                assert_eq!(ran, VERSIONS);
                return;
            }
        }
    }
}

fn start(options: &str) -> (Server, [Subject; 2]) {
    let binary = found().pop().expect("no redis-server or valkey-server; run scripts/ensure-server");
    let server = binary.start(&[]).expect("it starts");
    let first = Subject::start(&server, options).expect("keyfold serves");
    let second = Subject::beside(&server).expect("keyfold serves");
    (server, [first, second])
}

#[test]
fn no_call_runs_a_library_that_was_replaced_before() {
    for layout in [LAYOUT, CODED_LAYOUT] {
        let (server, subjects) = start(layout);
        let mut wires = subjects.each_ref().map(|subject| Wire::connect(subject.address()).expect("it listens"));
        let mut past = server.connect().expect("it listens");
        load(&mut wires[0], 0);
        let (loaded, begun, is_over) = (AtomicI64::new(0), AtomicI64::new(0), AtomicBool::new(false));
        let (is_loaded, has_begun, ends) = (&loaded, &begun, &is_over);
        thread::scope(|scope| {
            for address in subjects.each_ref().map(Subject::address) {
                for _ in 0..CLIENTS {
                    scope.spawn(move || follow(address, is_loaded, has_begun, ends));
                }
            }
            for version in 1..=VERSIONS {
                begun.store(version, Ordering::SeqCst);
                match (version % 3, &mut wires) {
                    (0, _) => load(&mut past, version),
                    (1, [first, _]) => load(first, version),
                    (_, [_, second]) => load(second, version),
                }
                loaded.store(version, Ordering::SeqCst);
            }
            is_over.store(true, Ordering::SeqCst);
        });
        let stored = wires[0].ask(&[b"GET", KEY]).expect("it answers");
        assert_eq!(stored.bytes(), Some(VERSIONS.to_string().as_bytes()));
        let deleted = past.ask(&[b"FUNCTION", b"DELETE", b"versions"]).expect("it answers");
        assert!(!deleted.is_error(), "{deleted:?}");
        for wire in &mut wires {
            let answer = wire.ask(&[b"FCALL", b"version", b"1", KEY]).expect("it answers");
            assert!(format!("{answer:?}").contains("Function not found"), "{answer:?}");
        }
    }
}

/// What the server has, whoever loaded it, and what becomes of that by FUNCTION's other subcommands.
#[test]
fn the_servers_libraries_stay_what_they_are() {
    let (server, [subject, _]) = start(LAYOUT);
    let mut past = server.connect().expect("it listens");
    let mut wire = Wire::connect(subject.address()).expect("it listens");
    load(&mut past, 1);
    assert_eq!(version(&mut wire), Some(1));
    let list: [&[u8]; 3] = [b"FUNCTION", b"LIST", b"WITHCODE"];
    let listed = |wire: &mut Wire| format!("{:?}", wire.ask(&list).expect("it answers"));
    let before = listed(&mut past);
    assert_eq!(listed(&mut wire), before);
    assert!(before.contains("return 1") && !before.contains("keyfold"), "{before}");
    let dump = wire.ask(&[b"FUNCTION", b"DUMP"]).expect("it answers");
    let dump = dump.bytes().expect("bytes").to_vec();
    let mut ask = |args: &[&[u8]]| {
        let answer: Value = wire.ask(args).expect("it answers");
        assert!(!answer.is_error(), "{answer:?}");
    };
    ask(&[b"FUNCTION", b"LOAD", b"REPLACE", &library(2)]);
    ask(&[b"FCALL", b"version", b"1", KEY]);
    ask(&[b"FUNCTION", b"RESTORE", &dump, b"FLUSH"]);
    assert_eq!(version(&mut wire), Some(1));
    assert_eq!(listed(&mut past), before);
    // The server forgets scripts, and counts its calls anew.
    past.ask(&[b"SCRIPT", b"FLUSH"]).expect("it answers");
    past.ask(&[b"CONFIG", b"RESETSTAT"]).expect("it answers");
    assert_eq!(version(&mut wire), Some(1));
    load(&mut past, 3);
    assert_eq!(version(&mut wire), Some(3));
    past.ask(&[b"FUNCTION", b"FLUSH"]).expect("it answers");
    let answer = wire.ask(&[b"FCALL", b"version", b"1", KEY]).expect("it answers");
    assert!(format!("{answer:?}").contains("Function not found"), "{answer:?}");
}
