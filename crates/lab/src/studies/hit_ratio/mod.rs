//! `hit-ratio`: does a cache of a given size find more with its objects folded?
//!
//! Folding lets more objects into the same memory, and has the server evict a bucket at a time: one popular object keeps
//! its neighbours, and one eviction loses them all. Which of the two weighs more depends on how much of what is asked
//! for fits, on how uneven the requests are, and on how long values are; so each of them is varied.
//!
//! Objects are written to the places and in the bytes that keyfold's proxy gives them, by commands in batches, without the
//! proxy: a cache finds the same either way. Where keyfold itself evicts, by the key, they go through it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `cache.rs` | the server as a cache |
//! | `by_key.rs` | keyfold before it, which evicts |
//! | `farm.rs` | many caches, each on a server |
//! | `own_server.rs` | what is asked of such a server |
//! | `show.rs` | what came of it |

mod by_key;
mod cache;
mod farm;
mod own_server;
mod show;

use keyfold_core::memory::Limits;
use keyfold_report::number::plural;

use crate::bench::Bench;
use crate::ground::Setting;
use crate::objects::{self, Form, Objects};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::study::{About, Study};
use cache::{Tally, Trial};

const LIMIT: &str = "maxmemory";
const POLICY: &str = "maxmemory-policy";
const ENTRIES: &str = "hash-max-listpack-entries";
const VALUE: &str = "hash-max-listpack-value";
const LRU: &str = "allkeys-lru";
const LFU: &str = "allkeys-lfu";
/// keyfold's own, by which keys leave.
const BY_KEY: &str = "keyfold";
/// Entries to a bucket where keyfold keeps a cache, of those that fit.
const KEPT_ENTRIES: u64 = 64;
/// Value bytes on the mean: what caches count and point with, and what they hold rendered.
const SMALL: u64 = 32;
const LARGE: u64 = 200;
/// The skew that most is measured at, as of many request logs.
const SKEW: f64 = 0.9;

pub(crate) struct HitRatio;

/// How much is measured.
struct Scope {
    objects: u64,
    /// Of the memory that all objects take as plain keys, in percent.
    percents: &'static [u64],
    entries: &'static [u64],
    /// Other skews, and in how much memory.
    skews: &'static [f64],
    skew_percent: u64,
    /// What to measure at full speed too.
    control_percent: Option<u64>,
    /// In how many seconds a cache of plain keys is turned over, about.
    turnover_s: f64,
    /// Requests to a cache for each plain key that it has room for: a folded one is to be turned over several times too.
    requests_per_key: u64,
    kept: KeptScope,
}

/// How much is measured of caches that keyfold keeps, and plain ones beside them: with more objects, as what keyfold's own
/// connections take in the server is to be little beside these.
struct KeptScope {
    objects: u64,
    requests: u64,
    percents: &'static [u64],
    /// The first with all of `percents`, the others with the first of these.
    skews: &'static [f64],
}

const QUICK: Scope = Scope {
    objects: 10_000,
    percents: &[5, 20],
    entries: &[16, 64, 128],
    skews: &[],
    skew_percent: 10,
    control_percent: None,
    turnover_s: 1.0,
    requests_per_key: 32,
    kept: KeptScope { objects: 40_000, requests: 400_000, percents: &[20], skews: &[SKEW] },
};
const WHOLE: Scope = Scope {
    objects: 20_000,
    percents: &[5, 10, 20, 40],
    entries: &[8, 16, 32, 64, 128],
    skews: &[0.8, 1.0, 1.1],
    skew_percent: 10,
    control_percent: Some(10),
    turnover_s: 2.5,
    requests_per_key: 48,
    kept: KeptScope { objects: 200_000, requests: 2_000_000, percents: &[5, 10, 20, 40], skews: &[SKEW, 0.7, 1.1] },
};
/// On a server that is named, where caches have to take turns.
const QUICK_ALONE: Scope = Scope { percents: &[20], entries: &[64], turnover_s: 0.5, ..QUICK };
const ALONE: Scope = Scope { percents: &[5, 20], entries: &[16, 64], skews: &[], ..WHOLE };
/// Of so many requests one is missed, about.
const ONE_IN_MISSED: f64 = 2.0;

/// What one cache was given.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Given {
    objects: u64,
    policy: &'static str,
    /// None of a trace.
    skew: Option<f64>,
    value_bytes: u64,
    percent: u64,
    form: Form,
    /// Whether requests came as fast as they could.
    full_speed: bool,
}

/// One cache.
#[derive(Clone, Copy, Debug)]
struct Row {
    given: Given,
    /// `maxmemory`, less what the server has without objects.
    room_bytes: u64,
    tally: Tally,
}

/// What all objects take where there is no limit.
struct Whole {
    value_bytes: u64,
    form: Form,
    bytes: u64,
    predicted: u64,
}

/// What is asked for, one after the other.
struct Stream {
    skew: Option<f64>,
    requests: Vec<u32>,
}

/// Objects with values of both sizes, what all of them take in each form, and requests for them.
struct Subject {
    sizes: [Objects; 2],
    wholes: Vec<Whole>,
    /// The first is what most is measured with.
    streams: Vec<Stream>,
}

