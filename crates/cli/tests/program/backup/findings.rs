//! What is not in its place is found, named, and makes the code that scripts see.

use keyfold_testkit::{Subject, Wire, found};
use tempfile::TempDir;

use super::program::{LAYOUT, fill, keyfold, keys_in, verify};

#[test]
fn each_kind_of_damage_is_found() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = Subject::start(&server, LAYOUT).unwrap();
        let keys = fill(&mut Wire::connect(proxy.address()).unwrap());
        // It would sweep up some of what is damaged below.
        drop(proxy);
        let clean = verify(&server, &[]);
        assert_eq!(clean.code, Some(0), "{}: {}", server.name(), clean.stdout);
        assert!(clean.stdout.contains("every key lies in its place, once"), "{}", clean.stdout);

        // The names of spilled values: one loses its pointer, one is lost.
        let mut wire = server.connect().unwrap();
        let names = wire.ask(&[b"KEYS", b"~tnrO!*:user:8"]).unwrap();
        let spill = names.elements().unwrap()[0].bytes().unwrap().to_vec();
        for command in [
            &[&b"SET"[..], b"user:1", b"past the proxy"][..],
            &[b"SET", b"user:77", b"past the proxy"],
            &[b"HSET", b"~tnrO:0", b"128", b"in the next bucket"],
            &[b"HSET", b"~tnrO:0", b"100", b"\x1f"],
            &[b"HSET", b"~tnrO:0", b"101", b"\x0c\x05coded"],
            &[b"HDEL", b"~tnrO:0", b"7"],
            &[b"DEL", &spill],
            &[b"SET", b"~tnrO!1:plain", b"stray"],
            &[b"SET", b"~0000:1", b"unknown"],
            // As a value that was spilled before its namespace left the layout: gone in a moment, and no finding.
            &[b"SET", b"~0000!1:user:8", b"retired", b"PX", b"5000"],
            &[b"SET", b"~tnrO:5", b"no hash"],
        ] {
            assert_ne!(wire.call(command).unwrap()[0], b'-', "{}", command[1].escape_ascii());
        }
        let ran = verify(&server, &["--json", "--list", "100"]);
        assert_eq!(ran.code, Some(3), "{}: {}{}", server.name(), ran.stdout, ran.stderr);
        let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let expected = serde_json::json!({
            "twin": 1, "hidden-key": 1, "strange-field": 1, "damaged-value": 1, "unknown-codec": 1,
            "orphaned-spill": 1, "missing-spill": 1, "stray-spill": 1, "unknown-name": 1, "not-a-bucket": 1,
        });
        assert_eq!(report["findings"]["kinds"], expected, "{}: {}", server.name(), ran.stdout);
        assert_eq!(report["findings"]["listed"].as_array().unwrap().len(), 10);

        // The export has what clients see, and says what it hasn't.
        let ran = keyfold(&["export", &server.url()]);
        assert_eq!(ran.code, Some(3));
        assert_eq!(keys_in(&ran.stdout), keys - 2, "all but the two whose values are lost");
        assert!(ran.stderr.contains("missing-spill") && ran.stderr.contains("(key \"user:8\")"), "{}", ran.stderr);
    }
}

#[test]
fn a_hashtable_is_told_with_what_made_it_one() {
    for binary in found() {
        let server = binary.start(&["--hash-max-listpack-value", "40"]).unwrap();
        let proxy = Subject::start(&server, LAYOUT).unwrap();
        let mut wire = Wire::connect(proxy.address()).unwrap();
        wire.call(&[b"SET", b"user:1", &[b'x'; 50]]).unwrap();
        wire.call(&[b"SET", b"user:1000", &[b'x'; 30]]).unwrap();
        let ran = keyfold(&["verify", &server.url()]);
        assert_eq!(ran.code, Some(3), "{}", ran.stdout);
        assert!(ran.stdout.contains("has 50 bytes, over hash-max-listpack-value 40"), "{}", ran.stdout);
        assert!(ran.stdout.contains("1 finding:"), "{}", ran.stdout);
    }
}

#[test]
fn what_lies_plain_without_a_layout_is_plain() {
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
    server.connect().unwrap().call(&[b"MSET", b"~tilde", b"1", b"user:1", b"2", b"keyfold:mine", b"3"]).unwrap();
    let dump = dir.path().join("dump.jsonl");
    super::program::export(&server, &dump);
    assert_eq!(keys_in(&std::fs::read_to_string(&dump).unwrap()), 3);
    assert_eq!(verify(&server, &["--against", dump.to_str().unwrap()]).code, Some(0));
}

/// As somebody makes one who chooses its keys: a server answers nobody else while it gives a hash whole.
#[test]
fn a_large_bucket_is_read_in_steps_and_each_key_once() {
    let layout = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 10000 }\n";
    for binary in found() {
        let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
        let proxy = Subject::start(&server, layout).unwrap();
        let mut wire = Wire::connect(proxy.address()).unwrap();
        for id in 0..2500 {
            wire.send(&[b"SET", format!("user:{id}").as_bytes(), b"value"]).unwrap();
        }
        (0..2500).for_each(|_| assert_eq!(wire.reply().unwrap(), b"+OK\r\n"));
        drop(proxy);
        server.connect().unwrap().call(&[b"CONFIG", b"RESETSTAT"]).unwrap();
        let dump = dir.path().join("dump.jsonl");
        super::program::export(&server, &dump);
        let text = std::fs::read_to_string(&dump).unwrap();
        let keys: std::collections::BTreeSet<&str> = text.lines().take(2500).collect();
        assert_eq!((keys.len(), keys_in(&text)), (2500, 2500), "{}", server.name());
        let ran = keyfold(&["verify", &server.url(), "--against", dump.to_str().unwrap()]);
        assert!(ran.stdout.contains("2500 entries, over hash-max-listpack-entries 512"), "{}", ran.stdout);
        assert!(ran.stdout.contains("1 finding:"), "{}", ran.stdout);
        let stats = server.connect().unwrap().call(&[b"INFO", b"commandstats"]).unwrap();
        let stats = String::from_utf8_lossy(&stats).into_owned();
        let steps =
            stats.lines().find_map(|line| line.strip_prefix("cmdstat_hscan:calls=")?.split(',').next()).unwrap();
        assert!(steps.parse::<u64>().unwrap() >= 4 && !stats.contains("cmdstat_hgetall"), "{stats}");
    }
}
