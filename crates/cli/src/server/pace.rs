//! No more commands a second than one is allowed, kept by waiting.

use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

/// Waits shorter than this are put together.
const LEAST_WAIT: Duration = Duration::from_millis(2);
/// A wait is cut into naps of this length, so that it can be ended.
const NAP: Duration = Duration::from_millis(50);
/// Time that went by unused is not made up for later by a burst longer than this.
const BURST: Duration = Duration::from_millis(100);

/// So many commands a second, and no more.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: Option<NonZero<u32>>,
    spent: u64,
    /// When the next command may go, had all earlier ones gone in their time.
    due: Instant,
}

impl Pace {
    pub(crate) fn new(per_second: Option<NonZero<u32>>) -> Self {
        Self { per_second, spent: 0, due: Instant::now() }
    }

    /// How many commands may go at once, so that no wait is long: a tenth of a second's.
    pub(crate) fn burst(&self) -> u32 {
        self.per_second.map_or(u32::MAX, |per_second| (per_second.get() / 10).max(1))
    }

    /// Counts commands, and waits until their time is over.
    pub(crate) fn spend(&mut self, commands: u64) {
        self.spend_unless(commands, &|| false);
    }

    /// The same, but for a wait that ends once `is_stopped`.
    pub(crate) fn spend_unless(&mut self, commands: u64, is_stopped: &dyn Fn() -> bool) {
        self.spent += commands;
        let Some(per_second) = self.per_second else { return };
        let now = Instant::now();
        self.due = self.due.max(now.checked_sub(BURST).unwrap_or(now));
        self.due += Duration::from_secs_f64(commands as f64 / f64::from(per_second.get()));
        if self.due.saturating_duration_since(now) < LEAST_WAIT {
            return;
        }
        while let Some(left) = self.due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if is_stopped() {
                return;
            }
            thread::sleep(left.min(NAP));
        }
    }

    /// How many there were.
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept() {
        let started = Instant::now();
        let mut pace = Pace::new(NonZero::new(10_000));
        for _ in 0..50 {
            pace.spend(10);
        }
        assert!(started.elapsed() >= Duration::from_millis(45), "{:?}", started.elapsed());
        assert_eq!((pace.spent(), pace.burst()), (500, 1000));
        Pace::new(None).spend(u64::MAX);
    }

    #[test]
    fn a_wait_can_be_ended() {
        let started = Instant::now();
        Pace::new(NonZero::new(1)).spend_unless(1_000_000, &|| true);
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
