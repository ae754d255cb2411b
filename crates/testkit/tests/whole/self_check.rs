//! The drivers judge rightly: two servers of one version agree, and a subject that is wrong is found out.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use keyfold_testkit::conformance;
use keyfold_testkit::differential::{self, CacheFailure, CacheOptions, CacheSides, Failure, Options, Protocols};
use keyfold_testkit::{Binary, Scanner, Server, Sides, found};

/// Runs a test with two servers of each version, all versions at the same time: much of it is waiting.
fn every_server(test: impl Fn(&Binary, Sides) + Sync) {
    thread::scope(|scope| {
        for binary in found() {
            let test = &test;
            scope.spawn(move || {
                let (plain, subject) = (start(&binary), start(&binary));
                test(&binary, Sides { plain: plain.address(), subject: subject.address() });
            });
        }
    });
}

fn start(binary: &Binary) -> Server {
    binary.start(&[]).expect("it starts")
}

#[test]
fn every_server_conforms_to_itself() {
    every_server(|binary, sides| {
        let (count, differences) = conformance::run_all(sides, "");
        let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert!(count > 0 && shown.is_empty(), "{}, {} of {count}:\n{}", binary.name(), shown.len(), shown.join("\n"));
    });
}

#[test]
fn every_server_agrees_with_itself() {
    every_server(|binary, sides| {
        for (seed, protocols) in [(1, Protocols::Resp2), (2, Protocols::Resp3), (3, Protocols::Both)] {
            let options = Options { commands: 20_000, seed, protocols, is_keyfold: false, ..Options::default() };
            if let Err(failure) = differential::run(sides, &options, |_| {}) {
                panic!("{}: {failure}", binary.name());
            }
        }
    });
}

/// A server behind a forwarder that answers STRLEN wrongly: 64 and more are one too many.
fn wrong_sides() -> (Server, Server, Sides) {
    let binary = found().pop().expect("no redis-server or valkey-server; run scripts/ensure-server");
    let (plain, behind) = (start(&binary), start(&binary));
    let sides = Sides { plain: plain.address(), subject: forward_wrongly(behind.address()) };
    (plain, behind, sides)
}

#[test]
fn conformance_finds_a_wrong_subject() {
    let (_plain, _behind, sides) = wrong_sides();
    let (_, differences) = conformance::run_all(sides, "APPEND and STRLEN");
    assert_eq!(differences.len(), conformance::POOLS.len() * 2);
    for difference in differences {
        assert_eq!(difference.line, "STRLEN <0>");
        assert_eq!((difference.plain.as_str(), difference.subject.as_str()), (r":68\r\n", r":69\r\n"));
    }
}

#[test]
fn the_differential_driver_finds_and_shrinks_a_wrong_subject() {
    let (_plain, _behind, sides) = wrong_sides();
    let options = Options { is_keyfold: false, ..Options::default() };
    let Err(Failure::Difference(difference)) = differential::run(sides, &options, |_| {}) else {
        panic!("a wrong STRLEN was not found");
    };
    let asks = |line: &String| line.to_ascii_uppercase().starts_with("STRLEN ");
    assert!(difference.least.last().is_some_and(asks), "{difference}");
    // One that writes a long value and one that asks for its length; or three where it grew.
    assert!((2..=3).contains(&difference.least.len()), "{difference}");
    assert_eq!(difference.last.len().min(30), difference.last.len());
    assert!(difference.last.last().is_some_and(asks), "{difference}");
    let state = format!("{:?}", difference.keys);
    assert!(state.contains("TYPE ") && state.contains("PTTL "), "{difference}");
}

#[test]
fn caches_of_every_servers_own_clients_agree_with_it() {
    every_server(|binary, Sides { plain, .. }| {
        let sides = CacheSides { keyfolds: [plain; 2], server: plain };
        let options = CacheOptions { commands: 10_000, ..CacheOptions::default() };
        if let Err(failure) = differential::run_caches(&sides, &options, |_| {}) {
            panic!("{}: {failure}", binary.name());
        }
    });
}

#[test]
fn a_cache_that_is_not_told_of_a_key_is_found_out() {
    let binary = found().pop().expect("no redis-server or valkey-server; run scripts/ensure-server");
    let server = start(&binary);
    let silent = forward(server.address(), |client_in, upstream_out, upstream, client| {
        thread::spawn(move || pass(client_in, upstream_out, |_| true));
        let concerns = |reply: &[u8]| reply[0] == b'>' && reply.windows(6).any(|word| word == b"cart:7");
        thread::spawn(move || pass(upstream, client, |reply| !concerns(reply)));
    });
    let sides = CacheSides { keyfolds: [silent, server.address()], server: server.address() };
    let options = CacheOptions { patience: Duration::from_secs(2), ..CacheOptions::default() };
    match differential::run_caches(&sides, &options, |_| {}) {
        Err(CacheFailure::Stale(stale)) => {
            assert_eq!((stale.key.as_str(), stale.keyfold), ("cart:7", 0), "{stale}");
            assert!(stale.last.iter().any(|line| line.contains("cart:7")), "{stale}");
        }
        other => panic!("{other:?}"),
    }
}

fn pass(from: TcpStream, mut to: TcpStream, is_passed: impl Fn(&[u8]) -> bool) {
    each_value(from, |value| !is_passed(value) || to.write_all(value).is_ok());
}

fn forward_wrongly(server: SocketAddr) -> SocketAddr {
    forward(server, |client_in, upstream_out, upstream, client| {
        let (names, asked) = channel();
        thread::spawn(move || forward_requests(client_in, upstream_out, &names));
        thread::spawn(move || forward_replies(upstream, client, &asked));
    })
}

/// Stands before a server, and gives each client's connection and its own to whoever passes on requests and replies.
fn forward(
    server: SocketAddr,
    serve: impl Fn(TcpStream, TcpStream, TcpStream, TcpStream) + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(upstream) = TcpStream::connect(server) else { break };
            let (Ok(client_in), Ok(upstream_out)) = (client.try_clone(), upstream.try_clone()) else { break };
            serve(client_in, upstream_out, upstream, client);
        }
    });
    address
}

/// A request is an array, so the scanner of replies finds its end.
fn forward_requests(client: TcpStream, mut server: TcpStream, names: &Sender<bool>) {
    each_value(client, |request| {
        let is_strlen = request.to_ascii_uppercase().starts_with(b"*2\r\n$6\r\nSTRLEN");
        names.send(is_strlen).is_ok() && server.write_all(request).is_ok()
    });
}

fn forward_replies(server: TcpStream, mut client: TcpStream, asked: &Receiver<bool>) {
    each_value(server, |reply| {
        let Ok(is_strlen) = asked.recv() else { return false };
        let len = str::from_utf8(&reply[1..]).ok().and_then(|text| text.trim_end().parse::<u64>().ok());
        let wrong = match len.filter(|len| is_strlen && reply[0] == b':' && *len >= 64) {
            Some(len) => format!(":{}\r\n", len + 1).into_bytes(),
            None => reply.to_vec(),
        };
        client.write_all(&wrong).is_ok()
    });
}

fn each_value(mut from: TcpStream, mut forward: impl FnMut(&[u8]) -> bool) {
    let mut input = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        while let Ok(Some(len)) = Scanner::default().scan(&input) {
            if !forward(&input[..len]) {
                return;
            }
            input.drain(..len);
        }
        match from.read(&mut buffer) {
            Ok(len) if len > 0 => input.extend_from_slice(&buffer[..len]),
            _ => return,
        }
    }
}
