//! Servers that keyfold has folded keys of: what is said is said of namespaces and logical keys.

use super::{Server, family, fill, json, run, words};
use crate::fold::stage::{Stage, on_every_server};
use serde_json::Value;

const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}:logins'\nbucket = { span = 128 }\n";

fn users(server: &Server) {
    fill(&mut server.connect().unwrap(), (0..12_000).map(|id| words(&format!("SET user:{id}:logins {}", id * 31))));
}

#[test]
fn what_is_folded_is_its_namespace_and_its_logical_keys() {
    on_every_server(&[], |stage| {
        users(&stage.server);
        let url = stage.server.url();
        let plain = json(&[&url]);
        stage.fold(LAYOUT, &[]).assert_code(0);
        fill(&mut stage.connect(), (0..2000).map(|id| words(&format!("SET cart:{id} {id}"))));
        let report = json(&[&url]);
        let folded = &report["folded"][0];
        assert_eq!(
            (&folded["keys"], &folded["count"]),
            (&"user:{id:int}:logins".into(), &12_000.0.into()),
            "{folded:#}"
        );
        assert_eq!(folded["placement"], "bucket = { span = 128 }");
        assert_eq!(report["walk"]["logical_keys"], 14_000);
        let (now, before) = (&folded["bytes"], &family(&plain, "user:{id:int}:logins")["bytes"]);
        assert!(now.as_f64().unwrap() * 4.0 < before.as_f64().unwrap(), "{now} of {before}");
        let names: Vec<_> = report["families"].as_array().unwrap().iter().map(|one| &one["keys"]).collect();
        assert_eq!(names, ["cart:{id:int}"]);
        let model = report["memory"]["model_bytes"].as_f64().unwrap();
        assert!(model > now.as_f64().unwrap() && model < before.as_f64().unwrap(), "{model}");

        let (code, out, err) = run(&[&url]);
        assert!(
            code == Some(0) && out.contains("14,000 keys take") && out.contains("folded in 94 buckets"),
            "{out}{err}"
        );
        assert!(!out.contains('~'), "{out}");

        let plan = stage.run(&["plan", &url, "--no-values"]);
        plan.assert_code(0).assert_says("which are 14,000 to clients").assert_says("folded: bucket = { span = 128 }");
        assert!(!plan.stdout.contains("of other types") && !plan.stdout.contains('~'), "{}", plan.stdout);
        let plan = stage.run(&["plan", &url, "--no-values", "--json"]);
        let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
        assert_eq!((&plan["folded"][0]["count"], &plan["keys"]["logical"]), (&12_000.0.into(), &14_000.into()));
    });
}

#[test]
fn where_all_is_folded_there_is_no_more_to_plan() {
    let Some(stage) = Stage::newest(&[]) else { return };
    users(&stage.server);
    stage.fold(LAYOUT, &[]).assert_code(0);
    let url = stage.server.url();
    stage.run(&["plan", &url]).assert_code(0).assert_says("there are no more strings to fold");
    let (code, out, _) = run(&[&url]);
    assert!(code == Some(0) && !out.contains("There are no keys"), "{out}");
}

#[test]
fn a_sample_of_folded_keys_says_how_far_off_it_may_be() {
    let stage = Stage::newest(&[]).unwrap();
    users(&stage.server);
    stage.fold(LAYOUT, &[]).assert_code(0);
    fill(&mut stage.connect(), (0..2000).map(|id| words(&format!("SET cart:{id} {id}"))));
    let report = json(&[&stage.server.url(), "--sample", "1000"]);
    let folded = &report["folded"][0];
    let (count, within) = (folded["count"].as_f64().unwrap(), folded["count_within"].as_f64().unwrap());
    assert!(within > 0.0 && (count - 12_000.0).abs() < 3.0 * within, "{count} ± {within}");
}

#[test]
fn an_open_move_is_known_to_all_tools() {
    let Some(stage) = Stage::newest(&[]) else { return };
    users(&stage.server);
    let url = stage.server.url();
    let mut folding = stage.begin_fold(LAYOUT, &["--max-ops", "2000"]);
    let mut wire = stage.connect();
    // Some keys have been moved.
    while wire.ask(&[b"DBSIZE"]).unwrap() == keyfold_testkit::Value::Integer(12_000)
        || !stage.own_keys().iter().any(|key| key.starts_with('~'))
    {
        assert!(folding.try_wait().unwrap().is_none(), "it ended too soon");
    }
    folding.kill().unwrap();
    folding.wait().unwrap();
    let said = "a move of";
    for args in [&["verify", &url, "--skip-encodings"][..], &["analyze", &url], &["plan", &url], &["status", &url]] {
        let ran = stage.run(args);
        ran.assert_code(0).assert_says(said).assert_says("is open");
    }
    let doctor = stage.run(&["doctor", &url]);
    doctor.assert_code(0).assert_says("a move of these keys").assert_says("keyfold unfold");
    assert!(!doctor.stdout.contains("count ="), "{}", doctor.stdout);
    stage.fold(LAYOUT, &[]).assert_code(0);
    let verify = stage.run(&["verify", &url, "--skip-encodings"]);
    assert!(!verify.assert_code(0).stdout.contains(said), "{}", verify.stdout);
}
