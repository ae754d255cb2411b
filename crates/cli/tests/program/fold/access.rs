//! Users who may not do what a move needs.

use super::stage::{LAYOUT, Stage, assert_same, fill, ok};

/// A user's URL.
fn url(stage: &Stage, user: &str, password: &str) -> String {
    stage.server.url().replace("redis://", &format!("redis://{user}:{password}@"))
}

#[test]
fn without_a_command_that_it_needs_it_says_which_and_loses_nothing() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    fill(&mut direct);
    let before = stage.keyspace();
    let path = stage.layout(LAYOUT);
    for (name, rules, command) in [
        ("noeval", "-eval -evalsha", "eval"),
        ("noscript", "-script", "script"),
        ("nohgetall", "-hgetall", "hgetall"),
        ("nomulti", "-multi", "multi"),
        ("noscan", "-scan", "SCAN"),
        ("nounlink", "-unlink", "unlink"),
        ("nopexpiretime", "-pexpiretime", "pexpiretime"),
        ("noinfo", "-info", "info"),
        ("nowrites", "%R~user:* %RW~keyfold:*", "permission"),
        ("notherekeys", "~user:* ~sess:* ~page:*", "permission"),
    ] {
        let mut acl: Vec<&[u8]> = vec![b"ACL", b"SETUSER", name.as_bytes(), b"on", b">secret", b"+@all"];
        let all_keys = !rules.contains('~');
        if all_keys {
            acl.push(b"~*");
        }
        acl.extend(rules.split(' ').map(str::as_bytes));
        ok(&mut direct, &acl);
        let ran = stage.run(&["fold", &url(&stage, name, "secret"), "--layout", &path, "--yes"]);
        ran.assert_code(1);
        let said = format!("{}{}", ran.stdout, ran.stderr).to_lowercase();
        assert!(said.contains(&command.to_lowercase()) || said.contains("noperm"), "{name}: {said}");
        // Whatever had been done is done to its end, and taken back.
        stage.fold(LAYOUT, &[]).assert_code(0);
        stage.unfold(&["--clean"]).assert_code(0);
        assert_same(&before, &stage.keyspace(), name);
    }
}

#[test]
fn without_client_list_nobody_can_be_shut_out_and_nothing_is_changed() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    fill(&mut direct);
    let before = stage.keyspace();
    ok(&mut direct, &[b"ACL", b"SETUSER", b"noclient", b"on", b">secret", b"+@all", b"~*", b"-client"]);
    let path = stage.layout(LAYOUT);
    let ran = stage.run(&["fold", &url(&stage, "noclient", "secret"), "--layout", &path, "--yes"]);
    ran.assert_code(1).assert_says("without CLIENT LIST and CLIENT KILL");
    assert_same(&before, &stage.keyspace(), "without CLIENT");
    assert_eq!(stage.own_keys(), [""; 0]);
}

#[test]
fn a_wrong_password_is_said() {
    let Some(stage) = Stage::newest(&["--requirepass", "secret"]) else { return };
    let path = stage.layout(LAYOUT);
    for url in [stage.server.url(), url(&stage, "default", "wrong")] {
        let ran = stage.run(&["fold", &url, "--layout", &path, "--yes"]);
        ran.assert_code(1);
        assert!(ran.stderr.contains("password"), "{}", ran.stderr);
    }
    stage.run(&["fold", &url(&stage, "default", "secret"), "--layout", &path, "--yes"]).assert_code(0);
}
