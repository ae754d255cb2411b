//! Text that harms no terminal.
//!
//! A namespace, a path or a server's word may hold any character. What controls terminals or the direction of writing is
//! shown by its number, so that no name moves the cursor, rings, or looks like another.

/// How a colour or a weight begins for a terminal: `ESC [ 1 ; 31 m`.
const STYLE: &str = "\x1b[";

/// The same with nothing in it but what is seen.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars().for_each(|character| push(character, &mut shown));
    shown
}

/// The same where colours and weights may stay: those of keyfold's own.
pub fn visible_but_styles(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let style = style_bytes(rest);
        if style > 0 {
            shown.push_str(&rest[..style]);
        } else {
            push(character, &mut shown);
        }
        rest = &rest[style.max(character.len_utf8())..];
    }
    shown
}

/// How long the style is that the text begins with; 0 where it begins with none.
fn style_bytes(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix(STYLE) else { return 0 };
    let end = numbers.find(|one: char| !one.is_ascii_digit() && one != ';');
    end.filter(|end| numbers[*end..].starts_with('m')).map_or(0, |end| STYLE.len() + end + 1)
}

fn push(character: char, shown: &mut String) {
    if is_hidden(character) {
        shown.extend(character.escape_default());
    } else {
        shown.push(character);
    }
}

/// Controls, marks of direction, and what has no width.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{61c}')
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
    fn styles_may_stay_and_nothing_else() {
        assert_eq!(visible_but_styles("\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m");
        assert_eq!(visible_but_styles("\x1b[2Ja\x1b[1\x1b"), "\\u{1b}[2Ja\\u{1b}[1\\u{1b}");
        assert_eq!(visible_but_styles("\u{202e}漢"), "\\u{202e}漢");
    }
}
