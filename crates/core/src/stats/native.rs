//! How long things took, by the buckets of Prometheus' native histograms: eight for each power of two of a second, so that a
//! quantile is off by less than a tenth.

use super::Counter;

/// A native histogram of this schema has 2 to the power of it buckets for each power of two.
pub const NATIVE_SCHEMA: i32 = 3;

/// Buckets of each power of two.
const FINE: usize = 1 << NATIVE_SCHEMA;

/// What divides a power of two into eight: 2 to the power of 0, 1/8, 2/8 …
const STEPS: [f64; FINE] = [
    1.0,
    1.090_507_732_665_257_7,
    1.189_207_115_002_721,
    1.296_839_554_651_009_6,
    core::f64::consts::SQRT_2,
    1.542_210_825_407_940_7,
    1.681_792_830_507_429,
    1.834_008_086_409_342_4,
];

/// Up to 2 to the power of this, in seconds (15 µs), all is one bucket: a server on the same machine takes no less.
const LEAST_POWER: i32 = -16;

/// From 2 to the power of this on, 64 s, all is one bucket.
const MOST_POWER: i32 = 6;

/// Buckets between the two, and the one beyond.
const BUCKETS: usize = (MOST_POWER - LEAST_POWER).unsigned_abs() as usize * FINE + 1;

/// What lies in no bucket lies from 0 to this, in seconds.
pub const NATIVE_ZERO_THRESHOLD_S: f64 = 1.0 / (1_u64 << LEAST_POWER.unsigned_abs()) as f64;

/// Durations that one thread notes and any may read.
#[derive(Debug)]
pub struct NativeHistogram {
    zero: Counter,
    buckets: [Counter; BUCKETS],
}

impl Default for NativeHistogram {
    fn default() -> Self {
        Self { zero: Counter::default(), buckets: std::array::from_fn(|_| Counter::default()) }
    }
}

impl NativeHistogram {
    /// Notes that something took so long. Called by the one thread that owns the histogram.
    #[inline]
    pub fn note(&self, took_us: u64) {
        bucket_of(took_us).map_or(&self.zero, |bucket| &self.buckets[bucket]).add(1);
    }
}

/// What several histograms hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeDurations {
    zero: u64,
    buckets: [u64; BUCKETS],
}

impl Default for NativeDurations {
    fn default() -> Self {
        Self { zero: 0, buckets: [0; BUCKETS] }
    }
}

impl NativeDurations {
    /// Adds what a histogram holds now.
    pub fn add(&mut self, histogram: &NativeHistogram) {
        self.zero += histogram.zero.read();
        self.buckets.iter_mut().zip(&histogram.buckets).for_each(|(sum, bucket)| *sum += bucket.read());
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.zero + self.buckets.iter().sum::<u64>()
    }

    /// How many took no longer than [`NATIVE_ZERO_THRESHOLD_S`].
    pub fn zero(&self) -> u64 {
        self.zero
    }

    /// The buckets in which something lies, as Prometheus numbers them, and how much. The bound of bucket n, which belongs to
    /// it, is 2 to the power of n / 8 seconds.
    pub fn buckets(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        let numbers = LEAST_POWER * (1 << NATIVE_SCHEMA) + 1..;
        numbers.zip(self.buckets).filter(|(_, count)| *count > 0)
    }
}

/// The place of the bucket whose bound is not exceeded; none where it is too short for any.
#[inline]
fn bucket_of(took_us: u64) -> Option<usize> {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
    let seconds = took_us as f64 / 1e6;
    if seconds <= NATIVE_ZERO_THRESHOLD_S {
        return None;
    }
    // It is positive and no smaller than normal numbers are: the upper bits are the power of two, biased, the others what it is
    // multiplied with, from 1 to 2.
    let bits = seconds.to_bits();
    let power = (bits >> MANTISSA_BITS) as i32 - (f64::MAX_EXP - 1);
    let multiplied = f64::from_bits((bits & MANTISSA) | 1f64.to_bits());
    let exceeded = STEPS.iter().filter(|step| multiplied > **step).count();
    // Bucket 0, the first, ends one step above the least power.
    let place = (power - LEAST_POWER).unsigned_abs() as usize * FINE + exceeded;
    Some((place - 1).min(BUCKETS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(all: &[u64]) -> NativeDurations {
        let histogram = NativeHistogram::default();
        all.iter().for_each(|took_us| histogram.note(*took_us));
        let mut durations = NativeDurations::default();
        durations.add(&histogram);
        durations
    }

    #[test]
    fn each_duration_lies_between_its_bound_and_the_one_before() {
        let bound = |number: i32| (f64::from(number) / 8.0).exp2();
        let mut took_us = 0_u64;
        while took_us < 64_000_000 {
            let (one, seconds) = (durations(&[took_us]), took_us as f64 / 1e6);
            assert_eq!(one.count(), 1);
            match one.buckets().next() {
                None => assert!(one.zero() == 1 && seconds <= NATIVE_ZERO_THRESHOLD_S, "{took_us}"),
                Some((number, 1)) => {
                    assert!(seconds <= bound(number) * (1.0 + 1e-12), "{took_us} in {number}");
                    assert!(seconds > bound(number - 1) * (1.0 - 1e-12), "{took_us} in {number}");
                }
                other => panic!("{took_us}: {other:?}"),
            }
            took_us += 1 + took_us / 997;
        }
    }

    #[test]
    fn what_equals_a_bound_is_within_it_and_there_is_an_end() {
        let number = |took_us| durations(&[took_us]).buckets().next().map(|(number, _)| number);
        assert_eq!(
            [15, 16, 500_000, 500_001, 1_000_000, 1_000_001, 2_000_000].map(number),
            [None, Some(-127), Some(-8), Some(-7), Some(0), Some(1), Some(8)]
        );
        assert_eq!([64_000_000, 64_000_001, u64::MAX].map(number), [Some(48), Some(49), Some(49)]);
    }

    #[test]
    fn histograms_of_several_threads_add_up() {
        let mut all = durations(&[3, 1_000_000]);
        all.add(&{
            let other = NativeHistogram::default();
            other.note(1_000_000);
            other
        });
        assert_eq!((all.zero(), all.count()), (1, 3));
        assert_eq!(all.buckets().collect::<Vec<_>>(), [(0, 2)]);
    }
}
