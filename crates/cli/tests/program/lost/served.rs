//! Keyfolds run while the layout is lost, set back or made unreadable past them: every answer is right, or an error for a
//! moment, and nobody restarts them.

use std::thread;
use std::time::{Duration, Instant};

use keyfold_testkit::{Subject, Wire};

use super::stage::{LAYOUT, OTHER, Stage, get, keys, on_every_server};

/// Until when all must be well again.
const MENDED_WITHIN: Duration = Duration::from_secs(60);
/// Every request is, if by an error; the time to connect, which is long in tests, is not awaited.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// So often a keyfold looks while nothing happens, and something to spare.
const SEEN_WITHIN: Duration = Duration::from_millis(1500);

/// A way to lose the layout, and what it is called.
type Loss<'l> = (&'l str, &'l dyn Fn(&Stage));

const HALVES: [&str; 2] = ["keyfold:{home}:layout", "keyfold:{home}:layout:copy"];

fn text(stage: &Stage) -> String {
    String::from_utf8_lossy(&stage.get("keyfold:{home}:layout").unwrap_or_default()).into_owned()
}

/// The keyfolds' clients, each with a connection that stays.
fn clients(keyfolds: &[Subject]) -> Vec<Wire> {
    keyfolds.iter().map(|keyfold| Wire::connect(keyfold.address()).unwrap()).collect()
}

/// Reads through all until this is so; each answer must be right meanwhile. Whether an error was among them.
#[track_caller]
fn read_until(what: &str, clients: &mut [Wire], is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + MENDED_WITHIN;
    let mut errors = false;
    loop {
        let over = is_so();
        for (key, value) in keys().step_by(7) {
            for client in &mut *clients {
                match get(client, &key) {
                    Ok(found) => assert_eq!(found, Some(value.clone()), "{what}: {key}"),
                    Err(_) => errors = true,
                }
            }
        }
        if over {
            return errors;
        }
        assert!(Instant::now() < deadline, "{what}: never mended");
    }
}

/// Whether the register holds a layout again, twice, that is settled.
fn is_settled(stage: &Stage) -> bool {
    let text = text(stage);
    // Of a text that was cut short the last lines are missing.
    is_whole(stage) && text.matches("codec = ").count() == 2 && !text.contains("put_back")
}

#[test]
fn whoever_serves_a_layout_puts_it_back() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        let keyfolds = [stage.keyfold(), stage.keyfold()];
        let mut clients = clients(&keyfolds);
        let losses: [Loss<'_>; 4] = [
            ("both are removed", &|stage| stage.lose(&HALVES)),
            ("one is removed", &|stage| stage.lose(&HALVES[..1])),
            ("both are garbage", &|stage| HALVES.iter().for_each(|half| stage.set(half, b"gar\xffbage"))),
            ("both are cut short", &|stage| {
                let text = text(stage);
                HALVES.iter().for_each(|half| stage.set(half, &text.as_bytes()[..text.len() / 2]));
            }),
        ];
        read_until(what, &mut clients, || true);
        let mut errors = false;
        for (name, lose) in losses {
            let before = text(&stage);
            lose(&stage);
            let what = format!("{what}: {name}");
            errors |= read_until(&what, &mut clients, || is_settled(&stage));
            assert_eq!(text(&stage) == before, name == "one is removed", "{what}");
        }
        stage.run(&["layout", "show", &stage.server.url()]).assert(0, &[]);
        let info = |client: &mut Wire| String::from_utf8(client.call(&[b"INFO", b"keyfold"]).unwrap()).unwrap();
        let told: Vec<String> = clients.iter_mut().map(info).collect();
        let has = |word: &str| told.iter().any(|info| info.contains(word));
        assert!(
            has("keyfold_layout_losses:found=") && !told.iter().all(|info| info.contains("put_back=0")),
            "{told:?}"
        );
        // On a machine that stood still for seconds one may have been shut out for it.
        let none_closed = told.iter().all(|info| info.contains("connections_closed=0"));
        assert!(!errors || !none_closed, "{what}: whose connections live goes on");
        stage.fold(OTHER, &[]).assert(0, &[]);
        read_until(what, &mut clients, || true);
    });
}

