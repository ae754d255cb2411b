//! Answers come in the order of the requests, however the bytes come.

use std::thread;

use crate::stage::{call, commands, stage};

#[test]
fn a_hundred_clients_pipeline_at_once() {
    let stage = stage();
    thread::scope(|scope| {
        for client in 0..100 {
            let mut wire = stage.connect();
            scope.spawn(move || {
                for round in 0..10 {
                    let mut request = Vec::new();
                    for n in 0..50 {
                        request.extend(commands(&[
                            &format!("SET key:{client}:{n} value:{client}:{round}:{n}"),
                            &format!("GET key:{client}:{n}"),
                            "PING",
                        ]));
                    }
                    wire.send_bytes(&request).unwrap();
                    for n in 0..50 {
                        let value = format!("value:{client}:{round}:{n}");
                        assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
                        assert_eq!(wire.reply().unwrap(), format!("${}\r\n{value}\r\n", value.len()).as_bytes());
                        assert_eq!(wire.reply().unwrap(), b"+PONG\r\n");
                    }
                }
            });
        }
    });
}

#[test]
fn local_answers_wait_for_those_of_the_server() {
    let stage = stage();
    let mut wire = stage.connect();
    wire.send_bytes(&commands(&["SET a 1", "CLIENT ID", "GET a", "HELLO 9", "GET a"])).unwrap();
    let replies: Vec<_> = (0..5).map(|_| String::from_utf8(wire.reply().unwrap()).unwrap()).collect();
    assert_eq!(replies[0], "+OK\r\n");
    assert!(replies[1].starts_with(':'), "{}", replies[1]);
    assert_eq!(replies[2], "$1\r\n1\r\n");
    assert!(replies[3].starts_with("-NOPROTO"), "{}", replies[3]);
    assert_eq!(replies[4], "$1\r\n1\r\n");
}

#[test]
fn every_byte_by_itself() {
    let stage = stage();
    let mut wire = stage.connect();
    for byte in commands(&["SET split value", "GET split"]).into_iter().chain(*b"GET \"split\"\r\n\r\n") {
        wire.send_bytes(&[byte]).unwrap();
    }
    assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
    assert_eq!(wire.reply().unwrap(), b"$5\r\nvalue\r\n");
    assert_eq!(wire.reply().unwrap(), b"$5\r\nvalue\r\n");
}

#[test]
fn values_larger_than_any_buffer_pass() {
    let stage = stage();
    let mut wire = stage.connect();
    let large = vec![b'x'; 5_000_000];
    assert_eq!(wire.call(&[b"SET", b"large", &large]).unwrap(), b"+OK\r\n");
    for _ in 0..3 {
        wire.send(&[b"GET", b"large"]).unwrap();
        wire.send(&[b"STRLEN", b"large"]).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(wire.reply().unwrap().len(), large.len() + 12);
        assert_eq!(wire.reply().unwrap(), b":5000000\r\n");
    }
}

#[test]
fn both_protocols_and_all_databases() {
    let stage = stage();
    let (mut one, mut other) = (stage.connect(), stage.connect());
    assert!(call(&mut one, "HELLO 3").starts_with('%'));
    assert_eq!(call(&mut one, "GET none"), "_\r\n");
    assert_eq!(call(&mut other, "GET none"), "$-1\r\n");
    assert_eq!(call(&mut one, "SELECT 5"), "+OK\r\n");
    assert_eq!(call(&mut one, "SET here 5"), "+OK\r\n");
    assert_eq!(call(&mut other, "GET here"), "$-1\r\n");
    assert!(call(&mut other, "SELECT 999").starts_with("-ERR"));
    other.send_bytes(&commands(&["SELECT 5", "GET here", "SELECT 0", "GET here"])).unwrap();
    assert_eq!(other.reply().unwrap(), b"+OK\r\n");
    assert_eq!(other.reply().unwrap(), b"$1\r\n5\r\n");
    assert_eq!(other.reply().unwrap(), b"+OK\r\n");
    assert_eq!(other.reply().unwrap(), b"$-1\r\n");
}

#[test]
fn what_breaks_the_protocol_is_answered_and_closed() {
    let stage = stage();
    for (request, error) in [
        (&b"*x\r\n"[..], "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"GET \"open\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
    ] {
        let mut wire = stage.connect();
        // What came before is answered first, and what comes after is never read.
        let sent = [&commands(&["SET a b"])[..], request, b"more of it", &commands(&["SET a c"])].concat();
        wire.send_bytes(&sent).unwrap();
        assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
        assert_eq!(String::from_utf8(wire.reply().unwrap()).unwrap(), error);
        assert!(wire.is_closed().unwrap());
        assert_eq!(call(&mut stage.connect(), "GET a"), "$1\r\nb\r\n");
    }
}

#[test]
fn quit_is_answered_and_closed() {
    let stage = stage();
    let mut wire = stage.connect();
    wire.send_bytes(&commands(&["SET a b", "QUIT", "SET a c"])).unwrap();
    assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
    assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
    assert!(wire.is_closed().unwrap());
}
