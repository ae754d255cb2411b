//! `make bench`: what folding saves and costs, on every server at hand.
//!
//! | module | what it measures or holds |
//! | --- | --- |
//! | [`memory`] | bytes a record, plain and folded |
//! | [`speed`] | requests a second: the server alone, behind nutcracker, behind keyfold |
//! | [`commands`] | requests a second by command: plain, the cheapest form on a folded key, and through keyfold |
//! | [`cluster`] | requests a second through keyfold: before a cluster, and before one server |
//! | [`collections`] | what sets and hashes take and cost, plain and folded |
//! | [`idle`] | what idle connections cost the proxy, and that ten thousand work |
//! | [`codecs`] | what codecs save, and what they cost |
//! | [`watched`] | what metrics and the slow log cost |
//! | [`caches`] | what it costs to keep a cache, and how near to its mark memory stays in a burst of writes |
//! | [`proxy`] | a keyfold proxy in a process of its own |
//! | [`sent`] | what it sends for a command |
//! | [`nutcracker`] | the other proxy |
//! | [`side_by_side`] | what one keyfold costs more than another that is asked at the same moment |
//! | [`redis_benchmark`] | what sends the requests |
//! | [`records`] | made-up records |
//! | [`report`] | tables and JSON |
//! | [`options`] | the command line |

mod caches;
mod cluster;
mod codecs;
mod collections;
mod commands;
mod idle;
mod memory;
mod nutcracker;
mod options;
mod proxy;
mod records;
mod redis_benchmark;
mod report;
mod sent;
mod side_by_side;
mod speed;
mod watched;

use anyhow::Context;
use clap::Parser;
use keyfold_testkit::{Binary, found};

use options::{Line, Options, Part, Serve};
use report::Report;

fn main() -> anyhow::Result<()> {
    let Line { serve, options } = Line::parse();
    if let Some(Serve::Serve { upstream, watched, max_memory }) = serve {
        return proxy::serve(&upstream, watched, max_memory);
    }
    // Both ends of ten thousand connections, but for the proxy's, which has a process of its own.
    rlimit::increase_nofile_limit(u64::MAX).context("raising the limit of open files")?;
    let mut report = Report::new(options.json);
    let mut missed = Vec::new();
    for binary in servers(&options)? {
        if options.wants(Part::Memory) {
            memory::measure_all(&binary, &options, &mut report)?;
        }
        let mut goals = Vec::new();
        if options.wants(Part::Speed) {
            goals.extend(speed::measure(&binary, &options, &mut report)?);
        }
        if options.wants(Part::Commands) {
            goals.extend(commands::measure(&binary, &options, &mut report)?);
        }
        if options.wants(Part::Cluster) {
            goals.extend(cluster::measure(&binary, &options, &mut report)?);
        }
        if options.wants(Part::Idle) {
            idle::measure(&binary, &options, &mut report)?;
        }
        if options.wants(Part::Codecs) {
            goals.extend(codecs::measure(&binary, &options, &mut report)?);
        }
        if options.wants(Part::Collections) {
            collections::measure(&binary, &options, &mut report)?;
        }
        if options.wants(Part::Watched) {
            goals.extend(watched::measure(&binary, &options, &mut report)?);
        }
        if options.wants(Part::Caches) {
            goals.extend(caches::measure(&binary, &options, &mut report)?);
        }
        missed.extend(goals.into_iter().map(|why| format!("{}: {why}", binary.name())));
    }
    report.finish()?;
    if options.check && !missed.is_empty() {
        anyhow::bail!("goals are missed:\n  {}", missed.join("\n  "));
    }
    Ok(())
}

fn servers(options: &Options) -> anyhow::Result<Vec<Binary>> {
    let all = found();
    let names = all.iter().map(Binary::name).collect::<Vec<_>>().join(", ");
    let wanted: Vec<Binary> = all.into_iter().filter(|binary| options.wants_server(&binary.name())).collect();
    anyhow::ensure!(!wanted.is_empty(), "no such server; there are: {names} (`make servers` brings more)");
    Ok(wanted)
}