/// As a failover makes it that brings back an older layout, and as by hand.
#[test]
fn a_register_that_is_set_back_is_put_forward_again() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        let older = text(&stage);
        let keyfolds = [stage.keyfold(), stage.keyfold()];
        let mut clients = clients(&keyfolds);
        stage.fold(OTHER, &[]).assert(0, &[]);
        let newer = text(&stage);
        let counter = |clients: &mut [Wire], round: i64| {
            for (at, client) in clients.iter_mut().enumerate() {
                let reply = client.call(&[b"INCR", b"user:100000"]).unwrap();
                let expected = round * 2 + i64::try_from(at).unwrap() + 1;
                assert_eq!(reply, format!(":{expected}\r\n").as_bytes(), "{what}: each number comes once");
            }
        };
        counter(&mut clients, 0);
        for half in HALVES {
            stage.set(half, older.as_bytes());
        }
        let until = Instant::now() + SEEN_WITHIN;
        let mut round = 1;
        while Instant::now() < until || !is_settled(&stage) {
            counter(&mut clients, round);
            round += 1;
            assert!(Instant::now() < until + MENDED_WITHIN, "{what}: never settled: {}", text(&stage));
        }
        read_until(what, &mut clients, || true);
        let settled = text(&stage);
        assert!(settled != older && settled != newer, "{what}: it is a layout of its own");
        assert!(settled.contains("span = 32"), "{what}: {settled}");
    });
}

/// The connections end with the server, so nothing is answered by what was known before.
#[test]
fn a_server_that_comes_back_without_its_layout_gets_it_again() {
    on_every_server(|binary, what| {
        let mut stage = Stage::folded(binary, &[]);
        let keyfolds = [stage.keyfold(), stage.keyfold()];
        let mut clients = clients(&keyfolds);
        read_until(what, &mut clients, || true);
        stage.lose(&HALVES);
        assert_eq!(stage.connect().call(&[b"SAVE"]).unwrap(), b"+OK\r\n");
        // Whatever was put back meanwhile is not in what was saved before it, or it is: both are right.
        stage.server.restart().unwrap();
        read_until(what, &mut clients, || is_settled(&stage));
        read_until(what, &mut clients, || true);
    });
}

#[test]
fn what_another_version_wrote_is_not_served_until_it_can_be_read() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        let keyfold = stage.keyfold();
        let mut wire = Wire::connect(keyfold.address()).unwrap();
        let before = text(&stage);
        let newer = before.replacen("version = 2", "version = 3", 1);
        for half in HALVES {
            stage.set(half, newer.as_bytes());
        }
        let deadline = Instant::now() + MENDED_WITHIN;
        let refused = loop {
            let asked = Instant::now();
            let answer = get(&mut wire, "user:7");
            assert!(asked.elapsed() < ANSWERED_WITHIN, "{what}: {answer:?} after {:?}", asked.elapsed());
            match answer {
                Ok(found) => assert_eq!(found.as_deref(), Some("of user:7"), "{what}"),
                Err(error) => break error,
            }
            assert!(Instant::now() < deadline, "{what}: it serves on");
        };
        assert!(refused.contains("keyfold layout recover"), "{what}: {refused}");
        assert_eq!(text(&stage), newer, "{what}: it is left alone");
        for half in HALVES {
            stage.set(half, before.as_bytes());
        }
        while get(&mut wire, "user:7").is_err() {
            assert!(Instant::now() < deadline, "{what}: it never serves again");
        }
        assert_eq!(get(&mut wire, "user:7"), Ok(Some("of user:7".to_owned())), "{what}");
    });
}

