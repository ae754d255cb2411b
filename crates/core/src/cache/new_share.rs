//! How large a share of a cache's keys counts as new, and stays whatever is known of it: as large as pays.
//!
//! What is asked for once and never again wants it small, what is asked for again soon wants it large, and which of the two
//! a cache sees changes with the hour. So it is measured, at each turn of [`super::Recent`]: how often keys are asked for that will
//! soon count as new no more and would leave then, beside those that leave. No second cache is simulated for it, and nothing is
//! tried out on clients, as hill climbing does.

use std::sync::atomic::{AtomicU64, Ordering};

use super::KeyHash;

/// In thousandths of the keys that a cache holds: how many are taken for new at first, and never fewer or more. Twice as many at
/// most count as new.
const FIRST: u64 = 125;
const LEAST: u64 = 15;
const MOST: u64 = 400;
/// At one turn it grows by this much, or shrinks.
const STEP: f64 = 1.25;

/// New keys have to be asked for so many times as often as counters say of those that leave. These are asked for oftener than that,
/// as they have come to the lowest counts by chance too. In simulated caches 5 to 10 finds the most.
const PAYS_FROM: f64 = 7.0;

/// Of so many keys one is watched.
const SAMPLE: u64 = 16;

/// What was measured since the last turn.
#[derive(Debug)]
pub(super) struct NewShare {
    thousandths: AtomicU64,
    /// Requests for watched keys that are new still, and would leave if they weren't.
    found: AtomicU64,
    /// Keys that left and weren't new, and how often they had been asked for, all together.
    left: AtomicU64,
    left_asked: AtomicU64,
    /// How often those had been asked for that left before the last turn, on the mean, in thousandths; none did where it is 0.
    border: AtomicU64,
    /// How many requests there had been at the last turn.
    asked: AtomicU64,
}

/// What there is at a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// All requests until now.
    pub(super) asked: u64,
    /// Keys that counted as new until now.
    pub(super) new: u64,
    /// Keys that the cache holds.
    pub(super) keys: u64,
    /// A key's count is about its requests while each key was asked for so often, on the mean, where there were as many.
    pub(super) counted: f64,
}

impl Default for NewShare {
    fn default() -> Self {
        Self {
            thousandths: AtomicU64::new(FIRST),
            found: AtomicU64::new(0),
            left: AtomicU64::new(0),
            left_asked: AtomicU64::new(0),
            border: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        }
    }
}

impl NewShare {
    /// Whether the key is watched.
    #[inline]
    pub(super) fn watches(key: KeyHash) -> bool {
        // The lowest bit is the same in all.
        (key.0 >> 1).is_multiple_of(SAMPLE)
    }

    /// Notes that a watched key is asked for that will soon count as new no more, and was asked for so often before.
    pub(super) fn note_found(&self, count: u8) {
        if u64::from(count) * 1000 <= self.border.load(Ordering::Relaxed) {
            self.found.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that a key leaves that isn't new and was asked for so often.
    pub(super) fn note_left(&self, count: u8) {
        self.left.fetch_add(1, Ordering::Relaxed);
        self.left_asked.fetch_add(u64::from(count), Ordering::Relaxed);
    }

    /// How many keys are taken for new, of so many.
    pub(super) fn of(&self, keys: u64) -> u64 {
        keys.saturating_mul(self.thousandths.load(Ordering::Relaxed)) / 1000
    }

    /// Goes by what was measured since the last turn.
    #[expect(clippy::cast_precision_loss, reason = "rates")]
    pub(super) fn turn(&self, turn: Turn) {
        let found = self.found.swap(0, Ordering::Relaxed) * SAMPLE;
        let asked = turn.asked.saturating_sub(self.asked.swap(turn.asked, Ordering::Relaxed));
        let (left, left_asked) = (self.left.swap(0, Ordering::Relaxed), self.left_asked.swap(0, Ordering::Relaxed));
        let border = left_asked.saturating_mul(1000).checked_div(left).unwrap_or(0);
        let border = self.border.swap(border, Ordering::Relaxed);
        if border == 0 || asked == 0 || turn.new == 0 {
            return;
        }
        // Of one key, with each request that comes.
        let of_new = found as f64 / turn.new as f64 / asked as f64;
        // A count is a whole number, and half a request more on the mean.
        let counted = (turn.counted * turn.keys.max(1) as f64).min(turn.asked as f64);
        let of_leaving = (border as f64 / 1000.0 + 0.5) / counted;
        let ratio = (of_new / (PAYS_FROM * of_leaving)).sqrt().clamp(1.0 / STEP, STEP);
        let now = self.thousandths.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let next = (now as f64 * ratio).round() as u64;
        self.thousandths.store(next.clamp(LEAST, MOST), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many turns, in each of which 1,000 keys that had been asked for 4 times left, and of 1,000 new ones so many were
    /// asked for once, among 10,000 requests to 10,000 keys; `earlier` requests had come before.
    fn after(earlier: u64, turns: u64, found: u64) -> u64 {
        let share = NewShare::default();
        for turn in 1..=turns {
            (0..found / SAMPLE).for_each(|_| share.note_found(1));
            (0..1000).for_each(|_| share.note_left(4));
            share.turn(Turn { asked: earlier + turn * 10_000, new: 1000, keys: 10_000, counted: 120.0 });
        }
        share.of(10_000)
    }

    #[test]
    fn what_is_asked_for_again_makes_it_larger_and_what_is_not_smaller() {
        let after = |turns, found| after(10_000_000, turns, found);
        assert_eq!(after(0, 0), 1250);
        assert_eq!(after(30, 0), 150, "never none");
        assert_eq!(after(30, 800), 4000, "never all");
        // Where the new ones are asked for just so often as pays: 1,000 keys, 7 times 4.5 requests in 120.
        let (fewer, more) = (after(30, 128), after(30, 320));
        assert!(fewer < 1250 && more > 1250, "{fewer}, {more}");
    }

    #[test]
    fn counts_of_few_requests_say_more() {
        assert!(after(0, 3, 320) < 1250 && after(10_000_000, 3, 320) > 1250);
    }

    #[test]
    fn what_stays_anyway_says_nothing() {
        let share = NewShare::default();
        (0..1000).for_each(|_| share.note_left(4));
        share.turn(Turn { asked: 10_000, new: 1000, keys: 10_000, counted: 120.0 });
        (0..1000).for_each(|_| share.note_found(5));
        share.turn(Turn { asked: 20_000, new: 1000, keys: 10_000, counted: 120.0 });
        assert_eq!(share.of(1000), 100, "found as often as keys that have left, and oftener");
    }

    #[test]
    fn without_anything_to_go_by_it_stays_as_it_is() {
        let share = NewShare::default();
        let nothing = Turn { asked: 0, new: 0, keys: 0, counted: 120.0 };
        let turns = [nothing, Turn { asked: 10_000, new: 1000, keys: 10_000, ..nothing }, nothing];
        for turn in turns {
            (0..100).for_each(|_| share.note_found(0));
            share.turn(turn);
            assert_eq!(share.of(1000), 125, "nothing left: {turn:?}");
        }
        share.note_left(u8::MAX);
        share.turn(nothing);
        share.turn(nothing);
        assert_eq!(share.of(u64::MAX), u64::MAX / 1000, "nothing was asked for");
    }
}
