//! A key taken apart, and put together again.
//!
//! This runs for every key of every command, so nothing here allocates for keys that clients send.

use std::borrow::Cow;

use memchr::{memchr, memmem};
use smallvec::SmallVec;

use super::{Piece, Template, Type};

/// What one placeholder matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'k> {
    /// `int` and `int(n)`: the number.
    Int(u64),
    /// `uuid`: its 128 bits, the first digit the highest.
    Uuid(u128),
    /// `hex`: its digits, as they stand in the key.
    Hex(Cow<'k, [u8]>),
    /// Text: its bytes.
    Text(Cow<'k, [u8]>),
}

/// One part for each placeholder, in the order of the key.
pub type Parts<'k> = SmallVec<[Part<'k>; 4]>;

/// `i64::MAX` has 19 digits, and every number of 19 digits fits a `u64`.
const MAX_INT_DIGITS: usize = 19;

impl Template {
    /// Takes `key` apart into `parts`, which is empty before; false where it doesn't match canonically,
    /// and `parts` then holds nothing of use.
    pub fn parse_key<'k>(&self, key: &'k [u8], parts: &mut Parts<'k>) -> bool {
        self.take_parts(key, parts).is_some_and(<[u8]>::is_empty)
    }

    /// What stands in `key` for each placeholder; none where it doesn't match canonically.
    pub fn texts<'k>(&self, key: &'k [u8]) -> Option<SmallVec<[&'k [u8]; 4]>> {
        let mut rest = key;
        let mut texts = SmallVec::new();
        for (i, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Literal(literal) => rest = rest.strip_prefix(literal.as_slice())?,
                Piece::Placeholder(kind) => {
                    let (_, after) = self.take_part(i, *kind, rest)?;
                    texts.push(&rest[..rest.len() - after.len()]);
                    rest = after;
                }
            }
        }
        rest.is_empty().then_some(texts)
    }

    /// Takes the parts off the front of `rest`, and says what is left.
    fn take_parts<'k>(&self, mut rest: &'k [u8], parts: &mut Parts<'k>) -> Option<&'k [u8]> {
        for (i, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Literal(literal) => rest = rest.strip_prefix(literal.as_slice())?,
                Piece::Placeholder(kind) => {
                    let (part, after) = self.take_part(i, *kind, rest)?;
                    parts.push(part);
                    rest = after;
                }
            }
        }
        Some(rest)
    }

    /// Takes the part of the piece at `i` off the front of `rest`.
    #[inline]
    fn take_part<'k>(&self, i: usize, kind: Type, rest: &'k [u8]) -> Option<(Part<'k>, &'k [u8])> {
        match kind {
            Type::Int => take_int(rest),
            Type::Padded(width) => take_padded(rest, usize::from(width)),
            Type::Uuid => take_uuid(rest),
            Type::Hex => take_hex(rest),
            Type::Text => take_text(rest, self.pieces.get(i + 1)),
        }
    }

    /// Whether `key` begins as every key of the template does: a quick first look.
    #[inline]
    pub fn begins(&self, key: &[u8]) -> bool {
        match self.pieces.first() {
            Some(Piece::Literal(literal)) => key.first() == literal.first() && key.starts_with(literal),
            _ => true,
        }
    }

    /// The key of these parts: exactly the one that [`Self::parse_key`] took apart.
    ///
    /// Parts from elsewhere may give a key that doesn't match; who decodes outside bytes parses the key
    /// again.
    pub fn render(&self, parts: &[Part<'_>]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.source.len() + 36);
        let mut parts = parts.iter();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => key.extend_from_slice(literal),
                Piece::Placeholder(kind) => {
                    if let Some(part) = parts.next() {
                        render_part(*kind, part, &mut key);
                    }
                }
            }
        }
        key
    }
}

fn take_int(rest: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let len = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(len);
    if digits.is_empty() || digits.len() > MAX_INT_DIGITS || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    let value = decimal(digits)?;
    (value <= i64::MAX.unsigned_abs()).then_some((Part::Int(value), after))
}

fn take_padded(rest: &[u8], width: usize) -> Option<(Part<'_>, &[u8])> {
    let (digits, after) = rest.split_at_checked(width)?;
    Some((Part::Int(decimal(digits)?), after))
}

