//! A key taken into segments, and what kind of text each is.
//!
//! ```text
//! user:1000:logins            user │ : │ 1000 (int) │ : │ logins
//! thumb_17x32.jpg:fr          thumb_⟨int⟩x⟨int⟩.jpg (a shape) │ : │ fr
//! session-<uuid>              session │ - │ <uuid>               no `:` and the like: split at weaker marks
//! ```

use keyfold_core::template::Type;
use smallvec::SmallVec;

/// What separates the parts of most keys.
const STRONG: &[u8] = b":/|#;,";
/// What separates the parts of keys that have none of those.
const WEAK: &[u8] = b"_-.";
/// Further segments are one.
pub(super) const MAX_SEGMENTS: usize = 12;
/// Longer segments are never literals.
const MAX_LITERAL_BYTES: usize = 64;
/// Hexadecimal shorter than this may be a word.
const MIN_HEX: usize = 8;
/// A shape of more holes is text.
const MAX_HOLES: usize = 4;
const UUID_BYTES: usize = 36;
const MAX_INT_DIGITS: usize = 18;

/// One segment of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'k> {
    pub(super) bytes: &'k [u8],
    /// What follows it; none at the end.
    pub(super) delimiter: Option<u8>,
}

/// A key's segments.
pub(super) type Segments<'k> = SmallVec<[Segment<'k>; MAX_SEGMENTS]>;

/// Takes a key into segments: at strong delimiters where it has any, else at weak ones outside of uuids.
pub(super) fn split(key: &[u8]) -> Segments<'_> {
    let is_strong = key.iter().any(|byte| STRONG.contains(byte));
    let delimiters = if is_strong { STRONG } else { WEAK };
    let mut segments = Segments::new();
    let mut start = 0;
    while segments.len() + 1 < MAX_SEGMENTS {
        let from = if !is_strong && is_uuid(&key[start..], true) { start + UUID_BYTES } else { start };
        let Some(len) = key[from..].iter().position(|byte| delimiters.contains(byte)) else { break };
        let end = from + len;
        segments.push(Segment { bytes: &key[start..end], delimiter: Some(key[end]) });
        start = end + 1;
    }
    segments.push(Segment { bytes: &key[start..], delimiter: None });
    segments
}

/// What a whole segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A placeholder's type, whatever the neighbours are.
    Typed(Type),
    /// A literal, for now.
    Word,
    /// Never a literal: too long, not UTF-8, or with control characters.
    Text,
}

pub(super) fn classify(segment: &[u8]) -> Class {
    match segment {
        [b'0'..=b'9', ..] if segment.iter().all(u8::is_ascii_digit) => digits(segment),
        _ if is_uuid(segment, false) => Class::Typed(Type::Uuid),
        _ if is_hex(segment) => Class::Typed(Type::Hex),
        _ if is_literal(segment) => Class::Word,
        _ => Class::Text,
    }
}

/// Text that can stand in a template.
pub(super) fn is_literal(segment: &[u8]) -> bool {
    segment.len() <= MAX_LITERAL_BYTES
        && segment.iter().all(|byte| *byte >= b' ')
        && std::str::from_utf8(segment).is_ok()
}

fn digits(digits: &[u8]) -> Class {
    match digits {
        [b'0', _, ..] if digits.len() <= MAX_INT_DIGITS => {
            Class::Typed(Type::Padded(u8::try_from(digits.len()).unwrap_or(u8::MAX)))
        }
        _ if int(digits).is_some() => Class::Typed(Type::Int),
        _ if digits.len().is_multiple_of(2) => Class::Typed(Type::Hex),
        _ => Class::Text,
    }
}

/// The number that digits spell, leading zeros or not, where it is one that templates take.
pub(super) fn int(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let value: u64 = text.parse().ok()?;
    (digits[0] != b'+' && i64::try_from(value).is_ok()).then_some(value)
}

fn is_uuid(text: &[u8], may_go_on: bool) -> bool {
    let Some((uuid, rest)) = text.split_first_chunk::<UUID_BYTES>() else { return false };
    let ends = match rest.first() {
        None => true,
        Some(byte) => may_go_on && !byte.is_ascii_alphanumeric(),
    };
    ends && uuid.iter().enumerate().all(|(i, byte)| match i {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => is_hex_digit(*byte),
    })
}

fn is_hex_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Surely hexadecimal: long enough, and with digits and letters.
fn is_hex(text: &[u8]) -> bool {
    text.len() >= MIN_HEX
        && text.len().is_multiple_of(2)
        && text.iter().copied().all(is_hex_digit)
        && text.iter().any(u8::is_ascii_digit)
        && text.iter().any(u8::is_ascii_alphabetic)
}

/// Whether it could be hexadecimal, given that its neighbours are.
pub(super) fn may_be_hex(text: &[u8]) -> bool {
    !text.is_empty() && text.len().is_multiple_of(2) && text.iter().copied().all(is_hex_digit)
}

