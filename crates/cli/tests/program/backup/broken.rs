//! Bad files, bad servers, and ends in the middle.

use std::io::Write;
use std::process::Stdio;

use keyfold_testkit::{Subject, Wire, found};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::program::{LAYOUT, command, export, fill, import, keyfold, keys_in, push, verify, whole};

#[test]
fn a_mistake_in_a_dump_is_told_with_its_line() {
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
    let path = dir.path().join("dump.jsonl");
    for (line, part) in [
        ("{\"key\":\"b\",\"value\":", "EOF"),
        ("{\"key\":\"b\"}", "neither \"value\""),
        ("{\"key\":\"b\",\"value\":\"\",\"ttl\":1}", "unknown field `ttl`"),
        ("[]", "column"),
    ] {
        std::fs::write(&path, format!("{{\"key\":\"a\",\"value\":\"1\"}}\n{line}\n")).unwrap();
        for ran in [import(&server, &path, &[]), verify(&server, &["--against", path.to_str().unwrap()])] {
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{line}");
            assert!(ran.stderr.contains("dump.jsonl:2: ") && ran.stderr.contains(part), "{line}: {}", ran.stderr);
        }
        let ran = import(&server, &path, &["--replace"]);
        assert!(ran.stderr.contains("1 key written"), "what comes before it is: {}", ran.stderr);
    }
    let packed = dir.path().join("cut.jsonl.gz");
    std::fs::write(&packed, b"\x1f\x8b\x08\x00\x00\x00\x00\x00").unwrap();
    let ran = import(&server, &packed, &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("cut.jsonl.gz:1: can't be read"), "{}", ran.stderr);
    let ran = verify(&server, &["--against", "/dev/null"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("reads the dump twice"), "{}", ran.stderr);
    let ran = import(&server, &dir.path().join("nowhere"), &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("can't read"), "{}", ran.stderr);
}

#[test]
fn a_payload_of_no_server_is_refused_by_line_and_the_rest_is_written() {
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
    push(&server, LAYOUT);
    let path = dir.path().join("dump.jsonl");
    let lines = "{\"key\":\"h\",\"type\":\"hash\",\"dump_base64\":\"AAAA\"}\n\
                 {\"key\":\"user:1\",\"type\":\"hash\",\"dump_base64\":\"AAAA\"}\n\
                 {\"key\":\"~tnrO:1\",\"value\":\"reserved\"}\n\
                 {\"key\":\"user:2\",\"value\":\"fine\"}\n\
                 {\"key\":\"user:3\",\"value\":\"over\",\"expires_at_ms\":1}\n";
    std::fs::write(&path, lines).unwrap();
    let ran = import(&server, &path, &["--json"]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["written"], &report["refused"], &report["expired"]), (&1.into(), &3.into(), &1.into()));
    assert_eq!(report["listed"][0]["line"], 1);
    let mut wire = server.connect().unwrap();
    assert_eq!(wire.call(&[b"HGET", b"~tnrO:0", b"2"]).unwrap(), b"$4\r\nfine\r\n");
}

#[test]
fn a_wrong_password_a_full_server_and_a_replica_are_told() {
    for binary in found() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("dump.jsonl");
        std::fs::write(&path, "{\"key\":\"a\",\"value\":\"1\"}\n").unwrap();
        let dump = path.to_str().unwrap();

        let locked = binary.start(&["--maxmemory", "1"]).unwrap();
        let ran = import(&locked, &path, &[]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("dump.jsonl:1") && ran.stderr.contains("OOM"), "{}", ran.stderr);

        let server = binary.start(&[]).unwrap();
        server.connect().unwrap().call(&[b"CONFIG", b"SET", b"requirepass", b"secret"]).unwrap();
        let wrong = server.url().replace("redis://", "redis://:wrong@");
        for args in
            [&["export", &wrong][..], &["verify", &wrong], &["import", &wrong, dump], &["export", &server.url()]]
        {
            let ran = keyfold(args);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{args:?}");
            assert!(ran.stderr.contains("redis://user:password@host:port"), "{args:?}: {}", ran.stderr);
        }

        let replica = binary.start(&["--replicaof", "127.0.0.1 1"]).unwrap();
        let ran = import(&replica, &path, &[]);
        assert!(ran.code == Some(1) && ran.stderr.contains("READONLY"), "{}", ran.stderr);
    }
}

