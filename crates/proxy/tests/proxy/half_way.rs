//! A slot whose source is lost while its keys are on their way, one by one: clients of keyfold are answered what others
//! are, and once the slot has got to its end nothing is missing.
//!
//! Valkey's replicas know of such a slot. Redis's don't: the one that follows answers nil for what has gone ahead, and the
//! target, which takes no other node's word for a slot that it imports (`clusterUpdateSlotsConfigWith`), takes the one that
//! is gone for the owner and its cluster to be down, until an operator tells it that it imports nothing.

use std::time::Duration;

use keyfold_testkit::Flavor;
use keyfold_testkit::cluster::{key_in, slot_of};
use keyfold_testkit::patience::wait_for;
use keyfold_testkit::reply::Value;
use keyfold_testkit::servers::{Binary, each, newest_and_others};

use crate::cluster::{bulk, connect, stage};
use crate::stage::{call, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_source_that_is_lost_half_way_costs_no_more_than_without_keyfold() {
    each(&newest_and_others().0, lose_the_source);
}

fn lose_the_source(binary: &Binary) {
    let (mut cluster, proxy) = stage(binary, 3, 1);
    let slot = slot_of(b"user:7");
    let keys: Vec<String> = (0..12).map(|number| key_in(slot, &format!("plain:{number}"))).collect();
    let mut wire = connect(&proxy);
    assert_eq!(call(&mut wire, "SET user:7 folded"), "+OK\r\n");
    for key in &keys {
        assert_eq!(call(&mut wire, &format!("SET {key} {key}")), "+OK\r\n");
    }
    assert_eq!(call(&mut wire, "WAIT 1 20000"), ":1\r\n");
    let source = cluster.owner(slot).unwrap();
    let target = cluster.primaries().unwrap().into_iter().find(|node| *node != source).unwrap();
    let half = cluster.begin_reshard(slot, target).unwrap();
    assert_eq!(cluster.move_keys(half, 6).unwrap(), 6);
    cluster.kill(source).unwrap();
    let follows = |owner: usize| if owner == source { Err("it is primary still".to_owned()) } else { Ok(()) };
    wait_for("a successor", PATIENCE, || cluster.owner(slot).map_err(|error| error.to_string()).and_then(follows))
        .unwrap();
    eventually("keyfold follows", || !call(&mut wire, &format!("GET {}", keys[0])).starts_with('-'));
    let mut client = cluster.client();
    let mut missing = 0;
    for key in &keys {
        let plain = client.call(key.as_bytes(), &[b"GET", key.as_bytes()]).unwrap();
        let expected = if plain == Value::Nil { "$-1\r\n".to_owned() } else { bulk(key) };
        assert_eq!(call(&mut wire, &format!("GET {key}")), expected, "{key}: {plain:?}");
        missing += usize::from(plain == Value::Nil);
    }
    eprintln!("{}: {missing} of {} are missing half-way", binary.name(), keys.len());
    assert!(binary.flavor() == Flavor::Redis || missing == 0, "{missing}");

    if binary.flavor() == Flavor::Redis {
        let state = cluster.node(target).text(&["CLUSTER", "INFO"]).unwrap();
        assert!(state.contains("cluster_state:fail"), "{state}");
        cluster.node(target).call(&["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]).unwrap();
    }
    cluster.wait_until_settled().unwrap();
    let again = cluster.begin_reshard(slot, target).unwrap();
    cluster.finish_reshard(again).unwrap();
    cluster.restart(source).unwrap();
    cluster.wait_until_settled().unwrap();
    for key in &keys {
        assert_eq!(call(&mut wire, &format!("GET {key}")), bulk(key), "{key}");
    }
    assert_eq!(call(&mut wire, "GET user:7"), bulk("folded"));
}
