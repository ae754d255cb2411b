//! Fields: what listpacks store small, and what tells where it ends.
//!
//! A field holds items: the parts of the key that its bucket's name doesn't say, and where a part was
//! divided, the rest of the division.
//!
//! ```text
//! one item       int         decimal text, which a listpack stores as 1 to 9 bytes
//!                uuid        16 bytes
//!                hex, text   its bytes
//! several items, one after another:
//!                int         varint: 7 bits a byte, the lowest first, the high bit set on all but the last
//!                uuid        16 bytes
//!                hex, text   varint length, bytes; the last item only its bytes
//! ```

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::template::{Part, Parts, Type, hex_bytes};

/// A field of a bucket. Up to 64 bytes take no allocation.
pub type Field = SmallVec<[u8; 64]>;

/// Writes `len` items.
pub(super) fn encode<'p, 'k: 'p>(len: usize, items: impl Iterator<Item = &'p Part<'k>>, out: &mut Field) {
    for (i, item) in items.enumerate() {
        let last = i + 1 == len;
        match item {
            Part::Int(value) if len == 1 => {
                out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
            }
            Part::Int(value) => encode_varint(*value, out),
            Part::Uuid(bits) => out.extend_from_slice(&bits.to_be_bytes()),
            Part::Hex(digits) => {
                if !last {
                    encode_varint(digits.len() as u64 / 2, out);
                }
                out.extend(hex_bytes(digits));
            }
            Part::Text(text) => {
                if !last {
                    encode_varint(text.len() as u64, out);
                }
                out.extend_from_slice(text);
            }
        }
    }
}

/// Reads one item of each of `kinds`.
///
/// What [`encode`] wrote gives the same items. Other bytes may give some too: the caller encodes what
/// came of them again, and compares.
pub(super) fn decode<'f>(len: usize, kinds: impl Iterator<Item = Type>, field: &'f [u8]) -> Option<Parts<'f>> {
    let mut rest = field;
    let mut items = Parts::new();
    for (i, kind) in kinds.enumerate() {
        let last = i + 1 == len;
        items.push(match kind {
            Type::Int | Type::Padded(_) if len == 1 => Part::Int(decode_decimal(std::mem::take(&mut rest))?),
            Type::Int | Type::Padded(_) => Part::Int(decode_varint(&mut rest)?),
            Type::Uuid => Part::Uuid(u128::from_be_bytes(rest.split_off(..16)?.try_into().ok()?)),
            Type::Hex => Part::hex(decode_bytes(last, &mut rest)?.iter().copied()),
            Type::Text => Part::Text(Cow::Borrowed(decode_bytes(last, &mut rest)?)),
        });
    }
    rest.is_empty().then_some(items)
}

fn decode_bytes<'f>(last: bool, rest: &mut &'f [u8]) -> Option<&'f [u8]> {
    let len = if last { rest.len() } else { usize::try_from(decode_varint(rest)?).ok()? };
    rest.split_off(..len)
}

/// Digits only: `str::parse` would also take a sign.
fn decode_decimal(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn encode_varint(mut value: u64, out: &mut Field) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

fn decode_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
