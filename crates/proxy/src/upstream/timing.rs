//! How long the server at the other end of a connection takes to answer.
//!
//! No clock is read for it: a connection notes when it was last spoken on (its [`Silence`]), and a worker when it last
//! turned to what had come.

use std::sync::Arc;

use super::silence::Silence;
use crate::stats::{Meters, NodeMeter};

/// Where a connection's answers are timed.
#[derive(Debug)]
pub(super) struct Timing {
    meters: Arc<Meters>,
    node: Arc<NodeMeter>,
}

impl Timing {
    /// For a connection to the server at this address.
    pub(super) fn new(meters: &Arc<Meters>, address: &str) -> Self {
        Self { meters: Arc::clone(meters), node: meters.node(address) }
    }

    /// When what is written now was asked. Either moment may be an earlier one, and none is later than now.
    pub(super) fn now_us(&self, silence: &Silence) -> u64 {
        self.meters.now_us().max(self.meters.micros(silence.since()))
    }

    /// What was asked at `since_us` is answered by what has just broken the silence.
    pub(super) fn note(&self, since_us: u64, silence: &Silence) {
        self.node.durations.note(self.meters.micros(silence.since()).saturating_sub(since_us));
    }
}
