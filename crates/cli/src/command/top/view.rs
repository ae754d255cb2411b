//! What there is to be seen: the figures of two looks at each source, by keyfold and by namespace.
//!
//! Rates and latencies are of the time between the two; everything else is as the last look had it, since the keyfold's
//! start. Of several keyfolds counts are added up; what a namespace holds is taken from the one that knows, as one of them
//! sweeps.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use keyfold_core::admin::move_progress::MoveProgress;
use keyfold_core::stats::Durations;
use keyfold_core::status::NamespaceStatus;
use keyfold_proxy::admin::FullStatus;
use keyfold_report::number::{bytes, count};

use super::behind::BehindTold;
use super::caches;
use super::names::visible;
use super::source::{Look, Told};
use crate::moving::announce;

/// The last two looks at each source.
pub(super) struct Watch {
    pub(super) interval: Duration,
    sources: Vec<Watched>,
}

struct Watched {
    name: String,
    looks: usize,
    last: Option<(Instant, Told)>,
    before: Option<(Instant, Told)>,
    trouble: Option<String>,
}

/// What there is to be seen.
pub(super) struct View {
    pub(super) interval: Duration,
    pub(super) total: Traffic,
    pub(super) saved: Option<Saved>,
    pub(super) sources: Vec<SourceRow>,
    pub(super) namespaces: Vec<NamespaceRow>,
    /// Who serves, as servers know it.
    pub(super) notes: Vec<String>,
    pub(super) moves: Vec<String>,
    pub(super) caches: Vec<String>,
    pub(super) warnings: Vec<Shown>,
}

/// What folding saves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Saved {
    pub(super) bytes: f64,
    /// What the same would take as plain keys, where that is known.
    pub(super) plain_bytes: Option<f64>,
    pub(super) usd_a_month: Option<f64>,
    /// By a sample, and not by a whole walk.
    pub(super) is_sampled: bool,
}

/// How much is asked, and how it goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    pub(super) per_second: Option<f64>,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    /// Of keys that were read, those that were there.
    pub(super) hit_ratio: Option<f64>,
}

/// A keyfold or a server.
pub(super) struct SourceRow {
    pub(super) name: String,
    pub(super) state: String,
    /// Why it can't be asked.
    pub(super) trouble: Option<String>,
    pub(super) traffic: Traffic,
    pub(super) requests: Option<u64>,
    pub(super) clients: Option<u64>,
    pub(super) saved_bytes: Option<f64>,
}

/// A namespace, over all sources.
#[derive(Clone, Debug, Default)]
pub(super) struct NamespaceRow {
    pub(super) keys: String,
    pub(super) is_moving: bool,
    /// Keys that are read and written a second.
    pub(super) per_second: Option<f64>,
    pub(super) count: Option<f64>,
    pub(super) buckets: Option<u64>,
    pub(super) saved_bytes: Option<f64>,
    pub(super) reads: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) writes: u64,
    pub(super) spills: u64,
    pub(super) value_bytes: u64,
    pub(super) stored_bytes: u64,
}

/// A warning, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) is_error: bool,
    /// Whom it is about.
    pub(super) about: String,
    pub(super) text: String,
    pub(super) advice: String,
}

impl Watch {
    pub(super) fn new(names: Vec<String>, interval: Duration) -> Self {
        let watched =
            |name: String| Watched { name: visible(&name), looks: 0, last: None, before: None, trouble: None };
        Self { interval, sources: names.into_iter().map(watched).collect() }
    }

    /// Takes what a source said.
    pub(super) fn take(&mut self, index: usize, look: Look) {
        let source = &mut self.sources[index];
        source.looks += 1;
        match look.told {
            Ok(told) => {
                source.before = source.last.take();
                source.last = Some((look.at, told));
                source.trouble = None;
            }
            Err(trouble) => source.trouble = Some(visible(&trouble)),
        }
    }

    /// Whether each source was seen twice, or can't be asked.
    pub(super) fn has_seen_all_twice(&self) -> bool {
        self.sources.iter().all(|source| source.looks >= 2 || source.trouble.is_some())
    }
}

