//! keyfold by a file: read at the start and on SIGHUP, checked, printed.

use std::fs;
use std::path::PathBuf;

use keyfold_testkit::{Server, found};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::keyfold::{COUNTERS, Keyfold, command, run};

/// A directory with `keyfold.toml`.
fn with_file(text: &str) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("keyfold.toml");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn server() -> Server {
    found()[0].start(&[]).unwrap()
}

fn check(text: &str) -> (Option<i32>, String, String) {
    let (_dir, path) = with_file(text);
    run(&["serve", "--config", path.to_str().unwrap(), "--check"])
}

#[test]
fn a_check_says_what_is_wrong_and_connects_to_nothing() {
    // Nobody is there.
    let right = "upstream = 'redis://127.0.0.1:1'\nlisten = '127.0.0.1:1'\n";
    assert_eq!(check(right), (Some(0), "ok\n".to_owned(), String::new()));
    assert_eq!(check(&format!("{right}{COUNTERS}")).0, Some(0));
    for (text, expected) in [
        (
            "max-clients = 'x'\nsplit-writes = 1\n",
            &["has 2 mistakes:\n", ":1:15: max-clients", ":2:16: split-writes"][..],
        ),
        (
            "users = 'u.acl'\nlayout = 'l.toml'\nadmin = '1'\nadmin-token-file = 't'\n",
            &["3 things are wrong:", "/u.acl", "/l.toml", "/t: "],
        ),
        ("tls-cert = 'c.pem'\ntls-key = 'k.pem'\nlisten = 'tls://127.0.0.1:1'\n", &["/c.pem"]),
        ("listen = ['tls://127.0.0.1:1']\n", &["tls://127.0.0.1:1: TLS needs --tls-cert"]),
        (
            "listen = ['0.0.0.0:1']\nadmin = '0.0.0.0:2'\n",
            &["2 things are wrong:", "--allow-open", "--admin-token-file"],
        ),
        ("server = 'no-such-server'\n", &["there is no program no-such-server"]),
        ("[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { span = 1 }\n", &["keyfold.toml:3:10: `bucket`"]),
        ("upstream = 'redis://127.0.0.1:1'\nupstream-password-file = 'p'\n", &["can't read the server's password"]),
        ("upstream-password-file = 'p'\n", &["--upstream-password-file is for a server that is named"]),
    ] {
        let (code, stdout, stderr) = check(text);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{text}: {stderr}");
        for part in expected {
            assert!(stderr.contains(part), "{part} of {text}: {stderr}");
        }
    }
}

