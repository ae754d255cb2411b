//! Slow requests in the log: what stands there, and what never does.

use std::fs;

use keyfold_testkit::found;
use rustix::process::Signal;

use super::keyfold::{COUNTERS, Keyfold, write_layout};

/// Keeps a server busy for longer than anybody waits for an answer.
const BUSY: &[u8] = b"for i = 1, 3e7 do end return ARGV[1]";

#[test]
fn a_line_tells_what_was_slow_and_neither_key_nor_value() {
    let server = found().last().unwrap().start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let layout = write_layout(dir.path(), COUNTERS);
    let args = ["--upstream", &server.url(), "--layout", layout.to_str().unwrap(), "--log-slow", "10ms"];
    for (format, expected) in [
        ("text", ["slow request command=\"eval\" took_ms=", "namespace=\"user:{id:int}\"", "way=\"user_script\""]),
        (
            "json",
            [
                "\"message\":\"slow request\",\"command\":\"eval\",\"took_ms\":",
                "\"namespace\":\"user:{id:int}\"",
                "\"way\":\"user_script\"",
            ],
        ),
    ] {
        let mut keyfold = Keyfold::serve(&[&args[..], &["--log-format", format]].concat());
        let mut wire = keyfold.connect();
        wire.call(&[b"CLIENT", b"SETNAME", b"worker"]).unwrap();
        wire.call(&[b"EVAL", BUSY, b"1", b"user:31415", b"hush"]).unwrap();
        let line = keyfold.log_until("slow request");
        for part in expected.iter().chain(&["worker", "127.0.0.1:", "outcome"]) {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains("31415") && !line.contains("hush") && !line.contains("3e7"), "{line}");
        assert!(keyfold.end_by(Signal::TERM).success());
    }
}

#[test]
fn a_bad_minute_is_a_few_lines_and_a_count() {
    let server = found().last().unwrap().start(&[]).unwrap();
    let args = ["--upstream", &server.url(), "--log-slow", "0", "--threads", "1"];
    let mut keyfold = Keyfold::serve(&args);
    let mut wire = keyfold.connect();
    let written = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".repeat(500);
    wire.send_bytes(&written).unwrap();
    (0..500).for_each(|_| drop(wire.reply().unwrap()));
    keyfold.signal(Signal::TERM);
    let log = keyfold.log_until("more requests were slow than are written here");
    assert_eq!(log.matches("slow request command").count(), 10, "{log}");
    assert!(log.contains("left_out=490 longest_ms="), "{log}");
    assert!(keyfold.wait().success());
}

#[test]
fn what_is_slow_is_read_again() {
    let server = found().last().unwrap().start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keyfold.toml");
    let write = |text: &str| fs::write(&path, format!("upstream = '{}'\n{text}", server.url())).unwrap();
    write("slowlog-slower-than = '500us'\nslowlog-max-len = 7\n");
    let mut keyfold = Keyfold::serve(&["--config", path.to_str().unwrap()]);
    let mut wire = keyfold.connect();
    let mut set = |name: &str| wire.call(&[b"CONFIG", b"GET", name.as_bytes()]).unwrap();
    assert!(set("slowlog-log-slower-than").ends_with(b"$3\r\n500\r\n"));
    assert!(set("slowlog-max-len").ends_with(b"$1\r\n7\r\n"));
    write("slowlog-slower-than = 'off'\nslowlog-max-len = 9\nlog-slow = '1h'\n");
    keyfold.signal(Signal::HUP);
    keyfold.log_until("read the configuration again");
    assert!(set("slowlog-log-slower-than").ends_with(b"$2\r\n-1\r\n"));
    assert!(set("slowlog-max-len").ends_with(b"$1\r\n9\r\n"));
}
