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
//! | `job.rs` | one cache to be measured |
//! | `cache.rs` | the server as a cache |
//! | `kept.rs` | which caches keyfold keeps, of which objects |
//! | `by_key.rs` | keyfold before it, which evicts |
//! | `farm.rs` | many caches, each on a server |
//! | `own_server.rs` | what is asked of such a server |
//! | `show.rs` | what came of it |

mod by_key;
mod cache;
mod farm;
mod job;
mod kept;
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
use cache::Trial;
use job::{Given, Job, Keepers};
use kept::KeptScope;

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

const QUICK: Scope = Scope {
    objects: 10_000,
    percents: &[5, 20],
    entries: &[16, 64, 128],
    skews: &[],
    skew_percent: 10,
    control_percent: None,
    turnover_s: 1.0,
    requests_per_key: 32,
    kept: kept::QUICK,
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
    kept: kept::WHOLE,
};
/// On a server that is named, where caches have to take turns.
const QUICK_ALONE: Scope = Scope { percents: &[20], entries: &[64], turnover_s: 0.5, ..QUICK };
const ALONE: Scope = Scope { percents: &[5, 20], entries: &[16, 64], skews: &[], ..WHOLE };
/// Of so many requests one is missed, about.
const ONE_IN_MISSED: f64 = 2.0;

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

/// Objects with values of each size, and requests for them.
#[derive(Default)]
struct Material {
    sizes: Vec<Objects>,
    /// The first is what most is measured with.
    streams: Vec<Stream>,
}

/// The same, and what all objects take in each form.
#[derive(Default)]
struct Subject {
    sizes: Vec<Objects>,
    wholes: Vec<Whole>,
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
        let (main, kept) = (main_material(options, &scope)?, kept::material(options, &scope.kept)?);
        let of = |objects: &Objects| format!("{} of {}", plural(objects.count(), "object"), objects.template());
        let all = || main.sizes.iter().chain(&kept.sizes);
        let mut outcome = Outcome::new(all().next().map(of).unwrap_or_default());
        if bench.is_shared() {
            outcome.left_out.push("all of it: the server would evict others' keys".to_owned());
            outcome.verdict = "A cache can only be measured on a server of its own.".to_owned();
            return Ok(outcome);
        }
        if settings(bench, all().map(Objects::value_limit).max().unwrap_or(0))? == Setting::Forbidden {
            outcome.left_out.push(format!("all of it: the server forbids CONFIG, so {LIMIT} can't be set"));
            outcome.verdict = "The server forbids CONFIG, so nothing could be measured.".to_owned();
            return Ok(outcome);
        }
        let main = Subject::weighed(main, &scope.forms(), bench)?;
        let mut jobs = jobs(&scope, &main);
        let kept = match bench.own_program() {
            Some(_) => Subject::weighed(kept, &[Form::Plain, Form::Buckets(KEPT_ENTRIES)], bench)?,
            None => Subject::default(),
        };
        if bench.own_program().is_some() {
            jobs.extend(kept::jobs(&scope, &kept, &main));
        } else {
            outcome
                .left_out
                .push("caches that keyfold keeps: they are measured on servers of its own alone".to_owned());
        }
        let rows = farm::measure(bench, &jobs)?;
        main.wholes.iter().chain(&kept.wholes).for_each(|whole| outcome.hold(whole.bytes, whole.predicted));
        let objects = main.sizes.first().map_or(0, Objects::count);
        show::conclude(&rows, &main.wholes, objects, scope.turnover_s, &mut outcome);
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

/// What most is measured with: a file's requests, or made-up ones; nothing where records are to be measured.
fn main_material(options: &Options, scope: &Scope) -> anyhow::Result<Material> {
    if options.records.is_some() {
        return Ok(Material::default());
    }
    if let Some(file) = &options.trace {
        let (small, requests) = Objects::of_trace(file, SMALL, options.seed)?;
        return Ok(Material { sizes: both(small), streams: vec![Stream { skew: None, requests }] });
    }
    let objects = u32::try_from(options.sized(scope.objects, scope.objects, scope.objects * 4))?;
    let most = scope.percents.iter().max().copied().unwrap_or(100);
    let stream = |skew: f64, percent: u64| {
        let requests = scope.requests(u64::from(objects), percent);
        Stream { skew: Some(skew), requests: objects::requests(objects, requests, skew, options.seed) }
    };
    let others = scope.skews.iter().map(|skew| stream(*skew, scope.skew_percent));
    let streams = std::iter::once(stream(SKEW, most)).chain(others).collect();
    Ok(Material { sizes: both(Objects::made_up(objects, SMALL, options.seed)), streams })
}

/// With values of both sizes.
fn both(small: Objects) -> Vec<Objects> {
    let large = small.with_values(LARGE);
    vec![small, large]
}

/// What buckets rely on, and no limit of memory at first.
fn settings(bench: &mut Bench<'_>, value_limit: u64) -> anyhow::Result<Setting> {
    for (name, wanted) in [(LIMIT, 0), (ENTRIES, Limits::default().hash_entries), (VALUE, value_limit)] {
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
    let physical = objects.physical(form)?;
    let what = format!("hit-ratio: {} with values of {value_bytes} bytes", form.name());
    let weight = bench.measure(&what, physical.len(), |writer| physical.write(writer))?;
    let predicted = weight.predicted(&physical.predict(&model, bench.prefix_len()));
    Ok(Whole { value_bytes, form, bytes: weight.bytes, predicted })
}

impl Subject {
    fn weighed(Material { sizes, streams }: Material, forms: &[Form], bench: &mut Bench<'_>) -> anyhow::Result<Self> {
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
    fn caches<'a>(&'a self, scope: &Scope, lot: &Lot<'a>, forms: &[Form]) -> Vec<Job<'a>> {
        let Lot { objects, stream, policy, percent, full_speed } = *lot;
        let (count, value_bytes) = (objects.count(), objects.value_bytes());
        let room_bytes = self.bytes(Form::Plain, value_bytes) * percent / 100;
        let folded = self.bytes(Form::Buckets(KEPT_ENTRIES), value_bytes).max(1);
        // Those that are held back get as many as there is time for; of a file each gets all.
        let most = if full_speed || stream.skew.is_none() { u64::MAX } else { scope.requests(count, percent) };
        let requests = &stream.requests[..stream.requests.len().min(usize::try_from(most).unwrap_or(usize::MAX))];
        let turned_over = count as f64 * percent as f64 / 100.0 * ONE_IN_MISSED;
        let pace = (!full_speed).then_some(turned_over / scope.turnover_s);
        let job = |form: &Form| Job {
            given: Given {
                objects: count,
                policy,
                skew: stream.skew,
                value_bytes,
                percent,
                form: *form,
                full_speed,
                keepers: Keepers::One,
            },
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
fn jobs<'a>(scope: &Scope, subject: &'a Subject) -> Vec<Job<'a>> {
    let forms = scope.forms();
    let Some(small) = subject.sizes.first() else { return Vec::new() };
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
