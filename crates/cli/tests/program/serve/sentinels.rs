//! Sentinels say where the server is, to keyfold and to its tools.

use std::process::Stdio;
use std::time::Duration;

use keyfold_testkit::patience::wait_for;
use keyfold_testkit::sentinel::Options;
use keyfold_testkit::{Sentinels, found};

use super::keyfold::{COUNTERS, Keyfold, command, run, write_layout};

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

#[test]
fn a_fold_that_a_failover_cuts_off_says_so_and_goes_on_when_it_is_run_again() {
    const KEYS: usize = 20_000;
    let sentinels =
        Sentinels::start_with(&found().pop().unwrap(), 3, &Options { replicas: 1, ..Options::default() }).unwrap();
    let keys: Vec<String> = (0..KEYS).map(|id| format!("user:{id}")).collect();
    let pairs = keys.iter().enumerate().flat_map(|(id, key)| [key.clone(), id.to_string()]);
    let mset: Vec<String> = std::iter::once("MSET".to_owned()).chain(pairs).collect();
    let mset: Vec<&[u8]> = mset.iter().map(String::as_bytes).collect();
    let mut direct = sentinels.connect_server(0).unwrap();
    assert_eq!(direct.call(&mset).unwrap(), b"+OK\r\n");
    let dir = tempfile::tempdir().unwrap();
    let layout = write_layout(dir.path(), COUNTERS);
    let url = sentinels.url();
    let args = ["fold", &url, "--layout", layout.to_str().unwrap(), "--yes"];

    let slow = [&args[..], &["--max-ops", "500"]].concat();
    let folding = command(&slow).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("it folds", Duration::from_secs(60), || {
        let left = direct.ask(&[b"DBSIZE"]).unwrap().integer().unwrap();
        if left < KEYS as i64 { Ok(()) } else { Err(format!("{left} keys")) }
    })
    .unwrap();
    sentinels.fail_over().unwrap();
    let output = folding.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("or a failover does; what has been moved stays moved") && said.contains("Run it again"),
        "{said}"
    );

    let (code, out, err) = run(&args);
    assert_eq!(code, Some(0), "{out}{err}");
    let keyfold = Keyfold::serve(&["--upstream", &url]);
    let mget: Vec<&[u8]> = [b"MGET".as_slice()].into_iter().chain(keys.iter().map(String::as_bytes)).collect();
    let values = keyfold.connect().ask(&mget).unwrap();
    let values = values.elements().unwrap().iter().map(keyfold_testkit::Value::integer);
    assert!(values.eq((0..KEYS as i64).map(Some)), "all are there");
}
