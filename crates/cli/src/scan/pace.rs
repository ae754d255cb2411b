//! Not more commands a second than one is allowed.

use std::num::NonZero;
use std::time::{Duration, Instant};

pub(super) struct Pace {
    max_per_second: Option<NonZero<u64>>,
    spent: u64,
    /// When the next command may go.
    next: Instant,
}

impl Pace {
    pub(super) fn new(max_per_second: Option<NonZero<u64>>) -> Self {
        Self { max_per_second, spent: 0, next: Instant::now() }
    }

    /// Waits until so many more commands may be sent. Time that went by unused is not made up for, so that no burst
    /// follows a slow answer.
    pub(super) fn spend(&mut self, commands: u64) {
        self.spent += commands;
        let Some(max) = self.max_per_second else { return };
        let now = Instant::now();
        std::thread::sleep(self.next.saturating_duration_since(now));
        self.next = self.next.max(now) + Duration::from_secs_f64(commands as f64 / max.get() as f64);
    }

    /// How many there were.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }
}
