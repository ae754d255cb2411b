//! GET and SET through one proxy, of compressed values against raw ones, in turns.

use std::process::Command;

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_core::resp::write_command;
use keyfold_lab::{Cell, Table};
use keyfold_testkit::coded::{Pair, store, train};
use keyfold_testkit::{Binary, Wire};

use super::sets;
use crate::options::Options;
use crate::proxy::Proxy;
use crate::redis_benchmark::median;
use crate::report::Report;

/// The same keys twice, as redis-benchmark numbers them.
const LAYOUT: &str = "[[namespace]]\nkeys = \"raw:{id:int(12)}\"\nbucket = { span = 100 }\nvalue_limit = 1024\n\n\
    [[namespace]]\nkeys = \"zip:{id:int(12)}\"\nbucket = { span = 100 }\nvalue_limit = 1024\ncodec = \"zstd\"\n";
const KEYS: u64 = 20_000;
const LEARNT: u64 = 4_000;
const CLIENTS: &str = "50";
/// Compressed against raw, at least.
const GOAL: f64 = 0.8;

/// Measures GET and SET without and with pipelining. Returns the goals that were missed.
pub(super) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    if Command::new("redis-benchmark").arg("--version").output().is_err() {
        eprintln!("bench: redis-benchmark is not on PATH; throughput is not measured");
        return Ok(Vec::new());
    }
    let server = binary.start(&["--hash-max-ziplist-value", "1024"])?;
    let layout = trained()?;
    store(&layout, &mut server.connect()?)?;
    let proxy = Proxy::beside(&server)?;
    fill(&mut proxy.connect()?)?;
    let title = format!(
        "throughput of compressed values, zstd with a dictionary, through the proxy, thousand requests a second, \
         {CLIENTS} clients, {} rounds",
        options.rounds
    );
    let columns = ["command", "pipeline", "raw", "compressed", "ratio, each round", "median", "goal"];
    let mut table = Table::titled(title, &columns);
    let scale = if options.quick { 20 } else { 1 };
    let (_, value) = sets::profile(KEYS + 1);
    let mut missed = Vec::new();
    for (pipeline, requests) in [(1, 200_000 / scale), (16, 600_000 / scale)] {
        for command in ["GET", "SET"] {
            let run = |prefix: &str| {
                let key = format!("{prefix}:__rand_int__");
                let value = String::from_utf8_lossy(&value);
                let words = if command == "GET" { vec!["GET", &key] } else { vec!["SET", &key, &value] };
                benchmark(proxy.port(), pipeline, requests, &words)
            };
            let mut runs = Vec::new();
            for _ in 0..options.rounds {
                runs.push((run("raw")?, run("zip")?));
            }
            let ratios: Vec<f64> = runs.iter().map(|(raw, zip)| zip / raw).collect();
            let ratio = median(ratios.clone()).unwrap_or(f64::NAN);
            // What is asked is that reading compressed values is not much slower.
            let goal = (command == "GET").then_some(if ratio >= GOAL { "met" } else { "missed" });
            if goal == Some("missed") {
                missed.push(format!("GET of compressed values, {pipeline} at a time: {ratio:.2} of raw ones"));
            }
            table.row(vec![
                command.into(),
                Cell::Whole(pipeline as u64),
                Cell::Number(median(runs.iter().map(|(raw, _)| raw / 1000.0).collect()).unwrap_or(f64::NAN), 1),
                Cell::Number(median(runs.iter().map(|(_, zip)| zip / 1000.0).collect()).unwrap_or(f64::NAN), 1),
                ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" ").into(),
                Cell::Number(ratio, 2),
                goal.map_or("".into(), |verdict| format!("≥ {GOAL}: {verdict}").into()),
            ]);
        }
    }
    report.add(&binary.name(), &table);
    Ok(missed)
}

fn key(prefix: &str, number: u64) -> Vec<u8> {
    format!("{prefix}:{number:012}").into_bytes()
}

/// The layout with a dictionary of other profiles than those that are loaded.
fn trained() -> anyhow::Result<Layout> {
    let records: Vec<(Vec<u8>, Vec<u8>)> =
        (KEYS..KEYS + LEARNT).map(|number| (key("zip", number), sets::profile(number).1)).collect();
    let pairs: Vec<Pair<'_>> = records.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
    let (learn, judge) = pairs.split_at(pairs.len() * 7 / 8);
    let trained = train(&Layout::parse_file(LAYOUT)?, learn, judge, 1_000_000);
    anyhow::ensure!(!trained.dictionaries().is_empty(), "nothing was learnt");
    Ok(trained)
}

/// Writes all keys of both kinds, and reads some back.
fn fill(wire: &mut Wire) -> anyhow::Result<()> {
    for number in 0..KEYS {
        let (_, value) = sets::profile(number);
        let mut batch = Vec::new();
        for prefix in ["raw", "zip"] {
            write_command(&mut batch, &[b"SET", &key(prefix, number), &value]);
            write_command(&mut batch, &[b"GET", &key(prefix, number)]);
        }
        wire.send_bytes(&batch)?;
        for _ in 0..2 {
            let (set, get) = (wire.reply()?, wire.reply()?);
            anyhow::ensure!(set == b"+OK\r\n", "SET answers {}", set.escape_ascii());
            let is_same = get.split(|byte| *byte == b'\n').nth(1).is_some_and(|line| line.starts_with(&value));
            anyhow::ensure!(is_same, "GET answers {}", get.escape_ascii());
        }
    }
    Ok(())
}

/// Requests a second.
fn benchmark(port: u16, pipeline: usize, requests: usize, words: &[&str]) -> anyhow::Result<f64> {
    let text = |number: usize| number.to_string();
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-r", &KEYS.to_string(), "--csv", "-c", CLIENTS])
        .args(["-n", &text(requests), "-P", &text(pipeline)])
        .args(words)
        .output()
        .context("starting redis-benchmark")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The command's own words stand before the rate, commas among them.
    let rate = text.lines().last().and_then(|line| {
        let numbers = line.rsplit("\",\"").map(|number| number.trim_matches('"').parse::<f64>().ok());
        numbers.take_while(Option::is_some).flatten().last()
    });
    rate.with_context(|| format!("no rate: {text}{}", String::from_utf8_lossy(&output.stderr)))
}
