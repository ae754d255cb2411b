//! The clients of one proxy, as CLIENT, MONITOR and INFO show them.
//!
//! A proxy serves its clients on several threads, and a command such as CLIENT LIST concerns all of them. So each
//! session keeps an entry here up to date, which any other session may read, end, or feed with lines of MONITOR. What
//! is written at every request is a few numbers of the client's own; locks are taken by the commands that look.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `counts` | what INFO counts of clients and their keys |
//! | `entry` | what is known of one client |
//! | `line` | an entry as one line of CLIENT LIST, with the fields of the server behind |
//! | `filter` | which clients CLIENT LIST shows and CLIENT KILL ends |
//! | `pause` | CLIENT PAUSE |
//! | `monitor` | MONITOR: the lines, and who gets them |
//! | `turns` | whose turn it is to write a key that many write at once |
//!
//! CLIENT TRACKING is a room of its own, [`crate::tracking`].

mod counts;
mod entry;
mod filter;
mod line;
mod monitor;
mod pause;
mod turns;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub use counts::LookupKind;
pub(crate) use counts::{Keyspace, Lookups, Rate};
pub(crate) use entry::{ClientFlags, State};
pub use entry::{Entry, Outcome, Peer, WaitsOn};
pub(crate) use filter::{Asked, Filter};
pub(crate) use line::line;
pub use pause::Pause;
pub(crate) use pause::PauseMode;
pub(crate) use turns::{Admission, KeyHash, Ticket, Turn, Turns, hash_of};

use crate::notify::Notifications;
use crate::slowlog::SlowLog;
use crate::tracking::Tracking;
use crate::user_script::{Functions, Scripts};
use monitor::Monitors;

/// The clients of one proxy, shared by everything that serves them.
#[derive(Debug, Default)]
pub struct Clients {
    /// By their ids, which count up: the order in which they came.
    entries: RwLock<BTreeMap<u64, Arc<Entry>>>,
    pause: Pause,
    scripts: Scripts,
    functions: Arc<Functions>,
    monitors: Monitors,
    tracking: Tracking,
    notifications: Notifications,
    /// Clients that ever came.
    came: AtomicU64,
    /// Requests of clients that have gone.
    requests_of_gone: AtomicU64,
    /// Reads of clients that have gone.
    lookups_of_gone: Mutex<Lookups>,
    keyspace: Keyspace,
    rate: Rate,
    turns: Turns,
    slow: Arc<SlowLog>,
}

impl Clients {
    /// Adds a client that has just connected.
    pub(crate) fn join(self: &Arc<Self>, peer: &Peer, now_ms: i64) -> Joined {
        let entry = Arc::new(Entry::new(peer, now_ms));
        self.came.fetch_add(1, Ordering::Relaxed);
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(peer.id, Arc::clone(&entry));
        Joined { clients: Arc::clone(self), entry }
    }

    /// Everybody, in the order in which they came.
    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The client of this id.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Whose turn it is to write a key that many write.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// What is to be published of folded keys.
    pub fn notifications(&self) -> &Notifications {
        &self.notifications
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How many ever came.
    pub fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    /// Requests that were begun, of all clients there ever were.
    pub fn requests(&self) -> u64 {
        let now: u64 = self.all().iter().map(|entry| entry.requests()).sum();
        now + self.requests_of_gone.load(Ordering::Relaxed)
    }

    /// Their reads.
    pub(crate) fn lookups(&self) -> Lookups {
        let gone = *self.lookups_of_gone.lock().unwrap_or_else(PoisonError::into_inner);
        self.all().iter().fold(gone, |sum, entry| sum + entry.lookups())
    }

    /// How many wait for something to happen in the server.
    pub(crate) fn blocked(&self) -> usize {
        self.all().iter().filter(|entry| entry.state().flags.contains(ClientFlags::BLOCKED)).count()
    }

    /// How many keys there are.
    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Looks how many requests were begun, for the rate; to be called every second, by any thread.
    pub fn sample_rate(&self, now_ms: i64) {
        self.rate.sample(now_ms, || self.requests());
    }

    /// Requests in a second, over the last one or so.
    pub(crate) fn requests_per_second(&self) -> u64 {
        self.rate.per_second()
    }

    /// CLIENT PAUSE, as it stands.
    pub fn pause(&self) -> &Pause {
        &self.pause
    }

    /// The functions that the servers have.
    pub(crate) fn functions(&self) -> &Arc<Functions> {
        &self.functions
    }

    /// The scripts that they have made known.
    pub(crate) fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// Ends CLIENT PAUSE: whoever waits for that goes on.
    pub(crate) fn unpause(&self) {
        self.pause.end();
        self.wake_all();
    }

    /// Has every client's task run, to look at what has changed.
    pub fn wake_all(&self) {
        self.all().iter().for_each(|entry| entry.wake());
    }

    /// Whom clients want to be told of what: CLIENT TRACKING.
    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    /// Which of their requests were slow.
    pub fn slow(&self) -> &Arc<SlowLog> {
        &self.slow
    }

    pub(crate) fn monitors(&self) -> &Monitors {
        &self.monitors
    }
}

/// A client's place among all; it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Joined {
    clients: Arc<Clients>,
    entry: Arc<Entry>,
}

impl Joined {
    pub(crate) fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    /// The client has gone, although requests of it may be under way.
    pub(crate) fn leave(&self) {
        self.clients.monitors.remove(self.entry.id());
        self.clients.tracking.end(self.entry.id());
        let mut entries = self.clients.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.remove(&self.entry.id()).is_some() {
            self.clients.requests_of_gone.fetch_add(self.entry.requests(), Ordering::Relaxed);
            let mut gone = self.clients.lookups_of_gone.lock().unwrap_or_else(PoisonError::into_inner);
            *gone = *gone + self.entry.lookups();
        }
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.leave();
    }
}
