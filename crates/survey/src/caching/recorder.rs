//! Requests as they come, in bounded memory: of all keys while they are few, then of those whose hashes are small.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use super::requests::{Action, Asked, Requests, Step};

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Keys.
    pub keys: usize,
    /// Requests for them.
    pub requests: usize,
}

/// Some 40 MB with keys of 50 bytes, and a few seconds for all caches on one processor.
impl Default for Bounds {
    fn default() -> Self {
        Self { keys: 1 << 18, requests: 1 << 21 }
    }
}

/// Takes requests in. Once there are more than the bounds allow, half of the keys leave with all that was asked of them:
/// those whose hashes are large. Who comes later is judged by the same.
#[derive(Debug)]
pub struct Recorder {
    bounds: Bounds,
    /// Keys are in the sample whose hashes have so many zeros in front.
    zeros: u32,
    numbers: HashMap<u64, u32>,
    keys: Vec<Asked>,
    steps: Vec<Step>,
    seen: u64,
    seen_reads: u64,
    /// When the first and the last request came, in seconds, where that was told.
    times: Option<(f64, f64)>,
}

impl Recorder {
    /// Nothing was asked yet.
    pub fn new(bounds: Bounds) -> Self {
        let bounds = Bounds { keys: bounds.keys.clamp(1, Step::MOST_KEYS as usize), requests: bounds.requests.max(1) };
        let (numbers, keys, steps) = (HashMap::new(), Vec::new(), Vec::new());
        Self { bounds, zeros: 0, numbers, keys, steps, seen: 0, seen_reads: 0, times: None }
    }

    /// One request. `value_bytes` is how long the value is, and `has_expiry` whether it expires, where this is told.
    pub fn add(&mut self, key: &[u8], action: Action, value_bytes: Option<u32>, has_expiry: Option<bool>) {
        self.seen += 1;
        self.seen_reads += u64::from(action == Action::Read);
        let hash = xxh3_64(key);
        if !self.wants(hash) {
            return;
        }
        let number = self.number(hash, key);
        let asked = &mut self.keys[number as usize];
        asked.value_bytes = value_bytes.or(asked.value_bytes);
        asked.has_expiry = has_expiry.unwrap_or(asked.has_expiry);
        self.steps.push(Step::new(number, action));
        while self.keys.len() > self.bounds.keys || self.steps.len() > self.bounds.requests {
            self.thin();
        }
    }

    /// When the latest request came, in seconds since any moment.
    pub(super) fn at(&mut self, seconds: f64) {
        let (first, last) = self.times.unwrap_or((seconds, seconds));
        self.times = Some((first, last.max(seconds)));
    }

    /// How many requests came.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// What was recorded.
    pub fn finish(self) -> Requests {
        let Self { zeros, keys, steps, seen, seen_reads, times, .. } = self;
        let rate = 0.5_f64.powi(zeros.cast_signed());
        let minutes = times.map(|(first, last)| (last - first) / 60.0).filter(|minutes| *minutes > 0.0);
        let per_minute = minutes.map(|minutes| seen as f64 / minutes);
        Requests { keys, steps, rate, seen, seen_reads, per_minute }
    }

    /// A key is in the sample by its hash alone, so that all its requests are, or none.
    fn wants(&self, hash: u64) -> bool {
        hash.leading_zeros() >= self.zeros
    }

    /// Two keys of one hash are taken for one: of a million keys that happens once in ten million times.
    fn number(&mut self, hash: u64, key: &[u8]) -> u32 {
        let next = u32::try_from(self.keys.len()).unwrap_or(Step::MOST_KEYS);
        let number = *self.numbers.entry(hash).or_insert(next);
        if number == next {
            self.keys.push(Asked { key: key.into(), value_bytes: None, has_expiry: false });
        }
        number
    }

    fn thin(&mut self) {
        self.zeros += 1;
        let mut numbers = vec![None; self.keys.len()];
        let keys = std::mem::take(&mut self.keys);
        self.numbers.clear();
        for (asked, number) in keys.into_iter().zip(&mut numbers) {
            let hash = xxh3_64(&asked.key);
            if self.wants(hash) {
                let next = u32::try_from(self.keys.len()).unwrap_or(Step::MOST_KEYS);
                *number = Some(next);
                self.numbers.insert(hash, next);
                self.keys.push(asked);
            }
        }
        let kept = |step: &mut Step| {
            let number = numbers[step.key() as usize];
            number.inspect(|number| *step = Step::new(*number, step.action())).is_some()
        };
        self.steps.retain_mut(kept);
    }
}
