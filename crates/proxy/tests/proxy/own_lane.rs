//! Blocking commands, transactions and subscriptions keep to their client.

use keyfold_core::layout::Layout;
use keyfold_testkit::{Wire, found};

use crate::frozen::signal;
use crate::stage::{Stage, address, call, commands, config_for, eventually, serve, stage, stage_with, start_server};

/// How many connections the server has taken so far.
fn connections_taken(direct: &mut Wire) -> u64 {
    let info = call(direct, "INFO stats");
    info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap().parse().unwrap()
}

fn blocked_clients(direct: &mut Wire) -> String {
    let info = call(direct, "INFO clients");
    info.lines().find(|line| line.starts_with("blocked_clients")).unwrap().to_owned()
}

#[test]
fn a_blocked_client_blocks_nobody_and_is_served_in_order() {
    let stage = stage();
    let mut direct = stage.server.connect().unwrap();
    let (mut blocked, mut other) = (stage.connect(), stage.connect());
    blocked.send_bytes(&commands(&["SET a 1", "BLPOP list 0", "GET a"])).unwrap();
    assert_eq!(blocked.reply().unwrap(), b"+OK\r\n");
    eventually("it is blocked", || blocked_clients(&mut direct) == "blocked_clients:1");
    assert_eq!(call(&mut other, "SET a 2"), "+OK\r\n");
    assert_eq!(call(&mut other, "RPUSH list x"), ":1\r\n");
    assert_eq!(blocked.reply().unwrap(), b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    assert_eq!(blocked.reply().unwrap(), b"$1\r\n2\r\n");
}

#[test]
fn a_blocked_client_that_goes_is_blocked_no_more() {
    let stage = stage();
    let mut direct = stage.server.connect().unwrap();
    let mut blocked = stage.connect();
    blocked.send_bytes(&commands(&["BLPOP list 0"])).unwrap();
    eventually("it is blocked", || blocked_clients(&mut direct) == "blocked_clients:1");
    drop(blocked);
    eventually("it is gone", || blocked_clients(&mut direct) == "blocked_clients:0");
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
    // For each worker one for its clock, one for the layout, and of this client's one shared and one own.
    assert!(connected <= 5, "{connected} connections");
}

#[test]
fn a_client_opens_one_connection_of_its_own_at_most() {
    const CLIENTS: u64 = 60;
    // The proxy's own errands may come to connect meanwhile.
    const OTHERS: u64 = 8;
    for command in ["SUBSCRIBE news", "WATCH a", "BLPOP list 0"] {
        let stage = stage();
        let mut direct = stage.server.connect().unwrap();
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| stage.connect()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(call(client, "GET a"), "$-1\r\n"));
        let before = connections_taken(&mut direct);
        for client in &mut clients {
            client.send_bytes(&commands(&[command])).unwrap();
        }
        if command.starts_with("BLPOP") {
            let all = format!("blocked_clients:{CLIENTS}");
            eventually("all are blocked", || blocked_clients(&mut direct) == all);
        } else {
            clients.iter_mut().for_each(|client| assert!(!client.reply().unwrap().starts_with(b"-")));
        }
        let opened = connections_taken(&mut direct) - before;
        assert!(opened <= CLIENTS + OTHERS, "{command}: {opened} connections");
    }
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

/// What was watched is watched where it was, whatever database the transaction is for.
#[test]
fn a_watch_holds_from_another_database() {
    let users = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n";
    let stage = stage_with(|config| config.layout = Layout::parse_file(users).unwrap().into());
    let (mut one, mut other) = (stage.connect(), stage.connect());
    for (key, is_written) in [("user:1", true), ("plain", true), ("user:2", false)] {
        assert_eq!(call(&mut one, "SELECT 0"), "+OK\r\n");
        assert_eq!(call(&mut one, &format!("WATCH {key}")), "+OK\r\n");
        assert_eq!(call(&mut one, "SELECT 1"), "+OK\r\n");
        if is_written {
            assert_eq!(call(&mut other, &format!("APPEND {key} x")), ":1\r\n");
        }
        assert_eq!(call(&mut one, "MULTI"), "+OK\r\n");
        assert_eq!(call(&mut one, "SET user:3 x"), "+QUEUED\r\n");
        let answer = if is_written { "*-1\r\n" } else { "*1\r\n+OK\r\n" };
        assert_eq!(call(&mut one, "EXEC"), answer, "{key}");
    }
}

#[test]
fn another_protocol_and_a_reset_need_another_connection() {
    let stage = stage();
    let mut wire = stage.connect();
    // Sent at once, so that there is no moment between two of them.
    let requests = ["WATCH a", "UNWATCH", "HELLO 3", "WATCH a", "MULTI", "GET a", "EXEC"];
    wire.send_bytes(&commands(&requests)).unwrap();
    let answers = requests.map(|_| String::from_utf8(wire.reply().unwrap()).unwrap());
    assert_eq!(answers[3..], ["+OK\r\n", "+OK\r\n", "+QUEUED\r\n", "*1\r\n_\r\n"]);
    let requests = ["SELECT 1", "WATCH a", "RESET", "SELECT 1", "SET a 1", "WATCH a", "MULTI", "GET a", "EXEC"];
    wire.send_bytes(&commands(&requests)).unwrap();
    let answers = requests.map(|_| String::from_utf8(wire.reply().unwrap()).unwrap());
    assert_eq!(answers[2], "+RESET\r\n");
    assert_eq!(answers[8], "*1\r\n$1\r\n1\r\n");
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

#[test]
fn wait_counts_the_replicas_that_have_the_clients_own_writes() {
    for binary in found() {
        let server = binary.start(&["--repl-diskless-sync-delay", "0"]).unwrap();
        let port = server.port().to_string();
        let replica = binary.start(&["--replicaof", "127.0.0.1", &port]).unwrap();
        let mut config = config_for(&server);
        let users = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n";
        config.layout = Layout::parse_file(users).unwrap().into();
        let stage = Stage { proxy: serve(&server, config), server };
        let mut direct = stage.server.connect().unwrap();
        eventually("the replica follows", || call(&mut direct, "INFO replication").contains("state=online"));

        let mut wire = stage.connect();
        assert_eq!(call(&mut wire, "SET user:1 value"), "+OK\r\n");
        assert_eq!(call(&mut wire, "WAIT 1 20000"), ":1\r\n", "{}", stage.server.name());
        // A replica that stands still has none of what is written from now on.
        signal(&replica, "-STOP");
        for key in ["user:1", "plain"] {
            assert_eq!(call(&mut wire, &format!("SET {key} other")), "+OK\r\n");
            assert_eq!(call(&mut wire, "WAIT 1 50"), ":0\r\n", "{} {key}", stage.server.name());
        }
        signal(&replica, "-CONT");
        assert_eq!(call(&mut wire, "WAIT 1 20000"), ":1\r\n", "{}", stage.server.name());
        assert_eq!(call(&mut direct, "EXISTS keyfold:wait"), ":0\r\n");
        assert!(call(&mut wire, "WAIT 1 x").starts_with("-ERR"));
    }
}

#[test]
fn what_a_blocked_client_has_sent_on_goes_with_it() {
    let stage = stage();
    let mut direct = stage.server.connect().unwrap();
    for behind in [&["SET a 2"][..], &["BLPOP other 0", "SET a 2"], &["QUIT"]] {
        call(&mut direct, "SET a 1");
        let mut blocked = stage.connect();
        blocked.send_bytes(&commands(&[&["BLPOP list 0"], behind].concat())).unwrap();
        eventually("it is blocked", || blocked_clients(&mut direct) == "blocked_clients:1");
        drop(blocked);
        eventually("it is gone", || blocked_clients(&mut direct) == "blocked_clients:0");
        assert_eq!(call(&mut stage.connect(), "RPUSH list x"), ":1\r\n", "{behind:?}");
        assert_eq!(call(&mut direct, "GET a"), "$1\r\n1\r\n", "{behind:?}");
        call(&mut direct, "DEL list");
    }
    eventually("nobody is left", || stage.proxy.totals().clients == 0);
}

#[test]
fn who_says_quit_behind_a_command_that_blocks_is_answered_both() {
    let stage = stage();
    for address in [address(&stage.proxy), stage.server.address()] {
        let mut wire = Wire::connect(address).unwrap();
        wire.send_bytes(&commands(&["BLPOP list 1", "QUIT", "SET a 1"])).unwrap();
        assert_eq!(wire.reply().unwrap(), b"*-1\r\n");
        assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
        assert!(wire.is_closed().unwrap());
    }
    assert_eq!(call(&mut stage.connect(), "EXISTS a"), ":0\r\n");
}

/// It would go on in the database before, and so would whoever gets the connection next.
#[test]
fn a_connection_that_may_not_change_its_database_is_given_up() {
    let server = start_server(&["--lua-time-limit", "50"]);
    let proxy = serve(&server, config_for(&server));
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    assert_eq!(call(&mut wire, "WATCH a"), "+OK\r\n");
    assert_eq!(call(&mut wire, "SELECT 1"), "+OK\r\n");
    let (mut busy, mut direct) = (server.connect().unwrap(), server.connect().unwrap());
    busy.send(&[b"EVAL", b"while true do end", b"0"]).unwrap();
    eventually("the server is busy", || call(&mut direct, "PING").starts_with("-BUSY"));
    // Servers watch all the same.
    wire.send_bytes(&commands(&["WATCH b"])).unwrap();
    let answer = wire.reply().unwrap_or_default();
    assert_eq!(call(&mut direct, "SCRIPT KILL"), "+OK\r\n");
    eventually("it is busy no more", || call(&mut direct, "PING") == "+PONG\r\n");
    if answer == b"+OK\r\n" {
        // Some change the database meanwhile, too.
        assert!(["MULTI", "SET x 1", "EXEC"].iter().all(|command| !call(&mut wire, command).starts_with('-')));
        assert_eq!(call(&mut wire, "EXISTS x"), ":1\r\n");
    } else {
        assert!(wire.is_closed().unwrap());
    }
    assert_eq!(call(&mut direct, "EXISTS x"), ":0\r\n");
}
