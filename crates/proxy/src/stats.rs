//! What the proxy counts.
//!
//! Each worker counts for itself and only it writes, so that counting costs no more than an addition;
//! whoever asks adds the workers up.

use std::sync::atomic::{AtomicU64, Ordering};

/// One worker's counters.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    requests: AtomicU64,
}

/// What the workers have counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Requests that were begun.
    pub requests: u64,
    /// Clients connected now.
    pub clients: usize,
    /// Clients that were refused because there were too many.
    pub refused: u64,
}

impl Stats {
    /// Counts a request. Called by the one worker that owns these counters: no atomic addition is needed.
    pub(crate) fn count_request(&self) {
        self.requests.store(self.requests.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}
