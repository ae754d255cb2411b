//! OBJECT: what a server would say of how it keeps a value. Redis 7.0 object.c.
//!
//! A folded value is kept otherwise; the answers are those of a plain server with the limits it comes with, that was just
//! SET the value, or given the members. A real one may also have turned it to `raw` by APPEND, or to a hashtable by a member
//! that is gone, which nothing remembers here.

use super::{Call, Entry, Flow, Halt, Held, Space, Unread, WhyUnread, not_on_type};
use crate::collection::{Collection, Hash, Set};
use crate::dialect::Dialect;
use crate::number::parse_integer;
use crate::resp::Answer;

/// The longest string that is kept in one piece with its header, in bytes.
const EMBSTR_MAX_BYTES: usize = 44;

/// The server keeps one object for each integer below this, and counts no references to it.
const SHARED_INTEGERS: i64 = 10_000;

/// `set-max-intset-entries`.
const INTSET_MAX_ENTRIES: usize = 512;

/// `set-max-listpack-entries`.
const LISTPACK_SET_MAX_ENTRIES: usize = 128;

/// `hash-max-listpack-entries`.
const LISTPACK_HASH_MAX_ENTRIES: usize = 512;

/// `set-max-listpack-value` and `hash-max-listpack-value`.
const LISTPACK_MAX_BYTES: usize = 64;

const NO_LFU: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
                      when switching between policies at runtime LRU and LFU data will take some time to adjust.";

/// What is shown of.
enum Shown<'a> {
    String(&'a Entry),
    /// A string whose bytes were left unread, as they are many.
    Long,
    Collection(&'a Collection),
}

/// OBJECT ENCODING key: how the value is kept.
pub(super) fn encoding(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    shown(call, space, answer, |shown, answer| {
        let encoding = match shown {
            Shown::String(entry) => encoding_of(&entry.value),
            Shown::Long => "raw",
            Shown::Collection(Collection::Set(set)) => encoding_of_set(set, call.dialect),
            Shown::Collection(Collection::Hash(hash)) => encoding_of_hash(hash, call.dialect),
        };
        answer.bulk(encoding.as_bytes());
        Ok(())
    })
}

/// OBJECT REFCOUNT key: how often the value is referred to.
pub(super) fn refcount(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    shown(call, space, answer, |shown, answer| {
        answer.integer(if let Shown::String(entry) = shown { reference_count(&entry.value) } else { 1 });
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

/// Shows something of a key that is there.
fn shown(
    call: &Call<'_>,
    space: &Space,
    answer: &mut Answer<'_>,
    show: impl Fn(Shown<'_>, &mut Answer<'_>) -> Flow,
) -> Flow {
    match space.held(call.args[2]) {
        Held::Nothing => answer.nil(),
        Held::String(entry) => show(Shown::String(entry), answer)?,
        Held::Unread(Unread { why: WhyUnread::Large, collection: Some(_), .. }) => return Err(Halt::Large),
        Held::Unread(_) => match space.string(call.args[2]) {
            Err(Halt::Large) => show(Shown::Long, answer)?,
            other => drop(other?),
        },
        Held::Collection(held) => show(Shown::Collection(&held.collection), answer)?,
        Held::Other(kind) => return Err(not_on_type("OBJECT", kind)),
    }
    Ok(())
}

fn encoding_of_set(set: &Set, dialect: Dialect<'_>) -> &'static str {
    if set.len() <= INTSET_MAX_ENTRIES && set.iter().all(|member| parse_integer(member).is_some()) {
        "intset"
    } else if dialect.has_listpack_sets() && set.len() <= LISTPACK_SET_MAX_ENTRIES && set.iter().all(fits_listpack) {
        "listpack"
    } else {
        "hashtable"
    }
}

/// Where a field expires, Redis keeps times in the listpack too, and Valkey keeps no listpack.
fn encoding_of_hash(hash: &Hash, dialect: Dialect<'_>) -> &'static str {
    let expires = hash.iter().any(|(_, field)| field.expires_at_ms.is_some());
    let is_small = hash.len() <= LISTPACK_HASH_MAX_ENTRIES
        && hash.iter().all(|(name, field)| fits_listpack(name) && fits_listpack(&field.value));
    match (is_small, expires) {
        (true, false) => "listpack",
        (true, true) if !dialect.is_valkey() => "listpackex",
        _ => "hashtable",
    }
}

fn fits_listpack(text: &[u8]) -> bool {
    text.len() <= LISTPACK_MAX_BYTES
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
    use crate::collection::Field;

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
    fn encodings_of_sets() {
        let numbers: Vec<String> = (0..513).map(|number| number.to_string()).collect();
        let words: Vec<String> = (0..129).map(|number| format!("x{number}")).collect();
        let (short, long) = (vec!["x".repeat(64)], vec!["x".repeat(65)]);
        for (members, old, new) in [
            (&numbers[..512], "intset", "intset"),
            (&numbers[..], "hashtable", "hashtable"),
            (&words[..128], "hashtable", "listpack"),
            (&words[..], "hashtable", "hashtable"),
            (&short[..], "hashtable", "listpack"),
            (&long[..], "hashtable", "hashtable"),
        ] {
            for (name, version, encoding) in
                [("redis", "7.0.15", old), ("redis", "8.0.6", new), ("valkey", "8.0.1", new), ("valkey", "9.1.2", new)]
            {
                let mut keys = now_is(1000).behind(name, version, true);
                keys.set("k", &members.iter().map(String::as_str).collect::<Vec<_>>());
                let answer = format!("${}\r\n{encoding}\r\n", encoding.len());
                assert_eq!(keys.run(&["OBJECT", "ENCODING", "k"]), answer, "{name} {version}");
            }
        }
        let mut keys = now_is(1000);
        keys.set("k", &["a"]);
        assert_eq!(keys.run(&["OBJECT", "REFCOUNT", "k"]), ":1\r\n");
        assert_eq!(keys.run(&["OBJECT", "IDLETIME", "k"]), ":0\r\n");
        assert!(keys.run(&["OBJECT", "FREQ", "k"]).starts_with("-ERR An LFU maxmemory policy is not selected, "));
    }

    #[test]
    fn encodings_of_hashes() {
        let (valkey, redis) = (("valkey", "9.1.2"), ("redis", "8.0.6"));
        for (fields, value_bytes, expiry, server, encoding) in [
            (512, 64, None, valkey, "listpack"),
            (513, 1, None, valkey, "hashtable"),
            (1, 65, None, redis, "hashtable"),
            (512, 1, Some(9000), redis, "listpackex"),
            (1, 1, Some(9000), valkey, "hashtable"),
            (513, 1, Some(9000), redis, "hashtable"),
        ] {
            let mut keys = now_is(1000).behind(server.0, server.1, true);
            let field = Field { value: vec![b'x'; value_bytes], expires_at_ms: expiry };
            let hash = (0..fields).map(|name| (format!("f{name}").into_bytes(), field.clone())).collect();
            keys.hash("k", hash);
            let answer = format!("${}\r\n{encoding}\r\n", encoding.len());
            assert_eq!(keys.run(&["OBJECT", "ENCODING", "k"]), answer, "{fields} of {value_bytes} on {server:?}");
        }
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