/// The number that at most 19 digits stand for; none where there is another byte.
fn decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| value * 10 + u64::from(digit))
    })
}

fn take_uuid(rest: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let (text, after) = rest.split_first_chunk::<36>()?;
    if [text[8], text[13], text[18], text[23]] != *b"----" {
        return None;
    }
    // Every digit's nibble is below 16, so the highest bits of the sum of all show a wrong one.
    let mut wrong = 0;
    let mut group = |range: std::ops::Range<usize>| {
        text[range].iter().fold(0_u64, |bits, &byte| {
            let nibble = NIBBLES[usize::from(byte)];
            wrong |= nibble;
            bits << 4 | u64::from(nibble & 15)
        })
    };
    let high = group(0..8) << 32 | group(9..13) << 16 | group(14..18);
    let low = group(19..23) << 48 | group(24..36);
    (wrong < 16).then_some((Part::Uuid(u128::from(high) << 64 | u128::from(low)), after))
}

fn take_hex(rest: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let len = rest.iter().position(|&byte| nibble(byte).is_none()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(len);
    (len >= 2 && len % 2 == 0).then_some((Part::Hex(Cow::Borrowed(digits)), after))
}

fn take_text<'k>(rest: &'k [u8], next: Option<&Piece>) -> Option<(Part<'k>, &'k [u8])> {
    let len = match next {
        Some(Piece::Literal(literal)) => match literal.as_slice() {
            &[byte] => memchr(byte, rest)?,
            literal => memmem::find(rest, literal)?,
        },
        _ => rest.len(),
    };
    let (text, after) = rest.split_at(len);
    Some((Part::Text(Cow::Borrowed(text)), after))
}

fn render_part(kind: Type, part: &Part<'_>, key: &mut Vec<u8>) {
    match part {
        Part::Int(value) => {
            let mut buffer = itoa::Buffer::new();
            let digits = buffer.format(*value).as_bytes();
            if let Type::Padded(width) = kind {
                let zeros = usize::from(width).saturating_sub(digits.len());
                key.resize(key.len() + zeros, b'0');
            }
            key.extend_from_slice(digits);
        }
        Part::Uuid(bits) => render_uuid(*bits, key),
        Part::Hex(bytes) | Part::Text(bytes) => key.extend_from_slice(bytes),
    }
}

/// Appends a uuid's canonical text.
pub(crate) fn render_uuid(bits: u128, out: &mut Vec<u8>) {
    for (i, byte) in bits.to_be_bytes().into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend(hex_digits(byte));
    }
}

/// The uuid whose canonical text this is.
pub(crate) fn parse_uuid(text: &[u8]) -> Option<u128> {
    match take_uuid(text)? {
        (Part::Uuid(bits), []) => Some(bits),
        _ => None,
    }
}

/// Whether a text is an even number of lower-case hexadecimal digits, at least two.
pub(crate) fn is_hex(text: &[u8]) -> bool {
    take_hex(text).is_some_and(|(_, after)| after.is_empty())
}

/// A lower-case hexadecimal digit's value; [`WRONG`] for every other byte.
const NIBBLES: [u8; 256] = {
    let mut table = [WRONG; 256];
    let mut value = 0;
    while value < 16 {
        table[DIGITS[value as usize] as usize] = value;
        value += 1;
    }
    table
};
const WRONG: u8 = 0xf0;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn nibble(byte: u8) -> Option<u8> {
    Some(NIBBLES[usize::from(byte)]).filter(|&nibble| nibble != WRONG)
}

/// The two digits of a byte.
pub(crate) fn hex_digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// The bytes that an even run of digits stands for.
pub(crate) fn hex_bytes(digits: &[u8]) -> impl DoubleEndedIterator<Item = u8> + ExactSizeIterator {
    digits.chunks_exact(2).map(|pair| NIBBLES[usize::from(pair[0])] << 4 | NIBBLES[usize::from(pair[1])] & 15)
}

impl Part<'static> {
    /// The `hex` part of these bytes.
    pub(crate) fn hex(bytes: impl Iterator<Item = u8>) -> Self {
        Part::Hex(Cow::Owned(bytes.flat_map(hex_digits).collect()))
    }
}
