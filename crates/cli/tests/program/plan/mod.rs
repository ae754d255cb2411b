//! `keyfold plan` as a process, before real servers.

mod cluster;
mod codecs;
mod collections;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use keyfold_testkit::{Binary, Server, found};
use serde_json::Value;
use tempfile::TempDir;

/// Commands sent at a time.
const BATCH: usize = 500;
const USERS: u64 = 20_000;

/// Runs keyfold to its end: its code, and what it printed.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_PASSWORD", "KEYFOLD_LOG"] {
        command.env_remove(variable);
    }
    let output = command.args(args).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn succeed(args: &[&str]) -> String {
    let (code, stdout, stderr) = run(args);
    assert_eq!(code, Some(0), "{args:?}: {stderr}");
    stdout
}

fn load(server: &Server, records: impl Iterator<Item = (String, String)>) {
    let mut wire = server.connect().unwrap();
    let records: Vec<_> = records.collect();
    for chunk in records.chunks(BATCH) {
        let mut requests = Vec::new();
        for (key, value) in chunk {
            keyfold_core::resp::write_command(&mut requests, &[b"SET", key.as_bytes(), value.as_bytes()]);
        }
        wire.send_bytes(&requests).unwrap();
        chunk.iter().for_each(|_| assert_eq!(wire.reply().unwrap(), b"+OK\r\n"));
    }
}

fn users() -> impl Iterator<Item = (String, String)> {
    (0..USERS).map(|id| (format!("user:{}", 1_000_000 + id), (1_000_000_000 + id * 7919).to_string()))
}

/// Long values, which nothing is won by folding; a codec would make them a few bytes.
fn documents() -> impl Iterator<Item = (String, String)> {
    (0..300).map(|id| (format!("doc:{id}"), "x".repeat(20_000)))
}

/// The oldest and the newest server.
fn servers() -> Vec<Binary> {
    let found = found();
    let mut ends: Vec<_> = found.first().into_iter().chain(found.last()).cloned().collect();
    ends.dedup();
    ends
}

fn out(dir: &TempDir) -> (PathBuf, String) {
    let path = dir.path().join("layout.toml");
    let text = path.to_str().unwrap().to_owned();
    (path, text)
}

fn planned(server: &Server, out: &Path, more: &[&str]) -> (Value, String) {
    let url = server.url();
    let args = ["plan", &url, "--out", out.to_str().unwrap(), "--force", "--json"];
    let report = succeed(&[&args, more].concat());
    (serde_json::from_str(&report).unwrap(), std::fs::read_to_string(out).unwrap())
}

fn family<'r>(report: &'r Value, keys: &str) -> &'r Value {
    let families = report["families"].as_array().unwrap();
    families.iter().find(|family| family["keys"] == keys).unwrap_or_else(|| panic!("no {keys} in {report:#}"))
}

#[test]
fn a_plan_is_a_layout_with_its_reasons() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        load(&server, users().chain(documents()));
        let dir = TempDir::new().unwrap();
        let (path, name) = out(&dir);
        let (report, text) = planned(&server, &path, &["--no-values"]);
        assert_eq!(family(&report, "user:{id:int}")["placement"], "bucket = { span = 127 }", "{}", binary.name());
        assert_eq!(family(&report, "user:{id:int}")["advice"], "fold");
        assert_eq!(family(&report, "doc:{id:int}")["advice"], "leave");
        assert!(text.contains("span = 127") && text.contains("# Left as it is: "), "{text}");
        assert!(succeed(&["layout", "check", &name]).contains("is right: 1 namespace"));
        let (now, after) = (&report["memory"]["model_bytes"], &report["memory"]["after_bytes"]);
        assert!(now.as_u64().unwrap() > after.as_u64().unwrap() + USERS * 30, "{now} {after}");
    }
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let Some(binary) = servers().into_iter().next() else { return };
    let server = binary.start(&[]).unwrap();
    load(&server, users().take(500));
    let dir = TempDir::new().unwrap();
    let (path, name) = out(&dir);
    std::fs::write(&path, "# mine").unwrap();
    let (code, _, stderr) = run(&["plan", &server.url(), "--out", &name]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("--force"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine");
    planned(&server, &path, &[]);
    assert!(std::fs::read_to_string(&path).unwrap().contains("user:{id:int}"));
}

#[test]
fn what_the_server_has_is_kept_and_added_to() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        let dir = TempDir::new().unwrap();
        let (path, name) = out(&dir);
        std::fs::write(&path, "[[namespace]]\nkeys = 'seen:{id:int}'\nbucket = { span = 64 }\nvalue_limit = 32\n")
            .unwrap();
        succeed(&["layout", "push", &name, "--upstream", &server.url()]);
        load(&server, users());
        let (_, text) = planned(&server, &path, &[]);
        assert!(text.contains("bucket = { span = 64 }\nvalue_limit = 32"), "{text}");
        let pushed = succeed(&["layout", "push", &name, "--upstream", &server.url(), "--skip-key-check", "--json"]);
        let pushed: Value = serde_json::from_str(&pushed).unwrap();
        assert_eq!(
            (&pushed["added"], &pushed["changed"]),
            (&serde_json::json!(["user:{id:int}"]), &serde_json::json!([]))
        );
    }
}

