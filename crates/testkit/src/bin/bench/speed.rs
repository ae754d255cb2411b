//! Requests a second by redis-benchmark: the server alone and behind nutcracker with plain keys, and behind
//! keyfold with the same keys folded.
//!
//! All three stand before one server. They take turns in each round, so that what else the machine does
//! meanwhile hits all of them; what counts is the ratio within a round, and of those the median.

use std::process::Command;

use anyhow::Context;
use keyfold_lab::{Cell, Table};
use keyfold_testkit::Binary;

use crate::nutcracker::{self, Nutcracker};
use crate::options::Options;
use crate::proxy::Proxy;
use crate::report::Report;

/// The keys that redis-benchmark writes: `key:000000012345`.
const LAYOUT: &str = "[[namespace]]\nkeys = \"key:{id:int(12)}\"\nbucket = { span = 128 }\n";

const CLIENTS: usize = 50;

/// What redis-benchmark is asked for.
#[derive(Clone, Copy)]
struct Load {
    pipeline: usize,
    requests: usize,
}

/// One run of redis-benchmark.
#[derive(Clone, Copy)]
struct Run {
    requests_per_second: f64,
    /// Of the process that was asked.
    cpu_us_per_request: f64,
}

/// One round: each in its turn.
struct Round {
    server: Run,
    nutcracker: Option<Run>,
    keyfold: Run,
}

/// Who is asked: a port, and the process behind it.
#[derive(Clone, Copy)]
struct Target {
    port: u16,
    pid: u32,
}

/// Measures without pipelining and with 16 requests at a time.
pub(crate) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if Command::new("redis-benchmark").arg("--version").output().is_err() {
        eprintln!("bench: redis-benchmark is not on PATH; speed is not measured");
        return Ok(());
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
    let keyfold = Target { port: keyfold.port(), pid: keyfold.pid() };
    let scale = if options.quick { 20 } else { 1 };
    for load in [Load { pipeline: 1, requests: 200_000 / scale }, Load { pipeline: 16, requests: 1_000_000 / scale }] {
        // SET first: it writes the keys that GET then finds.
        for command in ["set", "get"] {
            let mut rounds = Vec::new();
            for _ in 0..options.rounds {
                rounds.push(Round {
                    server: benchmark(server, command, load)?,
                    nutcracker: nutcracker.map(|other| benchmark(other, command, load)).transpose()?,
                    keyfold: benchmark(keyfold, command, load)?,
                });
            }
            table.row(row(command, load, &rounds));
        }
    }
    report.add(&binary.name(), &table);
    Ok(())
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

fn row(command: &str, load: Load, rounds: &[Round]) -> Vec<Cell> {
    let others: Vec<Run> = rounds.iter().filter_map(|round| round.nutcracker).collect();
    let keyfold: Vec<Run> = rounds.iter().map(|round| round.keyfold).collect();
    let thousands = |runs: &[Run]| cell(runs.iter().map(|run| run.requests_per_second / 1000.0).collect(), 1);
    let cpu = |runs: &[Run]| cell(runs.iter().map(|run| run.cpu_us_per_request).collect(), 2);
    let ratio = |(keyfold, other): (&Run, &Run)| keyfold.requests_per_second / other.requests_per_second;
    let ratios: Vec<f64> = keyfold.iter().zip(&others).map(ratio).collect();
    vec![
        command.to_uppercase().into(),
        Cell::Whole(load.pipeline as u64),
        thousands(&rounds.iter().map(|round| round.server).collect::<Vec<_>>()),
        thousands(&others),
        thousands(&keyfold),
        ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" ").into(),
        cell(ratios, 2),
        cpu(&others),
        cpu(&keyfold),
    ]
}

fn cell(numbers: Vec<f64>, decimals: usize) -> Cell {
    median(numbers).map_or(Cell::Nothing, |number| Cell::Number(number, decimals))
}

#[expect(clippy::cast_precision_loss, reason = "requests and ticks stay far below 2⁵³")]
fn benchmark(target: Target, command: &str, load: Load) -> anyhow::Result<Run> {
    let text = |number: usize| number.to_string();
    let before = cpu_ticks(target.pid)?;
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &target.port.to_string(), "-t", command, "-r", "100000", "--csv"])
        .args(["-c", &text(CLIENTS), "-n", &text(load.requests), "-P", &text(load.pipeline)])
        .output()
        .context("starting redis-benchmark")?;
    let ticks = cpu_ticks(target.pid)? - before;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with(&format!("\"{}\"", command.to_uppercase())));
    let rate = line.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
    let requests_per_second = rate.with_context(|| {
        format!("redis-benchmark has no rate of {command}: {text}{}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(Run { requests_per_second, cpu_us_per_request: (ticks * TICK_US) as f64 / load.requests as f64 })
}

/// What Linux counts a process's time in: a hundredth of a second.
const TICK_US: u64 = 10_000;

/// The processor time that a process has taken, its threads included.
fn cpu_ticks(pid: u32) -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may hold spaces; utime and stime are the 12th and 13th field after it.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().context("the process's time")).sum()
}

pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let high = *numbers.get(middle)?;
    Some(if numbers.len() % 2 == 1 { high } else { (numbers[middle - 1] + high) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
