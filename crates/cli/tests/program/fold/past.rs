//! Clients that write past keyfold.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use keyfold_testkit::{Subject, Wire};

use super::stage::{LAYOUT, Stage, fill, ok, said};

#[test]
fn what_was_written_past_a_folded_namespace_is_fetched_by_the_next_fold() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    fill(&mut direct);
    stage.fold(LAYOUT, &[]).assert_code(0);
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    ok(&mut direct, &[b"SET", b"user:4242", b"past keyfold"]);
    ok(&mut direct, &[b"SET", b"user:3", b"another value"]);
    direct.call(&[b"RPUSH", b"user:4243", b"a list"]).unwrap();
    assert_eq!(said(&mut wire, "GET user:4242"), "$-1\\r\\n", "hidden");

    stage.fold(LAYOUT, &["--dry-run"]).assert_code(0).assert_says("user:{id:int}");
    let ran = stage.fold(LAYOUT, &[]);
    ran.assert_code(3).assert_says("moved 1 key ").assert_says("2 keys stay");
    ran.assert_says("\"user:3\": somebody wrote it past keyfold").assert_says("\"user:4243\": it is a list");
    assert_eq!(said(&mut wire, "GET user:4242"), "$12\\r\\npast keyfold\\r\\n");
    assert_eq!(said(&mut wire, "GET user:3"), "$5\\r\\n23757\\r\\n", "the folded one wins");
    assert_eq!(said(&mut wire, "LLEN user:4243"), ":1\\r\\n");
    assert_eq!(said(&mut direct, "GET user:3"), "$13\\r\\nanother value\\r\\n", "nothing is lost");

    assert_eq!(said(&mut direct, "DEL user:3 user:4243"), ":2\\r\\n");
    stage.fold(LAYOUT, &[]).assert_code(0);
    assert_eq!(said(&mut wire, "GET user:3"), "$5\\r\\n23757\\r\\n");
    stage.fold(LAYOUT, &[]).assert_code(0).assert_says("everything lies where the layout says");
    stage.run(&["verify", &stage.server.url(), "--skip-encodings"]).assert_code(0);
}

#[test]
fn taking_back_doesn_t_change_which_of_two_values_clients_see() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    fill(&mut direct);
    stage.fold(LAYOUT, &[]).assert_code(0);
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    ok(&mut direct, &[b"SET", b"user:3", b"another value"]);
    let seen = said(&mut wire, "GET user:3");
    stage.fold(LAYOUT, &[]).assert_code(3);
    stage.unfold(&[]).assert_code(1).assert_says("hold two values: \"user:3\"");
    assert_eq!(said(&mut wire, "GET user:3"), seen);
    assert_eq!(said(&mut direct, "DEL user:3"), ":1\\r\\n");
    stage.unfold(&[]).assert_code(0);
    assert_eq!(said(&mut wire, "GET user:3"), seen);
}

#[test]
fn a_move_doesn_t_go_on_for_ever_behind_a_client_that_writes_past_keyfold() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let done = AtomicBool::new(false);
    let ran = thread::scope(|scope| {
        scope.spawn(|| {
            let mut direct = stage.connect();
            let mut id = 1_000_000_u32;
            while !done.load(Relaxed) {
                ok(&mut direct, &[b"SET", format!("user:{id}").as_bytes(), b"past keyfold"]);
                id += 1;
            }
        });
        let ran = stage.fold(LAYOUT, &[]);
        done.store(true, Relaxed);
        ran
    });
    ran.assert_code(1).assert_says("by walk 8 still: somebody goes on writing past keyfold");
    stage.fold(LAYOUT, &[]).assert_code(0);
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    assert_eq!(said(&mut wire, "GET user:1000000"), "$12\\r\\npast keyfold\\r\\n");
}
