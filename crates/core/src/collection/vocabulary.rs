//! A packed hash without what the hashes of a namespace have in common: names of fields take one byte each, values that come again
//! and again two, and hexadecimal text, uuids and IPv4 addresses lie as the bytes that they stand for.
//!
//! ```text
//! ┌──────────────────────────────────────────────┬──────────────────────────────┐
//! │ 0xCE where a field expires, 0xCF where all   │ name, value, (expiry,) name… │
//! │ do and the hash has no expiry itself; nothing│ as in a packed hash          │
//! └──────────────────────────────────────────────┴──────────────────────────────┘
//! a name:  0xD0–0xFF        one of the vocabulary's names, the first to the 48th
//!          0xC0 0x00–0x2F   an integer, 0 to 47, that is none of them
//!          else             any other, as it is packed
//! a value: 0xCA n           one of the vocabulary's values, the first to the 256th
//!          0xCB n, n bytes  twice as many hexadecimal digits, in lower case
//!          0xCC, 4 bytes    an IPv4 address
//!          0xCD, 16 bytes   a uuid in its canonical form
//!          else             any other, as it is packed
//! ```
//! A name has one form under a vocabulary, so that names are compared by their bytes; where each text ends can be told without it
//! (`exchange/field/packed.lua`). What any packed hash was made to gives back that very hash.
//!
//! A vocabulary is stored as its names, packed, behind each other; then, where it has values, 0xCA and these.

use std::net::Ipv4Addr;

use super::packed::{
    EXPIRING_HASH, HASH, INTEGER, PASSING_HASH, PackedError, Reader, SMALL_INTEGER, SMALL_INTEGERS, packed_text,
};
use crate::number::parse_integer;
use crate::template::{hex_bytes, hex_digits, is_hex, parse_uuid, render_uuid};

/// As many names have a byte each.
pub const MOST_NAMES: usize = 48;

/// As many values have a second byte each.
pub const MOST_VALUES: usize = 256;

/// What stands before values in a short form.
const LISTED: u8 = 0xCA;
const HEX: u8 = 0xCB;
const ADDRESS: u8 = 0xCC;
const UUID: u8 = 0xCD;

/// Hexadecimal digits that are worth it, and so many of which a text's length takes one byte.
const HEX_DIGITS: std::ops::RangeInclusive<usize> = 4..=190;

/// No name and no text begins with these.
const EXPIRING: u8 = 0xCE;
const PASSING: u8 = 0xCF;

/// Whether a short form may be of a hash of which fields expire, and whose key expires by itself or never.
pub(crate) fn may_have_expiries(short: &[u8]) -> bool {
    short.first() == Some(&EXPIRING)
}

/// How far the bytes of integers in their short form go, in their long one.
#[expect(clippy::cast_possible_truncation, reason = "48")]
const SMALL_END: u8 = SMALL_INTEGERS as u8;

/// Names and values, each with what stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    names: Listed,
    values: Listed,
}

/// Packed texts, each known by its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listed {
    texts: Vec<Box<[u8]>>,
    /// The same in the order of their bytes.
    sorted: Vec<(Box<[u8]>, u8)>,
}

impl Listed {
    fn new(texts: Vec<Box<[u8]>>) -> Result<Self, PackedError> {
        let mut sorted: Vec<(Box<[u8]>, u8)> = texts.iter().cloned().zip(0..=u8::MAX).collect();
        sorted.sort_unstable();
        let is_twice = sorted.windows(2).any(|pair| pair[0].0 == pair[1].0);
        if is_twice { Err(PackedError::Twice) } else { Ok(Self { texts, sorted }) }
    }

    fn number(&self, packed: &[u8]) -> Option<u8> {
        let at = self.sorted.binary_search_by(|(text, _)| (**text).cmp(packed)).ok()?;
        Some(self.sorted[at].1)
    }

    fn get(&self, number: u8) -> Result<&[u8], PackedError> {
        self.texts.get(usize::from(number)).map(AsRef::as_ref).ok_or(PackedError::Unlisted)
    }
}

