//! How long GETs take beside commands on ten thousand keys.
//!
//! One client sends a GET every millisecond, another one command after the other with a pause between them. A GET's time
//! counts from when it was due, so that a stall shows in all that it held up.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use keyfold_testkit::load::Latencies;
use keyfold_testkit::{Value, Wire};

use crate::records;

/// Keys of one command.
const KEYS: u64 = 10_000;
/// Keys that are deleted get ids from here on.
const FIRST: u64 = 7_000_000_000;
/// How often a command is sent; where a run is a small one, to see that all works.
const ROUNDS: u64 = 10;
const FEW_ROUNDS: u64 = 2;
const SMALL_RUN: u64 = 1_000_000;
const PAUSE: Duration = Duration::from_millis(50);
const EVERY: Duration = Duration::from_millis(1);

/// What is done beside the GETs.
const COMMANDS: [&str; 7] = ["nothing", "SCAN", "KEYS", "MGET", "EXISTS", "DEL", "UNLINK"];

/// The GETs beside each command, with how long one took on average.
pub(crate) fn measure(address: SocketAddr, keys: u64) -> anyhow::Result<Vec<(&'static str, Latencies, Duration)>> {
    COMMANDS.into_iter().map(|command| beside(address, command, keys)).collect()
}

fn beside(
    address: SocketAddr,
    command: &'static str,
    keys: u64,
) -> anyhow::Result<(&'static str, Latencies, Duration)> {
    let mut wire = Wire::connect(address)?;
    wire.set_timeout(Duration::from_secs(120))?;
    let rounds = if keys < SMALL_RUN { FEW_ROUNDS } else { ROUNDS };
    let deletes = matches!(command, "DEL" | "UNLINK");
    if deletes {
        let set = |id: u64| vec![b"SET".to_vec(), name(FIRST + id), b"1".to_vec()];
        records::write(&mut wire, 0..rounds * KEYS, set)?;
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let gets = scope.spawn(|| get_until(address, keys, &stop));
        let (mut took, mut cursor, mut done) = (Duration::ZERO, b"0".to_vec(), Ok(()));
        for round in 0..rounds {
            thread::sleep(PAUSE);
            let first = if deletes { FIRST + round * KEYS } else { 0 };
            let started = Instant::now();
            done = run(&mut wire, command, first, &mut cursor);
            took += started.elapsed();
            if done.is_err() {
                break;
            }
        }
        stop.store(true, Ordering::Release);
        let latencies = gets.join().map_err(|_| anyhow::anyhow!("the client that sends GETs ended"))?;
        done?;
        Ok((command, latencies?, took / u32::try_from(rounds)?))
    })
}

fn run(wire: &mut Wire, command: &str, first: u64, cursor: &mut Vec<u8>) -> anyhow::Result<()> {
    let names: Vec<Vec<u8>>;
    let args: Vec<&[u8]> = match command {
        "nothing" => {
            thread::sleep(PAUSE);
            return Ok(());
        }
        "SCAN" => vec![b"SCAN", cursor, b"COUNT", b"10000"],
        // The server looks at every name, and few are shown.
        "KEYS" => vec![b"KEYS", b"user:1234?"],
        _ => {
            names = (first..first + KEYS).map(name).collect();
            std::iter::once(command.as_bytes()).chain(names.iter().map(Vec::as_slice)).collect()
        }
    };
    let reply = wire.ask(&args)?;
    ensure!(!matches!(reply, Value::Error(_)), "{command} is refused: {reply:?}");
    if let ("SCAN", Value::Array(parts)) = (command, reply) {
        *cursor = parts.first().and_then(Value::bytes).context("SCAN gave no cursor")?.to_vec();
    }
    Ok(())
}

fn get_until(address: SocketAddr, keys: u64, stop: &AtomicBool) -> anyhow::Result<Latencies> {
    let (mut wire, mut latencies) = (Wire::connect(address)?, Latencies::default());
    wire.set_timeout(Duration::from_secs(120))?;
    let (mut due, mut id) = (Instant::now(), 0);
    while !stop.load(Ordering::Acquire) {
        due += EVERY;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        id = (id + 7919) % (keys / 4).max(1);
        let reply = wire.call(&[b"GET", &name(id)])?;
        ensure!(reply.starts_with(b"$") && reply != b"$-1\r\n", "GET answers {}", reply.escape_ascii());
        latencies.add(due, due.elapsed());
    }
    Ok(latencies)
}

fn name(id: u64) -> Vec<u8> {
    format!("user:{id}").into_bytes()
}