#[test]
fn an_import_that_lost_its_server_goes_on_where_it_was() {
    let Some(binary) = found().pop() else { return };
    let server = binary.start(&[]).unwrap();
    push(&server, LAYOUT);
    let lines: String = (0..20_000).map(|id| format!("{{\"key\":\"user:{id}\",\"value\":\"v{id}\"}}\n")).collect();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("dump.jsonl");
    std::fs::write(&path, whole(&lines)).unwrap();

    let mut child =
        command(&["import", &server.url(), "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&lines.as_bytes()[..lines.len() / 2]).unwrap();
    let mut wire = server.connect().unwrap();
    // Some of it has arrived.
    while wire.call(&[b"EXISTS", b"~tnrO:3"]).unwrap() == b":0\r\n" {}
    wire.call(&[b"CLIENT", b"KILL", b"TYPE", b"normal"]).unwrap();
    // Whether it takes more or not, it ends.
    let _ = stdin.write_all(&lines.as_bytes()[lines.len() / 2..]);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the import stopped") && stderr.contains("run it again to go on"), "{stderr}");

    let ran = import(&server, &path, &[]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("there already, the same"), "{}", ran.stdout);
    assert_eq!(verify(&server, &["--against", path.to_str().unwrap()]).code, Some(0));
}

#[test]
fn an_interrupted_export_leaves_the_file_before() {
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
    let proxy = Subject::start(&server, LAYOUT).unwrap();
    fill(&mut Wire::connect(proxy.address()).unwrap());
    let path = dir.path().join("dump.jsonl");
    std::fs::write(&path, "yesterday's\n").unwrap();
    // Slow enough to be met in the middle: the wait for the first answers is some seconds long.
    let args = ["export", &server.url(), "--out", path.to_str().unwrap(), "--force", "--max-ops", "10"];
    let child = command(&args).stderr(Stdio::piped()).spawn().unwrap();
    while std::fs::read_dir(dir.path()).unwrap().count() < 2 {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && stderr.contains("is as it was"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "yesterday's\n");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}

/// It may be the only dump there is.
#[test]
fn a_dump_is_written_over_only_where_that_is_said() {
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
    server.connect().unwrap().call(&[b"SET", b"key", b"value"]).unwrap();
    let path = dir.path().join("dump.jsonl");
    std::fs::write(&path, "the only one").unwrap();
    let (url, out) = (server.url(), path.to_str().unwrap());
    let ran = keyfold(&["export", &url, "--out", out]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("there already") && ran.stderr.contains("--force"),
        "{}",
        ran.stderr
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "the only one");
    assert_eq!(keyfold(&["export", &url, "--out", out, "--force"]).code, Some(0));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole("{\"key\":\"key\",\"value\":\"value\"}\n"));
    // What is no file, such as a device, a pipe or this socket, is never replaced by one.
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for more in [&[][..], &["--force"]] {
        let ran = keyfold(&[&["export", &url, "--out", socket.to_str().unwrap()], more].concat());
        assert!(ran.code == Some(1) && ran.stderr.contains("is no file"), "{}", ran.stderr);
    }
    assert!(!socket.is_file());
}

#[test]
fn a_database_that_is_not_there_is_no_empty_one() {
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&["--databases", "4"]).unwrap(), TempDir::new().unwrap());
    server.connect().unwrap().call(&[b"SET", b"key", b"value"]).unwrap();
    let (url, there, not_there) = (server.url(), format!("{}/3", server.url()), format!("{}/4", server.url()));
    let dump = dir.path().join("dump.jsonl");
    std::fs::write(&dump, whole("{\"key\":\"other\",\"value\":\"1\"}\n")).unwrap();
    for command in ["analyze", "plan", "doctor", "export", "verify"] {
        let ran = keyfold(&[command, &url, "--database", "4"]);
        assert_eq!(ran.code, Some(1), "{command}: {}", ran.stdout);
        assert!(ran.stderr.contains("has no database 4"), "{command}: {}", ran.stderr);
        let ran = keyfold(&[command, &not_there]);
        assert!(ran.code == Some(1) && ran.stderr.contains("has no database 4"), "{command}: {}", ran.stderr);
        let ran = keyfold(&[command, &there]);
        assert!(!ran.stderr.contains("has no database"), "{command}: {}", ran.stderr);
    }
    let ran = keyfold(&["import", &url, dump.to_str().unwrap(), "--database", "4"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("has no database 4"), "{}{}", ran.stdout, ran.stderr);
}

/// As of an export that failed in a pipe.
#[test]
fn a_dump_that_was_cut_off_at_a_lines_end_is_told_from_a_whole_one() {
    let Some(binary) = found().pop() else { return };
    let (server, other, dir) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap(), TempDir::new().unwrap());
    push(&server, LAYOUT);
    let path = dir.path().join("dump.jsonl");
    let keys = fill(&mut Wire::connect(Subject::beside(&server).unwrap().address()).unwrap());
    export(&server, &path);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(keys_in(&text), keys);
    let cut: String = text.lines().take(keys).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, cut).unwrap();
    let dump = path.to_str().unwrap();
    for ran in [import(&other, &path, &[]), verify(&other, &["--against", dump])] {
        assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("cut off") && ran.stdout.contains("--without-end"), "{}", ran.stdout);
    }
    assert_eq!(import(&other, &path, &["--without-end"]).code, Some(0));
    assert_eq!(verify(&other, &["--against", dump, "--without-end"]).code, Some(0));
    let lacking: String = text.lines().skip(1).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, lacking).unwrap();
    let ran = import(&other, &path, &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("lines were lost"), "{}{}", ran.stdout, ran.stderr);
}

