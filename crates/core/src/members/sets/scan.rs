//! SSCAN. Redis 7.0 db.c, `scanGenericCommand`.
//!
//! A folded set is small: it is given whole, with the cursor 0, as servers give one that is an intset or a listpack, whatever
//! cursor and COUNT a client sends.

use crate::dialect::Since;
use crate::glob;
use crate::members::cursor::is_cursor;
use crate::number::{NOT_AN_INTEGER, parse_integer};
use crate::resp::Answer;
use crate::resp::word::is_word;
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
