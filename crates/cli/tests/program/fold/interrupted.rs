//! Movers that die, and two at once.

use std::thread;
use std::time::Duration;

use super::stage::{LAYOUT, OTHER_LAYOUT, Stage, assert_same, fill, finish, said};

#[test]
fn killed_at_any_point_it_goes_on_where_it_was() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let before = stage.keyspace();
    for delay_ms in [0, 10, 20, 40, 60, 80, 120] {
        for layout in [LAYOUT, OTHER_LAYOUT] {
            let mut folding = stage.begin_fold(layout, &["--max-ops", "50000"]);
            thread::sleep(Duration::from_millis(delay_ms));
            folding.kill().unwrap();
            folding.wait().unwrap();
            stage.fold(layout, &[]).assert_code(0);
        }
        let url = stage.server.url();
        let mut unfolding = stage.command(&["unfold", &url, "--yes", "--max-ops", "50000"]).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay_ms));
        unfolding.kill().unwrap();
        unfolding.wait().unwrap();
        stage.unfold(&["--clean"]).assert_code(0);
        assert_same(&before, &stage.keyspace(), &format!("killed after {delay_ms} ms"));
        assert_eq!(stage.own_keys(), [""; 0]);
    }
}

#[test]
fn a_fold_that_was_killed_can_be_taken_back() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let before = stage.keyspace();
    let mut folding = stage.begin_fold(LAYOUT, &["--max-ops", "2000"]);
    let mut wire = stage.connect();
    while said(&mut wire, "GET keyfold:{home}:layout") == "$-1\\r\\n" {}
    while said(&mut wire, "KEYS ~*") == "*0\\r\\n" {}
    thread::sleep(Duration::from_millis(300));
    folding.kill().unwrap();
    folding.wait().unwrap();
    stage.fold(OTHER_LAYOUT, &[]).assert_code(1).assert_says("moving from");
    assert!(stage.keyspace().keys().any(|key| key.1.starts_with(b"~")), "some were folded");
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same(&before, &stage.keyspace(), "taken back");
}

#[test]
fn two_movers_at_once_do_no_harm() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let before = stage.keyspace();
    for _ in 0..5 {
        let movers = [(); 3].map(|()| stage.begin_fold(LAYOUT, &[]));
        let ran = movers.map(finish);
        assert!(ran.iter().any(|ran| ran.code == Some(0)), "{ran:?}");
        for ran in ran.iter().filter(|ran| ran.code != Some(0)) {
            ran.assert_code(1);
            let reasons =
                ["another change of the layout", "changed by somebody else", "the connection to the server was closed"];
            assert!(reasons.iter().any(|reason| ran.stderr.contains(reason)), "{ran:?}");
        }
        stage.fold(LAYOUT, &[]).assert_code(0);
        stage.unfold(&["--clean"]).assert_code(0);
        assert_same(&before, &stage.keyspace(), "two at once");
    }
}

#[test]
fn interrupted_it_stops_and_says_so() {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let folding = stage.begin_fold(LAYOUT, &["--max-ops", "500"]);
    let mut wire = stage.connect();
    while said(&mut wire, "GET keyfold:{home}:layout") == "$-1\\r\\n" {}
    kill_process(Pid::from_child(&folding), Signal::INT).unwrap();
    finish(folding).assert_code(1).assert_says("interrupted; what has been moved stays moved");
    stage.fold(LAYOUT, &[]).assert_code(0);
}

#[test]
fn how_far_it_came_is_told_while_it_moves_and_after_it_died() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let mut folding = stage.begin_fold(LAYOUT, &["--max-ops", "500"]);
    let mut wire = stage.connect();
    while said(&mut wire, "GET keyfold:{home}:move") == "$-1\\r\\n" {}
    let url = stage.server.url();
    let status = || stage.run(&["status", &url]);
    status().assert_code(0).assert_says(" moved (").assert_says(" a second");
    stage.run(&["top", &url, "--once"]).assert_code(0).assert_says(" moved (");
    folding.kill().unwrap();
    folding.wait().unwrap();
    // As if a minute had passed since.
    said(&mut wire, "PEXPIRE keyfold:{home}:move 3540000");
    status().assert_code(0).assert_says("stopped: ").assert_says("run the same command again to go on");
    stage.fold(LAYOUT, &[]).assert_code(0);
    status().assert_code(0).assert_says("none open");
}
