//! Numbers that one thread writes and any may read.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only one thread writes, so that counting costs no more than an addition; whoever asks reads it from
/// another, and may see it a moment late.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds so much. Called by the one thread that owns the counter.
    #[inline]
    pub fn add(&self, more: u64) {
        self.set(self.read() + more);
    }

    /// Says what it is now. Called by the one thread that owns the counter.
    #[inline]
    pub fn set(&self, now: u64) {
        self.0.store(now, Ordering::Relaxed);
    }

    /// What it is.
    #[inline]
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
