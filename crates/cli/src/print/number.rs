//! Numbers as people read them.

/// `1,234,567`.
pub(crate) fn count(number: u64) -> String {
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

/// `1 key`, `2 keys`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `72.5`, `1,055.0`: one decimal, thousands separated.
pub(crate) fn tenths(number: f64) -> String {
    let text = format!("{number:.1}");
    match text.split_once('.') {
        Some((whole, decimal)) => match whole.parse() {
            Ok(whole) => format!("{}.{decimal}", count(whole)),
            Err(_) => text,
        },
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(count).each_ref().map(|s| &**s));
        assert_eq!((plural(1, "key"), plural(0, "key")), ("1 key".to_owned(), "0 keys".to_owned()));
        assert_eq!((tenths(1055.04), tenths(0.25), tenths(-3.0)), ("1,055.0".into(), "0.2".into(), "-3.0".into()));
    }
}
