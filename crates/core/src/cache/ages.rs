//! How long ago a key that leaves was asked for last, of a sample of keys.
//!
//! No key takes a byte for it. Of those whose hashes end in enough zeros it is kept when each was asked for last, in a table
//! of fixed size: sets of eight words, each a part of a key's hash and a moment, so that no thread waits for another. In a set
//! that is full the key that was asked for longest ago makes room. What is not in its set was asked for no later than the
//! last one that had to make room, or than this began; so an age is right, or the least that it can be.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::KeyHash;

/// Sets of the table: 72 KiB, made when there is a cache.
const SETS: usize = 1024;
const SET_ENTRIES: usize = 8;

/// A set is the one of these bits of a hash, and its entries have the upper half of it.
const SET_SHIFT: u32 = 22;
const TAG_SHIFT: u32 = 32;

/// Of so many keys one is in the sample at the most, as a power of two: requests are to cost next to nothing more.
const LEAST_BITS: u32 = 4;
const MOST_BITS: u32 = 20;
/// The sample is made smaller where it would hold more than this of the keys there are, and larger below an eighth of that.
const WANTED: u64 = (SETS * SET_ENTRIES / 2) as u64;
const FEW: u64 = WANTED / 8;

/// Moments are told apart by so many milliseconds.
const TICK_MS: u64 = 64;

/// Bounds of ages: powers of two from a second to 48 days.
const BOUNDS: usize = 23;

/// A moment of no key.
const EMPTY: u64 = 0;

#[derive(Debug, Default)]
struct Set {
    entries: [AtomicU64; SET_ENTRIES],
    /// What was asked for later than this is here.
    knows_since: AtomicU32,
}

/// When keys of the sample were asked for last, and how old those were that left. All threads share it.
#[derive(Debug)]
pub struct Ages {
    table: OnceLock<Box<[Set]>>,
    /// Keys whose hashes have none of these bits are in the sample.
    mask: AtomicU64,
    began_ms: AtomicU64,
    now_ms: AtomicU64,
    /// The same as a moment.
    now: AtomicU32,
    counts: [AtomicU64; BOUNDS + 1],
    sum_ms: AtomicU64,
}

/// How old keys of the sample were that left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgeCounts {
    /// How many were no older than each bound, in seconds, and older than the one before; none is the bound of the last.
    pub buckets: Vec<(Option<u64>, u64)>,
    /// All ages together, in milliseconds.
    pub sum_ms: u64,
}

impl Default for Ages {
    fn default() -> Self {
        Self {
            table: OnceLock::new(),
            mask: AtomicU64::new(mask(LEAST_BITS)),
            began_ms: AtomicU64::new(0),
            now_ms: AtomicU64::new(0),
            now: AtomicU32::new(0),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ms: AtomicU64::new(0),
        }
    }
}

/// The lowest bit tells something else of a key.
fn mask(bits: u32) -> u64 {
    ((1 << bits) - 1) << 1
}

