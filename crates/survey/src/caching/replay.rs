//! One cache over all requests: who reads a key that isn't there writes it.

use std::ops::ControlFlow;

use keyfold_core::cache::KeyHash;

use super::key_eviction::KeyEviction;
use super::optimum::Optimum;
use super::requests::{Action, Requests};
use super::room::{FoldedRoom, Members, PlainRoom, Room};
use super::server_eviction::{ServerEviction, ServerPolicy};
use super::sizes::Sizes;

/// It is asked whether to go on each time after so many requests.
const ASK_EVERY: usize = 1 << 14;

/// Who keeps what, and who chooses what leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cache {
    /// Plain keys, and the server chooses.
    Plain(ServerPolicy),
    /// Buckets, and the server chooses among them.
    Buckets(ServerPolicy),
    /// Buckets, and keyfold chooses among their records.
    Records,
    /// Plain keys, by who knows what comes.
    PlainOptimum,
    /// Records in buckets, by who knows what comes.
    FoldedOptimum,
}

impl Cache {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::Plain(ServerPolicy::Recency),
        Self::Plain(ServerPolicy::Frequency),
        Self::Buckets(ServerPolicy::Recency),
        Self::Buckets(ServerPolicy::Frequency),
        Self::Records,
        Self::PlainOptimum,
        Self::FoldedOptimum,
    ];

    /// What it is called, in few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain(ServerPolicy::Recency) => "plain, LRU",
            Self::Plain(ServerPolicy::Frequency) => "plain, LFU",
            Self::Buckets(ServerPolicy::Recency) => "by bucket, LRU",
            Self::Buckets(ServerPolicy::Frequency) => "by bucket, LFU",
            Self::Records => "by key",
            Self::PlainOptimum => "plain, optimum",
            Self::FoldedOptimum => "by key, optimum",
        }
    }

    /// As programs read it.
    pub fn id(self) -> &'static str {
        match self {
            Self::Plain(ServerPolicy::Recency) => "plain_lru",
            Self::Plain(ServerPolicy::Frequency) => "plain_lfu",
            Self::Buckets(ServerPolicy::Recency) => "buckets_lru",
            Self::Buckets(ServerPolicy::Frequency) => "buckets_lfu",
            Self::Records => "by_key",
            Self::PlainOptimum => "plain_optimum",
            Self::FoldedOptimum => "by_key_optimum",
        }
    }
}

/// What a cache found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Reads that count.
    pub reads: u64,
    /// Those of them that found what they asked for.
    pub hits: u64,
    /// How many reads there should be in a sample of so many keys, less how many there are: the most popular keys are in it
    /// or not, by chance. They are always found, so the difference is one of hits (SHARDS-adj).
    missing: f64,
}

impl Tally {
    /// The share of reads that found what they asked for.
    pub fn hit_ratio(&self) -> f64 {
        let reads = (self.reads as f64 + self.missing).max(1.0);
        ((self.hits as f64 + self.missing) / reads).clamp(0.0, 1.0)
    }
}

