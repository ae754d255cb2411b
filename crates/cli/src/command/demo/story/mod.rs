//! The whole story, in about a minute: plain keys under load, analyzed, planned, folded, verified.
//!
//! What a user would type is run as it is: the demo shows each command and what it prints. Beside it clients read
//! and write through keyfold all the time, and check every answer.

pub(super) mod load;
pub(super) mod page;
pub(super) mod watch;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use keyfold_core::layout::Layout;
use keyfold_lab::data_sets::records::{DataSet, Record};
use keyfold_lab::load::{read_back, write};
use keyfold_lab::through::Through;
use keyfold_report::number::{plural, size};
use keyfold_report::paper::Paper;
use keyfold_report::table;
use keyfold_server::OwnServer;
use serde_json::Value;

use super::clients::{Answers, CLIENTS};
use super::schedule::Sample;
use load::Load;
use watch::{Reading, Watch};

/// How long the load goes on before anything is done, and after the fold.
const CALM: Duration = Duration::from_secs(3);

/// What is to be told.
pub(crate) struct Story<'a> {
    pub(crate) sets: &'a [DataSet],
    pub(crate) server: Option<&'a Path>,
    /// Where the page goes.
    pub(crate) html: &'a Path,
}

/// A part of the story, with the commands that were due in it.
pub(super) struct Phase {
    name: &'static str,
    pub(super) from: Duration,
    pub(super) to: Duration,
    samples: Vec<Sample>,
}

impl Phase {
    /// The part from one time to another, of all samples of a story.
    pub(super) fn of(name: &'static str, from: Duration, to: Duration, samples: &[Sample]) -> Self {
        let samples = samples.iter().filter(|sample| (from..to).contains(&sample.due)).copied().collect();
        Self { name, from, to, samples }
    }
}

/// All that was seen.
struct Told {
    server: String,
    keys: u64,
    clients: usize,
    before_bytes: u64,
    after_bytes: u64,
    predicted_bytes: u64,
    wrong: u64,
    fold_began: Duration,
    samples: Vec<Sample>,
    readings: Vec<Reading>,
    phases: Vec<Phase>,
    /// What was run, and what it printed.
    commands: Vec<(String, String)>,
}

impl Told {
    fn ratio(&self) -> f64 {
        self.before_bytes as f64 / self.after_bytes.max(1) as f64
    }
}

/// Tells it.
///
/// # Errors
/// A command failed, or an answer was wrong.
pub(crate) fn tell(story: &Story<'_>, out: &mut Paper) -> anyhow::Result<()> {
    let own = OwnServer::start(story.server, None)?;
    let mut gauge = own.connect()?;
    let keys = story.sets.iter().map(|set| set.records.len() as u64).sum();
    writeln!(out, "{}: writing {} as plain keys", gauge.version(), plural_keys(keys))?;
    let written = Instant::now();
    let mut client = own.connect()?;
    for set in story.sets {
        write(&mut client, &set.name, &set.records, "plain")?;
        // Looking at every key settles the table of keys too.
        read_back(&mut client, &set.name, &set.records, written)?;
    }
    let proxy = Through::start(own.target(), &Layout::default())?;
    let through = proxy.target();
    let records: Vec<Record> = story.sets.iter().flat_map(|set| set.records.iter().cloned()).collect();
    let started = Instant::now();
    let watch = Watch::start(own.target(), started)?;
    let load = Load::start(through, records, started)?;
    writeln!(out, "clients read and write through keyfold from now on, and check every answer\n")?;
    thread::sleep(CALM);
    let folder = tempfile::tempdir().context("can't make a folder for the layout")?;
    let mut teller = Teller::new(own.target().address.to_string(), folder.path());
    let before_bytes = gauge.used_memory()?;
    teller.run(&["analyze"], &[], out)?;
    let layout = teller.folder.join("layout.toml");
    let layout = layout.to_string_lossy().into_owned();
    teller.run(&["plan"], &["--out", &layout], out)?;
    let fold_began = started.elapsed();
    let predicted_bytes = teller.predicted(&layout)?;
    teller.run(&["fold"], &["--layout", &layout, "--raise-limits", "--yes"], out)?;
    let fold_ended = started.elapsed();
    thread::sleep(CALM);
    let Answers { samples, wrong, told, records } = load.stop()?;
    let after_bytes = gauge.used_memory()?;
    let readings = watch.stop()?;
    let ended = started.elapsed();
    teller.run(&["verify"], &[], out)?;
    teller.run(&["doctor"], &[], out)?;
    read_all_back(through, &records)?;
    let phase = |name, from, to| Phase::of(name, from, to, &samples);
    let seen = Told {
        server: gauge.version().to_string(),
        keys,
        clients: CLIENTS,
        before_bytes,
        after_bytes,
        predicted_bytes,
        wrong,
        fold_began,
        phases: vec![
            phase("before", Duration::ZERO, CALM),
            phase("folding", fold_began, fold_ended),
            phase("after", fold_ended, ended),
        ],
        samples,
        readings,
        commands: teller.commands,
    };
    drop(proxy);
    own.stop();
    conclude(story, &seen, &told, out)
}

