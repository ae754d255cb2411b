//! Sizes and durations, as they are typed and shown: `64mb`, `500ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use keyfold_core::byte_size;

/// Bytes. The suffixes are those of a server's configuration: `kb` is 1024, as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) usize);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = byte_size::parse(text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| "write a number above 0 with b, kb, mb or gb".to_owned())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&byte_size::shown(self.0 as u64))
    }
}

/// A whole number, also as keyfold prints it: `20000` or `20,000`. Of a type without 0, above 0.
pub(crate) fn parse_count<N: FromStr>(text: &str) -> Result<N, String> {
    let is_grouped = text.split(',').enumerate().all(|(at, group)| match at {
        0 => (1..=3).contains(&group.len()) || !text.contains(','),
        _ => group.len() == 3,
    });
    let digits = if is_grouped { text.replace(',', "") } else { text.to_owned() };
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    number.ok_or_else(|| match "0".parse::<N>() {
        Ok(_) => "write a whole number, such as 20".to_owned(),
        Err(_) => "write a whole number above 0, such as 20000".to_owned(),
    })
}

/// How many times as many: `4x` or `4`.
pub(crate) fn parse_growth(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix(['x', '×']).unwrap_or(text).parse::<f64>();
    number.ok().filter(|times| (1.0..=1e6).contains(times)).ok_or_else(|| "write 4x; 1x is no growth".to_owned())
}

/// A time to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait(pub(crate) Duration);

const TIMES: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let (digits, unit) = TIMES
            .iter()
            .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))
            .ok_or("write a number with ms, s, m or h")?;
        let ms = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        ms.map(|ms| Self(Duration::from_millis(ms))).ok_or_else(|| "write a number with ms, s, m or h".to_owned())
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        match TIMES.iter().rev().find(|(_, unit)| ms >= u128::from(*unit) && ms.is_multiple_of(u128::from(*unit))) {
            Some((suffix, unit)) => write!(f, "{}{suffix}", ms / u128::from(*unit)),
            None => f.write_str("0"),
        }
    }
}

/// How long something takes that is worth a word: `10ms`; `off` where nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threshold(pub(crate) Option<Duration>);

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        if let Some(us) = text.strip_suffix("us").and_then(|digits| digits.parse().ok()) {
            return Ok(Self(Some(Duration::from_micros(us))));
        }
        let wait = text.parse::<Wait>().map_err(|_| "write a number with us, ms, s, m or h, or off")?;
        Ok(Self(Some(wait.0)))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("off"),
            Some(bound) if bound.subsec_nanos() % 1_000_000 != 0 => write!(f, "{}us", bound.as_micros()),
            Some(bound) => Wait(bound).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!("64mb".parse(), Ok(Bytes(64 << 20)));
        assert_eq!("1KB".parse(), Ok(Bytes(1024)));
        assert_eq!("100".parse(), Ok(Bytes(100)));
        assert_eq!(Bytes(256 << 20).to_string(), "256mb");
        assert_eq!(Bytes(1500).to_string(), "1500");
        for wrong in ["", "mb", "0", "-1", "1.5gb", "99999999999999999999", "99999999999gb"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts() {
        use std::num::NonZero;
        let above_zero = parse_count::<NonZero<u64>>;
        assert_eq!(
            (above_zero("20000"), above_zero("1,234,567")),
            (Ok(20_000.try_into().unwrap()), Ok(1_234_567.try_into().unwrap()))
        );
        assert_eq!((parse_count::<usize>("0"), parse_count::<u32>("16")), (Ok(0), Ok(16)));
        for wrong in ["", "0", "-1", "+1", "1.5", "20k", "1,23", ",123", "1234,567", "99999999999999999999"] {
            assert!(above_zero(wrong).unwrap_err().contains("above 0"), "{wrong}");
        }
        assert!(!parse_count::<usize>("many").unwrap_err().contains("above"));
    }

    #[test]
    fn growth() {
        assert_eq!((parse_growth("4x"), parse_growth("1.5")), (Ok(4.0), Ok(1.5)));
        for wrong in ["", "x", "0x", "-4x", "nan", "inf"] {
            assert!(parse_growth(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn thresholds() {
        for (text, bound) in [
            ("off", None),
            ("0", Some(Duration::ZERO)),
            ("500us", Some(Duration::from_micros(500))),
            ("10ms", Some(Duration::from_millis(10))),
            ("2s", Some(Duration::from_secs(2))),
        ] {
            assert_eq!(text.parse(), Ok(Threshold(bound)));
            assert_eq!(Threshold(bound).to_string(), text);
        }
        for wrong in ["", "10", "us", "-1us", "on", "1.5ms"] {
            assert!(wrong.parse::<Threshold>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times() {
        assert_eq!("500ms".parse(), Ok(Wait(Duration::from_millis(500))));
        assert_eq!("2m".parse(), Ok(Wait(Duration::from_secs(120))));
        assert_eq!("0".parse(), Ok(Wait(Duration::ZERO)));
        assert_eq!(Wait(Duration::from_secs(60)).to_string(), "1m");
        assert_eq!(Wait(Duration::from_secs(5)).to_string(), "5s");
        assert_eq!(Wait(Duration::ZERO).to_string(), "0");
        for wrong in ["", "5", "s", "-1s", "1.5s"] {
            assert!(wrong.parse::<Wait>().is_err(), "{wrong}");
        }
    }
}
