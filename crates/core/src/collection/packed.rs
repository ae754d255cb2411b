//! A collection as one value.
//!
//! ```text
//! ┌──────┬───────────────────────────────────────────────┐
//! │ head │ 0x40  a set: its members                      │
//! │      │ 0x41  a set of integers alone, in their order: │
//! │      │       the first, then by how much each is more │
//! │      │ 0x42  a hash: name, value, name, value …      │
//! │      │ 0x43  a hash of which a field expires:        │
//! │      │       name, value, expiry, name …             │
//! │      │ 0x44  the same of which all do, and that has  │
//! │      │       no expiry itself                        │
//! └──────┴───────────────────────────────────────────────┘
//! a text:    0x00–0xBF  so many bytes follow
//!            0xC0–0xC7  an integer of 1 to 8 bytes, two's complement, in as few as it takes
//!            0xC8       a length of 2 bytes, 0xC9 one of 4, and so many bytes
//!            0xD0–0xFF  an integer, 0 to 47
//! a number:  seven bits a byte, the low ones first; all but the last byte have the high bit. A difference is one
//! an expiry: a number: 0 never, else milliseconds since 1970 and 1
//! ```
//!
//! All other numbers are big-endian. No head is below 0x20, so that such a value needs no frame where nothing else does. A text
//! that is an integer in its one spelling is kept as one: `7` is, `007` isn't, and each comes back as it was. A collection has one
//! packed form by the order of its members.
//!
//! Once all fields of a hash have expired it is gone. So the frame of one that has no expiry itself, and all of whose fields have
//! one, expires with the last of them, like any value, and is swept; 0x44 says that this is no expiry of the key.

use std::borrow::Cow;

use super::{Collection, Field, Hash, Set};
use crate::number::parse_integer;

pub(super) const SET: u8 = 0x40;
pub(super) const INTEGERS: u8 = 0x41;
pub(super) const HASH: u8 = 0x42;
pub(super) const EXPIRING_HASH: u8 = 0x43;
pub(super) const PASSING_HASH: u8 = 0x44;

pub(super) const INTEGER: u8 = 0xC0;
/// Whether a packed form, the key of which expires by itself or never, is of a hash of which fields expire.
pub(crate) fn has_expiries(packed: &[u8]) -> bool {
    packed.first() == Some(&EXPIRING_HASH)
}

const LENGTH_2: u8 = 0xC8;
const LENGTH_4: u8 = 0xC9;
pub(super) const SMALL_INTEGER: u8 = 0xD0;

/// Integers below this take one byte.
pub(super) const SMALL_INTEGERS: i64 = 48;

/// Why bytes are no packed collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackedError {
    /// They end too early.
    #[error("a packed collection ends in the middle")]
    Short,
    /// They begin with what no collection begins with.
    #[error("no packed collection begins with the byte 0x{0:02x}")]
    Head(u8),
    /// A text begins with what none begins with, or a number is none.
    #[error("a packed collection has a member that can't be read")]
    Member,
    /// A member is there twice, or is out of order.
    #[error("a packed collection has a member twice")]
    Twice,
    /// A text is none of a vocabulary, or stands in another form than the one that it has.
    #[error("a name or value isn't in the vocabulary, or stands otherwise than by it")]
    Unlisted,
    /// There is more than was ever packed.
    #[error("it is longer than what is packed so")]
    Long,
}

impl Collection {
    /// Appends its packed form.
    pub fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Self::Set(set) => match integers_of(set) {
                Some(integers) => pack_integers(&integers, out),
                None => {
                    out.push(SET);
                    set.iter().for_each(|member| write_text(member, out));
                }
            },
            Self::Hash(hash) => pack_hash(hash, out),
        }
    }

    /// Its packed form.
    pub fn packed(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.pack(&mut out);
        out
    }

    /// What a key is stored as that holds it and expires then: its packed form, and the expiry of the frame around that.
    pub fn stored(&self, expires_at_ms: Option<i64>) -> (Vec<u8>, Option<i64>) {
        let mut packed = self.packed();
        let last = match (self, expires_at_ms) {
            (Self::Hash(hash), None) => hash.passes_at_ms(),
            _ => None,
        };
        if last.is_some() {
            packed[0] = PASSING_HASH;
        }
        (packed, expires_at_ms.or(last))
    }

    /// Reads what [`Self::stored`] gave: with the expiry of the key.
    ///
    /// # Errors
    /// Where nothing was packed so.
    pub fn read_stored(packed: &[u8], expires_at_ms: Option<i64>) -> Result<(Self, Option<i64>), PackedError> {
        let is_passing = packed.first() == Some(&PASSING_HASH);
        Ok((Self::unpack(packed)?, expires_at_ms.filter(|_| !is_passing)))
    }

    /// Reads a packed form.
    ///
    /// # Errors
    /// Where nothing was packed so.
    pub fn unpack(bytes: &[u8]) -> Result<Self, PackedError> {
        let (head, rest) = bytes.split_first().ok_or(PackedError::Short)?;
        let mut reader = Reader(rest);
        match *head {
            SET => Ok(Self::Set(reader.set()?)),
            INTEGERS => {
                let integers: Vec<i64> = reader.integers()?;
                Ok(Self::Set(integers.into_iter().map(written_out).collect()))
            }
            HASH | EXPIRING_HASH | PASSING_HASH => Ok(Self::Hash(reader.hash(*head != HASH)?)),
            other => Err(PackedError::Head(other)),
        }
    }
}

