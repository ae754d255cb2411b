//! The keys leave that are worth the least, and of no namespace one that stays.

use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::frame::Body;
use keyfold_core::layout::LayoutFile;
use keyfold_core::placement::handmade::{Handmade, Packing};
use keyfold_testkit::found;

use super::{MB, WAYS, cached, read_through, send_all, text_of, there, words, write};
use crate::stage::{call, change_layout, eventually};

const RULES: &str = r#"
    [[namespace]]
    keys = "any:{id:int}"
    bucket = { span = 64 }
    [[namespace]]
    keys = "kept:{id:int}"
    bucket = { span = 64 }
    evict = false
    [[namespace]]
    keys = "some:{id:int}"
    bucket = { span = 64 }
    evict = "expiring"
    [[namespace]]
    keys = "zipkept:{id:int}"
    evict = false
    [[namespace]]
    keys = "zipsome:{id:int}"
    evict = "expiring"
"#;

#[test]
fn what_is_asked_for_again_and_again_stays_while_others_pass() {
    for binary in found() {
        let stage = cached(&binary, WAYS, 4 * MB);
        let mut wire = stage.connect();
        for kind in ["user", "cart", "zip"] {
            write(&mut wire, kind, 0..1000, 60);
        }
        let (mut next, hot) = (1_000_000, 0..1000);
        let mut found = ["user", "cart", "zip"].map(|kind| (kind, Vec::new()));
        for _ in 0..40 {
            for (kind, found) in &mut found {
                found.push(read_through(&mut wire, kind, hot.clone(), 60));
                // Ten times as many pass as are hot, one after another and beside them in their buckets.
                write(&mut wire, kind, next..next + 1000, 60);
            }
            next += 1000;
        }
        assert!(stage.evicted() > 30_000, "{}", stage.evicted());
        for (kind, found) in found {
            assert!(found.iter().sum::<usize>() >= 900 * found.len(), "{kind}, {found:?}");
        }
        // Which of those that were asked for once leave first is chance.
        let passed = there(&mut wire, "user", 1_000_000..1_010_000);
        assert!(passed < 4000, "{passed} that nobody asked for again");
        stage.assert_server_kept_out();
    }
}

#[test]
fn a_hot_key_keeps_its_place_among_cold_neighbours() {
    let stage = cached(found().last().unwrap(), WAYS, 3 * MB);
    let mut wire = stage.connect();
    // One key of each bucket is hot.
    let hot: Vec<u64> = (0..400).map(|bucket| bucket * 64 + bucket % 64).collect();
    write(&mut wire, "user", 0..25_600, 60);
    for round in 0..20 {
        read_through(&mut wire, "user", hot.iter().copied(), 60);
        write(&mut wire, "user", 100_000 + round * 5000..105_000 + round * 5000, 60);
    }
    assert!(there(&mut wire, "user", hot.iter().copied()) >= 360);
    let cold = (0..25_600).filter(|id| !hot.contains(id));
    assert!(there(&mut wire, "user", cold) < 2560);
}

#[test]
fn rules_of_namespaces_are_kept() {
    for binary in found() {
        let stage = cached(&binary, RULES, 4 * MB);
        let mut wire = stage.connect();
        let kinds = ["kept", "some", "zipkept", "zipsome"];
        for kind in kinds {
            write(&mut wire, kind, 0..1000, 50);
        }
        let long = "x".repeat(60);
        for kind in ["some", "zipsome"] {
            send_all(&mut wire, (1000..3000).map(|id| words(&format!("SET {kind}:{id} {long} EX 10000"))));
        }
        write(&mut wire, "plain", 0..1000, 50);
        for round in 0..10 {
            write(&mut wire, "any", round * 10_000..(round + 1) * 10_000, 60);
        }
        for kind in kinds {
            assert_eq!(there(&mut wire, kind, 0..1000), 1000, "{kind} on {}", binary.name());
        }
        for kind in ["some", "zipsome"] {
            let left = there(&mut wire, kind, 1000..3000);
            assert!(left < 1800, "{kind}: {left} that have an expiry on {}", binary.name());
        }
        assert_eq!(there(&mut wire, "plain", 0..1000), 1000);
        stage.assert_server_kept_out();
    }
}

/// As a fold begins all of them are under their own names, where plain keys may leave.
#[test]
fn rules_of_namespaces_are_kept_for_keys_that_are_not_moved_yet() {
    for binary in found() {
        let any = "plain_keys = true\n[[namespace]]\nkeys = \"any:{id:int}\"\nbucket = { span = 64 }\n";
        let with_kept =
            format!("{any}[[namespace]]\nkeys = \"kept:{{id:int}}\"\nbucket = {{ span = 64 }}\nevict = false\n");
        let stage = cached(&binary, any, 4 * MB);
        let mut direct = stage.server.connect().unwrap();
        let before = stage.proxy.layout();
        let text = text_of(&with_kept, &stage.mark.to_string());
        let moving = before.plan_fold(&LayoutFile::parse(&text).unwrap()).unwrap().layout;
        assert_eq!(moving.moving().count(), 1);
        change_layout(&stage.server, &before, &moving);
        eventually("the layout is adopted", || stage.proxy.layout().revision() == moving.revision());
        write(&mut direct, "kept", 0..2000, 50);
        let mut wire = stage.connect();
        for round in 0..10 {
            write(&mut wire, "any", round * 10_000..(round + 1) * 10_000, 60);
        }
        assert!(stage.evicted() > 10_000);
        assert_eq!(there(&mut wire, "kept", 0..2000), 2000, "{}", binary.name());
    }
}

