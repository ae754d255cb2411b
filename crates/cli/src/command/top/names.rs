//! Names that harm no terminal, and take the room that is there.
//!
//! A namespace, a path or a server's word may hold any character. What controls terminals or the direction of writing is
//! shown by its number, so that no name moves the cursor, rings, or looks like another.

use ratatui::text::Span;

/// The same with nothing in it but what is seen.
pub(super) fn visible(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for character in name.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Controls, marks of direction, and what has no width.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{61c}')
}

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
    fn nothing_gets_through_that_a_terminal_would_follow() {
        assert_eq!(visible("user:{id:int}"), "user:{id:int}");
        assert_eq!(visible("a\x1b[2J\x07\r\n\u{9b}31m"), "a\\u{1b}[2J\\u{7}\\r\\n\\u{9b}31m");
        assert_eq!(visible("\u{202e}live\u{200b}\u{feff}"), "\\u{202e}live\\u{200b}\\u{feff}");
        assert_eq!(visible("漢字 שלום é"), "漢字 שלום é");
    }

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