impl Vocabulary {
    /// Reads a vocabulary as [`Self::stored`] writes it.
    ///
    /// # Errors
    /// None that was written so: no name at all or too many, one twice, one in another form than it has.
    pub fn read(stored: &[u8]) -> Result<Self, PackedError> {
        let mut reader = Reader(stored);
        let [mut names, mut values]: [Vec<Box<[u8]>>; 2] = Default::default();
        let mut is_value = false;
        while !reader.is_over() {
            if !is_value && reader.0[0] == LISTED {
                is_value = true;
                reader = Reader(&reader.0[1..]);
            }
            let packed = reader.packed_text()?;
            let is_own_form = packed_text(&Reader(packed).text()?) == packed;
            // Integers stay what they are, to be counted with; and nothing becomes longer.
            if !is_own_form || is_value && !matches!(packed, [0..INTEGER, _, _, ..]) {
                return Err(PackedError::Unlisted);
            }
            (if is_value { &mut values } else { &mut names }).push(packed.into());
        }
        match (names.len(), values.len()) {
            (0, _) => Err(PackedError::Short),
            (..=MOST_NAMES, ..=MOST_VALUES) => Ok(Self { names: Listed::new(names)?, values: Listed::new(values)? }),
            _ => Err(PackedError::Long),
        }
    }

    /// What a vocabulary of these names and values is stored as.
    pub fn stored<'n>(
        names: impl IntoIterator<Item = &'n [u8]>,
        values: impl IntoIterator<Item = &'n [u8]>,
    ) -> Vec<u8> {
        let mut stored: Vec<u8> = names.into_iter().flat_map(packed_text).collect();
        let values: Vec<u8> = values.into_iter().flat_map(packed_text).collect();
        stored.extend((!values.is_empty()).then_some(LISTED));
        stored.extend(values);
        stored
    }

    /// The same of names and values that are packed.
    pub(crate) fn of_packed(names: &[&[u8]], values: &[&[u8]]) -> Vec<u8> {
        let sign: &[u8] = if values.is_empty() { &[] } else { &[LISTED] };
        [names.concat(), sign.to_vec(), values.concat()].concat()
    }

    /// Appends the short form of a packed hash to `out`; false where the bytes are none.
    pub fn shorten(&self, packed: &[u8], out: &mut Vec<u8>) -> bool {
        self.shortened(packed, out).is_ok()
    }

    fn shortened(&self, packed: &[u8], out: &mut Vec<u8>) -> Result<(), PackedError> {
        let (head, rest) = packed.split_first().ok_or(PackedError::Short)?;
        match *head {
            HASH => {}
            EXPIRING_HASH => out.push(EXPIRING),
            PASSING_HASH => out.push(PASSING),
            other => return Err(PackedError::Head(other)),
        }
        let mut reader = Reader(rest);
        while !reader.is_over() {
            self.write_name(reader.packed_text()?, out)?;
            self.write_value(reader.packed_text()?, out);
            if *head != HASH {
                out.extend_from_slice(reader.packed_number()?);
            }
        }
        Ok(())
    }

    /// A name in the form that it has in short hashes.
    pub fn packed_name(&self, name: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        // What `packed_text` gives is in the form that it has.
        let _ = self.write_name(&packed_text(name), &mut out);
        out
    }

    fn write_name(&self, packed: &[u8], out: &mut Vec<u8>) -> Result<(), PackedError> {
        match (self.names.number(packed), packed) {
            (Some(number), _) => out.push(SMALL_INTEGER + number),
            (None, [small @ SMALL_INTEGER..=u8::MAX]) => out.extend([INTEGER, small - SMALL_INTEGER]),
            // No integer is packed so, and it would come back as one that is.
            (None, [INTEGER, 0..SMALL_END]) => return Err(PackedError::Unlisted),
            (None, packed) => out.extend_from_slice(packed),
        }
        Ok(())
    }

    /// A value in the form that it has there.
    pub fn packed_value(&self, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_value(&packed_text(value), &mut out);
        out
    }

    fn write_value(&self, packed: &[u8], out: &mut Vec<u8>) {
        match self.values.number(packed) {
            Some(number) => out.extend([LISTED, number]),
            None if spell(packed, out) => {}
            None => out.extend_from_slice(packed),
        }
    }

    /// Appends the packed hash that has this short form to `out`: at most so many bytes, as one may stand for a long name.
    ///
    /// # Errors
    /// Where no hash has.
    pub fn restore(&self, short: &[u8], most_bytes: usize, out: &mut Vec<u8>) -> Result<(), PackedError> {
        let (head, rest) = match short {
            [EXPIRING, rest @ ..] => (EXPIRING_HASH, rest),
            [PASSING, rest @ ..] => (PASSING_HASH, rest),
            _ => (HASH, short),
        };
        let most = out.len().saturating_add(most_bytes);
        out.push(head);
        let mut reader = Reader(rest);
        while !reader.is_over() {
            self.restore_name(reader.packed_text()?, out)?;
            self.restore_value(&mut reader, out)?;
            if head != HASH {
                out.extend_from_slice(reader.packed_number()?);
            }
            if out.len() > most {
                return Err(PackedError::Long);
            }
        }
        Ok(())
    }

    fn restore_name(&self, name: &[u8], out: &mut Vec<u8>) -> Result<(), PackedError> {
        let small;
        let packed = match name {
            [code @ SMALL_INTEGER..=u8::MAX] => {
                out.extend_from_slice(self.names.get(code - SMALL_INTEGER)?);
                return Ok(());
            }
            [INTEGER, integer @ 0..SMALL_END] => {
                small = [SMALL_INTEGER + integer];
                &small[..]
            }
            other => other,
        };
        if self.names.number(packed).is_some() {
            return Err(PackedError::Unlisted);
        }
        out.extend_from_slice(packed);
        Ok(())
    }

    fn restore_value(&self, reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), PackedError> {
        let mut text = Vec::new();
        match *reader.0 {
            [LISTED, number, ..] => {
                reader.take(2)?;
                out.extend_from_slice(self.values.get(number)?);
                return Ok(());
            }
            [HEX, count, ..] if HEX_DIGITS.contains(&(2 * usize::from(count))) => {
                let bytes = &reader.take(2 + usize::from(count))?[2..];
                text.extend(bytes.iter().flat_map(|byte| hex_digits(*byte)));
            }
            [ADDRESS, a, b, c, d, ..] => {
                reader.take(5)?;
                text.extend_from_slice(Ipv4Addr::new(a, b, c, d).to_string().as_bytes());
            }
            [UUID, ..] => {
                let bits = reader.take(17)?[1..].iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
                render_uuid(bits, &mut text);
            }
            _ => {
                out.extend_from_slice(reader.packed_text()?);
                return Ok(());
            }
        }
        out.extend(packed_text(&text));
        Ok(())
    }
}

