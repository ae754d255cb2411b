//! What a run found: a line of JSON for each step as it ends, and tables of Markdown at the end.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use keyfold_testkit::load::Latencies;
use serde_json::json;

use crate::clients::Felt;
use crate::options::Options;
use crate::tool::Took;

/// What a tool may take, whatever the number of keys.
const MOST_BYTES: u64 = 200_000_000;

/// One step.
pub(crate) struct Row {
    name: String,
    time: Duration,
    /// None where no tool ran.
    peak_bytes: Option<u64>,
    used_bytes: u64,
    answers: u64,
    errors: u64,
    latencies: [Duration; 3],
}

impl Row {
    /// What was done without a tool.
    pub(crate) fn of_server(name: &str, time: Duration, used_bytes: u64) -> Self {
        let (name, latencies) = (name.to_owned(), [Duration::ZERO; 3]);
        Self { name, time, peak_bytes: None, used_bytes, answers: 0, errors: 0, latencies }
    }

    /// A tool's run, with what the server holds after it and what clients felt.
    pub(crate) fn of_tool(name: &str, took: Took, used_bytes: u64, felt: &Felt) -> Self {
        Self {
            name: name.to_owned(),
            time: took.time,
            peak_bytes: Some(took.peak_bytes),
            used_bytes,
            answers: felt.answers,
            errors: felt.errors,
            latencies: quantiles(&felt.latencies),
        }
    }

    fn cells(&self) -> String {
        let felt = if self.answers == 0 {
            "– | –".to_owned()
        } else {
            format!("{} | {}", ms(self.latencies[1]), ms(self.latencies[2]))
        };
        format!(
            "| {} | {:.1} | {} | {} | {felt} | {} |",
            self.name,
            self.time.as_secs_f64(),
            self.peak_bytes.map_or_else(|| "–".to_owned(), megabytes),
            megabytes(self.used_bytes),
            self.errors
        )
    }
}

/// The median, the 99th percentile, and the longest.
fn quantiles(latencies: &Latencies) -> [Duration; 3] {
    [latencies.quantile(500), latencies.quantile(990), latencies.longest()]
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10)
}

fn ms(duration: Duration) -> String {
    format!("{:.2}", duration.as_secs_f64() * 1000.0)
}

/// Where results go.
pub(crate) struct Results {
    dir: PathBuf,
    lines: File,
    head: String,
    rows: Vec<Row>,
    beside: Vec<String>,
}

impl Results {
    /// Begins anew in the directory that the options name.
    pub(crate) fn begin(options: &Options, server: &str) -> anyhow::Result<Self> {
        let dir = options.out.clone();
        fs::create_dir_all(&dir).with_context(|| format!("can't make {}", dir.display()))?;
        let mut lines = File::create(dir.join("results.jsonl"))?;
        let (keys, rate) = (options.keys, options.rate);
        writeln!(lines, "{}", json!({ "server": server, "keys": keys, "rate": rate }))?;
        let head = format!("{server}, {keys} keys, {rate} commands a second through one keyfold");
        println!("{head}");
        Ok(Self { dir, lines, head, rows: Vec::new(), beside: Vec::new() })
    }

    /// Where a tool writes what it says.
    pub(crate) fn log_of(&self, step: &str) -> PathBuf {
        let name: String = step.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect();
        self.dir.join(format!("{:02}-{name}.log", self.rows.len()))
    }

    /// A step that has ended.
    pub(crate) fn add(&mut self, row: Row) -> anyhow::Result<()> {
        let [median, p99, longest] = row.latencies.map(|latency| latency.as_secs_f64() * 1000.0);
        let line = json!({
            "step": row.name, "seconds": row.time.as_secs_f64(), "peak_bytes": row.peak_bytes,
            "used_bytes": row.used_bytes, "answers": row.answers, "errors": row.errors,
            "median_ms": median, "p99_ms": p99, "longest_ms": longest,
        });
        writeln!(self.lines, "{line}")?;
        println!("{}", row.cells());
        self.rows.push(row);
        Ok(())
    }

    /// GETs beside commands on many keys.
    pub(crate) fn add_beside(
        &mut self,
        place: &str,
        measured: &[(&'static str, Latencies, Duration)],
    ) -> anyhow::Result<()> {
        for (command, latencies, took) in measured {
            let [median, p99, longest] = quantiles(latencies).map(ms);
            let cells = format!("| {place} | {command} | {} | {median} | {p99} | {longest} |", ms(*took));
            let line = json!({ "beside": command, "place": place, "ms": ms(*took), "median_ms": median, "p99_ms": p99,
                "longest_ms": longest });
            writeln!(self.lines, "{line}")?;
            println!("{cells}");
            self.beside.push(cells);
        }
        Ok(())
    }

    /// The tables, in a file and on standard output. Fails where a tool took too much memory.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let rows: Vec<String> = self.rows.iter().map(Row::cells).collect();
        let table = format!(
            "{}\n\n| step | s | tool's peak, MB | server then, MB | clients' p99, ms | longest, ms | errors |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n{}\n\n\
             GET every millisecond beside commands on 10,000 keys:\n\n\
             | where | beside | it takes, ms | GET median, ms | p99, ms | longest, ms |\n\
             | --- | --- | --- | --- | --- | --- |\n{}\n",
            self.head,
            rows.join("\n"),
            self.beside.join("\n")
        );
        fs::write(self.dir.join("table.md"), &table)?;
        println!("\n{table}");
        let large = self.rows.iter().filter(|row| row.peak_bytes.is_some_and(|bytes| bytes > MOST_BYTES));
        let large: Vec<&str> = large.map(|row| row.name.as_str()).collect();
        ensure!(large.is_empty(), "more than {} MB of memory: {}", MOST_BYTES / 1_000_000, large.join(", "));
        Ok(())
    }
}
