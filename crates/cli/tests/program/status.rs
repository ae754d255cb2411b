//! `keyfold status` as a process, before real servers.

use keyfold_testkit::{Cluster, Subject, cluster, found};
use serde_json::Value;

use crate::fold::stage::{Stage, ok, on_every_server};

const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n";

const KEYS: u32 = 60_000;

fn status(stage: &Stage) -> Value {
    let ran = stage.run(&["status", &stage.server.url(), "--json"]);
    serde_json::from_str(&ran.assert_code(0).stdout).unwrap()
}

fn used_memory(stage: &Stage) -> f64 {
    // What the server keeps of each command's latencies.
    ok(&mut stage.connect(), &[b"CONFIG", b"RESETSTAT"]);
    let info = stage.connect().ask(&[b"INFO", b"memory"]).unwrap();
    let info = String::from_utf8_lossy(info.bytes().unwrap()).into_owned();
    info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().parse().unwrap()
}

#[test]
fn what_folding_saves_is_what_the_server_takes_less() {
    on_every_server(&[], |stage| {
        let mut wire = stage.connect();
        for id in 0..KEYS {
            ok(&mut wire, &[b"SET", format!("user:{id}").as_bytes(), format!("name of {id}").as_bytes()]);
        }
        assert_eq!(status(stage)["epoch"], Value::Null);
        stage.run(&["status", &stage.server.url()]).assert_code(0).assert_says("keyfold has folded nothing here");
        let before = used_memory(stage);
        stage.fold(LAYOUT, &[]).assert_code(0);
        let now = status(stage);
        let saved = before - used_memory(stage);
        let said = now["saved_bytes"].as_f64().unwrap();
        // Of so few keys the server's own table is a good part, which grows and shrinks in steps of two.
        assert!((said / saved - 1.0).abs() < 0.25, "{}: {said} said, {saved} saved", stage.server.name());
        let namespace = &now["namespaces"][0];
        assert_eq!(
            (&namespace["keys"], &namespace["count"]),
            (&"user:{id:int}".into(), &f64::from(KEYS).into()),
            "{now:#}"
        );
        assert!(now["open_moves"].as_array().unwrap().is_empty() && now["keyfolds"].as_array().unwrap().is_empty());
        assert!(now["memory"]["rss_bytes"].as_u64() > Some(0));

        let proxy = Subject::beside(&stage.server).unwrap();
        let now = status(stage);
        assert_eq!(now["keyfolds"].as_array().unwrap().len(), 1, "{now:#}");
        assert!(now["keyfolds"][0]["connections"].as_u64() > Some(0), "{now:#}");
        let shown = stage.run(&["status", &stage.server.url()]);
        shown.assert_code(0).assert_says("keyfold:").assert_says("none open").assert_says("less than as plain keys");
        drop(proxy);
    });
}

#[test]
fn a_cluster_is_added_up() {
    let cluster = Cluster::start(&found().pop().unwrap(), 3, 0, &cluster::Options::default()).unwrap();
    let stage = Stage::newest(&[]).unwrap();
    let ran = stage.run(&["status", &cluster.url(0)]);
    ran.assert_code(0).assert_says("a cluster of 3 primary nodes").assert_says("nothing: no key is folded");
}
