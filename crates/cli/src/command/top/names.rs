//! Names that harm no terminal, and take the room that is there.

pub(super) use keyfold_report::visible::visible;
use ratatui::text::Span;

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Within so many columns; what is cut off shows as `…`.
pub(super) fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut fitted = String::new();
    let mut taken = 0;
    for character in text.chars() {
        let wide = width(character.encode_utf8(&mut [0; 4]));
        if taken + wide + 1 > columns {
            break;
        }
        fitted.push(character);
        taken += wide;
    }
    if columns > 0 {
        fitted.push('…');
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_shows_and_wide_characters_are_not_halved() {
        assert_eq!([fit("abc", 3), fit("abcd", 3), fit("abcd", 1), fit("abcd", 0)], ["abc", "ab…", "…", ""]);
        assert_eq!(
            (fit("漢字漢字", 5), fit("漢字漢字", 4), fit("漢字", 4)),
            ("漢字…".into(), "漢…".into(), "漢字".into())
        );
        for columns in 0..12 {
            assert!(width(&fit("a漢b字c漢字", columns)) <= columns);
        }
    }
}
