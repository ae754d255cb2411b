//! What operators see of one worker.

use std::sync::Arc;
use std::time::Instant;

use keyfold_core::slowlog::Timekeeper;
use keyfold_core::stats::{CommandStats, Counter};

use super::gauges::{ClientGauges, ClusterGauges, Gauges, LaneGauges};
use super::nodes::{NodeMeter, NodeMeters};

/// What one worker counts and says of itself for operators. It writes, others read.
#[derive(Debug)]
pub(crate) struct Meters {
    /// The moment that its time is counted from.
    since: Instant,
    time: Arc<Timekeeper>,
    pub(crate) commands: Arc<CommandStats>,
    pub(crate) client_received_bytes: Counter,
    pub(crate) client_sent_bytes: Counter,
    pub(crate) server_received_bytes: Counter,
    pub(crate) server_sent_bytes: Counter,
    /// Connections to servers that came to carry commands.
    pub(crate) server_connected: Counter,
    /// Those of them that were lost, and not ended by the worker itself.
    pub(crate) server_lost: Counter,
    nodes: NodeMeters,
    pub(crate) clients: Gauges<ClientGauges>,
    pub(crate) lanes: Gauges<LaneGauges>,
    /// Nothing before one server.
    pub(crate) cluster: Gauges<ClusterGauges>,
}

/// A moment in microseconds after another, as durations are counted by.
pub(super) fn micros(at: Instant, since: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(since).as_micros()).unwrap_or(u64::MAX)
}

impl Meters {
    pub(super) fn new(since: Instant, time: Arc<Timekeeper>) -> Self {
        Self {
            since,
            time,
            commands: Arc::default(),
            client_received_bytes: Counter::default(),
            client_sent_bytes: Counter::default(),
            server_received_bytes: Counter::default(),
            server_sent_bytes: Counter::default(),
            server_connected: Counter::default(),
            server_lost: Counter::default(),
            nodes: NodeMeters::default(),
            clients: Gauges::default(),
            lanes: Gauges::default(),
            cluster: Gauges::default(),
        }
    }

    /// The time that was said last, in microseconds.
    pub(crate) fn now_us(&self) -> u64 {
        self.time.now_us()
    }

    /// A moment in microseconds, as durations are counted by.
    pub(crate) fn micros(&self, at: Instant) -> u64 {
        micros(at, self.since)
    }

    /// The meter of a node that a connection has just been made to.
    pub(crate) fn node(&self, address: &str) -> Arc<NodeMeter> {
        self.nodes.of(address)
    }

    /// The nodes that there were connections to.
    pub(crate) fn nodes(&self) -> &NodeMeters {
        &self.nodes
    }
}
