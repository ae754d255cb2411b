//! Physical names: short, printable where the key is, and told apart by their first bytes.
//!
//! ```text
//! ~ {stem} : {bucket}             a bucket
//! ~ {stem} ; {bucket}             a bucket of whole parts (see `count.rs`)
//! ~ {stem} = {parts}              a key of its own, zipped
//! ~ {stem} ! {nonce} : {key}      a spilled value; {key} is the logical key as it is
//! ~ {stem} | {nonce} …            of a collection in parts (see `collection/parts`); {nonce} is 16 hex digits
//!
//! {stem}   {hash} {generation}    whose data it is: 4 characters, and none or a few
//! ~ { {tag} } {stem} …            the same in a cluster: {tag} puts it in the slot of its key
//! ```
//! `{hash}` is four characters of base62 (`0`–`9`, `A`–`Z`, `a`–`z`) that follow from the template and the placement
//! ([`NameHash::of`]), so the same rules give the same names on every server. `{generation}` and `{nonce}` are numbers
//! in base62 without leading zeros, a generation of 0 is left out, and `{bucket}` is a number too except where a bucket
//! is named *by* a part. Encoding and decoding are exact inverses.

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

use crate::base62;
use crate::collection::parts::Class;
use crate::number::parse_integer;
use crate::slot::Slot;

/// The first byte of every physical name.
pub const DATA_PREFIX: u8 = b'~';
/// What the keys that administer the layout begin with.
pub const ADMINISTRATION_PREFIX: &[u8] = b"keyfold:";

/// A physical name. Up to 48 bytes take no allocation.
pub type Name = SmallVec<[u8; 48]>;

/// The byte after the stem: what kind of thing a physical name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// A bucket.
    Bucket,
    /// A bucket whose fields hold whole parts.
    WholeBucket,
    /// A zipped key.
    Zipped,
    /// A spilled value.
    Spill,
    /// What belongs to a collection in parts.
    Part,
}

impl Mark {
    const ALL: [Self; 5] = [Self::Bucket, Self::WholeBucket, Self::Zipped, Self::Spill, Self::Part];

    /// Its byte.
    pub fn byte(self) -> u8 {
        match self {
            Self::Bucket => b':',
            Self::WholeBucket => b';',
            Self::Zipped => b'=',
            Self::Spill => b'!',
            Self::Part => b'|',
        }
    }

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.byte() == byte)
    }
}

/// How many characters of a name the hash takes.
const HASH_DIGITS: usize = 4;
/// How many hashes there are.
const HASHES: u64 = 62 * 62 * 62 * 62;

/// What names the data of all namespaces with the same template and placement, on every server: four characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameHash([u8; HASH_DIGITS]);

impl NameHash {
    /// The hash of a canonical text of the rules that places follow from.
    pub fn of(rules: &str) -> Self {
        let mut rest = xxh3_64(rules.as_bytes()) % HASHES;
        let mut digits = [b'0'; HASH_DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit = base62::DIGITS[(rest % 62) as usize];
            rest /= 62;
        }
        Self(digits)
    }
}

impl fmt::Display for NameHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|digit| write!(f, "{}", char::from(*digit)))
    }
}

impl fmt::Debug for NameHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NameHash({self})")
    }
}

/// How often a placement has been taken up again: 0 the first time that keys move to it, 1 the second. So what a
/// first time left behind is never met by a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// Whose data a physical name is of: what it begins with, behind the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stem {
    /// What follows from the template and the placement.
    pub hash: NameHash,
    /// What tells two times of the same placement apart.
    pub generation: Generation,
}

impl Stem {
    /// A stem for names whose length matters and whose bytes don't: they are weighed or compared, and never written.
    pub const ANY: Self = Self { hash: NameHash([b'0'; HASH_DIGITS]), generation: Generation(0) };

    fn encode(self, out: &mut Name) {
        out.extend_from_slice(&self.hash.0);
        if self.generation != Generation(0) {
            base62::encode(self.generation.0.into(), out);
        }
    }

    /// The stem that these characters, and no others, are.
    fn decode(text: &[u8]) -> Option<Self> {
        let (hash, generation) = text.split_first_chunk::<HASH_DIGITS>()?;
        if !hash.iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        let generation = match generation {
            [] => 0,
            digits => u32::try_from(base62::decode(digits).filter(|number| *number > 0)?).ok()?,
        };
        Some(Self { hash: NameHash(*hash), generation: Generation(generation) })
    }
}

