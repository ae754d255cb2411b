//! The operators' address, as flags name it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use keyfold_testkit::found;
use rustix::process::Signal;

use super::keyfold::{Keyfold, run};

/// The head and the body of what is answered.
fn ask(address: SocketAddr, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

#[test]
fn a_port_alone_is_of_this_machine_and_a_token_is_read_again() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "the first token of some\n").unwrap();
    let url = server.url();
    let mut keyfold =
        Keyfold::serve(&["--upstream", &url, "--admin", "0", "--admin-token-file", file.to_str().unwrap()]);
    let operator: SocketAddr = keyfold.said("admin on ").parse().unwrap();
    assert!(operator.ip().is_loopback());
    assert!(ask(operator, "/livez", "").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(ask(operator, "/metrics", "").starts_with("HTTP/1.1 401 "));
    let shown = "Authorization: Bearer the first token of some\r\n";
    assert!(ask(operator, "/metrics", shown).contains("\nkeyfold_build_info{version=\""));
    std::fs::write(&file, "short\n").unwrap();
    keyfold.signal(Signal::HUP);
    keyfold.log_until("the operators' token is as it was");
    assert!(ask(operator, "/metrics", shown).starts_with("HTTP/1.1 200 "));
    std::fs::write(&file, "the second token of some\n").unwrap();
    keyfold.signal(Signal::HUP);
    keyfold.log_until("read the operators' token again");
    assert!(ask(operator, "/metrics", shown).starts_with("HTTP/1.1 401 "));
    assert!(keyfold.end_by(Signal::TERM).success());
}

#[test]
fn what_lets_anybody_in_or_makes_no_sense_is_refused() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let url = server.url();
    let dir = tempfile::tempdir().unwrap();
    let short = dir.path().join("short");
    std::fs::write(&short, "x\n").unwrap();
    let (short, taken) = (short.to_str().unwrap(), server.port().to_string());
    for (args, code, why) in [
        (&["--admin", "0.0.0.0:0"][..], 1, "--admin-token-file"),
        (&["--admin", "0", "--admin-token-file", short], 1, "fewer than 16 bytes"),
        (&["--admin", "0", "--admin-token-file", "/nowhere/token"], 1, "can't read the operators' token"),
        (&["--admin", &taken], 1, "choose another with --admin"),
        (&["--admin", "tls://127.0.0.1:0"], 1, "--tls-cert"),
        (&["--admin", "here"], 2, "can't listen on \"here\""),
        (&["--admin-token-file", short], 2, "--admin <ADDRESS>"),
        (&["--admin", "0", "--admin-client-ca", short], 2, "--tls-cert"),
    ] {
        let all = [&["serve", "--upstream", &url, "--listen", "127.0.0.1:0"], args].concat();
        let (ended, _, err) = run(&all);
        assert!(ended == Some(code) && err.contains(why), "{args:?}: {ended:?} {err}");
    }
}

#[test]
fn a_probe_tells_ready_from_alive_and_from_gone() {
    let mut server = found().pop().unwrap().start(&[]).unwrap();
    let url = server.url();
    let mut keyfold = Keyfold::serve(&["--upstream", &url, "--admin", "0"]);
    let operators = format!("http://{}", keyfold.said("admin on "));
    let code = |args: &[&str]| run(&[&["probe", &operators][..], args].concat()).0;
    let becomes = |wanted: i32| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while code(&[]) != Some(wanted) {
            assert!(Instant::now() < deadline, "its probe has not become {wanted} for half a minute");
        }
    };
    // It says where operators ask before it has looked whether the layout may be served.
    becomes(0);
    assert_eq!(code(&["--live"]), Some(0));
    server.kill();
    becomes(1);
    assert_eq!((code(&[]), code(&["--live"])), (Some(1), Some(0)));
    keyfold.end_by(Signal::TERM);
    assert_eq!(code(&["--live"]), Some(1));
}
