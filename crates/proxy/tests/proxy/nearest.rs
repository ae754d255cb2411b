//! Reads from whichever node of a shard is nearest.

use std::time::{Duration, Instant};

use keyfold_core::cluster::ReadFrom;
use keyfold_proxy::Handle;
use keyfold_testkit::Cluster;
use keyfold_testkit::cluster::{Options, slot_of};
use keyfold_testkit::servers::{Binary, each, newest_and_others};

use crate::replicas::{KEYS, bulk, calls, connect, reset_counts, serve_before, shown, until_read_from, value};
use crate::stage::{call, eventually};

/// One way.
const FAR: Duration = Duration::from_millis(20);
/// For so long a replica may be silent over a read.
const SILENCE: Duration = Duration::from_millis(400);
/// What a loaded machine may add.
const SLACK: Duration = Duration::from_secs(2);
const READS: [&str; 5] = ["hget", "hmget", "get", "mget", "strlen"];

/// The ids whose keys are of this primary's shard.
fn ids_of(cluster: &Cluster, primary: usize) -> Vec<usize> {
    (0..KEYS).filter(|id| cluster.owner(slot_of(format!("user:{id}").as_bytes())).unwrap() == primary).collect()
}

/// Reads all keys of the shard; how long each took.
fn read(proxy: &Handle, ids: &[usize]) -> Vec<Duration> {
    let mut wire = connect(proxy);
    let timed = ids.iter().map(|id| {
        let since = Instant::now();
        assert_eq!(call(&mut wire, &format!("GET user:{id}")), bulk(&value(*id)), "user:{id}");
        since.elapsed()
    });
    timed.collect()
}

#[test]
fn reads_go_to_the_nearest_node_and_elsewhere_once_it_is_frozen() {
    each(&newest_and_others().0, go_to_the_nearest);
}

fn go_to_the_nearest(binary: &Binary) {
    let mut cluster = Cluster::start(binary, 3, 1, &Options { relays: true, ..Options::default() }).unwrap();
    let shards: Vec<Vec<usize>> = (0..3).map(|primary| ids_of(&cluster, primary)).collect();
    let replica = |primary: usize| cluster.replicas_of(primary).unwrap()[0];
    let replicas: Vec<usize> = (0..3).map(replica).collect();
    // Of the first shard the replica is far away, of the others the primaries are.
    for node in [replicas[0], 1, 2] {
        cluster.move_away(node, FAR);
    }
    let proxy = serve_before(&cluster, ReadFrom::Nearest);
    until_read_from(&proxy, 2);
    let goes_to = |near: usize, far: usize, shard: usize| {
        reset_counts(&cluster);
        read(&proxy, &shards[shard]);
        let (at_near, at_far) = (calls(&cluster, near, &READS), calls(&cluster, far, &READS));
        // A replica that a busy machine keeps from answering in time loses some.
        at_near > 0 && at_far * 10 <= at_near
    };
    eventually("the first shard's primary is read from", || goes_to(0, replicas[0], 0));
    eventually("the second shard's replica is read from", || goes_to(replicas[1], 1, 1));
    eventually("the third shard's replica is read from", || goes_to(replicas[2], 2, 2));

    // The one that was far is near, and the one that was near is far.
    cluster.move_away(0, FAR);
    cluster.move_away(replicas[0], Duration::ZERO);
    eventually("the first shard's replica is read from", || goes_to(replicas[0], 0, 0));

    cluster.freeze(replicas[1]).unwrap();
    let took = read(&proxy, &shards[1]);
    let slowest = took.iter().max().unwrap();
    let waited = took.iter().filter(|took| **took >= SILENCE).count();
    eprintln!("{}: frozen: the slowest read took {slowest:.1?}, {waited} waited", binary.name());
    assert!(*slowest < SILENCE + 2 * FAR + SLACK, "{slowest:?}");
    assert!(waited <= 2, "{waited} of {} reads waited for a frozen replica", took.len());
    eventually("it is said", || shown(&proxy).iter().filter(|line| line.contains("unfit=")).count() == 1);
    cluster.wake(replicas[1]).unwrap();
    until_read_from(&proxy, 3);
}
