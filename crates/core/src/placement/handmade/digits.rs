//! The digits in which numbers stand in the names and fields of handmade hashes.
//!
//! Base62 here is that of the gem base62-rb, which me-redis uses: `0`–`9`, `a`–`z`, `A`–`Z`. It is not keyfold's own,
//! which has the upper case first ([`super::super::name`]).

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    Decimal,
    Base62,
}

const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

impl Digits {
    fn base(self) -> u64 {
        match self {
            Self::Decimal => 10,
            Self::Base62 => 62,
        }
    }

    fn value(self, byte: u8) -> Option<u64> {
        let value = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'z' => byte - b'a' + 10,
            b'A'..=b'Z' => byte - b'A' + 36,
            _ => return None,
        };
        Some(u64::from(value)).filter(|value| *value < self.base())
    }

    /// Whether a number goes on where this byte follows it.
    pub(super) fn has(self, byte: u8) -> bool {
        self.value(byte).is_some()
    }

    pub(super) fn write(self, mut number: u64, out: &mut impl Extend<u8>) {
        // 2⁶⁴ has 20 decimal digits.
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = ALPHABET[usize::try_from(number % self.base()).unwrap_or_default()];
            number /= self.base();
            if number == 0 {
                break;
            }
        }
        out.extend(digits[at..].iter().copied());
    }

    /// The number at the front of `rest`, which goes on behind it; none where there is none, or zeros lead it.
    pub(super) fn read(self, rest: &mut &[u8]) -> Option<u64> {
        let len = rest.iter().position(|byte| !self.has(*byte)).unwrap_or(rest.len());
        let digits = rest.split_off(..len)?;
        if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
            return None;
        }
        digits.iter().try_fold(0_u64, |number, byte| number.checked_mul(self.base())?.checked_add(self.value(*byte)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base62(number: u64) -> String {
        let mut out = Vec::new();
        Digits::Base62.write(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn base62_is_that_of_the_gem() {
        // What the readme of base62-rb and the tests of me-redis say.
        assert_eq!(base62(3_781_504_209_452_600), "hjNv8tS3K");
        assert_eq!(
            (base62(36), base62(37), base62(50), base62(100)),
            ("A".into(), "B".into(), "O".into(), "1C".into())
        );
        assert_eq!(base62(0), "0");
        assert_eq!(Digits::Base62.read(&mut &b"01"[..]), None);
        assert_eq!(Digits::Base62.read(&mut &b""[..]), None);
        assert_eq!(Digits::Decimal.read(&mut &b"99999999999999999999"[..]), None);
    }

    proptest! {
        #[test]
        fn numbers_come_back(number: u64, decimal: bool) {
            let digits = if decimal { Digits::Decimal } else { Digits::Base62 };
            let mut out = Vec::new();
            digits.write(number, &mut out);
            out.push(b':');
            let mut rest = out.as_slice();
            prop_assert_eq!(digits.read(&mut rest), Some(number));
            prop_assert_eq!(rest, b":");
        }
    }
}
