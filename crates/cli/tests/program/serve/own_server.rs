//! Without `--upstream`: a server that lives as long as keyfold does, however keyfold ends.

use std::time::{Duration, Instant};

use keyfold_testkit::Wire;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use super::keyfold::{COUNTERS, Keyfold, run, write_layout};

/// For what ends by itself; generous, for loaded machines.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// The process of the server behind.
fn server_pid(wire: &mut Wire) -> Pid {
    let info = wire.ask(&[b"INFO", b"server"]).unwrap();
    let info = String::from_utf8_lossy(info.bytes().unwrap()).into_owned();
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
    Pid::from_raw(pid.parse().unwrap()).unwrap()
}

fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid).is_ok()
}

#[test]
fn sigterm_stops_keyfold_and_its_server() {
    let dir = TempDir::new().unwrap();
    let layout = write_layout(dir.path(), COUNTERS);
    let keyfold = Keyfold::serve(&["--layout", layout.to_str().unwrap()]);
    let mut wire = keyfold.connect();
    assert_eq!(wire.call(&[b"SET", b"user:1000", b"41"]).unwrap(), b"+OK\r\n");
    assert_eq!(wire.call(&[b"INCR", b"user:1000"]).unwrap(), b":42\r\n");
    assert_eq!(wire.call(&[b"GET", b"user:1000"]).unwrap(), b"$2\r\n42\r\n");
    let server = server_pid(&mut wire);
    assert!(is_alive(server));
    let status = keyfold.end_by(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    assert!(!is_alive(server));
    assert!(wire.is_closed().unwrap());
}

#[test]
fn sigkill_leaves_no_server_behind() {
    let keyfold = Keyfold::serve(&[]);
    let server = server_pid(&mut keyfold.connect());
    keyfold.end_by(Signal::KILL);
    let deadline = Instant::now() + ENDS_WITHIN;
    while is_alive(server) {
        assert!(Instant::now() < deadline, "the server outlives keyfold");
        std::thread::yield_now();
    }
}

#[test]
fn where_files_are_few_clients_are_fewer_and_all_of_them_are_served() {
    let mut keyfold = Keyfold::serve_with_files(200, &["--max-clients", "1000"]);
    keyfold.log_until("raise its limit");
    let mut clients: Vec<Wire> = (0..300).map(|_| keyfold.connect()).collect();
    let mut served = 0;
    for client in &mut clients {
        // Who is refused hears so before it has said anything.
        let _ = client.send_bytes(b"*1\r\n$4\r\nPING\r\n");
        match client.reply().unwrap().as_slice() {
            b"+PONG\r\n" => served += 1,
            other => assert_eq!(other, b"-ERR max number of clients reached\r\n"),
        }
    }
    assert_eq!(served, (200 - 128) / 2);
    for client in &mut clients[..served] {
        let subscribed = client.call(&[b"SUBSCRIBE", b"news"]).unwrap();
        assert!(subscribed.starts_with(b"*3\r\n"), "it takes a connection of its own: {}", subscribed.escape_ascii());
    }
}

#[test]
fn keyfold_ends_with_its_server() {
    let mut keyfold = Keyfold::serve(&[]);
    kill_process(server_pid(&mut keyfold.connect()), Signal::KILL).unwrap();
    assert_eq!(keyfold.wait().code(), Some(1));
}

#[test]
fn data_lasts_and_belongs_to_one_keyfold() {
    let dir = TempDir::new().unwrap();
    let layout = write_layout(dir.path(), COUNTERS);
    let data = dir.path().join("data");
    let args = ["--layout", layout.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let keyfold = Keyfold::serve(&args);
    let mut wire = keyfold.connect();
    assert_eq!(wire.call(&[b"SET", b"user:7", b"seven"]).unwrap(), b"+OK\r\n");
    let (code, _, stderr) = run(&["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("another keyfold uses this directory"), "{stderr}");
    keyfold.end_by(Signal::TERM);

    // The layout is in the data, too.
    let keyfold = Keyfold::serve(&args[2..]);
    assert_eq!(keyfold.connect().call(&[b"GET", b"user:7"]).unwrap(), b"$5\r\nseven\r\n");
    assert_eq!(keyfold.end_by(Signal::INT).code(), Some(0));
}

/// The server goes into the directory before it opens its log there.
#[test]
fn data_may_be_named_from_where_one_stands() {
    let dir = TempDir::new().unwrap();
    for data in ["./data", "data", "deep/er/../data"] {
        let keyfold = Keyfold::serve_in(dir.path(), &["--data", data]);
        assert_eq!(keyfold.connect().call(&[b"SET", b"kept", data.as_bytes()]).unwrap(), b"+OK\r\n");
        assert_eq!(keyfold.end_by(Signal::TERM).code(), Some(0));
        assert!(dir.path().join(data).join("server.log").is_file(), "{data}");
        let keyfold = Keyfold::serve_in(dir.path(), &["--data", data]);
        let kept = format!("${}\r\n{data}\r\n", data.len());
        assert_eq!(keyfold.connect().call(&[b"GET", b"kept"]).unwrap(), kept.as_bytes());
        keyfold.end_by(Signal::TERM);
    }
}
