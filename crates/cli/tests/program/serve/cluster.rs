//! A cluster's layout: refused where it doesn't keep to slots or hides keys, put in force on all nodes otherwise.

use std::time::{Duration, Instant};

use keyfold_core::admin::home;
use keyfold_testkit::cluster::Options;
use keyfold_testkit::{Cluster, found};
use rustix::process::Signal;

use super::keyfold::{Keyfold, read_until, run, write_layout};

const SPAN: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n";
const BY_SLOT: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n";

#[test]
fn a_cluster_gets_its_layout_from_a_file() {
    let cluster = Cluster::start(&found().pop().unwrap(), 3, 0, &Options::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let url = cluster.url(1);
    let refused = |layout: &str, why: &str| {
        let file = write_layout(dir.path(), layout);
        let listen = ["--listen", "127.0.0.1:0"];
        let (code, _, err) =
            run(&[&["serve", "--upstream", &url, "--layout", file.to_str().unwrap()][..], &listen].concat());
        assert!(code == Some(1) && err.contains(why), "{err}");
    };
    refused(SPAN, "`cluster = true`");
    cluster.client().call(b"user:7", &[b"SET", b"user:7", b"x"]).unwrap();
    refused(BY_SLOT, "such as \"user:7\"");
    cluster.client().call(b"user:7", &[b"DEL", b"user:7"]).unwrap();

    let file = write_layout(dir.path(), BY_SLOT);
    let seeds = format!("cluster://{},{}", cluster.node(2).address(), cluster.node(0).address());
    let first = Keyfold::serve(&["--upstream", &seeds, "--layout", file.to_str().unwrap()]);
    for id in 0..100 {
        let (key, value) = (format!("user:{id}"), format!("value {id}"));
        assert_eq!(first.connect().call(&[b"SET", key.as_bytes(), value.as_bytes()]).unwrap(), b"+OK\r\n");
    }
    // Another one finds it there, and both see the same.
    let second = Keyfold::serve(&["--upstream", &url]);
    assert_eq!(second.connect().call(&[b"GET", b"user:42"]).unwrap(), b"$8\r\nvalue 42\r\n");
    assert_eq!(second.connect().call(&[b"DBSIZE"]).unwrap(), b":100\r\n");
    let (code, out, err) = run(&["layout", "show", &url]);
    assert!(code == Some(0) && out.contains("in each slot"), "{out}{err}");
    let plain = cluster.client().call(b"user:42", &[b"EXISTS", b"user:42"]).unwrap();
    assert_eq!(plain, keyfold_testkit::Value::Integer(0), "it is folded");
}

#[test]
fn a_node_of_another_release_or_with_lower_limits_is_named() {
    let binaries = found();
    let (Some(first), Some(last)) = (binaries.first(), binaries.last()) else { return };
    let cluster = Cluster::start_mixed(&[first, last, last].map(Clone::clone), 3, &Options::default()).unwrap();
    let low = cluster.node(1);
    assert_eq!(
        low.connect().unwrap().call(&[b"CONFIG", b"SET", b"hash-max-listpack-value", b"32"]).unwrap(),
        b"+OK\r\n"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = write_layout(dir.path(), BY_SLOT);
    let url = cluster.url(0);
    let _keyfold = Keyfold::serve_after(&["--upstream", &url, "--layout", file.to_str().unwrap()], |log| {
        let limits = read_until(log, "hash-max-listpack-value is 32");
        let line = limits.lines().last().unwrap();
        assert!(line.contains(&format!("{}: ", low.address())) && line.contains("CONFIG SET"), "{line}");
        if first.name() != last.name() {
            let releases = read_until(log, "not all nodes are ");
            let line = releases.lines().last().unwrap();
            assert!(line.contains(&low.address().to_string()) || line.contains(&cluster.node(0).address().to_string()));
        }
    });
}

#[test]
fn keyfolds_that_start_together_with_one_file_wait_for_each_other() {
    let cluster = Cluster::start(&found().pop().unwrap(), 3, 0, &Options::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = write_layout(dir.path(), BY_SLOT);
    let url = cluster.url(0);
    let args = ["--upstream", &url, "--layout", file.to_str().unwrap()];
    let mut keyfolds: Vec<Keyfold> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..3).map(|_| scope.spawn(|| Keyfold::serve(&args))).collect();
        started.into_iter().map(|keyfold| keyfold.join().unwrap()).collect()
    });
    // The file is brought again, by the same barrier, to all of them.
    write_layout(dir.path(), &format!("{BY_SLOT}[[namespace]]\nkeys = 'cart:{{id:int}}'\nbucket = {{ count = 1 }}\n"));
    keyfolds[0].signal(Signal::HUP);
    keyfolds[0].log_until(": 2 namespaces, 1 new, 0 changed");
    let set = keyfolds[1].connect().call(&[b"SET", b"cart:7", b"x"]).unwrap();
    assert_eq!(set, b"+OK\r\n");
    let plain = cluster.client().call(b"cart:7", &[b"EXISTS", b"cart:7"]).unwrap();
    assert_eq!(plain, keyfold_testkit::Value::Integer(0), "it is folded");
    assert_eq!(keyfolds[2].connect().call(&[b"GET", b"cart:7"]).unwrap(), b"$1\r\nx\r\n");
}

