//! Stored values: what a bucket's field holds.
//!
//! A value is stored raw, just as it is, unless its first byte is below 0x20 or it needs more than its
//! bytes. Then it is a frame:
//!
//! ```text
//! ┌─────┬──────────────────┬────────────────────────────┐
//! │ tag │ expiry: 0, 5, 8  │ body                       │
//! └─────┴──────────────────┴────────────────────────────┘
//! tag   000c bbee
//!   ee  0  no expiry                c=0 bb  0  the value's bytes
//!       1  5 bytes, milliseconds            1  an integer, 1 to 8 bytes, two's complement
//!          since 2020-01-01                 2  spilled: 8 bytes, the nonce of the spill key; where a codec
//!       2  8 bytes, milliseconds               wrote what lies there, 1 byte more, its slot
//!                                              more than that: it lies in parts; their header
//!          since 1970-01-01                 3  coded: 1 byte, the codec's slot; then the payload
//!                                   c=1 bb  coded by the codec in slot bb, 0 to 3; the payload
//! ```
//!
//! All numbers are big-endian. So plain text and integers cost nothing extra and stay what they are for the
//! server; an integer that needs a frame is kept in as few bytes as it takes. Each value and expiry has
//! exactly one raw-or-frame form without a codec, and the empty value is the empty string. A codec in one of the
//! first four slots costs one byte a value.
//!
//! A *tombstone* is a frame that has already expired.

use crate::collection::parts::HEADER_BYTES;

/// Milliseconds from 1970-01-01 to 2020-01-01, where the 5-byte expiry starts. It reaches to 2054.
const SHORT_EPOCH_MS: i64 = 1_577_836_800_000;
const SHORT_EXPIRY_LIMIT: i64 = 1 << 40;

/// First bytes below this are tags.
const TAG_LIMIT: u8 = 0x20;

const EXPIRY_NONE: u8 = 0;
const EXPIRY_SHORT: u8 = 1;
const EXPIRY_LONG: u8 = 2;

const BODY_RAW: u8 = 0;
const BODY_INTEGER: u8 = 1;
const BODY_SPILL: u8 = 2;
const BODY_CODED: u8 = 3;

/// With this bit the body is coded, and its bits are the slot.
const SHORT_CODED: u8 = 0x10;
/// Slots below this fit there.
const SHORT_SLOTS: u8 = 4;

/// A stored value, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When it expires, in milliseconds since 1970, or never.
    pub expires_at_ms: Option<i64>,
    /// What it holds.
    pub body: Body<'a>,
}

/// What a stored value holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The value itself.
    Raw(&'a [u8]),
    /// The value is this number in decimal.
    Integer(i64),
    /// The value lies in a spill key.
    Spill {
        /// What tells that key from others of the same logical key.
        nonce: u64,
        /// The slot of the codec that wrote what lies there; none for the value as it is.
        slot: Option<u8>,
    },
    /// The value is a collection that lies in parts.
    Parts {
        /// What tells them from the parts of others.
        nonce: u64,
        /// How much there is of them ([`crate::collection::parts::Header`]).
        header: &'a [u8],
    },
    /// The value, by the codec in this slot of the namespace.
    Coded {
        /// The codec's slot.
        slot: u8,
        /// What the codec wrote.
        payload: &'a [u8],
    },
}

impl Body<'_> {
    /// Appends the frame of this body with an expiry, or the raw value where there is no need of a frame.
    pub fn encode(&self, expires_at_ms: Option<i64>, out: &mut Vec<u8>) {
        match *self {
            Self::Raw(value) => encode(value, expires_at_ms, out),
            Self::Integer(number) => encode(itoa::Buffer::new().format(number).as_bytes(), expires_at_ms, out),
            Self::Spill { nonce, slot } => encode_spill(nonce, slot, expires_at_ms, out),
            Self::Parts { nonce, header } => encode_parts(nonce, header, expires_at_ms, out),
            Self::Coded { slot, payload } => {
                write_coded_head(slot, expires_at_ms, out);
                out.extend_from_slice(payload);
            }
        }
    }

    /// Whether the value lies in the spill key, or the parts, with this nonce.
    pub fn points_to(&self, nonce: u64) -> bool {
        matches!(self, Self::Spill { nonce: found, .. } | Self::Parts { nonce: found, .. } if *found == nonce)
    }
}