/// Appends a packed text as the bytes that it stands for; false where it isn't shorter so.
fn spell(packed: &[u8], out: &mut Vec<u8>) -> bool {
    // What is packed in another form than this would not come back in it.
    let Some((&len @ 0..INTEGER, text)) = packed.split_first() else { return false };
    let len = usize::from(len);
    let is_known_form = text.len() == len && parse_integer(text).is_none();
    let address = || std::str::from_utf8(text).ok()?.parse::<Ipv4Addr>().ok();
    if !is_known_form || !HEX_DIGITS.contains(&len) {
        return false;
    }
    if let Some(bits) = parse_uuid(text) {
        out.push(UUID);
        out.extend(bits.to_be_bytes());
    } else if let Some(address) = address().filter(|address| address.to_string().as_bytes() == text) {
        out.push(ADDRESS);
        out.extend(address.octets());
    } else if is_hex(text) {
        #[expect(clippy::cast_possible_truncation, reason = "at most 95")]
        out.extend([HEX, (len / 2) as u8]);
        out.extend(hex_bytes(text));
    } else {
        return false;
    }
    true
}

/// How many bytes a packed value takes that a vocabulary doesn't have.
pub(crate) fn unlisted_len(packed: &[u8]) -> usize {
    let mut out = Vec::new();
    if spell(packed, &mut out) { out.len() } else { packed.len() }
}

