//! Servers that may not be used, or not for all of it.

use super::{Stage, ended, keyfold};

#[test]
fn a_server_that_is_not_empty_is_refused_unless_the_user_knows() {
    let Some(stage) = Stage::start(&[]) else { return };
    stage.said("SELECT 0");
    stage.said("SET mine 1");
    let bundles = ["lab", "run", "bundles", "--quick"];
    stage.run(&bundles).assert_code(1).assert_says("holds 1 key").assert_says("--i-know");
    assert_eq!(stage.said("EXISTS keyfold:lab"), ":0\\r\\n");
    for known in [&["--i-know"][..], &["--namespace-prefix", "x*y:"]] {
        stage.run(&[&bundles[..], known].concat()).assert_code(0);
        assert_eq!(stage.said("KEYS *"), "*1\\r\\n$4\\r\\nmine\\r\\n", "{known:?}");
    }
    stage.run(&[&bundles[..], &["--namespace-prefix", "mi"]].concat()).assert_code(1).assert_says("there already");
    assert_eq!(stage.said("GET mine"), "$1\\r\\n1\\r\\n");
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn without_config_what_needs_it_is_left_out() {
    let Some(stage) = Stage::start(&["--rename-command", "CONFIG", ""]) else { return };
    let ran = stage.run(&["lab", "all", "--quick"]);
    ran.assert_code(3).assert_says("left out: hashes under limit 1028: the server forbids CONFIG");
    ran.assert_says("left out: hashes, limit 1024").assert_says("hash, limit 512, 512 members");
    ran.assert_says("left out: HTML, all: the server forbids CONFIG").assert_says("short strings: all ");
    assert_eq!(stage.said("DBSIZE"), ":0\\r\\n");
}

#[test]
fn a_study_that_is_not_there_is_told_of() {
    let ran = ended(keyfold(&["lab", "run", "nothing"]).output().unwrap());
    ran.assert_code(1).assert_says("there is no study nothing").assert_says("set-vs-hash");
    let ran = ended(keyfold(&["lab", "run", "bundles", "--scale", "0"]).output().unwrap());
    ran.assert_code(2).assert_says("a number above 0");
}

#[test]
fn a_place_for_results_that_is_none_is_told_of_before_anything_is_done() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut command = keyfold(&["lab", "run", "bundles", "--quick", "--out"]);
    let ran = ended(command.arg(file.path().join("below")).output().unwrap());
    ran.assert_code(1).assert_says("can't write the results to");
}
