//! WATCH on what expires: a transaction is nil once a watched key has expired, or a field of a watched hash, though no server notices
//! that of folded keys.

use std::thread::sleep;
use std::time::{Duration, Instant};

use keyfold_testkit::{Server, Wire, found};

use crate::stage::{address, call, proxy_before, proxy_while_folding};

const LAYOUT: &str = r#"
    [[namespace]]
    keys = "lock:{id:int}"
    bucket = { span = 8 }
    [[namespace]]
    keys = "sess:{id:int}"
    type = "hash"
    bucket = { span = 8 }
"#;

/// What is queued: folded keys alone, a plain one alone, both, and what only reads.
const QUEUES: [&[&str]; 4] = [&["SET lock:2 x"], &["SET plain x"], &["SET lock:2 x", "SET plain x"], &["GET plain"]];

/// Answers to what is watched, queued and carried out.
fn transaction(client: &mut Wire, watched: &str, queue: &[&str], before_exec: impl FnOnce()) -> String {
    for line in [&["DEL lock:2 plain", watched, "MULTI"], queue].concat() {
        let said = call(client, line);
        assert!(!said.starts_with('-'), "{line}: {said}");
    }
    before_exec();
    call(client, "EXEC")
}

/// The server carries out nothing for so long.
fn stand_still(server: &Server, time: Duration) {
    let mut direct = server.connect().unwrap();
    assert_eq!(call(&mut direct, &format!("CLIENT PAUSE {} ALL", time.as_millis())), "+OK\r\n");
}

#[test]
fn a_lock_that_expires_on_the_way_to_the_server_is_not_held() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        for queue in QUEUES {
            assert_eq!(call(&mut client, "SET lock:1 me PX 700"), "+OK\r\n");
            let since = Instant::now();
            let said = transaction(&mut client, "WATCH lock:1", queue, || {
                assert!(since.elapsed() < Duration::from_millis(600), "the machine is too slow for this test");
                stand_still(&server, Duration::from_millis(1200));
            });
            assert_eq!(said, "*-1\r\n", "{}: {queue:?}", server.name());
            assert_eq!(call(&mut client, "EXISTS lock:2 plain"), ":0\r\n");
            // One that lives is held.
            call(&mut client, "SET lock:1 me PX 600000");
            let said = transaction(&mut client, "WATCH lock:1", queue, || {});
            assert!(said.starts_with(&format!("*{}\r\n", queue.len())), "{}: {queue:?}: {said}", server.name());
        }
    }
}

#[test]
fn a_field_that_expires_breaks_the_watch_of_its_hash() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        for queue in QUEUES {
            let long = "w".repeat(300);
            for (time_ms, other, is_broken) in
                [("150", "w", true), ("150", &long, true), ("600000", "w", false), ("600000", &long, false)]
            {
                call(&mut client, &format!("HSET sess:1 f v g {other}"));
                assert_eq!(call(&mut client, &format!("HPEXPIRE sess:1 {time_ms} FIELDS 1 f")), "*1\r\n:1\r\n");
                let said = transaction(&mut client, "WATCH sess:1", queue, || sleep(Duration::from_millis(250)));
                assert_eq!(said == "*-1\r\n", is_broken, "{}: {queue:?}: {said}", server.name());
            }
        }
    }
}

#[test]
fn what_expires_in_a_bucket_breaks_the_watch_while_keys_are_moved() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_while_folding(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        for queue in QUEUES {
            for (time_ms, is_broken) in [("150", true), ("600000", false)] {
                call(&mut client, &format!("SET lock:1 me PX {time_ms}"));
                let said = transaction(&mut client, "WATCH lock:1", queue, || sleep(Duration::from_millis(250)));
                assert_eq!(said == "*-1\r\n", is_broken, "{}: {queue:?}: {said}", server.name());
            }
        }
    }
}

/// Wherever the watched key lies, others of its bucket may change, and it may not.
#[test]
fn other_keys_of_its_bucket_break_no_watch_while_keys_are_moved() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_while_folding(&server, LAYOUT);
        let [mut client, mut other] = [(); 2].map(|()| Wire::connect(address(&proxy)).unwrap());
        let mut direct = server.connect().unwrap();
        for is_moved in [false, true] {
            for (key, held) in [
                ("lock:1", "SET lock:1 me"),
                ("lock:1", "SET lock:1 me PX 600000"),
                ("sess:1", "HSET sess:1 f v"),
                ("lock:1", "DEL lock:1"),
            ] {
                for queue in QUEUES {
                    call(&mut client, "DEL lock:1 sess:1");
                    call(if is_moved { &mut client } else { &mut direct }, held);
                    let watch = format!("WATCH {key}");
                    let neighbours = || {
                        assert_eq!(call(&mut other, "SET lock:3 x"), "+OK\r\n");
                        assert!(call(&mut other, "HSET sess:3 f x").starts_with(':'));
                    };
                    let said = transaction(&mut client, &watch, queue, neighbours);
                    let what = format!("{}: {held}, moved: {is_moved}: {queue:?}: {said}", server.name());
                    assert!(said.starts_with(&format!("*{}\r\n", queue.len())), "{what}");
                    let change = if key == "lock:1" { "SET lock:1 you" } else { "HSET sess:1 f w g w" };
                    let said = transaction(&mut client, &watch, queue, || {
                        assert!(!call(&mut other, change).starts_with('-'));
                    });
                    assert_eq!(said, "*-1\r\n", "{what}");
                }
            }
        }
    }
}

#[test]
fn a_transaction_that_only_reads_is_carried_out_where_no_write_is() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        for line in ["SET lock:1 me PX 600000", "HSET sess:1 f v", "PEXPIRE sess:1 600000", "SET plain v"] {
            assert!(!call(&mut client, line).starts_with('-'), "{}: {line}", server.name());
        }
        // It has no replica.
        assert_eq!(call(&mut server.connect().unwrap(), "CONFIG SET min-replicas-to-write 1"), "+OK\r\n");
        let answer = call(&mut client, "SET plain w");
        assert!(answer.starts_with("-NOREPLICAS"), "{}: {answer}", server.name());
        for line in ["MULTI", "GET lock:1", "GET plain", "HGET sess:1 f", "EXISTS plain"] {
            assert!(call(&mut client, line).starts_with('+'), "{}: {line}", server.name());
        }
        assert_eq!(call(&mut client, "EXEC"), "*4\r\n$2\r\nme\r\n$1\r\nv\r\n$1\r\nv\r\n:1\r\n", "{}", server.name());
    }
}
