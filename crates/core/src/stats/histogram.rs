//! How long things took, by powers of two.

use super::Counter;

/// The least bound is 2 to the power of this, in microseconds: 32 µs. A server on the same machine takes no less.
const LEAST_POWER: u32 = 5;

/// How many bounds there are; the greatest is 8.4 s.
const BOUNDS: usize = 19;

/// Durations that one thread notes and any may read.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; BOUNDS + 1],
    sum_us: Counter,
}

/// What several histograms hold together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    buckets: [u64; BOUNDS + 1],
    sum_us: u64,
}

impl Histogram {
    /// Notes that something took so long. Called by the one thread that owns the histogram.
    #[inline]
    pub fn note(&self, took_us: u64) {
        self.buckets[bucket_of(took_us)].add(1);
        self.sum_us.add(took_us);
    }
}

impl Durations {
    /// Adds what a histogram holds now.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.read();
        }
        self.sum_us += histogram.sum_us.read();
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How long they took together, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// How many took no longer than each bound, in microseconds, and longer than the one before; none is the bound of the
    /// last.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let bounds = (LEAST_POWER..).take(BOUNDS).map(|power| Some(1 << power)).chain([None]);
        bounds.zip(self.buckets.iter().copied())
    }
}

/// The first bucket whose bound is not exceeded.
#[inline]
fn bucket_of(took_us: u64) -> usize {
    let power = u64::BITS - took_us.saturating_sub(1).leading_zeros();
    (power.saturating_sub(LEAST_POWER) as usize).min(BOUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_equals_a_bound_is_within_it() {
        let histogram = Histogram::default();
        for took_us in [0, 1, 32, 33, 64, 65, 1 << 23, (1 << 23) + 1, u64::MAX >> 8] {
            histogram.note(took_us);
        }
        let mut all = Durations::default();
        all.add(&histogram);
        let filled: Vec<_> = all.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(Some(32), 3), (Some(64), 2), (Some(128), 1), (Some(1 << 23), 1), (None, 2)]);
        assert_eq!(all.count(), 9);
    }

    #[test]
    fn histograms_of_several_threads_add_up() {
        let (one, other) = (Histogram::default(), Histogram::default());
        one.note(40);
        other.note(41);
        let mut all = Durations::default();
        all.add(&one);
        all.add(&other);
        assert_eq!((all.count(), all.sum_us()), (2, 81));
        assert_eq!(all.buckets().nth(1), Some((Some(64), 2)));
    }
}
