//! Several proxies serve while keys move; one comes, one dies, one hangs. Every answer is checked.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use keyfold_testkit::load::{Client, Counters, Held, Load, Report};
use keyfold_testkit::{Subject, Wire};

use super::stage::{LAYOUT, OTHER_LAYOUT, Stage, finish, on_every_server};

const CLIENTS: u64 = 4;
const KEYS: u64 = 100;

/// Longer than a change waits for who is silent.
const LONG: Duration = Duration::from_millis(6500);

fn clients() -> Vec<Client> {
    let counters = Counters::new((0..4).map(|id| format!("user:{}", 900_000 + id).into_bytes()));
    let keys = |client: u64| {
        (0..KEYS).flat_map(move |id| {
            let held = || Some(Held { value: id.to_string().into_bytes().into(), expires_at_ms: None });
            let number = client * KEYS + id;
            [(format!("user:{number}").into_bytes(), held()), (format!("page:{number}").into_bytes(), held())]
        })
    };
    (0..CLIENTS).map(|client| Client::new(client, keys(client), &counters)).collect()
}

/// The keys that the clients count on, and more that are only moved.
fn fill(stage: &Stage) {
    let mut wire = stage.connect();
    let mut sent = 0;
    for number in 0..20_000 {
        let value = (number % KEYS).to_string();
        for key in [format!("user:{number}"), format!("page:{number}")] {
            wire.send(&[b"SET", key.as_bytes(), value.as_bytes()]).unwrap();
            sent += 1;
        }
    }
    (0..sent).for_each(|_| assert_eq!(wire.reply().unwrap(), b"+OK\r\n"));
}

/// Ends the load, reads all of it once more, and says what it met.
pub(super) fn check(load: Load, address: SocketAddr) -> Report {
    let mut report = Report::default();
    let mut wire = Wire::connect(address).unwrap();
    for mut client in load.stop() {
        client.check(&mut wire);
        report.extend(client.take_report());
    }
    report
}

#[track_caller]
fn assert_right(report: &Report, what: &str) {
    assert!(report.wrong.is_empty(), "{what}: {}", report.wrong.join("\n"));
    assert!(report.answers > 1000, "{what}: {report:?}");
}

/// Four buckets for twenty thousand pages, which fold would refuse: hashtables are moved like any bucket.
const FULL_BUCKETS: [&str; 2] = ["--assume", "hash-max-listpack-entries=1000000"];

#[test]
fn no_answer_is_wrong_and_none_an_error_while_keys_move() {
    on_every_server(&[], |stage| {
        let what = stage.server.name();
        fill(stage);
        let proxies = [Subject::beside(&stage.server).unwrap(), Subject::beside(&stage.server).unwrap()];
        let addresses = proxies.each_ref().map(Subject::address);
        let load = Load::start(clients(), &addresses, None);
        for layout in [LAYOUT, OTHER_LAYOUT] {
            stage.fold(layout, &FULL_BUCKETS).assert_code(0);
        }
        stage.unfold(&[]).assert_code(0);
        let report = check(load, addresses[0]);
        assert_right(&report, &what);
        assert!(report.errors.is_empty() && report.lost == 0, "{what}: {:?}, {} lost", report.errors, report.lost);
        stage.run(&["verify", &stage.server.url(), "--skip-encodings"]).assert_code(0);
    });
}

#[test]
fn one_starts_one_is_killed_and_one_hangs_while_keys_move() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&stage);
    let mut proxies: Vec<Subject> = (0..3).map(|_| Subject::beside(&stage.server).unwrap()).collect();
    let addresses: Vec<SocketAddr> = proxies.iter().map(Subject::address).collect();
    let load = Load::start(clients(), &addresses, None);
    let folding = stage.begin_fold(LAYOUT, &[&FULL_BUCKETS[..], &["--max-ops", "60000"]].concat());
    thread::sleep(Duration::from_millis(300));
    let late = Subject::beside(&stage.server).unwrap();
    proxies[1].kill();
    proxies[2].hang().unwrap();
    thread::sleep(LONG);
    proxies[2].wake().unwrap();
    finish(folding).assert_code(0);
    // It sleeps from before a change of the layout until after it.
    proxies[2].hang().unwrap();
    stage.unfold(&[]).assert_code(0);
    proxies[2].wake().unwrap();
    thread::sleep(Duration::from_millis(300));
    let report = check(load, late.address());
    assert_right(&report, "killed and hung");
    stage.run(&["verify", &stage.server.url(), "--skip-encodings"]).assert_code(0);
    let mut woken = Wire::connect(proxies[2].address()).unwrap();
    assert_eq!(woken.call(&[b"GET", b"user:19999"]).unwrap(), b"$2\r\n99\r\n", "it serves again: {}", proxies[2].log());
}
