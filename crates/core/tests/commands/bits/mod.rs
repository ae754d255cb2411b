//! Bit commands, LCS and patterns, compared with a plain server byte for byte.
//!
//! A seeded stream of commands runs on the server and on one [`Space`]; now and then, what a command
//! changed is compared as well, by the server's WATCH. `KEYFOLD_COMMANDS` sets how many commands run
//! (100,000), `KEYFOLD_SEED` which (1).

mod commands;

use std::collections::BTreeSet;

use crate::server::{Connection, Server};
use commands::{Command, Generator, KEYS};
use keyfold_core::command::table;
use keyfold_core::dialect::Dialect;
use keyfold_core::glob;
use keyfold_core::resp::{Answer, Protocol, Reply};
use keyfold_core::string::{Call, Entry, Held, Space, finish};

/// Commands sent in one go.
const BATCH: usize = 400;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn seed() -> u64 {
    u64::try_from(setting("KEYFOLD_SEED", 1)).unwrap()
}

/// Runs a command on the space. What the commands under test need around them is done right here.
fn run(space: &mut Space, command: &Command, protocol: Protocol) -> Vec<u8> {
    let mut out = Vec::new();
    let mut answer = Answer::new(&mut out, protocol);
    let key = command[1].as_slice();
    match command[0].as_slice() {
        b"set" => {
            let expires_at_ms = command.get(4).map(|at| str::from_utf8(at).unwrap().parse().unwrap());
            space.put(key, Entry { value: command[2].clone(), expires_at_ms });
            answer.ok();
        }
        b"del" => {
            answer.integer(i64::from(*space.held(key) != Held::Nothing));
            space.remove(key);
        }
        b"rpush" => {
            space.load(key, Held::Other(b"list".to_vec()));
            answer.integer(1);
        }
        b"get" => match space.string(key) {
            Ok(Some(entry)) => answer.bulk(&entry.value),
            Ok(None) => answer.nil(),
            flow => finish(flow.map(|_| ()), &mut answer).unwrap(),
        },
        b"pexpiretime" => answer.integer(match space.held(key) {
            Held::Nothing => -2,
            Held::String(entry) => entry.expires_at_ms.unwrap_or(-1),
            Held::Unread(_) => unreachable!("the test loads whole values"),
            Held::Collection(_) | Held::Other(_) => -1,
        }),
        _ => {
            let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            let flow = table().resolve(&args).unwrap().run.unwrap()(
                &Call { args: &args, dialect: Dialect::default() },
                space,
                &mut answer,
            );
            finish(flow, &mut answer).unwrap();
        }
    }
    out
}

fn show(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

fn show_command(command: &Command) -> String {
    command.iter().map(|arg| show(arg)).collect::<Vec<_>>().join(" ")
}

fn compare_commands(protocol: Protocol, version: &str) {
    let Some(server) = Server::start() else { return };
    let (mut connection, mut watcher) = (server.connect(), server.connect());
    connection.one(&["hello", version]);
    let mut generator = Generator::new(seed() * 2 + u64::from(protocol == Protocol::Resp3));
    let mut space = Space::new(0);
    let mut compared = 0;
    while compared < setting("KEYFOLD_COMMANDS", 100_000) / 2 {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            generator.next(&mut batch);
        }
        let expected: Vec<Vec<u8>> = batch.iter().map(|command| run(&mut space, command, protocol)).collect();
        for ((command, ours), servers) in batch.iter().zip(expected).zip(connection.run(&batch)) {
            assert!(
                ours == servers,
                "{}\n  server  {}\n  keyfold {}",
                show_command(command),
                show(&servers),
                show(&ours)
            );
        }
        for _ in 0..20 {
            compare_changes(&mut generator, &mut space, &mut connection, &mut watcher, protocol);
        }
        compared += batch.len() + 20;
    }
    println!("{compared} commands, no difference");
}

/// Runs one command alone, and compares whether it changed anything.
fn compare_changes(
    generator: &mut Generator,
    space: &mut Space,
    connection: &mut Connection,
    watcher: &mut Connection,
    protocol: Protocol,
) {
    let mut commands = Vec::new();
    generator.next(&mut commands);
    let command = &commands[0];
    let mut fresh = Space::new(0);
    for key in KEYS {
        fresh.load(key.as_bytes(), space.held(key.as_bytes()).clone());
    }
    let before = fresh.clone();
    let ours = run(&mut fresh, command, protocol);
    watcher.one(&[&["watch"], &KEYS[..]].concat());
    let servers = connection.run(&commands[..1]).remove(0);
    assert!(ours == servers, "{}\n  {}\n  {}", show_command(command), show(&servers), show(&ours));
    watcher.one(&["multi"]);
    let touched = watcher.one(&["exec"]) == b"*-1\r\n";

    let marked = fresh.changes().next().is_some();
    // DEL is done by the test itself. A BITFIELD that makes room and then fails changes the key behind
    // the back of WATCH.
    let unseen = command[0] == b"bitfield" && fresh.changes().any(|(key, held)| before.held(key) != held);
    assert!(
        touched == marked || command[0] == b"del" || (marked && unseen),
        "{}: the server changed something: {touched}, keyfold: {marked}",
        show_command(command)
    );
    for key in KEYS {
        space.load(key.as_bytes(), fresh.held(key.as_bytes()).clone());
    }
}

