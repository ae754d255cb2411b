//! Physical names: short, printable where the key is, and told apart by their first bytes.
//!
//! ```text
//! ~ {ns} : {bucket}             a bucket
//! ~ {ns} ; {bucket}             a bucket of whole parts (see `count.rs`)
//! ~ {ns} = {parts}              a key of its own, zipped
//! ~ {ns} ! {nonce} : {key}      a spilled value; {key} is the logical key as it is
//! ```
//! `{ns}` and `{nonce}` are numbers in base62 (`0`–`9`, `A`–`Z`, `a`–`z`; no leading zeros), and so is
//! `{bucket}` except where a bucket is named *by* a part. Encoding and decoding are exact inverses.

use smallvec::SmallVec;

/// The first byte of every physical name.
pub const DATA_PREFIX: u8 = b'~';
/// What the keys that administer the layout begin with.
pub const ADMINISTRATION_PREFIX: &[u8] = b"keyfold:";

/// A physical name. Up to 48 bytes take no allocation.
pub type Name = SmallVec<[u8; 48]>;

/// The byte after the namespace: what kind of thing a physical name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// A bucket.
    Bucket,
    /// A bucket whose fields hold whole parts.
    WholeBucket,
    /// A zipped key.
    Zipped,
    /// A spilled value.
    Spill,
}

impl Mark {
    /// Its byte.
    pub fn byte(self) -> u8 {
        match self {
            Self::Bucket => b':',
            Self::WholeBucket => b';',
            Self::Zipped => b'=',
            Self::Spill => b'!',
        }
    }

    fn of(byte: u8) -> Option<Self> {
        [Self::Bucket, Self::WholeBucket, Self::Zipped, Self::Spill].into_iter().find(|mark| mark.byte() == byte)
    }
}

/// Begins a physical name: the prefix, the namespace and the mark.
pub fn encode_head(namespace: u32, mark: Mark, out: &mut Name) {
    out.push(DATA_PREFIX);
    encode_base62(u64::from(namespace), out);
    out.push(mark.byte());
}

/// The namespace, the mark, and what follows them.
pub fn decode_head(name: &[u8]) -> Option<(u32, Mark, &[u8])> {
    let rest = name.strip_prefix(&[DATA_PREFIX])?;
    let len = rest.iter().position(|byte| !byte.is_ascii_alphanumeric())?;
    let namespace = u32::try_from(decode_base62(&rest[..len])?).ok()?;
    Some((namespace, Mark::of(rest[len])?, &rest[len + 1..]))
}

/// The nonce and the logical key in what follows a spill's mark.
pub fn decode_spill(rest: &[u8]) -> Option<(u64, &[u8])> {
    let colon = memchr::memchr(b':', rest)?;
    Some((decode_base62(&rest[..colon])?, &rest[colon + 1..]))
}

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// `u64::MAX` has 11 digits.
const BASE62_DIGITS: usize = 11;

/// Writes a number in base62.
pub fn encode_base62(mut number: u64, out: &mut Name) {
    // Most namespaces' ids, without a copy of one byte.
    if number < 62 {
        return out.push(BASE62[(number % 62) as usize]);
    }
    let mut digits = [0; BASE62_DIGITS];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = BASE62[(number % 62) as usize];
        number /= 62;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The number that these digits, and no others, stand for.
pub fn decode_base62(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'A'..=b'Z' => byte - b'A' + 10,
            b'a'..=b'z' => byte - b'a' + 36,
            _ => return None,
        };
        number.checked_mul(62)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base62(number: u64) -> Vec<u8> {
        let mut out = Name::new();
        encode_base62(number, &mut out);
        out.into_vec()
    }

    #[test]
    fn base62_by_example() {
        assert_eq!(base62(0), b"0");
        assert_eq!(base62(61), b"z");
        assert_eq!(base62(62), b"10");
        assert_eq!(base62(u64::MAX), b"LygHa16AHYF");
        assert_eq!(decode_base62(b"LygHa16AHYG"), None);
        assert_eq!(decode_base62(b"01"), None);
        assert_eq!(decode_base62(b""), None);
    }

    #[test]
    fn heads() {
        let mut name = Name::new();
        encode_head(62, Mark::Spill, &mut name);
        assert_eq!(name.as_slice(), b"~10!");
        assert_eq!(decode_head(b"~10!x:y"), Some((62, Mark::Spill, b"x:y".as_slice())));
        for name in [b"~".as_slice(), b"~0", b"~:1", b"~00:1", b"~0?1", b"0:1", b"~4gfFC4:1"] {
            assert_eq!(decode_head(name), None, "{}", name.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn base62_is_exact(number: u64, digits in "[0-9A-Za-z]{0,12}") {
            prop_assert_eq!(decode_base62(&base62(number)), Some(number));
            if let Some(number) = decode_base62(digits.as_bytes()) {
                prop_assert_eq!(base62(number), digits.as_bytes());
            }
        }
    }
}
