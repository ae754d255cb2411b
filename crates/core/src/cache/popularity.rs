//! What is known of each key's use: how often it was asked for lately, and whether it is new.

use std::sync::atomic::{AtomicU64, Ordering};

use super::new_share::{NewShare, Turn};
use super::{Ages, Frequency, KeyHash, Recent};

/// What a request does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is looked at.
    Read,
    /// Whatever was there is replaced.
    Write,
    /// It is changed by what is there.
    Update,
}

impl Use {
    /// Whether it would miss the key if that weren't there. What fills a cache after a read in vain doesn't: that read counts.
    #[inline]
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether the key is there afterwards.
    #[inline]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// How a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was written so lately that nothing can be known of it.
    New,
    /// It was asked for about so often.
    Known(u8),
}

/// What is known of keys' use, shared by all threads.
#[derive(Debug)]
pub struct Popularity {
    frequency: Frequency,
    recent: Recent,
    new_share: NewShare,
    /// How many the cache holds.
    keys: AtomicU64,
    ages: Ages,
}

impl Popularity {
    /// Nothing yet. What it takes grows with the keys, up to about so many bytes.
    pub fn new(most_bytes: u64) -> Self {
        Self::counted_by(Frequency::new(most_bytes))
    }

    /// The same of a sample of a cache's keys.
    pub fn of_sample(most_bytes: u64) -> Self {
        Self::counted_by(Frequency::of_sample(most_bytes))
    }

    fn counted_by(frequency: Frequency) -> Self {
        let (recent, new_share, ages) = (Recent::default(), NewShare::default(), Ages::default());
        Self { frequency, recent, new_share, keys: AtomicU64::new(0), ages }
    }

    /// Notes what a key was used for.
    #[inline]
    pub fn note(&self, key: KeyHash, used: Use) {
        if used.reads() {
            if NewShare::watches(key) && self.recent.is_of_older(key) {
                self.new_share.note_found(self.frequency.of(key));
            }
            self.frequency.note(key);
        }
        self.ages.note(key);
        if used.writes()
            && let Some(new) = self.recent.note(key)
        {
            let (asked, keys) = (self.frequency.noted(), self.keys.load(Ordering::Relaxed));
            self.new_share.turn(Turn { asked, new, keys, counted: Frequency::COUNTED });
            self.recent.follow_keys(self.new_share.of(keys));
        }
    }

    /// Notes that a key leaves which stood so.
    pub fn leave(&self, key: KeyHash, standing: Standing) {
        if let Standing::Known(count) = standing {
            self.new_share.note_left(count);
        }
        self.ages.leave(key);
    }

    /// How the key stands.
    pub fn standing(&self, key: KeyHash) -> Standing {
        match self.recent.has(key) {
            true => Standing::New,
            false => Standing::Known(self.frequency.of(key)),
        }
    }

    /// Goes by a cache that holds so many keys.
    pub fn follow_keys(&self, keys: u64) {
        self.frequency.follow_keys(keys);
        self.keys.store(keys, Ordering::Relaxed);
        self.recent.follow_keys(self.new_share.of(keys));
        self.ages.follow_keys(keys);
    }

    /// How often keys are asked for.
    pub fn frequency(&self) -> &Frequency {
        &self.frequency
    }

    /// How long ago they were asked for.
    pub fn ages(&self) -> &Ages {
        &self.ages
    }

    /// What it takes now, in bytes.
    pub fn bytes(&self) -> usize {
        self.frequency.bytes() + self.recent.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_those_that_leave_only_what_was_known_says_how_many_new_ones_pay() {
        let (popularity, key) = (Popularity::new(1 << 20), KeyHash::of(b"key:1"));
        let noted = || format!("{:?}", popularity.new_share);
        let before = noted();
        popularity.leave(key, Standing::New);
        assert_eq!(noted(), before);
        popularity.leave(key, Standing::Known(4));
        assert_ne!(noted(), before);
    }
}
