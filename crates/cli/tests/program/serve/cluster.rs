//! A cluster's layout: refused where it doesn't keep to slots or hides keys, put in force on all nodes otherwise.

use keyfold_testkit::cluster::Options;
use keyfold_testkit::{Cluster, found};
use rustix::process::Signal;

use super::keyfold::{Keyfold, run, write_layout};

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
    keyfolds[0].log_until("1 new, 0 changed");
    let set = keyfolds[1].connect().call(&[b"SET", b"cart:7", b"x"]).unwrap();
    assert_eq!(set, b"+OK\r\n");
    let plain = cluster.client().call(b"cart:7", &[b"EXISTS", b"cart:7"]).unwrap();
    assert_eq!(plain, keyfold_testkit::Value::Integer(0), "it is folded");
    assert_eq!(keyfolds[2].connect().call(&[b"GET", b"cart:7"]).unwrap(), b"$1\r\nx\r\n");
}
