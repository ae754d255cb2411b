//! OBJECT: what a server would say of how it keeps a value. Redis 7.0 object.c.
//!
//! A folded value is kept otherwise; the answers are those of a plain server that was just SET the value.
//! A real one may also have turned it to `raw` by APPEND, which nothing remembers here.

use super::{Call, Entry, Flow, Halt, Held, Space, not_on_type};
use crate::number::parse_integer;
use crate::resp::Answer;

/// The longest string that is kept in one piece with its header, in bytes.
const EMBSTR_MAX_BYTES: usize = 44;

/// The server keeps one object for each integer below this, and counts no references to it.
const SHARED_INTEGERS: i64 = 10_000;

const NO_LFU: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
                      when switching between policies at runtime LRU and LFU data will take some time to adjust.";

/// OBJECT ENCODING key: how the value is kept.
pub(super) fn encoding(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    shown(call, space, answer, |entry, answer| {
        answer.bulk(entry.map_or("raw", |entry| encoding_of(&entry.value)).as_bytes());
        Ok(())
    })
}

/// OBJECT REFCOUNT key: how often the value is referred to.
pub(super) fn refcount(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    shown(call, space, answer, |entry, answer| {
        answer.integer(entry.map_or(1, |entry| reference_count(&entry.value)));
        Ok(())
    })
}

/// OBJECT IDLETIME key: how long ago it was asked for, which nothing remembers here.
pub(super) fn idletime(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    shown(call, space, answer, |_, answer| {
        answer.integer(0);
        Ok(())
    })
}

/// OBJECT FREQ key: how often it is asked for, which is no server's business that doesn't evict by that.
pub(super) fn freq(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    shown(call, space, answer, |_, _| Err(NO_LFU.into()))
}

/// Shows something of a key that is there. No entry stands for a string whose bytes were left unread, as they are many.
fn shown(
    call: &Call<'_>,
    space: &Space,
    answer: &mut Answer<'_>,
    show: impl Fn(Option<&Entry>, &mut Answer<'_>) -> Flow,
) -> Flow {
    match space.held(call.args[2]) {
        Held::Nothing => answer.nil(),
        Held::String(entry) => show(Some(entry), answer)?,
        Held::Unread(_) => match space.string(call.args[2]) {
            Err(Halt::Large) => show(None, answer)?,
            other => drop(other?),
        },
        Held::Collection(held) => return Err(not_on_type("OBJECT", held.collection.kind().name().as_bytes())),
        Held::Other(kind) => return Err(not_on_type("OBJECT", kind)),
    }
    Ok(())
}

fn encoding_of(value: &[u8]) -> &'static str {
    if parse_integer(value).is_some() {
        "int"
    } else if value.len() <= EMBSTR_MAX_BYTES {
        "embstr"
    } else {
        "raw"
    }
}

fn reference_count(value: &[u8]) -> i64 {
    match parse_integer(value) {
        Some(0..SHARED_INTEGERS) => i64::from(i32::MAX),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;

    #[test]
    fn encodings() {
        let mut keys = now_is(1000);
        let (short, long) = ("x".repeat(44), "x".repeat(45));
        for (value, encoding) in [
            ("12", "$3\r\nint\r\n"),
            ("012", "$6\r\nembstr\r\n"),
            (&short, "$6\r\nembstr\r\n"),
            (&long, "$3\r\nraw\r\n"),
        ] {
            keys.string("k", value);
            assert_eq!(keys.run(&["OBJECT", "encoding", "k"]), encoding, "{value}");
        }
        assert_eq!(keys.run(&["OBJECT", "ENCODING", "none"]), "$-1\r\n");
    }

    #[test]
    fn the_rest() {
        let mut keys = now_is(1000);
        keys.string("k", "v");
        keys.string("shared", "9999");
        assert_eq!(keys.run(&["OBJECT", "REFCOUNT", "k"]), ":1\r\n");
        assert_eq!(keys.run(&["OBJECT", "REFCOUNT", "shared"]), ":2147483647\r\n");
        assert_eq!(keys.run(&["OBJECT", "IDLETIME", "k"]), ":0\r\n");
        assert_eq!(keys.run(&["OBJECT", "FREQ", "none"]), "$-1\r\n");
        assert!(keys.run(&["OBJECT", "FREQ", "k"]).starts_with("-ERR An LFU maxmemory policy is not selected, "));
    }
}
