//! Fields and keys at the border of their expiry, written through two keyfolds: what has expired doesn't come back, and what
//! hasn't isn't lost.

use std::thread;
use std::time::{Duration, Instant};

use keyfold_testkit::{Wire, found};

use super::LAYOUT;
use crate::stage::{address, call, eventually, proxy_before};

/// How long one goes on behind each expiry, at the least.
const ROUND: Duration = Duration::from_millis(60);

#[test]
fn a_count_begins_anew_with_its_expiry_and_not_before() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxies = [proxy_before(&server, LAYOUT), proxy_before(&server, LAYOUT)];
        let mut clients = proxies.each_ref().map(|proxy| Wire::connect(address(proxy)).unwrap());
        for round in 0..8 {
            // A field that expires beside one that doesn't, one alone, and a whole hash.
            let (expire, ttl) = match round % 3 {
                0 | 1 => ("HPEXPIRE sess:1 40 FIELDS 1 n", "HPTTL sess:1 FIELDS 1 n"),
                _ => ("PEXPIRE sess:1 40", "PTTL sess:1"),
            };
            call(&mut clients[0], "DEL sess:1");
            call(&mut clients[0], if round % 3 == 0 { "HSET sess:1 n 5 other x" } else { "HSET sess:1 n 5" });
            let (began, mut last, mut expired) = (Instant::now(), 5, None);
            assert!(call(&mut clients[0], expire).ends_with(":1\r\n"));
            while began.elapsed() < ROUND || expired.is_none() {
                let client = &mut clients[usize::try_from(last % 2).unwrap()];
                let said = call(client, "HINCRBY sess:1 n 1");
                let count: i64 = said[1..].trim_end().parse().unwrap();
                if count == 1 {
                    assert_eq!(expired, None, "it expired twice");
                    expired = Some(began.elapsed());
                } else {
                    assert_eq!(count, last + 1, "{} in round {round}", server.name());
                }
                last = count;
                assert!(began.elapsed() < Duration::from_secs(20), "it never expired");
            }
            assert!(expired.unwrap() >= Duration::from_millis(39), "{expired:?} is too early");
            assert!(call(&mut clients[0], ttl).ends_with(":-1\r\n"), "the new one has no expiry");
            let len = if round % 3 == 0 { ":2\r\n" } else { ":1\r\n" };
            assert_eq!(call(&mut clients[1], "HLEN sess:1"), len);
        }
    }
}

/// A key that has an expiry of its own goes with the last of its fields all the same.
#[test]
fn a_hash_whose_fields_have_all_expired_before_it_is_gone() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        call(&mut client, "HSET sess:1 f v");
        call(&mut client, "EXPIRE sess:1 1000");
        assert_eq!(call(&mut client, "HPEXPIRE sess:1 40 FIELDS 1 f"), "*1\r\n:1\r\n");
        assert_eq!(call(&mut client, "KEYS *"), "*1\r\n$6\r\nsess:1\r\n");
        assert_eq!(call(&mut client, "EXPIRE sess:1 2000"), ":1\r\n");
        thread::sleep(Duration::from_millis(60));
        assert_eq!(call(&mut client, "EXPIRE sess:1 5000"), ":0\r\n", "{}", server.name());
        assert_eq!(call(&mut client, "KEYS *"), "*0\r\n", "{}", server.name());
        assert_eq!(call(&mut client, "RANDOMKEY"), "$-1\r\n", "{}", server.name());
        let all: Vec<String> = (1..=600).map(|id| format!("sess:{id}")).collect();
        assert_eq!(call(&mut client, &format!("UNLINK {}", all.join(" "))), ":0\r\n", "{}", server.name());
        call(&mut client, "HSET sess:2 f v");
        call(&mut client, "EXPIRE sess:2 1000");
        call(&mut client, "HPEXPIRE sess:2 40 FIELDS 1 f");
        let mut direct = server.connect().unwrap();
        eventually("the sweep has removed it", || call(&mut direct, "KEYS ~*") == "*0\r\n");
    }
}

#[test]
fn what_is_written_beside_a_field_that_expires_stays() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        for round in 0..30 {
            call(&mut client, "HSET sess:1 f v");
            call(&mut client, &format!("HPEXPIRE sess:1 {} FIELDS 1 f", 1 + round % 4));
            let name = format!("g{round}");
            assert_eq!(call(&mut client, &format!("HSET sess:1 {name} {round}")), ":1\r\n");
            assert_eq!(call(&mut client, "MULTI"), "+OK\r\n");
            call(&mut client, &format!("HINCRBY sess:1 {name} 1"));
            call(&mut client, "HDEL sess:1 f");
            let said = call(&mut client, "EXEC");
            assert!(said.starts_with(&format!("*2\r\n:{}\r\n", round + 1)), "{said}");
        }
        assert_eq!(call(&mut client, "HLEN sess:1"), ":30\r\n", "{}", server.name());
        for round in 0..30 {
            let value = (round + 1).to_string();
            let said = call(&mut client, &format!("HGET sess:1 g{round}"));
            assert_eq!(said, format!("${}\r\n{value}\r\n", value.len()));
        }
    }
}

/// As by an import of a dump from before: there is nothing left of it.
#[test]
fn a_hash_whose_fields_have_all_expired_is_restored_as_nothing() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let (mut client, mut direct) = (Wire::connect(address(&proxy)).unwrap(), server.connect().unwrap());
        call(&mut direct, "HSET plain f v g w");
        if !call(&mut direct, "HPEXPIRE plain 50 FIELDS 2 f g").ends_with(":1\r\n:1\r\n") {
            // It has no fields that expire, and no such payloads.
            continue;
        }
        let dumped = direct.ask(&[b"DUMP", b"plain"]).unwrap();
        let payload = dumped.bytes().unwrap();
        thread::sleep(Duration::from_millis(60));
        assert_eq!(client.call(&[b"RESTORE", b"sess:1", b"0", payload]).unwrap(), b"+OK\r\n");
        assert_eq!(call(&mut client, "EXISTS sess:1"), ":0\r\n");
        call(&mut client, "HSET sess:1 f v");
        assert!(client.call(&[b"RESTORE", b"sess:1", b"0", payload]).unwrap().starts_with(b"-BUSYKEY"));
        assert_eq!(client.call(&[b"RESTORE", b"sess:1", b"0", payload, b"REPLACE"]).unwrap(), b"+OK\r\n");
        assert_eq!(call(&mut client, "EXISTS sess:1"), ":0\r\n", "{}", server.name());
    }
}
