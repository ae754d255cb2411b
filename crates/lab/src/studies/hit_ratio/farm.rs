//! Caches measured: several at a time on servers of keyfold's own, or one after the other on the one that is named.
//!
//! A server tells idle times by whole seconds. So that its LRU can tell anything, requests come no faster than a cache is
//! turned over in some seconds; which takes time and hardly any work, and so many caches can be measured at once.

use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use keyfold_core::memory::Limits;
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::{Commands, OwnServer};

use super::by_key::Keeper;
use super::cache::{Tally, Way};
use super::job::{Given, Job, Row};
use super::own_server::{busy_bytes, set, warm_up};
use super::{ENTRIES, LIMIT, LRU, POLICY, VALUE};
use crate::at_once::at_once;
use crate::bench::Bench;

/// Caches at a time.
const AT_ONCE: usize = 16;

/// Measures all of them.
pub(super) fn measure(bench: &mut Bench<'_>, jobs: &[Job<'_>]) -> anyhow::Result<Vec<Row>> {
    let requests: usize = jobs.iter().map(|job| job.trial.requests.len()).sum();
    let progress = bench.progress("hit-ratio: caches", requests as u64);
    match bench.own_program() {
        Some(program) => {
            let (program, interrupt, progress) = (program.as_deref(), bench.interrupt(), Mutex::new(progress));
            let run = |jobs: &[&Job<'_>], threads| {
                at_once(jobs, threads, |job| Ok(job.row(on_its_own(job, program, interrupt, &progress)?)))
            };
            // A keyfold removes keys by itself, and should not have to wait for a processor.
            let (by_key, others): (Vec<_>, Vec<_>) = jobs.iter().partition(|job| job.is_by_key());
            Ok([run(&others, AT_ONCE)?, run(&by_key, 1)?].concat())
        }
        None => jobs.iter().map(|job| Ok(job.row(on_the_bench(bench, job)?))).collect(),
    }
}

/// On the server under study.
fn on_the_bench(bench: &mut Bench<'_>, job: &Job<'_>) -> anyhow::Result<Tally> {
    let empty_bytes = bench.start()?.used_bytes();
    bench.wrote(job.trial.objects.count());
    bench.set_word(POLICY, job.given.policy)?;
    bench.set(LIMIT, empty_bytes + job.room_bytes)?;
    let Given { policy, percent, form, .. } = job.given;
    let what = format!("hit-ratio: {policy}, {percent} % of the memory, {}", form.name());
    let mut progress = bench.progress(&what, job.trial.requests.len() as u64);
    let way = Way {
        clients: vec![bench.connect()?],
        prefix: bench.key(b""),
        mark: bench.mark(),
        interrupt: bench.interrupt(),
        half_way: None,
    };
    let tally = job.trial.run(way, &mut |done| progress.advance(done))?;
    // From here on nothing evicts the lab's mark.
    bench.set(LIMIT, 0)?;
    bench.connect()?.query_all::<()>(&bench.mark())?;
    Ok(tally)
}

/// On a server that is there for this cache alone.
fn on_its_own(
    job: &Job<'_>,
    program: Option<&Path>,
    interrupt: &Interrupt,
    progress: &Mutex<Progress>,
) -> anyhow::Result<Tally> {
    let own = OwnServer::start(program, None).context("can't start a server for a cache")?;
    let mut server = own.connect()?;
    warm_up(&mut server)?;
    let limits = [
        (ENTRIES, Limits::default().hash_entries.to_string()),
        (VALUE, job.trial.objects.value_limit().to_string()),
        (POLICY, if job.is_by_key() { LRU } else { job.given.policy }.to_owned()),
    ];
    for (name, value) in limits {
        set(&mut server, name, &value)?;
    }
    let mut advance = |done| {
        if let Ok(mut progress) = progress.lock() {
            progress.advance(done);
        }
    };
    let way = |clients| Way { clients, prefix: Vec::new(), mark: Commands::default(), interrupt, half_way: None };
    if job.is_by_key() {
        let (mut keeper, clients) = Keeper::start(&own, job)?;
        let mut half_way = || keeper.half_way();
        let tally = job.trial.run(Way { half_way: Some(&mut half_way), ..way(clients) }, &mut advance)?;
        return Ok(Tally { counters_bytes: keeper.stop()?, ..tally });
    }
    let empty_bytes = busy_bytes(&mut server, &mut own.connect()?)?;
    set(&mut server, LIMIT, &(empty_bytes + job.room_bytes).to_string())?;
    job.trial.run(way(vec![server]), &mut advance)
}
