//! Whose values codecs are trained and judged by: those whose keys have the smallest hashes, bounded in bytes. So the
//! sample depends neither on the order in which keys are seen nor on where a walk began.

use std::collections::BinaryHeap;

use keyfold_core::memory::ValueShape;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::population::SampledKey;

/// Longer values are not read: a few of them would be all that there is room for.
pub const LONGEST_BYTES: u64 = 64 * 1024;
/// Fewer values say nothing of those that were not read.
pub(super) const FEWEST: usize = 64;
/// More values tell no more, however short they are.
const MOST: usize = 40_000;
/// What [`Samples`] may keep of one namespace's values, in bytes.
const SAMPLES_BYTES: u64 = 16 << 20;
/// A shorter value is hardly worth a byte that names its codec.
const SHORTEST_BYTES: u64 = 4;
/// Longer sets and hashes of many members are in no field.
const LONGEST_PACKED_BYTES: u64 = 8192;
/// Independent of what keys are sampled by.
const SEED: u64 = 4;

/// A key with its value, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// The logical key.
    pub key: Box<[u8]>,
    /// Its value.
    pub value: Box<[u8]>,
}

fn order(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, SEED)
}

/// Values of one namespace, as a walk comes by them.
#[derive(Debug, Default)]
pub struct Samples {
    kept: BinaryHeap<(u64, Record)>,
    kept_bytes: u64,
    seen: u64,
}

impl Samples {
    /// Keeps a value, perhaps instead of others.
    pub fn offer(&mut self, key: &[u8], value: &[u8]) {
        self.seen += 1;
        let (order, len) = (order(key), value.len() as u64);
        let is_full = self.kept.len() == MOST || self.kept_bytes + LONGEST_BYTES > SAMPLES_BYTES;
        if len > LONGEST_BYTES || (is_full && self.kept.peek().is_some_and(|(most, _)| order > *most)) {
            return;
        }
        self.kept_bytes += len;
        self.kept.push((order, Record { key: key.into(), value: value.into() }));
        while self.kept.len() > MOST || self.kept_bytes > SAMPLES_BYTES {
            let Some((_, record)) = self.kept.pop() else { break };
            self.kept_bytes -= record.value.len() as u64;
        }
    }

    /// How many values were offered.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Those that are kept, in no order that has to do with keys.
    pub fn into_records(self) -> Vec<Record> {
        self.kept.into_sorted_vec().into_iter().map(|(_, record)| record).collect()
    }
}

/// The keys whose values are to be read, of at most so many bytes together; none where codecs have nothing to do:
/// nearly all values are integers, or too short, or there are too few of them. The same keys for the same sample.
pub fn wanted(sample: &[SampledKey], most_bytes: u64) -> Vec<&SampledKey> {
    let mut text: Vec<&SampledKey> = sample.iter().filter(|sampled| has_text(sampled)).collect();
    if text.len() < FEWEST || text.len() * 20 < sample.len() {
        return Vec::new();
    }
    text.sort_by_cached_key(|sampled| order(&sampled.key));
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
    // Members in parts are stored as they are.
    let longest = if sampled.in_parts.is_some() { LONGEST_PACKED_BYTES } else { LONGEST_BYTES };
    matches!(sampled.value, ValueShape::Bytes(len) if (SHORTEST_BYTES..=longest).contains(&len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(keys: u64, value: ValueShape) -> Vec<SampledKey> {
        let sampled = |i: u64| SampledKey {
            database: 0,
            key: format!("k:{i}").into_bytes().into(),
            value,
            has_expiry: false,
            plain_bytes: None,
            in_parts: None,
        };
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
    fn a_walk_keeps_the_same_values_in_any_order() {
        let kept = |keys: &mut dyn Iterator<Item = u64>| {
            let mut samples = Samples::default();
            keys.for_each(|i| samples.offer(format!("k:{i}").as_bytes(), &[0; 1000]));
            assert_eq!(samples.seen(), 20_000);
            samples.into_records()
        };
        let (up, down) = (kept(&mut (0..20_000)), kept(&mut (0..20_000).rev()));
        assert!((16_000..16_800).contains(&up.len()), "{}", up.len());
        let most = up.len().min(down.len()) - 70;
        assert_eq!(up[..most], down[..most]);
        let mut long = Samples::default();
        long.offer(b"k", &vec![0; 70_000]);
        assert_eq!((long.seen(), long.into_records().len()), (1, 0));
    }

    #[test]
    fn what_no_codec_is_for_is_not_read() {
        for value in [ValueShape::Integer(7), ValueShape::Bytes(3), ValueShape::Bytes(LONGEST_BYTES + 1)] {
            assert_eq!(wanted(&sample(1000, value), 1 << 20), Vec::<&SampledKey>::new());
        }
        assert!(wanted(&sample(63, ValueShape::Bytes(50)), 1 << 20).is_empty());
    }
}
