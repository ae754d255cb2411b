//! Slots: which one a key is in, and the short tag that puts any other key there too.
//!
//! ```text
//! slot = CRC-16/XMODEM(hash tag) mod 16384
//!
//! user:{1000}:cart   ▶  1000       what stands between the first { and the first } behind it
//! user:1000, a{}b    ▶  all of it  where there is none, or nothing in it
//! ```
//! The slot's own *tag* is the shortest text of base62 digits that is in it, and of these the first in the order of
//! bytes: `06S` for slot 0, `Qi` for slot 1. At most three digits reach every slot.

use std::fmt;
use std::sync::LazyLock;

use crc::{CRC_16_XMODEM, Crc, Table};

use crate::base62;

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;
/// The most digits that a tag has.
const MOST_DIGITS: u8 = 3;

/// Sixteen bytes at a time.
static CRC: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);

/// One of the 16,384 slots of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The first one.
    pub const FIRST: Self = Self(0);
    /// The last one.
    pub const LAST: Self = Self(SLOTS - 1);

    /// The slot with this number; none from 16,384 on.
    pub fn new(number: u16) -> Option<Self> {
        (number < SLOTS).then_some(Self(number))
    }

    /// The slot that a key is in.
    pub fn of(key: &[u8]) -> Self {
        Self(CRC.checksum(hash_tag(key)) % SLOTS)
    }

    /// Its number, below 16,384.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The slot so many further on, around.
    pub(crate) fn after(self, by: u16) -> Self {
        Self((self.0 + by % SLOTS) % SLOTS)
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS).map(Self)
    }

    /// The tag that puts a key in this slot, without its braces: one to three base62 digits.
    pub fn tag(self) -> &'static [u8] {
        TAGS[usize::from(self.0)].text()
    }

    /// The slot that has this tag; none where it isn't the slot's own one.
    pub fn with_tag(tag: &[u8]) -> Option<Self> {
        let slot = Self(CRC.checksum(tag) % SLOTS);
        (slot.tag() == tag).then_some(slot)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({})", self.0)
    }
}

/// The hash tag of a key; none where all of it decides about its slot.
pub fn tag_of(key: &[u8]) -> Option<&[u8]> {
    let tag = hash_tag(key);
    (tag.len() < key.len()).then_some(tag)
}

/// What of a key decides about its slot.
fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = memchr::memchr(b'{', key).and_then(|open| {
        let behind = &key[open + 1..];
        memchr::memchr(b'}', behind).map(|close| &behind[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

#[derive(Clone, Copy)]
struct Tag {
    digits: [u8; MOST_DIGITS as usize],
    len: u8,
}

/// The tag of each slot: texts are tried in their order until all slots have one. Some milliseconds, once.
static TAGS: LazyLock<Box<[Tag]>> = LazyLock::new(|| {
    let mut tags = vec![Tag { digits: Default::default(), len: 0 }; usize::from(SLOTS)].into_boxed_slice();
    for len in 1..=MOST_DIGITS {
        for mut number in 0..62_usize.pow(len.into()) {
            let mut text = Tag { digits: Default::default(), len };
            for digit in text.digits[..usize::from(len)].iter_mut().rev() {
                *digit = base62::DIGITS[number % 62];
                number /= 62;
            }
            let tag = &mut tags[usize::from(CRC.checksum(text.text()) % SLOTS)];
            if tag.len == 0 {
                *tag = text;
            }
        }
    }
    tags
});

impl Tag {
    fn text(&self) -> &[u8] {
        &self.digits[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `CLUSTER KEYSLOT` answers.
    #[test]
    fn slots_by_example() {
        for (key, slot) in [
            ("", 0),
            ("123456789", 12_739),
            ("foo", 12_182),
            ("bar", 5061),
            ("user:{1000}:cart", 11_326),
            ("{1000}", 11_326),
            ("1000", 11_326),
            ("{}{1000}", 11_178),
            ("a{1000", 2047),
            ("{{1000}}", 7495),
            ("}{1000}", 11_326),
        ] {
            assert_eq!(Slot::of(key.as_bytes()).number(), slot, "{key}");
        }
    }

    /// Names of buckets are made of them: they never change.
    #[test]
    fn tags_by_example() {
        let tag = |number| std::str::from_utf8(Slot(number).tag()).unwrap();
        assert_eq!([0, 1, 2, 16_383].map(tag), ["06S", "Qi", "5L5", "6ZJ"]);
    }

    #[test]
    fn every_slot_has_a_tag_that_is_in_it() {
        let mut lens = [0; 1 + MOST_DIGITS as usize];
        for slot in Slot::all() {
            assert_eq!(Slot::of(slot.tag()), slot);
            assert_eq!(Slot::with_tag(slot.tag()), Some(slot));
            lens[slot.tag().len()] += 1;
        }
        assert_eq!(lens, [0, 62, 3448, 12_874]);
    }

    #[test]
    fn a_slot_has_one_tag() {
        for other in [b"".as_slice(), b"000", b"06", b"06S0", b"06s", b"{06S}"] {
            let slot = Slot::with_tag(other);
            assert!(slot.is_none_or(|slot| slot.tag() == other), "{}", other.escape_ascii());
        }
        assert_eq!(Slot::with_tag(b"000").map(Slot::number), None);
        assert_eq!((Slot::new(16_383).map(Slot::number), Slot::new(16_384)), (Some(16_383), None));
    }

    proptest! {
        #[test]
        fn a_tag_brings_any_key_into_its_slot(key: Vec<u8>, rest: Vec<u8>) {
            let slot = Slot::of(&key);
            let tagged = [b"~{", slot.tag(), b"}", &rest[..]].concat();
            prop_assert_eq!(Slot::of(&tagged), slot);
        }
    }
}
