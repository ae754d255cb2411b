//! Clients that write past keyfold.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;

use keyfold_testkit::{Server, Subject, Wire};

use super::stage::{LAYOUT, Stage, fill, finish, ok, said};

/// Keys that were folded, and who reads and writes them.
struct Folded {
    stage: Stage,
    proxy: Subject,
    /// To the server itself.
    direct: Wire,
    /// To keyfold.
    wire: Wire,
}

impl Folded {
    fn new() -> Option<Self> {
        let stage = Stage::newest(&[])?;
        let mut direct = stage.connect();
        fill(&mut direct);
        stage.fold(LAYOUT, &[]).assert_code(0);
        let proxy = Subject::beside(&stage.server).unwrap();
        let wire = Wire::connect(proxy.address()).unwrap();
        Some(Self { stage, proxy, direct, wire })
    }

    /// An unfold is refused for a value that clients don't see, and carried out once it is gone; they see the same all the time.
    fn refuses_to_unfold_until_it_is_gone(mut self, seen: &str) {
        self.stage.unfold(&[]).assert_code(1).assert_says("hold two values: \"user:3\"");
        assert_eq!(said(&mut self.wire, "GET user:3"), seen);
        assert_eq!(said(&mut self.direct, "DEL user:3"), ":1\\r\\n");
        self.stage.unfold(&[]).assert_code(0);
        assert_eq!(said(&mut self.wire, "GET user:3"), seen);
    }
}

#[test]
fn what_was_written_past_a_folded_namespace_is_fetched_by_the_next_fold() {
    let Some(Folded { stage, proxy: _proxy, mut direct, mut wire }) = Folded::new() else { return };
    ok(&mut direct, &[b"SET", b"user:4242", b"past keyfold"]);
    ok(&mut direct, &[b"SET", b"user:3", b"another value"]);
    direct.call(&[b"RPUSH", b"user:4243", b"a list"]).unwrap();
    assert_eq!(said(&mut wire, "GET user:4242"), "$-1\\r\\n", "hidden");

    stage.fold(LAYOUT, &["--dry-run"]).assert_code(0).assert_says("user:{id:int}");
    let ran = stage.fold(LAYOUT, &[]);
    ran.assert_code(3).assert_says("moved 1 key ").assert_says("2 keys stay");
    ran.assert_says("`DEL \"user:3\"` on the server itself").assert_says("\"user:4243\": it is a list");
    assert_eq!(said(&mut wire, "GET user:4242"), "$12\\r\\npast keyfold\\r\\n");
    assert_eq!(said(&mut wire, "GET user:3"), "$5\\r\\n23757\\r\\n", "the folded one wins");
    assert_eq!(said(&mut wire, "LLEN user:4243"), ":1\\r\\n");
    assert_eq!(said(&mut direct, "GET user:3"), "$13\\r\\nanother value\\r\\n", "nothing is lost");

    let verified = stage.run(&["verify", &stage.server.url(), "--skip-encodings"]);
    verified.assert_code(3).assert_says("1 finding").assert_says("`DEL \"user:3\"` removes the other one");

    assert_eq!(said(&mut direct, "DEL user:3 user:4243"), ":2\\r\\n");
    stage.fold(LAYOUT, &[]).assert_code(0);
    assert_eq!(said(&mut wire, "GET user:3"), "$5\\r\\n23757\\r\\n");
    stage.fold(LAYOUT, &[]).assert_code(0).assert_says("everything lies where the layout says");
    stage.run(&["verify", &stage.server.url(), "--skip-encodings"]).assert_code(0);
}

#[test]
fn taking_back_doesn_t_change_which_of_two_values_clients_see() {
    let Some(mut folded) = Folded::new() else { return };
    ok(&mut folded.direct, &[b"SET", b"user:3", b"another value"]);
    let seen = said(&mut folded.wire, "GET user:3");
    folded.stage.fold(LAYOUT, &[]).assert_code(3);
    folded.refuses_to_unfold_until_it_is_gone(&seen);
}

#[test]
fn folding_again_half_way_out_doesn_t_change_which_of_two_values_clients_see() {
    let Some(Folded { stage, proxy: _proxy, mut direct, mut wire }) = Folded::new() else { return };
    let layout = said(&mut direct, "GET keyfold:{home}:layout");
    let mut unfolding = stage.begin_unfold(&["--max-ops", "50"]);
    while said(&mut direct, "GET keyfold:{home}:layout") == layout {}
    unfolding.kill().unwrap();
    unfolding.wait().unwrap();
    let in_bucket = |id: &u32| said(&mut direct, &format!("EXISTS user:{id}")) == ":0\\r\\n";
    let key = format!("user:{}", (3..600).find(in_bucket).unwrap());
    ok(&mut direct, &[b"SET", key.as_bytes(), b"another value"]);
    let get = format!("GET {key}");
    assert_eq!(said(&mut wire, &get), "$13\\r\\nanother value\\r\\n");
    stage.fold(LAYOUT, &[]).assert_code(1).assert_says(&format!("hold two values: \"{key}\""));
    assert_eq!(said(&mut wire, &get), "$13\\r\\nanother value\\r\\n");
    ok(&mut wire, &[b"SET", key.as_bytes(), b"one value"]);
    stage.fold(LAYOUT, &[]).assert_code(0);
    assert_eq!(said(&mut wire, &get), "$9\\r\\none value\\r\\n");
}

