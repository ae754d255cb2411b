//! How full buckets are: the distribution, because its mean says nothing of holes and clusters.

/// The fewest entries that make a bucket worth its own key: below, the 80 or so bytes that the bucket takes
/// by itself are several to each entry.
pub const LEAST_ENTRIES: u64 = 32;

/// The numbers of entries of a placement's buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Sorted.
    entries: Vec<u64>,
}

impl Fill {
    /// Of buckets with so many entries each; empty ones don't exist.
    pub fn new(mut entries: Vec<u64>) -> Self {
        entries.retain(|entries| *entries > 0);
        entries.sort_unstable();
        Self { entries }
    }

    /// How many buckets there are.
    pub fn buckets(&self) -> usize {
        self.entries.len()
    }

    /// Entries to a bucket; 0 where there is no bucket.
    pub fn mean(&self) -> f64 {
        let sum: u64 = self.entries.iter().sum();
        if sum == 0 { 0.0 } else { sum as f64 / self.entries.len() as f64 }
    }

    /// The fill that this share of the buckets doesn't pass.
    pub fn quantile(&self, share: f64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        let at = (share * self.entries.len() as f64).ceil() as usize;
        self.entries.get(at.saturating_sub(1)).copied().unwrap_or(0)
    }

    /// How many buckets have fewer entries.
    pub fn below(&self, entries: u64) -> usize {
        self.entries.partition_point(|one| *one < entries)
    }

    /// How many buckets have more entries.
    pub fn above(&self, entries: u64) -> usize {
        self.entries.len() - self.entries.partition_point(|one| *one <= entries)
    }

    /// The share of buckets from [`LEAST_ENTRIES`] to `most`; 1 where there is no bucket.
    pub fn share_within(&self, most: u64) -> f64 {
        let outside = self.below(LEAST_ENTRIES) + self.above(most);
        if self.entries.is_empty() { 1.0 } else { 1.0 - outside as f64 / self.entries.len() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_quantiles() {
        let fill = Fill::new((0..=100).collect());
        assert_eq!((fill.buckets(), fill.below(32), fill.above(90)), (100, 31, 10));
        assert!((fill.mean() - 50.5).abs() < 1e-9 && (fill.share_within(90) - 0.59).abs() < 1e-9);
        assert_eq!([0.0, 0.01, 0.5, 0.999, 1.0].map(|share| fill.quantile(share)), [1, 1, 50, 100, 100]);
    }

    #[test]
    fn no_buckets_at_all() {
        let none = Fill::new(vec![0, 0]);
        assert_eq!((none.buckets(), none.quantile(0.5)), (0, 0));
        assert_eq!((none.mean(), none.share_within(512)), (0.0, 1.0));
    }
}
