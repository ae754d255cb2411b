//! `keyfold doctor`: why memory is not what it should be.
//!
//! | file | what it does |
//! | --- | --- |
//! | `settings.rs` | asks for what isn't in the keyspace: settings, memory, the layout |
//! | `patient.rs` | the connection: paced, and stopped by Ctrl-C |
//! | `walk.rs` | walks the hashes, a batch at a time |
//! | `bucket.rs` | reads one hash field by field, as a bucket of keyfold's where it is one |
//! | `partitions.rs` | looks for sets and hashes that were split by hand |
//! | `names.rs` | walks keyfold's own names: spilled values, and what no layout knows |
//! | `rewrite.rs` | writes hashtables anew |
//! | `cluster.rs` | does all of it on each node of a cluster |
//! | `print.rs`, `json.rs` | says what was found |

mod bucket;
mod cluster;
mod json;
mod names;
mod partitions;
mod patient;
mod print;
mod rewrite;
mod settings;
mod walk;

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use keyfold_report::number::count;
use keyfold_report::paper::Paper;
use keyfold_server::replicas::{self, Replica};
use keyfold_server::{Nodes, Server};
use keyfold_survey::diagnosis::{Finding, LayoutState, Observation, Severity, diagnose};

use crate::config::doctor::Doctor;
use patient::Patient;
use rewrite::Rewriter;

/// What a doctor that found problems exits with; 1 says that it couldn't look at everything.
const FOUND: u8 = 3;

/// Whether all was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Walked {
    Whole,
    Stopped,
    /// All but so many hashes, which the server's user may not look at.
    Denied(Denied),
}

/// Hashes that may not be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Denied {
    hashes: u64,
    /// What the server says.
    reason: String,
}

/// What came of it.
struct Report {
    server: String,
    seen: Observation,
    findings: Vec<Finding>,
    rewritten: Option<Rewriter>,
    /// Why not everything was looked at.
    broken_off: Option<String>,
    took: Duration,
}

pub(crate) fn run(config: &Doctor, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let mut nodes = Nodes::connect(&config.target)?;
    if nodes.are_cluster() {
        return cluster::run(config, nodes, out);
    }
    let replicas = replicas::connect(&mut nodes)?;
    let (report, error) = examine(config, nodes.into_servers().remove(0), replicas, None, started)?;
    if config.flags.json {
        out.whole(format_args!("{:#}", json::value(&report)))?;
    } else {
        print::print(&report, out)?;
    }
    if let Some(error) = error {
        out.flush()?;
        return Err(error).context("not everything was looked at");
    }
    Ok(ExitCode::from(report.code()))
}

/// Looks at one server; with what ended that early, where that was an error. `layout` is given where another node has it.
fn examine(
    config: &Doctor,
    server: Server,
    replicas: Vec<Replica>,
    layout: Option<LayoutState>,
    started: Instant,
) -> anyhow::Result<(Report, Option<anyhow::Error>)> {
    let name = server.version().to_string();
    let mut patient = Patient::new(server, config.flags.pace.max_ops)?;
    let mut seen = settings::observe(&mut patient, &config.flags.settings.assume, config.expected.clone(), layout)?;
    seen.replicas = settings::replicas(replicas, &config.flags.settings.assume);
    let mut rewriter = config.flags.rewrite.then(Rewriter::default);
    let walked = walk::walk(&mut patient, &config.databases, &mut seen, rewriter.as_mut());
    let (broken_off, error) = match walked {
        Ok(Walked::Whole) => (None, None),
        Ok(Walked::Stopped) => (Some("stopped".to_owned()), None),
        Ok(Walked::Denied(denied)) => {
            let (hashes, reason) = (count(denied.hashes), denied.reason);
            (Some(format!("{hashes} of the hashes can't be looked at with OBJECT ENCODING: {reason}")), None)
        }
        Err(error) => (Some(format!("{error:#}")), Some(error)),
    };
    let findings = diagnose(&seen);
    let took = started.elapsed();
    Ok((Report { server: name, seen, findings, rewritten: rewriter, broken_off, took }, error))
}

impl Report {
    fn code(&self) -> u8 {
        let has_problem = self.findings.iter().any(|finding| finding.severity == Severity::Problem);
        match (&self.broken_off, has_problem) {
            (Some(_), _) => 1,
            (None, true) => FOUND,
            (None, false) => 0,
        }
    }
}