/// Clients would see the other one as soon as an unfold begins.
#[test]
fn unfolding_doesn_t_change_which_of_two_values_clients_see() {
    let Some(mut folded) = Folded::new() else { return };
    ok(&mut folded.direct, &[b"SET", b"user:3", b"another value"]);
    let seen = said(&mut folded.wire, "GET user:3");
    let layout = said(&mut folded.direct, "GET keyfold:{home}:layout");
    folded.stage.unfold(&[]).assert_code(1).assert_says("hold two values: \"user:3\"");
    assert_eq!(said(&mut folded.direct, "GET keyfold:{home}:layout"), layout);
    folded.refuses_to_unfold_until_it_is_gone(&seen);
}

/// The same of keys whose names alone are shorter.
#[test]
fn unfolding_short_names_doesn_t_change_which_of_two_values_clients_see() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    (0..100).for_each(|id| ok(&mut direct, &[b"SET", format!("document:{id}").as_bytes(), b"folded"]));
    stage.fold("[[namespace]]\nkeys = \"document:{id:int}\"\n", &[]).assert_code(0);
    ok(&mut direct, &[b"SET", b"document:3", b"past keyfold"]);
    stage.unfold(&[]).assert_code(1).assert_says("hold two values: \"document:3\"");
    assert_eq!(said(&mut direct, "DEL document:3"), ":1\\r\\n");
    stage.unfold(&[]).assert_code(0);
    assert_eq!(said(&mut direct, "GET document:3"), "$6\\r\\nfolded\\r\\n");
}

/// Keys that a fold takes from the one place to the other between two looks lie in one at any time.
#[test]
fn a_fold_that_goes_on_is_no_client_that_writes_past_keyfold() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut direct = stage.connect();
    for id in 0..20_000_u32 {
        direct.send(&[b"SET", format!("user:{id}").as_bytes(), b"7"]).unwrap();
    }
    (0..20_000).for_each(|_| assert_eq!(direct.reply().unwrap(), b"+OK\r\n"));
    let mut folding = stage.begin_fold(LAYOUT, &["--max-ops", "8000"]);
    while said(&mut direct, "GET keyfold:{home}:layout") == "$-1\r\n" {}
    let mut looks = 0;
    while folding.try_wait().unwrap().is_none() {
        let look = stage.unfold(&["--dry-run"]);
        // As its layout changes, the fold closes the connections of others.
        match look.stderr.contains("the connection to the server was closed") {
            true => look.assert_code(1),
            false => look.assert_code(0),
        };
        looks += u32::from(look.code == Some(0));
    }
    finish(folding).assert_code(0);
    assert!(looks > 3, "{looks} looks");
}

/// As a walk over all keys begins, on the wire.
const WALK: &[u8] = b"\r\nSCAN\r\n$1\r\n0\r\n";

/// Passes one connection on to the server; another key of a namespace is written there before each walk.
fn pass_on(mut near: TcpStream, server: &Server, ids: &AtomicU32) {
    let mut far = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
    let (mut answers, mut back) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut direct = server.connect().unwrap();
    let (mut chunk, mut seen) = ([0; 64 * 1024], Vec::new());
    while let Ok(len @ 1..) = near.read(&mut chunk) {
        seen.extend_from_slice(&chunk[..len]);
        for _ in seen.windows(WALK.len()).filter(|window| *window == WALK) {
            let key = format!("user:{}", ids.fetch_add(1, Relaxed));
            ok(&mut direct, &[b"SET", key.as_bytes(), b"past keyfold"]);
        }
        // A walk's beginning may come in two pieces, and is not seen twice.
        seen.drain(..seen.len().saturating_sub(WALK.len() - 1));
        far.write_all(&chunk[..len]).unwrap();
    }
    let _ = far.shutdown(Shutdown::Write);
}

#[test]
fn a_move_doesn_t_go_on_for_ever_behind_a_client_that_writes_past_keyfold() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect());
    let (ids, is_over) = (AtomicU32::new(1_000_000), AtomicBool::new(false));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let ran = thread::scope(|scope| {
        scope.spawn(|| {
            while let (Ok((near, _)), false) = (listener.accept(), is_over.load(Relaxed)) {
                scope.spawn(|| pass_on(near, &stage.server, &ids));
            }
        });
        let ran = stage.run(&["fold", &format!("redis://{address}"), "--layout", &stage.layout(LAYOUT), "--yes"]);
        is_over.store(true, Relaxed);
        drop(TcpStream::connect(address).unwrap());
        ran
    });
    ran.assert_code(1).assert_says("by walk 8 still: somebody goes on writing past keyfold");
    assert!(ids.load(Relaxed) > 1_000_007, "{ids:?}");
    stage.fold(LAYOUT, &[]).assert_code(0);
    let proxy = Subject::beside(&stage.server).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    assert_eq!(said(&mut wire, "GET user:1000000"), "$12\\r\\npast keyfold\\r\\n");
}
