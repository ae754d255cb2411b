//! A keyfold follows another at the same address, as processes do it.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use keyfold_testkit::{Wire, found};
use rustix::process::{Pid, Signal, kill_process};

use super::keyfold::{Keyfold, command, run};

/// A keyfold that is started as systemd starts one that has a `.socket` unit: with a listening socket at its first descriptor
/// behind the standard ones.
fn activated(listener: &TcpListener, args: &[&str]) -> Child {
    let script = "export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" serve \"$@\" 3<&0 </dev/null";
    let socket = OwnedFd::from(listener.try_clone().unwrap());
    let keyfold = env!("CARGO_BIN_EXE_keyfold");
    let mut command = Command::new("sh");
    command.args(["-c", script, keyfold]).args(args).stdin(socket).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn nobody_is_refused_between_two_keyfolds_of_a_socket_that_systemd_has() {
    let server = found().last().unwrap().start(&[]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let args = ["--upstream", &server.url(), "--listen", &at.to_string()];
    let mut keyfold = activated(&listener, &args);
    for turn in 1..=5 {
        let mut wire = Wire::connect(at).unwrap();
        assert_eq!(wire.call(&[b"INCR", b"turn"]).unwrap(), format!(":{turn}\r\n").as_bytes());
        kill_process(Pid::from_child(&keyfold), Signal::TERM).unwrap();
        assert!(keyfold.wait().unwrap().success());
        assert!(wire.is_closed().unwrap());
        // Nobody runs, and nobody is refused: who comes now is served by the next.
        let mut early = Wire::connect(at).unwrap();
        early.send(&[b"GET", b"turn"]).unwrap();
        keyfold = activated(&listener, &args);
        assert_eq!(early.reply().unwrap(), format!("$1\r\n{turn}\r\n").as_bytes());
    }
    kill_process(Pid::from_child(&keyfold), Signal::TERM).unwrap();
    assert!(keyfold.wait().unwrap().success());

    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let args = ["--upstream", &server.url(), "--listen", "127.0.0.1:0"];
    let refused = activated(&elsewhere, &args).wait_with_output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("ListenStream= of keyfold.socket"), "{said}");
}

#[test]
fn a_process_takes_over_from_another_but_not_from_one_that_is_stopped() {
    let server = found().last().unwrap().start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let takeover = dir.path().join("takeover.sock");
    let url = server.url();
    let args = ["--upstream", &url, "--takeover", takeover.to_str().unwrap()];
    let mut keyfold = Keyfold::serve(&args);
    let at: SocketAddr = keyfold.url().strip_prefix("redis://").unwrap().parse().unwrap();
    let listen = at.to_string();
    let again = [&args[..], &["--listen", &listen]].concat();
    for _ in 0..3 {
        let mut wire = Wire::connect(at).unwrap();
        assert_eq!(wire.call(&[b"PING"]).unwrap(), b"+PONG\r\n");
        let next = Keyfold::serve(&again);
        assert!(keyfold.log_until("has taken over").contains("asks for the listening sockets"));
        assert!(keyfold.wait().success());
        assert!(wire.is_closed().unwrap());
        keyfold = next;
    }
    keyfold.signal(Signal::STOP);
    let (code, _, said) = run(&[&["serve"], &again[..]].concat());
    assert!(code == Some(1) && said.contains("doesn't answer within 5 s"), "{said}");
    keyfold.signal(Signal::CONT);
    // It has heard of the one that gave up, and goes on.
    keyfold.log_until("no keyfold took over, this one goes on");
    assert_eq!(Wire::connect(at).unwrap().call(&[b"PING"]).unwrap(), b"+PONG\r\n");
}

#[test]
fn a_server_of_keyfolds_own_is_not_taken_over() {
    let output = command(&["serve", "--takeover", "/nowhere/takeover.sock"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("--takeover is for a server that is named"), "{said}");
}
