//! Codecs in a plan, weighed by the values of a real server and proved on another.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use keyfold_testkit::Binary;
use serde_json::Value;

use super::{Server, TempDir, documents, family, load, out, planned, run, servers, succeed};

/// Records of each real set.
const RECORDS: usize = 10_000;

fn json(id: u64) -> String {
    let (n, city) = (id * 2_654_435_761 % 1_000_003, ["Lisbon", "Oslo", "Quito", "Perth"][(id * 7 % 4) as usize]);
    let active = n % 2 == 0;
    format!(r#"{{"id":{id},"name":"User {n}","email":"user{n}@example.com","city":"{city}","active":{active}}}"#)
}

fn profiles() -> impl Iterator<Item = (String, String)> {
    (1_000_000..1_008_000).map(|id| (format!("profile:{id}"), json(id)))
}

/// Long ones, with little in common.
fn articles() -> impl Iterator<Item = (String, String)> {
    (0..300).map(|id| (format!("article:{id}"), (0..40).map(|part| json(id * 1000 + part)).collect()))
}

fn tokens() -> impl Iterator<Item = (String, String)> {
    let mix = |id: u64, by: u64| id.wrapping_mul(by).rotate_left(29).wrapping_mul(0x94d0_49bb_1331_11eb);
    (0..5000_u64).map(move |id| {
        let token = format!("{:016x}{:016x}", mix(id + 1, 0xbf58_476d_1ce4_e5b9), mix(id + 9, 0x9e37_79b9_7f4a_7c15));
        (format!("token:{id}"), token)
    })
}

/// Bytes as proved are within 2 % of what was predicted.
pub(super) fn prove(binary: &Binary, server: &Server, what: &str, more: &[&str]) -> Value {
    prove_within(0.02, binary, server, what, more)
}

/// The same of those folded, while what is plain may be so far off: MEMORY USAGE looks at five elements of a table.
pub(super) fn prove_within(plain: f64, binary: &Binary, server: &Server, what: &str, more: &[&str]) -> Value {
    let program = binary.path().to_str().unwrap();
    let (url, args) = (server.url(), ["--prove", "--server", program, "--json"]);
    let report: Value = serde_json::from_str(&succeed(&[&["plan", &url], &args[..], more].concat())).unwrap();
    for (side, within) in [("plain_bytes", plain), ("folded_bytes", 0.02)] {
        let number = |which: &str| report["proof"][side][which].as_f64().unwrap();
        let off = number("predicted") / number("measured") - 1.0;
        assert!(off.abs() < within, "{}, {what}, {side}: {off}", binary.name());
    }
    report
}

#[test]
fn a_plan_with_codecs_is_what_a_server_takes() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        load(&server, profiles().chain(articles()).chain(tokens()));
        let report = prove(&binary, &server, "made up", &[]);
        let codec = |keys: &str| family(&report, keys)["codec"]["name"].clone();
        let codecs = ["profile:{id:int}", "article:{id:int}", "token:{id:int}"].map(codec);
        assert_eq!(codecs, ["zstd", "zstd", "hex"], "{report:#}");
        assert_eq!(family(&report, "article:{id:int}")["placement"], "placement = \"framed\"");
        let profiles = family(&report, "profile:{id:int}");
        assert!(profiles["codec"]["ratio"].as_f64().unwrap() > 3.0, "{profiles:#}");
        assert!(profiles["codec"]["decode_us"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn values_are_read_only_where_codecs_are_wanted() {
    let Some(binary) = servers().into_iter().next() else { return };
    let server = binary.start(&[]).unwrap();
    load(&server, profiles());
    let dir = TempDir::new().unwrap();
    let (path, name) = out(&dir);
    let (report, text) = planned(&server, &path, &[]);
    assert_eq!(family(&report, "profile:{id:int}")["compressible"]["codec"], "zstd");
    assert!(text.contains("codec = \"zstd\"") && text.contains("zstd stores values of"), "{text}");
    assert!(succeed(&["layout", "check", &name]).contains("is right: 1 namespace"));
    let (report, text) = planned(&server, &path, &["--no-values"]);
    assert_eq!(family(&report, "profile:{id:int}")["codec"], Value::Null);
    assert!(!text.contains("codec"), "{text}");
    let shown = succeed(&["analyze", &server.url()]);
    assert!(shown.contains("× zstd") && shown.contains("codec = \"zstd\""), "{shown}");
    let shown = succeed(&["analyze", &server.url(), "--no-values"]);
    assert!(!shown.contains("zstd"), "{shown}");
}

#[test]
fn settings_that_stay_are_planned_for() {
    let Some(binary) = servers().into_iter().next() else { return };
    let server = binary.start(&[]).unwrap();
    load(&server, articles().chain(documents()));
    let shown = succeed(&["plan", &server.url(), "--keep-settings"]);
    assert!(!shown.contains("CONFIG SET") && shown.contains("placement = \"framed\""), "{shown}");
}

#[test]
fn nothing_is_read_without_the_right_to() {
    let Some(binary) = servers().into_iter().next() else { return };
    let server = binary.start(&[]).unwrap();
    load(&server, profiles().take(2000));
    let mut wire = server.connect().unwrap();
    let mut request = Vec::new();
    let user: [&[u8]; 8] = [b"ACL", b"SETUSER", b"looker", b"on", b">secret", b"~*", b"+@all", b"-get"];
    keyfold_core::resp::write_command(&mut request, &user);
    wire.send_bytes(&request).unwrap();
    assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
    let url = server.url().replace("redis://", "redis://looker:secret@");
    let (code, shown, stderr) = run(&["analyze", &url]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!shown.contains("zstd") && shown.contains("the server refused GET"), "{shown}");
}

fn real(directory: &Path, name: &str) -> Option<Vec<(String, String)>> {
    let file = File::open(directory.join(format!("{name}.jsonl.gz"))).ok()?;
    let lines = BufReader::new(GzDecoder::new(file)).lines().take(RECORDS);
    Some(lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect())
}

#[test]
fn real_values_take_what_was_predicted() {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let directory = std::env::var_os("KEYFOLD_DATA").map_or_else(beside, Into::into);
    for name in ["cities_json", "access_logs", "words_phonemes", "debian_sha256", "stix_uuid_json"] {
        let Some(records) = real(&directory, name) else {
            eprintln!("skipped: no real data beside the workspace or under KEYFOLD_DATA");
            return;
        };
        for binary in servers() {
            let server = binary.start(&[]).unwrap();
            load(&server, records.iter().cloned());
            let report = prove(&binary, &server, name, &[]);
            let codecs = report["families"].as_array().unwrap().iter().filter(|family| !family["codec"].is_null());
            assert!(codecs.count() > 0, "{name}: {report:#}");
        }
    }
}