/// How far a move has come, by who has heard of it last.
fn newest_progress(watch: &Watch) -> Option<MoveProgress> {
    let told = watch.sources.iter().filter_map(|source| match &source.last.as_ref()?.1 {
        Told::Keyfold(now) => now.move_progress,
        Told::Behind(told) => told.move_progress,
    });
    told.min_by_key(|progress| progress.silent_ms)
}

impl View {
    pub(super) fn of(watch: &Watch) -> Self {
        let mut view = Self {
            interval: watch.interval,
            total: Traffic::default(),
            saved: None,
            sources: Vec::new(),
            namespaces: Vec::new(),
            notes: Vec::new(),
            moves: Vec::new(),
            caches: Vec::new(),
            warnings: Vec::new(),
        };
        let (mut between, mut namespaces) = (Between::default(), BTreeMap::new());
        let is_alone = watch.sources.len() == 1;
        for source in &watch.sources {
            let row = match &source.last {
                Some((_, Told::Keyfold(now))) => {
                    let before = source.before.as_ref().and_then(|(at, told)| match told {
                        // A keyfold that was started anew counts from nothing.
                        Told::Keyfold(before) if before.requests <= now.requests => Some((*at, &**before)),
                        _ => None,
                    });
                    let took =
                        source.last.as_ref().zip(before).map(|((now, _), (before, _))| now.duration_since(before));
                    let before = before.map(|(_, before)| before).zip(took);
                    let own = Between::of(now, before);
                    add_namespaces(now, before, &mut namespaces);
                    let cache = caches::line(&now.keyfold, before.map(|(before, took)| (&before.keyfold, took)));
                    let name = if is_alone { String::new() } else { format!("{}: ", source.name) };
                    view.caches.extend(cache.map(|line| format!("{name}{line}")));
                    view.add_keyfold(source, now, is_alone);
                    let row = keyfold_row(source, now, &own);
                    between.add(&own);
                    row
                }
                Some((_, Told::Behind(told))) => {
                    view.add_behind(told, &mut namespaces);
                    behind_row(source, told)
                }
                None => SourceRow::away(source),
            };
            if let Some(trouble) = &row.trouble {
                view.warnings.insert(
                    0,
                    Shown {
                        is_error: true,
                        about: row.name.clone(),
                        text: format!("It can't be asked: {trouble}"),
                        advice: "What is shown of it, if anything, is what it said last.".to_owned(),
                    },
                );
            }
            view.sources.push(row);
        }
        view.total = between.traffic();
        // Of a server alone, what it counts itself.
        if view.total.per_second.is_none() && is_alone {
            view.total = view.sources[0].traffic.clone();
        }
        view.namespaces = namespaces.into_values().collect();
        view.moves.extend(newest_progress(watch).map(|progress| announce::line(&progress)));
        view.sum_up_savings(watch);
        view
    }

    fn add_keyfold(&mut self, source: &Watched, now: &FullStatus, is_alone: bool) {
        let errors: Vec<&str> = now.ready.reasons.iter().map(|reason| reason.reason.as_str()).collect();
        for warning in &now.warnings {
            let about = warning.about.as_deref().map(visible).unwrap_or_default();
            let about = match (is_alone, about.is_empty()) {
                (true, _) => about,
                (false, true) => source.name.clone(),
                (false, false) => format!("{} {about}", source.name),
            };
            let is_error = errors.contains(&warning.code.as_str());
            self.warnings.push(Shown {
                is_error,
                about,
                text: visible(&warning.text),
                advice: visible(&warning.advice),
            });
        }
        self.warnings.sort_by_key(|shown| !shown.is_error);
        for namespace in now.keyfold.namespaces.iter().filter(|namespace| namespace.moving) {
            let from =
                namespace.former.as_deref().map_or_else(String::new, |former| format!(" from {}", visible(former)));
            let held = namespace
                .contents
                .map_or_else(String::new, |held| format!("; {} keys in buckets by the last walk", count(held.keys)));
            let line = format!("{}{from} to {}{held}", visible(&namespace.keys), visible(&namespace.placement));
            if !self.moves.contains(&line) {
                self.moves.push(line);
            }
        }
    }