#[test]
fn a_plan_is_proved_on_a_server_of_its_own() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        load(&server, users());
        let program = binary.path().to_str().unwrap();
        let args = ["plan", &server.url(), "--keys", "user:{id:int}", "--prove", "--server", program, "--json"];
        let report: Value = serde_json::from_str(&succeed(&args)).unwrap();
        let proof = &report["proof"];
        assert_eq!((&proof["holds"], proof["keys"].as_u64()), (&Value::Bool(true), Some(USERS)), "{report:#}");
        for what in ["plain_bytes", "folded_bytes"] {
            let number = |which: &str| proof[what][which].as_f64().unwrap();
            let off = number("predicted") / number("measured") - 1.0;
            assert!(off.abs() < 0.03, "{}, {what}: {off}", binary.name());
        }
        assert!(proof["folded_read_us"]["measured"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_plan_for_a_server_that_evicts_says_what_that_does() {
    let Some(binary) = servers().into_iter().next() else { return };
    for (policy, said) in [
        ("allkeys-lru", "evicts whole keys (allkeys-lru)"),
        ("allkeys-lfu", "evicts whole keys (allkeys-lfu)"),
        ("volatile-lru", "folded keys are never evicted"),
        ("noeviction", ""),
    ] {
        let server = binary.start(&["--maxmemory", "100mb", "--maxmemory-policy", policy]).unwrap();
        load(&server, users());
        let dir = TempDir::new().unwrap();
        let (report, text) = planned(&server, &out(&dir).0, &[]);
        let notes: Vec<_> = report["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let evicts: Vec<_> = notes.iter().filter(|note| note.contains("evict")).collect();
        assert_eq!(evicts.len(), usize::from(!said.is_empty()), "{policy}: {notes:?}");
        assert!(evicts.iter().all(|note| note.contains(said)), "{policy}: {notes:?}");
        assert_eq!(text.contains("evict"), !said.is_empty(), "{text}");
    }
}

#[test]
fn what_can_not_be_planned_says_why() {
    let Some(binary) = servers().into_iter().next() else { return };
    let server = binary.start(&[]).unwrap();
    let refused = |args: &[&str]| {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{args:?}: {stderr}");
        stderr
    };
    let url = server.url();
    assert!(refused(&["plan", &url]).contains("holds no keys"));
    load(&server, documents());
    assert!(refused(&["plan", &url, "--keys", "user:{id:int}"]).contains("no keys of"));
    assert!(refused(&["plan", &url, "--keys", "user:{id:float}"]).contains("--keys user:{id:float}"));
}

#[test]
fn where_nothing_would_be_placed_the_plan_says_that_nothing_was_proved() {
    let Some(binary) = servers().into_iter().next() else { return };
    let server = binary.start(&[]).unwrap();
    load(&server, documents());
    let dir = TempDir::new().unwrap();
    let (report, text) = planned(&server, &out(&dir).0, &["--no-values", "--prove"]);
    assert_eq!(family(&report, "doc:{id:int}")["advice"], "leave");
    let said = |note: &Value| note.as_str().is_some_and(|note| note.contains("nothing was proved"));
    assert!(report["notes"].as_array().unwrap().iter().any(said), "{report:#}");
    assert!(report["proof"].is_null() && !text.contains("namespace]]"), "{text}");
}
