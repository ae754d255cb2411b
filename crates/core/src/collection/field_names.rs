//! A packed hash in which the names of fields that a namespace's hashes have in common take one byte each.
//!
//! ```text
//! ┌──────────────────────────────────────────────┬──────────────────────────────┐
//! │ 0xCE where a field expires, 0xCF where all   │ name, value, (expiry,) name… │
//! │ do and the hash has no expiry itself; nothing│ as in a packed hash          │
//! └──────────────────────────────────────────────┴──────────────────────────────┘
//! a name:  0xD0–0xFF        one of the list, its first to its 48th
//!          0xC0 0x00–0x2F   an integer, 0 to 47, that the list doesn't have
//!          else             a text that the list doesn't have, as it is packed
//! ```
//! A name has one form under a list, so that names are compared by their bytes, and where each ends can be told without the list
//! (`exchange/field/members.lua`). What any packed hash was made to gives back that very hash, and nothing else gives any.
//!
//! A list is stored as its names, packed, behind each other.

use super::packed::{
    EXPIRING_HASH, HASH, INTEGER, PASSING_HASH, PackedError, Reader, SMALL_INTEGER, SMALL_INTEGERS, packed_text,
};

/// As many names have a byte each.
pub const MOST_FIELD_NAMES: usize = 48;

/// No name and no text begins with these.
const EXPIRING: u8 = 0xCE;
const PASSING: u8 = 0xCF;

/// How far the bytes of integers in their short form go, in their long one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "48")]
const SMALL_END: u8 = SMALL_INTEGERS as u8;

/// A list of names, each with a byte that stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldNames {
    /// The names, packed.
    names: Vec<Box<[u8]>>,
    /// The same in the order of their bytes, each with what stands for it.
    sorted: Vec<(Box<[u8]>, u8)>,
}

impl FieldNames {
    /// Reads a list as [`Self::stored`] writes it.
    ///
    /// # Errors
    /// None that was written so: no name at all or too many, one twice, one in another form than it has.
    pub fn read(stored: &[u8]) -> Result<Self, PackedError> {
        let mut reader = Reader(stored);
        let mut names: Vec<Box<[u8]>> = Vec::new();
        while !reader.is_over() {
            let packed = reader.packed_text()?;
            let is_own_form = packed_text(&Reader(packed).text()?) == packed;
            if !is_own_form || names.len() == MOST_FIELD_NAMES {
                return Err(PackedError::Name);
            }
            names.push(packed.into());
        }
        let mut sorted: Vec<(Box<[u8]>, u8)> = names.iter().cloned().zip(SMALL_INTEGER..=u8::MAX).collect();
        sorted.sort_unstable();
        match sorted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            _ if names.is_empty() => Err(PackedError::Short),
            true => Err(PackedError::Twice),
            false => Ok(Self { names, sorted }),
        }
    }

    /// What a list of names is stored as.
    pub fn stored<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> Vec<u8> {
        names.into_iter().flat_map(packed_text).collect()
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
            out.extend_from_slice(reader.packed_text()?);
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
        match (self.find(packed), packed) {
            (Some(code), _) => out.push(code),
            (None, [small @ SMALL_INTEGER..=u8::MAX]) => out.extend([INTEGER, small - SMALL_INTEGER]),
            // No integer is packed so, and it would come back as one that is.
            (None, [INTEGER, 0..SMALL_END]) => return Err(PackedError::Name),
            (None, packed) => out.extend_from_slice(packed),
        }
        Ok(())
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
            out.extend_from_slice(reader.packed_text()?);
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
                let listed = self.names.get(usize::from(code - SMALL_INTEGER)).ok_or(PackedError::Name)?;
                out.extend_from_slice(listed);
                return Ok(());
            }
            [INTEGER, integer @ 0..SMALL_END] => {
                small = [SMALL_INTEGER + integer];
                &small[..]
            }
            other => other,
        };
        if self.find(packed).is_some() {
            return Err(PackedError::Name);
        }
        out.extend_from_slice(packed);
        Ok(())
    }

    /// What stands for a packed name, where it is in the list.
    fn find(&self, packed: &[u8]) -> Option<u8> {
        let at = self.sorted.binary_search_by(|(name, _)| (**name).cmp(packed)).ok()?;
        Some(self.sorted[at].1)
    }
}

