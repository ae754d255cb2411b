//! The plain client is right while a cluster changes under it: slots move both ways, and primaries hand over cleanly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use keyfold_testkit::cluster::{Failover, Options, PlainClient, slot_of};
use keyfold_testkit::{Binary, Cluster, Value};

use crate::{each, newest_and_others};

const KEYS: usize = 60;

#[test]
fn a_plain_client_is_right_while_slots_move_and_primaries_hand_over() {
    each(&newest_and_others().0, is_right_throughout);
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn a_plain_client_is_right_while_slots_move_and_primaries_hand_over_on_all_others() {
    each(&newest_and_others().1, is_right_throughout);
}

fn is_right_throughout(binary: &Binary) {
    let cluster = Cluster::start(binary, 3, 1, &Options::default()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = cluster.client();
        let counting = scope.spawn(|| count(client, &stop));
        // Also where what follows panics, or the scope would wait for ever.
        let _stopped = Stop(&stop);
        let is_atomic = cluster.atomic_migration().unwrap().is_some();
        for number in 0..KEYS {
            let slot = slot_of(key(number).as_bytes());
            let from = cluster.owner(slot).unwrap();
            let to = cluster.primaries().unwrap().into_iter().find(|index| *index != from).unwrap();
            if number % 2 == 0 || !is_atomic {
                cluster.reshard(slot, to).unwrap();
            } else {
                cluster.reshard_atomically(slot..=slot, to).unwrap();
            }
            if number % 20 == 0 {
                let replica = cluster.replicas_of(to).unwrap()[0];
                cluster.fail_over(replica, Failover::Clean).unwrap();
            }
        }
        stop.store(true, Ordering::Release);
        let (commands, redirects) = counting.join().unwrap();
        eprintln!("{}: {commands} commands, {redirects} redirects", binary.name());
        assert!(redirects > 0);
    });
}

struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn key(number: usize) -> String {
    format!("count:{number}")
}

/// Counts keys up, one after the other, and checks each answer; how many commands, and how many were redirected.
fn count(mut client: PlainClient, stop: &AtomicBool) -> (u64, u64) {
    let (mut commands, mut held) = (0, [0_i64; KEYS]);
    while !stop.load(Ordering::Acquire) {
        for (number, held) in held.iter_mut().enumerate() {
            let key = key(number);
            *held += 1;
            let answer = client.call(key.as_bytes(), &[b"INCR", key.as_bytes()]).unwrap();
            assert_eq!(answer, Value::Integer(*held), "{key}");
            commands += 1;
        }
    }
    (commands, client.redirects)
}
