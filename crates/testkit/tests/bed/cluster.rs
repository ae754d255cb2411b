//! A cluster starts, serves keys, moves slots and hands over.

use keyfold_testkit::cluster::{AtomicMigration, Failover, Options, SLOTS, key_in, slot_of};
use keyfold_testkit::{Binary, Cluster, Value, found};

use crate::{each, newest_and_others};

const KEYS: usize = 200;

fn set(cluster: &Cluster, key: &str, value: &str) {
    let reply = cluster.client().call(key.as_bytes(), &[b"SET", key.as_bytes(), value.as_bytes()]).unwrap();
    assert_eq!(reply, Value::Simple(b"OK".to_vec()), "{key}");
}

/// Fills a slot with keys that hold their own names.
fn fill(cluster: &Cluster, slot: u16) -> Vec<String> {
    let mut client = cluster.client();
    let tagged = key_in(slot, "bed");
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{tagged}:{number}")).collect();
    for key in &keys {
        let reply = client.call(key.as_bytes(), &[b"SET", key.as_bytes(), key.as_bytes()]).unwrap();
        assert_eq!(reply, Value::Simple(b"OK".to_vec()), "{key}");
    }
    keys
}

/// Every key holds its name, to a client that comes anew; how often it was redirected.
fn check(cluster: &Cluster, keys: &[String]) -> u64 {
    let mut client = cluster.client();
    for key in keys {
        let reply = client.call(key.as_bytes(), &[b"GET", key.as_bytes()]).unwrap();
        assert_eq!(reply, Value::Bulk(key.clone().into_bytes()), "{key}");
    }
    client.redirects
}

#[test]
fn one_node_owns_all_slots() {
    each(&found(), |binary| {
        let cluster = Cluster::start(binary, 1, 0, &Options::default()).unwrap();
        assert_eq!((cluster.owner(0).unwrap(), cluster.owner(SLOTS - 1).unwrap()), (0, 0));
        for key in ["", "a", "{b}c", "d{}{e}", "f{{g}}", "h{i", "}j{k}"] {
            let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", key]).unwrap();
            assert_eq!(slot, Value::Integer(i64::from(slot_of(key.as_bytes()))), "{key}");
        }
        set(&cluster, "a", "1");
    });
}

#[test]
fn slots_move_between_primaries() {
    each(&found(), slots_move);
}

