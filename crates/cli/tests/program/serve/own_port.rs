//! Tools that are given a keyfold's own port.

use keyfold_testkit::{Cluster, cluster, found};
use tempfile::TempDir;

use super::keyfold::{COUNTERS, Keyfold, run, write_layout};

/// Every command that works on a server, with this URL.
fn commands<'a>(url: &'a str, layout: &'a str, dump: &'a str) -> Vec<Vec<&'a str>> {
    vec![
        vec!["analyze", url],
        vec!["plan", url],
        vec!["layout", "show", url],
        vec!["layout", "push", url, layout],
        vec!["layout", "recover", url],
        vec!["fold", url, "--layout", layout, "--yes"],
        vec!["unfold", url, "--yes"],
        vec!["train", url],
        vec!["recode", url],
        vec!["status", url],
        vec!["where", url, "user:1"],
        vec!["verify", url],
        vec!["doctor", url],
        vec!["export", url],
        vec!["import", url, dump],
        vec!["lab", "run", "set-vs-hash", "--quick", "--server", url],
        vec!["serve", "--listen", "127.0.0.1:0", "--upstream", url],
    ]
}

fn all_refuse(keyfold: &Keyfold, behind: &str, dir: &TempDir) {
    let layout = write_layout(dir.path(), COUNTERS);
    let dump = dir.path().join("dump.jsonl");
    std::fs::write(&dump, "").unwrap();
    let url = keyfold.url();
    for args in commands(&url, layout.to_str().unwrap(), dump.to_str().unwrap()) {
        let (code, out, err) = run(&args);
        assert_eq!(code, Some(1), "{args:?}: {out}{err}");
        assert!(err.contains(&format!("what answers at {url} is a keyfold")), "{args:?}: {err}");
        assert!(err.contains(&format!("name the server behind it: {behind}")), "{args:?}: {err}");
    }
}

#[test]
fn every_tool_names_the_server_behind() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let dir = TempDir::new().unwrap();
    let keyfold = Keyfold::serve(&["--upstream", &server.url()]);
    assert_eq!(keyfold.connect().call(&[b"SET", b"user:1", b"1"]).unwrap(), b"+OK\r\n");
    all_refuse(&keyfold, &server.url(), &dir);
}

/// A keyfold's own server has no port, and a name that nobody would guess.
#[test]
fn a_server_of_keyfolds_own_is_found_by_what_is_said() {
    let keyfold = Keyfold::serve(&[]);
    assert_eq!(keyfold.connect().call(&[b"SET", b"user:1", b"1"]).unwrap(), b"+OK\r\n");
    let (code, _, err) = run(&["analyze", &keyfold.url()]);
    assert_eq!(code, Some(1));
    let behind = err.trim_end().rsplit(": ").next().unwrap();
    assert!(behind.starts_with("unix://"), "{err}");
    let (code, out, err) = run(&["analyze", behind]);
    assert!(code == Some(0) && out.contains("1 key takes"), "{out}{err}");
}

#[test]
fn a_keyfold_before_a_cluster_is_one_too() {
    let cluster = Cluster::start(&found().pop().unwrap(), 3, 0, &cluster::Options::default()).unwrap();
    let keyfold = Keyfold::serve(&["--upstream", &cluster.url(0)]);
    all_refuse(&keyfold, &cluster.url(0), &TempDir::new().unwrap());
}
