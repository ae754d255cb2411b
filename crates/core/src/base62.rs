//! Numbers in base62 without leading zeros, as physical names write them.

use smallvec::{Array, SmallVec};

/// The digits, in the order of their bytes.
pub const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// `u64::MAX` has 11 digits.
const MOST_DIGITS: usize = 11;

/// Writes a number.
pub fn encode<A: Array<Item = u8>>(mut number: u64, out: &mut SmallVec<A>) {
    // One digit needs no buffer, and most numbers have one.
    if number < 62 {
        return out.push(DIGITS[(number % 62) as usize]);
    }
    let mut digits = [0; MOST_DIGITS];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = DIGITS[(number % 62) as usize];
        number /= 62;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The number that these digits, and no others, stand for.
pub fn decode(digits: &[u8]) -> Option<u64> {
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

    fn encoded(number: u64) -> Vec<u8> {
        let mut out = SmallVec::<[u8; MOST_DIGITS]>::new();
        encode(number, &mut out);
        out.into_vec()
    }

    #[test]
    fn by_example() {
        assert_eq!(encoded(0), b"0");
        assert_eq!(encoded(61), b"z");
        assert_eq!(encoded(62), b"10");
        assert_eq!(encoded(u64::MAX), b"LygHa16AHYF");
        assert_eq!(decode(b"LygHa16AHYG"), None);
        assert_eq!(decode(b"01"), None);
        assert_eq!(decode(b""), None);
    }

    proptest! {
        #[test]
        fn it_is_exact(number: u64, digits in "[0-9A-Za-z]{0,12}") {
            prop_assert_eq!(decode(&encoded(number)), Some(number));
            if let Some(number) = decode(digits.as_bytes()) {
                prop_assert_eq!(encoded(number), digits.as_bytes());
            }
        }
    }
}
