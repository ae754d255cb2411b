//! SLOWLOG and LATENCY: what clients asked and how long it took, in the server's shapes.

use std::time::{Duration, Instant};

use keyfold_core::access::Users;
use keyfold_core::layout::Layout;
use keyfold_proxy::config::Admin;
use keyfold_testkit::{Server, Wire, found_with_redis_7};

use crate::relay::Relay;
use crate::stage::{
    Stage, address, call, commands, config_behind, config_for, eventually, serve, stage_with, start_server,
};

/// Keeps a server busy for much longer than ten milliseconds.
const BUSY: &str = "for i = 1, 3e7 do end return redis.call('GET', KEYS[1])";

/// The entries' arguments, the oldest first, each on a line.
fn kept(wire: &mut Wire) -> Vec<String> {
    let entries = entries(wire);
    entries.into_iter().rev().map(|entry| entry.args.join(" ")).collect()
}

#[derive(Debug)]
struct Entry {
    id: i64,
    at: i64,
    took_us: i64,
    args: Vec<String>,
    client: String,
    name: String,
}

fn entries(wire: &mut Wire) -> Vec<Entry> {
    let reply = call(wire, "SLOWLOG GET -1");
    let mut lines = reply.split("\r\n");
    let count = number(lines.next().unwrap());
    let entry = |lines: &mut std::str::Split<'_, &str>| {
        assert_eq!(lines.next(), Some("*6"), "{reply}");
        let [id, at, took_us] = [(); 3].map(|()| number(lines.next().unwrap()));
        let args = (0..number(lines.next().unwrap())).map(|_| lines.nth(1).unwrap().to_owned()).collect();
        let [client, name] = [(); 2].map(|()| lines.nth(1).unwrap().to_owned());
        Entry { id, at, took_us, args, client, name }
    };
    (0..count).map(|_| entry(&mut lines)).collect()
}

fn number(line: &str) -> i64 {
    line[1..].parse().unwrap()
}

fn layout() -> Layout {
    Layout::parse_file("[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n").unwrap()
}

fn folded(server: &Server) -> keyfold_proxy::Handle {
    let mut config = config_for(server);
    config.layout = layout().into();
    serve(server, config)
}

#[test]
fn entries_and_errors_are_those_of_each_server() {
    let long = "x".repeat(200);
    let many = (0..40).map(|number| format!("user:{number}")).collect::<Vec<_>>().join(" ");
    let script = [
        "CONFIG SET slowlog-log-slower-than 0".to_owned(),
        "SLOWLOG RESET".to_owned(),
        "SET user:7 one".to_owned(),
        format!("SET user:8 {long}"),
        format!("SET plain {}", "y".repeat(5000)),
        format!("MGET {many}"),
        "GET user:8".to_owned(),
        "LPUSH plain 1".to_owned(),
        "GET".to_owned(),
        "NOPE secret".to_owned(),
        "AUTH default secret".to_owned(),
        "ACL SETUSER bob on >secret".to_owned(),
        "CONFIG SET masterauth secret".to_owned(),
        "CONFIG SET masterauth secret nope 1".to_owned(),
        "HELLO 2 AUTH default secret".to_owned(),
        "CLIENT SETNAME me".to_owned(),
        "EXISTS user:7".to_owned(),
        "SLOWLOG LEN".to_owned(),
    ];
    let errors = [
        "SLOWLOG GET x",
        "SLOWLOG GET -2",
        "SLOWLOG GET 99999999999999999999",
        "SLOWLOG GET 1 2",
        "SLOWLOG GET 0",
        "SLOWLOG LEN 1",
        "SLOWLOG RESET 1",
        "SLOWLOG NOPE",
        "SLOWLOG",
        "SLOWLOG HELP",
        "CONFIG GET slowlog-log-slower-than",
        "CONFIG GET slowlog-m?x-*",
        "CONFIG SET slowlog-max-len 3",
        "CONFIG GET slowlog-max-len",
        "SLOWLOG LEN",
        "CONFIG SET slowlog-log-slower-than x",
        "CONFIG SET slowlog-max-len -1",
        "CONFIG GET slowlog-log-slower-than",
        "CONFIG GET slowlog-m?x-*",
        "CONFIG SET slowlog-log-slower-than -1",
        "SLOWLOG RESET",
        "PING",
        "SLOWLOG GET",
    ];
    for binary in found_with_redis_7() {
        let (plain, behind) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let proxy = folded(&behind);
        let (mut there, mut here) = (plain.connect().unwrap(), Wire::connect(address(&proxy)).unwrap());
        for step in &script {
            let answers = [call(&mut there, step), call(&mut here, step)];
            // How HELLO introduces a connection is not compared.
            assert!(answers[0] == answers[1] || step.starts_with("HELLO"), "{}: {step}: {answers:?}", binary.name());
        }
        let (expected, shown) = (kept(&mut there), kept(&mut here));
        assert_eq!(shown, expected, "{}", binary.name());
        assert!(!shown.iter().any(|args| args.contains("secret")), "{shown:?}");
        for version in ["HELLO 2", "HELLO 3"] {
            let _ = [&mut there, &mut here].map(|wire| call(wire, version));
            for step in errors {
                assert_eq!(call(&mut here, step), call(&mut there, step), "{}: {version}: {step}", binary.name());
            }
        }
    }
}

