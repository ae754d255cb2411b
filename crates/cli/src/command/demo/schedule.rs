//! When a client's commands are due, and how long after that their answers come.
//!
//! Commands are due at a constant rate, and a latency counts from when the command was due: one that had to wait for
//! the one before shows it.

use std::thread;
use std::time::{Duration, Instant};

/// One command: when it was due since the start, and how long its answer took from then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) due: Duration,
    pub(super) took: Duration,
}

/// When the commands of one client are due.
pub(super) struct Schedule {
    started: Instant,
    interval: Duration,
    /// When the next one is, since the start.
    due: Duration,
}

impl Schedule {
    /// Of the client with this number among `clients`, which take turns and send `rate` commands a second together.
    pub(super) fn new(started: Instant, number: usize, clients: usize, rate: u32) -> Self {
        let span = |commands: usize| Duration::from_secs(commands as u64) / rate;
        Self { started, interval: span(clients), due: started.elapsed() + span(number) }
    }

    /// How long ago the start was.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until the next command is due, and says since when it is.
    pub(super) fn wait(&mut self) -> Duration {
        let due = self.due;
        thread::sleep(due.saturating_sub(self.elapsed()));
        self.due += self.interval;
        due
    }

    /// The command that was due then, answered now.
    pub(super) fn sample(&self, due: Duration) -> Sample {
        Sample { due, took: self.elapsed().saturating_sub(due) }
    }

    /// Leaves out the commands that became due while the client was held up, all but the last.
    pub(super) fn skip_missed(&mut self) {
        self.due = self.due.max(self.elapsed().saturating_sub(self.interval));
    }
}

/// The latency that a share of the samples is within.
pub(super) fn percentile(samples: &[Sample], share: f64) -> Duration {
    let mut took: Vec<Duration> = samples.iter().map(|sample| sample.took).collect();
    took.sort_unstable();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index below the length")]
    let at = (took.len() as f64 * share) as usize;
    took.get(at.min(took.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted() {
        let sample = |ms| Sample { due: Duration::ZERO, took: Duration::from_millis(ms) };
        let samples: Vec<Sample> = (1..=100).rev().map(sample).collect();
        assert_eq!(percentile(&samples, 0.5), Duration::from_millis(51));
        assert_eq!(percentile(&samples, 0.99), Duration::from_millis(100));
        assert_eq!(percentile(&[], 0.99), Duration::ZERO);
    }
}
