//! A keyfold that starts before a server which is not ready yet waits for it.

use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use keyfold_testkit::{Server, found};
use rustix::process::{Pid, Signal, kill_process};

use super::keyfold::{COUNTERS, Keyfold, command, read_until, write_layout};

/// Serves `server` with a layout; `make_ready` is called once the log says why it waits.
fn serve_after(server: &Server, why: &str, make_ready: impl FnOnce()) -> Keyfold {
    let dir = tempfile::tempdir().unwrap();
    let layout = write_layout(dir.path(), COUNTERS);
    let args = ["--upstream", &server.url(), "--layout", layout.to_str().unwrap()];
    Keyfold::serve_after(&args, |log| {
        // Who does not wait is connected to the server.
        let told = read_until(log, " server");
        assert!(told.contains("waiting for the server") && told.contains(why), "{told}");
        make_ready();
    })
}

#[test]
fn a_script_that_keeps_the_server_busy_is_waited_for() {
    for binary in found() {
        let server = binary.start(&["--lua-time-limit", "20"]).unwrap();
        let mut runs = server.connect().unwrap();
        runs.send(&[b"EVAL", b"while true do end", b"0"]).unwrap();
        let mut asks = server.connect().unwrap();
        while !asks.call(&[b"PING"]).unwrap().starts_with(b"-BUSY ") {
            thread::sleep(Duration::from_millis(5));
        }
        let keyfold = serve_after(&server, "SCRIPT KILL", || {
            assert_eq!(asks.call(&[b"SCRIPT", b"KILL"]).unwrap(), b"+OK\r\n");
        });
        assert_eq!(keyfold.connect().call(&[b"SET", b"user:1", b"1"]).unwrap(), b"+OK\r\n", "{}", server.name());
    }
}

#[test]
fn a_server_that_loads_its_data_is_waited_for() {
    for binary in found() {
        let server = binary.start(binary.with_debug()).unwrap();
        let mut asks = server.connect().unwrap();
        let mut set = |name: &str, value: &str| {
            let reply = asks.call(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]).unwrap();
            assert_eq!(reply, b"+OK\r\n", "{name}");
        };
        let mut loads = server.connect().unwrap();
        let value = [b'x'; 128];
        for id in 0..1000 {
            loads.call(&[b"SET", format!("order:{id}").as_bytes(), &value]).unwrap();
        }
        // 10 ms for each key, and others are answered after some of them.
        set("key-load-delay", "10000");
        set("loading-process-events-interval-bytes", "1024");
        loads.send(&[b"DEBUG", b"RELOAD"]).unwrap();
        let mut looks = server.connect().unwrap();
        while !looks.call(&[b"GET", b"a"]).unwrap().starts_with(b"-LOADING ") {
            thread::sleep(Duration::from_millis(5));
        }
        let keyfold = serve_after(&server, "loading", || set("key-load-delay", "0"));
        let reply = keyfold.connect().call(&[b"STRLEN", b"order:1"]).unwrap();
        assert_eq!(reply, b":128\r\n", "{}", server.name());
        assert_eq!(loads.reply().unwrap(), b"+OK\r\n");
    }
}

/// Whoever renews certificates sends SIGHUP, whatever keyfold is at.
#[test]
fn a_hangup_while_the_server_is_waited_for_ends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut said = [0; 4096];
                while let Ok(len @ 1..) = stream.read(&mut said) {
                    let commands = said[..len].iter().filter(|byte| **byte == b'*').count();
                    let _ = stream.write_all(&b"-LOADING Redis is loading the dataset in memory\r\n".repeat(commands));
                }
            });
        }
    });
    let mut child = command(&["serve", "--listen", "127.0.0.1:0", "--upstream", &url])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut log, "waiting for the server");
    for _ in 0..3 {
        kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(child.try_wait().unwrap(), None, "it waits on");
    child.kill().unwrap();
    child.wait().unwrap();
}
