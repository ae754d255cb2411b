//! Replicas with lower listpack limits than the layout needs: named at the start, by `doctor` and `fold`, and raised.

use std::path::Path;

use keyfold_testkit::cluster::{self, Cluster};
use keyfold_testkit::sentinel::{self, Sentinels};
use keyfold_testkit::{Wire, found};

use super::keyfold::{COUNTERS, Keyfold, read_until, run, write_layout};

const BY_SLOT: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n";
const VALUE: &str = "hash-max-listpack-value";

fn limit(wire: &mut Wire) -> String {
    let reply = wire.ask(&[b"CONFIG", b"GET", VALUE.as_bytes()]).unwrap();
    String::from_utf8(reply.elements().unwrap()[1].bytes().unwrap().to_vec()).unwrap()
}

fn set_limit(wire: &mut Wire, value: &str) {
    assert_eq!(wire.call(&[b"CONFIG", b"SET", VALUE.as_bytes(), value.as_bytes()]).unwrap(), b"+OK\r\n");
}

/// `url` leads to servers all of which have the default limit of 64; `replica` connects to a replica of one, whose port
/// this is.
fn replicas_are_named_and_raised(dir: &Path, url: &str, layout: &str, port: u16, replica: impl Fn() -> Wire) {
    let is_named = |line: &str| {
        let names = line.contains(&format!("127.0.0.1:{port}")) && line.contains("the replica");
        assert!(names && line.contains(&format!("CONFIG SET {VALUE} ")), "{line}");
    };
    set_limit(&mut replica(), "32");
    let file = write_layout(dir, layout);
    let file = file.to_str().unwrap();
    let keyfold = Keyfold::serve_after(&["--upstream", url, "--layout", file], |log| {
        is_named(read_until(log, &format!("{VALUE} is 32")).lines().last().unwrap());
    });
    assert_eq!(keyfold.connect().call(&[b"SET", b"user:1", b"1"]).unwrap(), b"+OK\r\n");
    drop(keyfold);
    let (code, out, err) = run(&["doctor", url]);
    assert_eq!(code, Some(3), "{out}{err}");
    let set = format!("-p {port} CONFIG SET {VALUE} 64");
    assert!(out.contains(&format!("{VALUE} is 32 at the replica")) && out.contains(&set), "{out}");

    // Other buckets, which need more.
    let other = layout.replace("span = 128", "span = 64").replace("count = 1", "count = 2");
    write_layout(dir, &format!("{other}value_limit = 200\n"));
    let fold = ["fold", url, "--layout", file, "--yes"];
    let (code, out, err) = run(&[&fold[..], &["--dry-run"]].concat());
    // The primary's is too low, too.
    assert_eq!(code, Some(1), "{out}{err}");
    let is_about_it = |line: &&str| line.contains("the replica") && line.contains(&format!(":{port}:"));
    is_named(out.lines().find(is_about_it).unwrap());
    let (code, out, err) = run(&[&fold[..], &["--raise-limits"]].concat());
    assert_eq!(code, Some(0), "{out}{err}");
    let raised = format!("set {VALUE} 200 on the replica at redis://127.0.0.1:{port}");
    assert!(out.contains(&raised), "{out}");
    assert_eq!(limit(&mut replica()), "200");
    let (code, out, err) = run(&["doctor", url]);
    assert!(code == Some(0) && !out.contains("at the replica"), "{out}{err}");
}

#[test]
fn a_clusters_replicas_are_named_and_raised() {
    let cluster = Cluster::start(&found().pop().unwrap(), 2, 1, &cluster::Options::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let replica = cluster.node(2);
    let connect = || replica.connect().unwrap();
    replicas_are_named_and_raised(dir.path(), &cluster.url(0), BY_SLOT, replica.address().port(), connect);
}

#[test]
fn the_replicas_of_a_server_that_sentinels_name_are_named_and_raised() {
    let options = sentinel::Options { replicas: 1, quorum: 1, ..sentinel::Options::default() };
    let sentinels = Sentinels::start_with(&found().pop().unwrap(), 1, &options).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let connect = || sentinels.connect_server(1).unwrap();
    let port = sentinels.server(1).port();
    replicas_are_named_and_raised(dir.path(), &sentinels.url(), COUNTERS, port, connect);
}

/// What is frozen, or can't be reached from here, holds up nobody.
#[test]
fn a_replica_that_does_not_answer_holds_up_nobody() {
    let options = sentinel::Options { replicas: 1, ..sentinel::Options::default() };
    let mut sentinels = Sentinels::start_with(&found().pop().unwrap(), 0, &options).unwrap();
    let url = sentinels.server(0).url();
    sentinels.freeze_server(1).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = write_layout(dir.path(), COUNTERS);
    let keyfold = Keyfold::serve(&["--upstream", &url, "--layout", file.to_str().unwrap()]);
    assert_eq!(keyfold.connect().call(&[b"SET", b"user:1", b"1"]).unwrap(), b"+OK\r\n");
    let (code, out, err) = run(&["doctor", &url]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("this replica can't be asked for its limits"), "{out}");
}
