//! *zipped*: a key of its own, with a short name.
//!
//! ```text
//! page:{path}                    page:/docs/a      ▶  ~hY3p=/docs/a
//! seen:{user:int}:{item:uuid}    seen:9000:018f…   ▶  ~b0Qk=2LA:AY8AAAAAcACAAAAAAAAA_w
//!
//! int, int(n)   base62 of the number
//! uuid          22 characters of base64url
//! hex           base64url
//! text          last: as it is.  Before another: its length in base62, `:`, as it is
//! ```
//! A part before another, text excepted, ends with `:`, which none of their alphabets has.

use std::borrow::Cow;

use super::base64;
use super::name::{self, Mark, Name, Origin};
use crate::base62;
use crate::template::{Part, Parts, Template, Type, hex_bytes};

/// Ends a part that another follows.
const SEPARATOR: u8 = b':';

pub(super) fn locate(origin: Origin, parts: &[Part<'_>], name: &mut Name) {
    name::encode_head(origin, Mark::Zipped, name);
    let Some((last, before)) = parts.split_last() else { return };
    for part in before {
        if let Part::Text(text) = part {
            base62::encode(text.len() as u64, name);
            name.push(SEPARATOR);
            name.extend_from_slice(text);
        } else {
            encode_part(part, name);
            name.push(SEPARATOR);
        }
    }
    encode_part(last, name);
}

pub(super) fn decode<'a>(template: &Template, zipped: &'a [u8]) -> Option<Parts<'a>> {
    let (last, before) = template.placeholders().split_last()?;
    let mut rest = zipped;
    let mut parts = Parts::new();
    for placeholder in before {
        let separator = memchr::memchr(SEPARATOR, rest)?;
        let encoded = rest.split_off(..separator)?;
        rest.split_off_first();
        if placeholder.kind == Type::Text {
            let len = usize::try_from(base62::decode(encoded)?).ok()?;
            parts.push(Part::Text(Cow::Borrowed(rest.split_off(..len)?)));
        } else {
            parts.push(decode_part(placeholder.kind, encoded)?);
        }
    }
    parts.push(decode_part(last.kind, rest)?);
    Some(parts)
}

/// Writes one part, for a name that ends with it or goes on with another byte than its own.
pub(super) fn encode_part(part: &Part<'_>, name: &mut Name) {
    match part {
        Part::Int(value) => base62::encode(*value, name),
        Part::Uuid(bits) => base64::encode(bits.to_be_bytes(), name),
        Part::Hex(digits) => base64::encode(hex_bytes(digits), name),
        Part::Text(text) => name.extend_from_slice(text),
    }
}

/// The part of type `kind` that [`encode_part`] wrote.
pub(super) fn decode_part(kind: Type, encoded: &[u8]) -> Option<Part<'_>> {
    Some(match kind {
        Type::Int | Type::Padded(_) => Part::Int(base62::decode(encoded)?),
        Type::Uuid => Part::Uuid(u128::from_be_bytes(base64::decode(encoded)?.try_into().ok()?)),
        Type::Hex => Part::hex(base64::decode(encoded)?.into_iter()),
        Type::Text => Part::Text(Cow::Borrowed(encoded)),
    })
}
