//! Requests a second by redis-benchmark: the server alone and behind nutcracker with plain keys, and behind
//! keyfold with the same keys folded.
//!
//! All three stand before one server. They take turns in each round, so that what else the machine does
//! meanwhile hits all of them; what counts is the ratio within a round, and of those the median.

use keyfold_lab::{Cell, Table};
use keyfold_testkit::Binary;

use crate::nutcracker::{self, Nutcracker};
use crate::options::Options;
use crate::proxy::Proxy;
use crate::redis_benchmark::{self, CLIENTS, LAYOUT, Load, RANDOM_KEY, Run, SET_AND_GET, Target, median};
use crate::report::{Report, cell, each_round};

/// One round: each in its turn.
struct Round {
    server: Run,
    nutcracker: Option<Run>,
    keyfold: Run,
}

/// What keyfold is to reach of nutcracker's speed, with 16 requests at a time.
const GOAL: f64 = 1.0;

/// Measures without pipelining and with 16 requests at a time. Returns the goals that were missed.
pub(crate) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    if !redis_benchmark::is_there() {
        eprintln!("bench: redis-benchmark is not on PATH; speed is not measured");
        return Ok(Vec::new());
    }
    let server = binary.start(&[])?;
    let version = nutcracker::version();
    let nutcracker = version.is_some().then(|| Nutcracker::start(&server)).transpose()?;
    let keyfold = Proxy::start(&server, LAYOUT)?;
    let other = version.map_or("no nutcracker on PATH".to_owned(), |version| format!("nutcracker {version}"));
    let title = format!(
        "speed, thousand requests a second and CPU µs a request, {CLIENTS} clients, {} rounds, {other}",
        options.rounds
    );
    let mut table = Table::titled(title, &COLUMNS);
    let server = Target { port: server.port(), pid: server.pid() };
    let nutcracker = nutcracker.as_ref().map(|other| Target { port: other.port(), pid: other.pid() });
    let keyfold = keyfold.target();
    let mut missed = Vec::new();
    for load in Load::both(options) {
        let commands = SET_AND_GET.into_iter().chain([&["INCR", RANDOM_KEY][..]]);
        for command in commands.filter(|command| options.wants_command(command[0])) {
            let mut rounds = Vec::new();
            for _ in 0..options.rounds {
                rounds.push(Round {
                    server: redis_benchmark::run(server, command, load)?,
                    nutcracker: nutcracker.map(|other| redis_benchmark::run(other, command, load)).transpose()?,
                    keyfold: redis_benchmark::run(keyfold, command, load)?,
                });
            }
            missed.extend(
                median(of_nutcracker(&rounds))
                    .filter(|ratio| load.pipeline > 1 && *ratio < GOAL)
                    .map(|ratio| format!("{}, {} at a time: {ratio:.2} of nutcracker", command[0], load.pipeline)),
            );
            table.row(row(command[0], load, &rounds));
        }
    }
    report.add(&binary.name(), &table);
    Ok(missed)
}

const COLUMNS: [&str; 9] = [
    "command",
    "pipeline",
    "server",
    "nutcracker",
    "keyfold",
    "keyfold/nutcracker",
    "median",
    "nutcracker CPU",
    "keyfold CPU",
];

/// Keyfold's requests a second over nutcracker's, in each round where there is one.
fn of_nutcracker(rounds: &[Round]) -> Vec<f64> {
    let ratio = |round: &Round| Some(round.keyfold.requests_per_second / round.nutcracker?.requests_per_second);
    rounds.iter().filter_map(ratio).collect()
}

fn row(command: &str, load: Load, rounds: &[Round]) -> Vec<Cell> {
    let others: Vec<Run> = rounds.iter().filter_map(|round| round.nutcracker).collect();
    let keyfold: Vec<Run> = rounds.iter().map(|round| round.keyfold).collect();
    let thousands = |runs: &[Run]| cell(runs.iter().map(|run| run.requests_per_second / 1000.0).collect(), 1);
    let cpu = |runs: &[Run]| cell(runs.iter().map(|run| run.cpu_us_per_request).collect(), 2);
    let ratios = of_nutcracker(rounds);
    vec![
        command.into(),
        Cell::Whole(load.pipeline as u64),
        thousands(&rounds.iter().map(|round| round.server).collect::<Vec<_>>()),
        thousands(&others),
        thousands(&keyfold),
        each_round(&ratios),
        cell(ratios, 2),
        cpu(&others),
        cpu(&keyfold),
    ]
}