fn slots_move(binary: &Binary) {
    let mut cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
    assert_eq!(cluster.primaries().unwrap(), [0, 1, 2]);
    let slot = 100;
    let keys = fill(&cluster, slot);
    assert_eq!(cluster.owner(slot).unwrap(), 0);

    // Half-way: both keys that are left and keys that went are found, those by ASK, and two of them by nobody.
    let resharding = cluster.begin_reshard(slot, 1).unwrap();
    assert_eq!(cluster.move_keys(resharding, KEYS / 2).unwrap(), KEYS / 2);
    assert_eq!((cluster.keys_in_slot(0, slot).unwrap(), cluster.keys_in_slot(1, slot).unwrap()), (KEYS / 2, KEYS / 2));
    assert_eq!(check(&cluster, &keys), KEYS as u64 / 2);
    let here = text_of(&cluster, 0, slot);
    let there = text_of(&cluster, 1, slot);
    let mut wire = cluster.node(0).connect().unwrap();
    let ask = format!("-ASK {slot} {}\r\n", cluster.node(1).address());
    assert_eq!(wire.call(&[b"GET", there.as_bytes()]).unwrap(), ask.as_bytes());
    let reply = wire.ask(&[b"MGET", here.as_bytes(), there.as_bytes()]).unwrap();
    // Before Redis 7.0 it is the other node that says so.
    let refusal: &[u8] = if binary.has_redis_7() { b"TRYAGAIN" } else { b"ASK" };
    assert!(matches!(&reply, Value::Error(error) if error.starts_with(refusal)), "{reply:?}");

    // Taken back, nothing of it is left; gone on with, the slot moves.
    cluster.take_back_reshard(resharding).unwrap();
    assert_eq!(cluster.owner(slot).unwrap(), 0);
    let resharding = cluster.begin_reshard(slot, 2).unwrap();
    cluster.take_back_reshard(resharding).unwrap();
    assert_eq!(check(&cluster, &keys), 0);
    assert!(cluster.node(0).myself().unwrap().migrating.is_empty());
    let resharding = cluster.begin_reshard(slot, 1).unwrap();
    cluster.move_keys(resharding, 1).unwrap();
    cluster.finish_reshard(cluster.begin_reshard(slot, 1).unwrap()).unwrap();
    assert_eq!(cluster.owner(slot).unwrap(), 1);
    assert_eq!(check(&cluster, &keys), 0);

    // By the server itself.
    match cluster.atomic_migration().unwrap() {
        Some(way) => {
            // Cancelled at once, nothing of it is left.
            cluster.begin_atomic_reshard(slot..=slot, 2).unwrap();
            cluster.cancel_atomic_reshard(if way == AtomicMigration::MigrateSlots { 1 } else { 2 }).unwrap();
            assert_eq!(cluster.owner(slot).unwrap(), 1);
            assert_eq!(check(&cluster, &keys), 0);
            cluster.reshard_atomically(slot..=slot, 2).unwrap();
            assert_eq!(cluster.owner(slot).unwrap(), 2);
            assert_eq!(check(&cluster, &keys), 0);
            assert_eq!(cluster.keys_in_slot(1, slot).unwrap(), 0);
        }
        None => assert!(cluster.reshard_atomically(slot..=slot, 2).is_err()),
    }

    // To a node that comes later.
    let added = cluster.add(&["--hash-max-ziplist-entries", "7"]).unwrap();
    cluster.reshard(slot, added).unwrap();
    cluster.wait_until_settled().unwrap();
    assert_eq!(check(&cluster, &keys), 0);
}

/// One of the keys of a slot that lie at a node.
fn text_of(cluster: &Cluster, index: usize, slot: u16) -> String {
    let keys = cluster.node(index).call(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1"]).unwrap();
    String::from_utf8(keys.elements().unwrap()[0].bytes().unwrap().to_vec()).unwrap()
}

#[test]
fn replicas_take_over_cleanly() {
    each(&newest_and_others().0, take_over);
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn replicas_take_over_cleanly_on_all_others() {
    each(&newest_and_others().1, take_over);
}

fn take_over(binary: &Binary) {
    let options = Options {
        password: Some("secret".to_owned()),
        hostnames: (0..6).map(|index| format!("node-{index}.example")).collect(),
        endpoint: "hostname",
        ..Options::default()
    };
    let cluster = Cluster::start(binary, 3, 1, &options).unwrap();
    assert_eq!(cluster.replicas_of(0).unwrap(), [3]);
    assert_eq!(cluster.node(1).myself().unwrap().hostname.as_deref(), Some("node-1.example"));
    let slot = 7;
    let keys = fill(&cluster, slot);
    cluster.fail_over(3, Failover::Clean).unwrap();
    assert_eq!((cluster.owner(slot).unwrap(), cluster.replicas_of(3).unwrap()), (3, vec![0]));
    check(&cluster, &keys);
    cluster.reshard(slot, 1).unwrap();
    check(&cluster, &keys);
    cluster.fail_over(4, Failover::Force).unwrap();
    cluster.fail_over(5, Failover::Takeover).unwrap();
    assert_eq!(cluster.primaries().unwrap(), [3, 4, 5]);
    check(&cluster, &keys);
    let reply = cluster.node(0).connect().unwrap().ask(&[b"GET", keys[0].as_bytes()]).unwrap();
    assert!(matches!(&reply, Value::Error(error) if error.starts_with(b"MOVED 7 node-4.example:")), "{reply:?}");
}
