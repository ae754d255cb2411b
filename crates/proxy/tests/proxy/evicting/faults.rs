//! Keyfolds, servers and scripts go in the middle, and a server evicts by itself: nobody is told anything but misses.

use std::sync::atomic::Ordering;

use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_proxy::Handle;
use keyfold_testkit::{Wire, found, found_with_redis_7};

use super::values::{Clients, assert_clean, assert_right, until_vanished};
use super::{MB, WAYS, another, cached, set_max, text_of};
use crate::stage::{address, call, change_layout, eventually, reaches};

fn evicted(proxy: &Handle) -> u64 {
    proxy.namespaces().iter().map(|counts| counts.evicted).sum()
}

#[test]
fn two_keyfolds_and_the_one_that_evicts_goes() {
    for binary in found_with_redis_7() {
        let mut stage = cached(&binary, WAYS, 5 * MB);
        let layout = stage.proxy.layout();
        let addresses = |one: &Handle, other: &Handle| [address(one), address(other)];
        let mut other = another(&stage.server, &layout);
        let mut clients = Clients::new(4);
        for _ in 0..2 {
            // Clients of one that is gone go on at the other.
            clients.work(&addresses(&stage.proxy, &other), |vanished| {
                until_vanished(vanished, 400);
                let next = another(&stage.server, &layout);
                let gone = std::mem::replace(&mut stage.proxy, std::mem::replace(&mut other, next));
                drop(gone);
                until_vanished(vanished, 400);
            });
            let report = clients.check(&mut stage.connect());
            assert!(report.errors.is_empty(), "{:?}", report.errors);
        }
        assert!(evicted(&stage.proxy) + evicted(&other) > 600);
        stage.assert_server_kept_out();
        assert_clean(&stage);
    }
}

#[test]
fn scripts_the_lease_and_counters_are_gone_again_and_again() {
    let stage = cached(found().last().unwrap(), WAYS, 5 * MB);
    let mut direct = stage.server.connect().unwrap();
    let mut clients = Clients::new(3);
    clients.work(&[address(&stage.proxy)], |vanished| {
        for round in 0..6 {
            call(&mut direct, "SCRIPT FLUSH");
            call(&mut direct, "DEL keyfold:{home}:asked keyfold:{home}:frequency");
            match round % 3 {
                0 => call(&mut direct, "DEL keyfold:{home}:evict"),
                1 => call(&mut direct, "SET keyfold:{home}:evict nobody PX 300"),
                // Another type than it has.
                _ => call(&mut direct, "DEL keyfold:{home}:evict") + &call(&mut direct, "RPUSH keyfold:{home}:evict a"),
            };
            call(&mut direct, "PEXPIRE keyfold:{home}:evict 300");
            until_vanished(vanished, 300);
        }
    });
    assert_right(&stage, &mut clients);
}

#[test]
fn a_server_that_begins_anew_is_kept_within_its_memory_again() {
    let mut stage = cached(found().last().unwrap(), WAYS, 2 * MB);
    let max = stage.mark + stage.mark / 4;
    let mut clients = Clients::new(2);
    for _ in 0..2 {
        clients.work(&[address(&stage.proxy)], |vanished| until_vanished(vanished, 400));
        clients.check(&mut stage.connect());
        stage.server.restart().unwrap();
        set_max(&stage.server, max);
        let mut wire = stage.connect();
        eventually("it is served again", || {
            wire = stage.connect();
            call(&mut wire, "SET user:1 v") == "+OK\r\n"
        });
        call(&mut wire, "DEL user:1");
        clients.check(&mut wire);
    }
    clients.work(&[address(&stage.proxy)], |vanished| until_vanished(vanished, 400));
    clients.check(&mut stage.connect());
    stage.assert_server_kept_out();
    assert_clean(&stage);
}

#[test]
fn a_server_that_evicts_all_the_same_is_counted_and_costs_misses() {
    for binary in found_with_redis_7() {
        let stage = cached(&binary, WAYS, 6 * MB);
        set_max(&stage.server, stage.empty + 3 * MB);
        let mut clients = Clients::new(3);
        clients.work(&[address(&stage.proxy)], |_| {
            reaches("it is counted", 101, || stage.proxy.cache().by_server());
        });
        // A bucket that goes leaves its spilled values, and one of those that goes leaves a field that holds nothing.
        // DEL, which doesn't look at what it removes, counts that one.
        let is_such = |wrong: &str| wrong.contains(": Delete on Possible({None}) answered :1\\r\\n;");
        let report = clients.check_but(&mut stage.connect(), is_such);
        assert!(report.errors.is_empty(), "{} {:?}", binary.name(), report.errors);
        assert!(clients.vanished.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn keys_that_are_moved_leave_too_and_come_back_nowhere() {
    let stage = cached(found().last().unwrap(), WAYS, 5 * MB);
    let mut clients = Clients::new(4);
    clients.work(&[address(&stage.proxy)], |vanished| {
        until_vanished(vanished, 800);
        let before = stage.proxy.layout();
        let text = text_of(
            &WAYS.replace("span = 64", "span = 32").replace("count = 128", "count = 64"),
            &stage.mark.to_string(),
        );
        let moving = before.plan_fold(&LayoutFile::parse(&text).unwrap()).unwrap().layout;
        assert_eq!(moving.moving().count(), 2);
        change_layout(&stage.server, &before, &moving);
        eventually("the layout is adopted", || stage.proxy.layout().revision() == moving.revision());
        until_vanished(vanished, 1500);
    });
    assert_right(&stage, &mut clients);
}

#[test]
fn without_rules_nothing_leaves() {
    let stage = cached(found().last().unwrap(), WAYS, 3 * MB);
    let mut wire: Wire = stage.connect();
    super::write(&mut wire, "user", 0..5000, 60);
    let before = stage.proxy.layout();
    let next: Layout = Layout::merge(Some(&before), &LayoutFile::parse(WAYS).unwrap()).unwrap().layout;
    change_layout(&stage.server, &before, &next);
    eventually("the layout is adopted", || stage.proxy.layout().revision() == next.revision());
    eventually("the cache is off", || !stage.proxy.cache().is_on());
    set_max(&stage.server, 0);
    let evicted = stage.evicted();
    super::write(&mut wire, "user", 0..60_000, 60);
    assert_eq!(super::there(&mut wire, "user", 5000..60_000), 55_000);
    assert_eq!(stage.evicted(), evicted);
}