impl Study for HitRatio {
    fn about(&self) -> About {
        About {
            name: "hit-ratio",
            by: "keyfold",
            year: 2026,
            asks: "Does a cache of a given memory find more, or less, with its objects folded into buckets?",
            figure: "none: nobody measured it. A bucket is evicted whole, which loses; more objects fit, which wins.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let scope = match (options.is_quick(), bench.own_program()) {
            (true, Some(_)) => QUICK,
            (true, None) => QUICK_ALONE,
            (false, Some(_)) => WHOLE,
            (false, None) => ALONE,
        };
        let (small, streams) = subject(options, &scope)?;
        let mut outcome = Outcome::new(format!("{} of {}", plural(small.count(), "object"), small.template()));
        if bench.is_shared() {
            outcome.left_out.push("all of it: the server would evict others' keys".to_owned());
            outcome.verdict = "A cache can only be measured on a server of its own.".to_owned();
            return Ok(outcome);
        }
        let large = small.with_values(LARGE);
        if settings(bench, &large)? == Setting::Forbidden {
            outcome.left_out.push(format!("all of it: the server forbids CONFIG, so {LIMIT} can't be set"));
            outcome.verdict = "The server forbids CONFIG, so nothing could be measured.".to_owned();
            return Ok(outcome);
        }
        let subject = Subject::weighed([small, large], streams, &scope.forms(), bench)?;
        let mut jobs = jobs(&scope, &subject);
        let kept = match bench.own_program() {
            Some(_) if options.trace.is_none() => Some(kept_subject(options, &scope.kept, bench)?),
            _ => None,
        };
        if bench.own_program().is_some() {
            jobs.extend(kept_jobs(&scope, kept.as_ref(), &subject));
        } else {
            outcome
                .left_out
                .push("caches that keyfold keeps: they are measured on servers of its own alone".to_owned());
        }
        let rows = farm::measure(bench, &jobs)?;
        let wholes = subject.wholes.iter().chain(kept.iter().flat_map(|kept| &kept.wholes));
        wholes.for_each(|whole| outcome.hold(whole.bytes, whole.predicted));
        let objects = subject.sizes[0].count();
        show::conclude(&rows, &subject.wholes, objects, scope.turnover_s, &mut outcome);
        Ok(outcome)
    }
}

impl Scope {
    fn forms(&self) -> Vec<Form> {
        let buckets = self.entries.iter().map(|entries| Form::Buckets(*entries));
        std::iter::once(Form::Plain).chain(buckets).collect()
    }

    /// How many requests go to a cache with room for so many percent of the objects as plain keys.
    fn requests(&self, objects: u64, percent: u64) -> u64 {
        objects * percent / 100 * self.requests_per_key
    }
}

/// What is asked for: a file's requests, or made-up ones. The first stream is what most is measured with.
fn subject(options: &Options, scope: &Scope) -> anyhow::Result<(Objects, Vec<Stream>)> {
    if let Some(file) = &options.trace {
        let (objects, requests) = Objects::of_trace(file, SMALL, options.seed)?;
        return Ok((objects, vec![Stream { skew: None, requests }]));
    }
    let objects = u32::try_from(options.sized(scope.objects, scope.objects, scope.objects * 4))?;
    let most = scope.percents.iter().max().copied().unwrap_or(100);
    let stream = |skew: f64, percent: u64| {
        let requests = scope.requests(u64::from(objects), percent);
        Stream { skew: Some(skew), requests: objects::requests(objects, requests, skew, options.seed) }
    };
    let others = scope.skews.iter().map(|skew| stream(*skew, scope.skew_percent));
    let streams = std::iter::once(stream(SKEW, most)).chain(others).collect();
    Ok((Objects::made_up(objects, SMALL, options.seed), streams))
}

/// More made-up objects, of which keyfold keeps some.
fn kept_subject(options: &Options, scope: &KeptScope, bench: &mut Bench<'_>) -> anyhow::Result<Subject> {
    let objects = u32::try_from(options.sized(scope.objects, scope.objects, scope.objects * 4))?;
    let requests = options.sized(scope.requests, scope.requests, scope.requests * 4);
    let stream =
        |skew: &f64| Stream { skew: Some(*skew), requests: objects::requests(objects, requests, *skew, options.seed) };
    let small = Objects::made_up(objects, SMALL, options.seed);
    let sizes = [small.with_values(SMALL), small.with_values(LARGE)];
    Subject::weighed(
        sizes,
        scope.skews.iter().map(stream).collect(),
        &[Form::Plain, Form::Buckets(KEPT_ENTRIES)],
        bench,
    )
}

/// What buckets rely on, and no limit of memory at first.
fn settings(bench: &mut Bench<'_>, large: &Objects) -> anyhow::Result<Setting> {
    for (name, wanted) in [(LIMIT, 0), (ENTRIES, Limits::default().hash_entries), (VALUE, large.value_limit())] {
        if bench.set(name, wanted)? == Setting::Forbidden {
            return Ok(Setting::Forbidden);
        }
    }
    Ok(Setting::Is)
}

