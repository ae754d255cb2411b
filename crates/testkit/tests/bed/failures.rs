//! What a cluster goes through: nodes killed, frozen and cut off, and their return.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use keyfold_testkit::cluster::{Condition, Cut, Options, PATIENCE, slot_of};
use keyfold_testkit::patience::wait_for;
use keyfold_testkit::{Binary, Cluster, Value, Wire};

use crate::{each, newest_and_others};

#[test]
fn others_follow_whom_they_lose() {
    each(&newest_and_others().0, lose_and_follow);
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn others_follow_whom_they_lose_on_all_others() {
    each(&newest_and_others().1, lose_and_follow);
}

fn lose_and_follow(binary: &Binary) {
    let options = Options { relays: true, ..Options::default() };
    let mut cluster = Cluster::start(binary, 3, 1, &options).unwrap();
    let mut client = cluster.client();
    let mut count = 0;

    let start = Instant::now();
    cluster.kill(0).unwrap();
    assert_eq!(cluster.node(0).condition(), Condition::Killed);
    assert!(cluster.node(0).connect().is_err());
    assert_eq!(cluster.wait_for_successor(0).unwrap(), 3);
    eprintln!("{}: killed, followed after {:.1} s", binary.name(), start.elapsed().as_secs_f64());
    add_one(&mut client, &mut count);
    cluster.restart(0).unwrap();
    cluster.wait_until_settled().unwrap();
    assert_eq!(cluster.replicas_of(3).unwrap(), [0]);

    let start = Instant::now();
    cluster.freeze(3).unwrap();
    assert_eq!(cluster.wait_for_successor(3).unwrap(), 0);
    eprintln!("{}: frozen, followed after {:.1} s", binary.name(), start.elapsed().as_secs_f64());
    add_one(&mut client, &mut count);
    cluster.wake(3).unwrap();
    cluster.wait_until_settled().unwrap();
    assert_eq!(cluster.replicas_of(0).unwrap(), [3]);

    // Cut off from other nodes only: clients reach it, and it says that it is down once it has noticed, which may be
    // after another has followed it.
    let start = Instant::now();
    cluster.cut(0, Cut::Nodes).unwrap();
    assert_eq!(cluster.wait_for_successor(0).unwrap(), 3);
    eprintln!("{}: cut off, followed after {:.1} s", binary.name(), start.elapsed().as_secs_f64());
    let noticed = wait_for("it to notice", PATIENCE, || {
        match cluster.node(0).connect().unwrap().ask(&[b"GET", COUNTER]).unwrap() {
            Value::Error(error) if error.starts_with(b"CLUSTERDOWN") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    noticed.unwrap();
    eprintln!("{}: cut off, noticed after {:.1} s", binary.name(), start.elapsed().as_secs_f64());
    add_one(&mut client, &mut count);
    cluster.heal(0);
    cluster.wait_until_settled().unwrap();
    // Whom it took for gone it may follow by an election, at once, though that one is well.
    let primary = cluster.owner(slot_of(COUNTER)).unwrap();
    assert!([0, 3].contains(&primary), "{primary}");
    assert_eq!(cluster.replicas_of(primary).unwrap(), [3 - primary]);
    add_one(&mut client, &mut count);

    // Cut off from clients only: nothing happens, and nothing is answered.
    cluster.cut(primary, Cut::Clients).unwrap();
    let mut wire = cluster.node(primary).connect().unwrap();
    wire.set_timeout(Duration::from_millis(200)).unwrap();
    assert!(wire.call(&[b"PING"]).is_err());
    cluster.wait_until_settled().unwrap();
    assert_eq!(cluster.replicas_of(primary).unwrap(), [3 - primary]);
    cluster.heal(primary);
    wire.set_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(wire.reply().unwrap(), b"+PONG\r\n");
    add_one(&mut client, &mut count);

    // Refused to clients, and no longer.
    cluster.refuse(primary);
    assert!(wire.is_closed().unwrap());
    assert!(cluster.node(primary).connect().is_err());
    cluster.accept(primary).unwrap();
    cluster.wait_until_settled().unwrap();
    add_one(&mut client, &mut count);
}

#[test]
fn a_cluster_is_gone_when_its_test_panics_though_a_node_is_frozen() {
    each(&newest_and_others().0, |binary| {
        let mut cluster = Cluster::start(binary, 1, 0, &Options::default()).unwrap();
        let (address, socket) = (cluster.node(0).address(), cluster.node(0).server().unix_socket().to_owned());
        cluster.freeze(0).unwrap();
        let test = move || {
            assert!(cluster.nodes().is_empty(), "as meant");
        };
        assert!(catch_unwind(AssertUnwindSafe(test)).is_err());
        assert!(Wire::connect(address).is_err());
        assert!(!socket.parent().unwrap().exists());
    });
}

/// A key of slot 3300, which the first node owns at first.
const COUNTER: &[u8] = b"counter:{b}";

/// Counts a counter up by one; what was lost with a connection is not sent again by the client, so it is read first.
fn add_one(client: &mut keyfold_testkit::cluster::PlainClient, count: &mut i64) {
    let mut ask = |args: &[&[u8]]| loop {
        match client.call(COUNTER, args) {
            Ok(answer) => return answer,
            Err(error) => eprintln!("{error}"),
        }
    };
    let before = ask(&[b"GET", COUNTER]).integer().unwrap_or(0);
    assert_eq!(before, *count);
    *count += 1;
    let after = ask(&[b"SET", COUNTER, count.to_string().as_bytes()]);
    assert_eq!(after, Value::Simple(b"OK".to_vec()));
}
