//! Servers that can't, and settings that don't allow it.

use keyfold_testkit::{Subject, Wire};
#[cfg(target_os = "linux")]
use rustix::process::{Pid, getpriority_process};

use super::stage::{LAYOUT, OTHER_LAYOUT, Stage, assert_same, fill, finish, ok, said};

#[test]
fn a_server_out_of_memory_loses_nothing_and_goes_on_once_it_has_more() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    fill(&mut direct);
    let before = stage.keyspace();
    ok(&mut direct, &[b"CONFIG", b"SET", b"maxmemory", b"1000000"]);
    stage.fold(LAYOUT, &[]).assert_code(1).assert_says("maxmemory").assert_says("nothing was changed");
    assert_same(&before, &stage.keyspace(), "refused beforehand");
    ok(&mut direct, &[b"CONFIG", b"SET", b"maxmemory", b"0"]);

    // Full in the midst of it.
    let folding = stage.begin_fold(LAYOUT, &["--max-ops", "2000"]);
    while said(&mut direct, "GET keyfold:{home}:layout") == "$-1\\r\\n" {}
    ok(&mut direct, &[b"CONFIG", b"SET", b"maxmemory", b"1000000"]);
    finish(folding).assert_code(1).assert_says("used memory > 'maxmemory'").assert_says("run the same command again");
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    // Clients read all the same.
    for id in 0..300_u32 {
        let value = (id * 7919).to_string();
        assert_eq!(said(&mut wire, &format!("GET user:{id}")), format!("${}\\r\\n{value}\\r\\n", value.len()));
    }
    ok(&mut direct, &[b"CONFIG", b"SET", b"maxmemory", b"0"]);
    drop(proxy);
    stage.fold(LAYOUT, &[]).assert_code(0);
    stage.unfold(&[]).assert_code(0);
    assert_same(&before, &stage.keyspace(), "after it was full");
}

/// At one command a second the keys alone would take hours to look at.
#[test]
fn slow_moving_begins_soon() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    fill(&mut direct);
    let mut folding = stage.begin_fold(LAYOUT, &["--max-ops", "1"]);
    while said(&mut direct, "GET keyfold:{home}:layout") == "$-1\\r\\n" {
        assert!(folding.try_wait().unwrap().is_none(), "{:?}", finish(folding));
    }
    // Of its threads the one that moves comes after clients, and not the one that changes the layout.
    #[cfg(target_os = "linux")]
    {
        while !priorities(folding.id()).contains(&19) {
            assert!(folding.try_wait().unwrap().is_none(), "{:?}", finish(folding));
        }
        assert!(priorities(folding.id()).contains(&getpriority_process(None).unwrap()));
    }
    folding.kill().unwrap();
    folding.wait().unwrap();
    stage.fold(LAYOUT, &[]).assert_code(0);
}

/// Of each thread of a process.
#[cfg(target_os = "linux")]
fn priorities(process: u32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let id = |thread: std::io::Result<std::fs::DirEntry>| thread.ok()?.file_name().to_str()?.parse().ok();
    threads.filter_map(id).filter_map(|id| getpriority_process(Pid::from_raw(id)).ok()).collect()
}

#[test]
fn a_replica_is_refused() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let port = stage.server.port().to_string();
    let Some(replica) = Stage::newest(&["--replicaof", &format!("127.0.0.1 {port}")]) else { return };
    let mut wire = replica.connect();
    while said(&mut wire, "DBSIZE") != said(&mut stage.connect(), "DBSIZE") {}
    replica.fold(LAYOUT, &[]).assert_code(1).assert_says("replica").assert_says("nothing was changed");
    replica.fold(LAYOUT, &["--dry-run"]).assert_code(1).assert_says("obstacle: this server is a replica");
    // And it follows its primary when that is folded.
    let before = stage.keyspace();
    stage.fold(LAYOUT, &[]).assert_code(0);
    stage.unfold(&["--clean"]).assert_code(0);
    // It waits for what was written before the connection's last command.
    let mut primary = stage.connect();
    said(&mut primary, "PING");
    assert_eq!(said(&mut primary, "WAIT 1 10000"), ":1\\r\\n");
    assert_same(&before, &replica.keyspace(), "the replica");
}

#[test]
fn a_server_without_config_wants_to_be_told_its_limits() {
    let Some(stage) = Stage::newest(&["--rename-command", "CONFIG", "", "--hash-max-listpack-entries", "512"]) else {
        return;
    };
    fill(&mut stage.connect());
    let before = stage.keyspace();
    let limits = "hash-max-listpack-entries=512,hash-max-listpack-value=64";
    stage
        .fold(LAYOUT, &["--assume", "hash-max-listpack-entries=16", "--assume", "hash-max-listpack-value=64"])
        .assert_code(1);
    assert_same(&before, &stage.keyspace(), "too small");
    let assume: Vec<&str> = limits.split(',').flat_map(|limit| ["--assume", limit]).collect();
    stage.fold(LAYOUT, &assume).assert_code(0);
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same(&before, &stage.keyspace(), "assumed");
}

#[test]
fn a_layout_that_changed_meanwhile_is_not_overwritten() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    fill(&mut direct);
    let before = stage.keyspace();
    let folding = stage.begin_fold(LAYOUT, &["--max-ops", "1500"]);
    while said(&mut direct, "GET keyfold:{home}:layout") == "$-1\\r\\n" {}
    stage.unfold(&[]).assert_code(0);
    let ran = finish(folding);
    ran.assert_code(1).assert_says("the connection to the server was closed");
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same(&before, &stage.keyspace(), "one folds, one unfolds");
    stage.fold(OTHER_LAYOUT, &[]).assert_code(0);
}
