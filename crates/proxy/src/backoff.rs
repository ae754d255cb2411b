//! How long to wait before the next try to connect.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Doubling waits, 50 ms to 2 s. Each is drawn from the upper half of its span, so that many proxies that
/// lost one server don't come back in step.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The next wait; `random` is any 64 random bits.
    pub(crate) fn next(&mut self, random: u64) -> Duration {
        let span = self.next;
        self.next = (span * 2).min(LONGEST);
        let share = u32::try_from(random >> 32).unwrap_or(0);
        span / 2 + (span / 2).mul_f64(f64::from(share) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_within_their_bounds() {
        let mut shortest = Backoff::default();
        let mut longest = Backoff::default();
        let spans: Vec<_> = (0..8).map(|_| (shortest.next(0), longest.next(u64::MAX))).collect();
        assert_eq!(spans[0], (FIRST / 2, FIRST));
        assert_eq!(spans[7], (LONGEST / 2, LONGEST));
        assert!(spans.is_sorted());
    }
}
