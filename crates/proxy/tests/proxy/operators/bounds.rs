//! Whoever asks slowly, much or wrongly.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{admin_address, ask, ask_on, read_told, with_admin};
use crate::stage::{call, stage_with};

/// How long a slow operator is borne with at most, with room for a loaded machine.
const BORNE: Duration = Duration::from_secs(30);

#[test]
fn what_is_no_question_is_answered_as_http_does() {
    let stage = stage_with(with_admin);
    let operator = admin_address(&stage.proxy);
    let method = |method: &str, path: &str, headers: &str| {
        ask_on(&mut TcpStream::connect(operator).unwrap(), method, path, headers).unwrap()
    };
    for unknown in ["/metric", "/metrics/", "//", "/status/../metrics", "/%2e%2e", "/livez%00", "/?x=/metrics"] {
        let told = method("GET", unknown, "");
        assert_eq!(told.status, if unknown.starts_with("/?") { 200 } else { 404 }, "{unknown}");
    }
    assert_eq!(method("GET", "/livez?verbose=1", "").status, 200, "a query changes nothing");
    for wrong in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "FROB"] {
        let told = method(wrong, "/metrics", "Content-Length: 0\r\n");
        assert!(told.status == 405 && told.head.contains("allow: get, head"), "{wrong}: {told:?}");
    }
    let huge = format!("X-Huge: {}\r\n", "x".repeat(64 * 1024));
    // It is closed while more is on its way, so the answer may be lost.
    let told = ask_on(&mut TcpStream::connect(operator).unwrap(), "GET", "/metrics", &huge);
    assert!(told.as_ref().map_or(true, |told| told.status == 431), "{told:?}");
    let many: String = (0..500).map(|number| format!("X-{number}: x\r\n")).collect();
    assert_eq!(method("GET", "/metrics", &many).status, 431);
    // What follows a question that has a body is never taken for another question.
    let mut smuggling = TcpStream::connect(operator).unwrap();
    smuggling
        .write_all(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 40\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n........")
        .unwrap();
    let told = read_told(&mut smuggling).unwrap();
    assert!(told.status == 405 && !told.body.contains("200 OK"), "{told:?}");
    for garbage in [&b"\0\xff\xfe\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"] {
        let mut stream = TcpStream::connect(operator).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut told = Vec::new();
        // It may be closed without a word.
        let _ = stream.read_to_end(&mut told);
        assert!(
            told.is_empty() || told.starts_with(b"HTTP/1.1 400") || told.starts_with(b"HTTP/1.1 505"),
            "{}",
            told.escape_ascii()
        );
    }
    assert_eq!(ask(&stage.proxy, "/livez").status, 200);
}

#[test]
fn a_head_that_never_ends_is_given_up() {
    let stage = stage_with(with_admin);
    let mut slow = TcpStream::connect(admin_address(&stage.proxy)).unwrap();
    slow.set_read_timeout(Some(BORNE)).unwrap();
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").unwrap();
    let begun = Instant::now();
    let mut told = Vec::new();
    slow.read_to_end(&mut told).unwrap();
    assert!(begun.elapsed() < BORNE && !told.starts_with(b"HTTP/1.1 200"), "{}", told.escape_ascii());
}

#[test]
fn operators_that_take_nothing_hold_up_nobody() {
    let stage = stage_with(with_admin);
    let operator = admin_address(&stage.proxy);
    let frozen: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(operator).unwrap();
            let asks: &[u8] = match number % 3 {
                0 => b"",
                1 => b"GET /metrics HTTP/1.1\r\n",
                // Some thousand answers, of which none is taken.
                _ => b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
            };
            let _ = stream.write_all(&asks.repeat(if number % 3 == 2 { 500 } else { 1 }));
            stream
        })
        .collect();
    let mut client = stage.connect();
    for round in 0..100 {
        assert_eq!(call(&mut client, &format!("SET key{round} v")), "+OK\r\n");
    }
    for _ in 0..10 {
        assert_eq!(ask(&stage.proxy, "/livez").status, 200);
        assert!(ask(&stage.proxy, "/metrics").body.ends_with("# EOF\n"));
    }
    drop(frozen);
}

#[test]
fn ten_thousand_questions_take_no_ones_time() {
    let stage = stage_with(with_admin);
    let mut client = stage.connect();
    call(&mut client, "SET key v");
    let mut stream = TcpStream::connect(admin_address(&stage.proxy)).unwrap();
    let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
    let questions = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let mut slowest = Duration::ZERO;
    for _ in 0..100 {
        stream.write_all(&questions).unwrap();
        for _ in 0..100 {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                std::io::BufRead::read_line(&mut reader, &mut head).unwrap();
            }
            let len =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; len.unwrap()];
            reader.read_exact(&mut body).unwrap();
            assert!(head.starts_with("HTTP/1.1 200") && body.ends_with(b"# EOF\n"));
        }
        let begun = Instant::now();
        assert_eq!(call(&mut client, "GET key"), "$1\r\nv\r\n");
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "a client waited for {slowest:?}");
}
