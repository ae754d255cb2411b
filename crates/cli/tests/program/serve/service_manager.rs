//! What systemd is told of the program, in which order, by a socket that stands for its own.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use keyfold_testkit::found;
use rustix::process::Signal;

use super::keyfold::Keyfold;

/// Until when something must have been said.
const PATIENCE: Duration = Duration::from_secs(60);

/// The next message that isn't only about workers that run and how it fares.
fn next_word(socket: &UnixDatagram) -> Vec<String> {
    loop {
        let mut bytes = [0; 4096];
        let len = socket.recv(&mut bytes).unwrap();
        let lines: Vec<String> = str::from_utf8(&bytes[..len]).unwrap().lines().map(str::to_owned).collect();
        if !lines.iter().all(|line| line == "WATCHDOG=1" || line.starts_with("STATUS=")) {
            return lines;
        }
    }
}

#[test]
fn start_reload_and_end_are_told_in_their_order() {
    let server = found().last().unwrap().start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut keyfold = Keyfold::serve_under_manager(&path, "1000000", &["--upstream", &server.url()]);
    let _client = keyfold.connect();

    let ready = next_word(&socket);
    assert_eq!((ready[0].as_str(), ready[1].as_str()), ("READY=1", "WATCHDOG=1"), "{ready:?}");
    assert!(ready[2].starts_with("STATUS="), "{ready:?}");
    keyfold.signal(Signal::HUP);
    let reloading = next_word(&socket);
    assert_eq!(reloading[0], "RELOADING=1");
    assert!(reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(next_word(&socket), ["READY=1"]);
    keyfold.log_until("there is no file to read again");
    keyfold.signal(Signal::TERM);
    let stopping = next_word(&socket);
    assert_eq!(stopping[0], "STOPPING=1");
    assert_eq!(stopping[1], "EXTEND_TIMEOUT_USEC=30000000");
    assert!(keyfold.wait().success());
}

#[test]
fn without_a_manager_or_with_one_that_is_gone_it_serves_all_the_same() {
    let server = found().last().unwrap().start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let keyfold = Keyfold::serve_under_manager(&dir.path().join("gone"), "1000000", &["--upstream", &server.url()]);
    assert_eq!(keyfold.connect().call(&[b"PING"]).unwrap(), b"+PONG\r\n");
    assert!(keyfold.end_by(Signal::TERM).success());
}
