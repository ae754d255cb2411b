//! Experiments on servers: the published studies of folded keys, done again, and what any measurement of folding needs.
//!
//! `keyfold lab` runs the studies; `keyfold demo` and the benchmarks measure by the same loads and gauges.
//!
//! | room | what it holds |
//! | --- | --- |
//! | `options.rs` | what a run is told |
//! | `study.rs`, `studies` | what a study is, and each of them |
//! | `ground.rs`, `mark.rs` | the server under study, left as it was found |
//! | `bench.rs`, `gauge.rs`, `writer.rs`, `weight.rs` | what a study works with: readings of memory to the byte, commands in batches |
//! | `kept.rs` | measurements that take long, kept for a study that is stopped and begun again |
//! | `physical.rs` | records as a server holds them, to be written and to be modelled |
//! | `outcome.rs` | what came of it |
//! | `results.rs`, `report.rs` | the files and the page |
//! | `data_sets` | records read from files or made up, with the layouts that fold them |
//! | `load.rs` | records written over a connection, and read back |
//! | `through.rs` | a keyfold before a server, in this process |
//! | `folding.rs` | sets and hashes written through it, and what the model expects of them |
//! | `timing.rs` | how long commands take, by the server's clock and by the client's |
//! | `measure.rs` | one data set, plain and folded, each on an empty server of its own |
//! | `objects.rs` | what caches are asked for: keys, values, requests, and places |
//! | `zipf.rs` | ranks by Zipf's law |
//! | `at_once.rs` | work divided among threads |
#![forbid(unsafe_code)]

pub mod at_once;
mod bench;
pub mod data_sets;
mod folding;
mod gauge;
mod ground;
mod kept;
pub mod load;
mod mark;
pub mod measure;
mod objects;
mod options;
mod outcome;
mod physical;
mod report;
mod results;
mod studies;
mod study;
pub mod through;
mod timing;
mod weight;
mod writer;
mod zipf;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use keyfold_report::number::tenths;
use keyfold_report::paper::Paper;
use keyfold_report::table::{Column, render};
use keyfold_server::interrupt::{Interrupt, Interrupted};
use serde_json::json;

use bench::Bench;
use ground::Ground;
use report::Done;
use results::Results;
use study::Study;

pub use options::{GroundConfig, GroundPlace, Options, Run, Scale};
pub use outcome::{Cell, Table};

/// Done, but a part could not be, or the model was off.
const NOT_ALL_WELL: u8 = 3;

/// Lists the studies.
///
/// # Errors
/// What `out` says.
pub fn list(out: &mut Paper) -> anyhow::Result<ExitCode> {
    let heads = [Column::word("study"), Column::sentence("after").rank(1), Column::sentence("asks")];
    let rows = studies::all().into_iter().map(|study| {
        let about = study.about();
        vec![about.name.to_owned(), format!("{}, {}", about.by, about.year), about.asks.to_owned()]
    });
    writeln!(out, "{}", render(&heads, rows, out.room()))?;
    Ok(ExitCode::SUCCESS)
}

fn chosen(name: Option<&str>) -> anyhow::Result<Vec<Box<dyn Study>>> {
    let Some(name) = name else { return Ok(studies::all()) };
    let (chosen, others): (Vec<_>, Vec<_>) = studies::all().into_iter().partition(|study| study.about().name == name);
    if chosen.is_empty() {
        let names: Vec<_> = others.iter().map(|study| study.about().name).collect();
        bail!("there is no study {name}; there are {}", names.join(", "));
    }
    Ok(chosen)
}

/// Runs studies, and writes their results.
///
/// # Errors
/// Failed or interrupted; the server is as it was, or the error says in what it is not.
pub fn run(run: &Run, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let studies = chosen(run.study.as_deref())?;
    let results = Results::open(&run.out)?;
    let interrupt = Interrupt::listen()?;
    let (mut ground, mended) = Ground::open(&run.ground, &results)?;
    if let Some(mended) = mended {
        writeln!(out, "{mended}\n")?;
    }
    let ran = run_each(run, &studies, &results, &mut ground, &interrupt, out);
    let left = ground.leave();
    match (ran, left) {
        (Ok(code), Ok(())) => Ok(code),
        (Ok(_), Err(left)) => Err(left),
        (Err(error), Ok(())) if error.is::<Interrupted>() => {
            Err(error.context("the lab was interrupted; the server is as it was"))
        }
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(left)) => Err(left.context(error)),
    }
}

