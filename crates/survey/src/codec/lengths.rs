//! How long values are once a codec has stored them: of those that were read it is known, and of the others of the
//! sample it is that of a value about as long, of those that the codec wasn't trained by.
//!
//! What it was trained by is shorter than what it hasn't seen, and the sample has more of it than the family. So a
//! value of the training counts as such only in as many cases as there are in the family.

use keyfold_core::memory::ValueShape;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Values of about the same length that one is drawn from.
const NEIGHBOURS: usize = 32;
/// A value so many times longer than all that were read is taken to stay as it is.
const BEYOND: u64 = 4;

/// What a value is stored as, without its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coded {
    /// Whether the codec has it; else it stays as it is.
    pub(crate) by_codec: bool,
    /// The stored bytes, the frame's head included.
    pub(crate) len: u64,
}

/// One value that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Of its key, and its length: several databases may have the key.
    hash: u64,
    pub(super) raw_len: u64,
    pub(super) coded: Coded,
    pub(super) is_trained: bool,
}

/// The lengths of all values that were read.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    /// By their keys.
    known: Vec<Known>,
    /// Those that it wasn't trained by, by their length.
    held_out: Vec<(u64, Coded)>,
    trained: usize,
}

impl Known {
    pub(super) fn new(key: &[u8], raw_len: u64, coded: Coded, is_trained: bool) -> Self {
        Self { hash: xxh3_64_with_seed(key, raw_len), raw_len, coded, is_trained }
    }
}

impl Lengths {
    pub(super) fn new(mut known: Vec<Known>) -> Self {
        known.sort_by_key(|one| one.hash);
        let mut held_out: Vec<_> =
            known.iter().filter(|one| !one.is_trained).map(|one| (one.raw_len, one.coded)).collect();
        held_out.sort_by_key(|(raw_len, coded)| (*raw_len, coded.len));
        let trained = known.len() - held_out.len();
        Self { known, held_out, trained }
    }

    /// How likely a value of the training is to count as such, where `in_sample` of the sample's `sampled` keys are of
    /// the training, and the family has `keys`.
    pub(super) fn trained_weight(&self, in_sample: usize, sampled: usize, keys: u64) -> f64 {
        let of_family = self.trained as f64 / keys.max(1) as f64;
        let of_sample = in_sample as f64 / sampled.max(1) as f64;
        if of_sample > 0.0 { (of_family / of_sample).min(1.0) } else { 1.0 }
    }

    pub(super) fn is_trained(&self, key: &[u8], raw_len: u64) -> bool {
        self.find(key, raw_len).is_some_and(|known| known.is_trained)
    }

    fn find(&self, key: &[u8], raw_len: u64) -> Option<&Known> {
        let hash = xxh3_64_with_seed(key, raw_len);
        self.known.binary_search_by_key(&hash, |one| one.hash).ok().map(|at| &self.known[at])
    }

    /// What a value is stored as.
    pub(super) fn of(&self, key: &[u8], value: ValueShape, trained_weight: f64) -> Coded {
        let chance = xxh3_64_with_seed(key, 5);
        let counts =
            |known: &&Known| !known.is_trained || (chance >> 11) as f64 / (1_u64 << 53) as f64 <= trained_weight;
        match (value, self.find(key, value.len()).filter(counts)) {
            (ValueShape::Integer(_), _) => Coded { by_codec: false, len: value.len() },
            (ValueShape::Bytes(len), Some(known)) if known.raw_len == len => known.coded,
            (ValueShape::Bytes(len), _) => self.draw(len, chance),
        }
    }

    /// What a value of this length that wasn't seen is stored as.
    fn draw(&self, len: u64, chance: u64) -> Coded {
        let as_it_is = Coded { by_codec: false, len };
        let longest = self.held_out.last().map_or(0, |(raw_len, _)| *raw_len);
        if longest == 0 || len > longest.saturating_mul(BEYOND) {
            return as_it_is;
        }
        let at = self.held_out.partition_point(|(raw_len, _)| *raw_len < len);
        // All of the very length, and some on either side.
        let same = self.held_out[at..].partition_point(|(raw_len, _)| *raw_len == len);
        let beside = NEIGHBOURS.saturating_sub(same) / 2;
        let (from, to) = (at.saturating_sub(beside), (at + same + beside).min(self.held_out.len()));
        let near = &self.held_out[from..to];
        #[expect(clippy::cast_possible_truncation, reason = "below a length")]
        let (raw_len, coded) = near[((u128::from(chance) * near.len() as u128) >> 64) as usize];
        if !coded.by_codec {
            return as_it_is;
        }
        let scaled = u128::from(coded.len) * u128::from(len) / u128::from(raw_len.max(1));
        let scaled = u64::try_from(scaled).unwrap_or(len).max(2);
        if scaled < len { Coded { by_codec: true, len: scaled } } else { as_it_is }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths() -> Lengths {
        let known = |i: u64| {
            let coded = Coded { by_codec: true, len: if i.is_multiple_of(2) { 10 } else { 30 } };
            Known::new(format!("k:{i}").as_bytes(), 100, coded, i.is_multiple_of(2))
        };
        Lengths::new((0..1000).map(known).collect())
    }

    #[test]
    fn what_was_read_is_known_and_the_rest_is_like_what_was_held_out() {
        let lengths = lengths();
        let len = |key: &str, value| lengths.of(key.as_bytes(), value, 1.0).len;
        assert_eq!((len("k:4", ValueShape::Bytes(100)), len("k:5", ValueShape::Bytes(100))), (10, 30));
        assert_eq!(len("k:unseen", ValueShape::Bytes(100)), 30);
        assert_eq!(len("k:unseen", ValueShape::Bytes(200)), 60);
        assert_eq!(len("k:unseen", ValueShape::Bytes(500)), 500);
        assert_eq!(lengths.of(b"k:5", ValueShape::Integer(17), 1.0), Coded { by_codec: false, len: 2 });
    }

    #[test]
    fn training_counts_as_often_as_the_family_has_it() {
        let lengths = lengths();
        assert_eq!(lengths.trained_weight(500, 1000, 1000), 1.0);
        let weight = lengths.trained_weight(500, 1000, 10_000);
        assert!((weight - 0.1).abs() < 1e-9);
        let sum: u64 =
            (0..1000).map(|i| lengths.of(format!("k:{i}").as_bytes(), ValueShape::Bytes(100), weight).len).sum();
        assert!((28_500..29_500).contains(&sum), "{sum}");
    }
}
