//! What the proxy counts.
//!
//! Each worker counts for itself and only it writes, so that counting costs no more than an addition;
//! whoever asks adds the workers up. What operators see beyond that is kept in [`Meters`], where they are let in.

mod gauges;
mod meters;
mod nodes;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use keyfold_core::slowlog::Timekeeper;
use keyfold_core::stats::{CommandStats, Counter, Traffic};

pub(crate) use gauges::{ClientGauges, ClusterGauges, LaneGauges};
pub(crate) use meters::Meters;
use meters::micros;
pub(crate) use nodes::{NodeMeter, each_node};

/// One worker's counters.
#[derive(Debug)]
pub(crate) struct Stats {
    requests: Counter,
    /// The moment that its time is counted from.
    since: Instant,
    pub(crate) time: Arc<Timekeeper>,
    /// When the worker last looked after itself, in milliseconds.
    beat_ms: Counter,
    /// Why it takes the server for away.
    away: Mutex<Option<Arc<str>>>,
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
    /// Counters at zero, from now on; where operators are let in, with what they see.
    pub(crate) fn new(has_operators: bool) -> Self {
        let (since, time) = (Instant::now(), Arc::<Timekeeper>::default());
        let meters = has_operators.then(|| Arc::new(Meters::new(since, Arc::clone(&time))));
        Self {
            requests: Counter::default(),
            since,
            time,
            beat_ms: Counter::default(),
            away: Mutex::new(Some("no connection to it has been made yet".into())),
            meters,
        }
    }

    /// Says what time it is, by this machine's clock and the server's: once for all that has come together.
    #[inline]
    pub(crate) fn set_now(&self, now: Instant, server_ms: i64) {
        self.time.set_now(micros(now, self.since), server_ms);
    }

    /// The worker runs.
    pub(crate) fn beat(&self) {
        self.beat_ms.set(u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX));
    }

    /// It has ended as it should, and is not to be missed.
    pub(crate) fn note_ended(&self) {
        self.beat_ms.set(u64::MAX);
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
