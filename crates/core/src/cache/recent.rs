//! Which keys were written lately, so that what is new has time to be asked for again.
//!
//! Two Bloom filters (Bloom, 1970) take turns: one is filled, the other is the one filled before. A key that was not
//! written looks written in one case of some fifty; then it stays for a while longer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::KeyHash;

/// Bits to a key.
const BITS_PER_KEY: u64 = 10;
/// Bits that a key sets.
const PROBES: u64 = 4;
/// A filter takes at least so many keys.
const LEAST_KEYS: u64 = 64;

/// A set of keys that was written.
#[derive(Debug)]
struct Filter {
    words: Box<[AtomicU64]>,
    /// How many keys it takes until it is full.
    room: u64,
    taken: AtomicU64,
}

impl Filter {
    fn new(keys: u64) -> Self {
        let room = keys.max(LEAST_KEYS);
        let words = room.saturating_mul(BITS_PER_KEY).div_ceil(64).next_power_of_two();
        let words = std::iter::repeat_with(AtomicU64::default).take(usize::try_from(words).unwrap_or(usize::MAX));
        Self { words: words.collect(), room, taken: AtomicU64::new(0) }
    }

    fn bits(&self, key: KeyHash) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let last = self.words.len() as u64 * 64 - 1;
        (0..PROBES).map(move |probe| {
            // Double hashing (Kirsch and Mitzenmacher, 2006).
            let bit = key.0.rotate_left(17).wrapping_add(probe.wrapping_mul(key.0 >> 21 | 1)) & last;
            (&self.words[usize::try_from(bit / 64).unwrap_or(0)], 1 << (bit % 64))
        })
    }

    fn has(&self, key: KeyHash) -> bool {
        self.bits(key).all(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Whether it is full now.
    fn add(&self, key: KeyHash) -> bool {
        let mut is_new = false;
        for (word, bit) in self.bits(key) {
            is_new |= word.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        }
        self.taken.fetch_add(u64::from(is_new), Ordering::Relaxed) + u64::from(is_new) >= self.room
    }
}

#[derive(Debug)]
struct Turns {
    filled: Filter,
    before: Filter,
}

/// Which keys were written lately.
#[derive(Debug)]
pub struct Recent {
    turns: RwLock<Turns>,
    /// How many keys the next filter takes.
    keys: AtomicU64,
}

impl Default for Recent {
    fn default() -> Self {
        let turns = Turns { filled: Filter::new(0), before: Filter::new(0) };
        Self { turns: RwLock::new(turns), keys: AtomicU64::new(0) }
    }
}

impl Recent {
    /// From the next turn on, the keys that count as new are so many, or twice as many at most.
    pub fn follow_keys(&self, keys: u64) {
        self.keys.store(keys, Ordering::Relaxed);
    }

    /// What it takes now, in bytes.
    pub fn bytes(&self) -> usize {
        let turns = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        (turns.filled.words.len() + turns.before.words.len()) * 8
    }

    /// Notes that the key was written. Where that makes a turn, how many keys count as new no more.
    pub fn note(&self, key: KeyHash) -> Option<u64> {
        if !self.turns.read().unwrap_or_else(PoisonError::into_inner).filled.add(key) {
            return None;
        }
        let mut turns = self.turns.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been quicker.
        if turns.filled.taken.load(Ordering::Relaxed) < turns.filled.room {
            return None;
        }
        let next = Filter::new(self.keys.load(Ordering::Relaxed));
        let filled = std::mem::replace(&mut turns.filled, next);
        let old = std::mem::replace(&mut turns.before, filled);
        Some(old.taken.load(Ordering::Relaxed))
    }

    /// Whether the key was written lately, and is of those that are so no more after the next turn.
    pub fn is_of_older(&self, key: KeyHash) -> bool {
        let turns = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        turns.before.has(key) && !turns.filled.has(key)
    }

    /// Whether the key was written lately.
    pub fn has(&self, key: KeyHash) -> bool {
        let turns = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        turns.filled.has(key) || turns.before.has(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> KeyHash {
        KeyHash::of(format!("key:{number}").as_bytes())
    }

    #[test]
    fn what_was_written_last_is_recent_and_what_was_written_long_ago_is_not() {
        let recent = Recent::default();
        recent.follow_keys(1_000);
        let turns: Vec<_> = (0..10_000).filter_map(|number| recent.note(key(number))).collect();
        // The first take the least that they may.
        assert_eq!(turns[..3], [0, 64, 1_000]);
        assert!((9_000..10_000).all(|number| recent.has(key(number))));
        let old = (0..7_000).filter(|number| recent.has(key(*number))).count();
        assert!(old < 400, "{old}");
    }

    #[test]
    fn a_key_that_is_written_again_and_again_makes_no_turn() {
        let recent = Recent::default();
        recent.note(key(1));
        (0..10_000).for_each(|_| assert_eq!(recent.note(key(2)), None));
        assert!(recent.has(key(1)) && !recent.is_of_older(key(1)));
    }

    #[test]
    fn it_takes_little() {
        let recent = Recent::default();
        recent.follow_keys(100_000);
        for number in 0..300_000 {
            recent.note(key(number));
        }
        assert!(recent.bytes() <= 2 * 256 * 1024, "{}", recent.bytes());
    }
}
