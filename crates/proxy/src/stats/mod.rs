//! What the proxy counts.
//!
//! Each worker counts for itself and only it writes, so that counting costs no more than an addition;
//! whoever asks adds the workers up. What operators see beyond that is kept in [`Meters`], where they are let in.

mod gauges;
mod meters;
mod nodes;

use std::sync::Arc;
use std::time::Instant;

use keyfold_core::stats::{CommandStats, Counter, Traffic};

pub(crate) use gauges::{ClientGauges, ClusterGauges, LaneGauges};
pub(crate) use meters::Meters;
pub(crate) use nodes::{NodeMeter, node_durations};

/// One worker's counters.
#[derive(Debug)]
pub(crate) struct Stats {
    requests: Counter,
    /// None where there are no operators to show it to.
    pub(crate) meters: Option<Arc<Meters>>,
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
    /// Counters at zero; where operators are let in, with what they see, counted from `since` on.
    pub(crate) fn new(since: Option<Instant>) -> Self {
        Self { requests: Counter::default(), meters: since.map(|since| Arc::new(Meters::new(since))) }
    }

    /// Counts a request. Called by the one worker that owns these counters.
    pub(crate) fn count_request(&self) {
        self.requests.add(1);
    }
}

impl Traffic for Stats {
    fn requests(&self) -> u64 {
        self.requests.read()
    }

    fn commands(&self) -> Option<&CommandStats> {
        self.meters.as_deref().map(|meters| &*meters.commands)
    }
}
