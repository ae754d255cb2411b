//! Blocking commands, transactions and subscriptions keep to their client.

use crate::stage::{Stage, call, commands, eventually, stage};

fn blocked_clients(stage: &Stage) -> String {
    let info = call(&mut stage.server.connect().unwrap(), "INFO clients");
    info.lines().find(|line| line.starts_with("blocked_clients")).unwrap().to_owned()
}

#[test]
fn a_blocked_client_blocks_nobody_and_is_served_in_order() {
    let stage = stage();
    let (mut blocked, mut other) = (stage.connect(), stage.connect());
    blocked.send_bytes(&commands(&["SET a 1", "BLPOP list 0", "GET a"])).unwrap();
    assert_eq!(blocked.reply().unwrap(), b"+OK\r\n");
    eventually("it is blocked", || blocked_clients(&stage) == "blocked_clients:1");
    assert_eq!(call(&mut other, "SET a 2"), "+OK\r\n");
    assert_eq!(call(&mut other, "RPUSH list x"), ":1\r\n");
    assert_eq!(blocked.reply().unwrap(), b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    assert_eq!(blocked.reply().unwrap(), b"$1\r\n2\r\n");
}

#[test]
fn a_blocked_client_that_goes_is_blocked_no_more() {
    let stage = stage();
    let mut blocked = stage.connect();
    blocked.send_bytes(&commands(&["BLPOP list 0"])).unwrap();
    eventually("it is blocked", || blocked_clients(&stage) == "blocked_clients:1");
    drop(blocked);
    eventually("it is gone", || blocked_clients(&stage) == "blocked_clients:0");
    assert_eq!(call(&mut stage.connect(), "RPUSH list x"), ":1\r\n");
}

#[test]
fn connections_are_given_back() {
    let stage = stage();
    let mut wire = stage.connect();
    for n in 0..50 {
        call(&mut wire, &format!("RPUSH list {n}"));
        assert!(call(&mut wire, "BLPOP list 0").ends_with(&format!("{n}\r\n")));
    }
    let connected = call(&mut stage.server.connect().unwrap(), "CLIENT LIST").matches("name=keyfold").count();
    // For each worker one for its clock, one for the lease, and of this client's one shared and one own.
    assert!(connected <= 5, "{connected} connections");
}

#[test]
fn a_watch_holds_against_other_clients() {
    let stage = stage();
    let (mut one, mut other) = (stage.connect(), stage.connect());
    assert_eq!(call(&mut one, "WATCH a"), "+OK\r\n");
    assert_eq!(call(&mut other, "SET a 1"), "+OK\r\n");
    one.send_bytes(&commands(&["MULTI", "SET a 2", "EXEC", "GET a"])).unwrap();
    let answers: Vec<_> = (0..4).map(|_| String::from_utf8(one.reply().unwrap()).unwrap()).collect();
    assert_eq!(answers, ["+OK\r\n", "+QUEUED\r\n", "*-1\r\n", "$1\r\n1\r\n"]);
}

#[test]
fn a_watch_and_another_database() {
    let stage = stage();
    let mut wire = stage.connect();
    call(&mut wire, "SET a 0");
    assert_eq!(call(&mut wire, "WATCH a"), "+OK\r\n");
    if call(&mut wire, "SELECT 3") == "+OK\r\n" {
        assert_eq!(call(&mut wire, "GET a"), "$-1\r\n");
        assert_eq!(call(&mut wire, "SET a 3"), "+OK\r\n");
        assert_eq!(call(&mut wire, "UNWATCH"), "+OK\r\n");
        assert_eq!(call(&mut wire, "GET a"), "$1\r\n3\r\n");
    }
    let mut other = stage.connect();
    for answer in ["$1\r\n0\r\n", "$1\r\n0\r\n"] {
        assert_eq!(call(&mut other, "WATCH a"), "+OK\r\n");
        assert_eq!(call(&mut other, "GET a"), answer);
        assert_eq!(call(&mut other, "UNWATCH"), "+OK\r\n");
    }
}

#[test]
fn messages_reach_their_subscribers() {
    let stage = stage();
    let (mut old, mut new, mut publisher) = (stage.connect(), stage.connect(), stage.connect());
    call(&mut new, "HELLO 3");
    assert_eq!(call(&mut old, "SUBSCRIBE news"), "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(call(&mut new, "SUBSCRIBE news"), ">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(call(&mut publisher, "PUBLISH news hi"), ":2\r\n");
    assert_eq!(old.reply().unwrap(), b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
    assert_eq!(new.reply().unwrap(), b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
    assert_eq!(call(&mut old, "UNSUBSCRIBE news"), "*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n");
    assert_eq!(call(&mut old, "GET none"), "$-1\r\n");
}

#[test]
fn a_subscriber_is_closed_with_its_server() {
    let Stage { proxy, server } = stage();
    let stage = Stage { proxy, server };
    let mut subscriber = stage.connect();
    call(&mut subscriber, "SUBSCRIBE news");
    let Stage { proxy: _proxy, server } = stage;
    drop(server);
    assert!(subscriber.is_closed().unwrap());
}
