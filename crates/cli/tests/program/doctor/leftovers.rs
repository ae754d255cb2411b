//! What keyfold leaves behind, how full its buckets are, and layouts that don't read.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use keyfold_core::frame;
use keyfold_core::layout::{Layout, Located};
use keyfold_testkit::{Server, Wire, found};
use serde_json::Value;
use tempfile::TempDir;

use super::stage::{contents, doctor, keyfold, on_every_server, push_layout, put};

const COUNTERS: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n";
/// In 2020.
const LONG_AGO_MS: i64 = 1_590_000_000_000;
/// For a sweep to come round: it begins after ten seconds.
const SWEPT_WITHIN: Duration = Duration::from_secs(60);

/// A keyfold that runs for as long as this lives.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the command that a finding prints.
fn run_printed(finding: &Value) -> Running {
    let line = finding["mends"][0]["lines"][0]["text"].as_str().unwrap();
    let args: Vec<_> = line.strip_prefix("keyfold ").unwrap().split(' ').collect();
    let mut child = keyfold(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut listening = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut listening).unwrap();
    assert!(listening.starts_with("listening on"), "{listening}");
    Running(child)
}

/// The name of a spilled value of the first namespace. A nonce below 10 is its own digit in base62.
fn spill_name(nonce: u64, key: &[u8]) -> Vec<u8> {
    [format!("~tnrO!{nonce}:").as_bytes(), key].concat()
}

fn spill(wire: &mut Wire, layout: &Layout, key: &[u8], nonce: u64) {
    let Located::Placed(place) = layout.locate(key) else { panic!("it is folded") };
    let mut stored = Vec::new();
    frame::encode_spill(nonce, None, None, &mut stored);
    wire.call(&[b"HSET", &place.physical, &place.field, &stored]).unwrap();
    wire.call(&[b"SET", &spill_name(nonce, key), &[b'x'; 500]]).unwrap();
}

#[test]
fn a_sweep_mends_what_expired_and_what_nothing_points_to() {
    // One server: the sweep takes its time, and is tested elsewhere.
    let server = found().pop().unwrap().start(&[]).unwrap();
    let dir = TempDir::new().unwrap();
    let layout = push_layout(&server, dir.path(), COUNTERS);
    let mut wire = server.connect().unwrap();
    for id in 0..200 {
        let expires_at_ms = (id % 2 == 0).then_some(LONG_AGO_MS);
        put(&mut wire, &layout, format!("user:{id}").as_bytes(), b"1", expires_at_ms);
    }
    spill(&mut wire, &layout, b"user:1000", 7);
    let orphan = spill_name(8, b"user:1000");
    wire.call(&[b"SET", &orphan, &[b'x'; 1000]]).unwrap();
    // One that was replaced just now goes by itself.
    let replaced = spill_name(9, b"user:1000");
    wire.call(&[b"SET", &replaced, &[b'x'; 1000], b"PX", b"600000"]).unwrap();

    let sick = doctor(&server.url(), &[]);
    assert_eq!(sick.problems(), ["expired-not-swept", "orphaned-spills"], "{sick:#?}");
    let expired = sick.finding("expired-not-swept");
    assert!(expired["what"].as_str().unwrap().starts_with("100 expired values were not removed"), "{expired:#?}");
    assert_eq!(sick.finding("orphaned-spills")["examples"][0]["key"], orphan.escape_ascii().to_string());
    assert!(sick.finding("orphaned-spills")["cost_bytes"].as_u64().unwrap() >= 1000);

    let sweeping = run_printed(expired);
    let deadline = Instant::now() + SWEPT_WITHIN;
    while doctor(&server.url(), &[]).code != Some(0) {
        assert!(Instant::now() < deadline, "{:#?}", doctor(&server.url(), &[]));
        std::thread::yield_now();
    }
    drop(sweeping);
    let buckets = contents(&mut wire).into_iter().filter(|(key, _)| key.starts_with(b"~tnrO:"));
    let entries: usize = buckets.map(|(_, fields)| fields.len()).sum();
    assert_eq!(entries, 101, "what had not expired is there");
}

#[test]
fn what_keyfold_did_not_write_is_told() {
    on_every_server(&[], |server| {
        let dir = TempDir::new().unwrap();
        let layout = push_layout(server, dir.path(), COUNTERS);
        let mut wire = server.connect().unwrap();
        put(&mut wire, &layout, b"user:1", b"1", None);
        wire.call(&[b"HSET", b"~tnrO:0", b"2", b"\x10", b"x", b"1"]).unwrap();
        wire.call(&[b"SET", b"~0000:1", b"1"]).unwrap();
        wire.call(&[b"RPUSH", b"~what", b"1"]).unwrap();
        let sick = doctor(&server.url(), &[]);
        assert_eq!(sick.problems(), ["damaged-values", "stray-fields", "unknown-names"], "{}", server.name());
        assert_eq!(sick.finding("damaged-values")["examples"][0]["field"], "2");
        assert_eq!(sick.finding("stray-fields")["examples"][0]["field"], "x");
        assert!(sick.finding("unknown-names")["what"].as_str().unwrap().starts_with("2 keys"));
        wire.call(&[b"HDEL", b"~tnrO:0", b"2", b"x"]).unwrap();
        wire.call(&[b"DEL", b"~0000:1", b"~what"]).unwrap();
        doctor(&server.url(), &[]).assert_well();
    });
}