/// A stored value that no version of this format wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The tag has bits that mean nothing yet.
    #[error("stored value with unknown tag 0x{0:02x}; was it written by a newer keyfold, or past the proxy?")]
    UnknownTag(u8),
    /// The frame ends before what its tag announces, or goes on behind it.
    #[error("damaged stored value \"{0}\"")]
    Damaged(String),
}

impl<'a> Frame<'a> {
    /// Takes a stored value apart.
    ///
    /// # Errors
    /// Bytes that no value is stored as.
    pub fn decode(stored: &'a [u8]) -> Result<Self, FrameError> {
        let Some((&tag, rest)) = stored.split_first().filter(|(tag, _)| **tag < TAG_LIMIT) else {
            return Ok(Self { expires_at_ms: None, body: Body::Raw(stored) });
        };
        let damaged = || FrameError::Damaged(stored[..stored.len().min(32)].escape_ascii().to_string());
        let (expires_at_ms, rest) = match tag & 3 {
            EXPIRY_NONE => (None, rest),
            EXPIRY_SHORT => {
                let (bytes, rest) = rest.split_first_chunk::<5>().ok_or_else(damaged)?;
                let since = bytes.iter().fold(0, |sum, byte| sum << 8 | i64::from(*byte));
                (Some(SHORT_EPOCH_MS + since), rest)
            }
            EXPIRY_LONG => {
                let (bytes, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
                (Some(i64::from_be_bytes(*bytes)), rest)
            }
            _ => return Err(FrameError::UnknownTag(tag)),
        };
        let body = match tag >> 2 {
            _ if tag & SHORT_CODED != 0 => Body::Coded { slot: tag >> 2 & 3, payload: rest },
            BODY_RAW => Body::Raw(rest),
            BODY_INTEGER => Body::Integer(read_integer(rest).ok_or_else(damaged)?),
            BODY_SPILL => {
                let (nonce, slot) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
                let nonce = u64::from_be_bytes(*nonce);
                match slot {
                    [] => Body::Spill { nonce, slot: None },
                    [slot] => Body::Spill { nonce, slot: Some(*slot) },
                    header if header.len() == HEADER_BYTES => Body::Parts { nonce, header },
                    _ => return Err(damaged()),
                }
            }
            BODY_CODED => {
                let (&slot, payload) = rest.split_first().ok_or_else(damaged)?;
                Body::Coded { slot, payload }
            }
            _ => return Err(FrameError::UnknownTag(tag)),
        };
        Ok(Self { expires_at_ms, body })
    }

    /// Whether it reads as absent at `now_ms`. Like the server's, an expiry is over once its millisecond is.
    pub fn expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at| at < now_ms)
    }
}

/// Whether a stored value is its value, as it is: every value but a frame. Cheap, for the way of a GET.
pub fn is_raw(stored: &[u8]) -> bool {
    stored.first().is_none_or(|first| *first >= TAG_LIMIT)
}

/// Appends a value as it is stored.
pub fn encode(value: &[u8], expires_at_ms: Option<i64>, out: &mut Vec<u8>) {
    if expires_at_ms.is_none() && is_raw(value) {
        out.extend_from_slice(value);
        return;
    }
    match parse_canonical(value) {
        Some(number) => {
            write_head(BODY_INTEGER, expires_at_ms, out);
            write_integer(number, out);
        }
        None => {
            write_head(BODY_RAW, expires_at_ms, out);
            out.extend_from_slice(value);
        }
    }
}

/// Appends the frame of a value that lies in the spill key with this nonce, perhaps by the codec in `slot`.
pub fn encode_spill(nonce: u64, slot: Option<u8>, expires_at_ms: Option<i64>, out: &mut Vec<u8>) {
    write_head(BODY_SPILL, expires_at_ms, out);
    out.extend_from_slice(&nonce.to_be_bytes());
    out.extend(slot);
}

