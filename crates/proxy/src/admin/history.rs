//! `/history`: how it went in the last hour, so that whoever comes to look sees the whole of it at once.
//!
//! Every ten seconds the operators' own thread reads what `/status` reads, and keeps the difference to the time before: 360
//! samples of fixed size, 48 KiB together. Workers do nothing for it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use keyfold_core::stats::Durations;
use keyfold_core::status::Status;
use serde::{Deserialize, Serialize};

use super::status::{FullStatus, unix_ms};

/// Samples that are kept: an hour of them, ten seconds apart.
const KEPT: usize = 360;

/// How it went between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// When it was taken, in milliseconds since 1970.
    pub at_ms: u64,
    /// How long before that the one before was, in milliseconds.
    pub took_ms: u64,
    /// Requests that were begun between both.
    pub requests: u64,
    /// Commands that were timed between both.
    pub commands: u64,
    /// Half of these took no longer, in microseconds; none where there were none.
    pub p50_us: Option<f64>,
    /// 99 of 100 took no longer.
    pub p99_us: Option<f64>,
    /// Keys of namespaces that were read and there.
    pub hits: u64,
    /// Keys of namespaces that were read and not there.
    pub misses: u64,
    /// What folding saved then; none where that wasn't known.
    pub saved_bytes: Option<i64>,
    /// Clients that were connected then.
    pub clients: usize,
    /// Keys that were removed between both as memory was short, plain ones among them.
    #[serde(default)]
    pub evicted: u64,
    /// Those of them that were so new that nothing was known of their use.
    #[serde(default)]
    pub evicted_new: u64,
    /// What servers counted of their memory then; none where no cache is kept.
    #[serde(default)]
    pub cache_bytes: Option<u64>,
}

/// The samples of the last hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// How often one is taken, in milliseconds.
    pub every_ms: u64,
    /// The time here now, in milliseconds since 1970.
    pub now_ms: u64,
    /// From the oldest on.
    pub samples: Vec<Sample>,
}

/// What grows, as it was at a moment.
#[derive(Debug)]
struct Seen {
    at: Instant,
    requests: u64,
    durations: Durations,
    hits: u64,
    misses: u64,
    evicted: u64,
    evicted_new: u64,
}

/// Keeps samples.
#[derive(Debug)]
pub(super) struct Keeper {
    every: Duration,
    seen: Seen,
    /// Never more than [`KEPT`]; room for them is made once.
    samples: VecDeque<Sample>,
}

impl Seen {
    fn of(status: &Status, at: Instant) -> Self {
        let sum = |count: fn(&keyfold_core::status::NamespaceStatus) -> u64| status.namespaces.iter().map(count).sum();
        Self {
            at,
            requests: status.requests.unwrap_or_default(),
            durations: status.latency.as_ref().map(|latency| latency.durations()).unwrap_or_default(),
            hits: sum(|namespace| namespace.hits),
            misses: sum(|namespace| namespace.misses),
            evicted: sum(|namespace| namespace.evicted) + status.cache.as_ref().map_or(0, |cache| cache.plain_evicted),
            evicted_new: sum(|namespace| namespace.evicted_new),
        }
    }
}

impl Keeper {
    /// Begins with what has been counted so far.
    pub(super) fn new(every: Duration, status: &Status) -> Self {
        Self { every, seen: Seen::of(status, Instant::now()), samples: VecDeque::with_capacity(KEPT) }
    }

    /// How often a sample is to be taken.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// Takes a sample; the oldest makes room for it.
    pub(super) fn take(&mut self, status: &FullStatus, now: Instant) {
        let seen = Seen::of(&status.keyfold, now);
        // A namespace that has gone takes its counts along.
        let more = |count: fn(&Seen) -> u64| count(&seen).saturating_sub(count(&self.seen));
        let durations = seen.durations.since(&self.seen.durations);
        let sample = Sample {
            at_ms: status.now_ms,
            took_ms: millis(now.saturating_duration_since(self.seen.at)),
            requests: more(|seen| seen.requests),
            commands: durations.count(),
            p50_us: durations.quantile_us(0.5),
            p99_us: durations.quantile_us(0.99),
            hits: more(|seen| seen.hits),
            misses: more(|seen| seen.misses),
            saved_bytes: status.saving.map(|saving| saving.saved_bytes),
            clients: status.clients.connected,
            evicted: more(|seen| seen.evicted),
            evicted_new: more(|seen| seen.evicted_new),
            cache_bytes: status.keyfold.cache.as_ref().map(|cache| cache.used_bytes),
        };
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.seen = seen;
    }

