//! What was asked of a cache: the keys, and the requests for them in their order.

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads the key; who doesn't find it writes it.
    Read,
    /// Writes the key, whether it is there or not.
    Write,
    /// Removes it.
    Delete,
}

/// One request: which key, and what for. The number of the key above two bits for the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step(u32);

impl Step {
    /// There are at most so many keys.
    pub(super) const MOST_KEYS: u32 = 1 << 30;

    pub(super) fn new(key: u32, action: Action) -> Self {
        Self(key << 2 | action as u32)
    }

    pub(super) fn key(self) -> u32 {
        self.0 >> 2
    }

    pub(super) fn action(self) -> Action {
        match self.0 & 3 {
            0 => Action::Read,
            1 => Action::Write,
            _ => Action::Delete,
        }
    }
}

/// A key that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) key: Box<[u8]>,
    /// How long its value was, the last time that this was told.
    pub(super) value_bytes: Option<u32>,
    pub(super) has_expiry: bool,
}

/// Requests that were recorded, of all keys or of a sample of them.
#[derive(Clone, Debug)]
pub struct Requests {
    pub(super) keys: Vec<Asked>,
    pub(super) steps: Vec<Step>,
    /// The share of keys that are in the sample.
    pub(super) rate: f64,
    /// How many requests there were, and how many of them were reads, those that are not in the sample included.
    pub(super) seen: u64,
    pub(super) seen_reads: u64,
    /// Requests a minute, where that is known.
    pub(super) per_minute: Option<f64>,
}

impl Requests {
    /// Requests for keys by their numbers, all of them reads. For requests that are made up.
    pub fn of_numbers(
        keys: impl IntoIterator<Item = Box<[u8]>>,
        numbers: &[u32],
        value_bytes: impl Fn(u32) -> u32,
    ) -> Self {
        let keys = (0_u32..).zip(keys);
        let keys = keys.map(|(number, key)| Asked { key, value_bytes: Some(value_bytes(number)), has_expiry: false });
        let steps: Vec<_> = numbers.iter().map(|number| Step::new(*number, Action::Read)).collect();
        let seen = steps.len() as u64;
        Self { keys: keys.collect(), steps, rate: 1.0, seen, seen_reads: seen, per_minute: None }
    }

    /// The same where it is known how many came in a minute, by which servers' LFU forgets.
    #[must_use]
    pub fn at_pace(self, per_minute: Option<f64>) -> Self {
        Self { per_minute: per_minute.filter(|pace| *pace > 0.0), ..self }
    }

    /// How many requests there were in all.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// How many of them were reads.
    pub fn reads(&self) -> u64 {
        self.seen_reads
    }

    /// How many requests the sample has.
    pub fn sampled(&self) -> u64 {
        self.steps.len() as u64
    }

    /// About how many keys were asked for; exact where all are in the sample.
    pub fn keys(&self) -> f64 {
        self.keys.len() as f64 / self.rate
    }

    /// How many keys the sample has.
    pub fn sampled_keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// The share of keys that are in the sample: 1 where all are.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The keys of the sample, in the order in which they were first asked for, with the lengths of their values where
    /// they were told.
    pub fn sample(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<u32>)> {
        self.keys.iter().map(|asked| (&*asked.key, asked.value_bytes))
    }

    /// How many keys of the sample have values of which nobody told how long they are.
    pub fn unknown_values(&self) -> u64 {
        self.keys.iter().filter(|asked| asked.value_bytes.is_none()).count() as u64
    }

    /// Says how long the values are of which it isn't known: `next` is asked for each such key, in the order of
    /// [`Self::sample`], and may not know it either.
    pub fn fill_values_asked(&mut self, mut next: impl FnMut() -> Option<u32>) {
        for asked in self.keys.iter_mut().filter(|asked| asked.value_bytes.is_none()) {
            asked.value_bytes = next();
        }
    }

    /// Says that all values of which it isn't known are so long.
    pub fn fill_values(&mut self, bytes: u32) {
        self.fill_values_asked(|| Some(bytes));
    }

    /// How long values are on the mean, of those of which it was told.
    pub fn mean_value_bytes(&self) -> Option<f64> {
        let known = || self.keys.iter().filter_map(|asked| asked.value_bytes);
        let count = known().count();
        (count > 0).then(|| known().map(f64::from).sum::<f64>() / count as f64)
    }
}