/// Runs a cache of so many bytes. The first `warm_up` of all requests, a share of them, fill it and don't count. None where
/// `go_on` says that it isn't wanted any more.
pub fn replay(
    requests: &Requests,
    sizes: &Sizes,
    cache: Cache,
    memory_bytes: f64,
    warm_up: f64,
    go_on: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Option<Tally> {
    let mut simulated = Simulated::new(requests, sizes, cache, memory_bytes);
    let mut tally = Tally::default();
    let counts_from = requests.steps.len() as f64 * warm_up;
    for (number, step) in requests.steps.iter().enumerate() {
        if number % ASK_EVERY == 0 && go_on(ASK_EVERY.min(requests.steps.len() - number)).is_break() {
            return None;
        }
        let key = step.key();
        let found = simulated.has(key);
        simulated.tick(number, key);
        match step.action() {
            Action::Read => {
                if number as f64 >= counts_from {
                    tally.reads += 1;
                    tally.hits += u64::from(found);
                }
                simulated.put(key, found);
            }
            Action::Write => simulated.put(key, found),
            Action::Delete if found => simulated.remove(key),
            Action::Delete => {}
        }
    }
    if requests.rate < 1.0 {
        let sampled = requests.steps.iter().filter(|step| step.action() == Action::Read).count() as f64;
        tally.missing = (requests.seen_reads as f64 * requests.rate - sampled) * tally.reads as f64 / sampled.max(1.0);
    }
    Some(tally)
}

/// A cache that is simulated.
enum Simulated<'s> {
    Plain(ByServer<'s>),
    Buckets(ByServer<'s>, Members),
    Records(Box<KeyEviction<'s>>),
    Optimum(Optimum<'s>),
}

/// A server that evicts what it calls keys.
struct ByServer<'s> {
    eviction: ServerEviction,
    room: Room<'s>,
    limit: u64,
}

impl<'s> Simulated<'s> {
    fn new(requests: &Requests, sizes: &'s Sizes, cache: Cache, memory_bytes: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of memory")]
        let limit = (memory_bytes * requests.rate) as u64;
        let (keys, pace) = (requests.keys.len(), requests.per_minute.map(|pace| pace * requests.rate));
        // What fits lies in buckets that are as full as is usual.
        let fits = memory_bytes / sizes.all_folded_bytes(requests).max(1.0);
        let folded = || FoldedRoom::new(sizes, fits.min(1.0));
        let plain = || Room::Plain(PlainRoom::new(sizes));
        match cache {
            Cache::Plain(policy) => {
                Self::Plain(ByServer { eviction: ServerEviction::new(policy, keys, pace), room: plain(), limit })
            }
            Cache::Buckets(policy) => {
                let room = FoldedRoom::new(sizes, 1.0);
                let members = Members::new(&room, keys);
                let eviction = ServerEviction::new(policy, members.buckets(), pace);
                Self::Buckets(ByServer { eviction, room: Room::Folded(room), limit }, members)
            }
            Cache::Records => {
                let hashes = requests.keys.iter().map(|asked| KeyHash::of(&asked.key)).collect();
                Self::Records(Box::new(KeyEviction::new(hashes, sizes, folded(), limit)))
            }
            Cache::PlainOptimum => Self::Optimum(Optimum::new(requests, plain(), limit)),
            Cache::FoldedOptimum => Self::Optimum(Optimum::new(requests, Room::Folded(folded()), limit)),
        }
    }

    fn has(&self, key: u32) -> bool {
        match self {
            Self::Plain(server) => server.eviction.has(key),
            Self::Buckets(_, members) => members.has(key),
            Self::Records(records) => records.has(key),
            Self::Optimum(optimum) => optimum.has(key),
        }
    }

    /// The request of this number comes, for this key.
    fn tick(&mut self, number: usize, key: u32) {
        match self {
            Self::Plain(server) | Self::Buckets(server, _) => server.eviction.tick(),
            Self::Records(records) => records.note(key),
            Self::Optimum(optimum) => optimum.tick(number),
        }
    }

    /// A key that is there is used, or one that isn't comes.
    fn put(&mut self, key: u32, is_there: bool) {
        match self {
            Self::Plain(server) => server.put_plain(key, is_there),
            Self::Buckets(server, members) => server.put_in_bucket(key, is_there, members),
            Self::Records(_) if is_there => {}
            Self::Records(records) => records.put(key),
            Self::Optimum(optimum) => optimum.put(key),
        }
    }

    /// A key that is there is removed.
    fn remove(&mut self, key: u32) {
        match self {
            Self::Plain(server) => {
                server.eviction.leave(key);
                server.room.take(key);
            }
            Self::Buckets(server, members) => {
                server.room.take(key);
                if members.take(key) {
                    server.eviction.leave(members.bucket_of(key));
                }
            }
            Self::Records(records) => records.remove(key),
            Self::Optimum(optimum) => optimum.remove(key),
        }
    }
}

impl ByServer<'_> {
    fn put_plain(&mut self, key: u32, is_there: bool) {
        if is_there {
            return self.eviction.touch(key);
        }
        while self.room.used() > self.limit {
            let Some(worst) = self.eviction.choose() else { break };
            self.eviction.leave(worst);
            self.room.take(worst);
        }
        self.eviction.enter(key);
        self.room.put(key);
    }

    fn put_in_bucket(&mut self, key: u32, is_there: bool, members: &mut Members) {
        let bucket = members.bucket_of(key);
        // The read uses the bucket, whether it has the field or not.
        if self.eviction.has(bucket) {
            self.eviction.touch(bucket);
        }
        if is_there {
            return;
        }
        while self.room.used() > self.limit {
            let Some(worst) = self.eviction.choose() else { break };
            self.eviction.leave(worst);
            members.clear(worst, |record| self.room.take(record));
        }
        if self.eviction.has(bucket) {
            self.eviction.touch(bucket);
        } else {
            self.eviction.enter(bucket);
        }
        members.put(key);
        self.room.put(key);
    }
}