#[test]
fn a_slow_request_is_kept_as_its_client_sent_it() {
    let server = start_server(&[]);
    let proxy = folded(&server);
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    for step in ["CLIENT SETNAME worker", "SET user:7 one", "BLPOP nothing 0.1"] {
        call(&mut wire, step);
    }
    let eval = [b"EVAL", BUSY.as_bytes(), b"1", b"user:7"];
    let asked = Instant::now();
    assert_eq!(wire.call(&eval).unwrap(), b"$3\r\none\r\n");
    let took = asked.elapsed();
    let mut other = Wire::connect(address(&proxy)).unwrap();
    let entries = entries(&mut other);
    let entry = entries.iter().find(|entry| entry.args[0] == "EVAL").unwrap();
    assert_eq!(entry.args[1..], [BUSY, "1", "user:7"]);
    assert!(entry.took_us >= 10_000 && Duration::from_micros(entry.took_us.unsigned_abs()) <= took, "{entry:?}");
    assert_eq!(entry.name, "worker");
    assert!(call(&mut wire, "CLIENT INFO").contains(&format!(" addr={} ", entry.client)));
    assert!(entry.id >= 0 && entry.at > 1_700_000_000);
    assert!(entries.iter().all(|entry| entry.args[0] != "BLPOP"), "it waited for others: {entries:?}");
}

#[test]
fn what_waits_behind_a_frozen_connection_is_slow_and_so_is_what_is_lost_with_it() {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let mut config = config_behind(&relay, &server);
    config.timeouts.server = Duration::from_millis(300);
    config.slow.kept_from = Some(Duration::from_millis(200));
    let proxy = keyfold_proxy::start(config).unwrap();
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    assert_eq!(call(&mut wire, "SET first 1"), "+OK\r\n");
    relay.lines().iter().for_each(|line| line.freeze());
    // Three in one packet, each of which is known by its own words; the last is too long to be kept whole.
    wire.send_bytes(&commands(&["GET first", "SET second 2", &format!("SET third {}", "3".repeat(4000))])).unwrap();
    for _ in 0..3 {
        assert!(wire.reply().unwrap().starts_with(b"-ERR keyfold: the connection to the server"));
    }
    let shown = kept(&mut wire);
    let third = format!("SET third {}... (3872 more bytes)", "3".repeat(128));
    for args in ["GET first", "SET second 2", &third] {
        assert!(shown.iter().any(|entry| entry == args), "{args}: {shown:?}");
    }
}

#[test]
fn transactions_are_kept_whole_and_may_not_ask() {
    let stage = stage_with(|config| config.slow.kept_from = Some(Duration::ZERO));
    let mut wire = stage.connect();
    for step in ["MULTI", "SET a 1", "EXEC"] {
        call(&mut wire, step);
    }
    assert_eq!(kept(&mut wire), ["MULTI", "EXEC"]);
    call(&mut wire, "MULTI");
    assert!(call(&mut wire, "SLOWLOG GET").starts_with("-ERR keyfold: SLOWLOG GET is not supported inside MULTI"));
    assert!(
        call(&mut wire, "LATENCY HISTOGRAM").starts_with("-ERR keyfold: LATENCY HISTOGRAM is not supported inside")
    );
    assert!(call(&mut wire, "EXEC").starts_with("-EXECABORT"));
}

#[test]
fn whoever_may_not_ask_is_told_so() {
    let users = b"user default on nopass ~* &* +@all\nuser app on >app ~* &* +@all -@admin\n";
    let stage = stage_with(|config| config.users = Users::parse(users).unwrap().into());
    let mut wire = stage.connect();
    assert_eq!(call(&mut wire, "AUTH app app"), "+OK\r\n");
    for step in ["SLOWLOG GET", "SLOWLOG LEN", "SLOWLOG RESET", "LATENCY HISTOGRAM", "CONFIG GET slowlog-max-len"] {
        assert!(call(&mut wire, step).starts_with("-NOPERM"), "{step}");
    }
    assert!(call(&mut wire, "SLOWLOG HELP").starts_with('*'));
}

fn histograms(stage: &Stage, version: &str, names: &str) -> String {
    let mut wire = stage.connect();
    call(&mut wire, version);
    call(&mut wire, format!("LATENCY HISTOGRAM {names}").trim_end())
}

#[test]
fn histograms_are_of_commands_as_clients_sent_them() {
    let operators = |config: &mut keyfold_proxy::Config| {
        config.layout = layout().into();
        config.admin = Some(Admin::at("127.0.0.1:0".parse().unwrap()));
    };
    let stage = stage_with(operators);
    let mut wire = stage.connect();
    for step in ["SET user:7 one", "GET user:7", "GET user:8", "CLIENT SETNAME me", "BLPOP nothing 0.01"] {
        call(&mut wire, step);
    }
    let get = histograms(&stage, "HELLO 2", "get");
    assert!(get.starts_with("*2\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:2\r\n$14\r\nhistogram_usec\r\n*"), "{get}");
    assert!(get.ends_with(":2\r\n"), "it counts up: {get}");
    let both = histograms(&stage, "HELLO 3", "nope SET client blpop hget");
    assert!(
        both.starts_with("%2\r\n$3\r\nset\r\n%2\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n%1\r\n:"),
        "{both}"
    );
    assert!(both.contains("$14\r\nclient|setname\r\n"), "{both}");
    assert_eq!(histograms(&stage, "HELLO 2", "hget"), "*0\r\n");
    eventually("all are shown", || histograms(&stage, "HELLO 2", "").contains("latency|histogram"));

    let unwatched = stage_with(|_| {});
    assert!(call(&mut unwatched.connect(), "LATENCY HISTOGRAM get").contains("start keyfold with --admin"));
    assert_eq!(call(&mut unwatched.connect(), "LATENCY LATEST"), "*0\r\n", "the server's own");
}
