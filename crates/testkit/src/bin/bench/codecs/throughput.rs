//! GET and SET through one proxy, of compressed values against raw ones, in turns.

use keyfold_core::layout::Layout;
use keyfold_core::resp::write_command;
use keyfold_lab::{Cell, Table};
use keyfold_testkit::coded::{Pair, store, train};
use keyfold_testkit::{Binary, Wire};

use super::sets;
use crate::options::Options;
use crate::proxy::Proxy;
use crate::redis_benchmark::{self, Load, Run, median};
use crate::report::Report;

/// The same keys twice, as redis-benchmark numbers them.
const LAYOUT: &str = "[[namespace]]\nkeys = \"raw:{id:int(12)}\"\nbucket = { span = 100 }\nvalue_limit = 1024\n\n\
    [[namespace]]\nkeys = \"zip:{id:int(12)}\"\nbucket = { span = 100 }\nvalue_limit = 1024\ncodec = \"zstd\"\n";
const KEYS: u64 = 20_000;
const LEARNT: u64 = 4_000;
const CLIENTS: usize = 50;
/// Compressed against raw, at least: reading is not much slower, and where many values are written together, encoding them
/// costs little more than half again of what all else does.
const GOALS: [(&str, usize, f64); 3] = [("GET", 1, 0.8), ("GET", 16, 0.8), ("SET", 16, 0.4)];

/// Measures GET and SET without and with pipelining. Returns the goals that were missed.
pub(super) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    if !redis_benchmark::is_there() {
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
    let columns = [
        "command",
        "pipeline",
        "raw",
        "compressed",
        "ratio, each round",
        "median",
        "goal",
        "keyfold's CPU, raw",
        "compressed",
        "ratio",
    ];
    let mut table = Table::titled(title, &columns);
    let scale = if options.quick { 20 } else { 1 };
    let (_, value) = sets::profile(KEYS + 1);
    let value = String::from_utf8_lossy(&value);
    let target = proxy.target();
    let mut missed = Vec::new();
    for (pipeline, requests) in [(1, 200_000 / scale), (16, 600_000 / scale)] {
        let load = Load { clients: CLIENTS, pipeline, requests, numbers: usize::try_from(KEYS)? };
        for command in ["GET", "SET"] {
            let run = |prefix: &str| {
                let key = format!("{prefix}:__rand_int__");
                let words = if command == "GET" { vec!["GET", &key] } else { vec!["SET", &key, &value] };
                redis_benchmark::run(target, &words, load)
            };
            let mut runs = Vec::new();
            for _ in 0..options.rounds {
                runs.push((run("raw")?, run("zip")?));
            }
            let goal = GOALS.iter().find(|(name, at_a_time, _)| (*name, *at_a_time) == (command, pipeline));
            table.row(row(command, pipeline, goal.map(|(.., goal)| *goal), &runs, &mut missed));
        }
    }
    report.add(&binary.name(), &table);
    Ok(missed)
}

/// One line: what raw values and compressed ones came to in each round.
fn row(command: &str, pipeline: usize, goal: Option<f64>, runs: &[(Run, Run)], missed: &mut Vec<String>) -> Vec<Cell> {
    let of = |number: &dyn Fn(&(Run, Run)) -> f64| median(runs.iter().map(number).collect()).unwrap_or(f64::NAN);
    let ratios = runs.iter().map(|(raw, zip)| zip.requests_per_second / raw.requests_per_second);
    let ratio = median(ratios.clone().collect()).unwrap_or(f64::NAN);
    let verdict = goal.map(|goal| if ratio >= goal { "met" } else { "missed" });
    if verdict == Some("missed") {
        missed.push(format!("{command} of compressed values, {pipeline} at a time: {ratio:.2} of raw ones"));
    }
    vec![
        command.into(),
        Cell::Whole(pipeline as u64),
        Cell::Number(of(&|(raw, _)| raw.requests_per_second / 1000.0), 1),
        Cell::Number(of(&|(_, zip)| zip.requests_per_second / 1000.0), 1),
        ratios.map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" ").into(),
        Cell::Number(ratio, 2),
        goal.zip(verdict).map_or("".into(), |(goal, verdict)| format!("≥ {goal}: {verdict}").into()),
        Cell::Number(of(&|(raw, _)| raw.cpu_us_per_request), 2),
        Cell::Number(of(&|(_, zip)| zip.cpu_us_per_request), 2),
        Cell::Number(of(&|(raw, zip)| raw.cpu_us_per_request / zip.cpu_us_per_request), 2),
    ]
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
