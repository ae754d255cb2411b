//! Numbers in arguments and values, read as strictly as the server reads them.
//!
//! Redis 7.0 `string2ll` (util.c): decimal, an optional `-`, no `+`, no spaces, no leading zeros, no `-0`,
//! within the signed 64 bits. One spelling a number, so what parses prints back as it was.

use std::cmp::Ordering;

/// The error for what should be an integer and is not.
pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

/// Reads an integer in its one canonical spelling; none for anything else.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value = 0_i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        value = value.checked_mul(10)?;
        value = if negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(value)
}

/// Compares two numbers as servers print them: digits, perhaps with a sign before them and a point among them.
pub fn compare_decimals(one: &[u8], other: &[u8]) -> Ordering {
    let [one, other] = [one, other].map(Decimal::parse);
    match (one.is_negative, other.is_negative) {
        (false, false) => one.compare_size(&other),
        (true, true) => other.compare_size(&one),
        (is_negative, _) => {
            if is_negative {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
    }
}

/// A number's digits before the point, without leading zeros, and behind it, without trailing ones.
struct Decimal<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a [u8]) -> Self {
        let (is_negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let point = memchr::memchr(b'.', digits).unwrap_or(digits.len());
        let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
        let zeros = whole.iter().take_while(|digit| **digit == b'0').count();
        let end = fraction.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        let (whole, fraction) = (&whole[zeros..], &fraction[..end]);
        Self { is_negative: is_negative && !(whole.is_empty() && fraction.is_empty()), whole, fraction }
    }

    fn compare_size(&self, other: &Self) -> Ordering {
        let whole = self.whole.len().cmp(&other.whole.len()).then_with(|| self.whole.cmp(other.whole));
        whole.then_with(|| self.fraction.cmp(other.fraction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_in_their_order() {
        let ordered = ["-100", "-10.5", "-10.05", "-0.1", "0", "0.01", "0.1", "0.10001", "9", "10", "10.25", "1000"];
        for (at, one) in ordered.iter().enumerate() {
            for (other_at, other) in ordered.iter().enumerate() {
                assert_eq!(compare_decimals(one.as_bytes(), other.as_bytes()), at.cmp(&other_at), "{one} {other}");
            }
        }
        for (one, other) in [("-0", "0"), ("1.50", "1.5"), ("007", "7"), ("3.", "3")] {
            assert_eq!(compare_decimals(one.as_bytes(), other.as_bytes()), Ordering::Equal, "{one} {other}");
        }
    }

    #[test]
    fn only_canonical_integers() {
        for text in ["0", "1", "-1", "10", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(parse_integer(text.as_bytes()), Some(text.parse().unwrap()), "{text}");
        }
        for text in
            ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1.0", "0x1", "9223372036854775808", "-9223372036854775809"]
        {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_integer(b"100000000000000000000000000000"), None);
        assert_eq!(parse_integer(b"1\0"), None);
    }
}