/// Serves, and brings a layout without serving: both are refused, and say why.
#[track_caller]
fn refused(url: &str, says: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let file = write_layout(dir.path(), BY_SLOT);
    let file = file.to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--upstream", url];
    for args in [&serve[..], &["layout", "push", file, "--upstream", url]] {
        let (code, _, err) = run(args);
        assert_eq!(code, Some(1), "{args:?}: {err}");
        says.iter().for_each(|text| assert!(err.contains(text), "{args:?}: {text:?} is not in {err}"));
    }
}

#[test]
fn what_is_no_cluster_or_not_whole_is_told_before_anything_is_served() {
    let binary = found().pop().unwrap();
    let one = binary.start(&[]).unwrap();
    refused(&one.url().replace("redis://", "cluster://"), &["no node of a cluster", &one.url()]);
    refused("cluster://127.0.0.1:1,127.0.0.1:2", &["127.0.0.1:1: ", "127.0.0.1:2: ", "is a server running there?"]);

    let password = Options { password: Some("secret".to_owned()), ..Options::default() };
    let cluster = Cluster::start(&binary, 2, 0, &password).unwrap();
    let with_password = cluster.url(0).replace("redis://", "redis://:secret@");
    refused(&cluster.url(0), &["name the user and the password in the URL"]);
    let other = usize::from(cluster.owner(home().number()).unwrap() == 0);
    cluster.node(1 - other).call(&["CONFIG", "SET", "requirepass", "other"]).unwrap();
    let at = if other == 1 { cluster.url(1).replace("redis://", "redis://:secret@") } else { with_password };
    refused(&at, &[&cluster.node(1 - other).address().to_string(), "same user and password"]);

    let cluster = Cluster::start(&binary, 2, 0, &Options::default()).unwrap();
    let says = |text: &str| cluster.node(0).text(&["CLUSTER", "INFO"]).unwrap().contains(text);
    for node in 0..2 {
        cluster.node(node).call(&["CLUSTER", "DELSLOTS", "3", "4"]).unwrap();
    }
    wait_until(|| says("cluster_state:fail"));
    refused(&cluster.url(0), &[&cluster.url(0), "says that its cluster is down", "--cluster check"]);
    cluster.node(0).call(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).unwrap();
    wait_until(|| says("cluster_state:ok"));
    refused(&cluster.url(0), &["nobody has 2 slots, such as 3", "--cluster fix"]);
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "it never was");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_cluster_is_found_by_a_replica_by_names_and_by_no_names() {
    let binary = found().pop().unwrap();
    let serves = |cluster: &Cluster, url: &str| {
        let dir = tempfile::tempdir().unwrap();
        let file = write_layout(dir.path(), BY_SLOT);
        let keyfold = Keyfold::serve(&["--upstream", url, "--layout", file.to_str().unwrap()]);
        let mut wire = keyfold.connect();
        for id in 0..20 {
            let key = format!("user:{id}");
            assert_eq!(wire.call(&[b"SET", key.as_bytes(), b"x"]).unwrap(), b"+OK\r\n");
        }
        let plain = cluster.client().call(b"user:7", &[b"EXISTS", b"user:7"]).unwrap();
        assert_eq!(plain, keyfold_testkit::Value::Integer(0), "it is folded");
    };
    let cluster = Cluster::start(&binary, 2, 1, &Options::default()).unwrap();
    serves(&cluster, &cluster.url(3));
    let cluster = Cluster::start(&binary, 1, 0, &Options::default()).unwrap();
    serves(&cluster, &cluster.url(0));
    let unknown = Options { endpoint: "unknown-endpoint", ..Options::default() };
    let cluster = Cluster::start(&binary, 2, 0, &unknown).unwrap();
    serves(&cluster, &cluster.url(1));
    let names = Options { hostnames: vec!["localhost".to_owned(); 2], endpoint: "hostname", ..Options::default() };
    let cluster = Cluster::start(&binary, 2, 0, &names).unwrap();
    serves(&cluster, &cluster.url(0));
    // Names that nobody here knows are mapped.
    let names = Options { hostnames: vec!["a.invalid".to_owned(), "b.invalid".to_owned()], ..names };
    let cluster = Cluster::start(&binary, 2, 0, &names).unwrap();
    refused(&cluster.url(0), &[".invalid:", "--map-address"]);
    let url = cluster.url(0);
    let mapped = ["--map-address", "a.invalid=127.0.0.1", "--map-address", "b.invalid=127.0.0.1"];
    let keyfold = Keyfold::serve(&[&["--upstream", &url][..], &mapped].concat());
    assert_eq!(keyfold.connect().call(&[b"SET", b"any", b"x"]).unwrap(), b"+OK\r\n");
}
