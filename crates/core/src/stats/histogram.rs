//! How long things took.
//!
//! A thread notes each duration in one of some three hundred fine buckets, by arithmetic on whole numbers alone. Whoever reads
//! them makes of these what is asked for: [`Durations`], by powers of two, or [`NativeDurations`](super::NativeDurations).

use std::ops::AddAssign;

use super::Counter;

/// The least bound is 2 to the power of this, in microseconds: 32 µs. A server on the same machine takes no less.
const LEAST_POWER: u32 = 5;

/// How many bounds there are; the greatest is 8.4 s.
const BOUNDS: usize = 19;

/// Each power of two beyond the least is divided into 2 to the power of this many fine buckets of one width.
const FINE_POWER: u32 = 4;
const FINE: usize = 1 << FINE_POWER;

/// Up to the least bound each microsecond has a bucket.
const SINGLE: usize = 1 << LEAST_POWER;

/// And what is beyond the greatest bound is in the last.
pub(super) const FINE_BUCKETS: usize = SINGLE + (BOUNDS - 1) * FINE + 1;

/// Durations that one thread notes and any may read.
#[derive(Debug)]
pub struct Histogram {
    fine: [Counter; FINE_BUCKETS],
    sum_us: Counter,
}

/// What several histograms hold together, by powers of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    buckets: [u64; BOUNDS + 1],
    sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { fine: std::array::from_fn(|_| Counter::default()), sum_us: Counter::default() }
    }
}

impl Histogram {
    /// Notes that something took so long. Called by the one thread that owns the histogram.
    #[inline]
    pub fn note(&self, took_us: u64) {
        self.fine[fine_bucket_of(took_us)].add(1);
        self.sum_us.add(took_us);
    }

    /// How many each fine bucket has.
    pub(super) fn fine(&self) -> impl Iterator<Item = u64> + '_ {
        self.fine.iter().map(Counter::read)
    }
}

/// The fine bucket whose bound is not exceeded.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the lowest bits are taken")]
fn fine_bucket_of(took_us: u64) -> usize {
    let below = took_us.saturating_sub(1);
    let power = (u64::BITS - 1 - (below | 1).leading_zeros()) as usize;
    if power < LEAST_POWER as usize {
        return below as usize & (SINGLE - 1);
    }
    let within = (below >> (power - FINE_POWER as usize)) as usize & (FINE - 1);
    (SINGLE + (power - LEAST_POWER as usize) * FINE + within).min(FINE_BUCKETS - 1)
}

/// The bound of a fine bucket in microseconds, which belongs to it; none of the last.
pub(super) fn fine_bound_us(bucket: usize) -> Option<u64> {
    if bucket < SINGLE {
        return Some(bucket as u64 + 1);
    }
    let (power, within) = ((bucket - SINGLE) / FINE, (bucket - SINGLE) % FINE);
    (bucket < FINE_BUCKETS - 1)
        .then(|| ((FINE + within + 1) as u64) << (power + LEAST_POWER as usize - FINE_POWER as usize))
}

impl Durations {
    /// Adds what a histogram holds now.
    pub fn add(&mut self, histogram: &Histogram) {
        for (bucket, count) in histogram.fine().enumerate() {
            self.buckets[bucket.saturating_sub(SINGLE - FINE) / FINE] += count;
        }
        self.sum_us += histogram.sum_us.read();
    }

    /// Of as many as each bound says, as [`Self::buckets`] gives them; a bound that is none of these counts to the next
    /// greater one.
    pub fn of_buckets(buckets: impl IntoIterator<Item = (Option<u64>, u64)>, sum_us: u64) -> Self {
        let mut durations = Self { sum_us, ..Self::default() };
        for (bound, count) in buckets {
            let bucket = &mut durations.buckets[bound.map_or(BOUNDS, bucket_of)];
            *bucket = bucket.saturating_add(count);
        }
        durations
    }

    /// Those that came after `earlier` was read.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut new = *self;
        for (count, before) in new.buckets.iter_mut().zip(&earlier.buckets) {
            *count = count.saturating_sub(*before);
        }
        new.sum_us = self.sum_us.saturating_sub(earlier.sum_us);
        new
    }

    /// The time in microseconds that this share of them took no longer than, as Prometheus' `histogram_quantile` has it:
    /// within a bucket they are taken to lie evenly, and beyond the last bound at that bound. None where there were none.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        quantile(self.buckets(), share)
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
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + Clone + '_ {
        let bounds = (LEAST_POWER..).take(BOUNDS).map(|power| Some(1 << power)).chain([None]);
        bounds.zip(self.buckets.iter().copied())
    }
}

