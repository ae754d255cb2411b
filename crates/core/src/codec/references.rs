//! Texts of a key that its value repeats, replaced by one byte each.
//!
//! Cached records mostly name themselves: `city:970` holds `{"id":970,…`. What the key says need not be stored
//! again, and what is left is more alike from value to value.
//!
//! ```text
//! 0x01 … 0x04   the text of the first … fourth placeholder
//! 0x00 b        the byte b, where b is 0x00 … 0x04
//! ```
//! Only texts of 3 bytes and more are replaced.

use super::{CodecError, Owner};

const ESCAPE: u8 = 0;
const MAX_TEXTS: usize = 4;
const MIN_TEXT: usize = 3;

/// Whether a byte of a value would read as one of ours.
fn is_ours(byte: u8) -> bool {
    usize::from(byte) <= MAX_TEXTS
}

/// Appends the value with its key's texts replaced.
pub(super) fn replace(value: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) {
    let texts = owner.texts();
    let is_used = |text: &[u8]| text.len() >= MIN_TEXT && memchr::memmem::find(value, text).is_some();
    let used: smallvec::SmallVec<[(u8, &[u8]); MAX_TEXTS]> =
        (1..).zip(texts.iter().copied().take(MAX_TEXTS)).filter(|(_, text)| is_used(text)).collect();
    let mut rest = value;
    while let Some(&byte) = rest.first() {
        let found = used.iter().find(|(_, text)| text[0] == byte && rest.starts_with(text));
        if let Some((number, text)) = found {
            out.push(*number);
            rest = &rest[text.len()..];
            continue;
        }
        if is_ours(byte) {
            out.push(ESCAPE);
        }
        out.push(byte);
        rest = &rest[1..];
    }
}

/// Appends the value that [`replace`] was given: at most so many bytes, as one byte may stand for a long text.
pub(super) fn restore(
    replaced: &[u8],
    owner: &Owner<'_>,
    max_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let texts = owner.texts();
    let most = out.len() + max_bytes;
    let mut rest = replaced;
    loop {
        if out.len() > most {
            return Err(CodecError::payload(format!("it is longer than {max_bytes} bytes")));
        }
        let plain = rest.iter().position(|byte| is_ours(*byte)).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..plain]);
        rest = match &rest[plain..] {
            [] => return Ok(()),
            [ESCAPE, byte, rest @ ..] if is_ours(*byte) => {
                out.push(*byte);
                rest
            }
            [ESCAPE, ..] => return Err(CodecError::payload("an escape of nothing")),
            [number, rest @ ..] => {
                let text = texts.get(usize::from(*number) - 1);
                out.extend_from_slice(text.ok_or_else(|| CodecError::payload("a reference to no part of the key"))?);
                rest
            }
        };
    }
}
