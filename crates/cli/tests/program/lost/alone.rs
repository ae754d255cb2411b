//! No keyfold runs: what one that starts finds, and what `keyfold layout recover` makes of it.

use keyfold_testkit::{Subject, Wire};

use super::stage::{ADMIN_KEYS, LAYOUT, OTHER, REORDERED, Stage, get, keys, on_every_server};

/// A dump that was made when all was well.
const BEFORE: &str = "{\"key\":\"a\",\"value\":\"1\"}\n{\"end\":{\"keys\":1}}\n";

#[test]
fn nobody_starts_from_nothing_over_folded_keys() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        stage.lose(&ADMIN_KEYS);
        let url = stage.server.url();
        let refused = stage.run(&["serve", "--listen", "127.0.0.1:0", "--upstream", &url]);
        refused.assert(1, &["holds folded keys, and its layout is lost", "such as \"~", "keyfold layout recover"]);
        let other = stage.file("other.toml", OTHER);
        let other = other.to_str().unwrap();
        let dump = stage.file("dump.jsonl", BEFORE);
        let dump = dump.to_str().unwrap();
        for args in [
            &["serve", "--listen", "127.0.0.1:0", "--upstream", &url, "--layout", other][..],
            &["layout", "push", other, "--upstream", &url],
            &["fold", &url, "--yes", "--layout", other],
            &["fold", &url, "--dry-run", "--layout", other],
            &["layout", "recover", &url, "--layout", other],
            &["layout", "recover", &url],
            // Without a layout buckets would pass for hashes of the application's own.
            &["export", &url, "--out", dump, "--force"],
            &["import", &url, dump],
            &["verify", &url],
            &["verify", &url, "--against", dump],
            &["status", &url],
            &["where", &url, "user:1"],
        ] {
            stage.run(args).assert(1, &["such as \"~"]);
            assert_eq!(stage.get("keyfold:{home}:layout"), None, "{what}: nothing is written");
            assert_eq!(std::fs::read_to_string(dump).unwrap(), BEFORE, "{what}");
        }

        // The file that they were folded by accounts for them, in whatever order.
        let keyfold = Subject::start(&stage.server, REORDERED).unwrap();
        let mut wire = Wire::connect(keyfold.address()).unwrap();
        for (key, value) in keys() {
            assert_eq!(get(&mut wire, &key), Ok(Some(value)), "{what}: {key}");
        }
    });
}

#[test]
fn a_dry_run_restores_nothing() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        stage.lose(&["keyfold:{home}:layout:copy"]);
        let (url, layout) = (stage.server.url(), stage.file("layout.toml", LAYOUT));
        for args in
            [&["fold", &url, "--dry-run", "--layout", layout.to_str().unwrap()][..], &["unfold", &url, "--dry-run"]]
        {
            stage.run(args).assert(1, &["layout recover", "dry run"]);
            assert_eq!(stage.get("keyfold:{home}:layout:copy"), None, "{what}: {args:?}");
        }
    });
}

#[test]
fn recover_restores_what_accounts_for_all_and_says_so() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        stage.recover(None, &[]).assert(0, &["the layout is in force and complete"]);
        let before = stage.get("keyfold:{home}:layout");
        assert_eq!(stage.get("keyfold:{home}:layout:copy"), before, "{what}");
        stage.lose(&ADMIN_KEYS);
        // Somebody wrote past keyfold since.
        stage.set("user:7777", b"past keyfold");
        stage.recover(Some(REORDERED), &["--dry-run"]).assert(0, &["the layout given accounts for all", "--dry-run"]);
        assert_eq!(stage.get("keyfold:{home}:layout"), None, "{what}: a dry run changes nothing");
        stage.recover(Some(REORDERED), &[]).assert(0, &["it is gone", "moved 1 key"]);
        stage.assert_all_there(what);
        let keyfold = stage.keyfold();
        let mut wire = Wire::connect(keyfold.address()).unwrap();
        assert_eq!(get(&mut wire, "user:7777"), Ok(Some("past keyfold".to_owned())), "{what}");

        let report = stage.recover(None, &["--json"]);
        let report: serde_json::Value = serde_json::from_str(&report.assert(0, &[]).stdout).unwrap();
        assert_eq!((&report["source"], &report["in_doubt"]), (&"in force".into(), &false.into()), "{what}: {report:#}");
        assert_eq!(report["data"].as_array().unwrap().len(), 2, "{what}: {report:#}");
    });
}

