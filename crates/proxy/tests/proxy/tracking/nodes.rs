//! Before a cluster: changes are told wherever a key's slot goes, and whichever node becomes its primary.

use keyfold_testkit::Cluster;
use keyfold_testkit::Value;
use keyfold_testkit::cluster::{Failover, slot_of};
use keyfold_testkit::servers::{each, newest_and_others};

use super::told::Told;
use crate::cluster::{connect, stage};
use crate::stage::{call, eventually};

/// A plain key, which others write past keyfold.
const KEY: &str = "plain";

/// What is read is told when it is changed past keyfold.
fn is_told(me: &mut Told, cluster: &Cluster, when: &str) {
    let mut past = cluster.client();
    for value in ["1", "2", "3"] {
        eventually("it is read", || matches!(me.ask(&format!("GET {KEY}")), Value::Bulk(_) | Value::Nil));
        me.heard.clear();
        past.call(KEY.as_bytes(), &[b"SET", KEY.as_bytes(), value.as_bytes()]).unwrap();
        me.hear(KEY, when);
    }
}

#[test]
fn slots_move_and_every_change_is_told() {
    each(&newest_and_others().0, |binary| {
        let (mut cluster, proxy) = stage(binary, 3, 0);
        let slot = slot_of(KEY.as_bytes());
        let mut me = Told::new(&proxy, "");
        let mut broadcast = Told::new(&proxy, " BCAST");
        is_told(&mut me, &cluster, "at first");
        let empty = cluster.add(&[]).unwrap();
        let owner = cluster.owner(slot).unwrap();
        for target in [(owner + 1) % 3, empty, owner] {
            let resharding = cluster.begin_reshard(slot, target).unwrap();
            is_told(&mut me, &cluster, "its slot is about to move");
            while cluster.move_keys(resharding, 100).unwrap() > 0 {}
            is_told(&mut me, &cluster, "its slot is half-way");
            cluster.finish_reshard(resharding).unwrap();
            is_told(&mut me, &cluster, "its slot has moved");
        }
        broadcast.hear(KEY, "it has changed all the time");
        // Folded keys lie with their slot.
        for id in 0..30 {
            me.ask(&format!("GET user:{id}"));
            me.heard.clear();
            call(&mut connect(&proxy), &format!("SET user:{id} v"));
            me.hear(&format!("user:{id}"), "it was written");
        }
    });
}

#[test]
fn another_primary_tells_what_changes() {
    each(&newest_and_others().0, |binary| {
        let (mut cluster, proxy) = stage(binary, 3, 1);
        let slot = slot_of(KEY.as_bytes());
        let mut me = Told::new(&proxy, "");
        is_told(&mut me, &cluster, "at first");
        let primary = cluster.owner(slot).unwrap();
        let replica = cluster.replicas_of(primary).unwrap()[0];
        cluster.fail_over(replica, Failover::Clean).unwrap();
        is_told(&mut me, &cluster, "after a clean failover");
        eventually("the other is its replica", || cluster.replicas_of(replica).is_ok_and(|of| of == [primary]));
        cluster.wait_until_settled().unwrap();
        cluster.kill(replica).unwrap();
        assert_eq!(cluster.wait_for_successor(replica).unwrap(), primary);
        is_told(&mut me, &cluster, "after its primary was killed");
    });
}