/// Appends the frame of a collection that lies in the parts with this nonce.
pub fn encode_parts(nonce: u64, header: &[u8], expires_at_ms: Option<i64>, out: &mut Vec<u8>) {
    encode_spill(nonce, None, expires_at_ms, out);
    out.extend_from_slice(header);
}

/// Appends what stands before the payload of a coded value.
pub fn write_coded_head(slot: u8, expires_at_ms: Option<i64>, out: &mut Vec<u8>) {
    if slot < SHORT_SLOTS {
        write_head(SHORT_CODED >> 2 | slot, expires_at_ms, out);
    } else {
        write_head(BODY_CODED, expires_at_ms, out);
        // Behind the expiry, where the body begins.
        out.push(slot);
    }
}

/// The tag of a coded value that doesn't expire, where it says the slot by itself.
pub(crate) fn coded_tag(slot: u8) -> Option<u8> {
    (slot < SHORT_SLOTS).then_some(SHORT_CODED | slot << 2)
}

/// How many bytes a value takes without a codec: what [`encode`] appends. An integer may take fewer.
pub fn raw_len(value: &[u8], expires_at_ms: Option<i64>) -> usize {
    let head = match expires_at_ms {
        None if is_raw(value) => 0,
        None => 1,
        Some(at) if short_expiry(at).is_some() => 6,
        Some(_) => 9,
    };
    head + value.len()
}

/// Whether a value is a number in its one decimal form: it is stored as such, without a codec.
pub fn is_integer(value: &[u8]) -> bool {
    parse_canonical(value).is_some()
}

/// The 5-byte form of an expiry, where it has one.
pub(crate) fn short_expiry(at: i64) -> Option<i64> {
    at.checked_sub(SHORT_EPOCH_MS).filter(|since| (0..SHORT_EXPIRY_LIMIT).contains(since))
}

fn write_head(body: u8, expires_at_ms: Option<i64>, out: &mut Vec<u8>) {
    let Some(at) = expires_at_ms else {
        out.push(body << 2 | EXPIRY_NONE);
        return;
    };
    if let Some(since) = short_expiry(at) {
        out.push(body << 2 | EXPIRY_SHORT);
        out.extend_from_slice(&since.to_be_bytes()[3..]);
    } else {
        out.push(body << 2 | EXPIRY_LONG);
        out.extend_from_slice(&at.to_be_bytes());
    }
}

fn write_integer(number: i64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let fits = |skip: usize| number << (8 * skip) >> (8 * skip) == number;
    let skip = (1..8).rev().find(|skip| fits(*skip)).unwrap_or(0);
    out.extend_from_slice(&bytes[skip..]);
}

fn read_integer(bytes: &[u8]) -> Option<i64> {
    let (first, rest) = bytes.split_first().filter(|_| bytes.len() <= 8)?;
    let start = i64::from(first.cast_signed());
    Some(rest.iter().fold(start, |sum, byte| sum << 8 | i64::from(*byte)))
}