/// Clients that wait for the server are in nobody's way: they have said all that the layout has a part in.
#[test]
fn clients_that_wait_hold_up_no_change() {
    on_every_server(|binary, what| {
        let stage = Stage::plain(binary, &[]);
        let keyfold = Subject::start(&stage.server, LAYOUT).err();
        assert!(keyfold.is_some(), "its keys are there: it takes a fold");
        let keyfold = stage.keyfold();
        let mut waiting: Vec<Wire> = (0..4).map(|_| Wire::connect(keyfold.address()).unwrap()).collect();
        waiting[0].call(&[b"SET", b"user:100001", b"a"]).unwrap();
        waiting[0].send(&[b"WAIT", b"1", b"0"]).unwrap();
        waiting[1].send(&[b"BLPOP", b"user:100002", b"0"]).unwrap();
        waiting[2].send(&[b"CLIENT", b"REPLY", b"OFF"]).unwrap();
        waiting[2].send(&[b"BLPOP", b"order:100002", b"0"]).unwrap();
        waiting[3].send(&[b"XREAD", b"BLOCK", b"0", b"STREAMS", b"user:100003", b"$"]).unwrap();
        thread::sleep(Duration::from_millis(300));
        let since = Instant::now();
        stage.fold(LAYOUT, &[]).assert(0, &[]);
        stage.fold(OTHER, &[]).assert(0, &[]);
        assert!(since.elapsed() < MENDED_WITHIN, "{what}: {:?}", since.elapsed());
        let mut wire = Wire::connect(keyfold.address()).unwrap();
        for (key, value) in keys() {
            assert_eq!(get(&mut wire, &key), Ok(Some(value)), "{what}: {key}");
        }
        // They wait still, and are answered.
        let mut direct = stage.connect();
        assert_eq!(direct.call(&[b"RPUSH", b"user:100002", b"x"]).unwrap(), b":1\r\n", "{what}");
        assert_eq!(waiting[1].reply().unwrap(), b"*2\r\n$11\r\nuser:100002\r\n$1\r\nx\r\n", "{what}");
    });
}

/// Tools and keyfolds lose their keys at any moment of a fold; whoever is asked is right, and the next fold ends it.
#[test]
fn nothing_is_lost_where_keys_are_taken_away_during_a_fold() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        let keyfolds = [stage.keyfold(), stage.keyfold(), stage.keyfold()];
        let mut clients = clients(&keyfolds);
        let all =
            ["keyfold:{home}:layout", "keyfold:{home}:layout:copy", "keyfold:{home}:change", "keyfold:{home}:answers"];
        for (round, lost) in [&all[..], &all[2..], &all[..2], &all[2..3]].into_iter().enumerate() {
            let (file, other) = if round % 2 == 0 { (OTHER, LAYOUT) } else { (LAYOUT, OTHER) };
            let path = stage.file("fold.toml", file);
            let url = stage.server.url();
            let args = ["fold", &url, "--yes", "--max-ops", "4000", "--layout", path.to_str().unwrap()];
            let mut fold = stage.command(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
            let until = Instant::now() + Duration::from_millis(900);
            while Instant::now() < until {
                thread::sleep(Duration::from_millis(23));
                stage.lose(lost);
                read_until(what, &mut clients, || true);
            }
            fold.wait().unwrap();
            read_until(what, &mut clients, || is_whole(&stage));
            let mut ran = stage.fold(file, &[]);
            for _ in 0..10 {
                if ran.code == Some(0) {
                    break;
                }
                // A keyfold settles what it put back at the same time.
                thread::sleep(Duration::from_millis(500));
                ran = stage.fold(file, &[]);
            }
            ran.assert(0, &[]);
            read_until(&format!("{what}: after {lost:?}, before {other}"), &mut clients, || is_settled(&stage));
        }
    });
}

fn is_whole(stage: &Stage) -> bool {
    stage.get("keyfold:{home}:layout") == stage.get("keyfold:{home}:layout:copy") && text(stage).contains("version = 2")
}
