//! Nothing grows without bound, and one client doesn't harm another.

use std::time::Duration;

use keyfold_proxy::{StartError, start};
use keyfold_testkit::{Wire, found};

use crate::stage::{Stage, address, call, commands, config_for, connection_that_asked, eventually, stage, stage_with};

#[test]
fn a_client_over_its_answer_limit_is_closed() {
    let stage = stage_with(|config| config.limits.max_queued_answer_bytes = 1 << 20);
    let mut wire = stage.connect();
    call(&mut wire, &format!("SET value {}", "x".repeat(100_000)));
    let mut greedy = stage.connect();
    greedy.send_bytes(&commands(&["GET value"]).repeat(500)).unwrap();
    eventually("one client is left", || stage.proxy.totals().clients == 1);
    assert_eq!(call(&mut wire, "STRLEN value"), ":100000\r\n");
}

#[test]
fn a_subscriber_that_does_not_read_is_closed() {
    let stage = stage_with(|config| config.limits.max_queued_answer_bytes = 1 << 20);
    let (mut slow, mut publisher) = (stage.connect(), stage.connect());
    call(&mut slow, "SUBSCRIBE news");
    let message = vec![b'x'; 100_000];
    eventually("one client is left", || {
        assert!(publisher.call(&[b"PUBLISH", b"news", &message]).unwrap().starts_with(b":"));
        stage.proxy.totals().clients == 1
    });
}

#[test]
fn one_client_too_many_is_told_so() {
    let stage = stage_with(|config| config.limits.max_clients = 3);
    let mut wires: Vec<_> = (0..3).map(|_| stage.connect()).collect();
    wires.iter_mut().for_each(|wire| assert_eq!(call(wire, "PING"), "+PONG\r\n"));
    let mut refused = stage.connect();
    assert_eq!(refused.reply().unwrap(), b"-ERR max number of clients reached\r\n");
    assert!(refused.is_closed().unwrap());
    wires.pop();
    eventually("a seat is free", || stage.proxy.totals().clients == 2);
    assert_eq!(call(&mut stage.connect(), "PING"), "+PONG\r\n");
    assert_eq!(stage.proxy.totals().refused, 1);
}

#[test]
fn a_request_over_the_limit_is_refused_before_it_has_come() {
    let stage = stage_with(|config| config.limits.request.max_request_bytes = 1000);
    let mut wire = stage.connect();
    wire.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2000\r\n").unwrap();
    let error = String::from_utf8(wire.reply().unwrap()).unwrap();
    assert!(error.contains("more than 1000 bytes; raise --max-request-bytes"), "{error}");
    assert!(wire.is_closed().unwrap());
}

#[test]
fn an_idle_client_is_closed_where_that_is_wanted() {
    let stage = stage_with(|config| config.timeouts.idle_client = Duration::from_secs(1));
    let mut idle = stage.connect();
    call(&mut idle, "PING");
    assert!(idle.is_closed().unwrap());
}

#[test]
fn more_requests_than_may_be_under_way() {
    let stage = stage_with(|config| config.limits.max_in_flight = 4);
    let mut wire = stage.connect();
    wire.send_bytes(&commands(&["INCR n"]).repeat(5000)).unwrap();
    for n in 1..=5000 {
        assert_eq!(wire.reply().unwrap(), format!(":{n}\r\n").as_bytes());
    }
}

#[test]
fn an_open_door_is_refused_unless_it_is_meant() {
    let stage = stage();
    let mut config = config_for(&stage.server);
    config.listen = vec!["0.0.0.0:0".parse().unwrap()];
    let error = start(config.clone()).unwrap_err();
    assert!(matches!(error, StartError::Open(_)));
    assert!(error.to_string().contains("--allow-open"), "{error}");
    config.allow_open = true;
    let proxy = start(config).unwrap();
    let port = address(&proxy).port();
    assert_eq!(call(&mut Wire::connect(("127.0.0.1", port)).unwrap(), "PING"), "+PONG\r\n");
}

#[test]
fn an_argument_that_the_server_does_not_take_closes_its_clients_connection_alone() {
    // It waits in the query buffer with the two bytes that end it.
    let settings = [("--proto-max-bulk-len", 1 << 20), ("--client-query-buffer-limit", (1 << 20) - 2)];
    for (binary, (setting, most)) in found().iter().flat_map(|binary| settings.map(|setting| (binary, setting))) {
        let server = binary.start(&[setting, "1mb"]).unwrap();
        let what = format!("{} {setting}", server.name());
        let proxy = start(config_for(&server)).unwrap();
        let stage = Stage { proxy, server };
        let (mut other, mut direct) = (stage.connect(), stage.server.connect().unwrap());
        assert_eq!(call(&mut direct, &format!("SET value {}", "y".repeat(most))), "+OK\r\n", "{what}");
        assert_eq!(call(&mut other, &format!("SET value {}", "x".repeat(most))), "+OK\r\n", "{what}");
        let mut refused = stage.server.connect().unwrap();
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n{}\r\n", most + 1, "z".repeat(most + 1));
        let answer = refused.send_bytes(set.as_bytes()).and_then(|()| refused.reply());
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.starts_with(b"-")), "{what}: the server itself");
        let length = format!(":{most}\r\n");
        assert_eq!(call(&mut other, "STRLEN value"), length);
        let shared = connection_that_asked(&mut direct, "strlen").expect("the shared connection");
        let mut greedy = stage.connect();
        greedy.send_bytes(format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n", most + 1).as_bytes()).unwrap();
        assert_eq!(greedy.reply().unwrap(), b"-ERR Protocol error: invalid bulk length\r\n", "{what}");
        assert!(greedy.is_closed().unwrap());
        assert_eq!(call(&mut other, "STRLEN value"), length);
        assert_eq!(connection_that_asked(&mut direct, "strlen"), Some(shared), "{what}");
    }
}

#[test]
fn what_is_sent_on_is_read_however_little_may_wait_for_its_answers() {
    let stage = stage_with(|config| config.limits.answer_high_water_bytes = 64 << 10);
    let mut wire = stage.connect();
    wire.send_bytes(&commands(&["INFO keyfold"]).repeat(6000)).unwrap();
    for number in 0..6000 {
        assert!(wire.reply().unwrap().starts_with(b"$"), "{number}");
    }
}

#[test]
fn who_monitors_or_is_held_back_is_not_idle() {
    let stage = stage_with(|config| config.timeouts.idle_client = Duration::from_secs(1));
    let (mut monitor, mut held) = (stage.connect(), stage.connect());
    assert_eq!(call(&mut monitor, "MONITOR"), "+OK\r\n");
    assert_eq!(call(&mut held, "CLIENT PAUSE 4000 WRITE"), "+OK\r\n");
    assert_eq!(call(&mut held, "SET held 1"), "+OK\r\n");
    let line = String::from_utf8(monitor.reply().unwrap()).unwrap();
    assert!(line.contains("\"SET\" \"held\" \"1\""), "{line}");
    assert!(held.is_closed().unwrap(), "now it is");
}
