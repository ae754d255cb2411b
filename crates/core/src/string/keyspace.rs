//! Keys as a whole, whatever they hold: DEL, UNLINK, EXISTS, TOUCH, TYPE, RENAME, RENAMENX, COPY.
//! Redis 7.0 db.c.

use super::{Call, Flow, Held, Space, not_on_type};
use crate::collection::CollectionKind;
use crate::notify::Event;
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::resp::word::is_word;

/// DEL key … and UNLINK key …: how many were there.
pub(super) fn del(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let mut removed = 0;
    for key in &call.args[1..] {
        if space.exists(key) {
            space.remove(key);
            space.note(Event::Del, key);
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
        Held::String(_) => answer.simple("string"),
        Held::Unread(unread) => answer.simple(unread.collection.map_or("string", CollectionKind::name)),
        Held::Collection(held) => answer.simple(held.collection.kind().name()),
        Held::Other(name) => answer.simple(&String::from_utf8_lossy(name)),
    }
    Ok(())
}

/// RENAME key newkey: OK. The expiry goes along, and what was at newkey is gone.
pub(super) fn rename(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (from, to) = (call.args[1], call.args[2]);
    check_source(space, from)?;
    if from != to {
        rename_to(space, from, to);
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
        rename_to(space, from, to);
    }
    answer.integer(i64::from(free));
    Ok(())
}

fn rename_to(space: &mut Space, from: &[u8], to: &[u8]) {
    space.rename(from, to);
    space.note(Event::RenameFrom, from);
    space.note(Event::RenameTo, to);
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
    let read = CopyCommand::read(call.args);
    let (Ok(CopyCommand { database, replace }) | Err(CopyCommand { database, replace })) = read;
    if database.is_some() {
        return Err("ERR keyfold: COPY to another database is not supported on folded keys".into());
    }
    read.map_err(|_| "ERR syntax error")?;
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    match space.held(from) {
        Held::String(_) | Held::Unread(_) | Held::Collection(_) if replace || !space.exists(to) => {}
        Held::Other(name) if replace || !space.exists(to) => return Err(not_on_type("COPY", name)),
        _ => {
            answer.integer(0);
            return Ok(());
        }
    }
    space.copy(from, to);
    space.note(Event::CopyTo, to);
    answer.integer(1);
    Ok(())
}

/// COPY source destination [DB database] [REPLACE], as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyCommand<'a> {
    /// The database that is named, which may be none.
    pub(crate) database: Option<&'a [u8]>,
    /// Whether the destination may exist.
    pub(crate) replace: bool,
}

impl<'a> CopyCommand<'a> {
    /// Reads the options.
    ///
    /// # Errors
    /// What was read before a syntax error: the server may have complained of that already.
    pub(crate) fn read(args: &[&'a [u8]]) -> Result<Self, Self> {
        let mut found = Self::default();
        let mut options = args[3..].iter();
        while let Some(option) = options.next() {
            match option {
                option if is_word(option, "REPLACE") => found.replace = true,
                option if is_word(option, "DB") => match options.next() {
                    Some(database) => found.database = Some(database),
                    None => return Err(found),
                },
                _ => return Err(found),
            }
        }
        Ok(found)
    }

    /// The database that it copies to from another one; none where what is named can be no database.
    pub(crate) fn database_from(&self, here: u32) -> Option<u32> {
        self.database.map_or(Some(here), |text| parse_integer(text)?.try_into().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;
    use super::CopyCommand;

    #[test]
    fn options_of_copy_are_read_in_any_order() {
        let read = |text: &'static str| CopyCommand::read(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let plain = CopyCommand::default();
        assert_eq!(read("copy a b"), Ok(plain));
        assert_eq!(read("copy a b replace Db 3"), Ok(CopyCommand { database: Some(b"3"), replace: true }));
        assert_eq!(read("copy a b db"), Err(plain));
        assert_eq!(read("copy a b db 3 x"), Err(CopyCommand { database: Some(b"3"), ..plain }));
        for (text, database) in [("copy a b", Some(7)), ("copy a b db 3", Some(3)), ("copy a b db -1", None)] {
            assert_eq!(read(text).unwrap().database_from(7), database, "{text}");
        }
        assert_eq!(read("copy a b db +1").unwrap().database_from(7), None);
    }

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
