//! Whose values are worth reading: a part of a family's sample, spread evenly, and bounded in bytes.

use keyfold_core::memory::ValueShape;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::population::SampledKey;

/// Longer values are not read: a few of them would be all that there is room for.
pub const LONGEST_BYTES: u64 = 64 * 1024;
/// Fewer values say nothing of those that were not read.
const FEWEST: usize = 64;
/// More values tell no more, however short they are.
const MOST: usize = 40_000;
/// A shorter value is hardly worth a byte that names its codec.
const SHORTEST_BYTES: u64 = 4;
/// Independent of what keys are sampled by.
const SEED: u64 = 4;

/// A key with its value, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The logical key.
    pub key: Box<[u8]>,
    /// Its value.
    pub value: Box<[u8]>,
}

/// The keys whose values are to be read, of at most so many bytes together; none where codecs have nothing to do:
/// nearly all values are integers, or too short, or there are too few of them. The same keys for the same sample.
pub fn wanted(sample: &[SampledKey], most_bytes: u64) -> Vec<&SampledKey> {
    let mut text: Vec<&SampledKey> = sample.iter().filter(|sampled| has_text(sampled)).collect();
    if text.len() < FEWEST || text.len() * 20 < sample.len() {
        return Vec::new();
    }
    text.sort_by_cached_key(|sampled| xxh3_64_with_seed(&sampled.key, SEED));
    let mut left = most_bytes;
    let fits = |sampled: &&SampledKey| {
        let enough = left.checked_sub(sampled.value.len());
        left = enough.unwrap_or(0);
        enough.is_some()
    };
    let mut wanted: Vec<_> = text.into_iter().take(MOST).take_while(fits).collect();
    if wanted.len() < FEWEST {
        wanted.clear();
    }
    wanted
}

/// Whether a codec could have the value.
fn has_text(sampled: &SampledKey) -> bool {
    matches!(sampled.value, ValueShape::Bytes(SHORTEST_BYTES..=LONGEST_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(keys: u64, value: ValueShape) -> Vec<SampledKey> {
        let sampled = |i: u64| SampledKey { key: format!("k:{i}").into_bytes().into(), value, has_expiry: false };
        (0..keys).map(sampled).collect()
    }

    #[test]
    fn bytes_are_bounded_and_the_keys_are_spread() {
        let sample = sample(10_000, ValueShape::Bytes(100));
        let taken = wanted(&sample, 100_000);
        assert_eq!(taken.len(), 1000);
        let low = taken.iter().filter(|sampled| sampled.key.as_ref() < b"k:5".as_slice()).count();
        assert!((350..550).contains(&low), "{low}");
        assert_eq!(taken, wanted(&sample, 100_000));
    }

    #[test]
    fn what_no_codec_is_for_is_not_read() {
        for value in [ValueShape::Integer(7), ValueShape::Bytes(3), ValueShape::Bytes(LONGEST_BYTES + 1)] {
            assert_eq!(wanted(&sample(1000, value), 1 << 20), Vec::<&SampledKey>::new());
        }
        assert!(wanted(&sample(63, ValueShape::Bytes(50)), 1 << 20).is_empty());
    }
}
