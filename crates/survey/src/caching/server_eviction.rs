//! How servers choose what leaves (`evict.c`): the worst of what a few looks have found.
//!
//! A server looks at five keys by chance, puts those that are worse than any in its pool of sixteen into it, and evicts the
//! worst of the pool; who was used since is still as bad there as when it was looked at. That is near to what LRU and LFU would choose that knew all keys, and is what caches of plain keys
//! have today.

use crate::random::Random;

/// `maxmemory-samples`, by default.
const SAMPLES: usize = 5;
/// `EVPOOL_SIZE`.
const POOL: usize = 16;
/// `LFU_INIT_VAL`: how often a new key counts as used.
const NEW: u8 = 5;
/// `lfu-log-factor`, by default.
const LOG_FACTOR: f64 = 10.0;
/// No place among those that are there.
const ABSENT: u32 = u32::MAX;

/// What a server goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerPolicy {
    /// How long a key wasn't used: `allkeys-lru`.
    Recency,
    /// How often it was used: `allkeys-lfu`.
    Frequency,
}

impl ServerPolicy {
    /// As the server has it in `maxmemory-policy`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recency => "allkeys-lru",
            Self::Frequency => "allkeys-lfu",
        }
    }
}

/// What a server knows of its keys, by their numbers. What it calls a key is a bucket, where keys are folded.
pub(super) struct ServerEviction {
    policy: ServerPolicy,
    chance: Random,
    /// Those that are there, in no order, and where each is among them.
    present: Vec<u32>,
    place: Vec<u32>,
    used: Vec<Use>,
    /// How bad they were when they were looked at, the worst last.
    pool: Vec<(u64, u32)>,
    /// The number of the request, and of the minute that it came in.
    now: u64,
    minute: u32,
    per_minute: Option<f64>,
}

/// When a key was used last, and how often.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    at: u64,
    minute: u32,
    /// The logarithm, as it were: `LFULogIncr`.
    count: u8,
}

impl ServerEviction {
    /// A server that so many keys may come to, and that gets so many requests a minute.
    pub(super) fn new(policy: ServerPolicy, keys: usize, per_minute: Option<f64>) -> Self {
        Self {
            policy,
            chance: Random::new(1),
            present: Vec::new(),
            place: vec![ABSENT; keys],
            used: vec![Use::default(); keys],
            pool: Vec::with_capacity(POOL + 1),
            now: 0,
            minute: 0,
            per_minute,
        }
    }

    /// Another request comes.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "minutes")]
    pub(super) fn tick(&mut self) {
        self.now += 1;
        self.minute = self.per_minute.map_or(0, |pace| (self.now as f64 / pace) as u32);
    }

    pub(super) fn has(&self, key: u32) -> bool {
        self.place[key as usize] != ABSENT
    }

    /// A key that wasn't there comes.
    pub(super) fn enter(&mut self, key: u32) {
        self.place[key as usize] = u32::try_from(self.present.len()).unwrap_or(ABSENT);
        self.present.push(key);
        self.used[key as usize] = Use { at: self.now, minute: self.minute, count: NEW };
    }

    /// One that is there is used.
    pub(super) fn touch(&mut self, key: u32) {
        let count = self.decayed(key);
        let over = f64::from(count.saturating_sub(NEW));
        let rises = count < u8::MAX && self.chance.unit() * (over * LOG_FACTOR + 1.0) < 1.0;
        let count = if rises { count + 1 } else { count };
        self.used[key as usize] = Use { at: self.now, minute: self.minute, count };
    }

    /// One that is there leaves.
    pub(super) fn leave(&mut self, key: u32) {
        let place = std::mem::replace(&mut self.place[key as usize], ABSENT) as usize;
        self.present.swap_remove(place);
        if let Some(moved) = self.present.get(place) {
            self.place[*moved as usize] = u32::try_from(place).unwrap_or(ABSENT);
        }
    }

    /// Which is to leave; none where nothing is there.
    pub(super) fn choose(&mut self) -> Option<u32> {
        while !self.present.is_empty() {
            self.look();
            while let Some((_, key)) = self.pool.pop() {
                if self.has(key) {
                    return Some(key);
                }
            }
        }
        None
    }

    /// `evictionPoolPopulate`.
    fn look(&mut self) {
        for _ in 0..SAMPLES {
            let key = *self.chance.pick(&self.present);
            let worth = self.badness(key);
            let at = self.pool.partition_point(|(other, _)| *other < worth);
            if at == 0 && self.pool.len() == POOL {
                continue;
            }
            self.pool.insert(at, (worth, key));
            if self.pool.len() > POOL {
                self.pool.remove(0);
            }
        }
    }

    /// The more, the sooner it leaves.
    fn badness(&self, key: u32) -> u64 {
        match self.policy {
            ServerPolicy::Recency => self.now - self.used[key as usize].at,
            ServerPolicy::Frequency => u64::from(u8::MAX - self.decayed(key)),
        }
    }

    /// `LFUDecrAndReturn`, with `lfu-decay-time` 1: one less for each minute.
    fn decayed(&self, key: u32) -> u8 {
        let Use { minute, count, .. } = self.used[key as usize];
        count.saturating_sub(u8::try_from(self.minute - minute).unwrap_or(u8::MAX))
    }
}
