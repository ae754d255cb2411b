//! Counts of commands and of what each namespace's keys go through, for INFO, for metrics and for the log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::cache::Cache;
use crate::layout::NamespaceIndex;

mod abandoned;
mod commands;
mod contents;
mod counter;
mod encoding;
mod expiring;
mod histogram;
mod in_parts;
mod large_buckets;
mod native;
mod primary;
mod replicas;
mod sweep;
mod traffic;

pub use abandoned::{Abandoned, NotedParts};
pub use commands::{CommandCounts, CommandEnd, CommandStats, CommandWay};
pub use contents::Contents;
pub use counter::Counter;
pub use encoding::Encoding;
pub use expiring::Expiring;
pub use histogram::{Durations, Histogram, quantile};
pub(crate) use in_parts::Hints;
use in_parts::KeysInParts;
pub use large_buckets::{LargeBucket, LargeBuckets};
pub use native::{NATIVE_SCHEMA, NATIVE_ZERO_THRESHOLD_S, NativeDurations};
pub use primary::{PrimaryState, PrimaryStatus, SentinelStatus};
pub use replicas::{ReplicaStates, ReplicaStatus, ReplicasStatus};
pub use sweep::{SweepState, Swept};
pub use traffic::Traffic;

/// Slots that are enough to know how many keys one holds.
const SLOTS_NOTED: u64 = 2048;

/// The counters of all namespaces, shared by everything that drives the core in one process.
#[derive(Debug, Default)]
pub struct Stats {
    namespaces: Vec<NamespaceStats>,
    /// What SCAN last came by: slots of the server's table in the upper half, keys in them in the lower.
    slots_and_keys: AtomicU64,
    sweep: SweepState,
    layouts: LayoutStats,
    encoding: Encoding,
    in_parts: KeysInParts,
    primary: Arc<PrimaryState>,
    replicas: Arc<ReplicaStates>,
    server: Arc<OnceLock<String>>,
    traffic: Arc<OnceLock<Vec<Arc<dyn Traffic>>>>,
    cache: Arc<OnceLock<Arc<Cache>>>,
}

/// What happened to the layout on the server past keyfold, and what this process did about it.
#[derive(Debug, Default)]
pub struct LayoutStats {
    found_lost: AtomicU64,
    put_back: AtomicU64,
    connections_closed: AtomicU64,
    changes: AtomicU64,
}

/// The same at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutCounts {
    /// How often the layout was found gone, damaged, or changed past keyfold.
    pub found_lost: u64,
    /// How often this process put it back.
    pub put_back: u64,
    /// Connections of processes that didn't answer to a change, which this one had closed.
    pub connections_closed: u64,
    /// How often this process took up another layout.
    pub changes: u64,
}

impl LayoutStats {
    /// Adds to what was counted.
    pub fn add(&self, counts: LayoutCounts) {
        self.found_lost.fetch_add(counts.found_lost, Ordering::Relaxed);
        self.put_back.fetch_add(counts.put_back, Ordering::Relaxed);
        self.connections_closed.fetch_add(counts.connections_closed, Ordering::Relaxed);
        self.changes.fetch_add(counts.changes, Ordering::Relaxed);
    }

    /// All that was counted.
    pub fn counts(&self) -> LayoutCounts {
        LayoutCounts {
            found_lost: self.found_lost.load(Ordering::Relaxed),
            put_back: self.put_back.load(Ordering::Relaxed),
            connections_closed: self.connections_closed.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
        }
    }
}

/// The counters of one namespace since the process started.
#[derive(Debug, Default)]
pub struct NamespaceStats {
    reads: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    writes: AtomicU64,
    spills: AtomicU64,
    conflicts: AtomicU64,
    undecodable: AtomicU64,
    value_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    has_spilled: AtomicBool,
    has_framed_counters: AtomicBool,
    warned: AtomicBool,
    swept: AtomicU64,
    expired: AtomicU64,
    evicted: AtomicU64,
    evicted_new: AtomicU64,
    contents: Mutex<Option<Contents>>,
}

/// A namespace's counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys read.
    pub reads: u64,
    /// Keys that were read and there, as the answers tell: of requests whose keys are all of this namespace.
    pub hits: u64,
    /// Keys that were read and not there.
    pub misses: u64,
    /// Keys written, deleted ones included.
    pub writes: u64,
    /// Values that were longer than the namespace's limit and got a key of their own.
    pub spills: u64,
    /// Commands worked out again because another client was quicker.
    pub conflicts: u64,
    /// Values that a codec's slot or payload made unreadable.
    pub undecodable: u64,
    /// Fields that the sweep looked at.
    pub swept: u64,
    /// Those of them that had expired.
    pub expired: u64,
    /// Keys that were removed as memory was short, and they were worth the least.
    pub evicted: u64,
    /// Those of them that were so new that nothing was known of their use.
    pub evicted_new: u64,
    /// Bytes of the values that were written to where codecs may shorten them.
    pub value_bytes: u64,
    /// Bytes that they were stored as.
    pub stored_bytes: u64,
}