impl Ages {
    /// Says what time it is; before that nothing is kept. Ages are as exact as this is said often.
    pub fn set_now(&self, now_ms: u64) {
        self.table.get_or_init(|| {
            self.began_ms.store(now_ms, Ordering::Relaxed);
            std::iter::repeat_with(Set::default).take(SETS).collect()
        });
        self.now_ms.store(now_ms, Ordering::Relaxed);
        let ticks = now_ms.saturating_sub(self.began_ms.load(Ordering::Relaxed)) / TICK_MS + 1;
        self.now.store(u32::try_from(ticks).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// The time that was said last, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// Goes by a cache that holds so many keys.
    pub fn follow_keys(&self, keys: u64) {
        let before = self.mask.load(Ordering::Relaxed).count_ones();
        let sparser = (before..MOST_BITS).find(|bits| keys >> bits <= WANTED).unwrap_or(MOST_BITS);
        let denser = (LEAST_BITS..=before).rev().find(|bits| keys >> bits >= FEW).unwrap_or(LEAST_BITS);
        let bits = if sparser > before { sparser } else { denser };
        if bits < before {
            // Of the keys that come in nothing is known.
            let now = self.now.load(Ordering::Relaxed);
            self.table.get().into_iter().flatten().for_each(|set| set.knows_since.store(now, Ordering::Relaxed));
        }
        if bits != before {
            self.mask.store(mask(bits), Ordering::Relaxed);
        }
    }

    /// Notes that the key was asked for.
    #[inline]
    pub fn note(&self, key: KeyHash) {
        if key.0 & self.mask.load(Ordering::Relaxed) == 0 {
            self.keep(key);
        }
    }

    fn set(&self, key: KeyHash) -> Option<&Set> {
        let index = usize::try_from(key.0 >> SET_SHIFT).unwrap_or(0) % SETS;
        self.table.get()?.get(index)
    }

    fn keep(&self, key: KeyHash) {
        let Some(set) = self.set(key) else { return };
        let (tag, now) = (key.0 >> TAG_SHIFT, self.now.load(Ordering::Relaxed));
        let (mut last, mut oldest) = (&set.entries[0], u32::MAX);
        for entry in &set.entries {
            let held = entry.load(Ordering::Relaxed);
            if held != EMPTY && held >> TAG_SHIFT == tag {
                (last, oldest) = (entry, 0);
                break;
            }
            if moment(held) < oldest {
                (last, oldest) = (entry, moment(held));
            }
        }
        set.knows_since.fetch_max(oldest, Ordering::Relaxed);
        last.store(tag << TAG_SHIFT | u64::from(now), Ordering::Relaxed);
    }

    /// Notes that the key leaves.
    pub fn leave(&self, key: KeyHash) {
        if key.0 & self.mask.load(Ordering::Relaxed) != 0 {
            return;
        }
        let Some(set) = self.set(key) else { return };
        let tag = key.0 >> TAG_SHIFT;
        let held = set.entries.iter().map(|entry| (entry, entry.load(Ordering::Relaxed)));
        let asked = match held.into_iter().find(|(_, held)| *held != EMPTY && held >> TAG_SHIFT == tag) {
            Some((entry, held)) => {
                entry.store(EMPTY, Ordering::Relaxed);
                moment(held)
            }
            None => set.knows_since.load(Ordering::Relaxed).max(1),
        };
        let age_ms = u64::from(self.now.load(Ordering::Relaxed).saturating_sub(asked)) * TICK_MS;
        let bound = (age_ms.div_ceil(1000).max(1).next_power_of_two().trailing_zeros() as usize).min(BOUNDS);
        self.counts[bound].fetch_add(1, Ordering::Relaxed);
        self.sum_ms.fetch_add(age_ms, Ordering::Relaxed);
    }

    /// Up to how many seconds each of the counts goes; none is the bound of the last.
    pub fn bounds() -> impl Iterator<Item = Option<u64>> {
        (0..BOUNDS).map(|power| Some(1 << power)).chain([None])
    }

    /// How old those were that left so far.
    pub fn counts(&self) -> AgeCounts {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        AgeCounts { buckets: Self::bounds().zip(counts).collect(), sum_ms: self.sum_ms.load(Ordering::Relaxed) }
    }
}

/// When an entry's key was asked for.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn moment(entry: u64) -> u32 {
    entry as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of the sample, as it is at first.
    fn sampled() -> impl Iterator<Item = KeyHash> {
        let keys = (0..).map(|number: u64| KeyHash::of(format!("key:{number}").as_bytes()));
        keys.filter(|key| key.0 & mask(LEAST_BITS) == 0)
    }

    fn filled(ages: &Ages) -> Vec<(Option<u64>, u64)> {
        ages.counts().buckets.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn an_age_is_the_time_since_the_last_request() {
        let (ages, keys) = (Ages::default(), sampled().take(3).collect::<Vec<_>>());
        ages.note(keys[0]);
        assert_eq!(ages.counts(), Ages::default().counts(), "before there is a time nothing is kept");
        ages.set_now(1_795_477_980_000);
        keys.iter().for_each(|key| ages.note(*key));
        ages.set_now(1_795_477_990_000);
        ages.note(keys[1]);
        ages.set_now(1_795_477_990_400);
        keys.iter().for_each(|key| ages.leave(*key));
        assert_eq!(filled(&ages), [(Some(1), 1), (Some(16), 2)]);
        assert!((20_800..21_300).contains(&ages.counts().sum_ms), "{:?}", ages.counts());
    }

    #[test]
    fn what_was_not_asked_for_is_as_old_as_all_that_is_known() {
        let ages = Ages::default();
        ages.set_now(5_000);
        ages.set_now(65_100);
        sampled().take(2).for_each(|key| ages.leave(key));
        assert_eq!(filled(&ages), [(Some(64), 2)]);
        let before = ages.counts();
        let other = (0..).map(|number: u64| KeyHash(number << 1)).find(|key| key.0 & mask(LEAST_BITS) != 0).unwrap();
        ages.note(other);
        ages.leave(other);
        assert_eq!(ages.counts(), before, "of a key that isn't in the sample nothing is known");
    }

    #[test]
    fn ages_hold_where_far_more_is_asked_for_than_is_kept() {
        let ages = Ages::default();
        ages.set_now(0);
        let keys: Vec<_> = sampled().take(40_000).collect();
        // One a millisecond; the oldest are long overwritten when they leave.
        for (at, key) in (1..).zip(&keys) {
            ages.set_now(at);
            ages.note(*key);
        }
        let now = ages.now_ms();
        for (at, key) in (1..).zip(&keys).filter(|(at, _)| at % 10 == 0) {
            let before = ages.counts().sum_ms;
            ages.leave(*key);
            let (age, truth) = (ages.counts().sum_ms - before, now - at);
            assert!(age <= truth + TICK_MS, "never more than it is: {age} of {truth}");
            assert!(truth > 1_000 || age + TICK_MS >= truth, "what was asked for lately is known: {age} of {truth}");
        }
    }

    #[test]
    fn a_sample_follows_the_number_of_keys_and_forgets_what_it_cannot_know() {
        let (ages, key) = (Ages::default(), KeyHash(1 << 40));
        let bits = |ages: &Ages| ages.mask.load(Ordering::Relaxed).count_ones();
        ages.set_now(0);
        for (keys, wanted) in [(1_000, 4), (1_000_000, 8), (300_000, 8), (1_100_000, 9), (u64::MAX, 20), (100_000, 7)] {
            ages.follow_keys(keys);
            assert_eq!(bits(&ages), wanted, "{keys}");
        }
        ages.set_now(600_000);
        ages.follow_keys(0);
        ages.set_now(601_000);
        ages.leave(key);
        assert_eq!(filled(&ages), [(Some(1), 1)], "before the sample became larger it may have been asked for");
    }

    #[test]
    fn time_that_goes_back_and_ages_of_years_are_counted() {
        let (ages, key) = (Ages::default(), KeyHash(1 << 40));
        ages.set_now(1_000_000);
        ages.note(key);
        ages.set_now(5);
        ages.leave(key);
        ages.note(key);
        ages.set_now(1_000_000 + (400 << 40));
        ages.leave(key);
        assert_eq!(filled(&ages), [(Some(1), 1), (None, 1)]);
    }
}