/// The names of a packed hash's fields, packed; none where the bytes are no such hash.
pub(crate) fn packed_names(packed: &[u8]) -> Option<Vec<&[u8]>> {
    let (head, rest) = packed.split_first()?;
    if ![HASH, EXPIRING_HASH, PASSING_HASH].contains(head) {
        return None;
    }
    let (mut reader, mut names) = (Reader(rest), Vec::new());
    while !reader.is_over() {
        names.push(reader.packed_text().ok()?);
        reader.packed_text().ok()?;
        if *head != HASH {
            reader.packed_number().ok()?;
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collection::{Collection, Field};

    fn list(names: &[&str]) -> FieldNames {
        FieldNames::read(&FieldNames::stored(names.iter().map(|name| name.as_bytes()))).unwrap()
    }

    fn shortened(names: &FieldNames, packed: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        names.shorten(packed, &mut out).then_some(out)
    }

    fn restored(names: &FieldNames, short: &[u8]) -> Result<Vec<u8>, PackedError> {
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
            (&b"\x03uid\x01v"[..], PackedError::Name),
            (b"\xc0\x07\x01v", PackedError::Name),
            // A byte that stands for none.
            (b"\xd2\x01v", PackedError::Name),
            (b"\xd0", PackedError::Short),
            (b"\xcc\x01v", PackedError::Member),
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
    fn a_list_has_each_name_once_and_at_most_48() {
        let read = |names: &[&str]| FieldNames::read(&FieldNames::stored(names.iter().map(|name| name.as_bytes())));
        let many: Vec<String> = (0..49).map(|i| format!("f{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(read(&many[..48]).is_ok());
        assert_eq!(read(&many), Err(PackedError::Name));
        assert_eq!(read(&["a", "b", "a"]), Err(PackedError::Twice));
        assert_eq!(read(&[]), Err(PackedError::Short));
        for stored in [&b"\xc0\x05"[..], b"\x017", b"\xc8\x00\x01a", b"\xc1\x00\x50"] {
            assert_eq!(FieldNames::read(stored), Err(PackedError::Name), "{}", stored.escape_ascii());
        }
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..6),
            (-3..60_i64).prop_map(|number| number.to_string().into_bytes()),
            prop::sample::select(vec!["uid", "ip", "", "7", "47", "48", "07", "\u{d0}"]).prop_map(|text| text.into()),
            (190..194_usize).prop_map(|len| vec![b'x'; len]),
        ]
    }

    fn any_list() -> impl Strategy<Value = FieldNames> {
        prop::collection::hash_set(text(), 1..48)
            .prop_map(|names| FieldNames::read(&FieldNames::stored(names.iter().map(Vec::as_slice))).unwrap())
    }

    proptest! {
        #[test]
        fn any_hash_comes_back(names in any_list(), fields in prop::collection::vec((text(), text(), prop::option::of(0..i64::MAX)), 0..20), passing: bool) {
            let field = |(name, value, expires_at_ms)| (name, Field { value, expires_at_ms });
            let mut packed = Collection::Hash(fields.into_iter().map(field).collect()).packed();
            if packed[0] == EXPIRING_HASH && passing {
                packed[0] = PASSING_HASH;
            }
            let short = shortened(&names, &packed).unwrap();
            prop_assert_eq!(restored(&names, &short), Ok(packed));
        }

        #[test]
        fn a_name_has_one_form_and_no_two_have_the_same(names in any_list(), one in text(), other in text()) {
            let form = names.packed_name(&one);
            prop_assert_eq!(form == names.packed_name(&other), one == other);
            let short = [&form[..], b"\x01v"].concat();
            prop_assert_eq!(restored(&names, &short), Ok([&[HASH][..], &packed_text(&one), b"\x01v"].concat()));
            prop_assert!(form.len() <= packed_text(&one).len() + usize::from(form.len() == 2 && form[0] == INTEGER));
        }

        #[test]
        fn hostile_bytes_come_back_or_are_refused(names in any_list(), head in 0x40..0x46_u8, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let packed = [&[head], &bytes[..]].concat();
            if let Some(short) = shortened(&names, &packed) {
                prop_assert_eq!(restored(&names, &short), Ok(packed));
            }
            if let Ok(packed) = restored(&names, &bytes) {
                prop_assert_eq!(shortened(&names, &packed), Some(bytes.clone()));
            }
            let _ = FieldNames::read(&packed_bytes(&bytes));
        }
    }

    fn packed_bytes(bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|byte| byte & 0xCF).collect()
    }
}