impl Counts {
    /// Whether more than a tenth of the writes spill, over enough of them to say so.
    pub fn spills_much(&self) -> bool {
        self.writes >= 1000 && self.spills > self.writes / 10
    }
}

impl Stats {
    /// Counters for so many namespaces, all zero.
    pub fn new(namespaces: usize) -> Self {
        let namespaces = (0..namespaces).map(|_| NamespaceStats::default()).collect();
        Self {
            namespaces,
            slots_and_keys: AtomicU64::new(0),
            sweep: SweepState::default(),
            layouts: LayoutStats::default(),
            encoding: Encoding::default(),
            in_parts: KeysInParts::default(),
            primary: Arc::default(),
            replicas: Arc::default(),
            server: Arc::default(),
            traffic: Arc::default(),
            cache: Arc::default(),
        }
    }

    /// Says of the server behind, of its primary, of replicas, of traffic, of a cache and of what is to be swept what `earlier`
    /// says, now and later.
    #[must_use]
    pub fn following(mut self, earlier: &Self) -> Self {
        self.primary = Arc::clone(&earlier.primary);
        self.replicas = Arc::clone(&earlier.replicas);
        self.server = Arc::clone(&earlier.server);
        self.traffic = Arc::clone(&earlier.traffic);
        self.cache = Arc::clone(&earlier.cache);
        self.sweep.expiring = Arc::clone(&earlier.sweep.expiring);
        self.sweep.abandoned = Arc::clone(&earlier.sweep.abandoned);
        self
    }

    /// Notes which server is behind, as it was named at the start and without a password. Only the first word counts.
    pub fn note_server(&self, name: String) {
        let _ = self.server.set(name);
    }

    /// The server behind, where it was noted.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.get().map(String::as_str)
    }

    /// Notes who counts requests. Only the first word counts.
    pub fn note_traffic(&self, threads: Vec<Arc<dyn Traffic>>) {
        let _ = self.traffic.set(threads);
    }

    /// Notes where it is known of a cache. Only the first word counts.
    pub fn note_cache(&self, cache: Arc<Cache>) {
        let _ = self.cache.set(cache);
    }

    /// What is known of a cache.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.get().map(|cache| &**cache)
    }

    /// What was counted of each command; none where nobody counts.
    pub(crate) fn command_counts(&self) -> Option<Vec<CommandCounts>> {
        let threads = self.traffic.get()?;
        let counted: Vec<_> = threads.iter().filter_map(|thread| thread.commands()).collect();
        (!counted.is_empty()).then(|| CommandStats::sum(&counted))
    }

    /// Requests that were begun, and how long commands took where that is counted; none where nobody counts.
    pub(crate) fn traffic(&self) -> Option<(u64, Option<Durations>)> {
        self.traffic.get().map(|threads| traffic::sum(threads))
    }

    /// The primary that Sentinels name.
    pub fn primary(&self) -> &PrimaryState {
        &self.primary
    }

    /// The replicas that are read from.
    pub fn replicas(&self) -> &ReplicaStates {
        &self.replicas
    }

    /// The counters of one namespace.
    pub fn namespace(&self, index: NamespaceIndex) -> &NamespaceStats {
        &self.namespaces[index.0]
    }

    /// What happened to the layout on the server.
    pub fn layouts(&self) -> &LayoutStats {
        &self.layouts
    }

    /// How much is encoded, and with what effort.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Which keys were found to lie in parts.
    pub(crate) fn in_parts(&self) -> &KeysInParts {
        &self.in_parts
    }

    /// What the sweep knows and has done.
    pub fn sweep(&self) -> &SweepState {
        &self.sweep
    }

    /// So many slots of the server's table, and the logical keys that were in them, by what SCAN last came by.
    pub(crate) fn slots_and_keys(&self) -> (u64, u64) {
        let both = self.slots_and_keys.load(Ordering::Relaxed);
        (both >> 32, both & u64::from(u32::MAX))
    }

    /// Notes what SCAN came by. What was long before counts less and less.
    pub(crate) fn note_slots(&self, slots: u64, keys: u64) {
        let (mut all, mut held) = self.slots_and_keys();
        (all, held) = (all + slots, held + keys);
        while all > SLOTS_NOTED {
            (all, held) = (all / 2, held / 2);
        }
        self.slots_and_keys.store(all << 32 | held.min(u64::from(u32::MAX)), Ordering::Relaxed);
    }
}

