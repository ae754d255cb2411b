//! Buckets of a *count* as a sample of the keys shows them.
//!
//! With a share of the keys, each bucket has a share of its entries, and so much more of chance. `each` buckets of
//! the family are taken for one of the sample, the fewest that have as many keys in it as one bucket has in the
//! family; of the keys a few are left out, so that there are not more:
//!
//! ```text
//! each = ⌈1 / share⌉        bucket b of the family is b mod ⌊count / each⌋ of the sample
//! ```
//! The last few buckets, which would make some of the sample fuller than others, are left out as well. In a cluster, where
//! each slot has buckets of its own, it is slots that go together so, and in them the buckets of one number.

use keyfold_core::base62;
use keyfold_core::placement::name::{Head, Mark};
use keyfold_core::slot::{self, Slot};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The slots of a cluster.
pub(super) const SLOTS: u64 = 16_384;
/// A share that is a hair under a half is a half.
const HAIR: f64 = 1e-6;

/// Which buckets and keys are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merged {
    /// How many buckets the sample has.
    buckets: u64,
    /// Buckets of the family from here on are left out.
    end: u64,
    /// Keys whose hash is over this are left out.
    highest_hash: u64,
    repeat: f64,
    /// Whether buckets of the family are told apart by the hash of what decides about a key's slot, not by their number.
    by_hash: bool,
}

impl Merged {
    /// For a *count* of which the sample has this share of the keys, below 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a whole number")]
    pub(super) fn new(count: u64, share: f64) -> Self {
        let each = ((1.0 / share - HAIR).ceil().max(1.0) as u64).min(count);
        let buckets = count / each;
        let taken = 1.0 / (share * each as f64);
        let highest_hash = (taken.min(1.0) * u64::MAX as f64) as u64;
        Self { buckets, end: buckets * each, highest_hash, repeat: taken.max(1.0), by_hash: false }
    }

    /// For slots of which only some were seen, and not all of their keys kept: chance has them in the sample as it has them in
    /// the family, in as many slots as have so many keys there.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a whole number")]
    pub(super) fn by_hash(share: f64) -> Self {
        let buckets = ((SLOTS as f64 * share).round() as u64).max(1);
        Self { buckets, end: u64::MAX, highest_hash: u64::MAX, repeat: 1.0, by_hash: true }
    }

    /// How many keys each one stands for: more than one where all buckets together have not enough of them.
    pub(super) fn repeat(&self) -> f64 {
        self.repeat
    }

    /// Whether the key is counted. Independent of what keys are sampled by.
    pub(super) fn takes(&self, key: &[u8]) -> bool {
        xxh3_64_with_seed(key, 3) <= self.highest_hash
    }

    /// The number in the sample of the bucket of a key; none where it is left out. Those of whole parts are others than
    /// those of divided ones.
    pub(super) fn bucket(&self, name: &[u8], key: &[u8]) -> Option<u64> {
        let Some(Head { origin, mark, rest }) = Head::decode(name) else { return Some(xxh3_64(name)) };
        if let Some(slot) = origin.slot {
            let seed = self.slot(slot, key)? * 2 + u64::from(mark == Mark::WholeBucket);
            return Some(xxh3_64_with_seed(rest, seed));
        }
        let number = base62::decode(rest).unwrap_or_else(|| xxh3_64(rest));
        self.unit(number).map(|unit| unit * 2 + u64::from(mark == Mark::WholeBucket))
    }

    /// How many buckets, or slots, the sample has.
    pub(super) fn units(&self) -> u64 {
        self.buckets
    }

    /// The slot of the sample for that of a key; none where it is left out.
    pub(super) fn slot(&self, slot: Slot, key: &[u8]) -> Option<u64> {
        let hash = || xxh3_64_with_seed(slot::tag_of(key).unwrap_or(key), 4);
        self.unit(if self.by_hash { hash() } else { slot.number().into() })
    }

    /// The one of the sample for this one of the family; none where it is left out.
    fn unit(&self, number: u64) -> Option<u64> {
        (number < self.end).then(|| number % self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::placement::name::{Name, Origin, Stem, encode_head};

    use super::*;

    fn name(mark: Mark, number: u64) -> Name {
        let mut name = Name::new();
        encode_head(Origin { slot: None, stem: Stem::ANY }, mark, &mut name);
        base62::encode(number, &mut name);
        name
    }

    #[test]
    fn each_bucket_of_the_sample_stands_for_as_many() {
        for (count, share, each) in [(3100, 0.7, 2), (3100, 0.5, 2), (3100, 0.124, 9), (7, 0.3, 4), (5, 0.01, 5)] {
            let merged = Merged::new(count, share);
            let mut buckets = std::collections::BTreeMap::<u64, u64>::new();
            for number in 0..count {
                if let Some(bucket) = merged.bucket(&name(Mark::Bucket, number), b"") {
                    *buckets.entry(bucket).or_default() += 1;
                }
            }
            assert!(buckets.values().all(|buckets| *buckets == each), "{count} {share}: {buckets:?}");
            assert_eq!(buckets.len() as u64, count / each);
        }
        let merged = Merged::new(100, 0.25);
        assert_ne!(merged.bucket(&name(Mark::Bucket, 3), b""), merged.bucket(&name(Mark::WholeBucket, 3), b""));
    }

    #[test]
    fn so_many_keys_are_taken_that_fills_are_the_familys() {
        for (share, taken) in [(0.5, 1.0), (0.7, 0.714), (0.4, 0.833), (0.124, 0.896)] {
            let merged = Merged::new(1000, share);
            let keys = (0..10_000_u32).filter(|key| merged.takes(&key.to_le_bytes())).count() as f64;
            assert!((keys / 10_000.0 - taken).abs() < 0.015, "{share}: {keys}");
        }
    }
}
