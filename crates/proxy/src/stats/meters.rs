//! What operators see of one worker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    /// When it last looked after itself, in milliseconds.
    beat_ms: Counter,
    /// Why it takes the server for away.
    away: Mutex<Option<Arc<str>>>,
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
            beat_ms: Counter::default(),
            away: Mutex::new(Some("no connection to it has been made yet".into())),
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

    /// The worker runs.
    pub(crate) fn beat(&self) {
        self.beat_ms.set(u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX));
    }

    /// For how long it has not run.
    pub(crate) fn silent_for(&self) -> Duration {
        self.since.elapsed().saturating_sub(Duration::from_millis(self.beat_ms.read()))
    }

    /// Says why the server is away, or that it isn't.
    pub(crate) fn set_away(&self, why: Option<String>) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = why.map(Arc::from);
    }

    pub(crate) fn away(&self) -> Option<Arc<str>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
