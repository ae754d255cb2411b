//! How fast keys move, and what a load feels of it: `keyfold fold` and `unfold` on a server with made-up records.
//!
//! The load sends commands at fixed times over several connections through one proxy, and counts each answer's
//! time from when its command was due, so that a stall shows in all commands that it held up.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Parser;
use keyfold_testkit::load::{Client, Counters, Held, Latencies, Load, Report};
use keyfold_testkit::{Binary, Server, Subject, Wire, newest, subject};

const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n";
/// Of the load alone, before and after each move.
const ASIDE: Duration = Duration::from_secs(4);
const KEYS_A_CLIENT: u64 = 1000;

/// How fast keys move, and what a load feels of it.
#[derive(Parser)]
#[command(args_override_self = true)]
struct Options {
    /// Keys that are moved
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    records: u64,
    /// Commands a second of the load; 0 for none
    #[arg(long, value_name = "N", default_value_t = 5000)]
    rate: u32,
    /// Its connections
    #[arg(long, value_name = "N", default_value_t = 4)]
    clients: u32,
    /// Folds and unfolds
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// The server, as in `redis 7.0.15` or `valkey` [default: the newest at hand]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = newest)]
    server: Binary,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let binary = &options.server;
    println!("{}, {} keys, {} commands a second", binary.name(), options.records, options.rate);
    let server = binary.start(&[])?;
    fill(&mut server.connect()?, options.records)?;
    let proxy = Subject::beside(&server)?;
    let mut clients = clients(&options);
    for round in 1..=options.rounds {
        for direction in ["fold", "unfold"] {
            clients = measure(&options, &server, &proxy, direction, round, clients)?;
        }
    }
    Ok(())
}

fn measure(
    options: &Options,
    server: &Server,
    proxy: &Subject,
    direction: &str,
    round: u32,
    clients: Vec<Client>,
) -> anyhow::Result<Vec<Client>> {
    let every = Duration::from_secs(1).checked_mul(options.clients).and_then(|all| all.checked_div(options.rate));
    let (mut load, mut idle) = (None, None);
    match every {
        Some(every) => load = Some(Load::start(clients, &[proxy.address()], Some(every))),
        None => idle = Some(clients),
    }
    let aside = if load.is_some() { ASIDE } else { Duration::ZERO };
    std::thread::sleep(aside);
    let began = Instant::now();
    let moved = run(server, direction)?;
    let ended = Instant::now();
    std::thread::sleep(aside);
    let mut report = Report::default();
    let mut clients = load.map(Load::stop).or(idle).unwrap_or_default();
    clients.iter_mut().for_each(|client| report.extend(client.take_report()));
    ensure!(report.wrong.is_empty(), "wrong answers: {}", report.wrong.join("\n"));
    println!("{round} {direction}: {moved}");
    let all = &report.latencies;
    if !all.is_empty() {
        println!("    before {}", told(&all.between(began - aside, began)));
        println!("    while  {}", told(&all.between(began, ended)));
        println!("    after  {}", told(&all.between(ended, ended + aside)));
        println!("    errors {:?}, lost connections {}", report.errors, report.lost);
    }
    Ok(clients)
}

fn told(latencies: &Latencies) -> String {
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let [median, p99, longest] = [latencies.quantile(500), latencies.quantile(990), latencies.longest()].map(ms);
    format!("{:7} answers, median {median:.2} ms, p99 {p99:.2} ms, longest {longest:.1} ms", latencies.len())
}

/// Runs the move; what it says of itself.
fn run(server: &Server, direction: &str) -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    let layout = dir.path().join("layout.toml");
    std::fs::write(&layout, LAYOUT)?;
    let mut command = Command::new(subject::program());
    command.args([direction, &server.url(), "--yes", "--json"]).stdin(Stdio::null());
    if direction == "fold" {
        command.arg("--layout").arg(&layout);
    }
    let started = Instant::now();
    let output = command.output()?;
    let whole = started.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{direction}: {}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    let (moved, seconds, memory) = (number(&report["moved"]), number(&report["seconds"]), &report["memory"]);
    let size = |name: &str| number(&memory[name]) / f64::from(1 << 20);
    let [before, predicted, after, peak] = ["before_bytes", "predicted_bytes", "after_bytes", "peak_bytes"].map(size);
    Ok(format!(
        "{moved} keys in {seconds:.2} s, {:.0} a second ({whole:.2} s with the survey); MiB: {before:.1} before, \
         {peak:.1} at most ({:+.1} %), {after:.1} after, {predicted:.1} predicted ({:+.1} %); load average {}",
        moved / seconds,
        (peak / before - 1.0) * 100.0,
        (predicted / after - 1.0) * 100.0,
        std::fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default(),
    ))
}

/// Clients whose keys are among the records.
fn clients(options: &Options) -> Vec<Client> {
    let counters = Counters::new([b"user:999999999".to_vec()].into_iter());
    let keys = |client: u64| {
        let step = (options.records / KEYS_A_CLIENT / u64::from(options.clients)).max(1);
        (0..KEYS_A_CLIENT)
            .map(move |at| (at * u64::from(options.clients) + client) * step)
            .filter(|id| *id < options.records)
    };
    let held = |id: u64| Held { value: value_of(id).into(), expires_at_ms: None };
    let client = |client: u64| {
        let keys = keys(client).map(|id| (format!("user:{id}").into_bytes(), Some(held(id))));
        Client::new(client, keys, &counters)
    };
    (0..u64::from(options.clients)).map(client).collect()
}

fn value_of(id: u64) -> Vec<u8> {
    (id * 7919 % 2_147_483_647).to_string().into_bytes()
}

fn fill(wire: &mut Wire, records: u64) -> anyhow::Result<()> {
    for start in (0..records).step_by(1000) {
        let ids = start..(start + 1000).min(records);
        for id in ids.clone() {
            wire.send(&[b"SET", format!("user:{id}").as_bytes(), &value_of(id)])?;
        }
        for _ in ids {
            ensure!(wire.reply()? == b"+OK\r\n", "SET is refused");
        }
    }
    Ok(())
}
