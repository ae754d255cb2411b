//! Numbers as people read them.

/// `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 key`, `2 keys`, `2 hashes`.
pub fn plural(number: u64, noun: &str) -> String {
    let ending = match (number, noun.ends_with('h')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {noun}{ending}", count(number))
}

/// `72.5`, `1,055.0`: one decimal, thousands separated.
pub fn tenths(number: f64) -> String {
    decimals(number, 1)
}

/// The same with so many decimals.
pub fn decimals(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let whole = text.split('.').next().unwrap_or_default();
    let digits = whole.trim_start_matches('-');
    digits.parse().map_or(text.clone(), |number| text.replacen(digits, &count(number), 1))
}

/// `950`, `12.5k`, `3.2M`: three digits, for axes.
pub fn short(number: f64) -> String {
    let (value, unit) = match number.abs() {
        1e9.. => (number / 1e9, "G"),
        1e6.. => (number / 1e6, "M"),
        1e4.. => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// `512 B`, `12.3 KiB`, `4.56 MiB`: bytes for people, in powers of two, as servers count them in `used_memory_human` and
/// take them in `maxmemory`.
pub fn bytes(number: f64) -> String {
    const UNITS: [(f64, &str); 4] =
        [(1_099_511_627_776.0, "TiB"), (1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")];
    let Some((size, unit)) = UNITS.iter().find(|(size, _)| number.abs() >= *size) else {
        return format!("{number:.0} B");
    };
    let value = number / size;
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{} {unit}", self::decimals(value, decimals))
}

/// The same of a whole number.
pub fn size(number: u64) -> String {
    bytes(number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers() {
        assert_eq!(
            [0.0, 0.5, 64.0, 1234.0, 12_500.0, 3_210_000.0].map(short),
            ["0", "0.5", "64", "1234", "12.5k", "3.21M"]
        );
        assert_eq!([0.0, 999.0, 1234.0, 45_678_000.0].map(bytes), ["0 B", "999 B", "1.21 KiB", "43.6 MiB"]);
        assert_eq!([1023, 1024, 1 << 30, 5 << 40].map(size), ["1023 B", "1.00 KiB", "1.00 GiB", "5.00 TiB"]);
    }

    #[test]
    fn thousands() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(count).each_ref().map(|s| &**s));
        assert_eq!([plural(1, "key"), plural(0, "key"), plural(2, "hash")], ["1 key", "0 keys", "2 hashes"]);
        assert_eq!((tenths(1055.04), tenths(0.25), tenths(-3.0)), ("1,055.0".into(), "0.2".into(), "-3.0".into()));
        assert_eq!(
            [(1_234_567.0, 0), (-123.456, 1), (1000.25, 2)].map(|(n, d)| decimals(n, d)),
            ["1,234,567", "-123.5", "1,000.25"]
        );
    }
}
