//! What the studies find, on every server at hand.

use std::fs;
use std::path::Path;

use keyfold_testkit::found;
use serde_json::Value;
use tempfile::TempDir;

use super::{ended, keyfold, oldest};

/// The files that are the same to the byte for the same seed.
const MEMORY: [&str; 9] = [
    "set-vs-hash/memory.csv",
    "set-vs-hash/savings-memory.csv",
    "collections/memory.csv",
    "bucket-sweep/memory.csv",
    "bucket-sweep/best-memory.csv",
    "bundles/memory.csv",
    "key-length/memory.csv",
    "int-buckets/memory.csv",
    "codecs/memory.csv",
];

/// Studies that are over in a moment; those that take time by their nature are in `served.rs`.
const STUDIES: [&str; 7] =
    ["set-vs-hash", "collections", "bucket-sweep", "bundles", "key-length", "int-buckets", "codecs"];

fn quick(program: &Path, seed: &str, out: &Path) {
    for study in STUDIES {
        let mut command = keyfold(&["lab", "run", study, "--quick", "--seed", seed, "--program"]);
        ended(command.arg(program).arg("--out").arg(out).output().unwrap()).assert_code(0);
        let page = fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains("<svg") && page.contains("The original: "), "{study}");
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn the_same_seed_gives_the_same_memory_to_the_byte() {
    let Some(binary) = oldest() else { return };
    let outs = ["1", "1", "2"].map(|seed| {
        let out = TempDir::new().unwrap();
        quick(binary.path(), seed, out.path());
        out
    });
    let read = |out: &TempDir, file| fs::read_to_string(out.path().join(file)).unwrap();
    for file in MEMORY {
        assert_eq!(read(&outs[0], file), read(&outs[1], file), "{file}");
    }
    assert_ne!(read(&outs[0], MEMORY[3]), read(&outs[2], MEMORY[3]), "another seed is other uuids");
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn the_model_is_within_two_percent_on_the_oldest_server_and_the_newest() {
    let servers = found();
    for binary in servers.iter().take(1).chain(servers.iter().skip(1).last()) {
        let out = TempDir::new().unwrap();
        quick(binary.path(), "7", out.path());
        for study in STUDIES {
            let text = fs::read_to_string(out.path().join(study).join("result.json")).unwrap();
            let result: Value = serde_json::from_str(&text).unwrap();
            let worst = result["model"]["worst_error_percent"].as_f64().unwrap();
            assert!(worst.abs() <= 2.0, "{study} on {}: {worst}", binary.name());
            assert!(result["model"]["points"].as_u64().unwrap() > 3, "{study}");
        }
    }
}