/// What an application packed by itself is no frame, though it may begin like one that has expired.
#[test]
fn what_lies_in_an_applications_own_hashes_is_moved_and_does_not_leave() {
    let media = "plain_keys = true\n[[namespace]]\nkeys = \"media:{id:int}\"\nbucket = { span = 64 }\n";
    let stage = cached(found().last().unwrap(), &media.replace("media", "any"), 4 * MB);
    let (mut wire, mut direct) = (stage.connect(), stage.server.connect().unwrap());
    let mut value = Vec::new();
    Body::Raw(b"value").encode(Some(1_600_000_000_000), &mut value);
    assert_eq!(direct.call(&[b"HSET", b"mediabucket:1", b"1001", &value]).unwrap(), b":1\r\n");
    let before = stage.proxy.layout();
    let file = LayoutFile::parse(&text_of(media, &stage.mark.to_string())).unwrap();
    let rule = Handmade::new(file.namespaces[0].keys.first(), "mediabucket:{id/1000}", "{id}", Packing::Raw).unwrap();
    let moving = before.plan_fold_from(&file, &[rule]).unwrap().layout;
    change_layout(&stage.server, &before, &moving);
    eventually("the layout is adopted", || stage.proxy.layout().revision() == moving.revision());
    // It is looked at what there is, once a second.
    let looked = Instant::now();
    while looked.elapsed() < Duration::from_secs(3) {
        let found = wire.ask(&[b"GET", b"media:1001"]).unwrap();
        assert_eq!(found.bytes(), Some(value.as_slice()));
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_key_that_must_not_leave_any_more_stays() {
    let stage = cached(found().last().unwrap(), RULES, 3 * MB);
    let mut wire = stage.connect();
    for round in 0..30_u64 {
        let ids = round * 1000..(round + 1) * 1000;
        for kind in ["some", "zipsome"] {
            send_all(&mut wire, ids.clone().map(|id| words(&format!("SET {kind}:{id} {} EX 10000", "x".repeat(40)))));
            let persisted =
                send_all(&mut wire, ids.clone().step_by(50).map(|id| words(&format!("PERSIST {kind}:{id}"))));
            let stay = ids.clone().step_by(50).zip(persisted).filter(|(_, reply)| reply == b":1\r\n").map(|(id, _)| id);
            let stay: Vec<u64> = stay.collect();
            assert_eq!(there(&mut wire, kind, stay.iter().copied()), stay.len(), "{kind}, round {round}");
        }
    }
    assert!(stage.evicted() > 5000);
}

#[test]
fn weight_counts() {
    let weighed = "[[namespace]]\nkeys = \"dear:{id:int}\"\nbucket = { span = 64 }\nweight = 8.0\n\
                   [[namespace]]\nkeys = \"cheap:{id:int}\"\nbucket = { span = 64 }\n";
    let stage = cached(found().last().unwrap(), weighed, 4 * MB);
    let mut wire = stage.connect();
    for kind in ["dear", "cheap"] {
        write(&mut wire, kind, 0..10_000, 60);
    }
    for round in 0..10 {
        write(&mut wire, "cheap", 100_000 + round * 10_000..110_000 + round * 10_000, 60);
    }
    let [dear, cheap] = ["dear", "cheap"].map(|kind| there(&mut wire, kind, 0..10_000));
    assert!(dear > 9000 && cheap < 2000, "dear {dear}, cheap {cheap}");
}

#[test]
fn plain_keys_leave_where_that_is_told_and_keyfolds_own_never() {
    for binary in found() {
        let stage = cached(&binary, &format!("plain_keys = true\n{WAYS}"), 4 * MB);
        let (mut wire, mut direct) = (stage.connect(), stage.server.connect().unwrap());
        call(&mut direct, "SET keyfold:mine value");
        call(&mut direct, "SET keyfold:{home}:mine value");
        write(&mut wire, "plain", 0..500, 50);
        send_all(&mut wire, (0..200).map(|id| words(&format!("RPUSH list:{id} {} b", "a".repeat(50)))));
        for round in 0..20 {
            read_through(&mut wire, "plain", 0..500, 50);
            write(&mut wire, "passing", round * 5000..(round + 1) * 5000, 50);
        }
        eventually("lists leave that nobody asks for", || {
            read_through(&mut wire, "plain", 0..500, 50);
            let lists = send_all(&mut wire, (0..200).map(|id| words(&format!("LLEN list:{id}"))));
            write(&mut wire, "passing", 0..2000, 50);
            lists.iter().filter(|reply| *reply != b":0\r\n").count() < 150
        });
        assert!(there(&mut wire, "plain", 0..500) >= 450);
        assert!(there(&mut wire, "passing", 0..100_000) < 50_000);
        for key in ["keyfold:mine", "keyfold:{home}:mine", "keyfold:{home}:layout", "keyfold:{home}:layout:copy"] {
            assert_eq!(call(&mut direct, &format!("EXISTS {key}")), ":1\r\n", "{key}");
        }
        assert!(stage.proxy.cache().plain_evicted() > 10_000);
        // Whether the server kept out isn't asked: each burst is more than the tenth that is left to it, and on a busy machine it may
        // have to make room before keyfold does.
    }
}
