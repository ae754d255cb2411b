//! base64url without padding, for the bytes of uuids and hex in physical names.
//!
//! ```text
//! 3 bytes  ▶ 4 characters of A–Z a–z 0–9 - _      1 byte over ▶ 2      2 over ▶ 3 (low bits zero)
//! ```

use super::name::Name;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Writes `bytes`.
pub(super) fn encode(bytes: impl IntoIterator<Item = u8>, out: &mut Name) {
    let (mut bits, mut held) = (0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(byte);
        held += 8;
        while held >= 6 {
            held -= 6;
            out.push(ALPHABET[(bits >> held & 63) as usize]);
        }
    }
    if held > 0 {
        out.push(ALPHABET[(bits << (6 - held) & 63) as usize]);
    }
}

/// The bytes that `text`, and no other, stands for.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut held) = (0_u32, 0);
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for &character in text {
        bits = (bits << 6 | value(character)?) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    let spare = bits & ((1 << held) - 1);
    (held < 6 && spare == 0).then_some(bytes)
}

fn value(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn exact(bytes: Vec<u8>, text in "[A-Za-z0-9_-]{0,6}") {
            let encode = |bytes: &[u8]| {
                let mut out = Name::new();
                super::encode(bytes.iter().copied(), &mut out);
                out.into_vec()
            };
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
            if let Some(bytes) = decode(text.as_bytes()) {
                prop_assert_eq!(encode(&bytes), text.as_bytes());
            }
        }
    }
}
