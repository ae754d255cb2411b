//! `keyfold analyze --trace` and `--watch`, and the same of `plan`.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use keyfold_testkit::{Wire, found};
use tempfile::TempDir;

use super::{command, fill, json, run};

/// Requests for 3,000 keys, a few of which come often.
fn requests() -> Vec<String> {
    let mut state = 1_u64;
    let draw = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 33) as f64 / f64::from(u32::MAX >> 1);
        format!("item:{:.0}", 100_000.0 + (unit.powi(3) * 3000.0).floor())
    };
    (0..20_000).map(draw).collect()
}

fn written(dir: &TempDir, name: &str, lines: &[String]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}

#[test]
fn a_file_of_requests_says_how_much_memory_finds_as_much() {
    let dir = TempDir::new().unwrap();
    let file = written(&dir, "requests.txt", &requests());
    let path = file.to_str().unwrap();
    let report = json(&["--trace", path, "--value-bytes", "32", "--max-memory", "64kb", "--evicts-by", "lfu"]);
    assert_eq!((&report["requests"], &report["reads"]), (&20_000.into(), &20_000.into()));
    let saving = &report["saving"];
    assert_eq!((&saving["policy"], &saving["memory_bytes"]), (&"allkeys-lfu".into(), &65_536.0.into()));
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!(number(&saving["folded_bytes"]) < 65_536.0 * 0.8, "{saving:#}");
    assert!(number(&saving["folded_hit_ratio"]) > number(&saving["hit_ratio"]));
    let found: Vec<f64> =
        report["curve"].as_array().unwrap().iter().map(|point| number(&point["hit_ratio"]["plain_lru"])).collect();
    assert!(found.len() == 14 && found.is_sorted(), "{found:?}");

    let (code, text, _) = run(&["--trace", path, "--value-bytes", "32", "--wide"]);
    assert!(code == Some(0) && text.contains("find as much") && text.contains("by key, optimum"), "{text}");
}

#[test]
fn requests_come_on_standard_input_with_lengths_as_monitor_shows_them_and_packed() {
    let lines: Vec<_> = requests().iter().map(|key| format!("{key}\t120\tget")).collect();
    let shown: Vec<_> = requests()
        .iter()
        .map(|key| format!("1339518083.107412 [0 127.0.0.1:60866] \"set\" \"{key}\" \"{}\"\n1339518084.5 [0 a:1] \"get\" \"{key}\"", "x".repeat(120)))
        .collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.join("\n").as_bytes()).unwrap();
    for input in [lines.join("\n").into_bytes(), shown.join("\n").into_bytes(), gzip.finish().unwrap()] {
        let mut child =
            command(&["--trace", "-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let output = child.wait_with_output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["reads"], &report["value_bytes"]), (&20_000.into(), &120.0.into()));
    }
}

#[test]
fn what_are_no_requests_is_refused() {
    let dir = TempDir::new().unwrap();
    let empty = written(&dir, "empty", &[]);
    let dump = written(&dir, "dump.txt", &["REDIS0011".to_owned()]);
    for (file, said) in [(empty, "no reads"), (dump, "it is no text"), (dir.path().join("absent"), "can't read")] {
        let (code, stdout, stderr) = run(&["--trace", file.to_str().unwrap()]);
        assert_eq!((code, stdout.as_str()), (Some(1), ""));
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[test]
fn a_server_is_watched_and_asked_for_what_nobody_told() {
    for binary in found() {
        let server = binary.start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).unwrap();
        let mut wire = Wire::connect(server.address()).unwrap();
        let keys = requests();
        fill(&mut wire, keys.iter().map(|key| vec![b"SET".to_vec(), key.clone().into_bytes(), vec![b'x'; 70]]));
        let ended = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    fill(&mut wire, keys.iter().take(2000).map(|key| vec![b"GET".to_vec(), key.clone().into_bytes()]));
                }
            });
            let report = json(&[&server.url(), "--watch", "2s", "--max-ops", "5000"]);
            ended.store(true, Ordering::Relaxed);
            report
        });
        let reads = report["reads"].as_f64().unwrap();
        // What came in one go with the last line that is due is taken as well.
        assert!((1000.0..=11_000.0).contains(&reads), "{reads} on {binary:?}");
        assert_eq!(report["value_bytes"], 70.0);
        assert_eq!(report["saving"]["memory_bytes"], 104_857_600.0);
    }
}

#[test]
fn a_plan_goes_by_requests_where_there_are_any() {
    let Some(binary) = found().into_iter().next() else { return };
    let server = binary.start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lfu"]).unwrap();
    let mut wire = Wire::connect(server.address()).unwrap();
    let (keys, dir) = (requests(), TempDir::new().unwrap());
    fill(&mut wire, keys.iter().map(|key| vec![b"SET".to_vec(), key.clone().into_bytes(), vec![b'x'; 70]]));
    let file = written(&dir, "requests.txt", &keys);
    let output = Command::new(env!("CARGO_BIN_EXE_keyfold"))
        .args(["plan", &server.url(), "--json", "--max-memory", "64kb", "--trace", file.to_str().unwrap()])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let notes = report["notes"].to_string();
    assert!(notes.contains("as plain keys under allkeys-lfu") && notes.contains("find as much"), "{notes}");
    assert!(!notes.contains("lab run hit-ratio"), "{notes}");
}
