//! A server whose memory is full, and that evicts nothing: writes are refused as it refuses them to plain keys, and leave all
//! as it was.

use keyfold_testkit::{Wire, found};

use super::LAYOUT;
use crate::both::Both;
use crate::stage::{address, call, proxy_before};

/// Keys as they are before, and what is read of them.
const KEYS: [&str; 5] =
    ["SADD tags:1 a b", "HSET sess:1 f 1 g w", "SADD plain a p", "SADD tags:2 a c", "SET user:1 v EX 5000"];
const READS: [&str; 8] = [
    "SMEMBERS tags:1",
    "SMEMBERS tags:2",
    "SMEMBERS tags:3",
    "HGETALL sess:1",
    "SMEMBERS plain",
    "PTTL tags:1",
    "PTTL sess:1",
    "EXISTS tags:1 tags:2 tags:3 sess:1 sess:2 plain new user:1",
];

#[test]
fn writes_are_refused_as_by_a_plain_server_and_change_nothing() {
    for binary in found() {
        let (plain, server) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let proxy = proxy_before(&server, LAYOUT);
        let mut both = Both::connect(&plain, Wire::connect(address(&proxy)).unwrap());
        let (mut direct, mut beside) = (server.connect().unwrap(), plain.connect().unwrap());
        let mut limit = |bytes: &str| {
            for wire in [&mut direct, &mut beside] {
                assert_eq!(call(wire, &format!("CONFIG SET maxmemory {bytes}")), "+OK\r\n");
            }
        };
        let long = format!("SADD tags:1 {}", "x".repeat(300));
        let refused: &[&[&str]] = &[
            &["SADD tags:1 z"],
            &[&long],
            &["SADD tags:3 z"],
            &["HSET sess:1 f 2 h 3"],
            &["HSETNX sess:2 f v"],
            &["HINCRBY sess:1 f 1"],
            &["HINCRBYFLOAT sess:1 f 1.5"],
            &["SMOVE tags:1 tags:2 b"],
            &["SMOVE plain tags:1 p"],
            &["SUNIONSTORE tags:3 tags:1 tags:2"],
            &["SINTERSTORE tags:2 tags:1 plain"],
            &["COPY tags:1 tags:3"],
        ];
        // What needs no more memory goes on; before Redis 7.0 only where no value is written, which no script may there.
        let written: &[&[&str]] = &[
            &["EXPIRE user:1 1000", "PERSIST user:1", "GETEX user:1 EX 100"],
            &["SREM tags:1 a"],
            &["HDEL sess:1 g"],
            &["PERSIST sess:1"],
            &["EXPIRE tags:1 1000"],
            &["SMOVE tags:1 plain none", "RENAME tags:1 new"],
        ];
        let others: &[&[&str]] = &[
            &["GETDEL user:1"],
            &["SREM tags:1 a b"],
            &["SISMEMBER tags:1 a"],
            &["DEL tags:1 sess:1"],
            &["SUNION tags:1 plain", "SINTER tags:1 tags:2 plain"],
        ];
        let written = if binary.has_redis_7() { written } else { &[] };
        for commands in [refused, written, others].concat() {
            both.all_same(&["FLUSHALL"]);
            both.all_same(&KEYS);
            limit("1");
            both.all_same(commands);
            both.all_same(&READS);
            limit("0");
            both.all_same(&READS);
        }
    }
}

/// A plain server refuses what is queued, keyfold all of it.
#[test]
fn a_transaction_is_refused_whole() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        KEYS.iter().for_each(|command| drop(call(&mut client, command)));
        let before = READS.map(|command| call(&mut client, command));
        let mut direct = server.connect().unwrap();
        call(&mut direct, "CONFIG SET maxmemory 1");
        for first in ["MULTI", "WATCH tags:1"] {
            let all = [first, "MULTI", "SADD tags:1 z", "HSET sess:1 f 9", "SET user:1 x", "SADD plain q", "EXEC"];
            let said = all.map(|command| call(&mut client, command));
            assert!(
                said[6].starts_with("-OOM ") || said[6].starts_with("-EXECABORT "),
                "{}: {}",
                server.name(),
                said[6]
            );
        }
        call(&mut direct, "CONFIG SET maxmemory 0");
        assert_eq!(READS.map(|command| call(&mut client, command)), before, "{}", server.name());
    }
}

