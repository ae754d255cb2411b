//! Numbers as findings and reasons say them.

/// `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 field`, `1,000 fields`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        let shown = [0, 7, 999, 1000, 52_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "7", "999", "1,000", "52,000", "1,234,567"]);
        assert_eq!([plural(1, "key"), plural(0, "key"), plural(2000, "key")], ["1 key", "0 keys", "2,000 keys"]);
    }
}
