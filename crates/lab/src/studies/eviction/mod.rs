//! `eviction`: what a cache finds by who evicts: a server plain keys, a server whole buckets, keyfold single records, and
//! who knows what is asked for next.
//!
//! Caches are simulated (`keyfold_survey::caching`), with the bytes of the memory model for the server at hand. So it takes
//! seconds, and tells what `hit-ratio` measures, and what no server can be asked for: keyfold's policy in any memory, and the
//! optimum.

mod show;

use std::ops::ControlFlow;
use std::sync::Mutex;

use keyfold_core::memory::Model;
use keyfold_report::number::plural;
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::{Interrupt, Interrupted};
use keyfold_survey::caching::{Cache, Job, Requests, Sizes};

use crate::at_once::at_once;
use crate::bench::Bench;
use crate::objects::{self, Form, Objects};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::study::{About, Study};

/// Value bytes on the mean, as in `hit-ratio`.
const VALUES: [u64; 2] = [32, 200];
const SKEWS: [f64; 5] = [0.7, 0.8, 0.9, 1.0, 1.1];
/// Of the memory that all objects take as plain keys.
const PERCENTS: [u64; 6] = [1, 5, 10, 20, 40, 70];
/// Entries to a bucket, where all are there.
const ENTRIES: u64 = 64;
/// The share of the requests that fill the caches.
const WARM_UP: f64 = 0.5;

pub(crate) struct Eviction;

/// Requests and what they are for, with values of one size.
struct Stream {
    /// None of a trace.
    skew: Option<f64>,
    value_bytes: u64,
    requests: Requests,
    sizes: Sizes,
}

/// What caches of one memory found.
#[derive(Clone, Debug)]
struct Row {
    skew: Option<f64>,
    value_bytes: u64,
    percent: u64,
    memory_bytes: f64,
    /// How many times as many objects fit folded.
    fit: f64,
    /// In the order of [`Cache::ALL`].
    found: [f64; Cache::ALL.len()],
}

impl Study for Eviction {
    fn about(&self) -> About {
        About {
            name: "eviction",
            by: "keyfold",
            year: 2026,
            asks: "Who should choose what leaves a cache: the server its keys, the server buckets, or keyfold the records in them?",
            figure: "none for folded keys. Belady (1966) is the limit of what any policy finds.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let model = bench.model()?;
        let streams = streams(options, &model)?;
        let keys = streams.first().map_or(0, |stream| stream.requests.sampled_keys());
        let requests = streams.first().map_or(0, |stream| stream.requests.seen());
        let mut outcome = Outcome::new(format!("{}, {}", plural(keys, "object"), plural(requests, "request")));
        let rows = simulate(&streams, bench.interrupt())?;
        show::conclude(&rows, &mut outcome);
        Ok(outcome)
    }
}

/// What is asked for: a file's requests, or made-up ones of each skew; with values of each size.
fn streams(options: &Options, model: &Model) -> anyhow::Result<Vec<Stream>> {
    let mut streams = Vec::new();
    let mut add = |objects: &Objects, skew, numbers: &[u32]| -> anyhow::Result<()> {
        for value_bytes in VALUES {
            streams.push(Stream::new(&objects.with_values(value_bytes), skew, numbers, model)?);
        }
        Ok(())
    };
    if let Some(file) = &options.trace {
        let (objects, numbers) = Objects::of_trace(file, VALUES[0], options.seed)?;
        add(&objects, None, &numbers)?;
        return Ok(streams);
    }
    let count = u32::try_from(options.sized(5_000, 20_000, 200_000))?;
    let requests = options.sized(100_000, 600_000, 6_000_000);
    let objects = Objects::made_up(count, VALUES[0], options.seed);
    for skew in SKEWS {
        add(&objects, Some(skew), &objects::requests(count, requests, skew, options.seed))?;
    }
    Ok(streams)
}

impl Stream {
    fn new(objects: &Objects, skew: Option<f64>, numbers: &[u32], model: &Model) -> anyhow::Result<Self> {
        let value_len = |number| u32::try_from(objects.value(number).len()).unwrap_or(u32::MAX);
        let requests = Requests::of_numbers(objects.keys(), numbers, value_len);
        let sizes = Sizes::new(&requests, model, &objects.layout(Form::Buckets(ENTRIES))?);
        Ok(Self { skew, value_bytes: objects.value_bytes(), requests, sizes })
    }

    fn row(&self, percent: u64, interrupt: &Interrupt) -> Option<Row> {
        let (plain, folded) = (self.sizes.all_plain_bytes(&self.requests), self.sizes.all_folded_bytes(&self.requests));
        let memory_bytes = (plain * percent as f64 / 100.0).round();
        let mut go_on = |_| if interrupt.wanted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let mut found = [0.0; Cache::ALL.len()];
        for (cache, found) in Cache::ALL.into_iter().zip(&mut found) {
            let point = Job { cache, memory_bytes }.run(&self.requests, &self.sizes, WARM_UP, &mut go_on)?;
            *found = point.tally.hit_ratio();
        }
        let (skew, value_bytes) = (self.skew, self.value_bytes);
        Some(Row { skew, value_bytes, percent, memory_bytes, fit: plain / folded, found })
    }
}

/// Each processor takes the next memory of the next stream.
fn simulate(streams: &[Stream], interrupt: &Interrupt) -> anyhow::Result<Vec<Row>> {
    let jobs: Vec<_> = streams.iter().flat_map(|stream| PERCENTS.map(|percent| (stream, percent))).collect();
    let progress = Mutex::new(Progress::new("eviction: memories simulated", jobs.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    at_once(&jobs, threads, |(stream, percent)| {
        let row = stream.row(*percent, interrupt).ok_or(Interrupted)?;
        if let Ok(mut progress) = progress.lock() {
            progress.advance(1);
        }
        Ok(row)
    })
}

impl Row {
    fn found(&self, cache: Cache) -> f64 {
        Cache::ALL.into_iter().position(|other| other == cache).map_or(0.0, |at| self.found[at])
    }

    /// What the better of a server's policies finds with plain keys.
    fn plain_best(&self) -> f64 {
        self.best(|cache| matches!(cache, Cache::Plain(_)))
    }

    /// The same with whole buckets.
    fn buckets_best(&self) -> f64 {
        self.best(|cache| matches!(cache, Cache::Buckets(_)))
    }

    fn best(&self, of: impl Fn(Cache) -> bool) -> f64 {
        Cache::ALL.into_iter().filter(|cache| of(*cache)).map(|cache| self.found(cache)).fold(0.0, f64::max)
    }
}