#[test]
fn what_is_printed_is_a_file_that_says_the_same() {
    let (dir, path) = with_file("max-clients = 7\nusers = 'u.acl'\n");
    fs::write(dir.path().join("u.acl"), "user default on nopass +@all ~*\n").unwrap();
    let args = ["serve", "--config", path.to_str().unwrap(), "--print-config", "--max-in-flight", "9"];
    let output = command(&args).env("KEYFOLD_UPSTREAM", "redis://app:hush@127.0.0.1:1").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let users = format!("users = {:?}  # file", dir.path().join("u.acl"));
    let upstream = "upstream = \"redis://app@127.0.0.1:1\"  # environment, KEYFOLD_UPSTREAM; its password is not shown";
    for line in ["max-clients = 7  # file", "max-in-flight = 9  # command line", users.as_str(), upstream] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(!printed.contains("hush"));
    let (code, _, stderr) = check(&printed);
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn keyfold_goes_by_the_file_and_reads_it_again_on_sighup() {
    let server = server();
    let begin = format!("upstream = '{}'\nthreads = 1\n", server.url());
    let (_dir, path) = with_file(&format!("{begin}max-clients = 1\n{COUNTERS}"));
    let mut keyfold = Keyfold::serve(&["--config", path.to_str().unwrap()]);
    keyfold.log_until("change number 2 of the layout stored");
    let mut first = keyfold.connect();
    assert_eq!(first.call(&[b"SET", b"user:1", b"v"]).unwrap(), b"+OK\r\n");
    assert_eq!(server.connect().unwrap().call(&[b"EXISTS", b"user:1"]).unwrap(), b":0\r\n", "it is folded");
    assert_eq!(keyfold.connect().reply().unwrap(), b"-ERR max number of clients reached\r\n");

    fs::write(&path, format!("{begin}max-clients = 2\nmax-client = 3\n")).unwrap();
    keyfold.signal(Signal::HUP);
    let log = keyfold.log_until("all is as it was");
    assert!(log.contains("keyfold.toml:4:1: there is no option max-client; did you mean max-clients"), "{log}");
    assert_eq!(keyfold.connect().reply().unwrap(), b"-ERR max number of clients reached\r\n");

    let more = "[[namespace]]\nkeys = 'cart:{id:int}'\nbucket = { span = 64 }\n";
    let changed = begin.replace("threads = 1", "threads = 2\nsweep-rate = 5");
    fs::write(&path, format!("{changed}max-clients = 2\n{COUNTERS}{more}")).unwrap();
    keyfold.signal(Signal::HUP);
    let log = keyfold.log_until("every keyfold before the server takes it up");
    for line in [
        "sweep-rate: needs a restart; still 20000",
        "threads: needs a restart; still 1",
        "max-clients: 2 from now on; it was 1",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(log.contains("change number 4 of the layout stored on the server: 2 namespaces"), "{log}");
    assert_eq!(keyfold.connect().call(&[b"PING"]).unwrap(), b"+PONG\r\n", "there is room for two");

    // From now on only errors are logged.
    fs::write(&path, format!("log = 'error'\n{changed}max-clients = 2\n{COUNTERS}{more}")).unwrap();
    keyfold.signal(Signal::HUP);
    keyfold.log_until("log: error from now on; it was not set");
    fs::write(&path, "max-client = 3\n").unwrap();
    keyfold.signal(Signal::HUP);
    let log = keyfold.log_until("all is as it was");
    assert!(!log.contains("INFO"), "{log}");
    assert_eq!(first.call(&[b"GET", b"user:1"]).unwrap(), b"$1\r\nv\r\n", "nobody was dropped");
}

#[test]
fn the_log_may_be_json() {
    let server = server();
    let mut keyfold = Keyfold::serve(&["--upstream", &server.url(), "--log-format", "json"]);
    let log = keyfold.log_until("\"listening\"");
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["message"].is_string() && line["timestamp"].is_string(), "{line}");
    }
    let listening: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert!(listening["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{listening}");

    // So is what keeps keyfold from starting.
    let (_dir, path) = with_file("log-format = 'json'\nupstream = 'redis://127.0.0.1:1'\n");
    let (code, _, stderr) = run(&["serve", "--config", path.to_str().unwrap()]);
    let error: Value = serde_json::from_str(&stderr).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert_eq!((code, error["level"].as_str()), (Some(1), Some("ERROR")), "{error}");
}

#[test]
fn whoever_reads_the_log_may_end_before_keyfold_does() {
    let server = server();
    for format in ["text", "json"] {
        let mut keyfold = Keyfold::serve(&["--upstream", &server.url(), "--log-format", format]);
        keyfold.lose_log();
        // What is logged now, of this client's connections and of signals, nobody can read, and all goes on.
        keyfold.signal(Signal::HUP);
        let mut client = keyfold.connect();
        assert_eq!(client.call(&[b"SET", b"k", b"v"]).unwrap(), b"+OK\r\n");
        assert_eq!(client.call(&[b"BLPOP", b"none", b"0.01"]).unwrap(), b"*-1\r\n");
        assert!(keyfold.end_by(Signal::TERM).success());
    }
}

#[test]
fn the_servers_password_may_be_in_a_file() {
    let server = found()[0].start(&["--requirepass", "hush"]).unwrap();
    let url = server.url();
    let (dir, path) = with_file(&format!("upstream = '{url}'\nupstream-password-file = 'password'\n"));
    fs::write(dir.path().join("password"), "hush\n").unwrap();
    let keyfold = Keyfold::serve(&["--config", path.to_str().unwrap()]);
    assert_eq!(keyfold.connect().call(&[b"SET", b"k", b"v"]).unwrap(), b"+OK\r\n");
    fs::write(dir.path().join("password"), "\n").unwrap();
    let (code, _, stderr) = run(&["serve", "--config", path.to_str().unwrap(), "--check"]);
    assert!(code == Some(1) && stderr.contains("begins with no password"), "{stderr}");
}
