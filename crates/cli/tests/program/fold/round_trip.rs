//! Folded and unfolded, a keyspace is what it was.

use keyfold_testkit::{Subject, Wire};

use super::stage::{LAYOUT, OTHER_LAYOUT, Stage, assert_same, fill, ok, on_every_server, said};

#[test]
fn folded_folded_again_and_unfolded_it_is_the_same() {
    on_every_server(&[], |stage| {
        let what = stage.server.name();
        fill(&mut stage.connect());
        let before = stage.keyspace();
        stage.fold(LAYOUT, &["--raise-limits"]).assert_code(0);
        assert!(stage.keyspace().len() < before.len() / 5, "{what}: folded");
        stage.verify();
        for layout in [OTHER_LAYOUT, LAYOUT] {
            stage.fold(layout, &[]).assert_code(0);
            stage.verify();
        }
        stage.unfold(&[]).assert_code(0).assert_says("of the layout is in force");
        assert_same(&before, &stage.keyspace(), &what);
        let mut own = stage.own_keys();
        own.sort_unstable();
        assert_eq!(own, ["keyfold:{home}:layout", "keyfold:{home}:layout:copy"], "{what}");
        stage.unfold(&["--clean"]).assert_code(0);
        assert_eq!(stage.own_keys(), [""; 0], "{what}");
        // And at once.
        stage.fold(LAYOUT, &[]).assert_code(0);
        stage.unfold(&["--clean"]).assert_code(0).assert_says("removed the layout");
        stage.unfold(&["--clean"]).assert_code(0).assert_says("keyfold keeps nothing on the server");
        assert_same(&before, &stage.keyspace(), &what);
        assert_eq!(stage.own_keys(), [""; 0], "{what}");
    });
}

#[test]
fn a_bucket_of_many_steps_is_moved_whole() {
    on_every_server(&[], |stage| {
        let what = stage.server.name();
        let mut wire = stage.connect();
        for id in 0..5000 {
            ok(&mut wire, &[b"SET", format!("user:{id}").as_bytes(), format!("value {id}").as_bytes()]);
        }
        let before = stage.keyspace();
        let layout = |count| format!("[[namespace]]\nkeys = 'user:{{id:int}}'\nbucket = {{ count = {count} }}\n");
        for count in [2, 3] {
            // Nobody else would want buckets as full as these.
            stage.fold(&layout(count), &["--assume", "hash-max-listpack-entries=5000"]).assert_code(0);
            assert_eq!(stage.keyspace().len(), count, "{what}: so few buckets hold all");
        }
        stage.unfold(&[]).assert_code(0);
        assert_same(&before, &stage.keyspace(), &what);
    });
}

#[test]
fn through_a_proxy_nothing_is_to_be_seen_of_it() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    let questions = [
        "GET user:7",
        "GET user:007",
        "PTTL user:1000",
        "PEXPIRETIME user:1001",
        "STRLEN user:1004",
        "GET user:1006",
        "TYPE user:3",
        "EXISTS user:1 user:2 user:77777",
        "DBSIZE",
        "GET page:",
        "PEXPIRETIME page:",
    ];
    let mut answers = || questions.map(|question| said(&mut wire, question));
    let before = answers();
    for layout in [LAYOUT, OTHER_LAYOUT] {
        stage.fold(layout, &[]).assert_code(0);
        assert_eq!(answers(), before);
    }
    stage.unfold(&[]).assert_code(0);
    assert_eq!(answers(), before);
    assert!(stage.own_keys().iter().all(|key| key.starts_with("keyfold:")));
}

#[test]
fn a_dry_run_changes_nothing_and_nobody_is_asked_without_a_terminal() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let before = stage.keyspace();
    let dry = stage.fold(LAYOUT, &["--dry-run"]);
    dry.assert_code(0).assert_says("MiB after").assert_says("nothing was changed: this was a dry run");
    let json = stage.fold(LAYOUT, &["--dry-run", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&json.assert_code(0).stdout).unwrap();
    assert_eq!(plan["namespaces"].as_array().unwrap().len(), 3);
    assert_eq!(plan["namespaces"][0]["count"], 2 * 308);
    let (url, path) = (stage.server.url(), stage.layout(LAYOUT));
    stage.run(&["fold", &url, "--layout", &path]).assert_code(1).assert_says("--yes");
    assert_same(&before, &stage.keyspace(), "never folded");
    assert_eq!(stage.own_keys(), [""; 0]);

    stage.fold(LAYOUT, &[]).assert_code(0);
    let folded = stage.keyspace();
    stage.unfold(&["--dry-run"]).assert_code(0);
    stage.unfold(&["--dry-run", "--clean"]).assert_code(0);
    stage.run(&["unfold", &url]).assert_code(1).assert_says("--yes");
    assert_same(&folded, &stage.keyspace(), "never unfolded");
}

#[test]
fn one_namespace_alone() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let before = stage.keyspace();
    stage.fold(LAYOUT, &["--namespace", "user:{id:int}"]).assert_code(0);
    let plain = |stage: &Stage, prefix: &[u8]| stage.keyspace().keys().filter(|key| key.1.starts_with(prefix)).count();
    assert_eq!((plain(&stage, b"user:"), plain(&stage, b"sess:")), (2, 602));
    stage.fold(LAYOUT, &["--namespace", "user:{id}"]).assert_code(1).assert_says("has no namespace `user:{id}`");
    stage.fold(LAYOUT, &[]).assert_code(0);
    assert_eq!((plain(&stage, b"user:"), plain(&stage, b"sess:")), (2, 2));
    stage.unfold(&["--namespace", "user:{id:int}"]).assert_code(0);
    assert_eq!((plain(&stage, b"user:"), plain(&stage, b"sess:")), (618, 2));
    stage.unfold(&["--namespace", "user:{id:int}", "--clean"]).assert_code(1);
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same(&before, &stage.keyspace(), "one after another");
}

/// The keyfold that runs goes by what lies there, cleaned or not.
#[test]
fn what_was_unfolded_for_good_is_folded_again_before_a_running_keyfold() {
    on_every_server(&[], |stage| {
        let what = stage.server.name();
        fill(&mut stage.connect());
        let before = stage.keyspace();
        let proxy = Subject::beside(&stage.server).unwrap();
        let mut wire = Wire::connect(proxy.address()).unwrap();
        for round in 0..2 {
            stage.fold(LAYOUT, &[]).assert_code(0);
            assert_eq!(said(&mut wire, "GET user:3"), "$5\\r\\n23757\\r\\n", "{what}: round {round}");
            ok(&mut wire, &[b"SET", b"user:3", b"23757"]);
            stage.unfold(&["--clean"]).assert_code(0).assert_says("keyfolds that run go by it");
            assert_same(&before, &stage.keyspace(), &what);
            assert_eq!(said(&mut wire, "GET user:3"), "$5\\r\\n23757\\r\\n", "{what}: round {round}");
        }
    });
}