fn conclude(story: &Story<'_>, seen: &Told, told: &[String], out: &mut Paper) -> anyhow::Result<()> {
    writeln!(
        out,
        "memory: {} before, {} after ({} predicted), {:.1} times less",
        size(seen.before_bytes),
        size(seen.after_bytes),
        size(seen.predicted_bytes),
        seen.ratio()
    )?;
    writeln!(out, "\n{}\n", table::render(&page::heads(), seen.phases.iter().map(page::row), out.room()))?;
    fs::write(story.html, page::page(seen)).with_context(|| format!("can't write {}", story.html.display()))?;
    writeln!(out, "the same over time: {}", story.html.display())?;
    if seen.wrong > 0 {
        bail!("{} answers were wrong:\n  {}", seen.wrong, told.join("\n  "));
    }
    writeln!(out, "{}, every answer right, every key there at the end", plural(seen.samples.len() as u64, "command"))?;
    Ok(())
}

/// Reads every key through keyfold once more.
fn read_all_back(through: &keyfold_server::Target, records: &[Record]) -> anyhow::Result<()> {
    let mut client = keyfold_server::Server::connect(through)?;
    for chunk in records.chunks(500) {
        let mut commands = keyfold_server::Commands::default();
        chunk.iter().for_each(|record| commands.push(&[b"GET", &record.key]));
        let values: Vec<Option<Vec<u8>>> = client.query_all(&commands).context("can't read values back")?;
        let lost = chunk.iter().zip(&values).find(|(record, value)| value.as_ref() != Some(&record.value));
        if let Some((record, value)) = lost {
            bail!("at the end \"{}\" holds {value:?}", record.key.escape_ascii());
        }
    }
    Ok(())
}

fn plural_keys(keys: u64) -> String {
    plural(keys, "key")
}

/// Runs keyfold's own commands as a user would, and keeps what they print.
pub(super) struct Teller {
    url: String,
    folder: PathBuf,
    pub(super) commands: Vec<(String, String)>,
}

impl Teller {
    /// Runs them on the server at this address; their files are in this folder.
    pub(super) fn new(url: String, folder: &Path) -> Self {
        Self { url, folder: folder.to_owned(), commands: Vec::new() }
    }

    /// The same at another address of it.
    pub(super) fn at(self, url: String) -> Self {
        Self { url, ..self }
    }

    pub(super) fn run(&mut self, command: &[&str], args: &[&str], out: &mut Paper) -> anyhow::Result<()> {
        let shown = self.shown(command, args);
        writeln!(out, "$ {shown}")?;
        out.flush()?;
        let text = self.output(command, args)?;
        writeln!(out, "{}\n", text.trim_end())?;
        self.commands.push((shown, text));
        Ok(())
    }

    /// The command line as it would be typed, without this demo's folders.
    fn shown(&self, command: &[&str], args: &[&str]) -> String {
        let folder = format!("{}/", self.folder.display());
        let words = command.iter().chain(&["URL"]).chain(args).map(|word| word.replace(&folder, ""));
        format!("keyfold {}", words.collect::<Vec<_>>().join(" "))
    }

    fn output(&self, command: &[&str], args: &[&str]) -> anyhow::Result<String> {
        let program = std::env::current_exe().context("can't find this program")?;
        let output = Command::new(program)
            .args(command)
            .arg(&self.url)
            .args(args)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("can't run keyfold {}", command.join(" ")))?;
        let text = String::from_utf8_lossy(&output.stdout).replace(&format!("{}/", self.folder.display()), "");
        // 3 is: done, but not all is well. What it is, is in what it prints.
        if !matches!(output.status.code(), Some(0 | 3)) {
            bail!("keyfold {} failed ({})\n{text}", command.join(" "), output.status);
        }
        Ok(text)
    }

    /// What a dry run predicts.
    fn predicted(&self, layout: &str) -> anyhow::Result<u64> {
        let text = self.output(&["fold"], &["--layout", layout, "--raise-limits", "--dry-run", "--json"])?;
        let report: Value = serde_json::from_str(&text).context("the dry run's report is no JSON")?;
        report["memory"]["predicted_bytes"].as_u64().context("the dry run predicts nothing")
    }
}
