//! A limit on commands a second, kept by waiting between batches.

use std::thread;
use std::time::{Duration, Instant};

/// Waits shorter than this are put together.
const LEAST_WAIT: Duration = Duration::from_millis(2);

/// So many commands a second, and no more.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: Option<u32>,
    /// When the next command may go, had all earlier ones gone in their time.
    due: Instant,
}

impl Pace {
    pub(crate) fn new(per_second: Option<u32>) -> Self {
        Self { per_second, due: Instant::now() }
    }

    /// How many commands may go at once, so that no wait is long: a tenth of a second's.
    pub(crate) fn burst(&self) -> u32 {
        self.per_second.map_or(u32::MAX, |per_second| (per_second / 10).max(1))
    }

    /// So many commands were sent: waits until the next may be.
    pub(crate) fn sent(&mut self, commands: u32) {
        let Some(per_second) = self.per_second else { return };
        let now = Instant::now();
        // Time that went by unused is lost: no burst follows a pause.
        self.due = self.due.max(now) + Duration::from_secs(1) * commands / per_second.max(1);
        let wait = self.due.saturating_duration_since(now);
        if wait > LEAST_WAIT {
            thread::sleep(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept() {
        let started = Instant::now();
        let mut pace = Pace::new(Some(10_000));
        for _ in 0..50 {
            pace.sent(10);
        }
        assert!(started.elapsed() >= Duration::from_millis(45), "{:?}", started.elapsed());
        let mut unlimited = Pace::new(None);
        unlimited.sent(u32::MAX);
    }
}