/// The stem as it stands in names, without the prefix.
impl fmt::Display for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Name::new();
        self.encode(&mut text);
        text.iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

/// No stem of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not what a name of keyfold's begins with")]
pub struct NoStem;

impl FromStr for Stem {
    type Err = NoStem;

    fn from_str(text: &str) -> Result<Self, NoStem> {
        Self::decode(text.as_bytes()).ok_or(NoStem)
    }
}

/// What the names of what is written for one key begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The slot of the key, where names carry one.
    pub slot: Option<Slot>,
    /// Whose data it is.
    pub stem: Stem,
}

/// Begins a physical name: the prefix, the slot's tag, the stem and the mark.
pub fn encode_head(Origin { slot, stem }: Origin, mark: Mark, out: &mut Name) {
    out.push(DATA_PREFIX);
    if let Some(slot) = slot {
        out.push(b'{');
        out.extend_from_slice(slot.tag());
        out.push(b'}');
    }
    stem.encode(out);
    out.push(mark.byte());
}

/// How a physical name begins, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'n> {
    /// Whose data it is, and in which slot.
    pub origin: Origin,
    /// What kind of thing it names.
    pub mark: Mark,
    /// What follows the mark.
    pub rest: &'n [u8],
}

impl<'n> Head<'n> {
    /// Reads how a name begins; none where it is no name of keyfold's.
    pub fn decode(name: &'n [u8]) -> Option<Self> {
        let rest = name.strip_prefix(&[DATA_PREFIX])?;
        let (slot, rest) = match rest.strip_prefix(b"{") {
            Some(tagged) => {
                let end = memchr::memchr(b'}', tagged)?;
                (Some(Slot::with_tag(&tagged[..end])?), &tagged[end + 1..])
            }
            None => (None, rest),
        };
        let len = rest.iter().position(|byte| !byte.is_ascii_alphanumeric())?;
        let origin = Origin { slot, stem: Stem::decode(&rest[..len])? };
        Some(Self { origin, mark: Mark::of(rest[len])?, rest: &rest[len + 1..] })
    }
}

/// The nonce and the logical key in what follows a spill's mark.
pub fn decode_spill(rest: &[u8]) -> Option<(u64, &[u8])> {
    let colon = memchr::memchr(b':', rest)?;
    Some((base62::decode(&rest[..colon])?, &rest[colon + 1..]))
}

/// What belongs to a collection in parts, by what follows the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartName {
    /// Its logical key.
    Owner,
    /// The directory of a class.
    Directory(Class),
    /// A part of a class, by its number.
    Part(Class, u64),
    /// Members that are in no part, while the collection is moved.
    Remainder,
}

/// What its name ends with.
const REMAINDER: u8 = b'r';

