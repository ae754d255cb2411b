//! A slice of `make chaos`: a few rounds in which nodes of a cluster and keyfolds before it fail under load.

use std::process::Command;

use keyfold_core::admin::home;
use keyfold_core::layout::Layout;
use keyfold_testkit::cluster::{Cut, Options, key_in};
use keyfold_testkit::servers::newest_and_others;
use keyfold_testkit::{Cluster, Subject, Wire};

#[test]
fn no_answer_is_wrong_while_nodes_fail() {
    let (newest, _) = newest_and_others();
    for binary in newest {
        let results = tempfile::tempdir().unwrap();
        let mut chaos = Command::new(env!("CARGO_BIN_EXE_chaos"));
        chaos.args(["--rounds", "2", "--seed", "3", "--server", &binary.name()]);
        let output = chaos.arg("--results").arg(results.path().join("rounds.jsonl")).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn a_keyfold_starts_while_a_primary_is_away() {
    let (newest, _) = newest_and_others();
    // No client can reach it, while other nodes see it: nobody takes its place, and the cluster stays whole.
    let mut cluster = Cluster::start(&newest[0], 3, 0, &Options { relays: true, ..Options::default() }).unwrap();
    let owner = cluster.owner(home().number()).unwrap();
    let layout = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n";
    cluster.node(owner).server().put_in_force(&Layout::parse_file(layout).unwrap()).unwrap();
    let victim = (owner + 1) % 3;
    let slots = [victim, (owner + 2) % 3].map(|node| *cluster.node(node).myself().unwrap().slots[0].start());
    let upstream = format!("cluster://{}", cluster.node(owner).address());
    cluster.cut(victim, Cut::Clients).unwrap();
    let keyfold = Subject::before_cluster_at(&upstream, None).unwrap();
    let mut wire = Wire::connect(keyfold.address()).unwrap();
    assert_eq!(wire.call(&[b"SET", key_in(slots[1], "k").as_bytes(), b"x"]).unwrap(), b"+OK\r\n", "{}", keyfold.log());
    cluster.heal(victim);
    let key = key_in(slots[0], "k");
    keyfold_testkit::patience::wait_for("the other to be served", std::time::Duration::from_secs(30), || {
        match wire.call(&[b"SET", key.as_bytes(), b"x"]) {
            Ok(answer) if answer == b"+OK\r\n" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .unwrap();
}
