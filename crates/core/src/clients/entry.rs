//! What is known of one client. Its own session writes, on one thread; anybody may read.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use super::counts::{LookupKind, Lookups};
use crate::cluster::Endpoint;
use crate::command::{Command, table};
use crate::resp::Protocol;
use crate::tracking::Mailbox;

bitflags::bitflags! {
    /// What a client is or does, as the letters of CLIENT LIST tell it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct ClientFlags: u32 {
        /// `O`: it gets the lines of MONITOR.
        const MONITOR = 1;
        /// `P`: it is subscribed to something.
        const PUBSUB = 1 << 1;
        /// `x`: it is between MULTI and EXEC.
        const MULTI = 1 << 2;
        /// `b`: a command of it waits.
        const BLOCKED = 1 << 3;
        /// `e`: CLIENT NO-EVICT ON.
        const NO_EVICT = 1 << 4;
        /// `T`: CLIENT NO-TOUCH ON.
        const NO_TOUCH = 1 << 5;
        /// It speaks RESP3.
        const RESP3 = 1 << 6;
        /// CLIENT CAPA REDIRECT.
        const REDIRECT = 1 << 7;
        /// `t`: CLIENT TRACKING ON.
        const TRACKING = 1 << 8;
        /// `R`: the client that is told of keys in its place is gone.
        const BROKEN_REDIRECT = 1 << 9;
        /// `B`: it is told of all keys that begin as it said.
        const BROADCAST = 1 << 10;
    }
}

/// Who a client is to the proxy.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// A number of its own, as CLIENT ID answers it.
    pub id: u64,
    /// Its address, as CLIENT INFO shows it.
    pub address: String,
    /// The address it connected to.
    pub local_address: String,
    /// The database it starts in, and comes back to by RESET.
    pub database: u32,
    /// The number of its socket in this process.
    pub descriptor: i32,
}

/// The numbers of a session that change with its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) database: u32,
    pub(crate) flags: ClientFlags,
    pub(crate) channels: usize,
    pub(crate) patterns: usize,
    pub(crate) shards: usize,
    /// Commands queued since MULTI.
    pub(crate) queued: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) watched: usize,
    /// The client that is told of keys in its place, 0 for none; -1 where nobody is.
    pub(crate) redirect: i64,
}

/// What a client has said of itself, and who it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    pub(crate) name: Vec<u8>,
    pub(crate) user: String,
    pub(crate) library_name: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
}

/// What somebody else has decided about a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was ended, by CLIENT KILL or because its user is no more.
    Killed,
    /// It took the lines of MONITOR too slowly.
    FellBehind,
}

/// One client, as others see it.
#[derive(Debug)]
pub struct Entry {
    id: u64,
    address: String,
    local_address: String,
    descriptor: i32,
    since_ms: i64,
    last_ms: AtomicI64,
    /// One more than the last command's index; 0 where there was none.
    command: AtomicUsize,
    requests: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    flags: AtomicU32,
    database: AtomicU32,
    channels: AtomicUsize,
    patterns: AtomicUsize,
    shards: AtomicUsize,
    queued: AtomicUsize,
    queued_bytes: AtomicUsize,
    watched: AtomicUsize,
    redirect: AtomicI64,
    unread_bytes: AtomicUsize,
    answer_bytes: AtomicUsize,
    /// The connection that a command of this client is under way on alone.
    waits_on: Mutex<Option<WaitsOn>>,
    words: Mutex<Words>,
    killed: AtomicBool,
    fell_behind: AtomicBool,
    /// Lines of MONITOR that are to be sent.
    feed: Mutex<Vec<u8>>,
    is_fed: AtomicBool,
    /// Keys that it is to forget.
    mailbox: Arc<Mailbox>,
    task: OnceLock<Waker>,
}

/// A connection to a server that a client has to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitsOn {
    /// The server's number for it.
    pub number: i64,
    /// Which node of a cluster that is.
    pub node: Option<Endpoint>,
}

/// What the driver of a client tells and asks.
impl Entry {
    /// Says how to wake the client's task.
    pub fn set_task(&self, task: &Waker) {
        self.task.get_or_init(|| task.clone());
        self.mailbox.set_task(task);
    }

    /// What others have decided about the client, if anything: then it is to be closed at once.
    pub fn outcome(&self) -> Option<Outcome> {
        if self.killed.load(Ordering::Acquire) {
            Some(Outcome::Killed)
        } else if self.fell_behind.load(Ordering::Acquire) {
            Some(Outcome::FellBehind)
        } else {
            None
        }
    }