/// The number that `text` is the one decimal form of.
fn parse_canonical(text: &[u8]) -> Option<i64> {
    if text.len() > 20 {
        return None;
    }
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (itoa::Buffer::new().format(number).as_bytes() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(value: &[u8], expires_at_ms: Option<i64>) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value, expires_at_ms, &mut out);
        out
    }

    fn value(frame: &Frame<'_>) -> Vec<u8> {
        match frame.body {
            Body::Raw(bytes) => bytes.to_vec(),
            Body::Integer(number) => number.to_string().into_bytes(),
            other => panic!("no value: {other:?}"),
        }
    }

    #[test]
    fn plain_text_and_integers_cost_nothing() {
        assert_eq!(encoded(b"hello", None), b"hello");
        assert_eq!(encoded(b"-17", None), b"-17");
        assert_eq!(encoded(b"", None), b"");
        assert_eq!(encoded(b"\x1f", None), b"\x00\x1f");
    }

    #[test]
    fn an_expiry_costs_six_bytes_and_an_integer_as_few_as_it_takes() {
        let soon = Some(SHORT_EPOCH_MS + 0x0102_0304_0506);
        assert_eq!(encoded(b"ab", Some(SHORT_EPOCH_MS + 0x02_0304_0506)), b"\x01\x02\x03\x04\x05\x06ab");
        assert_eq!(encoded(b"ab", soon)[0], EXPIRY_LONG);
        assert_eq!(encoded(b"5", Some(SHORT_EPOCH_MS)), b"\x05\0\0\0\0\0\x05");
        assert_eq!(encoded(b"-129", Some(SHORT_EPOCH_MS)), b"\x05\0\0\0\0\0\xff\x7f");
        assert_eq!(encoded(b"2147483647", Some(SHORT_EPOCH_MS)).len(), 10);
        assert_eq!(encoded(b"05", Some(SHORT_EPOCH_MS)), b"\x01\0\0\0\0\x0005");
        assert_eq!(encoded(b"", Some(SHORT_EPOCH_MS)), b"\x01\0\0\0\0\0");
    }

    #[test]
    fn an_expiry_is_over_once_its_millisecond_is() {
        let stored = encoded(b"a", Some(SHORT_EPOCH_MS));
        let frame = Frame::decode(&stored).unwrap();
        assert!(!frame.expired(SHORT_EPOCH_MS));
        assert!(frame.expired(SHORT_EPOCH_MS + 1));
    }

    #[test]
    fn what_nothing_was_stored_as_is_an_error() {
        assert_eq!(Frame::decode(b"\x13"), Err(FrameError::UnknownTag(0x13)));
        assert_eq!(Frame::decode(b"\x03aaaaaaaa"), Err(FrameError::UnknownTag(3)));
        for damaged in [&b"\x01\0\0\0\0"[..], b"\x04", b"\x04123456789", b"\x081234567", b"\x081234567890", b"\x0c"] {
            assert!(matches!(Frame::decode(damaged), Err(FrameError::Damaged(_))), "{}", damaged.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_value_and_expiry_come_back(bytes in prop::collection::vec(any::<u8>(), 0..40), at in prop::option::of(any::<i64>())) {
            let stored = encoded(&bytes, at);
            let frame = Frame::decode(&stored).unwrap();
            prop_assert_eq!(value(&frame), bytes);
            prop_assert_eq!(frame.expires_at_ms, at);
        }

        #[test]
        fn any_integer_comes_back(number in any::<i64>(), shift in 0..63, at in prop::option::of(SHORT_EPOCH_MS..SHORT_EPOCH_MS + SHORT_EXPIRY_LIMIT)) {
            let shifted: i64 = number >> shift;
            let text = shifted.to_string();
            let stored = encoded(text.as_bytes(), at);
            prop_assert_eq!(value(&Frame::decode(&stored).unwrap()), text.as_bytes());
            prop_assert!(stored.len() <= text.len() + 6);
        }

        #[test]
        fn a_spill_comes_back(nonce: u64, slot: Option<u8>, at in prop::option::of(any::<i64>())) {
            let mut stored = Vec::new();
            encode_spill(nonce, slot, at, &mut stored);
            prop_assert_eq!(Frame::decode(&stored), Ok(Frame { expires_at_ms: at, body: Body::Spill { nonce, slot } }));
        }

        #[test]
        fn a_payload_comes_back(slot: u8, payload in prop::collection::vec(any::<u8>(), 0..40), at in prop::option::of(any::<i64>())) {
            let mut stored = Vec::new();
            write_coded_head(slot, at, &mut stored);
            stored.extend_from_slice(&payload);
            prop_assert_eq!(Frame::decode(&stored), Ok(Frame { expires_at_ms: at, body: Body::Coded { slot, payload: &payload } }));
            prop_assert!(!is_raw(&stored));
            if at.is_none() {
                prop_assert_eq!(coded_tag(slot).unwrap_or(BODY_CODED << 2), stored[0]);
            }
        }

        #[test]
        fn the_length_of_a_value_without_a_codec_is_known(bytes in prop::collection::vec(any::<u8>(), 0..40), at in prop::option::of(any::<i64>())) {
            prop_assume!(!is_integer(&bytes));
            prop_assert_eq!(encoded(&bytes, at).len(), raw_len(&bytes, at));
        }

        #[test]
        fn hostile_bytes_never_panic(stored in prop::collection::vec(any::<u8>(), 0..16)) {
            let _ = Frame::decode(&stored);
        }
    }
}