    fn add_behind(&mut self, told: &BehindTold, namespaces: &mut BTreeMap<String, NamespaceRow>) {
        self.notes.extend(told.keyfolds.iter().map(|line| visible(line)));
        let moves = told.moves.iter().map(|line| visible(line));
        self.moves.extend(moves);
        if told.in_doubt {
            let text = "The layout was lost and put back, and it isn't known yet where its keys lie.".to_owned();
            let advice = "A keyfold settles it; else `keyfold layout recover`.".to_owned();
            self.warnings.push(Shown { is_error: false, about: String::new(), text, advice });
        }
        for sampled in &told.namespaces {
            let keys = visible(&sampled.keys);
            let row =
                namespaces.entry(keys.clone()).or_insert_with(|| NamespaceRow { keys, ..NamespaceRow::default() });
            // What a walk has counted is nearer than a sample.
            row.count = row.count.or(Some(sampled.count));
            row.saved_bytes = row.saved_bytes.or(sampled.saved_bytes);
        }
    }

    /// Of keyfolds before one server, the one that sweeps knows; of several servers they add up.
    fn sum_up_savings(&mut self, watch: &Watch) {
        let mut by_server: BTreeMap<Option<String>, Saved> = BTreeMap::new();
        let mut sampled = None;
        for source in &watch.sources {
            match &source.last {
                Some((_, Told::Keyfold(now))) => {
                    let Some(saving) = now.saving else { continue };
                    let saved = Saved {
                        bytes: saving.saved_bytes as f64,
                        plain_bytes: Some(saving.plain_bytes as f64),
                        usd_a_month: now.saved_usd_per_month,
                        is_sampled: false,
                    };
                    by_server.insert(now.keyfold.server.clone(), saved);
                }
                Some((_, Told::Behind(told))) => {
                    let saved = |bytes| Saved { bytes, is_sampled: true, ..Saved::default() };
                    sampled = sampled.or(told.saved_bytes.filter(|_| !told.namespaces.is_empty()).map(saved));
                }
                None => {}
            }
        }
        let add = |sum: Saved, one: Saved| Saved {
            bytes: sum.bytes + one.bytes,
            plain_bytes: sum.plain_bytes.zip(one.plain_bytes).map(|(sum, one)| sum + one),
            usd_a_month: sum.usd_a_month.zip(one.usd_a_month).map(|(sum, one)| sum + one),
            is_sampled: false,
        };
        self.saved = by_server.into_values().reduce(add).or(sampled);
    }
}

/// What came between two looks.
#[derive(Default)]
struct Between {
    per_second: Option<f64>,
    durations: Durations,
    hits: u64,
    misses: u64,
}

impl Between {
    fn of(now: &FullStatus, before: Option<(&FullStatus, Duration)>) -> Self {
        let Some((before, took)) = before else { return Self::default() };
        let durations = |status: &FullStatus| {
            status.keyfold.latency.as_ref().map(|latency| latency.durations()).unwrap_or_default()
        };
        let sum = |status: &FullStatus, read: fn(&NamespaceStatus) -> u64| {
            status.keyfold.namespaces.iter().map(read).sum::<u64>()
        };
        let more = |read| sum(now, read).saturating_sub(sum(before, read));
        Self {
            per_second: Some(now.requests.saturating_sub(before.requests) as f64 / took.as_secs_f64().max(1e-9)),
            durations: durations(now).since(&durations(before)),
            hits: more(|namespace| namespace.hits),
            misses: more(|namespace| namespace.misses),
        }
    }

    fn add(&mut self, other: &Self) {
        self.per_second = match (self.per_second, other.per_second) {
            (Some(sum), Some(more)) => Some(sum + more),
            (one, other) => one.or(other),
        };
        self.durations += other.durations;
        self.hits += other.hits;
        self.misses += other.misses;
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            per_second: self.per_second,
            p50_us: self.durations.quantile_us(0.5),
            p99_us: self.durations.quantile_us(0.99),
            hit_ratio: ratio(self.hits, self.misses),
        }
    }
}

