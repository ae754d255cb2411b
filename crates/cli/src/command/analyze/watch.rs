//! Progress on a terminal; where there is none, a line in the log from time to time.

use std::time::{Duration, Instant};

use keyfold_report::number::{count, decimals};
use keyfold_report::progress::Progress;

const SAY_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Watch {
    progress: Progress,
    /// What is counted.
    unit: &'static str,
    total: u64,
    done: u64,
    started: Instant,
    said: Instant,
}

impl Watch {
    pub(super) fn new(unit: &'static str, total: u64) -> Self {
        let now = Instant::now();
        let progress = Progress::new(unit, usize::try_from(total).unwrap_or(usize::MAX));
        Self { progress, unit, total, done: 0, started: now, said: now }
    }

    pub(super) fn advance(&mut self, more: usize) {
        self.progress.advance(more);
        self.done += more as u64;
        if self.said.elapsed() > SAY_EVERY {
            self.said = Instant::now();
            let per_second = self.done as f64 / self.started.elapsed().as_secs_f64();
            let rate = decimals(per_second, 0);
            let (done, total, unit) = (count(self.done), count(self.total), self.unit);
            if self.total == 0 {
                tracing::info!("looked at {done} {unit}, {rate} a second");
            } else {
                let left = self.total.saturating_sub(self.done) as f64 / per_second.max(1.0);
                tracing::info!("looked at {done} of {total} {unit}, {rate} a second, {left:.0} s left");
            }
        }
    }
}
