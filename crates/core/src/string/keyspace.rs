//! Keys as a whole, whatever they hold: DEL, UNLINK, EXISTS, TOUCH, TYPE, RENAME, RENAMENX, COPY.
//! Redis 7.0 db.c.

use super::{Call, Flow, Halt, Held, Space, not_on_type};
use crate::resp::Answer;
use crate::resp::word::is_word;

/// DEL key … and UNLINK key …: how many were there.
pub(super) fn del(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let mut removed = 0;
    for key in &call.args[1..] {
        if space.exists(key) {
            space.remove(key);
            removed += 1;
        }
    }
    answer.integer(removed);
    Ok(())
}

/// EXISTS key … and TOUCH key …: how many are there; a key named twice counts twice.
pub(super) fn exists(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    answer.integer(call.args[1..].iter().map(|key| i64::from(space.exists(key))).sum());
    Ok(())
}

/// TYPE key: the type's name, `none` where there is nothing.
pub(super) fn type_of(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    match space.held(call.args[1]) {
        Held::Nothing => answer.simple("none"),
        Held::String(_) | Held::Unread(_) => answer.simple("string"),
        Held::Other(name) => answer.simple(&String::from_utf8_lossy(name)),
    }
    Ok(())
}

/// RENAME key newkey: OK. The expiry goes along, and what was at newkey is gone.
pub(super) fn rename(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (from, to) = (call.args[1], call.args[2]);
    check_source(space, from)?;
    if from != to {
        space.rename(from, to);
    }
    answer.ok();
    Ok(())
}

/// RENAMENX key newkey: 1 where it moved, 0 where newkey was there (or is key itself).
pub(super) fn renamenx(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (from, to) = (call.args[1], call.args[2]);
    check_source(space, from)?;
    let free = from != to && !space.exists(to);
    if free {
        space.rename(from, to);
    }
    answer.integer(i64::from(free));
    Ok(())
}

fn check_source(space: &Space, from: &[u8]) -> Flow {
    if space.exists(from) { Ok(()) } else { Err("ERR no such key".into()) }
}

/// COPY source destination [REPLACE]: 1 where it copied, the expiry too; 0 where there is no source, or a
/// destination and no REPLACE.
///
/// # Errors
/// Another database, and a source of another type, are refused.
pub(super) fn copy(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (from, to) = (call.args[1], call.args[2]);
    let replace = copy_options(call)?;
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    match space.held(from) {
        Held::String(_) | Held::Unread(_) if replace || !space.exists(to) => {}
        Held::Other(name) if replace || !space.exists(to) => return Err(not_on_type("COPY", name)),
        _ => {
            answer.integer(0);
            return Ok(());
        }
    }
    space.copy(from, to);
    answer.integer(1);
    Ok(())
}

/// Whether REPLACE is among the options.
fn copy_options(call: &Call<'_>) -> Result<bool, Halt> {
    let mut replace = false;
    for (index, option) in call.args.iter().enumerate().skip(3) {
        if is_word(option, "REPLACE") {
            replace = true;
        } else if is_word(option, "DB") && index + 1 < call.args.len() {
            return Err("ERR keyfold: COPY to another database is not supported on folded keys".into());
        } else {
            return Err("ERR syntax error".into());
        }
    }
    Ok(replace)
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;

    #[test]
    fn counts() {
        let mut keys = now_is(1000);
        keys.string("a", "1");
        keys.other("l", "list");
        keys.string_until("gone", "1", 999);
        assert_eq!(keys.run(&["EXISTS", "a", "a", "l", "none", "gone"]), ":3\r\n");
        assert_eq!(keys.run(&["TOUCH", "a", "a"]), ":2\r\n");
        assert_eq!(keys.run(&["DEL", "a", "a", "l", "none", "gone"]), ":2\r\n");
        assert_eq!(keys.changed(), ["a", "l"]);
    }

    #[test]
    fn rename_moves_any_type_and_the_expiry() {
        let mut keys = now_is(1000);
        keys.other("l", "list");
        keys.string_until("a", "1", 3000);
        assert_eq!(keys.run(&["RENAME", "none", "none"]), "-ERR no such key\r\n");
        assert_eq!(keys.run(&["RENAMENX", "a", "a"]), ":0\r\n");
        assert_eq!(keys.run(&["RENAMENX", "a", "l"]), ":0\r\n");
        assert_eq!(keys.run(&["RENAME", "a", "b"]), "+OK\r\n");
        assert_eq!(keys.run(&["PTTL", "b"]), ":2000\r\n");
        assert_eq!(keys.run(&["RENAME", "l", "b"]), "+OK\r\n");
        assert_eq!(keys.run(&["TYPE", "b"]), "+list\r\n");
        assert_eq!(keys.run(&["TYPE", "l"]), "+none\r\n");
    }

    #[test]
    fn copy_checks_in_order() {
        let mut keys = now_is(1000);
        keys.string("a", "1");
        keys.string("b", "2");
        keys.other("l", "list");
        assert_eq!(keys.run(&["COPY", "a", "a"]), "-ERR source and destination objects are the same\r\n");
        assert_eq!(keys.run(&["COPY", "a", "a", "x"]), "-ERR syntax error\r\n");
        assert_eq!(keys.run(&["COPY", "a", "b"]), ":0\r\n");
        assert_eq!(keys.run(&["COPY", "a", "b", "replace"]), ":1\r\n");
        assert_eq!(keys.run(&["COPY", "l", "b"]), ":0\r\n");
        let refused = "-ERR keyfold: COPY of a list on a folded key is not supported\r\n";
        assert_eq!(keys.run(&["COPY", "l", "b", "REPLACE"]), refused);
        let refused = "-ERR keyfold: COPY to another database is not supported on folded keys\r\n";
        assert_eq!(keys.run(&["COPY", "a", "b", "DB", "1"]), refused);
    }
}