impl AddAssign for Durations {
    fn add_assign(&mut self, other: Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, more)| *sum += more);
        self.sum_us += other.sum_us;
    }
}

/// What this share is no greater than, of as many as lie up to each bound and beyond the one before, as
/// [`Durations::quantile_us`] has it.
pub fn quantile(buckets: impl Iterator<Item = (Option<u64>, u64)> + Clone, share: f64) -> Option<f64> {
    let count = buckets.clone().fold(0, |sum: u64, (_, count)| sum.saturating_add(count));
    let rank = share.clamp(0.0, 1.0) * float(count);
    let (mut below, mut least) = (0.0, 0.0);
    for (bound, in_bucket) in buckets.filter(|_| count > 0) {
        let Some(bound) = bound.map(float) else { break };
        let in_bucket = float(in_bucket);
        if in_bucket > 0.0 && below + in_bucket >= rank {
            return Some(least + (bound - least) * ((rank - below) / in_bucket).clamp(0.0, 1.0));
        }
        (below, least) = (below + in_bucket, bound);
    }
    (count > 0).then_some(least)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "quantiles of buckets that are twice as wide as the one before are no closer"
)]
fn float(number: u64) -> f64 {
    number as f64
}

/// The first bucket whose bound is not exceeded.
fn bucket_of(took_us: u64) -> usize {
    let power = u64::BITS - took_us.saturating_sub(1).leading_zeros();
    (power.saturating_sub(LEAST_POWER) as usize).min(BOUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_buckets_follow_each_other_and_end_at_powers_of_two() {
        let mut before = 0;
        for bucket in 0..FINE_BUCKETS - 1 {
            let bound = fine_bound_us(bucket).unwrap();
            assert_eq!((fine_bucket_of(before + 1), fine_bucket_of(bound)), (bucket, bucket), "{before} to {bound}");
            assert!(bound == before + 1 || (bound - before) * 16 <= before, "{before} to {bound}");
            before = bound;
        }
        assert_eq!((before, fine_bound_us(FINE_BUCKETS - 1)), (1 << 23, None));
        assert_eq!([before + 1, u64::MAX].map(fine_bucket_of), [FINE_BUCKETS - 1; 2]);
    }

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

    #[test]
    fn quantiles_lie_where_prometheus_puts_them() {
        let of = |buckets: &[(Option<u64>, u64)]| Durations::of_buckets(buckets.iter().copied(), 0);
        assert_eq!(Durations::default().quantile_us(0.5), None);
        let even = of(&[(Some(32), 50), (Some(64), 50)]);
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| even.quantile_us(share)),
            [0, 16, 32, 48, 64].map(|us| Some(f64::from(us)))
        );
        let late = of(&[(Some(64), 98), (Some(1 << 20), 1), (None, 1)]);
        assert_eq!(late.quantile_us(0.5), Some(32.0 + 32.0 * 50.0 / 98.0));
        assert_eq!(late.quantile_us(0.99), Some(f64::from(1 << 20)));
        assert_eq!(
            late.quantile_us(1.0),
            Some(f64::from(1 << 23)),
            "what is beyond all bounds is taken to be at the last"
        );
        assert_eq!(of(&[(None, 3)]).quantile_us(0.5), Some(f64::from(1 << 23)));
    }

    #[test]
    fn a_difference_is_what_came_between() {
        let histogram = Histogram::default();
        let read = |histogram: &Histogram| {
            let mut durations = Durations::default();
            durations.add(histogram);
            durations
        };
        histogram.note(40);
        let before = read(&histogram);
        histogram.note(3000);
        let between = read(&histogram).since(&before);
        assert_eq!((between.count(), between.sum_us()), (1, 3000));
        assert!(between.quantile_us(0.5).is_some_and(|us| us > 2048.0));
        assert_eq!(before.since(&read(&histogram)), Durations::default(), "counts that went back are none");
        let whole = read(&histogram);
        assert_eq!(Durations::of_buckets(whole.buckets(), whole.sum_us()), whole);
        let mut sum = before;
        sum += between;
        assert_eq!(sum, whole);
    }
}