impl PartName {
    /// Appends it to a name that ends with the mark.
    pub fn encode(self, nonce: u64, out: &mut Name) {
        out.extend_from_slice(format!("{nonce:016x}").as_bytes());
        match self {
            Self::Owner => {}
            Self::Directory(class) => out.push(class.letter()),
            Self::Part(class, number) => {
                out.push(class.letter());
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
            Self::Remainder => out.push(REMAINDER),
        }
    }

    /// The nonce and the name in what follows the mark.
    pub fn decode(rest: &[u8]) -> Option<(u64, Self)> {
        let (nonce, rest) = rest.split_first_chunk::<16>()?;
        let is_hex = nonce.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let nonce = u64::from_str_radix(std::str::from_utf8(nonce).ok().filter(|_| is_hex)?, 16).ok()?;
        let Some((letter, number)) = rest.split_first() else { return Some((nonce, Self::Owner)) };
        if rest == [REMAINDER] {
            return Some((nonce, Self::Remainder));
        }
        let class = Class::with_letter(*letter)?;
        if number.is_empty() {
            return Some((nonce, Self::Directory(class)));
        }
        let number =
            parse_integer(number).and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)?;
        Some((nonce, Self::Part(class, number)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stem(text: &str) -> Stem {
        text.parse().unwrap()
    }

    fn origin(slot: Option<u16>, text: &str) -> Origin {
        Origin { slot: slot.map(|slot| Slot::new(slot).unwrap()), stem: stem(text) }
    }

    #[test]
    fn heads() {
        let mut name = Name::new();
        encode_head(origin(None, "a0Zz10"), Mark::Spill, &mut name);
        assert_eq!(name.as_slice(), b"~a0Zz10!");
        let Head { origin, mark, rest } = Head::decode(b"~a0Zz10!x:y").unwrap();
        assert_eq!((origin.stem.generation, mark, rest), (Generation(62), Mark::Spill, b"x:y".as_slice()));
        assert_eq!(Head::decode(b"~0000:").unwrap().origin.stem.generation, Generation(0));
        for name in [
            b"~".as_slice(),
            b"~0",
            b"~:1",
            b"~000:1",
            b"~0000",
            b"~00000:1",
            b"~000001:1",
            b"~0000?1",
            b"~000\xe9:1",
            b"0000:1",
            b"~00004gfFC4:1",
        ] {
            assert_eq!(Head::decode(name), None, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn heads_with_the_tag_of_a_slot() {
        let mut name = Name::new();
        encode_head(origin(Some(0), "a0Zz1"), Mark::Bucket, &mut name);
        assert_eq!(name.as_slice(), b"~{06S}a0Zz1:");
        assert_eq!(
            Head::decode(b"~{06S}a0Zz1:7"),
            Some(Head { origin: origin(Some(0), "a0Zz1"), mark: Mark::Bucket, rest: b"7" })
        );
        for name in [b"~{}a0Zz:7".as_slice(), b"~{06S0}a0Zz:7", b"~{06Sa0Zz:7", b"~{0-}a0Zz:7", b"~{06S}:7", b"~{06S"] {
            assert_eq!(Head::decode(name), None, "{}", name.escape_ascii());
        }
        // A slot has one tag, and other texts that are in it are none.
        let other = (0_u32..).map(|number| number.to_string()).find(|text| Slot::of(text.as_bytes()).number() == 0);
        assert_eq!(Head::decode(format!("~{{{}}}a0Zz:7", other.unwrap()).as_bytes()), None);
    }

    #[test]
    fn names_of_parts() {
        for (name, text) in [
            (PartName::Owner, "00000000000000ff"),
            (PartName::Directory(Class::Texts), "00000000000000fft"),
            (PartName::Part(Class::Integers, 1), "00000000000000ffi1"),
            (PartName::Part(Class::Outliers, 16_777_216), "00000000000000ffo16777216"),
        ] {
            let mut out = Name::new();
            name.encode(255, &mut out);
            assert_eq!(out.as_slice(), text.as_bytes());
            assert_eq!(PartName::decode(text.as_bytes()), Some((255, name)));
        }
        for text in [
            "",
            "ff",
            "00000000000000fF",
            "+0000000000000ff",
            "00000000000000ffx",
            "00000000000000ffi0",
            "00000000000000ffi01",
        ] {
            assert_eq!(PartName::decode(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn hashes_have_four_characters_and_differ() {
        let hashes: std::collections::BTreeSet<_> = (0..1000).map(|n| NameHash::of(&n.to_string())).collect();
        assert_eq!(hashes.len(), 1000);
        assert!(hashes.iter().all(|hash| hash.to_string().len() == 4));
    }

    proptest! {
        #[test]
        fn heads_are_exact(
            slot in proptest::option::of(0_u16..16_384),
            hash in "[0-9A-Za-z]{4}",
            generation: u32,
            mark in 0_usize..5,
            rest: Vec<u8>,
        ) {
            let hash = NameHash(hash.as_bytes().try_into().unwrap());
            let stem = Stem { hash, generation: Generation(generation) };
            let origin = Origin { slot: slot.and_then(Slot::new), stem };
            let mark = Mark::ALL[mark];
            let mut name = Name::new();
            encode_head(origin, mark, &mut name);
            name.extend_from_slice(&rest);
            prop_assert_eq!(origin.slot.is_none_or(|slot| Slot::of(&name) == slot), true);
            prop_assert_eq!(Head::decode(&name), Some(Head { origin, mark, rest: &rest }));
            prop_assert_eq!(stem.to_string().parse(), Ok(stem));
        }

        #[test]
        fn what_is_read_as_a_head_is_written_the_same(
            name in "~([{][0-9A-Za-z]{0,4}[}])?[0-9A-Za-z]{0,7}[:;=!|?][0-9a:]{0,3}",
        ) {
            if let Some(Head { origin, mark, rest }) = Head::decode(name.as_bytes()) {
                let mut written = Name::new();
                encode_head(origin, mark, &mut written);
                written.extend_from_slice(rest);
                prop_assert_eq!(written.as_slice(), name.as_bytes());
            }
        }
    }
}
