//! What threads that drive conversations count of all that clients ask, whatever namespace it is of.

use std::fmt::Debug;
use std::sync::Arc;

use super::{CommandStats, Durations};

/// What one thread has counted. It is read where somebody asks, and nothing is done for it otherwise.
pub trait Traffic: Debug + Send + Sync {
    /// Requests that were begun.
    fn requests(&self) -> u64;

    /// What was counted of commands; none where nobody wants to know.
    fn commands(&self) -> Option<&CommandStats>;
}

/// Requests of several threads, and how long their commands took where that is counted.
pub(crate) fn sum(all: &[Arc<dyn Traffic>]) -> (u64, Option<Durations>) {
    let requests = all.iter().map(|one| one.requests()).sum();
    let counted = all.iter().filter_map(|one| one.commands()).map(CommandStats::durations);
    let durations = counted.reduce(|mut sum, one| {
        sum += one;
        sum
    });
    (requests, durations)
}
