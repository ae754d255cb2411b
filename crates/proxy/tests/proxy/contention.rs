//! Many clients that write one key at once, where each write is worked out: all succeed, one after the other.

use std::thread;

use keyfold_core::layout::Layout;
use keyfold_proxy::start;

use super::stage::{Stage, config_for, serve, start_server};

const LAYOUT: &str = "[[namespace]]\nkeys = \"hits:{id:int}\"\nbucket = { span = 64 }\n";
const CLIENTS: u64 = 40;
const WRITES: u64 = 25;

/// Has all clients send these commands again and again, the last of which answers what is written. How often a write had to
/// begin again, for each.
fn conflicts_of(stage: &Stage, commands: &[&[&[u8]]], succeeded: impl Fn(&[u8]) -> bool + Sync) -> u64 {
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut wire = stage.connect();
                for _ in 0..WRITES {
                    commands.iter().for_each(|command| wire.send(command).unwrap());
                    let replies: Vec<_> = commands.iter().map(|_| wire.reply().unwrap()).collect();
                    let last = &replies[replies.len() - 1];
                    assert!(succeeded(last), "{}", last.escape_ascii());
                }
            });
        }
    });
    let conflicts: u64 = stage.proxy.namespaces().iter().map(|counts| counts.conflicts).sum();
    assert_eq!(stage.connect().ask(&[b"GET", b"hits:7"]).unwrap().bytes(), Some(&b"1000"[..]), "{conflicts} conflicts");
    conflicts / (CLIENTS * WRITES)
}

/// Where all begin again for each that succeeds, a write does so for half of the others.
const FEW: u64 = CLIENTS / 4;

#[test]
fn transactions_on_one_key_wait_for_their_turn() {
    let server = start_server(&[]);
    let mut config = config_for(&server);
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    let stage = Stage { proxy: serve(&server, config), server };
    let commands: [&[&[u8]]; 4] = [&[b"MULTI"], &[b"INCR", b"hits:7"], &[b"EXPIRE", b"hits:7", b"100"], &[b"EXEC"]];
    let conflicts =
        conflicts_of(&stage, &commands, |answer| answer.starts_with(b"*2\r\n:") && answer.ends_with(b":1\r\n"));
    assert!(conflicts < FEW, "{conflicts}");
}

#[test]
fn writes_of_a_key_that_is_being_moved_wait_for_their_turn() {
    let server = start_server(&[]);
    server.connect().unwrap().call(&[b"SET", b"hits:7", b"0"]).unwrap();
    let mut config = config_for(&server);
    // What nobody has put in force is on its way: keys may lie where they were before.
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    let stage = Stage { proxy: start(config).unwrap(), server };
    let conflicts = conflicts_of(&stage, &[&[b"INCR", b"hits:7"]], |answer| answer.starts_with(b":"));
    assert!(conflicts < FEW, "{conflicts}");
}
