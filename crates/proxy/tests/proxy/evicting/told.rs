//! Subscribers and clients that cache what they read hear of what leaves, by its own name.

use std::collections::BTreeSet;

use keyfold_testkit::{Value, found};

use super::{MB, WAYS, cached, write};
use crate::stage::{call, eventually, reaches};

#[test]
fn what_leaves_is_published_as_evicted() {
    for binary in found() {
        for setting in ["Ee", "KEA"] {
            let stage = cached(&binary, WAYS, 3 * MB);
            let mut wire = stage.connect();
            assert_eq!(call(&mut wire, &format!("CONFIG SET notify-keyspace-events {setting}")), "+OK\r\n");
            let mut ear = stage.connect();
            call(&mut ear, "SUBSCRIBE __keyevent@0__:evicted");
            let (mut next, mut heard) = (0, BTreeSet::new());
            let kinds = ["user", "cart", "zip", "own"];
            let told =
                |heard: &BTreeSet<String>, kind| heard.iter().filter(|key| key.starts_with(kind)).count().min(101);
            reaches("keys of every kind are told", 404, || {
                for kind in kinds {
                    write(&mut wire, kind, next..next + 500, if next % 1000 == 0 { 60 } else { 200 });
                }
                next += 500;
                call(&mut wire, "PUBLISH __keyevent@0__:evicted fence");
                loop {
                    let message = Value::parse(&ear.reply().unwrap()).unwrap();
                    let key = message.elements().unwrap()[2].bytes().unwrap().to_vec();
                    if key == b"fence" {
                        break;
                    }
                    heard.insert(String::from_utf8(key).unwrap());
                }
                kinds.iter().map(|kind| told(&heard, kind)).sum::<usize>() as u64
            });
            // None of them is there, and each was a client's.
            let untold = heard.iter().find(|key| !kinds.iter().any(|kind| key.starts_with(&format!("{kind}:"))));
            assert_eq!(untold, None);
            let there = heard.iter().filter(|key| call(&mut wire, &format!("EXISTS {key}")) == ":1\r\n").count();
            assert_eq!(there, 0, "{} told, {setting}", heard.len());
        }
    }
}

#[test]
fn a_client_that_caches_what_leaves_is_told_to_forget_it() {
    for binary in found() {
        let stage = cached(&binary, WAYS, 3 * MB);
        let (mut wire, mut me) = (stage.connect(), stage.connect());
        call(&mut me, "HELLO 3");
        assert_eq!(call(&mut me, "CLIENT TRACKING ON"), "+OK\r\n");
        let kinds = ["user", "cart", "zip", "own"];
        let mut held: BTreeSet<String> = (0..200).flat_map(|id| kinds.map(|kind| format!("{kind}:{id}"))).collect();
        kinds.iter().for_each(|kind| write(&mut wire, kind, 0..200, 100));
        for key in held.clone() {
            assert!(call(&mut me, &format!("GET {key}")).starts_with("$100"), "{key}");
        }
        let mut next = 1000;
        let mut forgotten = 0;
        reaches("many left", 401, || {
            kinds.iter().for_each(|kind| write(&mut wire, kind, next..next + 500, 100));
            next += 500;
            me.send(&[b"PING"]).unwrap();
            loop {
                let reply = me.reply().unwrap();
                if !reply.starts_with(b">") {
                    break;
                }
                for key in crate::tracking::keys_of(&reply) {
                    forgotten += u64::from(held.remove(&key));
                }
            }
            forgotten
        });
        // Whatever is still held is still there, once what is on its way has come.
        eventually("what is held is there", || {
            me.send(&[b"PING"]).unwrap();
            loop {
                let reply = me.reply().unwrap();
                if !reply.starts_with(b">") {
                    break;
                }
                held.retain(|key| !crate::tracking::keys_of(&reply).contains(key));
            }
            held.iter().all(|key| call(&mut wire, &format!("EXISTS {key}")) == ":1\r\n")
        });
    }
}
