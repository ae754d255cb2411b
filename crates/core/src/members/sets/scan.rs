//! SSCAN. Redis 7.0 db.c, `scanGenericCommand`.
//!
//! A folded set is small: it is given whole, with the cursor 0, as servers give one that is an intset or a listpack, whatever
//! cursor and COUNT a client sends.

use crate::dialect::{Dialect, Since};
use crate::glob;
use crate::number::{NOT_AN_INTEGER, parse_integer};
use crate::resp::Answer;
use crate::resp::word::{c_text, is_word};
use crate::string::{Call, Flow, Halt, SYNTAX_ERROR, Space};

/// SSCAN key cursor [MATCH pattern] [COUNT count]: the cursor 0, and all members that match.
///
/// The options of a key that isn't there aren't looked at.
pub(super) fn sscan(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    if !is_cursor(call.args[2], call.dialect) {
        return Err("ERR invalid cursor".into());
    }
    let mut found = Vec::new();
    if let Some(set) = space.set(call.args[1])? {
        let pattern = pattern(call, 3)?;
        // A lone star is passed over; as a pattern it wouldn't match what is empty.
        let pattern = pattern.filter(|pattern| *pattern != b"*");
        found.extend(set.iter().filter(|member| pattern.is_none_or(|pattern| glob::matches(pattern, member))));
    }
    answer.array(2);
    answer.bulk(b"0");
    answer.array(found.len());
    found.into_iter().for_each(|member| answer.bulk(member));
    Ok(())
}

/// The last MATCH among the options from argument `at` on.
fn pattern<'a>(call: &Call<'a>, at: usize) -> Result<Option<&'a [u8]>, Halt> {
    let mut pattern = None;
    for option in call.args[at..].chunks(2) {
        match option {
            [word, number] if is_word(word, "COUNT") => {
                let number = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
                if number < 1 {
                    return Err(SYNTAX_ERROR.into());
                }
            }
            [word, glob] if is_word(word, "MATCH") => pattern = Some(*glob),
            [word, ..] if is_word(word, "NOVALUES") && call.dialect.server_has(Since::HSCAN_NOVALUES) => {
                return Err("ERR NOVALUES option can only be used in HSCAN".into());
            }
            _ => return Err(SYNTAX_ERROR.into()),
        }
    }
    Ok(pattern)
}

/// Whether a server reads it as a cursor: an unsigned number of 64 bits by C's strtoull. What stands behind a zero byte isn't
/// seen, a sign may stand before the digits, and later servers skip spaces before it. They take nothing for no number, nor one
/// below zero in its one spelling; older ones do.
fn is_cursor(text: &[u8], dialect: Dialect<'_>) -> bool {
    let text = c_text(text);
    if !dialect.reads_cursors_strictly() {
        return text.is_empty() || is_unsigned(text);
    }
    match parse_integer(text) {
        Some(number) => number >= 0,
        None => {
            let spaces = text.iter().take_while(|byte| b" \t\n\x0b\x0c\r".contains(byte)).count();
            is_unsigned(&text[spaces..])
        }
    }
}

fn is_unsigned(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let is_number = digits.iter().all(u8::is_ascii_digit);
    is_number && str::from_utf8(digits).is_ok_and(|digits| digits.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_info::ServerInfo;

    #[test]
    fn cursors_are_read_as_the_server_reads_them() {
        let servers = [("redis", "7.0.15"), ("redis", "8.0.6"), ("valkey", "8.0.1")]
            .map(|(name, version)| ServerInfo { name: name.to_owned(), version: version.to_owned() });
        for (text, old, new) in [
            ("0", true, true),
            ("01", true, true),
            ("+1", true, true),
            ("-0", true, true),
            ("18446744073709551615", true, true),
            ("-18446744073709551615", true, true),
            ("1\0x", true, true),
            ("-1", true, false),
            ("", true, false),
            (" 1", false, true),
            ("18446744073709551616", false, false),
            ("1 ", false, false),
            ("-", false, false),
            ("--1", false, false),
            (" ", false, false),
            ("x", false, false),
        ] {
            let read = servers.each_ref().map(|server| is_cursor(text.as_bytes(), Dialect::new(server, true)));
            assert_eq!(read, [old, new, new], "{text:?}");
        }
    }
}
