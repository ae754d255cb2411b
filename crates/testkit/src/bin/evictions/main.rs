//! Lets clients write far more than a cache holds, through two keyfolds one of which is killed from time to time, and looks
//! for a key that is neither absent nor holds its value.
//!
//! ```text
//! clients ─▶ 2 keyfolds, kill -9 of either ─▶ server, whose own eviction begins a tenth above the mark
//! ```
//! At the end every key is read, and `keyfold verify` walks the server. A seed repeats the choices, though not what the
//! machine makes of them.

mod stage;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Parser;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, newest};

use crate::stage::Stage;

/// How long both keyfolds live at least, and how much longer by chance.
const KILL_AFTER: (Duration, u64) = (Duration::from_secs(3), 6000);
/// How often it is looked how far it has come.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often it is said.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Evicts keys under load while keyfolds are killed, and checks every answer.
#[derive(Parser)]
#[command(args_override_self = true)]
struct Options {
    /// Keys that are found gone, until it ends
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    evictions: u64,
    /// Repeats the choices of a run [default: drawn from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Megabytes that keys may take
    #[arg(long, value_name = "N", default_value_t = 16)]
    megabytes: u64,
    /// Clients
    #[arg(long, value_name = "N", default_value_t = 4)]
    clients: u64,
    /// The server, as in `redis 7.0.15` or `valkey` [default: the newest at hand]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = newest)]
    server: Binary,
}

fn main() -> anyhow::Result<ExitCode> {
    let Options { evictions, seed, megabytes, clients, server: binary } = Options::parse();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let seed = seed.unwrap_or(since.as_secs());
    println!("{}, {clients} clients, {megabytes} MB; --seed {seed} repeats the choices", binary.name());
    let mut stage = Stage::new(&binary, clients, megabytes << 20, seed)?;
    let started = Instant::now();
    work(&mut stage, evictions, &mut Random::new(seed))?;
    let wrong = stage.check()?;
    println!("{:.0} s: {}", started.elapsed().as_secs_f64(), stage.summary());
    wrong.iter().take(20).for_each(|wrong| println!("  {wrong}"));
    if !wrong.is_empty() {
        println!("FAILED with seed {seed}: {} WRONG", wrong.len());
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Lets clients work, and kills, until so many keys were found gone.
fn work(stage: &mut Stage, evictions: u64, random: &mut Random) -> anyhow::Result<()> {
    let (stop, addresses) = (AtomicBool::new(false), stage.addresses.clone());
    let mut clients = std::mem::take(&mut stage.clients);
    let outcome = thread::scope(|scope| {
        for (index, client) in clients.iter_mut().enumerate() {
            let (stop, mut addresses) = (&stop, addresses.clone());
            let first = index % addresses.len();
            addresses.rotate_left(first);
            scope.spawn(move || client.work(&addresses, stop));
        }
        let outcome = kill_until(stage, evictions, random);
        stop.store(true, Ordering::Release);
        outcome
    });
    stage.clients = clients;
    outcome
}

fn kill_until(stage: &mut Stage, evictions: u64, random: &mut Random) -> anyhow::Result<()> {
    let (mut said, mut kill_at) = (Instant::now(), Instant::now() + until_kill(random));
    while stage.vanished() < evictions {
        thread::sleep(LOOK_EVERY);
        stage.look()?;
        if Instant::now() > kill_at {
            stage.kill(random.index(stage.addresses.len()), Duration::from_millis(random.below(3000)))?;
            kill_at = Instant::now() + until_kill(random);
        }
        if said.elapsed() > SAY_EVERY {
            said = Instant::now();
            println!("  {}", stage.summary());
        }
    }
    Ok(())
}

fn until_kill(random: &mut Random) -> Duration {
    let (least, more_ms) = KILL_AFTER;
    least + Duration::from_millis(random.below(more_ms))
}