    /// Moves lines of MONITOR that have come behind `out`.
    pub fn take_feed(&self, out: &mut Vec<u8>) {
        if self.is_fed.load(Ordering::Acquire) && self.is_fed.swap(false, Ordering::AcqRel) {
            out.append(&mut self.feed.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Says how many bytes of requests are read and not begun, and how many of answers wait to be sent.
    pub fn note_buffers(&self, unread_bytes: usize, answer_bytes: usize) {
        self.unread_bytes.store(unread_bytes, Ordering::Relaxed);
        self.answer_bytes.store(answer_bytes, Ordering::Relaxed);
    }

    /// Counts what an answer tells of the keys that were read, and says it. Called by the one thread that serves the client.
    pub(crate) fn note_answer(&self, kind: LookupKind, answer: &[u8]) -> Lookups {
        if kind == LookupKind::None {
            return Lookups::default();
        }
        let told = kind.read(answer);
        let sum = self.lookups() + told;
        self.hits.store(sum.hits, Ordering::Relaxed);
        self.misses.store(sum.misses, Ordering::Relaxed);
        told
    }

    /// A command is under way on this connection, which no other client uses meanwhile.
    pub fn note_waits_on(&self, connection: Option<WaitsOn>) {
        *self.waits_on.lock().unwrap_or_else(PoisonError::into_inner) = connection;
    }
}

impl Entry {
    pub(super) fn new(peer: &Peer, now_ms: i64) -> Self {
        Self {
            id: peer.id,
            address: peer.address.clone(),
            local_address: peer.local_address.clone(),
            descriptor: peer.descriptor,
            since_ms: now_ms,
            last_ms: AtomicI64::new(now_ms),
            command: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            database: AtomicU32::new(peer.database),
            channels: AtomicUsize::new(0),
            patterns: AtomicUsize::new(0),
            shards: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
            redirect: AtomicI64::new(-1),
            unread_bytes: AtomicUsize::new(0),
            answer_bytes: AtomicUsize::new(0),
            waits_on: Mutex::default(),
            words: Mutex::default(),
            killed: AtomicBool::new(false),
            fell_behind: AtomicBool::new(false),
            feed: Mutex::default(),
            is_fed: AtomicBool::new(false),
            mailbox: Arc::default(),
            task: OnceLock::new(),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn local_address(&self) -> &str {
        &self.local_address
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.descriptor
    }

    /// Seconds since it came.
    pub(crate) fn age_seconds(&self, now_ms: i64) -> i64 {
        (now_ms - self.since_ms).max(0) / 1000
    }

    /// Seconds since its last request.
    pub(crate) fn idle_seconds(&self, now_ms: i64) -> i64 {
        (now_ms - self.last_ms.load(Ordering::Relaxed)).max(0) / 1000
    }

    /// A request of this command begins. Only the client's own session calls this, so nothing need be added atomically.
    pub(crate) fn note_request(&self, command: Option<&'static Command>, now_ms: i64) {
        self.last_ms.store(now_ms, Ordering::Relaxed);
        if let Some(command) = command {
            self.command.store(command.index() + 1, Ordering::Relaxed);
        }
    }

    /// The request has begun, and the session is in this state.
    pub(crate) fn note_begun(&self, state: &State) {
        self.requests.store(self.requests() + 1, Ordering::Relaxed);
        self.note_state(state);
    }

    pub(crate) fn note_state(&self, state: &State) {
        self.flags.store(state.flags.bits(), Ordering::Relaxed);
        self.database.store(state.database, Ordering::Relaxed);
        self.channels.store(state.channels, Ordering::Relaxed);
        self.patterns.store(state.patterns, Ordering::Relaxed);
        self.shards.store(state.shards, Ordering::Relaxed);
        self.queued.store(state.queued, Ordering::Relaxed);
        self.queued_bytes.store(state.queued_bytes, Ordering::Relaxed);
        self.watched.store(state.watched, Ordering::Relaxed);
        self.redirect.store(state.redirect, Ordering::Relaxed);
    }

    /// The session's state as it was last told, and whether a command of it waits.
    pub(crate) fn state(&self) -> State {
        let mut flags = ClientFlags::from_bits_truncate(self.flags.load(Ordering::Relaxed));
        flags.set(ClientFlags::BLOCKED, flags.contains(ClientFlags::BLOCKED) && self.waits_on().is_some());
        State {
            database: self.database.load(Ordering::Relaxed),
            flags,
            channels: self.channels.load(Ordering::Relaxed),
            patterns: self.patterns.load(Ordering::Relaxed),
            shards: self.shards.load(Ordering::Relaxed),
            queued: self.queued.load(Ordering::Relaxed),
            queued_bytes: self.queued_bytes.load(Ordering::Relaxed),
            watched: self.watched.load(Ordering::Relaxed),
            redirect: self.redirect.load(Ordering::Relaxed),
        }
    }

    /// The name of its last command, a subcommand's after a bar.
    pub(crate) fn command(&self) -> &'static str {
        let index = self.command.load(Ordering::Relaxed);
        index.checked_sub(1).and_then(|index| table().iter().nth(index)).map_or("NULL", |command| command.name)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn lookups(&self) -> Lookups {
        Lookups { hits: self.hits.load(Ordering::Relaxed), misses: self.misses.load(Ordering::Relaxed) }
    }

    pub(crate) fn unread_bytes(&self) -> usize {
        self.unread_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer_bytes.load(Ordering::Relaxed) + self.feed.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The connection that a command of it is under way on alone.
    pub(crate) fn waits_on(&self) -> Option<WaitsOn> {
        self.waits_on.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where keys that it is to forget are left for it.
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// The protocol it speaks.
    pub(crate) fn protocol(&self) -> Protocol {
        match ClientFlags::from_bits_truncate(self.flags.load(Ordering::Relaxed)).contains(ClientFlags::RESP3) {
            true => Protocol::Resp3,
            false => Protocol::Resp2,
        }
    }

    /// Ends the client, as soon as its task runs.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake();
    }

    /// Has the client's task run.
    pub(crate) fn wake(&self) {
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    /// Adds a line of MONITOR; a client for whom so many bytes wait already is ended.
    pub(super) fn feed(&self, line: &[u8], max_bytes: usize) {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        if feed.len() + line.len() > max_bytes {
            *feed = Vec::new();
            self.fell_behind.store(true, Ordering::Release);
        } else {
            feed.extend_from_slice(line);
        }
        drop(feed);
        if !self.is_fed.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }
}
