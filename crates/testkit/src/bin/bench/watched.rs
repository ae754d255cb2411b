//! What it costs to count, to time and to be asked: keyfold with none of it, with the slow log alone, as by default, and with
//! metrics as well, which are asked for all the time.
//!
//! All three stand before one server, by one layout, and are asked side by side.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_lab::Table;
use keyfold_testkit::Binary;

use crate::options::{Options, Watched};
use crate::proxy::Proxy;
use crate::redis_benchmark::{self, CLIENTS, LAYOUT};
use crate::report::{Report, cell};
use crate::side_by_side::contests;

/// At most so much of keyfold's time without any of it is wanted with all of it.
const GOAL: f64 = 1.02;

/// Far more often than any Prometheus does; more often, it would be given the same once more.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// Measures without pipelining and with 16 requests at a time, and says which goals are missed.
pub(crate) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    if !redis_benchmark::is_there() {
        eprintln!("bench: redis-benchmark is not on PATH; what metrics cost is not measured");
        return Ok(Vec::new());
    }
    let server = binary.start(&[])?;
    server.put_in_force(&Layout::parse_file(LAYOUT)?)?;
    let started = Watched::ALL.into_iter().map(|watched| Proxy::watched(&server, watched));
    let proxies = started.collect::<anyhow::Result<Vec<_>>>()?;
    let admin = proxies.iter().find_map(Proxy::admin_port).context("metrics are asked for")?;
    let targets: Vec<_> = proxies.iter().map(Proxy::target).collect();
    let title = format!(
        "keyfold without metrics and slow log, with the slow log, and with metrics that are asked for every {} ms, all \
         at once, thousand requests a second and keyfold's CPU µs a request, {CLIENTS} clients each, {} rounds",
        ASKED_EVERY.as_millis(),
        options.rounds
    );
    let mut table = Table::titled(title, &COLUMNS);
    let mut missed = Vec::new();
    for contest in contests(&targets, options, |round| while_asked(admin, round))? {
        let (verdict, why) = contest.verdict(2, GOAL, "metrics cost")?;
        missed.extend(why);
        let slow_log = cell(contest.ratios(1), 3);
        table.row(contest.cells().into_iter().chain([slow_log]).chain(verdict).collect());
    }
    report.add(&binary.name(), &table);
    Ok(missed)
}

const COLUMNS: [&str; 11] = [
    "command",
    "pipeline",
    "bare",
    "slow log",
    "metrics",
    "CPU, bare",
    "slow log",
    "metrics",
    "slow log/bare",
    "metrics/bare",
    "median",
];

/// Asks for metrics again and again while something is done.
fn while_asked<T>(port: u16, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asker = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                ask(port)?;
                thread::sleep(ASKED_EVERY);
            }
            anyhow::Ok(())
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        asker.join().map_err(|_| anyhow::anyhow!("whoever asks for metrics came to an end"))??;
        done
    })
}

fn ask(port: u16) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    anyhow::ensure!(text.ends_with("# EOF\n"), "metrics end so: {}", &text[text.len().saturating_sub(200)..]);
    Ok(())
}
