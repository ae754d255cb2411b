//! What stands in a bucket's field for a collection in parts, behind the nonce.
//!
//! ```text
//! version (6)   form (1)   of integers, texts and outliers each: depth of the directory (1), members (5)   remainder and turns (1)   seed (8)
//! ```
//! All numbers are big-endian. The version is another after each change, so that whoever compares headers sees it.

use super::Class;
use crate::collection::CollectionKind;

/// How members are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Those of a set, as members of sets.
    Sets,
    /// Those of a set, texts that aren't outliers as fields of hashes without a value: servers that don't pack sets pack these.
    Hashes,
    /// Fields with their values.
    Fields,
}

impl Form {
    const ALL: [Self; 3] = [Self::Sets, Self::Hashes, Self::Fields];

    fn letter(self) -> u8 {
        match self {
            Self::Sets => b'S',
            Self::Hashes => b'H',
            Self::Fields => b'F',
        }
    }

    /// What it is to clients.
    pub fn kind(self) -> CollectionKind {
        match self {
            Self::Sets | Self::Hashes => CollectionKind::Set,
            Self::Fields => CollectionKind::Hash,
        }
    }

    /// Whether parts of this class are sets; else they are hashes.
    pub fn is_in_sets(self, class: Class) -> bool {
        match self {
            Self::Sets => true,
            Self::Hashes => class != Class::Texts,
            Self::Fields => false,
        }
    }
}

/// How much there is of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSize {
    /// Of how many bits its directory tells.
    pub depth: u8,
    /// How many members it has.
    pub count: u64,
}

/// Members that lie in no part yet, or no longer, as the collection is being moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remainder {
    /// There are none.
    #[default]
    None,
    /// They come into parts, step by step.
    Drains,
    /// Those in parts come there, step by step, and what is new at once.
    Fills,
}

impl Remainder {
    const ALL: [Self; 3] = [Self::None, Self::Drains, Self::Fills];
}

/// The header of a collection in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Another after each change.
    pub version: u64,
    /// How members are kept.
    pub form: Form,
    /// By class, in their order.
    pub classes: [ClassSize; 3],
    /// Whether that isn't all.
    pub remainder: Remainder,
    /// How often a move of it in steps was turned round: walks begin anew after each.
    pub turns: u8,
    /// What the hashes of its members begin with.
    pub seed: u64,
}

/// Its bytes.
pub const HEADER_BYTES: usize = 34;

/// So many turns are told from each other.
const TURNS: u8 = 64;

/// Where in it the remainder and the turns stand.
const WAY_AT: usize = 25;

impl Header {
    /// One of nothing. Turns are counted from anywhere, so that a walk of what had this key before begins anew.
    pub fn new(form: Form, seed: u64) -> Self {
        let turns = seed.to_be_bytes()[7] % TURNS;
        Self { version: 0, form, classes: [ClassSize::default(); 3], remainder: Remainder::None, turns, seed }
    }

    /// One of nothing, of what is written in place of this as a whole: walks that are under way find their place in it, but for one
    /// that relies on what left its part to come at the end.
    pub fn anew(&self, form: Form) -> Self {
        let turned = u8::from(self.remainder == Remainder::Fills);
        Self { turns: (self.turns + turned) % TURNS, ..Self::new(form, self.seed) }
    }

    /// How many members there are in parts.
    pub fn len(&self) -> u64 {
        self.classes.iter().map(|class| class.count).sum()
    }

    /// Whether there are none in parts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..6].copy_from_slice(&self.version.to_be_bytes()[2..]);
        bytes[6] = self.form.letter();
        for (size, out) in self.classes.iter().zip(bytes[7..WAY_AT].chunks_exact_mut(6)) {
            out[0] = size.depth;
            out[1..].copy_from_slice(&size.count.to_be_bytes()[3..]);
        }
        bytes[WAY_AT] = self.remainder as u8 | self.turns << 2;
        bytes[WAY_AT + 1..].copy_from_slice(&self.seed.to_be_bytes());
        bytes
    }

    /// Reads it; none where these bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.try_into().ok()?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let form = Form::ALL.into_iter().find(|form| form.letter() == bytes[6])?;
        let mut classes = [ClassSize::default(); 3];
        for (size, from) in classes.iter_mut().zip(bytes[7..WAY_AT].chunks_exact(6)) {
            *size = ClassSize { depth: from[0], count: number(&from[1..]) };
        }
        let (way, seed) = (bytes[WAY_AT], number(&bytes[WAY_AT + 1..]));
        let remainder = *Remainder::ALL.get(usize::from(way & 3))?;
        Some(Self { version: number(&bytes[..6]), form, classes, remainder, turns: way >> 2, seed })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_comes_back(version in 0_u64..1 << 48, form in 0_usize..3, depths: [u8; 3], counts in [0_u64..1 << 40, 0_u64..1 << 40, 0_u64..1 << 40], remainder in 0_usize..3, turns in 0_u8..64, seed: u64) {
            let size = |at: usize| ClassSize { depth: depths[at], count: counts[at] };
            let header = Header { version, form: Form::ALL[form], classes: [0, 1, 2].map(size), remainder: Remainder::ALL[remainder], turns, seed };
            prop_assert_eq!(Header::decode(&header.encode()), Some(header));
        }

        #[test]
        fn hostile_bytes_are_none_or_come_back(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(header) = Header::decode(&bytes) {
                prop_assert_eq!(&header.encode()[..], &bytes[..]);
            }
        }
    }
}
