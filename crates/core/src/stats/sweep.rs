//! What the sweep knows and has done, shared by all that drive the core in one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Abandoned, Expiring, LargeBuckets};

/// What a sweep has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Fields looked at.
    pub fields: u64,
    /// Expired fields found.
    pub expired: u64,
    /// Spilled values found that nothing points to.
    pub orphans: u64,
}

impl std::ops::AddAssign for Swept {
    fn add_assign(&mut self, more: Self) {
        self.fields += more.fields;
        self.expired += more.expired;
        self.orphans += more.orphans;
    }
}

/// What the sweep knows and has done.
#[derive(Debug, Default)]
pub struct SweepState {
    /// Buckets that are due to be looked through, by whatever layout.
    pub expiring: Arc<Expiring>,
    /// What may have become nobody's, by whatever layout.
    pub abandoned: Arc<Abandoned>,
    /// Buckets that are larger than any should be.
    pub large_buckets: LargeBuckets,
    fields: AtomicU64,
    expired: AtomicU64,
    orphans: AtomicU64,
    walk_ms: AtomicU64,
}

impl SweepState {
    /// Adds what was looked at and found.
    pub fn add(&self, swept: Swept) {
        self.fields.fetch_add(swept.fields, Ordering::Relaxed);
        self.expired.fetch_add(swept.expired, Ordering::Relaxed);
        self.orphans.fetch_add(swept.orphans, Ordering::Relaxed);
    }

    /// All that was looked at and found.
    pub fn total(&self) -> Swept {
        Swept {
            fields: self.fields.load(Ordering::Relaxed),
            expired: self.expired.load(Ordering::Relaxed),
            orphans: self.orphans.load(Ordering::Relaxed),
        }
    }

    /// Says how long the last walk over the whole keyspace took, in milliseconds.
    pub fn set_walk_ms(&self, walk_ms: u64) {
        self.walk_ms.store(walk_ms, Ordering::Relaxed);
    }

    /// How long the last walk over the whole keyspace took, in milliseconds; 0 before the first is over.
    pub fn walk_ms(&self) -> u64 {
        self.walk_ms.load(Ordering::Relaxed)
    }
}