#[test]
fn commands_in_resp2() {
    compare_commands(Protocol::Resp2, "2");
}

#[test]
fn commands_in_resp3() {
    compare_commands(Protocol::Resp3, "3");
}

/// Too large for the random streams: an LCS beyond the limit, and one that is just long.
#[test]
fn long_values() {
    let Some(server) = Server::start() else { return };
    let mut connection = server.connect();
    let mut generator = Generator::new(seed());
    let mut space = Space::new(0);
    for (a, b) in [(11_585, 11_584), (11_584, 11_583), (11_584, 11_585), (40_000, 40_000), (3000, 2000)] {
        let (mut left, mut right) = (generator.text(b"abc", 0), generator.text(b"abc", 0));
        left.resize_with(a, || generator.pick(b"abc"));
        right.resize_with(b, || generator.pick(b"abc"));
        let mut commands = vec![
            vec![b"set".to_vec(), b"k0".to_vec(), left],
            vec![b"set".to_vec(), b"k1".to_vec(), right],
            vec![b"lcs".to_vec(), b"k0".to_vec(), b"k1".to_vec()],
        ];
        if a < 11_000 {
            commands.push([&commands[2][..], &[b"idx".to_vec(), b"withmatchlen".to_vec()]].concat());
        }
        let expected: Vec<Vec<u8>> = commands.iter().map(|command| run(&mut space, command, Protocol::Resp2)).collect();
        assert!(expected == connection.run(&commands), "LCS of {a} and {b} bytes");
    }
}

/// The bytes that mean something in a pattern, and some that are negative as signed ones.
const ALPHABET: &[u8] = b"aabb--[[]]^^\\\\**??c\x7f\x80\xff\0";

fn compare_patterns(connection: &mut Connection, keys: &BTreeSet<Vec<u8>>, patterns: &[Vec<u8>]) {
    let commands: Vec<Command> = patterns.iter().map(|pattern| vec![b"keys".to_vec(), pattern.clone()]).collect();
    for (pattern, reply) in patterns.iter().zip(connection.run(&commands)) {
        let Reply::Array(elements) = Reply::parse(&reply).unwrap() else { panic!("{}", show(&reply)) };
        let servers: BTreeSet<Vec<u8>> = elements.map(|key| key.bytes().unwrap().to_vec()).collect();
        // KEYS does not ask about a lone star.
        let all = pattern == b"*";
        let ours: BTreeSet<Vec<u8>> = keys.iter().filter(|key| all || glob::matches(pattern, key)).cloned().collect();
        if let Some(key) = ours.symmetric_difference(&servers).next() {
            panic!("{} and {}: the server says {}", show(pattern), show(key), servers.contains(key));
        }
    }
}

#[test]
fn patterns_as_keys() {
    let Some(server) = Server::start() else { return };
    let mut connection = server.connect();
    let mut generator = Generator::new(seed());
    let wanted = setting("KEYFOLD_COMMANDS", 100_000) / 5;
    for round in 0..=wanted / 5_000 {
        connection.one(&["flushall"]);
        let mut keys: BTreeSet<Vec<u8>> =
            (0..400).map(|index| generator.text(ALPHABET, if index < 300 { 4 } else { 12 })).collect();
        if round == 0 {
            keys.extend([b"a".repeat(999), b"a".repeat(1000), b"a".repeat(1001), b"a".repeat(1100)]);
        }
        let sets: Vec<Command> = keys.iter().map(|key| vec![b"set".to_vec(), key.clone(), b"value".to_vec()]).collect();
        connection.run(&sets);
        if round == 0 {
            let stars: Vec<Vec<u8>> = [998, 999, 1000, 1001, 1002]
                .into_iter()
                .flat_map(|stars| [b"a*".repeat(stars), b"*a".repeat(stars), b"**a".repeat(stars)])
                .collect();
            compare_patterns(&mut connection, &keys, &stars);
        }
        for _ in 0..(wanted.min(5_000) / 100) {
            let patterns: Vec<Vec<u8>> = (0..100).map(|_| generator.text(ALPHABET, 9)).collect();
            compare_patterns(&mut connection, &keys, &patterns);
        }
    }
}