/// What needs a scratch key isn't answered as though nothing were there, and a first write that takes no memory lets none behind it through.
#[test]
fn a_transaction_reads_what_is_there_and_writes_nothing_that_would_be_refused() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        KEYS.iter().for_each(|command| drop(call(&mut client, command)));
        let before = READS.map(|command| call(&mut client, command));
        let mut direct = server.connect().unwrap();
        call(&mut direct, "CONFIG SET maxmemory 1");
        for queue in [
            &["ZUNION 1 tags:1"][..],
            &["LLEN user:1"],
            &["SORT_RO tags:1 ALPHA"],
            &["GETDEL user:1", "SET user:2 x", "SET user:9 y"],
            &["SREM tags:1 a b", "SADD tags:3 z"],
            &["DEL sess:1", "HSET sess:2 f v"],
        ] {
            call(&mut client, "MULTI");
            let queued: Vec<String> = queue.iter().map(|command| call(&mut client, command)).collect();
            let said = call(&mut client, "EXEC");
            let is_unknown = queued.iter().any(|queued| queued.contains("unknown command"));
            let is_refused = said.starts_with("-OOM ") || said.starts_with("-EXECABORT ");
            assert!(is_refused || is_unknown || said.contains("-WRONGTYPE"), "{}: {queue:?}: {said}", server.name());
        }
        assert_eq!(READS.map(|command| call(&mut client, command)), before, "{}", server.name());
        for line in ["MULTI", "DEL sess:1", "SREM tags:1 a b"] {
            call(&mut client, line);
        }
        assert_eq!(call(&mut client, "EXEC"), "*2\r\n:1\r\n:2\r\n", "what takes none goes on on {}", server.name());
    }
}

/// Such writes leave less, or as much: one that is spilled would lie there twice for a while, and is left.
#[test]
fn of_one_that_is_spilled_nothing_is_removed_but_all() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        let fields: Vec<String> = (0..200).map(|at| format!("field{at} value{at}")).collect();
        call(&mut client, &format!("HSET sess:1 {}", fields[..20].join(" ")));
        call(&mut client, &format!("HSET sess:2 {}", fields.join(" ")));
        let mut direct = server.connect().unwrap();
        call(&mut direct, "CONFIG SET maxmemory 1");
        assert!(call(&mut client, "HDEL sess:1 field1").starts_with("-OOM "));
        assert_eq!(call(&mut client, "HLEN sess:1"), ":20\r\n", "{}", server.name());
        // Of one that lies in parts only what is removed goes.
        assert!(call(&mut client, "HSET sess:2 new x").starts_with("-OOM "), "{}", server.name());
        assert_eq!(call(&mut client, "HDEL sess:2 field1 none"), ":1\r\n", "{}", server.name());
        assert_eq!(call(&mut client, "HLEN sess:2"), ":199\r\n", "{}", server.name());
        assert_eq!(call(&mut client, "DEL sess:1"), ":1\r\n");
    }
}

/// A result that goes to a key of its own is written by several commands of one script.
#[test]
fn a_result_for_a_plain_key_is_refused_whole() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        let many: Vec<String> = (0..5000).map(|at| at.to_string()).collect();
        call(&mut client, &format!("SADD tags:1 {}", many.join(" ")));
        for before in ["DEL new", "SADD new old"] {
            call(&mut client, before);
            let held = call(&mut client, "SCARD new");
            let mut direct = server.connect().unwrap();
            call(&mut direct, "CONFIG SET maxmemory 1");
            let said = call(&mut client, "SUNIONSTORE new tags:1");
            assert!(said.starts_with("-OOM "), "{before} on {}: {said}", server.name());
            assert_eq!(call(&mut client, "SCARD new"), held, "{before}");
            call(&mut direct, "CONFIG SET maxmemory 0");
        }
        assert_eq!(call(&mut client, "SUNIONSTORE new tags:1"), ":5000\r\n");
    }
}

/// As jobs that wait for others do it. Redis before 7.2 would queue none of it; the others carry it out.
#[test]
fn a_transaction_that_needs_no_more_memory_is_carried_out() {
    for binary in found().into_iter().filter(keyfold_testkit::Binary::has_redis_7) {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        KEYS.iter().for_each(|command| drop(call(&mut client, command)));
        call(&mut server.connect().unwrap(), "CONFIG SET maxmemory 1");
        for (queue, answer) in [
            (["SREM tags:1 a", "SCARD tags:1"], "*2\r\n:1\r\n:1\r\n"),
            (["HDEL sess:1 g", "HLEN sess:1"], "*2\r\n:1\r\n:1\r\n"),
            (["EXPIRE tags:2 1000", "SISMEMBER tags:2 a"], "*2\r\n:1\r\n:1\r\n"),
            (["SREM tags:2 c nope", "SCARD tags:2"], "*2\r\n:1\r\n:1\r\n"),
        ] {
            call(&mut client, "MULTI");
            queue.iter().for_each(|command| assert_eq!(call(&mut client, command), "+QUEUED\r\n"));
            assert_eq!(call(&mut client, "EXEC"), answer, "{}: {queue:?}", server.name());
        }
        assert_eq!(call(&mut client, "SMEMBERS tags:1"), "*1\r\n$1\r\nb\r\n");
        assert_eq!(call(&mut client, "SCARD tags:2"), ":1\r\n");
    }
}