/// The names of a packed hash's fields with their values, packed; none where the bytes are no such hash.
pub(crate) fn packed_fields(packed: &[u8]) -> Option<Vec<[&[u8]; 2]>> {
    let (head, rest) = packed.split_first()?;
    if ![HASH, EXPIRING_HASH, PASSING_HASH].contains(head) {
        return None;
    }
    let (mut reader, mut fields) = (Reader(rest), Vec::new());
    while !reader.is_over() {
        fields.push([reader.packed_text().ok()?, reader.packed_text().ok()?]);
        if *head != HASH {
            reader.packed_number().ok()?;
        }
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collection::{Collection, Field};

    fn read(names: &[&str], values: &[&str]) -> Result<Vocabulary, PackedError> {
        let [names, values] = [names, values].map(|texts| texts.iter().map(|text| text.as_bytes()));
        Vocabulary::read(&Vocabulary::stored(names, values))
    }

    fn list(names: &[&str]) -> Vocabulary {
        read(names, &["curl/8.4", "no"]).unwrap()
    }

    fn shortened(names: &Vocabulary, packed: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        names.shorten(packed, &mut out).then_some(out)
    }

    fn restored(names: &Vocabulary, short: &[u8]) -> Result<Vec<u8>, PackedError> {
        let mut out = Vec::new();
        names.restore(short, 1 << 16, &mut out).map(|()| out)
    }

    #[test]
    fn the_bytes_are_these() {
        let names = list(&["uid", "7", ""]);
        for (packed, short) in [
            (&b"\x42\x03uid\xd7\x01x\x01y"[..], &b"\xd0\xd7\x01x\x01y"[..]),
            // An integer of the list, one that isn't, one that is never one byte.
            (b"\x42\xd7\xd7\xd0\xd0\xc0\x30\xd1", b"\xd1\xd7\xc0\x00\xd0\xc0\x30\xd1"),
            // The empty name.
            (b"\x42\x00\x00", b"\xd2\x00"),
            (b"\x43\x03uid\xd7\x00", b"\xce\xd0\xd7\x00"),
            (b"\x44\x03uid\xd7\x80\x01\x01a\xd1\x05", b"\xcf\xd0\xd7\x80\x01\x01a\xd1\x05"),
            // Values: a listed one, digits, an address, a uuid, and what only looks so.
            (b"\x42\x01a\x08curl/8.4\x01b\x02no", b"\x01a\xca\x00\x01b\xca\x01"),
            (b"\x42\x01a\x0600beef\x01b\x03abc\x01c\x04beEf", b"\x01a\xcb\x03\x00\xbe\xef\x01b\x03abc\x01c\x04beEf"),
            (b"\x42\x01a\x0910.0.0.17\x01b\x0a010.0.0.17", b"\x01a\xcc\x0a\x00\x00\x11\x01b\x0a010.0.0.17"),
            (
                b"\x42\x01a\x24f3d72fe1-750b-47c0-9526-4728852a4e5b",
                b"\x01a\xcd\xf3\xd7\x2f\xe1\x75\x0b\x47\xc0\x95\x26\x47\x28\x85\x2a\x4e\x5b",
            ),
            (b"\x42", b""),
        ] {
            assert_eq!(shortened(&names, packed).unwrap().escape_ascii().to_string(), short.escape_ascii().to_string());
            assert_eq!(restored(&names, short).unwrap(), packed);
        }
    }

    #[test]
    fn what_is_no_hash_and_what_no_hash_has_become_is_refused() {
        let names = list(&["uid", "7"]);
        for packed in
            [&b""[..], b"\x40\x01a", b"\x41\xd0", b"B\x01", b"B\x01a", b"C\x01a\x01b", b"\x42\xc0\x05\x01v", b"{}"]
        {
            assert_eq!(shortened(&names, packed), None, "{}", packed.escape_ascii());
        }
        for (short, error) in [
            // Names that have a byte of their own.
            (&b"\x03uid\x01v"[..], PackedError::Unlisted),
            (b"\xc0\x07\x01v", PackedError::Unlisted),
            // A byte that stands for none.
            (b"\xd2\x01v", PackedError::Unlisted),
            (b"\xd0", PackedError::Short),
            (b"\xcc\x01v", PackedError::Member),
            (b"\xd0\xca\x02", PackedError::Unlisted),
            (b"\xd0\xcb\x02\x00", PackedError::Short),
            (b"\xd0\xcb\x01\x00", PackedError::Member),
            (b"\xd0\xcb\x60", PackedError::Member),
            (b"\xd0\xcd\x00", PackedError::Short),
            (b"\xce\xd0\x01v", PackedError::Short),
            (b"\xd0\xca", PackedError::Member),
        ] {
            assert_eq!(restored(&names, short), Err(error), "{}", short.escape_ascii());
        }
    }

    #[test]
    fn a_few_bytes_are_no_long_hash() {
        let names = list(&[&"n".repeat(1000)]);
        assert_eq!(restored(&names, &b"\xd0\xd0".repeat(2000)), Err(PackedError::Long));
    }

    #[test]
    fn a_vocabulary_has_each_text_once_and_at_most_so_many() {
        let many: Vec<String> = (0..257).map(|i| format!("f{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(read(&many[..48], &many[..256]).is_ok());
        assert_eq!(read(&many[..49], &[]), Err(PackedError::Long));
        assert_eq!(read(&many[..1], &many), Err(PackedError::Long));
        assert_eq!(read(&["a", "b", "a"], &[]), Err(PackedError::Twice));
        assert_eq!(read(&["a"], &["bb", "bb"]), Err(PackedError::Twice));
        assert_eq!(read(&[], &["bb"]), Err(PackedError::Short));
        for value in ["", "b", "7", "300"] {
            assert_eq!(read(&["a"], &[value]), Err(PackedError::Unlisted), "{value}");
        }
        for stored in [&b"\xc0\x05"[..], b"\x017", b"\xc8\x00\x01a", b"\xc1\x00\x50"] {
            assert_eq!(Vocabulary::read(stored), Err(PackedError::Unlisted), "{}", stored.escape_ascii());
        }
        for stored in [&b"\x01a\xca\xca"[..], b"\x01a\xca\x02no\xca\x02ye"] {
            assert_eq!(Vocabulary::read(stored), Err(PackedError::Member), "{}", stored.escape_ascii());
        }
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..6),
            (-3..60_i64).prop_map(|number| number.to_string().into_bytes()),
            prop::sample::select(vec!["uid", "ip", "", "7", "47", "48", "07", "\u{d0}"]).prop_map(|text| text.into()),
            (188..194_usize).prop_map(|len| vec![b'a'; len]),
            "[0-9a-f]{0,12}".prop_map(String::into_bytes),
            any::<[u8; 4]>().prop_map(|bytes| Ipv4Addr::from(bytes).to_string().into_bytes()),
            any::<u128>().prop_map(|bits| {
                let mut text = Vec::new();
                render_uuid(bits, &mut text);
                text
            }),
            "[0-2]{1,3}(\\.[0-2]{0,3}){3}".prop_map(String::into_bytes),
        ]
    }

    fn any_vocabulary() -> impl Strategy<Value = Vocabulary> {
        let values = prop::collection::hash_set(text(), 0..60);
        (prop::collection::hash_set(text(), 1..48), values).prop_map(|(names, mut values)| {
            values.retain(|value| matches!(packed_text(value)[..], [0..INTEGER, _, _, ..]));
            let [names, values] = [&names, &values].map(|texts| texts.iter().map(Vec::as_slice));
            Vocabulary::read(&Vocabulary::stored(names, values)).unwrap()
        })
    }

    proptest! {
        #[test]
        fn any_hash_comes_back(names in any_vocabulary(), fields in prop::collection::vec((text(), text(), prop::option::of(0..i64::MAX)), 0..20), passing: bool) {
            let field = |(name, value, expires_at_ms)| (name, Field { value, expires_at_ms });
            let mut packed = Collection::Hash(fields.into_iter().map(field).collect()).packed();
            if packed[0] == EXPIRING_HASH && passing {
                packed[0] = PASSING_HASH;
            }
            let short = shortened(&names, &packed).unwrap();
            prop_assert_eq!(restored(&names, &short), Ok(packed));
        }

        #[test]
        fn a_value_becomes_no_longer(names in any_vocabulary(), value in text()) {
            let form = names.packed_value(&value);
            prop_assert!(form.len() <= packed_text(&value).len());
            prop_assert_eq!(restored(&names, &[b"\x05a-b-c", &form[..]].concat()), Ok([b"\x42\x05a-b-c", &packed_text(&value)[..]].concat()));
        }

        #[test]
        fn a_name_has_one_form_and_no_two_have_the_same(names in any_vocabulary(), one in text(), other in text()) {
            let form = names.packed_name(&one);
            prop_assert_eq!(form == names.packed_name(&other), one == other);
            let short = [&form[..], b"\x01v"].concat();
            prop_assert_eq!(restored(&names, &short), Ok([&[HASH][..], &packed_text(&one), b"\x01v"].concat()));
            prop_assert!(form.len() <= packed_text(&one).len() + usize::from(form.len() == 2 && form[0] == INTEGER));
        }

        #[test]
        fn hostile_bytes_come_back_or_are_refused(names in any_vocabulary(), head in 0x40..0x46_u8, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let packed = [&[head], &bytes[..]].concat();
            if let Some(short) = shortened(&names, &packed) {
                prop_assert_eq!(restored(&names, &short), Ok(packed));
            }
            if let Ok(packed) = restored(&names, &bytes) {
                // A value may stand in a longer form than it has, a name can't.
                let short = shortened(&names, &packed);
                prop_assert!(short.as_ref().is_some_and(|short| short.len() <= bytes.len()));
                prop_assert_eq!(restored(&names, &short.unwrap_or_default()), Ok(packed));
            }
            let _ = Vocabulary::read(&packed_bytes(&bytes));
        }
    }

    fn packed_bytes(bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|byte| byte & 0xCF).collect()
    }
}
