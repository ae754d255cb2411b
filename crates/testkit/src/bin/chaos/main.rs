//! Kills, freezes, cuts off and resharding of a cluster's nodes, and kills of the keyfolds before it, while namespaces move,
//! under a load that knows what each answer must be.
//!
//! ```text
//! clients ─▶ 3 keyfolds ─▶ cluster: 3 primaries, 3 replicas ◀─ plain cluster clients
//!                 ▲             ▲
//!                 └─── mishaps ─┘▲     one after the other, some of a node and of a keyfold at once
//!                       fold, unfold     meanwhile, killed at times
//! ```
//! The clients of the keyfolds and those of the cluster itself do the same on keys of their own, and are judged alike:
//! what was acknowledged is there, but for what the cluster's own asynchronous replication lost; what was refused
//! wasn't done; nothing was done twice. At the end of each round no slot is on its way, a move that was begun has come to its
//! end, every key is read and looked for in its place, and `keyfold verify` is content. A seed repeats the choices, though not what the machine makes
//! of them.

mod asker;
mod collection;
mod history;
mod mishap;
mod mover;
mod pair;
mod prober;
mod report;
mod results;
mod round;
mod stage;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Parser;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, newest};

use crate::asker::Asker;
use crate::results::{Results, Round};
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
#[command(args_override_self = true)]
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
    /// Where each round is noted once it is over; a run that ended early goes on from there [default:
    /// target/chaos/SERVER-SEED.jsonl]
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let Options { rounds, seed, server, results } = Options::parse();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let seed = seed.unwrap_or(since.as_secs());
    let name = server.name();
    let file = || Path::new("target/chaos").join(format!("{}-{seed}.jsonl", name.replace(' ', "-")));
    let mut results = Results::open(&results.unwrap_or_else(file), &name, seed)?;
    println!("{name}, {rounds} rounds; --seed {seed} repeats the choices; results in {}", results.path().display());
    if !results.rounds.is_empty() {
        println!("{} rounds are in that file already; the run goes on behind them", results.rounds.len());
    }
    let mut scene = None;
    for number in results.next()..=rounds {
        let mut random = Random::new(Random::spread(seed) ^ Random::spread(number));
        let ended = play(&mut scene, &server, seed, &mut random);
        let round = results.add(number, ended)?;
        print_round(round);
        if !round.is_well() {
            print_wrong(scene.as_ref(), round);
            if round.broken.is_none() {
                break;
            }
            // Whatever is amiss with these nodes isn't to be the next rounds' trouble.
            scene = None;
        }
    }
    Ok(print_all(&results))
}

/// A cluster, and all who take part.
struct Scene {
    stage: Stage,
    through: Vec<Worker>,
    beside: Vec<Worker>,
}

/// Runs a round, on a new scene where there is none.
fn play(scene: &mut Option<Scene>, server: &Binary, seed: u64, random: &mut Random) -> anyhow::Result<Outcome> {
    if scene.is_none() {
        let stage = Stage::new(server)?;
        let (through, beside) = workers(&stage, seed);
        *scene = Some(Scene { stage, through, beside });
    }
    let Scene { stage, through, beside } = scene.as_mut().context("a scene was just set")?;
    round::run(stage, through, beside, random)
}

/// Clients of the keyfolds, and plain ones.
fn workers(stage: &Stage, seed: u64) -> (Vec<Worker>, Vec<Worker>) {
    let addresses = stage.addresses.iter().flat_map(|address| [*address; EACH]);
    let through =
        addresses.zip(1..).map(|(address, number)| Worker::new(Asker::of_keyfold(address), number, "", seed)).collect();
    let plain = |number| Worker::new(Asker::plain(stage.cluster.client()), number, "beside:", seed);
    (through, (101..).take(BESIDE).map(plain).collect())
}

fn print_round(round: &Round) {
    let Round { number, mishaps, keyfold, plain, took_ms, broken, .. } = round;
    if let Some(broken) = broken {
        println!("{number:4} couldn't be ended: {broken}");
        return;
    }
    println!(
        "{number:4} {}; {} answers and {} beside; lost {} and {} beside; {:.0} s; {} wrong",
        mishaps.join(", "),
        keyfold.report.answers,
        plain.report.answers,
        keyfold.lost,
        plain.lost,
        Duration::from_millis(*took_ms).as_secs_f64(),
        keyfold.report.wrong.len() + plain.report.wrong.len(),
    );
}

fn print_wrong(scene: Option<&Scene>, round: &Round) {
    for (side, tally) in [("through keyfold", &round.keyfold), ("plain", &round.plain)] {
        let shown = tally.report.wrong.iter().take(10);
        shown.for_each(|wrong| println!("  {side}: {wrong}"));
    }
    for (number, subject) in scene.iter().flat_map(|scene| &scene.stage.keyfolds).enumerate() {
        let log = subject.log();
        let last: Vec<&str> = log.lines().rev().take(40).collect();
        println!("  the end of keyfold {number}'s log:");
        last.iter().rev().for_each(|line| println!("    {line}"));
    }
}

/// Sums up all rounds; whether all is as it has to be.
fn print_all(results: &Results) -> ExitCode {
    let (keyfold, plain) = results.totals();
    let broken = results.rounds.iter().filter(|round| round.broken.is_some()).count();
    let took_ms = results.rounds.iter().map(|round| round.took_ms).sum();
    println!("{} rounds in {:.0} s", results.rounds.len(), Duration::from_millis(took_ms).as_secs_f64());
    print_table(&keyfold, &plain);
    let is_late = keyfold.gaps_ms.len() >= ENOUGH && keyfold.gap(95) > plain.gap(95) + LATER;
    let failures = [
        (!keyfold.report.wrong.is_empty(), "FAILED: answers through keyfold were wrong".to_owned()),
        (broken > 0, format!("FAILED: {broken} rounds couldn't be ended")),
        (is_late, "FAILED: slots come back too late through keyfold".to_owned()),
    ];
    let mut failed = failures.iter().filter(|(is_so, _)| *is_so).peekable();
    let code = if failed.peek().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    failed.for_each(|(_, told)| println!("{told}"));
    code
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
    row("slots that were away", &|tally| tally.gaps_ms.len().to_string());
    for percent in [50, 95, 100] {
        let name = format!("  back within, {percent} of 100 (s)");
        row(&name, &|tally| format!("{:.2}", tally.gap(percent).as_secs_f64()));
    }
    let (through, beside) = (keyfold.gap(95).as_secs_f64(), plain.gap(95).as_secs_f64());
    println!("{:<34}{:>+14.2}", "  keyfold later, 95 of 100 (s)", through - beside);
    for (side, tally) in [("keyfold", keyfold), ("plain client", plain)] {
        println!("errors, {side}:");
        tally.report.errors.iter().for_each(|(error, count)| println!("{count:8}  {error}"));
    }
}
