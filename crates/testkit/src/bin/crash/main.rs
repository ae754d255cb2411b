//! Kills movers, proxies and the server at random moments while keys move, takes keyfold's own keys away or sets them back,
//! and looks for what is lost.
//!
//! ```text
//! clients ─▶ 2 proxies ─▶ server, its AOF written before each answer
//!                            ▲
//!                 mover ─────┘      kill -9 of any of them; what was killed starts again
//! ```
//! Each round folds or unfolds. At its end the move is resumed until it is done; then every key is read through a
//! proxy, and `keyfold verify` walks the server. A seed repeats the choices, though not what the machine makes of
//! them.

mod round;
mod stage;

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Parser;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, newest};

use crate::stage::Stage;

/// Kills movers, proxies and the server while keys are folded and unfolded under load, and checks every key.
#[derive(Parser)]
#[command(args_override_self = true)]
struct Options {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: u64,
    /// Repeats the choices of a run [default: drawn from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Keys that are moved beside those of the load
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    keys: u64,
    /// The server, as in `redis 7.0.15` or `valkey` [default: the newest at hand]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = newest)]
    server: Binary,
}

fn main() -> anyhow::Result<ExitCode> {
    let Options { rounds, seed, keys, server: binary } = Options::parse();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let seed = seed.unwrap_or(since.as_secs());
    println!("{}, {keys} keys, {rounds} rounds; --seed {seed} repeats the choices", binary.name());
    let mut random = Random::new(seed);
    let mut stage = Stage::new(&binary, keys, seed)?;
    let started = Instant::now();
    for number in 1..=rounds {
        let outcome = round::run(&mut stage, number, &mut random).with_context(|| format!("round {number}"));
        let outcome = outcome.inspect_err(|_| stage.keep())?;
        println!("{outcome}");
        if !outcome.wrong.is_empty() {
            stage.keep();
            outcome.wrong.iter().for_each(|wrong| println!("  {wrong}"));
            println!("FAILED in round {number} of seed {seed}; logs and the AOF are in {}", stage.dir().display());
            return Ok(ExitCode::FAILURE);
        }
    }
    println!("{rounds} rounds in {:.0} s: {}", started.elapsed().as_secs_f64(), stage.summary());
    Ok(ExitCode::SUCCESS)
}