impl SourceRow {
    fn away(source: &Watched) -> Self {
        let state = if source.trouble.is_some() { "away" } else { "asked…" };
        Self {
            name: source.name.clone(),
            state: state.to_owned(),
            trouble: source.trouble.clone(),
            traffic: Traffic::default(),
            requests: None,
            clients: None,
            saved_bytes: None,
        }
    }
}

fn keyfold_row(source: &Watched, now: &FullStatus, between: &Between) -> SourceRow {
    let state = match (&source.trouble, now.ready.ok) {
        (Some(_), _) => "away".to_owned(),
        (None, true) => "ready".to_owned(),
        (None, false) => "not ready".to_owned(),
    };
    SourceRow {
        name: source.name.clone(),
        state,
        trouble: source.trouble.clone(),
        traffic: between.traffic(),
        requests: Some(now.requests),
        clients: Some(now.clients.connected as u64),
        saved_bytes: now.saving.map(|saving| saving.saved_bytes as f64),
    }
}

fn behind_row(source: &Watched, told: &BehindTold) -> SourceRow {
    let memory = match told.max_bytes {
        0 => bytes(told.used_bytes as f64),
        most => format!("{} of {}", bytes(told.used_bytes as f64), bytes(most as f64)),
    };
    let epoch = told.epoch.map_or_else(|| "nothing folded".to_owned(), |epoch| format!("layout {epoch}"));
    let state = if source.trouble.is_some() {
        "away".to_owned()
    } else {
        format!("{}, {memory}, {epoch}", visible(&told.server))
    };
    SourceRow {
        name: source.name.clone(),
        state,
        trouble: source.trouble.clone(),
        traffic: Traffic {
            per_second: Some(told.per_second as f64),
            hit_ratio: ratio(told.hits, told.misses),
            ..Traffic::default()
        },
        requests: None,
        clients: Some(told.clients),
        saved_bytes: told.saved_bytes.filter(|_| !told.namespaces.is_empty()),
    }
}

fn add_namespaces(
    now: &FullStatus,
    before: Option<(&FullStatus, Duration)>,
    rows: &mut BTreeMap<String, NamespaceRow>,
) {
    for namespace in &now.keyfold.namespaces {
        let keys = visible(&namespace.keys);
        let row = rows.entry(keys.clone()).or_insert_with(|| NamespaceRow { keys, ..NamespaceRow::default() });
        row.is_moving |= namespace.moving;
        row.reads += namespace.reads;
        row.hits += namespace.hits;
        row.misses += namespace.misses;
        row.writes += namespace.writes;
        row.spills += namespace.spills;
        if let Some(codec) = &namespace.codec {
            row.value_bytes += codec.value_bytes;
            row.stored_bytes += codec.stored_bytes;
        }
        if let Some(held) = namespace.contents {
            row.count = Some(held.keys as f64);
            row.buckets = Some(held.buckets);
            row.saved_bytes = Some(held.saved_bytes() as f64);
        }
        let earlier = before.and_then(|(before, took)| {
            let same = before.keyfold.namespaces.iter().find(|one| one.keys == namespace.keys)?;
            Some((same.reads + same.writes, took))
        });
        if let Some((earlier, took)) = earlier {
            let more = (namespace.reads + namespace.writes).saturating_sub(earlier);
            *row.per_second.get_or_insert(0.0) += more as f64 / took.as_secs_f64().max(1e-9);
        }
    }
}

fn ratio(hits: u64, misses: u64) -> Option<f64> {
    let all = hits + misses;
    (all > 0).then(|| hits as f64 / all as f64)
}

impl NamespaceRow {
    /// Of keys that were read since the start, those that were there.
    pub(super) fn hit_ratio(&self) -> Option<f64> {
        ratio(self.hits, self.misses)
    }

    /// How many keys a bucket has.
    pub(super) fn fill(&self) -> Option<f64> {
        let buckets = self.buckets.filter(|buckets| *buckets > 0)?;
        Some(self.count? / buckets as f64)
    }

    /// What a codec makes of a byte.
    pub(super) fn packed(&self) -> Option<f64> {
        (self.value_bytes > 0).then(|| self.stored_bytes as f64 / self.value_bytes as f64)
    }
}