#[test]
fn a_layout_that_is_lost_or_does_not_read() {
    on_every_server(&[], |server| {
        let dir = TempDir::new().unwrap();
        let layout = push_layout(server, dir.path(), COUNTERS);
        let mut wire = server.connect().unwrap();
        put(&mut wire, &layout, b"user:1", b"1", None);
        wire.call(&[b"DEL", b"keyfold:{home}:layout"]).unwrap();
        doctor(&server.url(), &[]).assert_well();

        let both: [&[u8]; 2] = [b"keyfold:{home}:layout", b"keyfold:{home}:layout:copy"];
        let garbage: [&[&[u8]]; 3] = [&[b"DEL"], &[b"SET", b"version = 2\nepoch = x\n"], &[b"RPUSH", b"1"]];
        for (number, garbage) in garbage.iter().enumerate() {
            for key in both {
                wire.call(&[b"DEL", key]).unwrap();
                wire.call(&[&[garbage[0], key], &garbage[1..]].concat()).unwrap();
            }
            let sick = doctor(&server.url(), &[]);
            // What is no string is none.
            let is_damaged = number == 1;
            let expected: &[&str] = if is_damaged { &["damaged-layout", "unknown-names"] } else { &["unknown-names"] };
            assert_eq!(sick.problems(), expected, "{}", server.name());
            if is_damaged {
                let why = &sick.finding("damaged-layout")["why"][0];
                assert!(why.as_str().unwrap().starts_with("line 2, column 9"), "{why}");
            }
            // As it says, in the directory of the file.
            for kind in expected {
                let line = sick.finding(kind)["mends"][0]["lines"][0]["text"].as_str().unwrap();
                let args: Vec<_> = line.strip_prefix("keyfold ").unwrap().split(' ').collect();
                let ran = keyfold(&args).current_dir(dir.path()).output().unwrap();
                assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
            }
            doctor(&server.url(), &[]).assert_well();
        }
    });
}

#[test]
fn sparse_buckets_get_a_count_that_fills_them() {
    on_every_server(&[], mend_sparse);
}

fn mend_sparse(server: &Server) {
    let dir = TempDir::new().unwrap();
    let layout = push_layout(server, dir.path(), COUNTERS);
    let mut wire = server.connect().unwrap();
    // One id in 64: two to a bucket.
    let keys: Vec<_> = (0..4000).map(|id| format!("user:{}", id * 64).into_bytes()).collect();
    keys.iter().for_each(|key| put(&mut wire, &layout, key, b"1155315012", None));
    let sick = doctor(&server.url(), &[]);
    assert_eq!(sick.problems(), ["sparse-buckets"], "{}", server.name());
    let mend = &sick.finding("sparse-buckets")["mends"][0];
    assert_eq!(mend["lines"][1]["text"], "bucket = { count = 40 }");

    // As it says: the layout with this line, and keyfold moves the keys.
    let url = server.url();
    assert_eq!(mend["lines"][0]["text"], format!("keyfold plan {url} --out layout.toml"));
    let file = dir.path().join("planned.toml");
    let planned = keyfold(&["plan", &url, "--out", file.to_str().unwrap()]).output().unwrap();
    assert!(planned.status.success(), "{}", String::from_utf8_lossy(&planned.stderr));
    let shown = fs::read_to_string(&file).unwrap();
    let bucket = |line: &str| if line.starts_with("bucket") { "bucket = { count = 40 }" } else { line }.to_owned();
    fs::write(&file, shown.lines().map(bucket).collect::<Vec<_>>().join("\n")).unwrap();
    assert_eq!(mend["lines"][2]["text"], format!("keyfold fold {url} --layout layout.toml"));
    let folded = keyfold(&["fold", &url, "--layout", file.to_str().unwrap(), "--yes"]).output().unwrap();
    assert!(folded.status.success(), "{}", String::from_utf8_lossy(&folded.stderr));
    let well = doctor(&server.url(), &[]);
    well.assert_well();
    let (promised, is) = (mend["after_bytes"].as_f64().unwrap(), well.report["families"][0]["bytes"].as_f64().unwrap());
    assert!((promised - is).abs() < is / 5.0, "{promised} promised, {is} measured");
}