impl NamespaceStats {
    /// The counters now.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            reads: read(&self.reads),
            hits: read(&self.hits),
            misses: read(&self.misses),
            writes: read(&self.writes),
            spills: read(&self.spills),
            conflicts: read(&self.conflicts),
            undecodable: read(&self.undecodable),
            swept: read(&self.swept),
            expired: read(&self.expired),
            evicted: read(&self.evicted),
            evicted_new: read(&self.evicted_new),
            value_bytes: read(&self.value_bytes),
            stored_bytes: read(&self.stored_bytes),
        }
    }

    /// True the first time: whoever asks may warn of what the counts show.
    pub fn warn_once(&self) -> bool {
        !self.warned.swap(true, Ordering::Relaxed)
    }

    /// Takes the counts of this namespace under an earlier layout along.
    pub fn add(&self, counts: Counts) {
        self.reads.fetch_add(counts.reads, Ordering::Relaxed);
        self.hits.fetch_add(counts.hits, Ordering::Relaxed);
        self.misses.fetch_add(counts.misses, Ordering::Relaxed);
        self.writes.fetch_add(counts.writes, Ordering::Relaxed);
        self.spills.fetch_add(counts.spills, Ordering::Relaxed);
        self.conflicts.fetch_add(counts.conflicts, Ordering::Relaxed);
        self.undecodable.fetch_add(counts.undecodable, Ordering::Relaxed);
        self.swept.fetch_add(counts.swept, Ordering::Relaxed);
        self.expired.fetch_add(counts.expired, Ordering::Relaxed);
        self.evicted.fetch_add(counts.evicted, Ordering::Relaxed);
        self.evicted_new.fetch_add(counts.evicted_new, Ordering::Relaxed);
        self.value_bytes.fetch_add(counts.value_bytes, Ordering::Relaxed);
        self.stored_bytes.fetch_add(counts.stored_bytes, Ordering::Relaxed);
        self.has_spilled.fetch_or(counts.spills > 0, Ordering::Relaxed);
    }

    pub(crate) fn count_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts keys that were read: those that were there, and those that were not.
    pub(crate) fn count_lookups(&self, hits: u64, misses: u64) {
        if hits > 0 {
            self.hits.fetch_add(hits, Ordering::Relaxed);
        }
        if misses > 0 {
            self.misses.fetch_add(misses, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what the sweep looked at and found.
    pub(crate) fn count_swept(&self, swept: Swept) {
        self.swept.fetch_add(swept.fields, Ordering::Relaxed);
        self.expired.fetch_add(swept.expired, Ordering::Relaxed);
    }

    /// Counts keys that were removed as memory was short; of `new` ones nothing was known of their use.
    pub(crate) fn count_evicted(&self, keys: u64, new: u64) {
        self.evicted.fetch_add(keys, Ordering::Relaxed);
        self.evicted_new.fetch_add(new, Ordering::Relaxed);
    }

    /// Counts a value that had expired, and was removed.
    pub(crate) fn count_expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    /// What its buckets hold, as the last walk over all found; none where there was none.
    pub fn contents(&self) -> Option<Contents> {
        *self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what a walk over all found.
    pub fn set_contents(&self, contents: Option<Contents>) {
        *self.contents.lock().unwrap_or_else(PoisonError::into_inner) = contents;
    }

    pub(crate) fn count_conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_undecodable(&self) {
        self.undecodable.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_encoded(&self, value_bytes: usize, stored_bytes: usize) {
        self.value_bytes.fetch_add(value_bytes as u64, Ordering::Relaxed);
        self.stored_bytes.fetch_add(stored_bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_spill(&self) {
        self.spills.fetch_add(1, Ordering::Relaxed);
        self.note_spilled();
    }

    /// Says that the namespace has spilled values: writes must look at what they replace.
    pub fn note_spilled(&self) {
        self.has_spilled.store(true, Ordering::Relaxed);
    }

    /// Says that the namespace has counters which expire, and which the server therefore can't count up by itself.
    pub(crate) fn note_framed_counter(&self) {
        self.has_framed_counters.store(true, Ordering::Relaxed);
    }

    /// Whether the namespace is known to have such counters.
    pub(crate) fn has_framed_counters(&self) -> bool {
        self.has_framed_counters.load(Ordering::Relaxed)
    }

    /// Whether the namespace is known to have spilled values.
    pub fn has_spilled(&self) -> bool {
        self.has_spilled.load(Ordering::Relaxed)
    }
}
