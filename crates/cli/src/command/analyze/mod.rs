//! `keyfold analyze`: walks over the keys, finds their families, and says what each takes and what to do.
//!
//! The walk has a thread of its own, so that the server answers the next page while families are found in the last.

mod cache;
mod html;
mod json;
mod table;
mod watch;

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_core::placement::name::ADMINISTRATION_PREFIX;
use keyfold_report::number::{count, plural};
use keyfold_report::paper::Paper;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::memory::{Measured, ServerModel};
use keyfold_survey::advice::{Advice, Report, advise, is_weighed};
use keyfold_survey::choose::Aims;
use keyfold_survey::remedy::REWRITTEN;
use keyfold_survey::slot_tally;
use keyfold_survey::survey::Survey;
use keyfold_survey::uses::Uses;

use crate::config::analyze::Analyze;
use crate::origin::{self, DumpHead, Known, Node, Origin, Seen};
use crate::scan::{Denied, End, Values, Walked};
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
    /// What the server says of its memory; nothing of a dump.
    measured: Option<Measured>,
    /// What each node of a cluster has; nothing of one server.
    shares: Vec<Share>,
    /// What a dump says of itself; nothing of a live server.
    dump: Option<DumpHead>,
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
    if let Some(requests) = &analyze.trace {
        return cache::run(analyze, requests, &interrupt, out);
    }
    let assumed = &analyze.flags.settings.assume;
    let mut origin =
        origin::open(&analyze.place, &analyze.databases, &analyze.walk, assumed, analyze.flags.origin.cluster)?;
    let stored = origin.stored().ok().flatten();

    let started = Instant::now();
    let (survey, stored, mut walked) = survey(analyze, origin.as_mut(), stored, &interrupt);
    let took = started.elapsed();
    let measured = origin.measured(&walked);
    let known = origin.known();
    let is_whole = matches!(walked.end, End::Complete) && analyze.walk.sample.is_none();
    let (seen, total) = (survey.seen(), known.total);
    let findings = survey.finish(if is_whole { seen } else { total });
    let all_keys = (findings.keys, findings.expiring);
    let ServerModel { server: which, limits, model, guesses } = &known.facts;
    let aims = Aims { growth: analyze.flags.growth, all_keys, ..Aims::new(model.clone(), *which, *limits) };
    let mut notes = guesses.clone();
    notes.extend(known.notes.iter().cloned());
    let values = values(analyze, origin.as_ref(), &walked, &mut notes);
    let mut weighing = Weighing::new(values, CODEC_BOUNDS, findings.families.len(), &interrupt);
    weighing.expect(findings.families.iter().filter(|family| is_weighed(family)).map(|family| family.even.as_slice()));
    let report = advise(findings, &aims, stored, &mut |population, even| weighing.codings(population, even));

    notes.extend(slot_tally::notes(&report.hot_slots));
    let remedies =
        || report.families.iter().filter(|one| one.advice == Advice::Set).filter_map(|one| one.remedy.as_ref());
    if remedies().any(|remedy| !remedy.settings.is_empty()) {
        notes.push(format!("{REWRITTEN}; the same settings in its configuration file, or they are gone after that"));
    } else if remedies().next().is_some() {
        notes.push(REWRITTEN.to_owned());
    }
    notes.extend(notes_on(&walked, known, seen, is_whole));
    notes.append(&mut weighing.notes);
    walked.commands += weighing.commands();
    let analysis = Analysis {
        server: known.server.clone(),
        address: known.address.clone(),
        report,
        shares: shares(known, &measured),
        measured: (!measured.is_empty()).then(|| measured.into_iter().sum()),
        dump: known.dump,
        walked,
        took,
        usd_per_gb_month: analyze.flags.usd_per_gb_month,
        uses: known.uses.clone(),
        notes,
    };
    show(analyze, &analysis, out)?;
    match analysis.walked.end {
        End::Lost(error) => Err(error
            .context(format!("the walk ended early; what was seen until then, {}, is reported", plural(seen, "key")))),
        End::Complete | End::Stopped => Ok(()),
    }
}

/// What each node of a cluster has.
fn shares(known: &Known, measured: &[Measured]) -> Vec<Share> {
    let nodes = known.nodes.iter().cloned().zip(measured);
    nodes.map(|(Node { address, slots, keys }, measured)| Share { address, slots, keys, measured: *measured }).collect()
}

/// Who reads values to weigh codecs by: nobody where that is not wanted, or the walk was ended.
fn values(analyze: &Analyze, origin: &dyn Origin, walked: &Walked, notes: &mut Vec<String>) -> Option<Box<dyn Values>> {
    if analyze.flags.no_values || !matches!(walked.end, End::Complete) || walked.denied.contains("GET") {
        return None;
    }
    match origin.values(analyze.walk.max_ops) {
        Ok(values) => Some(values),
        Err(error) => {
            notes.push(format!("{error:#}"));
            None
        }
    }
}

/// Walks and surveys side by side: what was seen, and the layout that has folded keys of it.
fn survey(
    analyze: &Analyze,
    origin: &mut dyn Origin,
    mut stored: Option<Layout>,
    interrupt: &Interrupt,
) -> (Survey, Option<Layout>, Walked) {
    let (known, model) = (origin.known(), origin.known().facts.model.clone());
    let (unit, work) = known.work(analyze.walk.sample.map_or(known.total, |sample| sample.get().min(known.total)));
    let mut watch = Watch::new(unit, work);
    let mut survey = Survey::new(model.clone()).over(stored.clone());
    let (sender, all_seen) = mpsc::sync_channel::<Seen>(PAGES_AHEAD);
    let walked = std::thread::scope(|scope| {
        let walk = scope.spawn(move || {
            origin.walk(&analyze.walk, &mut |seen| {
                let goes_on = !interrupt.wanted() && sender.send(seen).is_ok();
                if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        });
        for seen in all_seen {
            match seen {
                Seen::Page(page, done) => {
                    // What keyfold keeps for itself is no family of anybody's.
                    for observation in page.keys.iter().filter(|one| !one.key.starts_with(ADMINISTRATION_PREFIX)) {
                        survey.observe(page.database, observation);
                    }
                    watch.advance(done);
                }
                Seen::Again(layout) => {
                    stored = Some(*layout);
                    survey = Survey::new(model.clone()).over(stored.clone());
                    watch = Watch::new(unit, work);
                }
            }
        }
        walk.join()
    });
    match walked {
        Ok(walked) => (survey, stored, walked),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn notes_on(walked: &Walked, known: &Known, seen: u64, is_whole: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let of = format!("{} of about {} were looked at", plural(seen, "key"), count(known.total));
    let lost = if known.dump.is_some() { "the dump can't be read to its end" } else { "the connection was lost" };
    match &walked.end {
        End::Complete if !is_whole => notes.push(format!("{of}; ± is the interval of 95% confidence")),
        End::Stopped => notes.push(format!("stopped: {of}; ± is the interval of 95% confidence")),
        End::Lost(_) => notes.push(format!("{lost}: {of}; ± is the interval of 95% confidence")),
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
    /// The server's `used_memory`, where it is known.
    fn used_bytes(&self) -> Option<u64> {
        self.measured.map(|measured| measured.used_bytes).or_else(|| self.dump.and_then(|dump| dump.used_bytes))
    }

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