/// What all objects take without a limit.
fn weigh(bench: &mut Bench<'_>, objects: &Objects, form: Form) -> anyhow::Result<Whole> {
    let value_bytes = objects.value_bytes();
    let model = bench.model()?;
    let keyspace = objects.expect(form, &model, bench.prefix_len())?;
    let places = objects.places(form, b"")?;
    let what = format!("hit-ratio: {} with values of {value_bytes} bytes", form.name());
    let weight = bench.measure(&what, objects.count(), |writer| {
        (0_u32..).zip(&places).try_for_each(|(object, place)| match &place.field {
            Some(field) => writer.hset(&place.key, field, &objects::stored(objects.value(object))),
            None => writer.set(&place.key, objects.value(object)),
        })
    })?;
    Ok(Whole { value_bytes, form, bytes: weight.bytes, predicted: weight.predicted(&keyspace) })
}

impl Subject {
    fn weighed(
        sizes: [Objects; 2],
        streams: Vec<Stream>,
        forms: &[Form],
        bench: &mut Bench<'_>,
    ) -> anyhow::Result<Self> {
        let mut wholes = Vec::new();
        for objects in &sizes {
            for form in forms {
                wholes.push(weigh(bench, objects, *form)?);
            }
        }
        Ok(Self { sizes, wholes, streams })
    }

    fn bytes(&self, form: Form, value_bytes: u64) -> u64 {
        let is_it = |whole: &&Whole| whole.form == form && whole.value_bytes == value_bytes;
        self.wholes.iter().find(is_it).map_or(0, |whole| whole.bytes)
    }

    /// A cache in each form, that are all given the same.
    fn caches<'a>(&'a self, scope: &Scope, lot: &Lot<'a>, forms: &[Form]) -> Vec<farm::Job<'a>> {
        let Lot { objects, stream, policy, percent, full_speed } = *lot;
        let (count, value_bytes) = (objects.count(), objects.value_bytes());
        let room_bytes = self.bytes(Form::Plain, value_bytes) * percent / 100;
        let folded = self.bytes(Form::Buckets(KEPT_ENTRIES), value_bytes).max(1);
        // Those that are held back get as many as there is time for; of a file each gets all.
        let most = if full_speed || stream.skew.is_none() { u64::MAX } else { scope.requests(count, percent) };
        let requests = &stream.requests[..stream.requests.len().min(usize::try_from(most).unwrap_or(usize::MAX))];
        let turned_over = count as f64 * percent as f64 / 100.0 * ONE_IN_MISSED;
        let pace = (!full_speed).then_some(turned_over / scope.turnover_s);
        let job = |form: &Form| farm::Job {
            given: Given { objects: count, policy, skew: stream.skew, value_bytes, percent, form: *form, full_speed },
            trial: Trial { form: *form, objects, requests, pace },
            room_bytes,
            fit: count as f64 * room_bytes as f64 / folded as f64,
        };
        forms.iter().map(job).collect()
    }
}

/// What caches are given that are held beside each other.
#[derive(Clone, Copy)]
struct Lot<'a> {
    objects: &'a Objects,
    stream: &'a Stream,
    policy: &'static str,
    percent: u64,
    full_speed: bool,
}

/// The caches of plain keys and of buckets.
fn jobs<'a>(scope: &Scope, subject: &'a Subject) -> Vec<farm::Job<'a>> {
    let forms = scope.forms();
    let [small, _] = &subject.sizes;
    let mut jobs = Vec::new();
    let mut add = |objects, stream, policy, percent, full_speed| {
        jobs.extend(subject.caches(scope, &Lot { objects, stream, policy, percent, full_speed }, &forms));
    };
    for (number, stream) in subject.streams.iter().enumerate() {
        if number > 0 {
            add(small, stream, LRU, scope.skew_percent, false);
            continue;
        }
        for percent in scope.percents {
            for objects in &subject.sizes {
                add(objects, stream, LRU, *percent, false);
                add(objects, stream, LFU, *percent, true);
            }
        }
        if let Some(percent) = scope.control_percent {
            add(small, stream, LRU, percent, true);
        }
    }
    jobs
}

/// The caches that keyfold keeps, and those of plain keys beside them where they aren't measured anyhow: for a file's
/// requests the objects are `main`'s.
fn kept_jobs<'a>(scope: &Scope, kept: Option<&'a Subject>, main: &'a Subject) -> Vec<farm::Job<'a>> {
    let (subject, percents) = kept.map_or((main, scope.percents), |kept| (kept, scope.kept.percents));
    let mut jobs = Vec::new();
    for (number, stream) in subject.streams.iter().enumerate() {
        for percent in if number > 0 { &percents[..1] } else { percents } {
            for objects in &subject.sizes {
                let mut add = |policy, full_speed, form| {
                    let lot = Lot { objects, stream, policy, percent: *percent, full_speed };
                    jobs.extend(subject.caches(scope, &lot, &[form]));
                };
                if kept.is_some() {
                    add(LRU, false, Form::Plain);
                    add(LFU, true, Form::Plain);
                }
                add(BY_KEY, true, Form::ByKey);
            }
        }
    }
    jobs
}
