//! `keyfold try` as a process, before real servers.

use keyfold_testkit::Subject;

use crate::fold::stage::{Ran, Stage, assert_same, ok, said};

fn users(stage: &Stage, number: u32) {
    let mut wire = stage.connect();
    for id in 0..number {
        ok(&mut wire, &[b"SET", format!("user:{id}:logins").as_bytes(), (id * 31).to_string().as_bytes()]);
    }
}

/// `keyfold try` with its layout in a directory of its own.
fn guide(stage: &Stage, layout: &std::path::Path, more: &[&str]) -> Ran {
    let (url, layout) = (stage.server.url(), layout.to_str().unwrap());
    stage.run(&[&["try", &url, "--out", layout], more].concat())
}

#[test]
fn all_the_way_and_back() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let layout = dir.path().join("layout.toml");
    users(&stage, 5000);
    let before = stage.keyspace();

    // Clients would miss what is folded.
    let ran = guide(&stage, &layout, &["--yes"]);
    ran.assert_code(1)
        .assert_says("no keyfold is connected")
        .assert_says("keyfold serve redis://")
        .assert_says("--unserved");
    assert!(layout.is_file());
    assert_same(&before, &stage.keyspace(), "nobody serves");

    // The layout is there by now, and taken as it is; nobody is there to be asked.
    let proxy = Subject::beside(&stage.server).unwrap();
    let ran = guide(&stage, &layout, &[]);
    ran.assert_code(1).assert_says("is there already").assert_says("one is connected").assert_says("--yes");
    assert_same(&before, &stage.keyspace(), "nobody said yes");

    let ran = guide(&stage, &layout, &["--yes"]);
    let back = format!("keyfold unfold {} --clean", stage.server.url());
    ran.assert_code(0).assert_says("moved 5,000 keys").assert_says("less than as plain keys").assert_says(&back);
    let mut wire = keyfold_testkit::Wire::connect(proxy.address()).unwrap();
    assert_eq!(said(&mut wire, "GET user:7:logins"), "$3\\r\\n217\\r\\n");
    drop((wire, proxy));
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same(&before, &stage.keyspace(), "and back");
}

#[test]
fn settings_are_raised_unless_they_are_to_be_kept() {
    let Some(stage) = Stage::newest(&["--hash-max-listpack-value", "64"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut wire = stage.connect();
    for id in 0..3000_u32 {
        // Of 150 digits that no codec makes much of.
        let value: String = (0..15)
            .map(|part| format!("{:010}", (id + 1).wrapping_mul(2_654_435_761).wrapping_add(part * 97)))
            .collect();
        ok(&mut wire, &[b"SET", format!("doc:{id}").as_bytes(), value.as_bytes()]);
    }
    let kept = guide(&stage, &dir.path().join("kept.toml"), &["--yes", "--unserved", "--keep-settings"]);
    kept.assert_code(0);
    assert_eq!(said(&mut wire, "CONFIG GET hash-max-listpack-value").matches("64").count(), 1);
    stage.unfold(&["--clean"]).assert_code(0);
    let raised = guide(&stage, &dir.path().join("raised.toml"), &["--yes", "--unserved"]);
    raised.assert_code(0).assert_says("to be set first: hash-max-listpack-value from 64");
    stage.unfold(&["--clean"]).assert_code(0).assert_says("CONFIG SET hash-max-listpack-value 64");
}

#[test]
fn where_nothing_is_worth_it_nothing_is_done() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    users(&stage, 5);
    let ran = guide(&stage, &dir.path().join("layout.toml"), &["--yes"]);
    ran.assert_code(0).assert_says("nothing here is worth folding");
    assert_eq!(stage.own_keys(), [""; 0]);
}
