//! Requests a second by redis-benchmark, and the processor time that they took.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::Context;

use crate::options::Options;

/// The keys that it writes in place of this: `key:000000012345`.
pub(crate) const RANDOM_KEY: &str = "key:__rand_int__";

/// The layout that folds these.
pub(crate) const LAYOUT: &str = "[[namespace]]\nkeys = \"key:{id:int(12)}\"\nbucket = { span = 128 }\n";

/// What most is measured with. SET comes first: it writes the keys that the others then find.
pub(crate) const SET_AND_GET: [&[&str]; 2] = [&["SET", RANDOM_KEY, "1000"], &["GET", RANDOM_KEY]];

/// Clients that ask at once.
pub(crate) const CLIENTS: usize = 50;

/// How requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) clients: usize,
    pub(crate) pipeline: usize,
    pub(crate) requests: usize,
    /// How many numbers it draws from.
    pub(crate) numbers: usize,
}

impl Load {
    /// Without pipelining, and with 16 requests at a time.
    pub(crate) fn both(options: &Options) -> [Self; 2] {
        let scale = if options.quick { 20 } else { 1 };
        let load = |pipeline, requests| Self { clients: CLIENTS, pipeline, requests, numbers: 100_000 };
        [load(1, 200_000 / scale), load(16, 1_000_000 / scale)]
    }
}

/// Who is asked, and whose processor time is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) port: u16,
    pub(crate) pid: u32,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) requests_per_second: f64,
    pub(crate) p99_ms: f64,
    /// Of the process that was asked.
    pub(crate) cpu_us_per_request: f64,
}

/// Whether there is one on PATH.
pub(crate) fn is_there() -> bool {
    Command::new("redis-benchmark").arg("--version").output().is_ok()
}

/// Sends one command again and again, `__rand_int__` in it replaced by a number of twelve digits.
///
/// # Errors
/// Where it can't be started, or an answer is an error.
pub(crate) fn run(target: Target, command: &[impl AsRef<OsStr>], load: Load) -> anyhow::Result<Run> {
    Ok(run_beside(target, &[], command, load)?.0)
}

/// The same, and the processor time in µs a request that other processes took meanwhile.
pub(crate) fn run_beside(
    target: Target,
    others: &[u32],
    command: &[impl AsRef<OsStr>],
    load: Load,
) -> anyhow::Result<(Run, Vec<f64>)> {
    let text = |number: usize| number.to_string();
    let pids: Vec<u32> = std::iter::once(target.pid).chain(others.iter().copied()).collect();
    let before = pids.iter().map(|pid| cpu_ticks(*pid)).collect::<anyhow::Result<Vec<_>>>()?;
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &target.port.to_string(), "--csv", "-r", &text(load.numbers)])
        .args(["-c", &text(load.clients), "-n", &text(load.requests), "-P", &text(load.pipeline)])
        .args(command)
        .output()
        .context("starting redis-benchmark")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(!said.contains("Error from server"), "{said}");
    let figures = figures(&said).with_context(|| format!("redis-benchmark has no figures: {said}"))?;
    let mut cpu = Vec::new();
    for (pid, before) in pids.iter().zip(before) {
        cpu.push(us_per_request(cpu_ticks(*pid)? - before, load.requests));
    }
    let cpu_us_per_request = cpu.remove(0);
    Ok((Run { requests_per_second: figures.0, p99_ms: figures.1, cpu_us_per_request }, cpu))
}

/// Requests a second and the 99th percentile in milliseconds, from the last line of its CSV:
/// `"command","rps","avg","min","p50","p95","p99","max"`. The command may hold anything.
fn figures(csv: &str) -> Option<(f64, f64)> {
    let line = csv.lines().rev().find(|line| line.starts_with('"') && line.ends_with('"'))?;
    let cells: Vec<&str> = line.rsplit(',').take(7).collect();
    let number = |index: usize| cells.get(index)?.trim_matches('"').parse().ok();
    Some((number(6)?, number(1)?))
}

/// What Linux counts a process's time in: a hundredth of a second.
const TICK_US: u64 = 10_000;

#[expect(clippy::cast_precision_loss, reason = "requests and ticks stay far below 2⁵³")]
fn us_per_request(ticks: u64, requests: usize) -> f64 {
    (ticks * TICK_US) as f64 / requests as f64
}

/// The processor time that a process has taken, its threads included.
fn cpu_ticks(pid: u32) -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may hold spaces; utime and stime are the 12th and 13th field after it.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().context("the process's time")).sum()
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let high = *numbers.get(middle)?;
    Some(if numbers.len() % 2 == 1 { high } else { (numbers[middle - 1] + high) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::{figures, median};

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn figures_are_the_last_cells_of_the_last_line() {
        let csv = "\"test\",\"rps\",\"avg\"\n\"SET a,b\",\"5000.50\",\"0.1\",\"0.2\",\"0.3\",\"0.4\",\"0.5\",\"0.6\"\n";
        assert_eq!(figures(csv), Some((5000.5, 0.5)));
        assert_eq!(figures("nothing"), None);
    }
}
