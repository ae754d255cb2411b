//! SSCAN. Redis 7.0 db.c, `scanGenericCommand`.
//!
//! A folded set that doesn't lie in parts is given whole, with the cursor 0, as servers give one that is an intset or a listpack,
//! whatever cursor and COUNT a client sends.

use crate::dialect::Since;
use crate::members::cursor::{ScanOptions, is_cursor};
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
        let options = scan_options(call)?;
        found.extend(set.iter().filter(|member| options.let_through(member)));
    }
    answer.array(2);
    answer.bulk(b"0");
    answer.array(found.len());
    found.into_iter().for_each(|member| answer.bulk(member));
    Ok(())
}

/// The options behind the cursor.
pub(in crate::members) fn scan_options<'a>(call: &Call<'a>) -> Result<ScanOptions<'a>, Halt> {
    let mut options = ScanOptions::default();
    for option in call.args[3..].chunks(2) {
        match option {
            [word, number] if is_word(word, "COUNT") => {
                options.count = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
                if options.count < 1 {
                    return Err(SYNTAX_ERROR.into());
                }
            }
            [word, glob] if is_word(word, "MATCH") => options.match_by(glob),
            [word, ..] if is_word(word, "NOVALUES") && call.dialect.server_has(Since::HSCAN_NOVALUES) => {
                return Err("ERR NOVALUES option can only be used in HSCAN".into());
            }
            _ => return Err(SYNTAX_ERROR.into()),
        }
    }
    Ok(options)
}
