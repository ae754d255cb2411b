//! `keyfold analyze`: walks over the keys, finds their families, and says what each takes and what to do.
//!
//! The walk has a thread of its own, so that the server answers the next page while families are found in the last.

mod html;
mod json;
mod table;
mod watch;

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use keyfold_core::placement::name::ADMINISTRATION_PREFIX;
use keyfold_report::number::{count, plural};
use keyfold_report::paper::Paper;
use keyfold_server::Nodes;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::stored;
use keyfold_server::memory::{self, Measured, ServerModel};
use keyfold_server::pace::Pace;
use keyfold_server::uses;
use keyfold_survey::advice::{Report, advise};
use keyfold_survey::choose::Aims;
use keyfold_survey::slot_tally;
use keyfold_survey::survey::Survey;
use keyfold_survey::uses::Uses;

use crate::config::analyze::Analyze;
use crate::scan::{self, Database, Denied, End, Page, Values, Walked};
use crate::weighing::{Bounds, Weighing};
use watch::Watch;

/// Pages that may wait for the survey.
const PAGES_AHEAD: usize = 4;

/// Values read to weigh codecs by: an idea of what they do is enough.
const CODEC_BOUNDS: Bounds = Bounds { family_bytes: 1 << 20, all_bytes: 32 << 20 };

/// What is shown, in any form.
struct Analysis {
    server: String,
    address: String,
    report: Report,
    measured: Measured,
    /// What each node of a cluster has; nothing of one server.
    shares: Vec<Share>,
    walked: Walked,
    took: Duration,
    usd_per_gb_month: Option<f64>,
    uses: Uses,
    /// What the reader has to know of the numbers.
    notes: Vec<String>,
}

/// What one node of a cluster has.
struct Share {
    address: String,
    slots: usize,
    keys: u64,
    measured: Measured,
}

pub(crate) fn run(analyze: &Analyze, out: &mut Paper) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;

    let mut nodes = Nodes::connect(&analyze.target)?;
    for server in nodes.servers() {
        if !server.is_ready()? {
            bail!("the server at {} loads its data or runs a script; try again once it is over", server.address());
        }
    }
    let ServerModel { server: which, limits, model, guesses } =
        memory::model_of_all(&mut nodes, &analyze.flags.settings.assume)?;
    let stored = stored::read(nodes.home()).ok().flatten().map(|stored| stored.layout);
    let measured_before = measure(&mut nodes)?;
    let uses = uses::ask(&mut nodes)?;
    let (name, address) = (nodes.first().version().to_string(), analyze.target.address.to_string());
    let chosen = scan::chosen_of_each(nodes.servers(), &analyze.databases)?;
    let total = scan::keys_of(chosen.iter().flatten());
    let mixed = nodes.other_releases();
    let (addresses, slots) = (nodes.addresses(), nodes.slots());

    let started = Instant::now();
    let (survey, mut walked) =
        survey(analyze, nodes, &chosen, Survey::new(model.clone()).over(stored.clone()), &interrupt);
    let took = started.elapsed();
    let measured = measured_after(analyze, &walked).unwrap_or(measured_before);
    let shares = addresses.into_iter().zip(slots).zip(chosen.iter().zip(&measured));
    let shares = shares
        .map(|((address, slots), (databases, measured))| Share {
            address,
            slots,
            keys: scan::keys_of(databases),
            measured: *measured,
        })
        .collect();
    let is_whole = matches!(walked.end, End::Complete) && analyze.walk.sample.is_none();
    let seen = survey.seen();
    let findings = survey.finish(if is_whole { seen } else { total });
    let all_keys = (findings.keys, findings.expiring);
    let aims = Aims { growth: analyze.flags.growth, all_keys, ..Aims::new(model, which, limits) };
    let mut weighing =
        Weighing::new(values(analyze, &walked, chosen), CODEC_BOUNDS, findings.families.len(), &interrupt);
    let report = advise(findings, &aims, stored, &mut |population, even| weighing.codings(population, even));

    let mut notes = guesses;
    notes.extend(mixed);
    notes.extend(slot_tally::notes(&report.hot_slots));
    notes.extend(notes_on(&walked, seen, total, is_whole));
    notes.append(&mut weighing.notes);
    walked.commands += weighing.commands();
    let usd_per_gb_month = analyze.flags.usd_per_gb_month;
    let measured = measured.into_iter().sum();
    let analysis =
        Analysis { server: name, address, report, measured, shares, walked, took, usd_per_gb_month, uses, notes };
    show(analyze, &analysis, out)?;
    match analysis.walked.end {
        End::Lost(error) => Err(error
            .context(format!("the walk ended early; what was seen until then, {}, is reported", plural(seen, "key")))),
        End::Complete | End::Stopped => Ok(()),
    }
}

