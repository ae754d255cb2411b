//! Kills, freezes, cuts off and resharding of a cluster's nodes, and kills of the keyfolds before it, under a load that
//! knows what each answer must be.
//!
//! ```text
//! clients ─▶ 3 keyfolds ─▶ cluster: 3 primaries, 3 replicas ◀─ plain cluster clients
//!                 ▲             ▲
//!                 └─── mishaps ─┘      one after the other, some of a node and of a keyfold at once
//! ```
//! The clients of the keyfolds and those of the cluster itself do the same on keys of their own, and are judged alike:
//! what was acknowledged is there, but for what the cluster's own asynchronous replication lost; what was refused
//! wasn't done; nothing was done twice. At the end of each round every key is read, and looked for in its place. A
//! seed repeats the choices, though not what the machine makes of them.

mod asker;
mod history;
mod mishap;
mod prober;
mod round;
mod stage;
mod worker;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Parser;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, newest};

use crate::asker::Asker;
use crate::round::{Outcome, Tally};
use crate::stage::Stage;
use crate::worker::Worker;

/// Clients of each keyfold.
const EACH: usize = 4;
/// Plain clients of the cluster: as many.
const BESIDE: usize = 12;
/// How much later than for a plain client slots may be back, by the 95th percentile.
const LATER: Duration = Duration::from_secs(1);
/// Fewer slots that were away say nothing about percentiles.
const ENOUGH: usize = 40;

/// Lets nodes of a cluster and keyfolds before it fail under load, and checks every answer.
#[derive(Parser)]
struct Options {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: u64,
    /// Repeats the choices of a run [default: drawn from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The server, as in `redis 7.0.15` or `valkey` [default: the newest at hand]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = newest)]
    server: Binary,
}

fn main() -> anyhow::Result<ExitCode> {
    let Options { rounds, seed, server } = Options::parse();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let seed = seed.unwrap_or(since.as_secs());
    println!("{}, {rounds} rounds; --seed {seed} repeats the choices", server.name());
    let mut random = Random::new(seed);
    let mut stage = Stage::new(&server)?;
    let (mut through, mut beside) = workers(&stage, seed);
    let (mut keyfold, mut plain) = (Tally::default(), Tally::default());
    let started = Instant::now();
    for number in 1..=rounds {
        let outcome = round::run(&mut stage, &mut through, &mut beside, &mut random);
        let outcome = outcome.with_context(|| format!("round {number} of seed {seed}"))?;
        print_round(number, &outcome);
        let Outcome { keyfold: by_keyfold, plain: by_plain, .. } = outcome;
        keyfold.extend(by_keyfold);
        plain.extend(by_plain);
        if !keyfold.report.wrong.is_empty() {
            print_wrong(&stage, &keyfold, &plain);
            println!("FAILED in round {number} of seed {seed}");
            return Ok(ExitCode::FAILURE);
        }
    }
    println!("{rounds} rounds in {:.0} s", started.elapsed().as_secs_f64());
    print_table(&keyfold, &plain);
    let is_late = keyfold.gaps.len() >= ENOUGH && keyfold.gap(95) > plain.gap(95) + LATER;
    if is_late {
        println!("FAILED: slots come back too late through keyfold");
    }
    Ok(if is_late { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Clients of the keyfolds, and plain ones.
fn workers(stage: &Stage, seed: u64) -> (Vec<Worker>, Vec<Worker>) {
    let addresses = stage.addresses.iter().flat_map(|address| [*address; EACH]);
    let through =
        addresses.zip(1..).map(|(address, number)| Worker::new(Asker::of_keyfold(address), number, "", seed)).collect();
    let plain = |number| Worker::new(Asker::plain(stage.cluster.client()), number, "beside:", seed);
    (through, (101..).take(BESIDE).map(plain).collect())
}

fn print_round(number: u64, outcome: &Outcome) {
    let Outcome { mishaps, keyfold, plain, took } = outcome;
    let mishaps: Vec<String> = mishaps.iter().map(ToString::to_string).collect();
    println!(
        "{number:4} {}; {} answers and {} beside; lost {} and {} beside; {:.0} s; {} wrong",
        mishaps.join(", "),
        keyfold.report.answers,
        plain.report.answers,
        keyfold.lost,
        plain.lost,
        took.as_secs_f64(),
        keyfold.report.wrong.len() + plain.report.wrong.len(),
    );
}

fn print_wrong(stage: &Stage, keyfold: &Tally, plain: &Tally) {
    for (side, tally) in [("through keyfold", keyfold), ("plain", plain)] {
        let shown = tally.report.wrong.iter().take(10);
        shown.for_each(|wrong| println!("  {side}: {wrong}"));
    }
    for (number, subject) in stage.keyfolds.iter().enumerate() {
        let log = subject.log();
        let last: Vec<&str> = log.lines().rev().take(40).collect();
        println!("  the end of keyfold {number}'s log:");
        last.iter().rev().for_each(|line| println!("    {line}"));
    }
}

fn print_table(keyfold: &Tally, plain: &Tally) {
    let row = |name: &str, of: &dyn Fn(&Tally) -> String| println!("{name:<34}{:>14}{:>14}", of(keyfold), of(plain));
    println!("{:<34}{:>14}{:>14}", "", "keyfold", "plain client");
    row("answers", &|tally| tally.report.answers.to_string());
    row("writes acknowledged", &|tally| tally.report.acked.to_string());
    row("  of them lost by the cluster", &|tally| tally.lost.to_string());
    row("answers of nodes that were behind", &|tally| tally.stale.to_string());
    row("errors", &|tally| tally.report.errors.values().sum::<u64>().to_string());
    row("wrong answers", &|tally| tally.report.wrong.len().to_string());
    row("slots that were away", &|tally| tally.gaps.len().to_string());
    for percent in [50, 95, 100] {
        let name = format!("  back within, {percent} of 100 (s)");
        row(&name, &|tally| format!("{:.2}", tally.gap(percent).as_secs_f64()));
    }
    for (side, tally) in [("keyfold", keyfold), ("plain client", plain)] {
        println!("errors, {side}:");
        tally.report.errors.iter().for_each(|(error, count)| println!("{count:8}  {error}"));
    }
}
