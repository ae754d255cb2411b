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
//! Where the namespace has a text table (`text_table`), what was text in the key goes through it:
//!
//! ```text
//! one item       text        packed, alone
//! several items              first all that was no text in the key, as above, the last of it with its length too;
//!                            then the texts joined, and packed
//!
//! joined                     text 00 text 00 … text      in all but the last, 00 is written 01 01 and 01 is 01 02
//! ```
//! Texts are joined before they are packed, so that one symbol can spell the end of one and the beginning of the next.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Field;
use super::text_table::TextTable;
use crate::template::{Part, Parts, Type, hex_bytes};

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) struct Form<'t> {
    /// How many items.
    pub(super) len: usize,
    /// Whether the first is the rest of a division; it is bytes that no table packs, if it isn't an int.
    pub(super) is_divided: bool,
    /// What texts are packed with.
    pub(super) table: Option<&'t TextTable>,
}

impl Form<'_> {
    /// Whether text at this position goes through the table.
    fn packs(self, at: usize) -> bool {
        self.table.is_some() && !(self.is_divided && at == 0)
    }

    /// Whether an item that isn't packed has its length before it.
    fn has_length(self, at: usize) -> bool {
        at + 1 < self.len || (self.table.is_some() && self.len > 1)
    }
}

/// Writes the items.
pub(super) fn encode<'p, 'k: 'p>(form: Form<'_>, items: impl Iterator<Item = &'p Part<'k>>, out: &mut Field) {
    let mut texts: SmallVec<[&[u8]; 4]> = SmallVec::new();
    for (at, item) in items.enumerate() {
        match item {
            Part::Int(value) if form.len == 1 => {
                out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
            }
            Part::Int(value) => encode_varint(*value, out),
            Part::Uuid(bits) => out.extend_from_slice(&bits.to_be_bytes()),
            Part::Hex(digits) => {
                if form.has_length(at) {
                    encode_varint(digits.len() as u64 / 2, out);
                }
                out.extend(hex_bytes(digits));
            }
            Part::Text(text) if form.packs(at) => texts.push(text),
            Part::Text(text) => {
                if form.has_length(at) {
                    encode_varint(text.len() as u64, out);
                }
                out.extend_from_slice(text);
            }
        }
    }
    match (form.table, texts.as_slice()) {
        (Some(table), [text]) if form.len == 1 => table.pack_alone(text, out),
        (Some(table), [text]) => table.pack(text, out),
        (Some(table), [_, _, ..]) => {
            let mut joined = Joined::new();
            join(&texts, &mut joined);
            table.pack(&joined, out);
        }
        _ => {}
    }
}

/// Reads one item of each of `kinds`.
///
/// What [`encode`] wrote gives the same items. Other bytes may give some too: the caller encodes what
/// came of them again, and compares.
pub(super) fn decode<'f>(form: Form<'_>, kinds: impl Iterator<Item = Type>, field: &'f [u8]) -> Option<Parts<'f>> {
    let mut rest = field;
    let mut items = Parts::new();
    let mut packed: SmallVec<[usize; 4]> = SmallVec::new();
    for (at, kind) in kinds.enumerate() {
        items.push(match kind {
            Type::Int | Type::Padded(_) if form.len == 1 => Part::Int(decode_decimal(std::mem::take(&mut rest))?),
            Type::Int | Type::Padded(_) => Part::Int(decode_varint(&mut rest)?),
            Type::Uuid => Part::Uuid(u128::from_be_bytes(rest.split_off(..16)?.try_into().ok()?)),
            Type::Hex => Part::hex(decode_bytes(form.has_length(at), &mut rest)?.iter().copied()),
            Type::Text if form.packs(at) => {
                packed.push(at);
                Part::Text(Cow::Borrowed(&[]))
            }
            Type::Text => Part::Text(Cow::Borrowed(decode_bytes(form.has_length(at), &mut rest)?)),
        });
    }
    if let (Some(table), Some((last, before))) = (form.table, packed.split_last()) {
        let joined = table.unpack(std::mem::take(&mut rest))?;
        let mut texts = joined.as_slice();
        for at in before {
            items[*at] = Part::Text(Cow::Owned(split_first(&mut texts)?));
        }
        items[*last] = Part::Text(Cow::Owned(texts.to_vec()));
    }
    rest.is_empty().then_some(items)
}

/// Texts before they are packed. Up to 128 bytes take no allocation.
type Joined = SmallVec<[u8; 128]>;

/// Ends a text before another.
const END: u8 = 0;
/// The escape byte: before the byte that stands for [`END`], or for the escape byte itself.
const MEANT: u8 = 1;
const MEANT_END: u8 = 1;
const MEANT_MEANT: u8 = 2;

fn join(texts: &[&[u8]], out: &mut Joined) {
    let Some((last, before)) = texts.split_last() else { return };
    for text in before {
        if text.iter().all(|byte| *byte > MEANT) {
            out.extend_from_slice(text);
        } else {
            text.iter().for_each(|byte| match *byte {
                END => out.extend_from_slice(&[MEANT, MEANT_END]),
                MEANT => out.extend_from_slice(&[MEANT, MEANT_MEANT]),
                other => out.push(other),
            });
        }
        out.push(END);
    }
    out.extend_from_slice(last);
}

/// The first of several joined texts.
fn split_first(joined: &mut &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        match *joined.split_off_first()? {
            END => return Some(text),
            MEANT => text.push(match *joined.split_off_first()? {
                MEANT_END => END,
                MEANT_MEANT => MEANT,
                _ => return None,
            }),
            other => text.push(other),
        }
    }
}

/// What a table would pack of these texts, to train it with.
pub(super) fn join_texts(texts: &[&[u8]]) -> Vec<u8> {
    let mut joined = Joined::new();
    join(texts, &mut joined);
    joined.into_vec()
}

fn decode_bytes<'f>(has_length: bool, rest: &mut &'f [u8]) -> Option<&'f [u8]> {
    let len = if has_length { usize::try_from(decode_varint(rest)?).ok()? } else { rest.len() };
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
