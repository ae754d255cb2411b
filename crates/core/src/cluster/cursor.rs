//! A client's cursor in SCAN over a cluster, which says all that any keyfold needs to go on.
//!
//! ```text
//! bit 52         33 32        16 15  14 13    0
//!     inner cursor  tag          phase  slot        0: where a walk begins and ends
//! ```
//! Slots are walked in their order. The *inner cursor* is the node's own within the slot, and worth something to the very
//! process that gave it. The *tag* says which one that was, and under which circumstances: whoever finds others begins
//! the slot anew. All of it is below 2^53, so that clients that count in doubles carry it.
//!
//! A server's cursor counts in reversed binary: its low bits change last, and without its high bits it is a cursor as
//! well, of a place a little before. So a table of more than 2^20 buckets only repeats a few names from call to call.

use xxhash_rust::xxh3::xxh3_64;

use crate::number::parse_integer;
use crate::slot::Slot;

const PHASE_AT: u32 = 14;
const TAG_AT: u32 = 16;
const INNER_AT: u32 = 33;
const BITS: u32 = 53;
const TAG_MASK: u64 = (1 << (INNER_AT - TAG_AT)) - 1;
const INNER_MASK: u64 = (1 << (BITS - INNER_AT)) - 1;

/// Which of the nodes that have keys of a slot is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The one that has all of them.
    Owner,
    /// The slot is on its way, and this is where it comes from.
    Source,
    /// This is where it goes. All that is left at the source was seen.
    Target,
}

/// How far a walk over all slots is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The slot.
    pub slot: Slot,
    /// Which of its nodes is asked.
    pub phase: Phase,
    /// Says who gave the inner cursor.
    pub tag: Tag,
    /// The node's own cursor; 0 where nothing of the slot was seen there.
    pub inner: u64,
}

/// A digest of a node and of the circumstances under which it answered: 17 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag(u64);

impl Tag {
    /// The tag of these bytes.
    pub fn of(circumstances: &[u8]) -> Self {
        Self(xxh3_64(circumstances) & TAG_MASK)
    }
}

impl Position {
    /// Where the walk over a slot begins.
    pub fn start_of(slot: Slot) -> Self {
        Self { slot, phase: Phase::Owner, tag: Tag::default(), inner: 0 }
    }

    /// Reads a client's cursor; none where it is none of these.
    pub fn parse(cursor: &[u8]) -> Option<Self> {
        let number = u64::try_from(parse_integer(cursor)?).ok().filter(|number| *number < 1 << BITS)?;
        let phase = match number >> PHASE_AT & 3 {
            0 => Phase::Owner,
            1 => Phase::Source,
            2 => Phase::Target,
            _ => return None,
        };
        let slot = Slot::new(u16::try_from(number & ((1 << PHASE_AT) - 1)).ok()?)?;
        Some(Self { slot, phase, tag: Tag(number >> TAG_AT & TAG_MASK), inner: number >> INNER_AT })
    }

    /// The client's cursor.
    pub fn cursor(&self) -> u64 {
        let slot = u64::from(self.slot.number());
        let inner = self.rounded();
        if inner == 0 {
            return slot;
        }
        let phase = match self.phase {
            Phase::Owner => 0,
            Phase::Source => 1,
            Phase::Target => 2,
        };
        inner << INNER_AT | self.tag.0 << TAG_AT | phase << PHASE_AT | slot
    }

    /// The inner cursor as far as a client's has room for it.
    pub fn rounded(&self) -> u64 {
        self.inner & INNER_MASK
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_walk_begins_with_0_and_each_slot_with_its_number() {
        assert_eq!(Position::parse(b"0"), Some(Position::start_of(Slot::new(0).unwrap())));
        assert_eq!(Position::start_of(Slot::new(77).unwrap()).cursor(), 77);
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for cursor in ["", "x", "-1", "9007199254740992", "18446744073709551615", "49152", " 1"] {
            assert_eq!(Position::parse(cursor.as_bytes()), None, "{cursor}");
        }
        assert!(Position::parse(b"9007199254724607").is_some_and(|position| position.phase == Phase::Target));
    }

    proptest! {
        #[test]
        fn a_cursor_says_where_the_walk_is(number in 0_u64..1 << 53) {
            let Some(position) = Position::parse(number.to_string().as_bytes()) else {
                prop_assert_eq!(number >> PHASE_AT & 3, 3);
                return Ok(());
            };
            prop_assert!(position.inner == 0 || position.cursor() == number);
            prop_assert!(position.cursor() < 1 << BITS);
        }

        /// In the order of reversed binary a rounded cursor is never after the whole one.
        #[test]
        fn a_rounded_cursor_repeats_and_leaves_nothing_out(inner: u64) {
            let position = Position { inner, ..Position::start_of(Slot::new(5).unwrap()) };
            prop_assert!(position.rounded().reverse_bits() <= inner.reverse_bits());
        }
    }
}
