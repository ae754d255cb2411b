//! What a worker says of its present, some times a second. Nobody has it look for that, and it waits for nobody who reads.

use std::ops::AddAssign;
use std::sync::{Mutex, PoisonError};

use keyfold_core::cluster::Redirects;

/// What was said last.
#[derive(Debug, Default)]
pub(crate) struct Gauges<T>(Mutex<T>);

impl<T: Copy> Gauges<T> {
    pub(crate) fn set(&self, now: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    pub(crate) fn read(&self) -> T {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's clients, each in one state, and what is under way for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientGauges {
    /// Nothing of theirs is under way.
    pub(crate) idle: u64,
    /// Requests of theirs are.
    pub(crate) active: u64,
    /// Their next request waits until it may begin.
    pub(crate) held: u64,
    /// They wait for what other clients may do.
    pub(crate) blocked: u64,
    /// They listen to channels.
    pub(crate) subscribed: u64,
    /// Requests that are under way, or whose answers wait for those before.
    pub(crate) requests: u64,
    /// Answers that wait for those before.
    pub(crate) parked: u64,
    /// Bytes of answers that wait for those before, or for their clients to take them.
    pub(crate) answer_bytes: u64,
}

impl AddAssign for ClientGauges {
    fn add_assign(&mut self, other: Self) {
        self.idle += other.idle;
        self.active += other.active;
        self.held += other.held;
        self.blocked += other.blocked;
        self.subscribed += other.subscribed;
        self.requests += other.requests;
        self.parked += other.parked;
        self.answer_bytes += other.answer_bytes;
    }
}

/// A worker's connections to the server, or to all nodes of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneGauges {
    /// Shared ones that carry commands.
    pub(crate) shared_ready: u64,
    /// Shared ones that are being opened.
    pub(crate) shared_connecting: u64,
    /// Shared ones whose server is away.
    pub(crate) shared_away: u64,
    /// Those that a client has to itself.
    pub(crate) own_in_use: u64,
    /// Those between two clients.
    pub(crate) own_idle: u64,
}

impl AddAssign for LaneGauges {
    fn add_assign(&mut self, other: Self) {
        self.shared_ready += other.shared_ready;
        self.shared_connecting += other.shared_connecting;
        self.shared_away += other.shared_away;
        self.own_in_use += other.own_in_use;
        self.own_idle += other.own_idle;
    }
}

/// A cluster, as a worker knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterGauges {
    /// It stands before one.
    pub(crate) is_there: bool,
    pub(crate) primaries: u64,
    pub(crate) replicas: u64,
    /// Slots that some node has.
    pub(crate) served_slots: u64,
    /// Slots whose commands wait until they may go on.
    pub(crate) held_slots: u64,
    /// How often its map came to be another.
    pub(crate) map_changes: u64,
    /// How often nodes led commands elsewhere.
    pub(crate) redirects: Redirects,
}

impl ClusterGauges {
    /// What several workers know together: each counts for itself, and of the map the one that knows least is shown.
    pub(crate) fn sum(all: impl Iterator<Item = Self>) -> Option<Self> {
        all.filter(|one| one.is_there).reduce(|sum, one| Self {
            is_there: true,
            primaries: sum.primaries.min(one.primaries),
            replicas: sum.replicas.min(one.replicas),
            served_slots: sum.served_slots.min(one.served_slots),
            held_slots: sum.held_slots + one.held_slots,
            map_changes: sum.map_changes.max(one.map_changes),
            redirects: Redirects {
                moved: sum.redirects.moved + one.redirects.moved,
                asked: sum.redirects.asked + one.redirects.asked,
                try_again: sum.redirects.try_again + one.redirects.try_again,
                unserved: sum.redirects.unserved + one.redirects.unserved,
            },
        })
    }
}
