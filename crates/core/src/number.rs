//! Numbers in arguments and values, read as strictly as the server reads them.
//!
//! Redis 7.0 `string2ll` (util.c): decimal, an optional `-`, no `+`, no spaces, no leading zeros, no `-0`,
//! within the signed 64 bits. One spelling a number, so what parses prints back as it was.

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

#[cfg(test)]
mod tests {
    use super::*;

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
