//! Servers that can't be looked at, or not at everything: a clear message, and what was seen.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use keyfold_testkit::{Server, found};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::stage::{doctor, doctor_text, keyfold, numbers, on_every_server, write_hash};

/// For a doctor to have begun; generous, for loaded machines.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn an_empty_server_is_well() {
    on_every_server(&[], |server| {
        doctor(&server.url(), &[]).assert_well();
        let (code, text) = doctor_text(&server.url(), &[]);
        assert_eq!(code, Some(0));
        assert!(text.contains("nothing found that costs memory"), "{text}");
        assert!(text.contains("0 hashes with 0 entries"), "{text}");
    });
}

#[test]
fn a_wrong_password() {
    on_every_server(&["--requirepass", "right"], |server| {
        let refused = doctor(&format!("redis://:wrong@127.0.0.1:{}", server.port()), &[]);
        assert_eq!((refused.code, refused.report), (Some(1), Value::Null));
        assert!(refused.stderr.contains("name the user and the password"), "{}", refused.stderr);
        let none = doctor(&server.url(), &[]);
        assert_eq!(none.code, Some(1));
        doctor(&format!("redis://:right@127.0.0.1:{}", server.port()), &[]).assert_well();
    });
}

#[test]
fn something_that_is_no_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let _ = client.read(&mut [0; 1024]);
        let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let refused = doctor(&url, &[]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.starts_with("error: "), "{}", refused.stderr);
    answering.join().unwrap();
    let nobody = doctor(&url, &[]);
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.stderr.contains("is a server running there?"), "{}", nobody.stderr);
}

#[test]
fn a_user_who_may_not_look() {
    on_every_server(&[], |server| {
        let mut wire = server.connect().unwrap();
        write_hash(&mut wire, b"a:1", numbers(600));
        wire.call(&[b"ACL", b"SETUSER", b"u", b"on", b">pw", b"~*", b"&*", b"+@all", b"-object"]).unwrap();
        let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
        let refused = doctor(&url, &[]);
        assert_eq!((refused.code, &refused.report["complete"]), (Some(1), &false.into()), "{refused:#?}");
        let reason = refused.report["broken_off"].as_str().unwrap();
        assert!(reason.contains("OBJECT ENCODING"), "{reason}");

        wire.call(&[b"ACL", b"SETUSER", b"u", b"-scan"]).unwrap();
        let output = keyfold(&["export", &url]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("keyfold needs a user who may do everything"), "{stderr}");
        wire.call(&[b"ACL", b"SETUSER", b"u", b"+scan"]).unwrap();

        write_hash(&mut wire, b"b:1", numbers(700));
        wire.call(&[b"ACL", b"SETUSER", b"u", b"resetkeys", b"~b:*", b"+object"]).unwrap();
        let partly = doctor(&url, &[]);
        assert_eq!((partly.code, partly.problems()), (Some(1), vec!["too-many-entries"]));
        assert!(partly.report["broken_off"].as_str().unwrap().starts_with("1 of the hashes"), "{partly:#?}");

        wire.call(&[b"ACL", b"SETUSER", b"u", b"~*", b"-restore"]).unwrap();
        wire.call(&[b"CONFIG", b"SET", b"hash-max-ziplist-entries", b"600"]).unwrap();
        let refused = doctor(&url, &["--rewrite"]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("can't be written anew: NOPERM"), "{}", refused.stderr);
        assert_eq!(wire.call(&[b"HLEN", b"a:1"]).unwrap(), b":600\r\n", "it is as it was");
    });
}

/// A doctor that takes minutes, on a server with something to find in its first batch.
fn begin_slowly(server: &Server) -> std::process::Child {
    let mut wire = server.connect().unwrap();
    for hash in 0..2000_usize {
        write_hash(&mut wire, format!("a:{hash}").as_bytes(), numbers(3));
    }
    wire.call(&[b"CONFIG", b"SET", b"hash-max-ziplist-entries", b"2"]).unwrap();
    for hash in 0..2000_usize {
        write_hash(&mut wire, format!("b:{hash}").as_bytes(), numbers(3));
    }
    let mut command = keyfold(&["doctor", &server.url(), "--json", "--max-ops", "400"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + BEGINS_WITHIN;
    let mut read_by = None;
    while Instant::now() < deadline {
        let stats = wire.ask(&[b"INFO", b"commandstats"]).unwrap();
        let stats = String::from_utf8_lossy(stats.bytes().unwrap());
        let asked = calls_of("object|encoding", &stats);
        // A batch is asked about once the one before it was read and counted.
        match read_by {
            None if calls_of("hscan", &stats) > 0 => read_by = Some(asked),
            Some(before) if asked > before => break,
            _ => thread::yield_now(),
        }
    }
    child
}

/// How often a server carried out a command, by its `INFO commandstats`.
fn calls_of(command: &str, stats: &str) -> u64 {
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|counts| counts.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

#[test]
fn ctrl_c_gives_what_there_is() {
    let server = found().remove(0).start(&[]).unwrap();
    let child = begin_slowly(&server);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["complete"], &report["broken_off"]), (&false.into(), &"stopped".into()));
    assert!(report["families"][0]["hashes"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_server_that_goes_away_meanwhile() {
    let server = found().remove(0).start(&[]).unwrap();
    let child = begin_slowly(&server);
    drop(server);
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["complete"]), (Some(1), &false.into()));
    assert!(report["families"][0]["hashes"].as_u64().unwrap() > 0, "{report:#}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("not everything was looked at"));
}

#[test]
fn a_wrong_command_line() {
    let (code, _) = doctor_text("redis://127.0.0.1:1", &["--assume", "maxmemory=1"]);
    assert_eq!(code, Some(2));
}