fn run_each(
    run: &Run,
    studies: &[Box<dyn Study>],
    results: &Results,
    ground: &mut Ground,
    interrupt: &Interrupt,
    out: &mut Paper,
) -> anyhow::Result<ExitCode> {
    let mut done = Vec::new();
    for study in studies {
        let one = run_one(run, study.as_ref(), ground, interrupt)?;
        keep(run, &one, &results.study(one.about.name))?;
        print(&one, out)?;
        done.push(one);
        results.write("report.html", report::page(&done)?.as_bytes())?;
    }
    writeln!(out, "all of it on a page: {}", results.path("report.html").display())?;
    let well = done.iter().all(|one| one.outcome.is_well());
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALL_WELL) })
}

/// Runs a study, and leaves the server without its keys and settings, however it ends.
fn run_one(run: &Run, study: &dyn Study, ground: &mut Ground, interrupt: &Interrupt) -> anyhow::Result<Done> {
    let (about, started) = (study.about(), Instant::now());
    let mut bench = Bench::new(ground, interrupt)?;
    let server = bench.server_name()?;
    let ran = study.run(&mut bench, &run.options);
    let cleared = bench.clear();
    let guesses = bench.into_guesses();
    let restored = ground.restore();
    let mut outcome = ran?;
    outcome.notes.extend(guesses);
    cleared?;
    restored?;
    if ground.is_shared() {
        outcome.beside_others();
    }
    let mut conditions = format!("{server}, {}", outcome.settings);
    if conditions.ends_with(", ") {
        conditions.truncate(conditions.len() - 2);
    }
    let conditions = format!("{conditions}, seed {}", run.options.seed);
    Ok(Done { about, outcome, conditions, seconds: started.elapsed().as_secs_f64() })
}

/// Writes the files of a study.
fn keep(run: &Run, done: &Done, results: &Results) -> anyhow::Result<()> {
    let Done { about, outcome, conditions, seconds } = done;
    for table in &outcome.tables {
        results.write(&format!("{}.csv", table.name), &table.csv()?)?;
    }
    for plot in &outcome.plots {
        results.write(&format!("{}.svg", plot.name), plot.svg(conditions, true)?.as_bytes())?;
        results.write(&format!("{}.png", plot.name), &plot.png(conditions)?)?;
    }
    let scale = match run.options.scale {
        Scale::Quick => json!("quick"),
        Scale::Times(times) => json!(times),
        Scale::Full => json!("full"),
    };
    let mut result = json!({
        "study": about.name,
        "original": { "by": about.by, "year": about.year, "figure": about.figure },
        "asks": about.asks,
        "keyfold": env!("CARGO_PKG_VERSION"),
        "conditions": conditions,
        "scale": scale,
        "seed": run.options.seed,
        "seconds": seconds,
    });
    if let (Some(result), serde_json::Value::Object(outcome)) = (result.as_object_mut(), outcome.json()) {
        result.extend(outcome);
    }
    results.write("result.json", format!("{result:#}\n").as_bytes())
}

fn print(done: &Done, out: &mut Paper) -> anyhow::Result<()> {
    let Done { about, outcome, conditions, seconds } = done;
    writeln!(out, "{} ({}, {}): {}", about.name, about.by, about.year, outcome.verdict)?;
    writeln!(out, "{conditions}; {} s\n", tenths(*seconds))?;
    let rows = outcome.comparisons.iter().map(report::comparison_row);
    writeln!(out, "{}\n", render(&report::comparison_heads(), rows, out.room()))?;
    for part in &outcome.left_out {
        writeln!(out, "left out: {part}")?;
    }
    if let Some(worst) = outcome.worst_error_percent() {
        writeln!(out, "the memory model was off by {worst:+.2} % at worst\n")?;
    }
    Ok(())
}
