//! Buckets in which something is about to expire, so that the sweep finds it without walking the whole keyspace.
//!
//! Whoever writes a value with an expiry notes its bucket and when that is due; whoever looks through a bucket notes
//! the next. A bucket is noted once, under the earliest that is known. What is noted may be wrong (the value was
//! removed, or its bucket) and may be missing (it was written by another keyfold, lies far ahead, or there was no
//! room): the sweep's walk finds that, later. By its physical name alone: whose a bucket is by a layout is asked when it is looked
//! through, which may be by another one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// At most so many buckets are noted: some ten megabytes.
const MOST_BUCKETS: usize = 1 << 16;

/// What expires later than this is left to the walk, in milliseconds.
const HORIZON_MS: i64 = 10 * 60 * 1000;

/// A bucket is looked through so long after the first expiry in it, so that several go at once: a tenth of the time
/// that it had still to live, within these bounds, in milliseconds.
const LEAST_DELAY_MS: i64 = 200;
const MOST_DELAY_MS: i64 = 3000;

/// How much later what could not be looked at is due again, in milliseconds.
pub(super) const PUT_BACK_MS: i64 = 5000;

/// The buckets that are noted.
#[derive(Debug, Default)]
pub struct Expiring {
    due: Mutex<Due>,
}

#[derive(Debug, Default)]
struct Due {
    by_bucket: BTreeMap<Vec<u8>, i64>,
    by_time: BTreeSet<(i64, Vec<u8>)>,
}

impl Expiring {
    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something in a bucket expires at a time.
    pub(crate) fn note(&self, bucket: &[u8], expires_at_ms: i64, now_ms: i64) {
        let left = expires_at_ms.saturating_sub(now_ms).max(0);
        if left > HORIZON_MS {
            return;
        }
        let at = expires_at_ms.saturating_add((left / 10).clamp(LEAST_DELAY_MS, MOST_DELAY_MS));
        let mut due = self.due();
        match due.by_bucket.get(bucket).copied() {
            Some(known) if known <= at => return,
            Some(later) => drop(due.by_time.remove(&(later, bucket.to_vec()))),
            None if due.by_bucket.len() >= MOST_BUCKETS => return,
            None => {}
        }
        due.by_bucket.insert(bucket.to_vec(), at);
        due.by_time.insert((at, bucket.to_vec()));
    }

    /// Takes up to `most` buckets that are due, the earliest first.
    pub fn take_due(&self, now_ms: i64, most: usize) -> Vec<Vec<u8>> {
        let mut due = self.due();
        let mut taken = Vec::new();
        while taken.len() < most && due.by_time.first().is_some_and(|(at, _)| *at <= now_ms) {
            let Some((_, bucket)) = due.by_time.pop_first() else { break };
            due.by_bucket.remove(&bucket);
            taken.push(bucket);
        }
        taken
    }

    /// Notes again what was taken and could not be looked through; for some seconds later, so that what can be comes first.
    pub fn put_back(&self, taken: &[Vec<u8>], now_ms: i64) {
        taken.iter().for_each(|bucket| self.note(bucket, now_ms.saturating_add(PUT_BACK_MS), now_ms));
    }

    /// How long the first has been due, in milliseconds; 0 where none is.
    pub fn lag_ms(&self, now_ms: i64) -> u64 {
        let first = self.due().by_time.first().map_or(now_ms, |(at, _)| *at);
        u64::try_from(now_ms.saturating_sub(first)).unwrap_or(0)
    }

    /// How many buckets are noted.
    pub fn noted(&self) -> usize {
        self.due().by_bucket.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_due_once_after_its_first_expiry() {
        let expiring = Expiring::default();
        expiring.note(b"a", 5000, 1000);
        expiring.note(b"a", 3000, 1000);
        expiring.note(b"a", 9000, 1000);
        expiring.note(b"b", 4000, 1000);
        assert_eq!(expiring.noted(), 2);
        assert!(expiring.take_due(3199, 9).is_empty());
        assert_eq!((expiring.lag_ms(3199), expiring.lag_ms(3300)), (0, 100));
        assert_eq!(expiring.take_due(3200, 9), [b"a"]);
        assert_eq!(expiring.take_due(10_000, 9), [b"b"]);
        assert!(expiring.take_due(100_000, 9).is_empty());
    }

    #[test]
    fn what_is_far_ahead_or_too_much_is_left_to_the_walk() {
        let expiring = Expiring::default();
        expiring.note(b"far", HORIZON_MS + 1001, 1000);
        assert_eq!(expiring.noted(), 0);
        for number in 0..=MOST_BUCKETS {
            expiring.note(number.to_string().as_bytes(), 1000, 1000);
        }
        assert_eq!(expiring.noted(), MOST_BUCKETS);
        assert_eq!(expiring.take_due(i64::MAX, 10).len(), 10);
    }

    #[test]
    fn what_could_not_be_looked_through_is_due_again() {
        let expiring = Expiring::default();
        expiring.note(b"a", 1000, 1000);
        let taken = expiring.take_due(1200, 9);
        expiring.put_back(&taken, 1200);
        assert!(expiring.take_due(1200 + PUT_BACK_MS, 9).is_empty());
        assert_eq!(expiring.take_due(1200 + 2 * PUT_BACK_MS, 9), taken);
    }

    #[test]
    fn what_has_expired_long_ago_is_due() {
        let expiring = Expiring::default();
        expiring.note(b"old", i64::MIN, i64::MAX);
        assert_eq!(expiring.take_due(0, 1).len(), 1);
    }
}
