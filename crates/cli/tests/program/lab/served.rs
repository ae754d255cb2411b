//! The studies that serve requests for some seconds: how long reads take, and what caches find.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use keyfold_testkit::{Binary, found};
use serde_json::Value;
use tempfile::TempDir;

use super::{Stage, ended, keyfold, oldest};

/// The oldest and the newest server.
fn servers() -> Vec<Binary> {
    let found = found();
    let mut ends: Vec<_> = found.first().into_iter().chain(found.last()).cloned().collect();
    ends.dedup();
    ends
}

fn run(binary: &Binary, study: &str, out: &Path) -> Value {
    let mut command = keyfold(&["lab", "run", study, "--quick", "--program"]);
    ended(command.arg(binary.path()).arg("--out").arg(out).output().unwrap()).assert_code(0);
    serde_json::from_str(&fs::read_to_string(out.join(study).join("result.json")).unwrap()).unwrap()
}

/// The rows of a table, by the names of their columns.
fn rows(out: &Path, table: &str) -> Vec<HashMap<String, String>> {
    let mut csv = csv::Reader::from_path(out.join(table)).unwrap();
    csv.deserialize().map(Result::unwrap).collect()
}

fn number(row: &HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap()
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn latencies_are_of_every_read_and_memory_is_the_models() {
    for binary in servers() {
        let out = TempDir::new().unwrap();
        let result = run(&binary, "latency", out.path());
        let worst = result["model"]["worst_error_percent"].as_f64().unwrap();
        assert!(worst.abs() <= 2.0, "{}: {worst}", binary.name());
        let rows = rows(out.path(), "latency/latencies.csv");
        let forms: Vec<_> = rows.iter().filter(|row| row["reads_per_second"] == "100").collect();
        assert_eq!(forms.len(), 6, "every form at the original's rate");
        for row in rows {
            let ordered = ["min_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms"].map(|name| number(&row, name));
            assert!(ordered.is_sorted() && ordered[0] > 0.0, "{row:?}");
            assert!(number(&row, "reads") > 0.0);
        }
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn caches_hold_no_more_than_they_were_sent_and_find_no_less_with_more_memory() {
    let Some(binary) = oldest() else { return };
    let outs = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    for out in &outs {
        let result = run(&binary, "hit-ratio", out.path());
        assert!(result["model"]["worst_error_percent"].as_f64().unwrap().abs() <= 2.0);
    }
    let memory = outs.each_ref().map(|out| fs::read(out.path().join("hit-ratio/memory.csv")).unwrap());
    assert_eq!(memory[0], memory[1]);
    for kept in rows(outs[0].path(), "hit-ratio/kept.csv") {
        assert!(
            number(&kept, "points") > 0.0 && number(&kept, "by_key_held") > number(&kept, "plain_held"),
            "{kept:?}"
        );
        assert!(number(&kept, "counters_bytes") < number(&kept, "room_bytes") / 4.0, "{kept:?}");
        assert_eq!((number(&kept, "evicted_by_server"), number(&kept, "refused_writes")), (0.0, 0.0), "{kept:?}");
    }
    let rows = rows(outs[0].path(), "hit-ratio/caches.csv");
    assert!(rows.iter().any(|row| number(row, "evicted_keys") > 0.0));
    for row in &rows {
        let (hit_ratio, evicted) = (number(row, "hit_ratio"), number(row, "evicted_objects"));
        assert!((0.0..1.0).contains(&hit_ratio) && number(row, "held_objects") > 0.0, "{row:?}");
        assert!(row["form"] == "plain" || number(row, "evicted_keys") <= evicted + 1.0, "{row:?}");
        let less = rows.iter().find(|other| {
            let same = ["policy", "form", "value_bytes", "objects"].iter().all(|column| other[*column] == row[*column]);
            same && number(other, "memory_percent") < number(row, "memory_percent")
        });
        assert!(less.is_none_or(|less| number(less, "hit_ratio") < hit_ratio), "{row:?}");
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn a_server_that_was_a_cache_is_as_it_was() {
    let Some(stage) = Stage::start(&["--maxmemory", "50mb", "--maxmemory-policy", "volatile-ttl"]) else { return };
    let settings = || ["maxmemory", "maxmemory-policy"].map(|name| stage.said(&format!("CONFIG GET {name}")));
    let before = settings();
    let ran = stage.run(&["lab", "run", "hit-ratio", "--quick"]);
    ran.assert_code(3)
        .assert_says("64 a bucket")
        .assert_says("left out: caches that keyfold keeps: they are measured on");
    assert_eq!(settings(), before);
    assert_eq!(stage.said("DBSIZE"), ":0\\r\\n");
}

#[test]
fn a_cache_is_not_measured_beside_others_keys() {
    let Some(stage) = Stage::start(&[]) else { return };
    stage.said("SET mine 1");
    let ran = stage.run(&["lab", "run", "hit-ratio", "--quick", "--i-know"]);
    ran.assert_code(3).assert_says("left out: all of it: the server would evict others' keys");
    assert_eq!(stage.said("KEYS *"), "*1\\r\\n$4\\r\\nmine\\r\\n");
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn keyfold_before_the_server_leaves_nothing_there() {
    let Some(stage) = Stage::start(&[]) else { return };
    stage.run(&["lab", "run", "latency", "--quick"]).assert_code(0).assert_says("folded, through keyfold");
    assert_eq!(stage.said("DBSIZE"), ":0\\r\\n");
}

#[test]
fn a_trace_that_says_nothing_is_told_of() {
    let Some(stage) = Stage::start(&[]) else { return };
    let trace = stage.out.path().join("trace");
    fs::write(&trace, "page:1\npage:2\npage:1\n").unwrap();
    let trace = trace.to_str().unwrap();
    let ran = stage.run(&["lab", "run", "hit-ratio", "--quick", "--trace", trace]);
    ran.assert_code(1).assert_says("names 2 keys");
    let records = stage.out.path().join("records");
    fs::write(&records, "[\"a\", \"1\"]\n[\"b\", \"2\"]\n").unwrap();
    let ran = stage.run(&["lab", "run", "hit-ratio", "--quick", "--records", records.to_str().unwrap()]);
    ran.assert_code(1).assert_says("names 2 keys");
    let ran = stage.run(&["lab", "run", "hit-ratio", "--quick", "--trace", "/nowhere/at/all"]);
    ran.assert_code(1).assert_says("can't read the requests in /nowhere/at/all");
}
