//! Sizes as people write them: `64mb`. The suffixes are those of a server's configuration: `kb` is 1024, as it is there.

const UNITS: [(&str, u64); 4] = [("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1)];

/// So many bytes; none where it is no size, or 0.
pub fn parse(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let unit = UNITS.iter().find_map(|(suffix, unit)| Some((lower.strip_suffix(suffix)?, *unit)));
    let (digits, unit) = unit.unwrap_or((&lower, 1));
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

/// The same size in its largest unit that leaves no rest; bytes without one.
pub fn shown(bytes: u64) -> String {
    match UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((suffix, unit)) if *unit > 1 => format!("{}{suffix}", bytes / unit),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_as_they_are_typed() {
        for text in ["4gb", "100mb", "3kb", "1500"] {
            assert_eq!(shown(parse(text).unwrap()), text);
        }
        assert_eq!(
            [parse("2KB"), parse("7b"), parse("0"), parse("x"), parse("")],
            [Some(2048), Some(7), None, None, None]
        );
        assert_eq!([parse("17179869184gb"), parse("-1")], [None, None]);
    }
}