#[test]
fn the_stored_form_restores_a_layout_too() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        let kept = stage.run(&["layout", "show", &stage.server.url(), "--toml"]).stdout;
        stage.lose(&ADMIN_KEYS);
        stage.recover(Some(&kept), &[]).assert(0, &["moved 0 keys"]);
        stage.assert_all_there(what);
        // As `SET keyfold:{home}:layout` alone does: the other half follows.
        stage.lose(&ADMIN_KEYS);
        stage.set("keyfold:{home}:layout", kept.as_bytes());
        stage.recover(None, &[]).assert(0, &["one of the two keys was left"]);
        assert_eq!(stage.get("keyfold:{home}:layout:copy").as_deref(), Some(kept.as_bytes()), "{what}");
        stage.assert_all_there(what);
    });
}

#[test]
fn one_half_of_the_register_is_enough() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        for (lost, garbage) in [
            ("keyfold:{home}:layout", None),
            ("keyfold:{home}:layout:copy", None),
            ("keyfold:{home}:layout", Some(b"\xff garbage")),
            ("keyfold:{home}:layout:copy", Some(b"garbage \x00")),
        ] {
            stage.lose(&[lost]);
            if let Some(garbage) = garbage {
                stage.set(lost, garbage);
            }
            stage.assert_all_there(what);
            assert_eq!(
                stage.get("keyfold:{home}:layout"),
                stage.get("keyfold:{home}:layout:copy"),
                "{what}: {lost} is mended"
            );
        }
        stage.lose(&["keyfold:{home}:layout"]);
        stage.connect().call(&[b"RPUSH", b"keyfold:{home}:layout", b"a list"]).unwrap();
        stage.assert_all_there(what);
    });
}

#[test]
fn a_layout_of_another_version_is_left_alone() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        let text = String::from_utf8(stage.get("keyfold:{home}:layout").unwrap()).unwrap();
        for newer in [text.replacen("version = 2", "version = 3", 1), text.replacen("epoch", "more = 1\nepoch", 1)] {
            for key in ["keyfold:{home}:layout", "keyfold:{home}:layout:copy"] {
                stage.set(key, newer.as_bytes());
            }
            let (url, file) = (stage.server.url(), stage.file("layout.toml", LAYOUT));
            let file = file.to_str().unwrap();
            for args in [
                &["serve", "--listen", "127.0.0.1:0", "--upstream", &url, "--layout", file][..],
                &["layout", "push", file, "--upstream", &url],
                &["fold", &url, "--yes", "--layout", file],
                &["layout", "recover", &url, "--layout", file],
            ] {
                stage.run(args).assert(1, &["another version of keyfold"]);
            }
            assert_eq!(stage.get("keyfold:{home}:layout"), Some(newer.into_bytes()), "{what}");
        }
    });
}

/// As both are written in one step, only somebody past keyfold can have rolled one back.
#[test]
fn where_the_halves_differ_keys_are_looked_for_where_either_says() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        let older = stage.get("keyfold:{home}:layout").unwrap();
        stage.fold(OTHER, &[]).assert(0, &[]);
        let newer = stage.get("keyfold:{home}:layout").unwrap();
        for (key, text) in [("keyfold:{home}:layout", &older), ("keyfold:{home}:layout:copy", &newer)] {
            stage.set(key, text);
        }
        stage.run(&["layout", "show", &stage.server.url()]).assert(1, &["differ", "keyfold layout recover"]);
        stage.recover(None, &[]).assert(0, &["the two keys differ"]);
        stage.assert_all_there(what);
    });
}
