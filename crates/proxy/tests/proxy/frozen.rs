//! A connection or a server that stands still is one's own trouble, and for two seconds.

use std::process::Command;
use std::time::{Duration, Instant};

use keyfold_proxy::config::Timeouts;
use keyfold_proxy::{Handle, start};
use keyfold_testkit::{Server, Wire, found_with_redis_7};

use crate::relay::Relay;
use crate::stage::{address, call, commands, config_behind, config_for, eventually, start_server};

/// Until when an answer must have come. The proxy is bound to two seconds; the rest is for a machine that is busy.
const BOUND: Duration = Duration::from_secs(9);

/// A proxy with its own timeouts before a server that a relay leads to.
fn relayed() -> (Server, Relay, Handle) {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let mut config = config_behind(&relay, &server);
    config.timeouts = Timeouts::default();
    (server, relay, start(config).unwrap())
}

/// Asks, and holds that the answer comes in time.
fn ask_in_time(wire: &mut Wire, text: &str) -> String {
    let asked = Instant::now();
    let answer = call(wire, text);
    assert!(asked.elapsed() < BOUND, "{text} took {:?}", asked.elapsed());
    answer
}

#[test]
fn frozen_connections_are_given_up_and_opened_anew() {
    let (_server, relay, proxy) = relayed();
    let mut wires = [(); 4].map(|()| Wire::connect(address(&proxy)).unwrap());
    wires.iter_mut().for_each(|wire| assert_eq!(call(wire, "SET a 1"), "+OK\r\n"));
    let lines = relay.lines();
    lines.iter().for_each(|line| line.freeze());
    for wire in &mut wires {
        wire.send_bytes(&commands(&["GET a"])).unwrap();
    }
    for wire in &mut wires {
        let answer = String::from_utf8(wire.reply().unwrap()).unwrap();
        let told =
            answer.contains("was lost (no answer within 1.5s); this command may or may not have been carried out");
        assert!(told || answer == "$1\r\n1\r\n", "{answer}");
    }
    // Whatever else the proxy had on those connections runs out, and is asked for anew, while clients go on.
    let until = Instant::now() + Duration::from_secs(7);
    while Instant::now() < until {
        for wire in &mut wires {
            assert_eq!(ask_in_time(wire, "GET a"), "$1\r\n1\r\n");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_blocking_command_has_its_own_time_and_then_the_servers() {
    let (_server, relay, proxy) = relayed();
    let [mut bounded, mut endless, mut other] = [(); 3].map(|()| Wire::connect(address(&proxy)).unwrap());
    bounded.send_bytes(&commands(&["BLPOP bounded 0.5"])).unwrap();
    endless.send_bytes(&commands(&["BLPOP endless 0"])).unwrap();
    eventually("both wait", || ["bounded", "endless"].iter().all(|list| relay.line_that_said(list).is_some()));
    relay.line_that_said("bounded").unwrap().freeze();
    let answer = String::from_utf8(bounded.reply().unwrap()).unwrap();
    assert!(answer.contains("was lost (no answer within 2s)"), "{answer}");
    assert_eq!(call(&mut other, "RPUSH endless x"), ":1\r\n");
    assert!(endless.reply().unwrap().ends_with(b"x\r\n"));
}

#[test]
fn a_subscriber_whose_connection_froze_is_told() {
    let (_server, relay, proxy) = relayed();
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    call(&mut wire, "SUBSCRIBE first");
    relay.line_that_said("first").unwrap().freeze();
    wire.send_bytes(&commands(&["SUBSCRIBE second"])).unwrap();
    assert!(wire.is_closed().unwrap());
}

pub(crate) fn signal(server: &Server, signal: &str) {
    let sent = Command::new("kill").args([signal, &server.pid().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn everybody_is_told_of_a_server_that_stands_still() {
    let server = start_server(&[]);
    let mut config = config_for(&server);
    config.timeouts = Timeouts::default();
    let proxy = start(config).unwrap();
    let requests =
        ["GET a", "INCR n", "SUBSCRIBE news", "WATCH a", "EVAL return(1) 0", "KEYS *", "BLPOP list 0.1", "SELECT 1"];
    let mut wires = requests.map(|_| Wire::connect(address(&proxy)).unwrap());
    wires.iter_mut().for_each(|wire| assert_eq!(call(wire, "SET a 1"), "+OK\r\n"));
    signal(&server, "-STOP");
    for (wire, request) in wires.iter_mut().zip(requests) {
        wire.send_bytes(&commands(&[request])).unwrap();
    }
    let asked = Instant::now();
    for (wire, request) in wires.iter_mut().zip(requests) {
        let answer = String::from_utf8(wire.reply().unwrap()).unwrap();
        assert!(answer.starts_with("-ERR keyfold: the ") && answer.contains("no answer within"), "{request}: {answer}");
    }
    assert!(asked.elapsed() < BOUND, "{:?}", asked.elapsed());
    signal(&server, "-CONT");
    eventually("it comes back", || wires.iter_mut().all(|wire| call(wire, "GET a") == "$1\r\n1\r\n"));
}

const ENDLESS: &str = "while true do end";

#[test]
fn a_busy_script_is_killed_at_once_and_others_are_told_that_it_runs() {
    let function = format!("#!lua name=lib\nredis.register_function('endless', function() {ENDLESS} end)");
    for binary in found_with_redis_7() {
        let server = binary.start(&["--lua-time-limit", "50"]).unwrap();
        let proxy = start(config_for(&server)).unwrap();
        let [mut runs, mut asks, mut runs_too] = [(); 3].map(|()| Wire::connect(address(&proxy)).unwrap());
        assert_eq!(call(&mut asks, "SELECT 1"), "+OK\r\n");
        assert_eq!(call(&mut asks, "GET a"), "$-1\r\n");
        assert!(!runs.call(&[b"FUNCTION", b"LOAD", function.as_bytes()]).unwrap().starts_with(b"-"));
        let programs: [(&[&[u8]], &str); 2] =
            [(&[b"EVAL", ENDLESS.as_bytes(), b"0"], "SCRIPT KILL"), (&[b"FCALL", b"endless", b"0"], "FUNCTION KILL")];
        for (program, kill) in programs {
            assert!(call(&mut runs_too, "EVAL return(1) 0").starts_with(':'), "it has a connection of its own");
            runs.send(program).unwrap();
            // A shared connection that stood before the script tells what the server says, and so does one's own.
            eventually("the server is busy", || call(&mut asks, "GET a").starts_with("-BUSY "));
            let told = call(&mut runs_too, "EVAL return(1) 0");
            assert!(told.starts_with("-BUSY "), "{told}");
            assert_eq!(call(&mut asks, kill), "+OK\r\n", "{}", server.name());
            assert!(runs.reply().unwrap().starts_with(b"-"), "{kill}");
            assert_eq!(call(&mut asks, "GET a"), "$-1\r\n");
        }
    }
}

#[test]
fn a_protocol_that_the_server_did_not_confirm_is_not_spoken() {
    let (_server, relay, proxy) = relayed();
    let mut other = Wire::connect(address(&proxy)).unwrap();
    assert!(call(&mut other, "HELLO 3 SETNAME other").starts_with('%'));
    let mut wires = [(); 2].map(|()| Wire::connect(address(&proxy)).unwrap());
    wires.iter_mut().for_each(|wire| assert_eq!(call(wire, "GET nothing"), "$-1\r\n"));
    // There are two workers: either has met this protocol already, or opens a connection for it that works.
    relay.lines().iter().for_each(|line| line.freeze());
    for wire in &mut wires {
        let answer = ask_in_time(wire, "HELLO 3 SETNAME new");
        let (nothing, name) = match answer.starts_with('-') {
            true => ("$-1\r\n", "$-1\r\n"),
            false => ("_\r\n", "$3\r\nnew\r\n"),
        };
        let mut got = ask_in_time(wire, "GET nothing");
        while got.starts_with('-') {
            got = ask_in_time(wire, "GET nothing");
        }
        assert_eq!((got.as_str(), call(wire, "CLIENT GETNAME").as_str()), (nothing, name), "{answer}");
    }
}
