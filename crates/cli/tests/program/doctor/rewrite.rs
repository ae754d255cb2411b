//! Writing anew while clients go on: nothing that was acknowledged is lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use keyfold_testkit::random::Random;
use keyfold_testkit::{Server, Wire};

use super::stage::{contents, doctor, numbers, on_every_server, write_hash};

const HASHES: u64 = 40;
const WRITERS: u64 = 3;
const RUNS: usize = 6;

type Acknowledged = BTreeMap<(Vec<u8>, Vec<u8>), Option<Vec<u8>>>;

/// Writes to fields that nobody else writes to, and now and then makes a table of a hash that needn't be one.
fn write_on(server: &Server, writer: u64, stop: &AtomicBool) -> Acknowledged {
    let mut wire = server.connect().unwrap();
    let mut random = Random::new(writer);
    let mut acknowledged = Acknowledged::new();
    for round in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("bucket:{}", random.below(HASHES)).into_bytes();
        let field = format!("w{writer}:{}", random.below(50)).into_bytes();
        if random.below(10) == 0 {
            make_table(&mut wire, &key, writer);
        }
        let place = (key.clone(), field.clone());
        if random.below(4) == 0 {
            assert!(wire.call(&[b"HDEL", &key, &field]).unwrap().starts_with(b":"));
            acknowledged.insert(place, None);
        } else {
            let value = round.to_string().into_bytes();
            assert!(wire.call(&[b"HSET", &key, &field, &value]).unwrap().starts_with(b":"));
            acknowledged.insert(place, Some(value));
        }
    }
    acknowledged
}

fn make_table(wire: &mut Wire, key: &[u8], writer: u64) {
    let field = format!("long{writer}").into_bytes();
    wire.call(&[b"HSET", key, &field, &[b'x'; 100]]).unwrap();
    wire.call(&[b"HDEL", key, &field]).unwrap();
}

#[test]
fn no_acknowledged_write_is_lost() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        for hash in 0..HASHES {
            let key = format!("bucket:{hash}").into_bytes();
            write_hash(&mut wire, &key, numbers(100));
            make_table(&mut wire, &key, 99);
        }
        let stop = AtomicBool::new(false);
        let (acknowledged, rewritten, conflicts) = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    scope.spawn({
                        let stop = &stop;
                        move || write_on(server, writer, stop)
                    })
                })
                .collect();
            let (mut rewritten, mut conflicts) = (0, 0);
            for _ in 0..RUNS {
                let run = doctor(&server.url(), &["--rewrite"]);
                assert!(matches!(run.code, Some(0 | 3)), "{run:#?}");
                rewritten += run.report["rewritten"]["hashes"].as_u64().unwrap();
                conflicts += run.report["rewritten"]["conflicts"].as_u64().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            let writers: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            (writers.into_iter().flatten().collect::<Acknowledged>(), rewritten, conflicts)
        });
        assert!(rewritten >= HASHES, "{}: {rewritten} hashes, {conflicts} conflicts", server.name());
        let there = contents(&mut wire);
        assert!(acknowledged.len() > 100, "{} places were written to", acknowledged.len());
        for ((key, field), value) in &acknowledged {
            assert_eq!(there[key].get(field), value.as_ref(), "{}: {}", server.name(), field.escape_ascii());
        }
        for hash in there.values() {
            assert!(
                numbers(100).all(|(field, value)| hash.get(&field) == Some(&value)),
                "what nobody touched is there"
            );
        }
        doctor(&server.url(), &["--rewrite"]).assert_well();
    });
}

#[test]
fn a_hash_that_expires_meanwhile_does_not_come_back() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        for hash in 0..200_u64 {
            let key = format!("bucket:{hash}").into_bytes();
            write_hash(&mut wire, &key, numbers(20));
            make_table(&mut wire, &key, 99);
            wire.call(&[b"PEXPIRE", &key, format!("{}", 1 + hash * 3).as_bytes()]).unwrap();
        }
        let run = doctor(&server.url(), &["--rewrite"]);
        assert!(matches!(run.code, Some(0 | 3)), "{run:#?}");
        // What outlived the run still has its expiry, and nothing has gained eternity.
        for hash in 0..200_u64 {
            let key = format!("bucket:{hash}").into_bytes();
            let left = wire.ask(&[b"PTTL", &key]).unwrap().integer().unwrap();
            assert!(left == -2 || (0..=1 + i64::try_from(hash).unwrap() * 3).contains(&left), "{left}");
        }
    });
}
