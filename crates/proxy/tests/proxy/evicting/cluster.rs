//! Each primary of a cluster is kept by its own memory.

use std::sync::atomic::Ordering;

use keyfold_core::layout::Layout;
use keyfold_core::slot::Slot;
use keyfold_proxy::{Config, Handle, start};
use keyfold_testkit::cluster::Options;
use keyfold_testkit::servers::{Binary, each, newest_and_others};
use keyfold_testkit::{Cluster, Wire};

use super::values::Clients;
use super::{MB, WAYS, counted, info, send_all, set_max, text_of, words};
use crate::stage::{address, call, eventually, reaches};

/// Three primaries, each with a mark so far above what an empty one takes.
fn stage(binary: &Binary, namespaces: &str, bytes: u64) -> (Cluster, Handle, u64) {
    let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
    let empty = cluster.nodes().iter().map(|node| counted(node.server())).max().unwrap();
    let mark = empty + bytes;
    for node in cluster.nodes() {
        node.server().connect().unwrap().call(&[b"CONFIG", b"SET", b"maxmemory-policy", b"allkeys-lru"]).unwrap();
        set_max(node.server(), mark + mark / 4);
    }
    let layout = Layout::parse_file(&format!("cluster = true\n{}", text_of(namespaces, &mark.to_string()))).unwrap();
    cluster.put_in_force(&layout).unwrap();
    let mut config = Config::new(cluster.url(0).parse().unwrap(), layout);
    config.listen.push("127.0.0.1:0".parse().unwrap());
    config.threads = Some(2.try_into().unwrap());
    let proxy = start(config).unwrap();
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    eventually("it serves", || call(&mut wire, "GET user:1") == "$-1\r\n");
    (cluster, proxy, mark)
}

#[test]
fn each_primary_is_kept_and_each_key_is_right_or_absent() {
    each(&newest_and_others().0, |binary| {
        let ways = WAYS.replace("span = 64", "count = 512");
        let (cluster, proxy, mark) = stage(binary, &ways, 3 * MB);
        // Several keys of one command lie in several slots.
        let mut clients = Clients::on_single_keys(3);
        clients.work(&[address(&proxy)], |_| {
            reaches("keys leave", 5_001, || proxy.namespaces().iter().map(|counts| counts.evicted).sum());
        });
        let report = clients.check(&mut Wire::connect(address(&proxy)).unwrap());
        assert!(report.errors.is_empty() && report.lost == 0, "{:?}", report.errors);
        assert!(clients.vanished.load(Ordering::Relaxed) > 600);
        for node in cluster.nodes() {
            eventually("memory is at its mark", || counted(node.server()) <= mark + mark / 50);
            let stats = info(&mut node.server().connect().unwrap(), "stats");
            assert!(stats.contains("\nevicted_keys:0\r"), "{stats}");
        }
    });
}

#[test]
fn where_one_primary_is_full_and_nothing_may_leave_writes_to_it_stay_refused_and_others_go_on() {
    let kept = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { count = 64 }\nevict = false\n";
    let binary = newest_and_others().0.pop().unwrap();
    let (cluster, proxy, mark) = stage(&binary, kept, 6 * MB);
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    // Past keyfold, so that one node alone is full.
    let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", "a"]).unwrap().integer().unwrap();
    let full = cluster.owner(u16::try_from(slot).unwrap()).unwrap();
    let mut direct = cluster.node(full).connect().unwrap();
    let value = "x".repeat(1000);
    let mut id = 0;
    eventually("it is above its mark", || {
        send_all(&mut direct, (id..id + 200).map(|id| words(&format!("SET {{a}}{id} {value}"))));
        id += 200;
        // Part of it is what is on its way.
        counted(cluster.node(full).server()) > mark + mark / 20
    });
    let slot_of = |id: &u32| Slot::of(format!("user:{id}").as_bytes()).number();
    let (there, elsewhere): (Vec<u32>, Vec<u32>) = (0..300).partition(|id| cluster.owner(slot_of(id)).unwrap() == full);
    assert!(there.len() > 50 && elsewhere.len() > 100);
    let first = format!("SET user:{} v", there[0]);
    eventually("writes are refused", || call(&mut wire, &first).starts_with("-OOM"));
    // And stay so, whatever the other nodes say of themselves.
    for id in there.iter().cycle().take(5000) {
        let answer = call(&mut wire, &format!("SET user:{id} v"));
        assert!(answer.starts_with("-OOM"), "{id}: {answer}");
    }
    for id in &elsewhere {
        assert_eq!(call(&mut wire, &format!("SET user:{id} v")), "+OK\r\n", "{id}");
    }
    let mixed = format!("MSET user:{} v user:{} v", there[0], elsewhere[0]);
    assert!(call(&mut wire, &mixed).starts_with("-OOM"), "a part of it goes there");
    for (id, wanted) in [(there[0], "-EXECABORT"), (elsewhere[0], "*1\r\n+OK")] {
        call(&mut wire, "MULTI");
        call(&mut wire, &format!("SET user:{id} v"));
        let answer = call(&mut wire, "EXEC");
        assert!(answer.starts_with(wanted), "{id}: {answer}");
    }
    call(&mut direct, &format!("DEL {}", (0..id).map(|id| format!("{{a}}{id}")).collect::<Vec<_>>().join(" ")));
    eventually("there is room", || call(&mut wire, &first) == "+OK\r\n");
}