/// One piece of a shape: literal text, or a hole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Piece {
    Literal(Box<[u8]>),
    Int,
    Padded(u8),
    Uuid,
    Hex,
}

impl Piece {
    pub(super) fn hole(&self) -> Option<Type> {
        match self {
            Self::Literal(_) => None,
            Self::Int => Some(Type::Int),
            Self::Padded(width) => Some(Type::Padded(*width)),
            Self::Uuid => Some(Type::Uuid),
            Self::Hex => Some(Type::Hex),
        }
    }
}

/// A word with holes where it has digits: `thumb_⟨int⟩x⟨int⟩.jpg`.
pub(super) type Shape = Box<[Piece]>;

/// What stands in the holes of a shape.
pub(super) type Holes<'k> = SmallVec<[&'k [u8]; MAX_HOLES]>;

/// The shape of a word, and what stands in its holes; none where it has no hole, or too many.
pub(super) fn shape(word: &[u8]) -> Option<(Shape, Holes<'_>)> {
    if !word.iter().any(u8::is_ascii_digit) {
        return None;
    }
    let mut pieces = Vec::new();
    let mut holes = Holes::new();
    let mut at = 0;
    while at < word.len() {
        let (piece, len) = match hole(word, at) {
            Some((piece, len)) => {
                holes.push(&word[at..at + len]);
                (piece, len)
            }
            None => {
                let end = (at + 1..word.len()).find(|next| hole(word, *next).is_some()).unwrap_or(word.len());
                (Piece::Literal(word[at..end].into()), end - at)
            }
        };
        pieces.push(piece);
        at += len;
        if holes.len() > MAX_HOLES {
            return None;
        }
    }
    (!holes.is_empty()).then(|| (pieces.into_boxed_slice(), holes))
}

/// The hole that begins at `at`, and its length.
fn hole(word: &[u8], at: usize) -> Option<(Piece, usize)> {
    let rest = &word[at..];
    let begins = at == 0 || !word[at - 1].is_ascii_alphanumeric();
    if begins && is_uuid(rest, true) {
        return Some((Piece::Uuid, UUID_BYTES));
    }
    if begins {
        let run = rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if is_hex(&rest[..run]) {
            return Some((Piece::Hex, run));
        }
    }
    if at > 0 && word[at - 1].is_ascii_digit() {
        return None;
    }
    let run = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    match digits(rest.get(..run).filter(|run| !run.is_empty())?) {
        Class::Typed(Type::Int) => Some((Piece::Int, run)),
        Class::Typed(Type::Padded(width)) => Some((Piece::Padded(width), run)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(key: &str) -> Vec<String> {
        split(key.as_bytes()).iter().map(|segment| segment.bytes.escape_ascii().to_string()).collect()
    }

    #[test]
    fn keys_are_split_at_their_strongest_delimiters() {
        assert_eq!(parts("user:1000:logins"), ["user", "1000", "logins"]);
        assert_eq!(parts("set-books:7"), ["set-books", "7"]);
        assert_eq!(parts("user_7_name"), ["user", "7", "name"]);
        let uuid = "00268a75-3243-477d-9166-8c78fddf6df6";
        assert_eq!(parts(uuid), [uuid]);
        assert_eq!(parts(&format!("session-{uuid}")), ["session", uuid]);
        assert_eq!(parts(""), [""]);
        assert_eq!(parts(&"a:".repeat(40)).len(), MAX_SEGMENTS);
    }

    #[test]
    fn classes() {
        let class = |text: &str| classify(text.as_bytes());
        assert_eq!(class("0"), Class::Typed(Type::Int));
        assert_eq!(class("9223372036854775807"), Class::Typed(Type::Int));
        assert_eq!(class("9223372036854775808"), Class::Text);
        assert_eq!(class("007"), Class::Typed(Type::Padded(3)));
        assert_eq!(class("3a2118df"), Class::Typed(Type::Hex));
        assert_eq!(class("decade"), Class::Word);
        assert_eq!(class("00268a75-3243-477d-9166-8c78fddf6df6"), Class::Typed(Type::Uuid));
        assert_eq!(class("00268A75-3243-477D-9166-8C78FDDF6DF6"), Class::Word);
        assert_eq!(classify(b"\xff\xfe"), Class::Text);
    }

    #[test]
    fn shapes_have_holes_where_there_are_digits() {
        let (pieces, holes) = shape(b"thumb_17x032.jpg").unwrap();
        let lit = |text: &str| Piece::Literal(text.as_bytes().into());
        assert_eq!(*pieces, [lit("thumb_"), Piece::Int, lit("x"), Piece::Padded(3), lit(".jpg")]);
        assert_eq!(holes.as_slice(), [&b"17"[..], b"032"]);
        assert_eq!(shape(b"word"), None);
    }
}
