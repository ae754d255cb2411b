//! The server is left as it was found, however a run ends.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::{Stage, VALUE, VALUE_ARGS, finish};

/// Changes settings from its first seconds on, and takes long enough to be stopped meanwhile.
const LONG: [&str; 5] = ["lab", "run", "bundles", "--scale", "2"];
const QUICK: [&str; 4] = ["lab", "run", "set-vs-hash", "--quick"];

#[track_caller]
fn assert_untouched(stage: &Stage, before: &str) {
    assert_eq!(stage.setting(), before);
    assert_eq!(stage.said("DBSIZE"), ":0\\r\\n");
    assert!(!stage.out.path().join("lab/settings-before.json").exists());
}

#[test]
fn a_whole_run_leaves_nothing() {
    let Some(stage) = Stage::start(&VALUE_ARGS) else { return };
    let before = stage.setting();
    stage.run(&QUICK).assert_code(0).assert_says("hash, limit 32768");
    assert_untouched(&stage, &before);
    for file in ["report.html", "set-vs-hash/memory.csv", "set-vs-hash/memory.png", "set-vs-hash/result.json"] {
        assert!(stage.out.path().join("lab").join(file).is_file(), "{file}");
    }
}

#[test]
fn results_that_cannot_be_written_leave_nothing() {
    let Some(stage) = Stage::start(&VALUE_ARGS) else { return };
    let before = stage.setting();
    let out = stage.out.path().join("lab");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("set-vs-hash"), "in the way").unwrap();
    stage.run(&QUICK).assert_code(1).assert_says("can't write the results to");
    assert_untouched(&stage, &before);
}

#[test]
fn interrupted_it_leaves_nothing() {
    let Some(stage) = Stage::start(&VALUE_ARGS) else { return };
    let before = stage.setting();
    for signal in [Signal::INT, Signal::TERM] {
        let running = stage.spawn(&LONG);
        stage.wait_until_changed();
        kill_process(Pid::from_child(&running), signal).unwrap();
        finish(running).assert_code(1).assert_says("interrupted; the server is as it was");
        assert_untouched(&stage, &before);
    }
}

#[test]
fn what_a_killed_run_changed_is_put_back_by_the_next() {
    let Some(stage) = Stage::start(&VALUE_ARGS) else { return };
    let before = stage.setting();
    let mut running = stage.spawn(&LONG);
    stage.wait_until_changed();
    let noted = stage.out.path().join("lab/settings-before.json");
    assert!(fs::read_to_string(noted).unwrap().contains(VALUE), "it is noted before it is changed");
    running.kill().unwrap();
    running.wait().unwrap();
    assert_ne!(stage.setting(), before);
    // The study's key is still there: keyfold can't tell that it is nobody else's.
    stage.run(&QUICK).assert_code(1).assert_says("a lab was killed here: 2 settings put back").assert_says("empty one");
    assert_eq!(stage.setting(), before);
    assert_eq!(stage.said("EXISTS keyfold:lab"), ":0\\r\\n");
    stage.said("FLUSHALL");
    stage.run(&["lab", "run", "bundles", "--quick"]).assert_code(0).assert_says("hashes, limit 1024");
    assert_eq!(stage.said("DBSIZE"), ":0\\r\\n");
}

#[test]
fn keys_of_a_killed_run_that_had_a_prefix_are_removed_by_the_next() {
    let Some(stage) = Stage::start(&VALUE_ARGS) else { return };
    stage.said("SET mine 1");
    let before = stage.setting();
    let mut running = stage.spawn(&[&LONG[..], &["--i-know"]].concat());
    stage.wait_until_changed();
    running.kill().unwrap();
    running.wait().unwrap();
    stage.run(&["lab", "run", "bundles", "--quick", "--i-know"]).assert_code(0).assert_says("2 settings put back, ");
    assert_eq!(stage.setting(), before);
    assert_eq!(stage.said("KEYS *"), "*1\\r\\n$4\\r\\nmine\\r\\n");
}

#[test]
fn a_lost_server_is_told_of_with_what_it_was_set_to() {
    let Some(mut stage) = Stage::start(&VALUE_ARGS) else { return };
    let running = stage.spawn(&LONG);
    stage.wait_until_changed();
    stage.server.kill();
    finish(running)
        .assert_code(1)
        .assert_says("could not be put back")
        .assert_says("CONFIG SET hash-max-listpack-value 100");
    assert!(stage.out.path().join("lab/settings-before.json").exists());
}
