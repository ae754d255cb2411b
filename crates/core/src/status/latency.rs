//! How long commands took, as others read it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::Durations;

/// How long commands took since the start, from when it was each one's turn among its client's until its answer was there.
/// Those that may wait for what other clients do are left out, and those that were refused or queued.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LatencyStatus {
    /// How many there were.
    pub commands: u64,
    /// What they took together, in microseconds.
    pub total_us: u64,
    /// How many took how long, from the quickest on; those that none took are left out.
    pub buckets: Vec<LatencyBucket>,
}

/// Commands that took about as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBucket {
    /// None took longer, in microseconds: a power of two from 32 µs to 8.4 s; none beyond the last.
    pub within_us: Option<u64>,
    /// How many took no longer than that, and longer than the power of two before.
    pub commands: u64,
}

impl LatencyStatus {
    /// What durations say.
    pub fn of(durations: Durations) -> Self {
        let filled = durations.buckets().filter(|(_, commands)| *commands > 0);
        let buckets = filled.map(|(within_us, commands)| LatencyBucket { within_us, commands }).collect();
        Self { commands: durations.count(), total_us: durations.sum_us(), buckets }
    }

    /// The durations again.
    pub fn durations(&self) -> Durations {
        Durations::of_buckets(self.buckets.iter().map(|bucket| (bucket.within_us, bucket.commands)), self.total_us)
    }
}
