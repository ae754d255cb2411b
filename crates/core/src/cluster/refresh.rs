//! When nodes are asked for the map of slots: soon after something suggests that it is old, from time to time anyway, and
//! never by everybody at once.
//!
//! A redirect sets its own slot right at once. So the whole map need not follow each of them: while a thousand slots move,
//! one question a while brings the rest.

use std::mem;

/// At the soonest so long after the last time, in milliseconds; with chance up to twice that.
const PAUSE_MS: i64 = 100;
/// The longest pause while no node answers, in milliseconds; with chance up to twice that.
const LONGEST_PAUSE_MS: i64 = 500;
/// So often it is asked where nothing suggests that the map is old, in milliseconds; with chance up to twice that.
const PERIOD_MS: i64 = 30_000;
/// So long after a change the map is not believed to be settled, in milliseconds: nodes learn one after the other that
/// who was a primary is a replica now.
const SETTLES_MS: i64 = 5000;
/// So often it is asked until then, in milliseconds; with chance up to twice that.
const SETTLING_PERIOD_MS: i64 = 500;

/// What came of asking nodes for the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The word of one was taken.
    Taken,
    /// Some answered, and none of them takes the cluster for whole, or they know of less than is known. While a replica
    /// is about to take a primary's place all nodes say so, and the next moment one knows the new map.
    Unsettled,
    /// None answered.
    Away,
}

/// When nodes are asked for the map.
#[derive(Debug)]
pub struct Refresh {
    wanted: bool,
    under_way: bool,
    /// Not before this time, wanted or not.
    not_before_ms: i64,
    /// Then it is asked anyway.
    anyway_ms: i64,
    /// The map is settled then, unless it changes again.
    settled_ms: i64,
    /// How often in a row no node answered.
    failures: u32,
    /// The last time brought no map.
    in_vain: bool,
}

impl Refresh {
    /// Wanted at once: nothing is known yet.
    pub fn new() -> Self {
        let never = i64::MIN;
        Self {
            wanted: true,
            under_way: false,
            not_before_ms: never,
            anyway_ms: never,
            settled_ms: never,
            failures: 0,
            in_vain: false,
        }
    }

    /// Something suggests that the map is old.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// Whether nodes are to be asked now; if so, that is under way, and [`Self::end`] says what came of it.
    pub fn begin(&mut self, now_ms: i64) -> bool {
        let is_due = !self.under_way && self.next_ms().is_some_and(|next| next <= now_ms);
        self.under_way |= is_due;
        self.wanted &= !is_due;
        is_due
    }

    /// When [`Self::begin`] will say so; none while it is under way.
    pub fn next_ms(&self) -> Option<i64> {
        let next = if self.wanted { self.not_before_ms } else { self.anyway_ms.max(self.not_before_ms) };
        (!self.under_way).then_some(next)
    }

    /// The map that was taken is another than before.
    pub fn note_change(&mut self, now_ms: i64) {
        self.settled_ms = now_ms + SETTLES_MS;
    }

    /// Nodes were asked; whether that is the first time in a row that they were asked in vain. `random` is any 64 random
    /// bits.
    pub fn end(&mut self, asked: Asked, now_ms: i64, random: u64) -> bool {
        self.under_way = false;
        self.failures = if asked == Asked::Away { self.failures.saturating_add(1) } else { 0 };
        let pause = PAUSE_MS.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE_MS);
        self.not_before_ms = now_ms + with_chance(pause, random);
        let period = if now_ms < self.settled_ms { SETTLING_PERIOD_MS } else { PERIOD_MS };
        self.anyway_ms = now_ms + with_chance(period, random);
        self.wanted |= asked != Asked::Taken;
        !mem::replace(&mut self.in_vain, asked != Asked::Taken) && self.in_vain
    }
}

impl Default for Refresh {
    fn default() -> Self {
        Self::new()
    }
}

/// From once to twice as much.
fn with_chance(ms: i64, random: u64) -> i64 {
    let share = i64::try_from(random % 1024).unwrap_or(0);
    ms + ms * share / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_question_at_a_time_and_a_pause_between_two() {
        let mut refresh = Refresh::new();
        assert!(refresh.begin(0) && !refresh.begin(0));
        refresh.want();
        assert_eq!(refresh.next_ms(), None);
        refresh.end(Asked::Taken, 10, 0);
        assert!(!refresh.begin(109) && refresh.begin(110), "it was wanted meanwhile");
        refresh.end(Asked::Taken, 120, 1023);
        assert!(!refresh.begin(20_000) && refresh.next_ms().unwrap() > 50_000, "nobody wants it");
        refresh.want();
        assert!(refresh.begin(320));
    }

    #[test]
    fn failures_lengthen_the_pause_up_to_an_end() {
        let mut refresh = Refresh::new();
        let mut pauses = Vec::new();
        for _ in 0..40 {
            let now = refresh.next_ms().unwrap().max(0);
            assert!(refresh.begin(now));
            refresh.end(Asked::Away, now, 512);
            pauses.push(refresh.next_ms().unwrap() - now);
        }
        assert_eq!((pauses[0], pauses[1], pauses[39]), (300, 600, 750));
        assert!(pauses.is_sorted());
    }

    #[test]
    fn nodes_that_wait_for_a_new_primary_are_asked_again_soon() {
        let mut refresh = Refresh::new();
        let mut now = 0;
        for round in 0..40 {
            assert!(refresh.begin(now));
            assert_eq!(refresh.end(Asked::Unsettled, now, 512), round == 0, "it is news once");
            assert_eq!(refresh.next_ms(), Some(now + PAUSE_MS + PAUSE_MS / 2));
            now = refresh.next_ms().unwrap();
        }
    }

    #[test]
    fn a_map_that_has_changed_is_asked_for_until_it_stays_as_it_is() {
        let mut refresh = Refresh::new();
        let mut now = 0;
        let mut asked = Vec::new();
        for round in 0..20 {
            assert!(refresh.begin(now));
            if round == 1 {
                refresh.note_change(now);
            }
            refresh.end(Asked::Taken, now, 0);
            asked.push(refresh.next_ms().unwrap() - now);
            now = refresh.next_ms().unwrap();
        }
        let soon = usize::try_from(SETTLES_MS / SETTLING_PERIOD_MS).unwrap();
        let expected = |round: usize| if (1..=soon).contains(&round) { SETTLING_PERIOD_MS } else { PERIOD_MS };
        assert_eq!(asked, (0..20).map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn it_is_asked_from_time_to_time() {
        let mut refresh = Refresh::new();
        assert!(refresh.begin(0));
        refresh.end(Asked::Taken, 0, 0);
        assert_eq!(refresh.next_ms(), Some(PERIOD_MS));
        assert!(!refresh.begin(PERIOD_MS - 1) && refresh.begin(PERIOD_MS));
    }
}