    /// All samples.
    pub(super) fn history(&self) -> History {
        History {
            every_ms: millis(self.every),
            now_ms: unix_ms(std::time::SystemTime::now()),
            samples: self.samples.iter().copied().collect(),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use keyfold_core::layout::{Layout, NamespaceIndex};
    use keyfold_core::stats::{Contents, Counts, Stats};
    use keyfold_core::status::LatencyStatus;

    use super::*;

    fn full(keyfold: Status, now_ms: u64) -> FullStatus {
        FullStatus { now_ms, saving: keyfold.saving(), keyfold, ..FullStatus::default() }
    }

    #[test]
    fn a_sample_is_what_came_since_the_one_before() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'u:{id:int}'\nbucket = { span = 64 }\n").unwrap();
        let stats = Stats::new(1);
        let look = |requests, buckets: &[(Option<u64>, u64)]| {
            let mut status = Status::new(&layout, &stats, 0);
            status.requests = Some(requests);
            status.latency = Some(LatencyStatus::of(Durations::of_buckets(buckets.iter().copied(), 0)));
            status
        };
        let mut keeper = Keeper::new(Duration::from_secs(10), &look(100, &[(Some(64), 90)]));
        let at = keeper.seen.at;
        stats.namespace(NamespaceIndex(0)).add(Counts {
            hits: 3,
            misses: 2,
            evicted: 9,
            evicted_new: 4,
            ..Counts::default()
        });
        let mut contents = Contents::default();
        (contents.stored_bytes, contents.plain_bytes) = (100, 700);
        stats.namespace(NamespaceIndex(0)).set_contents(Some(contents));
        keeper.take(&full(look(150, &[(Some(64), 90), (Some(1024), 40)]), 7), at + Duration::from_millis(10_002));
        keeper.take(&full(look(150, &[(Some(64), 90), (Some(1024), 40)]), 8), at + Duration::from_millis(20_002));
        let [busy, idle] = keeper.history().samples[..] else { panic!("two were taken") };
        assert_eq!(
            (busy.at_ms, busy.took_ms, busy.requests, busy.commands, busy.hits, busy.misses),
            (7, 10_002, 50, 40, 3, 2)
        );
        assert_eq!((busy.p50_us, busy.p99_us, busy.saved_bytes), (Some(768.0), Some(512.0 + 512.0 * 0.99), Some(600)));
        assert_eq!((busy.evicted, busy.evicted_new, busy.cache_bytes, idle.evicted), (9, 4, None, 0));
        assert_eq!(
            (idle.requests, idle.commands, idle.p50_us, idle.hits, idle.saved_bytes),
            (0, 0, None, 0, Some(600))
        );
    }

    #[test]
    fn the_oldest_makes_room_and_memory_does_not_grow() {
        let status = full(Status::new(&Layout::default(), &Stats::new(0), 0), 0);
        let mut keeper = Keeper::new(Duration::from_secs(10), &status.keyfold);
        let room = keeper.samples.capacity();
        assert!(room * size_of::<Sample>() <= 48 << 10, "{room} of {} bytes", size_of::<Sample>());
        for number in 0..10_000 {
            keeper.take(&FullStatus { now_ms: number, ..status.clone() }, Instant::now());
        }
        assert_eq!((keeper.samples.len(), keeper.samples.capacity()), (KEPT, room));
        assert_eq!(keeper.history().samples[0].at_ms, 10_000 - KEPT as u64);
        let json = serde_json::to_vec(&keeper.history()).unwrap();
        assert!(json.len() < 120_000, "{} bytes", json.len());
    }
}