/// A walk that keys are moved past has all of them all the same.
#[test]
fn an_export_while_keys_are_moved_misses_none_and_has_each_once() {
    const KEYS: usize = 40_000;
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
    let mut wire = server.connect().unwrap();
    for ids in (0..KEYS).collect::<Vec<_>>().chunks(1000) {
        let pairs: Vec<Vec<u8>> =
            ids.iter().flat_map(|id| [format!("user:{id}").into_bytes(), format!("v{id}").into_bytes()]).collect();
        let args: Vec<&[u8]> = pairs.iter().map(Vec::as_slice).collect();
        assert_eq!(wire.call(&[&[&b"MSET"[..]], args.as_slice()].concat()).unwrap(), b"+OK\r\n");
    }
    let layout = dir.path().join("layout.toml");
    std::fs::write(&layout, "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n").unwrap();
    let url = server.url();
    let mut fold = command(&["fold", &url, "--layout", layout.to_str().unwrap(), "--yes", "--max-ops", "8000"]);
    let mut fold = fold.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while wire.call(&[b"EXISTS", b"keyfold:{home}:layout"]).unwrap() != b":1\r\n" {}
    let path = dir.path().join("dump.jsonl");
    let ran = keyfold(&["export", &url, "--out", path.to_str().unwrap(), "--max-ops", "8000"]);
    let is_moving = fold.try_wait().unwrap().is_none();
    fold.kill().unwrap();
    fold.wait().unwrap();
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(is_moving, "the fold was over before the export");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(keys_in(&text), KEYS);
    let mut lines: Vec<&str> = text.lines().take(KEYS).collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), KEYS);
}
