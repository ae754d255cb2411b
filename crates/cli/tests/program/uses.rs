//! What uses a server, as `keyfold analyze` and `keyfold plan` say it before anything is folded.

use serde_json::Value;

use crate::fold::stage::{Stage, ok, on_every_server};

fn uses(stage: &Stage, args: &[&str]) -> Value {
    let ran = stage.run(args);
    let report: Value = serde_json::from_str(&ran.assert_code(0).stdout).unwrap();
    report["uses"].clone()
}

#[track_caller]
fn assert_found(uses: &Value, subject: &str, what: &str) {
    let found = uses["found"].as_array().unwrap();
    let one = found.iter().find(|one| one["subject"] == subject).unwrap_or_else(|| panic!("{subject}: {uses:#}"));
    assert!(one["what"].as_str().unwrap().contains(what) && one["advice"] != "", "{what}: {one:#}");
}

#[test]
fn what_an_application_does_is_said_with_what_to_do() {
    on_every_server(&[], |stage| {
        let (mut application, url) = (stage.connect(), stage.server.url());
        for id in 0..500 {
            ok(&mut application, &[b"SET", format!("user:{id}").as_bytes(), b"a value"]);
        }
        let nothing = uses(stage, &["analyze", &url, "--json"]);
        assert!(nothing["unseen"].as_array().unwrap().is_empty(), "{nothing:#}");
        assert_found(&nothing, "clients", "1 connection past keyfold");

        ok(&mut application, &[b"CLIENT", b"SETNAME", b"web"]);
        ok(&mut application, &[b"CONFIG", b"SET", b"notify-keyspace-events", b"Ex"]);
        ok(&mut application, &[b"CONFIG", b"SET", b"maxmemory", b"1gb"]);
        ok(&mut application, &[b"CONFIG", b"SET", b"maxmemory-policy", b"volatile-lru"]);
        ok(&mut application, &[b"WATCH", b"user:1"]);
        ok(&mut application, &[b"CLIENT", b"TRACKING", b"ON", b"BCAST"]);
        application.call(&[b"EVAL", b"return 1", b"0"]).unwrap();
        application.call(&[b"RANDOMKEY"]).unwrap();
        let mut listener = stage.connect();
        listener.call(&[b"SUBSCRIBE", b"__keyevent@0__:expired"]).unwrap();
        for command in ["analyze", "plan"] {
            let uses = uses(stage, &[command, &url, "--json"]);
            assert_found(&uses, "scripts", "EVAL once");
            assert_found(&uses, "watch", "WATCH once");
            assert_found(&uses, "tracking", "1 connection now");
            assert_found(&uses, "events", "__keyevent@0__:expired");
            assert_found(&uses, "eviction", "volatile-lru");
            assert_found(&uses, "clients", "2 connections past keyfold");
            assert_found(&uses, "clients", "1 of web");
            assert_found(&uses, "commands", "RANDOMKEY is no single moment");
            stage.run(&[command, &url]).assert_says("What uses this server").assert_says("to do:");
        }
    });
}

#[test]
fn what_a_user_may_not_see_is_said() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut wire = stage.connect();
    ok(&mut wire, &[b"SET", b"user:1", b"a value"]);
    let rules: [&[u8]; 9] =
        [b"on", b">secret", b"~*", b"&*", b"+@all", b"-client|list", b"-config", b"-pubsub", b"-monitor"];
    ok(&mut wire, &[&[&b"ACL"[..], b"SETUSER", b"looker"], &rules[..]].concat());
    let url = stage.server.url().replace("redis://", "redis://looker:secret@");
    let uses = uses(&stage, &["analyze", &url, "--json"]);
    let unseen = uses["unseen"].to_string();
    for what in ["CLIENT LIST", "CONFIG GET", "PUBSUB CHANNELS"] {
        assert!(unseen.contains(what), "{unseen}");
    }
    stage.run(&["analyze", &url]).assert_code(0).assert_says("the server doesn't tell");
}