/// The members as integers in their order, where all are.
fn integers_of(set: &Set) -> Option<Vec<i64>> {
    let mut integers = set.iter().map(parse_integer).collect::<Option<Vec<_>>>()?;
    integers.sort_unstable();
    Some(integers)
}

fn pack_integers(integers: &[i64], out: &mut Vec<u8>) {
    out.push(INTEGERS);
    let Some(first) = integers.first() else { return };
    write_text(&written_out(*first), out);
    for pair in integers.windows(2) {
        write_number(pair[1].abs_diff(pair[0]), out);
    }
}

fn pack_hash(hash: &Hash, out: &mut Vec<u8>) {
    let expires = hash.iter().any(|(_, field)| field.expires_at_ms.is_some());
    out.push(if expires { EXPIRING_HASH } else { HASH });
    for (name, Field { value, expires_at_ms }) in hash.iter() {
        write_text(name, out);
        write_text(value, out);
        if expires {
            // A field whose time is before 1970 is over as one of 1970 is.
            write_number(expires_at_ms.map_or(0, |at| u64::try_from(at).unwrap_or(0).saturating_add(1)), out);
        }
    }
}

/// One member, field or value as it stands in packed bytes.
pub(crate) fn packed_text(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 1);
    write_text(text, &mut out);
    out
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    match (parse_integer(text), text.len()) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 48")]
        (Some(small @ 0..SMALL_INTEGERS), _) => out.push(SMALL_INTEGER + small as u8),
        (Some(number), _) => {
            let bytes = number.to_be_bytes();
            // The leading bytes that only repeat the sign.
            let spare = (0..7).take_while(|&at| sign_goes_on(&bytes, at)).count();
            #[expect(clippy::cast_possible_truncation, reason = "at most 7")]
            out.push(INTEGER + 7 - spare as u8);
            out.extend_from_slice(&bytes[spare..]);
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 0xC0")]
        (None, len @ 0..0xC0) => {
            out.push(len as u8);
            out.extend_from_slice(text);
        }
        (None, len) => {
            match u16::try_from(len) {
                Ok(len) => {
                    out.push(LENGTH_2);
                    out.extend_from_slice(&len.to_be_bytes());
                }
                Err(_) => {
                    // No server takes a longer one than 512 MB.
                    out.push(LENGTH_4);
                    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
                }
            }
            out.extend_from_slice(text);
        }
    }
}

/// Whether the byte at `at` says no more than the sign that the next one says too.
fn sign_goes_on(bytes: &[u8; 8], at: usize) -> bool {
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xFF };
    bytes[at] == sign && bytes[at + 1] & 0x80 == sign & 0x80
}

fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "seven bits")]
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
    out.push(number as u8);
}

/// A text out of its packed form, which is whole.
pub(super) fn plain_text(packed: &[u8]) -> Cow<'_, [u8]> {
    match packed {
        [] => Cow::Borrowed(packed),
        [0..INTEGER, text @ ..] | [LENGTH_2, _, _, text @ ..] | [LENGTH_4, _, _, _, _, text @ ..] => {
            Cow::Borrowed(text)
        }
        [small @ SMALL_INTEGER..=u8::MAX, ..] => Cow::Owned(written_out(i64::from(small - SMALL_INTEGER))),
        [_, bytes @ ..] => {
            let sign = if bytes.first().is_none_or(|first| first & 0x80 == 0) { 0 } else { -1 };
            Cow::Owned(written_out(bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte))))
        }
    }
}

