//! How long things took, by the buckets of Prometheus' native histograms: eight for each power of two of a second.

use super::Histogram;
use super::histogram::{FINE_BUCKETS, fine_bound_us};

/// A native histogram of this schema has 2 to the power of it buckets for each power of two.
pub const NATIVE_SCHEMA: i32 = 3;

/// What lies in no bucket lies from 0 to this, in seconds: 15 µs. A server on the same machine takes no less.
pub const NATIVE_ZERO_THRESHOLD_S: f64 = 1.0 / 65_536.0;

/// What several histograms hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeDurations {
    fine: [u64; FINE_BUCKETS],
}

impl Default for NativeDurations {
    fn default() -> Self {
        Self { fine: [0; FINE_BUCKETS] }
    }
}

impl NativeDurations {
    /// Adds what a histogram holds now.
    pub fn add(&mut self, histogram: &Histogram) {
        self.fine.iter_mut().zip(histogram.fine()).for_each(|(sum, count)| *sum += count);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.fine.iter().sum()
    }

    /// How many took no longer than [`NATIVE_ZERO_THRESHOLD_S`].
    pub fn zero(&self) -> u64 {
        self.numbered().take_while(|(number, _)| number.is_none()).map(|(_, count)| count).sum()
    }

    /// The buckets in which something lies, as Prometheus numbers them, lowest first, and how much. The bound of bucket n, which
    /// belongs to it, is 2 to the power of n / 8 seconds. A duration lies in the bucket of the next longer one that is told
    /// apart, a sixteenth away at most.
    pub fn buckets(&self) -> Vec<(i32, u64)> {
        let mut buckets: Vec<(i32, u64)> = Vec::new();
        for (number, count) in self.numbered().filter(|(_, count)| *count > 0) {
            match (number, buckets.last_mut()) {
                (Some(number), Some((last, sum))) if number == *last => *sum += count,
                (Some(number), _) => buckets.push((number, count)),
                (None, _) => {}
            }
        }
        buckets
    }

    /// Each fine bucket's number among Prometheus', none of what takes no time, and how much it has.
    fn numbered(&self) -> impl Iterator<Item = (Option<i32>, u64)> + '_ {
        self.fine.iter().enumerate().map(|(bucket, count)| (number_of(bucket), *count))
    }
}

/// The number of the native bucket in which a fine one's bound lies. The last has no bound, and the next number.
fn number_of(fine: usize) -> Option<i32> {
    let Some(bound_us) = fine_bound_us(fine) else { return number_of(fine - 1).map(|last| last + 1) };
    let seconds = bound_us as f64 / 1e6;
    #[expect(clippy::cast_possible_truncation, reason = "eight times the power of two of some seconds")]
    let number = (seconds.log2() * f64::from(1 << NATIVE_SCHEMA)).ceil() as i32;
    (seconds > NATIVE_ZERO_THRESHOLD_S).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(all: &[u64]) -> NativeDurations {
        let histogram = Histogram::default();
        all.iter().for_each(|took_us| histogram.note(*took_us));
        let mut durations = NativeDurations::default();
        durations.add(&histogram);
        durations
    }

    #[test]
    fn each_duration_lies_below_its_bound_and_not_far_below_the_one_before() {
        let bound = |number: i32| (f64::from(number) / 8.0).exp2();
        let mut took_us = 0_u64;
        while took_us < 1 << 23 {
            let (one, seconds) = (durations(&[took_us]), took_us as f64 / 1e6);
            assert_eq!(one.count(), 1);
            match one.buckets()[..] {
                [] => assert!(one.zero() == 1 && seconds <= NATIVE_ZERO_THRESHOLD_S, "{took_us}"),
                [(number, 1)] => {
                    assert!(seconds <= bound(number) * (1.0 + 1e-12), "{took_us} in {number}");
                    assert!(seconds * (1.0 + 1.0 / 16.0) + 1e-6 > bound(number - 1), "{took_us} in {number}");
                }
                ref other => panic!("{took_us}: {other:?}"),
            }
            took_us += 1 + took_us / 997;
        }
    }

    #[test]
    fn there_is_an_end_on_both_sides() {
        let number = |took_us| durations(&[took_us]).buckets().first().map(|(number, _)| *number);
        assert_eq!([0, 15, 16].map(number), [None, None, Some(-127)]);
        assert_eq!([1 << 23, (1 << 23) + 1, u64::MAX].map(number), [Some(25), Some(26), Some(26)]);
    }

    #[test]
    fn histograms_of_several_threads_add_up() {
        let mut all = durations(&[3, 1_000_000]);
        let other = Histogram::default();
        other.note(999_999);
        other.note(4_000_000);
        all.add(&other);
        assert_eq!((all.zero(), all.count()), (1, 4));
        assert_eq!(all.buckets().iter().map(|(_, count)| count).sum::<u64>(), 3);
    }
}
