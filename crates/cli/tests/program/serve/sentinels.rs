//! Sentinels say where the server is, to keyfold and to its tools.

use keyfold_testkit::sentinel::Options;
use keyfold_testkit::{Sentinels, found};

use super::keyfold::{COUNTERS, Keyfold, run, write_layout};

#[test]
fn keyfold_and_its_tools_find_the_primary_by_sentinels() {
    let binary = found().pop().unwrap();
    let options = Options {
        replicas: 1,
        sentinel_password: Some("watch".into()),
        password: Some("secret".into()),
        ..Options::default()
    };
    let sentinels = Sentinels::start_with(&binary, 3, &options).unwrap();
    let bare = sentinels.url();
    let hosts = bare.strip_prefix("sentinel://").unwrap();
    let url = format!("sentinel://:secret@{hosts}?sentinel_password=watch");
    let dir = tempfile::tempdir().unwrap();
    let layout = write_layout(dir.path(), COUNTERS);
    let keyfold = Keyfold::serve(&["--upstream", &url, "--layout", layout.to_str().unwrap()]);
    assert_eq!(keyfold.connect().call(&[b"SET", b"user:1", b"12345"]).unwrap(), b"+OK\r\n");

    let found = |server: usize| {
        let (code, out, err) = run(&["where", "user:1", "--upstream", &url]);
        assert_eq!((code, out.contains("12345")), (Some(0), true), "{out}{err}");
        let (code, out, err) = run(&["doctor", &url]);
        assert!(code.is_some_and(|code| code < 2) && !err.contains("can't"), "{out}{err}");
        let port = sentinels.server(server).port();
        assert!(out.contains(&port.to_string()) || err.contains(&port.to_string()), "{port}: {out}{err}");
    };
    found(0);
    let successor = sentinels.fail_over().unwrap();
    found(successor);

    let said = |url: &str, answers: &[&str]| {
        let (code, _, err) = run(&["layout", "show", url]);
        assert_eq!(code, Some(1));
        answers.iter().for_each(|answer| assert!(err.contains(answer), "{answer}: {err}"));
    };
    said(&url.replace("/main", "/cache"), &["don't know \"cache\"", "known there: main"]);
    said(&format!("sentinel://:secret@{hosts}"), &["refuse to be asked", "NOAUTH", "sentinel_password"]);
    said(
        &url.replace("secret", "wrong"),
        &["named 127.0.0.1:", "WRONGPASS", "name the user and the password in the URL"],
    );
    said("sentinel://127.0.0.1:1,127.0.0.1:2/main", &["no Sentinel answers: 127.0.0.1:1, 127.0.0.1:2: "]);
}
