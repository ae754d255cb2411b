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

mod options;
mod round;
mod stage;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use keyfold_testkit::random::Random;

use crate::options::{Options, Request, USAGE};
use crate::stage::Stage;

fn main() -> anyhow::Result<ExitCode> {
    let options = match options::parse()? {
        Request::Help => {
            print!("{USAGE}");
            return Ok(ExitCode::SUCCESS);
        }
        Request::Run(options) => options,
    };
    let Options { rounds, seed, keys, .. } = options;
    let binary = options.binary()?;
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
