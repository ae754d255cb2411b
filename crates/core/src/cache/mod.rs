//! A cache, as all threads of a keyfold share it: who is asked for, whether there is room, and what left.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `popularity.rs` | how a key stands: new, or asked for so often |
//! | `frequency.rs` | how often keys are asked for, about |
//! | `recent.rs` | which were written lately |
//! | `new_share.rs` | how many of these count as new |
//! | `ages.rs` | how long ago those that leave were asked for |
//! | `slots.rs` | where memory is short |
//! | `seen.rs` | what several keyfolds tell each other of requests |
//! | `saved.rs` | what the next keyfold learns of them |

mod ages;
mod frequency;
mod new_share;
mod popularity;
mod recent;
mod saved;
mod seen;
mod slots;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use slots::Slots;

use crate::layout::{CachePolicy, Place};
use crate::slot::Slot;

pub use ages::{AgeCounts, Ages};
pub use frequency::Frequency;
pub use popularity::{Popularity, Standing, Use};
pub use recent::Recent;
pub use saved::{Reading, Saved};
pub use seen::Seen;

/// A key, as counters know it: by where it lies. So a walk over buckets need not work out whose each field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Of a key that lies at this name: a plain key, or one that has a name of its own.
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        BucketHash::of(name).field(b"")
    }

    /// Of a key that lies here.
    #[inline]
    pub fn at(place: &Place) -> Self {
        BucketHash::of(&place.physical).field(&place.field)
    }
}

/// A bucket, as the hashes of its keys begin.
#[derive(Clone, Copy, Debug)]
pub struct BucketHash(u64);

impl BucketHash {
    /// Of the bucket with this name.
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(name))
    }

    /// Of the key in this field of it.
    #[inline]
    pub fn field(self, field: &[u8]) -> KeyHash {
        // The lowest bits are for what is told of a key beside it.
        KeyHash(xxhash_rust::xxh3::xxh3_64_with_seed(field, self.0) & !Seen::USES)
    }
}

/// A cache, as one process keeps it.
#[derive(Debug)]
pub struct Cache {
    popularity: Popularity,
    seen: Seen,
    /// Another keyfold evicts, and is told what is asked for here.
    tells: AtomicBool,
    /// Requests are noted.
    is_on: AtomicBool,
    /// Plain keys leave too.
    plain_keys: AtomicBool,
    /// Where writes are refused.
    full: Slots,
    /// Where writes wait until something has left.
    crowded: Slots,
    /// Bytes that may be written where it is crowded.
    room: AtomicI64,
    /// Bytes that may be written until memory is looked at.
    allowance: AtomicI64,
    waited: AtomicU64,
    refused: AtomicU64,
    refused_at_ms: AtomicU64,
    /// By which policy keys leave, and whether it is this process that removes them.
    shown: Mutex<Option<(CachePolicy, bool)>>,
    used: AtomicU64,
    mark: AtomicU64,
    unlimited: AtomicU64,
    keys: AtomicU64,
    plain_evicted: AtomicU64,
    by_server: AtomicU64,
    by_server_at_ms: AtomicU64,
    looked_at: AtomicU64,
}

impl Cache {
    /// One that isn't kept, whose counters of keys take up to about so many bytes.
    pub fn new(most_bytes: u64) -> Self {
        Self {
            popularity: Popularity::new(most_bytes),
            seen: Seen::default(),
            tells: AtomicBool::new(false),
            is_on: AtomicBool::new(false),
            plain_keys: AtomicBool::new(false),
            full: Slots::default(),
            crowded: Slots::default(),
            room: AtomicI64::new(0),
            allowance: AtomicI64::new(0),
            waited: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            refused_at_ms: AtomicU64::new(0),
            shown: Mutex::new(None),
            used: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            unlimited: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            plain_evicted: AtomicU64::new(0),
            by_server: AtomicU64::new(0),
            by_server_at_ms: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
        }
    }

    /// Begins to note requests, or ceases to.
    pub fn turn(&self, is_on: bool, plain_keys: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
        self.plain_keys.store(is_on && plain_keys, Ordering::Relaxed);
        if !is_on {
            self.set_full_in(|_| false);
            self.set_crowded_in(|_| false);
        }
    }

    /// Whether requests are noted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether plain keys leave too.
    #[inline]
    pub fn has_plain_keys(&self) -> bool {
        self.plain_keys.load(Ordering::Relaxed)
    }

    /// What is known of keys' use.
    pub fn popularity(&self) -> &Popularity {
        &self.popularity
    }

