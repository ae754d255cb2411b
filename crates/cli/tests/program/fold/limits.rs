//! What layouts need of a server's limits, and buckets that would be too full.

use keyfold_testkit::Wire;
use serde_json::Value;

use super::stage::{Stage, ok, on_every_server, said};

/// Sessions as JSON: longer than a server packs by itself.
const SESSIONS: &str = "[[namespace]]\nkeys = 'sess:{id:uuid}'\nbucket = { count = 16 }\nvalue_limit = 400\n";

fn fill(wire: &mut Wire, keys: u32, value: &str) {
    for id in 0..keys {
        let key = format!("sess:{:08x}-e89b-42d3-a456-426614174000", id.wrapping_mul(0x9E37_79B9));
        ok(wire, &[b"SET", key.as_bytes(), value.as_bytes()]);
    }
}

fn limit(stage: &Stage) -> String {
    said(&mut stage.connect(), "CONFIG GET hash-max-listpack-value")
}

#[test]
fn a_limit_that_is_too_low_names_its_ways_out_and_promises_nothing() {
    on_every_server(&["--hash-max-listpack-value", "64"], |stage| {
        fill(&mut stage.connect(), 200, &"x".repeat(300));
        let before = stage.keyspace();
        for more in [&[][..], &["--dry-run"]] {
            let ran = stage.fold(SESSIONS, more);
            ran.assert_code(1).assert_says("--raise-limits").assert_says("--keep-settings");
            // The reason is said once, and what is said at the end is what to do.
            assert_eq!((ran.stdout.matches("needs 400").count(), ran.stderr.matches("needs 400").count()), (1, 0));
            ran.assert_says("nothing was changed: see to the obstacle above first");
            assert!(!ran.stdout.contains("less") && !ran.stdout.contains("after"), "{}", ran.stdout);
        }
        let ran = stage.fold(SESSIONS, &["--dry-run", "--json"]);
        ran.assert_code(1);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["obstacles"].as_array().unwrap().len(), 1, "{report:#}");
        assert_eq!(before, stage.keyspace());
    });
}

#[test]
fn limits_are_raised_once_it_is_agreed_and_named_when_all_is_clean_again() {
    on_every_server(&["--hash-max-listpack-value", "64"], |stage| {
        fill(&mut stage.connect(), 200, &"x".repeat(300));
        let told = "hash-max-listpack-value from 64 to 400 on the server at";
        stage.fold(SESSIONS, &["--raise-limits", "--dry-run"]).assert_code(0).assert_says(told);
        // Nobody is there to be asked.
        let (url, path) = (stage.server.url(), stage.layout(SESSIONS));
        stage.run(&["fold", &url, "--layout", &path, "--raise-limits"]).assert_code(1).assert_says("--yes");
        assert!(limit(stage).contains("\\r\\n64\\r\\n"), "{}", limit(stage));
        let ran = stage.fold(SESSIONS, &["--raise-limits", "--json"]);
        ran.assert_code(0);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(report["raises"][0].as_str().unwrap().starts_with("set hash-max-listpack-value 400"), "{report:#}");
        assert!(report["memory"]["rss_after_bytes"].as_u64().unwrap() > 0, "{report:#}");
        assert!(limit(stage).contains("\\r\\n400\\r\\n"), "{}", limit(stage));
        let ran = stage.unfold(&["--clean"]);
        ran.assert_code(0).assert_says("hash-max-listpack-value 400 stays on the server");
        ran.assert_says("CONFIG SET hash-max-listpack-value 64");
        assert_eq!(stage.own_keys(), [""; 0]);
        // Where there is nothing to do, JSON is JSON.
        let ran = stage.unfold(&["--clean", "--json"]);
        ran.assert_code(0);
        assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap()["moved"], 0);
    });
}

#[test]
fn too_few_buckets_are_an_obstacle_that_says_how_many_are_enough() {
    let Some(stage) = Stage::newest(&["--hash-max-listpack-entries", "128"]) else { return };
    fill(&mut stage.connect(), 2_000, "token");
    let few = "[[namespace]]\nkeys = 'sess:{id:uuid}'\nbucket = { count = 5 }\n";
    for more in [&[][..], &["--dry-run"]] {
        let ran = stage.fold(few, more);
        ran.assert_code(1).assert_says("hash-max-listpack-entries is 128").assert_says("100 % of the keys");
        ran.assert_says("In the layout: bucket = { count = 20 }");
    }
    assert_eq!(stage.own_keys(), [""; 0]);
    stage.fold(&few.replace("= 5", "= 20"), &["--dry-run"]).assert_code(0);
    // A higher limit is another way out.
    ok(&mut stage.connect(), &[b"CONFIG", b"SET", b"hash-max-listpack-entries", b"512"]);
    stage.fold(few, &[]).assert_code(0);
    // Out of those buckets into fewer is found as well.
    let fewer = few.replace("= 5", "= 2");
    stage.fold(&fewer, &[]).assert_code(1).assert_says("{ count = 20 }");
}

#[test]
fn what_saves_nothing_is_told_before_anything_is_moved() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut wire = stage.connect();
    for id in 0..200 {
        ok(&mut wire, &[b"SET", format!("user:{}", id * 999).as_bytes(), b"12"]);
    }
    for id in 0..5 {
        ok(&mut wire, &[b"SET", format!("s:{id}").as_bytes(), b"abc"]);
    }
    let thin = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n\
                [[namespace]]\nkeys = 's:{id:int}'\nbucket = { count = 5000 }\n";
    let ran = stage.fold(thin, &["--dry-run"]);
    ran.assert_code(0).assert_says("warning: folding user:{id:int} saves nothing: 200 keys take");
    ran.assert_says("They lie too thinly; in the layout: bucket = { count = 2 }");
    ran.assert_says("warning: folding s:{id:int} saves nothing: 5 keys take");
    ran.assert_says("So few are best left out of the layout");
    // By the rule that was named it does save.
    let right = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 2 }\n";
    let ran = stage.fold(right, &["--dry-run", "--json"]);
    ran.assert_code(0);
    let warnings = serde_json::from_str::<Value>(&ran.stdout).unwrap()["warnings"].to_string();
    assert!(!warnings.contains("saves nothing"), "{warnings}");
    // What comes back is not measured by what it saves.
    stage.fold(thin, &[]).assert_code(0).assert_says("saves nothing");
    let ran = stage.unfold(&[]);
    ran.assert_code(0)
        .assert_says("no keyfold proxy is connected; until all keys are back clients must go through one");
    assert!(!ran.stdout.contains("saves nothing"), "{}", ran.stdout);
}
