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

use memchr::{memchr2, memchr3, memmem};
use smallvec::SmallVec;

use super::{CodecError, Owner};

const ESCAPE: u8 = 0;
const MAX_TEXTS: usize = 4;
const MIN_TEXT: usize = 3;

/// Whether a byte of a value would read as one of ours.
fn is_ours(byte: u8) -> bool {
    usize::from(byte) <= MAX_TEXTS
}

/// Appends the value with its key's texts replaced: of what begins in one place, the text of the first placeholder.
///
/// Most of a value is copied in a few long runs: it is searched for the texts, and for bytes of ours, many bytes at a time.
pub(super) fn replace(value: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) {
    let texts = owner.texts();
    let mut used: SmallVec<[Sought<'_>; MAX_TEXTS]> = (1..)
        .zip(texts.iter().take(MAX_TEXTS))
        .filter(|(_, text)| text.len() >= MIN_TEXT)
        .filter_map(|(number, text)| Some(Sought { number, text, next: memmem::find(value, text)? }))
        .collect();
    let end = value.len();
    let (mut at, mut all_ours) =
        (0, Ours { low: memchr3(0, 1, 2, value).unwrap_or(end), high: memchr2(3, 4, value).unwrap_or(end) });
    loop {
        let ours = all_ours.next_from(at, value);
        used.iter_mut().for_each(|sought| sought.look_from(at, value));
        let found = used.iter().min_by_key(|sought| (sought.next, sought.number)).filter(|sought| sought.next <= ours);
        if let Some(Sought { number, text, next }) = found.filter(|sought| sought.next < end) {
            out.extend_from_slice(&value[at..*next]);
            out.push(*number);
            at = next + text.len();
        } else if ours < end {
            out.extend_from_slice(&value[at..ours]);
            out.extend_from_slice(&[ESCAPE, value[ours]]);
            at = ours + 1;
        } else {
            out.extend_from_slice(&value[at..]);
            return;
        }
    }
}

/// A text of a key.
struct Sought<'t> {
    number: u8,
    text: &'t [u8],
    /// Where it is next in the value; the value's end where it is not.
    next: usize,
}

impl Sought<'_> {
    fn look_from(&mut self, at: usize, value: &[u8]) {
        if self.next < at {
            self.next = memmem::find(&value[at..], self.text).map_or(value.len(), |found| at + found);
        }
    }
}

/// Where the next bytes are that would read as ours; the value's end where there are none. Each is kept until it is passed, so
/// that no part of a value is searched twice.
struct Ours {
    /// Of 0, 1 and 2.
    low: usize,
    /// Of 3 and 4.
    high: usize,
}

impl Ours {
    /// The next one that isn't before `at`.
    fn next_from(&mut self, at: usize, value: &[u8]) -> usize {
        if self.low < at {
            self.low = memchr3(0, 1, 2, &value[at..]).map_or(value.len(), |found| at + found);
        }
        if self.high < at {
            self.high = memchr2(3, 4, &value[at..]).map_or(value.len(), |found| at + found);
        }
        self.low.min(self.high)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::template::Template;

    /// The same, one byte after the other.
    fn replaced_plainly(value: &[u8], texts: &[&[u8]]) -> Vec<u8> {
        let (mut out, mut rest) = (Vec::new(), value);
        while let Some(&byte) = rest.first() {
            let mut texts = (1..).zip(texts.iter().take(MAX_TEXTS));
            if let Some((number, text)) = texts.find(|(_, text)| text.len() >= MIN_TEXT && rest.starts_with(text)) {
                out.push(number);
                rest = &rest[text.len()..];
                continue;
            }
            out.extend(is_ours(byte).then_some(ESCAPE));
            out.push(byte);
            rest = &rest[1..];
        }
        out
    }

    proptest! {
        #[test]
        fn runs_are_what_single_bytes_come_to(
            texts in prop::collection::vec("[ab]{1,5}", 2),
            value in prop::collection::vec(prop::sample::select(&b"ab\x00\x01\x02\x03\x04\x05"[..]), 0..60),
        ) {
            let template = Template::parse("k:{x}:{y}").unwrap();
            let key = format!("k:{}:{}", texts[0], texts[1]);
            let (templates, mut out, mut back) = ([template], Vec::new(), Vec::new());
            let owner = Owner::new(&templates, key.as_bytes());
            prop_assert_eq!(owner.texts().len(), 2);
            replace(&value, &owner, &mut out);
            prop_assert_eq!(&out, &replaced_plainly(&value, &owner.texts()));
            restore(&out, &owner, 1000, &mut back).unwrap();
            prop_assert_eq!(back, value);
        }
    }
}