    /// What was asked for, as another keyfold is told.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Notes what a key was used for, and how many bytes were written to it.
    #[inline]
    pub fn note(&self, key: KeyHash, used: Use, bytes: usize) {
        self.popularity.note(key, used);
        if self.tells.load(Ordering::Relaxed) {
            self.seen.note(key, used);
        }
        if used.writes() {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            self.allowance.fetch_sub(bytes, Ordering::Relaxed);
            if self.is_crowded() {
                self.room.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
    }

    /// So many bytes may be written until memory is looked at.
    pub fn allow(&self, bytes: u64) {
        self.allowance.store(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Whether as much was written as was allowed.
    pub fn is_due(&self) -> bool {
        self.allowance.load(Ordering::Relaxed) < 0
    }

    /// Says in which slots writes are refused.
    pub fn set_full_in(&self, is_full: impl Fn(Slot) -> bool) {
        self.full.set(is_full);
    }

    /// Whether writes are refused anywhere.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full.anywhere()
    }

    /// Whether writes to keys of this slot are refused.
    pub fn is_full_at(&self, slot: Slot) -> bool {
        self.full.at(slot)
    }

    /// Says in which slots writes wait for room.
    pub fn set_crowded_in(&self, is_crowded: impl Fn(Slot) -> bool) {
        self.crowded.set(is_crowded);
    }

    /// Whether writes wait for room anywhere.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.crowded.anywhere()
    }

    /// Whether writes to keys of this slot wait for room.
    pub fn is_crowded_at(&self, slot: Slot) -> bool {
        self.crowded.at(slot)
    }

    /// So many bytes may be written where it is crowded, less what was written beyond what might be. What wasn't used is gone.
    pub fn give_room(&self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let (relaxed, more) = (Ordering::Relaxed, |left: i64| Some(left.min(0).saturating_add(bytes)));
        let _ = self.room.fetch_update(relaxed, relaxed, more);
    }

    /// Whether something may be written where it is crowded.
    pub fn has_room(&self) -> bool {
        !self.is_crowded() || self.room.load(Ordering::Relaxed) > 0
    }

    /// Counts a write that waits until something has left.
    pub fn count_waited(&self) {
        self.waited.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes that have waited until something had left.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.refused_at_ms.store(self.popularity.ages().now_ms(), Ordering::Relaxed);
    }

    /// How long ago a write was refused last, in milliseconds; none where none ever was.
    pub fn refused_ms_ago(&self) -> Option<u64> {
        self.ago(self.refused(), &self.refused_at_ms)
    }

    /// How long ago something was counted last.
    fn ago(&self, count: u64, at_ms: &AtomicU64) -> Option<u64> {
        (count > 0).then(|| self.popularity.ages().now_ms().saturating_sub(at_ms.load(Ordering::Relaxed)))
    }

    /// Says, from time to time, what time it is.
    pub fn set_now(&self, now_ms: i64) {
        self.popularity.ages().set_now(u64::try_from(now_ms).unwrap_or(0));
    }

    /// Says what is to be shown: by which policy keys leave, and whether it is this process that removes them. Where it is
    /// another, that is told what is asked for here.
    pub fn show(&self, shown: Option<(CachePolicy, bool)>) {
        self.tells.store(shown.is_some_and(|(_, evicts)| !evicts), Ordering::Relaxed);
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    /// What is to be shown; none where no cache is kept.
    pub fn shown(&self) -> Option<(CachePolicy, bool)> {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes that were refused, as memory was short.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Says what servers count of their memory, up to where they may go, how many have no such limit, and how many keys they
    /// hold, about; all of them together.
    pub fn set_gauges(&self, used: u64, mark: u64, unlimited: u64, keys: u64) {
        self.used.store(used, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Relaxed);
        self.unlimited.store(unlimited, Ordering::Relaxed);
        self.keys.store(keys, Ordering::Relaxed);
    }

    /// What servers count of their memory, in bytes.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Up to where they may go, in bytes.
    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Relaxed)
    }

    /// Servers that have no limit, so that nothing leaves them.
    pub fn unlimited(&self) -> u64 {
        self.unlimited.load(Ordering::Relaxed)
    }

    /// How many keys there are, about.
    pub fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// Counts plain keys that left.
    pub fn count_plain(&self, keys: u64) {
        self.plain_evicted.fetch_add(keys, Ordering::Relaxed);
    }

    /// Plain keys that left.
    pub fn plain_evicted(&self) -> u64 {
        self.plain_evicted.load(Ordering::Relaxed)
    }

    /// Counts keys that a server has evicted by itself.
    pub fn count_by_server(&self, keys: u64) {
        self.by_server.fetch_add(keys, Ordering::Relaxed);
        self.by_server_at_ms.store(self.popularity.ages().now_ms(), Ordering::Relaxed);
    }

    /// How long ago some were counted last, in milliseconds; none where none ever were.
    pub fn by_server_ms_ago(&self) -> Option<u64> {
        self.ago(self.by_server(), &self.by_server_at_ms)
    }

    /// Keys, buckets among them, that servers have evicted by themselves.
    pub fn by_server(&self) -> u64 {
        self.by_server.load(Ordering::Relaxed)
    }

    /// Counts keys that were looked at.
    pub fn count_looked_at(&self, keys: u64) {
        self.looked_at.fetch_add(keys, Ordering::Relaxed);
    }

    /// Keys that were looked at to choose some that leave.
    pub fn looked_at(&self) -> u64 {
        self.looked_at.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_is_crowded_as_much_is_written_as_there_is_room_for() {
        let (cache, key) = (Cache::new(1 << 16), KeyHash::of(b"k"));
        cache.note(key, Use::Write, 1_000);
        assert!(cache.has_room(), "nothing is counted before");
        cache.set_crowded_in(|slot| slot == Slot::LAST);
        assert!(!cache.has_room() && cache.is_crowded_at(Slot::LAST) && !cache.is_crowded_at(Slot::of(b"k")));
        cache.give_room(100);
        cache.note(key, Use::Read, 0);
        cache.note(key, Use::Write, 60);
        assert!(cache.has_room());
        cache.note(key, Use::Update, 60);
        assert!(!cache.has_room());
        cache.give_room(20);
        assert!(!cache.has_room(), "what was too much is taken off");
        for _ in 0..2 {
            cache.give_room(100);
        }
        cache.note(key, Use::Write, 100);
        assert!(!cache.has_room(), "what isn't used is not kept");
        cache.give_room(u64::MAX);
        cache.turn(false, false);
        assert!(cache.has_room() && !cache.is_crowded());
    }
}
