//! The words of a Lua 5.1 program, as far as it takes to change one without understanding it.
//!
//! Comments and space are none. What is no program any more, such as a string without an end, ends the words.

use std::ops::Range;

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Name,
    /// A number.
    Number,
    /// A string, in quotes or long brackets.
    String,
    /// One byte of an operator or a bracket; `..` is two.
    Symbol,
}

/// One word of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) kind: Kind,
    /// Where it stands.
    pub(super) at: Range<usize>,
}

impl Word {
    /// The bytes of the word.
    pub(super) fn text<'p>(&self, program: &'p [u8]) -> &'p [u8] {
        &program[self.at.clone()]
    }
}

/// The words of a program, in order.
pub(super) fn words(program: &[u8]) -> Vec<Word> {
    read(program).0
}

/// The words of a program, and where it is no program any more.
pub(super) fn read(program: &[u8]) -> (Vec<Word>, usize) {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&first) = program.get(at) {
        let rest = &program[at..];
        let (kind, len) = match first {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => (None, Some(1)),
            b'-' if rest.starts_with(b"--") => (None, comment_len(rest)),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => (Some(Kind::Name), Some(count(rest, is_of_name))),
            b'0'..=b'9' => (Some(Kind::Number), Some(number_len(rest))),
            b'.' if rest.get(1).is_some_and(u8::is_ascii_digit) && !follows_dot(program, at) => {
                (Some(Kind::Number), Some(number_len(rest)))
            }
            b'"' | b'\'' => (Some(Kind::String), quoted_len(rest)),
            b'[' if bracket_level(rest).is_some() => (Some(Kind::String), long_len(rest)),
            _ => (Some(Kind::Symbol), Some(1)),
        };
        let Some(len) = len else { break };
        found.extend(kind.map(|kind| Word { kind, at: at..at + len }));
        at += len;
    }
    (found, at)
}

fn count(rest: &[u8], such: impl Fn(u8) -> bool) -> usize {
    rest.iter().take_while(|byte| such(**byte)).count()
}

fn is_of_name(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

fn follows_dot(program: &[u8], at: usize) -> bool {
    at > 0 && program[at - 1] == b'.'
}

/// Digits, points, letters, and a sign behind an `e` (`read_numeral`, llex.c).
fn number_len(rest: &[u8]) -> usize {
    let mut len = count(rest, |byte| byte == b'.' || byte.is_ascii_digit());
    if rest.get(len).is_some_and(|byte| matches!(byte, b'e' | b'E')) {
        len += 1 + usize::from(rest.get(len + 1).is_some_and(|byte| matches!(byte, b'+' | b'-')));
    }
    len + count(&rest[len..], |byte| byte == b'.' || is_of_name(byte))
}

/// A string in quotes; none where it doesn't end.
fn quoted_len(rest: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match *rest.get(at)? {
            // A line's end of two bytes is one.
            b'\\' => at += if matches!(rest.get(at + 1..at + 3), Some(b"\r\n" | b"\n\r")) { 3 } else { 2 },
            b'\n' | b'\r' => return None,
            byte if byte == rest[0] => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// How many equals signs stand in a long bracket that opens here; none where none does.
fn bracket_level(rest: &[u8]) -> Option<usize> {
    let level = count(rest.get(1..)?, |byte| byte == b'=');
    (rest.first() == Some(&b'[') && rest.get(level + 1) == Some(&b'[')).then_some(level)
}

fn long_len(rest: &[u8]) -> Option<usize> {
    let level = bracket_level(rest)?;
    let end = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
    memchr::memmem::find(rest, &end).map(|at| at + end.len())
}

fn comment_len(rest: &[u8]) -> Option<usize> {
    if bracket_level(&rest[2..]).is_some() {
        return long_len(&rest[2..]).map(|len| len + 2);
    }
    Some(count(rest, |byte| !matches!(byte, b'\n' | b'\r')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(program: &str) -> Vec<String> {
        let words = words(program.as_bytes());
        words.iter().map(|word| String::from_utf8_lossy(word.text(program.as_bytes())).into_owned()).collect()
    }

    #[test]
    fn a_program_is_its_words() {
        assert_eq!(texts("local a=b.c -- not\nreturn a"), ["local", "a", "=", "b", ".", "c", "return", "a"]);
        assert_eq!(texts("x=[==[ ]] ]==]..'it\\'s'"), ["x", "=", "[==[ ]] ]==]", ".", ".", "'it\\'s'"]);
        assert_eq!(texts("--[[ a\nb ]]c --[==[ d ]==] e"), ["c", "e"]);
        assert_eq!(texts("1e-5+.5-0x1F..2"), ["1e-5", "+", ".5", "-", "0x1F..2"]);
        assert_eq!(
            texts("'x\\\r\ny' a 'x\\\n\ry' b 'x\\\ry' c"),
            ["'x\\\r\ny'", "a", "'x\\\n\ry'", "b", "'x\\\ry'", "c"]
        );
        assert_eq!(texts("-- a\rb -- c\r\nd"), ["b", "d"]);
        assert_eq!(texts("a[b[1]]"), ["a", "[", "b", "[", "1", "]", "]"]);
    }

    #[test]
    fn what_does_not_end_ends_the_words() {
        assert_eq!(texts("a 'b"), ["a"]);
        assert_eq!(texts("a \"b\nc\""), ["a"]);
        assert_eq!(texts("a --[[ b"), ["a"]);
        assert_eq!(texts("a '\\"), ["a"]);
    }
}
