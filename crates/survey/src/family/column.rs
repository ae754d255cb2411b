//! What has been seen of one placeholder.

use xxhash_rust::xxh3::xxh3_64;

use super::segment::may_be_hex;

/// Hashes kept to tell how many different values there are: the estimate is right within an eighth.
const SKETCH: usize = 64;
/// Bytes kept of the first value.
const FIRST_BYTES: usize = 32;

/// The values of one placeholder: how many different ones, and what all of them are.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// The smallest hashes of values, in order: "k minimum values".
    smallest: Vec<u64>,
    /// The first value, where it is short.
    first: Option<Box<[u8]>>,
    /// The shortest and the longest value.
    len: (usize, usize),
    /// Whether all values may be hexadecimal.
    hex: bool,
    /// How many were looked at for having digits, and how many had both digits and letters.
    mixed: (u64, u64),
}

impl Default for Column {
    fn default() -> Self {
        Self { smallest: Vec::new(), first: None, len: (usize::MAX, 0), hex: true, mixed: (0, 0) }
    }
}

impl Column {
    pub(crate) fn add(&mut self, value: &[u8]) {
        self.note(xxh3_64(value));
        if self.first.is_none() && value.len() <= FIRST_BYTES {
            self.first = Some(value.into());
        }
        self.len = (self.len.0.min(value.len()), self.len.1.max(value.len()));
        if self.hex {
            self.hex = may_be_hex(value);
            self.mixed.0 += 1;
            self.mixed.1 +=
                u64::from(value.iter().any(u8::is_ascii_digit) && value.iter().any(u8::is_ascii_alphabetic));
        }
    }

    fn note(&mut self, hash: u64) {
        if self.smallest.len() == SKETCH && self.smallest.last().is_some_and(|last| hash >= *last) {
            return;
        }
        if let Err(at) = self.smallest.binary_search(&hash) {
            self.smallest.insert(at, hash);
            self.smallest.truncate(SKETCH);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for hash in other.smallest {
            self.note(hash);
        }
        self.first = self.first.take().or(other.first);
        self.len = (self.len.0.min(other.len.0), self.len.1.max(other.len.1));
        self.hex &= other.hex;
        self.mixed = (self.mixed.0 + other.mixed.0, self.mixed.1 + other.mixed.1);
    }

    /// Values of other lengths and characters were among them.
    pub(crate) fn merge_unknown(&mut self) {
        self.hex = false;
    }

    /// About how many different values there are.
    pub(crate) fn distinct(&self) -> u64 {
        if self.smallest.len() < SKETCH {
            return self.smallest.len() as u64;
        }
        let share = self.smallest[SKETCH - 1] as f64 / u64::MAX as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and a cast saturates")]
        let distinct = ((SKETCH - 1) as f64 / share) as u64;
        distinct
    }

    /// The one value, if there is but one and it is short.
    pub(crate) fn only(&self) -> Option<&[u8]> {
        self.first.as_deref().filter(|_| self.smallest.len() == 1)
    }

    /// The shortest and the longest value.
    pub(crate) fn len(&self) -> (usize, usize) {
        self.len
    }

    /// Whether all values are of hexadecimal digits, so that other such values belong to them.
    pub(crate) fn may_be_hex(&self) -> bool {
        self.hex
    }

    /// Whether all values are hexadecimal, and more than words by chance.
    pub(crate) fn is_hex(&self) -> bool {
        self.hex && self.smallest.len() == SKETCH && self.mixed.1 * 4 > self.mixed.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_values_are_counted_about_right() {
        let mut column = Column::default();
        for i in 0..300_000_u32 {
            column.add((i % 100_000).to_string().as_bytes());
        }
        assert!((70_000..140_000).contains(&column.distinct()), "{}", column.distinct());
        let mut few = Column::default();
        for i in 0..1000_u32 {
            few.add(&[b'a' + u8::try_from(i % 7).unwrap()]);
        }
        assert_eq!(few.distinct(), 7);
    }

    #[test]
    fn hexadecimal_needs_more_than_the_right_letters() {
        let column = |values: &mut dyn Iterator<Item = String>| {
            let mut column = Column::default();
            values.for_each(|value| column.add(value.as_bytes()));
            column.is_hex()
        };
        assert!(column(&mut (0..1000_u32).map(|i| format!("{:04x}", i * 61))));
        assert!(!column(&mut ["ad", "be", "de", "fe"].iter().cycle().take(500).map(|code| (*code).to_owned())));
        assert!(!column(&mut (0..1000_u32).map(|i| format!("{i:x}"))));
    }
}