pub(super) fn written_out(integer: i64) -> Vec<u8> {
    itoa::Buffer::new().format(integer).as_bytes().to_vec()
}

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], PackedError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(PackedError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, PackedError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The text that comes next, as it stands.
    pub(super) fn packed_text(&mut self) -> Result<&'a [u8], PackedError> {
        let more = match *self.0 {
            [] => return Err(PackedError::Short),
            [head @ 0..INTEGER, ..] => usize::from(head),
            [head @ INTEGER..LENGTH_2, ..] => usize::from(head - INTEGER) + 1,
            [LENGTH_2, high, low, ..] => 2 + usize::from(u16::from_be_bytes([high, low])),
            [LENGTH_4, a, b, c, d, ..] => {
                let len = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| PackedError::Member)?;
                len.saturating_add(4)
            }
            [LENGTH_2 | LENGTH_4, ..] => return Err(PackedError::Short),
            [SMALL_INTEGER..=u8::MAX, ..] => 0,
            _ => return Err(PackedError::Member),
        };
        self.take(more.saturating_add(1))
    }

    pub(super) fn text(&mut self) -> Result<Vec<u8>, PackedError> {
        Ok(plain_text(self.packed_text()?).into_owned())
    }

    /// All texts that are left, as they stand.
    pub(super) fn packed_texts<T: FromIterator<&'a [u8]>>(&mut self) -> Result<T, PackedError> {
        let next = || (!self.is_over()).then(|| self.packed_text());
        std::iter::from_fn(next).collect()
    }

    /// The number that comes next, as it stands.
    pub(super) fn packed_number(&mut self) -> Result<&'a [u8], PackedError> {
        let before = self.0;
        self.number()?;
        Ok(&before[..before.len() - self.0.len()])
    }

    fn number(&mut self) -> Result<u64, PackedError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7F);
            if part << shift >> shift != part {
                return Err(PackedError::Member);
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(PackedError::Member)
    }

    fn set(&mut self) -> Result<Set, PackedError> {
        let mut set = Set::default();
        while !self.is_over() {
            if !set.insert(self.text()?) {
                return Err(PackedError::Twice);
            }
        }
        Ok(set)
    }

    /// The members of a set of integers alone, from the smallest on.
    pub(super) fn integers<T: FromIterator<i64>>(&mut self) -> Result<T, PackedError> {
        let mut last = None;
        let next = || {
            (!self.is_over()).then(|| {
                let integer = match last {
                    None => parse_integer(&self.text()?).ok_or(PackedError::Member)?,
                    Some(last) => match self.number()? {
                        0 => return Err(PackedError::Twice),
                        more => i64::checked_add_unsigned(last, more).ok_or(PackedError::Member)?,
                    },
                };
                last = Some(integer);
                Ok(integer)
            })
        };
        std::iter::from_fn(next).collect()
    }

    fn hash(&mut self, expires: bool) -> Result<Hash, PackedError> {
        let mut hash = Hash::default();
        while !self.is_over() {
            let (name, value) = (self.text()?, self.text()?);
            let expires_at_ms = match expires.then(|| self.number()).transpose()? {
                None | Some(0) => None,
                Some(at) => Some(i64::try_from(at - 1).map_err(|_| PackedError::Member)?),
            };
            if hash.insert(name, Field { value, expires_at_ms }).is_some() {
                return Err(PackedError::Twice);
            }
        }
        Ok(hash)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(members: &[&str]) -> Collection {
        Collection::Set(members.iter().map(|member| member.as_bytes().to_vec()).collect())
    }

    fn hash(fields: &[(&str, &str, Option<i64>)]) -> Collection {
        let field = |(name, value, expires_at_ms): &(&str, &str, Option<i64>)| {
            (name.as_bytes().to_vec(), Field { value: value.as_bytes().to_vec(), expires_at_ms: *expires_at_ms })
        };
        Collection::Hash(fields.iter().map(field).collect())
    }

    #[test]
    fn the_bytes_are_these() {
        assert_eq!(set(&["a", "007", "7"]).packed(), b"\x40\x01a\x03007\xd7");
        assert_eq!(set(&["300", "-1", "7"]).packed(), b"\x41\xc0\xff\x08\xa5\x02");
        assert_eq!(set(&["47", "48", "x"]).packed(), b"\x40\xff\xc0\x30\x01x");
        assert_eq!(set(&["128", "-129", "x"]).packed(), b"\x40\xc1\x00\x80\xc1\xff\x7f\x01x");
        assert_eq!(hash(&[("f", "v", None)]).packed(), b"\x42\x01f\x01v");
        assert_eq!(hash(&[("f", "", Some(127)), ("g", "1", None)]).packed(), b"\x43\x01f\x00\x80\x01\x01g\xd1\x00");
        assert_eq!(set(&[&"x".repeat(192)]).packed()[..4], *b"\x40\xc8\x00\xc0");
        assert_eq!(set(&[&"x".repeat(65536)]).packed()[..6], *b"\x40\xc9\x00\x01\x00\x00");
        assert!(set(&["a"]).packed()[0] >= 0x20, "it needs no frame");
    }

    #[test]
    fn a_hash_whose_fields_all_expire_is_gone_with_the_last_of_them() {
        let passing = hash(&[("f", "v", Some(7)), ("g", "w", Some(9))]);
        let (packed, until) = passing.stored(None);
        assert_eq!((packed[0], until), (0x44, Some(9)));
        assert_eq!(Collection::read_stored(&packed, until), Ok((passing.clone(), None)));
        let (packed, until) = passing.stored(Some(8));
        assert_eq!((packed[0], until), (0x43, Some(8)));
        assert_eq!(Collection::read_stored(&packed, until), Ok((passing, Some(8))));
        for lasting in [hash(&[("f", "v", Some(7)), ("g", "w", None)]), hash(&[("f", "v", None)]), set(&["a"])] {
            let (packed, until) = lasting.stored(None);
            assert_eq!((packed.clone(), until), (lasting.packed(), None));
            assert_eq!(Collection::read_stored(&packed, None), Ok((lasting, None)));
        }
    }

    #[test]
    fn integers_at_all_borders_come_back() {
        let numbers = (0..64).flat_map(|shift| [1_i64 << shift, (1_i64 << shift).wrapping_sub(1), -1_i64 << shift]);
        let numbers: Vec<String> = numbers.chain([0, i64::MIN, i64::MAX]).map(|number| number.to_string()).collect();
        let names: Vec<&str> = numbers.iter().map(String::as_str).collect();
        for members in [names.clone(), [names.clone(), vec!["text"]].concat()] {
            let set = set(&members);
            assert_eq!(Collection::unpack(&set.packed()), Ok(set));
        }
    }

    #[test]
    fn what_was_never_packed_is_an_error() {
        for (bytes, error) in [
            (&b""[..], PackedError::Short),
            (b"\x40\x05abc", PackedError::Short),
            (b"\x42\x01f", PackedError::Short),
            (b"\x3f", PackedError::Head(0x3f)),
            (b"\x40\xca", PackedError::Member),
            (b"\x41\x01x", PackedError::Member),
            (b"\x41\xd1\x00", PackedError::Twice),
            (b"\x41\xc7\x7f\xff\xff\xff\xff\xff\xff\xff\x01", PackedError::Member),
            (b"\x41\xd1\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", PackedError::Member),
            (b"\x40\x01a\x01a", PackedError::Twice),
            (b"\x42\x01f\x01v\x01f\x01w", PackedError::Twice),
        ] {
            assert_eq!(Collection::unpack(bytes), Err(error), "{}", bytes.escape_ascii());
        }
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            (0..200_i64).prop_map(|number| number.to_string().into_bytes()),
            "0?[0-9]{1,4}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn any_set_comes_back(members in prop::collection::vec(text(), 0..30)) {
            let set = Collection::Set(members.into_iter().collect());
            prop_assert_eq!(Collection::unpack(&set.packed()), Ok(set));
        }

        #[test]
        fn any_set_of_integers_comes_back(members in prop::collection::vec(any::<i64>(), 1..30)) {
            let set = Collection::Set(members.iter().map(|number| number.to_string().into_bytes()).collect());
            let packed = set.packed();
            prop_assert_eq!(packed[0], INTEGERS);
            prop_assert_eq!(Collection::unpack(&packed), Ok(set));
        }

        #[test]
        fn any_hash_comes_back(fields in prop::collection::vec((text(), text(), prop::option::of(0..i64::MAX)), 0..20)) {
            let field = |(name, value, expires_at_ms)| (name, Field { value, expires_at_ms });
            let hash = Collection::Hash(fields.into_iter().map(field).collect());
            prop_assert_eq!(Collection::unpack(&hash.packed()), Ok(hash));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Collection::unpack(&bytes);
            let _ = Collection::unpack(&[&[0x41], &bytes[..]].concat());
            let _ = Collection::unpack(&[&[0x43], &bytes[..]].concat());
        }
    }
}
