//! Requests a second by redis-benchmark: the server alone and behind nutcracker with plain keys, and behind
//! keyfold with the same keys folded.
//!
//! All three stand before one server. They take turns in each round, so that what else the machine does
//! meanwhile hits all of them; what counts is the ratio within a round, and of those the median.

use std::process::Command;

use anyhow::Context;
use keyfold_testkit::Binary;

use crate::nutcracker::{self, Nutcracker};
use crate::options::Options;
use crate::proxy::Proxy;
use crate::report::{Cell, Report, Table};

/// The keys that redis-benchmark writes: `key:000000012345`.
const LAYOUT: &str = "[[namespace]]\nkeys = \"key:{id:int(12)}\"\nbucket = { span = 128 }\n";

const CLIENTS: usize = 50;

/// What redis-benchmark is asked for.
#[derive(Clone, Copy)]
struct Load {
    pipeline: usize,
    requests: usize,
}

/// Requests a second of one run.
#[derive(Clone, Copy)]
struct Rates {
    set: f64,
    get: f64,
}

/// One round: each in its turn.
struct Round {
    server: Rates,
    nutcracker: Option<Rates>,
    keyfold: Rates,
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
    let title = format!("thousand requests a second, {CLIENTS} clients, {} rounds, {other}", options.rounds);
    let columns = ["command", "pipeline", "server", "nutcracker", "keyfold", "keyfold/nutcracker", "median"];
    let mut table = Table::new(title, binary.name(), &columns);
    let scale = if options.quick { 20 } else { 1 };
    for load in [Load { pipeline: 1, requests: 200_000 / scale }, Load { pipeline: 16, requests: 1_000_000 / scale }] {
        let mut rounds = Vec::new();
        // The first round of all only fills the keys.
        for round in 0..=options.rounds {
            let measured = Round {
                server: benchmark(server.port(), load)?,
                nutcracker: nutcracker.as_ref().map(|other| benchmark(other.port(), load)).transpose()?,
                keyfold: benchmark(keyfold.port(), load)?,
            };
            if round > 0 {
                rounds.push(measured);
            }
        }
        add_rows(&mut table, load, &rounds);
    }
    report.add(&table);
    Ok(())
}

fn add_rows(table: &mut Table, load: Load, rounds: &[Round]) {
    type Pick = fn(&Rates) -> f64;
    let picks: [(&str, Pick); 2] = [("GET", |rates| rates.get), ("SET", |rates| rates.set)];
    for (command, pick) in picks {
        let thousands = |rates: Vec<f64>| median(rates).map_or(Cell::None, |rate| Cell::Number(rate / 1000.0, 1));
        let others = rounds.iter().filter_map(|round| round.nutcracker.as_ref());
        let ratio = |round: &Round| Some(pick(&round.keyfold) / pick(round.nutcracker.as_ref()?));
        let ratios: Vec<f64> = rounds.iter().filter_map(ratio).collect();
        let shown = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" ");
        table.row(vec![
            command.into(),
            Cell::count(load.pipeline as u64),
            thousands(rounds.iter().map(|round| pick(&round.server)).collect()),
            thousands(others.map(pick).collect()),
            thousands(rounds.iter().map(|round| pick(&round.keyfold)).collect()),
            shown.into(),
            median(ratios).map_or(Cell::None, |ratio| Cell::Number(ratio, 2)),
        ]);
    }
}

fn benchmark(port: u16, load: Load) -> anyhow::Result<Rates> {
    let text = |number: usize| number.to_string();
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-t", "get,set", "-r", "100000", "--csv"])
        .args(["-c", &text(CLIENTS), "-n", &text(load.requests), "-P", &text(load.pipeline)])
        .output()
        .context("starting redis-benchmark")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = |command: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("\"{command}\"")));
        let rate = line.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
        rate.with_context(|| {
            format!("redis-benchmark has no rate of {command}: {text}{}", String::from_utf8_lossy(&output.stderr))
        })
    };
    Ok(Rates { set: rate("SET")?, get: rate("GET")? })
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
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