/// Once more after the walk, on a connection of its own: a table that was growing has mostly settled by then, and the
/// walk's own buffers are gone. The server may be gone, too.
fn measured_after(analyze: &Analyze, walked: &Walked) -> Option<Vec<Measured>> {
    if matches!(walked.end, End::Lost(_)) {
        return None;
    }
    measure(&mut Nodes::connect(&analyze.target).ok()?).ok()
}

/// What each server says of its memory.
fn measure(nodes: &mut Nodes) -> anyhow::Result<Vec<Measured>> {
    nodes.servers().iter_mut().map(memory::measured).collect()
}

/// Who reads values to weigh codecs by: nobody where that is not wanted, or the walk was ended.
fn values(analyze: &Analyze, walked: &Walked, databases: Vec<Vec<Database>>) -> Option<Values> {
    if analyze.flags.no_values || !matches!(walked.end, End::Complete) || walked.denied.contains("GET") {
        return None;
    }
    let nodes = Nodes::connect(&analyze.target).ok()?;
    Some(Values::new(nodes, databases, Pace::new(analyze.walk.max_ops)))
}

/// Walks and surveys side by side.
fn survey(
    analyze: &Analyze,
    mut nodes: Nodes,
    databases: &[Vec<Database>],
    mut survey: Survey,
    interrupt: &Interrupt,
) -> (Survey, Walked) {
    let total = scan::keys_of(databases.iter().flatten());
    let mut watch = Watch::new(analyze.walk.sample.map_or(total, |sample| sample.get().min(total)));
    let (sender, pages) = mpsc::sync_channel::<Page>(PAGES_AHEAD);
    let walked = std::thread::scope(|scope| {
        let walk = scope.spawn(move || {
            analyze.walk.run(nodes.servers(), databases, &mut |page| {
                let goes_on = !interrupt.wanted() && sender.send(page).is_ok();
                if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        });
        for page in pages {
            // What keyfold keeps for itself is no family of anybody's.
            for observation in page.keys.iter().filter(|one| !one.key.starts_with(ADMINISTRATION_PREFIX)) {
                survey.observe(page.database, observation);
            }
            watch.advance(page.keys.len());
        }
        walk.join()
    });
    match walked {
        Ok(walked) => (survey, walked),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn notes_on(walked: &Walked, seen: u64, total: u64, is_whole: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let of = format!("{} of about {} were looked at", plural(seen, "key"), count(total));
    match &walked.end {
        End::Complete if !is_whole => notes.push(format!("{of}; ± is the interval of 95% confidence")),
        End::Stopped => notes.push(format!("stopped: {of}; ± is the interval of 95% confidence")),
        End::Lost(_) => notes.push(format!("the connection was lost: {of}; ± is the interval of 95% confidence")),
        End::Complete => {}
    }
    for (command, error) in walked.denied.iter() {
        notes.push(format!("the server refused {command} ({error}): {}", Denied::consequence(command)));
    }
    notes
}

fn show(analyze: &Analyze, analysis: &Analysis, out: &mut Paper) -> anyhow::Result<()> {
    if let Some(path) = &analyze.flags.html {
        std::fs::write(path, html::page(analysis)).with_context(|| format!("can't write {}", path.display()))?;
    }
    if analyze.flags.json {
        out.whole(format_args!("{:#}", json::value(analysis)))?;
    } else {
        writeln!(out, "{}", table::render(analysis, out.room()))?;
        if let Some(path) = &analyze.flags.html {
            writeln!(out, "\nreport: {}", path.display())?;
        }
    }
    Ok(out.flush()?)
}

impl Analysis {
    /// What bytes cost in a month.
    fn usd(&self, bytes: f64) -> Option<f64> {
        self.usd_per_gb_month.map(|price| price * bytes / 1e9)
    }

    /// So many bytes of all keys, as far as they are those of one node's.
    fn of_node(&self, share: &Share, bytes: u64) -> f64 {
        let keys: u64 = self.shares.iter().map(|share| share.keys).sum();
        bytes as f64 * share.keys as f64 / keys.max(1) as f64
    }

    fn is_sampled(&self) -> bool {
        self.report.seen < self.report.keys
    }
}
