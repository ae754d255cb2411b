//! Every server on this machine starts, says who it is, and speaks both protocols.

use keyfold_testkit::servers::{Binary, Flavor, found};
use keyfold_testkit::{Server, Value, Wire};

fn every_server(test: impl Fn(&Binary)) {
    let binaries = found();
    assert!(!binaries.is_empty(), "no redis-server or valkey-server; run scripts/ensure-server");
    for binary in &binaries {
        eprintln!("{} at {}", binary.name(), binary.path().display());
        test(binary);
    }
}

#[test]
fn answers_ping_over_tcp_and_the_unix_socket() {
    every_server(|binary| {
        let server = binary.start(&[]).unwrap();
        assert_eq!(server.connect().unwrap().call(&[b"PING"]).unwrap(), b"+PONG\r\n");
        let mut wire = Wire::connect_unix(server.unix_socket()).unwrap();
        assert_eq!(wire.call(&[b"PING"]).unwrap(), b"+PONG\r\n");
    });
}

#[test]
fn info_names_the_version() {
    every_server(|binary| {
        let server = binary.start(&[]).unwrap();
        let info = server.connect().unwrap().ask(&[b"INFO", b"server"]).unwrap();
        let info = String::from_utf8_lossy(info.bytes().unwrap()).into_owned();
        let field = match server.flavor() {
            Flavor::Redis => "redis_version",
            Flavor::Valkey => "valkey_version",
        };
        let line = format!("{field}:{}\r\n", server.version());
        assert!(info.contains(&line), "{}: no {line:?} in {info}", server.name());
        assert!(info.contains(&format!("tcp_port:{}\r\n", server.port())));
    });
}

#[test]
fn replies_come_byte_for_byte() {
    every_server(|binary| {
        let server = binary.start(&[]).unwrap();
        let mut wire = server.connect().unwrap();
        wire.send(&[b"HSET", b"h", b"f", b"\r\n\0"]).unwrap();
        wire.send(&[b"HGETALL", b"h"]).unwrap();
        wire.send(&[b"GET", b"none"]).unwrap();
        assert_eq!(wire.reply().unwrap(), b":1\r\n");
        assert_eq!(wire.reply().unwrap(), b"*2\r\n$1\r\nf\r\n$3\r\n\r\n\0\r\n");
        assert_eq!(wire.reply().unwrap(), b"$-1\r\n");

        let hello = wire.ask(&[b"HELLO", b"3"]).unwrap();
        assert!(matches!(hello, Value::Map(_)), "{hello:?}");
        assert_eq!(wire.call(&[b"HGETALL", b"h"]).unwrap(), b"%1\r\n$1\r\nf\r\n$3\r\n\r\n\0\r\n");
        assert_eq!(wire.call(&[b"GET", b"none"]).unwrap(), b"_\r\n");

        assert_eq!(wire.call(&[b"QUIT"]).unwrap(), b"+OK\r\n");
        assert!(wire.is_closed().unwrap());
    });
}

#[test]
fn extra_arguments_win() {
    every_server(|binary| {
        let server = binary.start(&["--hash-max-listpack-entries", "7"]).unwrap();
        let mut wire = server.connect().unwrap();
        let setting = wire.call(&[b"CONFIG", b"GET", b"hash-max-listpack-entries"]).unwrap();
        assert!(setting.ends_with(b"$1\r\n7\r\n"), "{}", setting.escape_ascii());
    });
}

#[test]
fn a_server_that_wants_a_password_starts() {
    every_server(|binary| {
        let server = binary.start(&["--requirepass", "secret"]).unwrap();
        assert_eq!(server.connect().unwrap().call(&[b"AUTH", b"secret"]).unwrap(), b"+OK\r\n");
    });
}

#[test]
fn what_keeps_a_server_from_starting_is_told() {
    every_server(|binary| {
        let error = binary.start(&["--port", "not-a-port"]).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{} ended before it answered", binary.name())), "{error}");
    });
}

#[test]
fn a_dropped_server_is_gone() {
    every_server(|binary| {
        let server = Server::start(binary, &[]).unwrap();
        let mut wire = server.connect().unwrap();
        drop(server);
        assert!(wire.is_closed().unwrap());
    });
}
