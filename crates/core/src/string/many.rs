//! Many strings in one command: MGET, MSET, MSETNX, MSETEX. Redis 7.0 t_string.c; of MSETEX Redis 8.4 and Valkey 9.1.

use super::options::{Of, Options};
use super::set::expiry_of;
use super::{Call, Entry, Flow, Halt, Space};
use crate::notify::Event;
use crate::number::parse_integer;
use crate::resp::Answer;

/// One answer has no more than this: a key that is named many times is read once and answered each time.
pub(crate) const MOST_ANSWERED_BYTES: usize = 512 << 20;
/// The error of what would have more.
pub(crate) const TOO_MUCH_ASKED: &str =
    "ERR keyfold: the answer would have more than 512 MiB; ask for fewer keys at once";

/// The error in place of values that were not decoded, as those of other keys had as much already.
pub(crate) const TOO_MUCH_DECODED: &str =
    "ERR keyfold: the values of these keys have more than 512 MiB; name fewer keys at once";

/// MGET key …: the values in order; nil where there is none, or another type.
///
/// In the place of a value that can't be decoded stands its error. Nil would say that it isn't there, and an error
/// in place of the array would keep the other values from the client; clients know errors inside arrays from EXEC.
pub(super) fn mget(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let keys = &call.args[1..];
    let too_much =
        |key: &&[u8]| matches!(space.string(key), Err(Halt::Undecodable(error)) if error == TOO_MUCH_DECODED);
    if keys.iter().any(too_much) {
        return Err(TOO_MUCH_DECODED.into());
    }
    let bytes = keys.iter().map(|key| space.string(key).ok().flatten().map_or(0, |entry| entry.value.len()));
    if bytes.fold(0, usize::saturating_add) > MOST_ANSWERED_BYTES {
        return Err(TOO_MUCH_ASKED.into());
    }
    answer.array(keys.len());
    for key in keys {
        match space.string(key) {
            Ok(Some(entry)) => answer.bulk(&entry.value),
            Err(Halt::Undecodable(error)) => answer.error(&error),
            Err(Halt::Large) => return Err(Halt::Large),
            Ok(None) | Err(_) => answer.nil(),
        }
    }
    Ok(())
}

/// MSET key value …: OK. Expiries are gone, and of a key named twice the last value holds.
pub(super) fn mset(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let pairs = pairs(call, "mset")?;
    write(pairs, space);
    answer.ok();
    Ok(())
}

/// MSETNX key value …: 1 where it wrote all, 0 where one of the keys was there and it wrote none.
pub(super) fn msetnx(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let pairs = pairs(call, "msetnx")?;
    let free = !pairs.iter().step_by(2).any(|key| space.exists(key));
    if free {
        write(pairs, space);
    }
    answer.integer(i64::from(free));
    Ok(())
}

/// MSETEX count key value … [NX | XX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]: 1 where it wrote all, 0 where NX or XX held
/// all of them back. NX wants none of the keys to be there, XX all of them. Of a key named twice the last value holds.
pub(super) fn msetex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let is_valkey = call.dialect.is_valkey();
    let [bad_count, bad_pairs] = if is_valkey {
        ["ERR invalid numkeys value or out of range", "ERR syntax error"]
    } else {
        ["ERR invalid numkeys value", "ERR wrong number of key-value pairs"]
    };
    let count = parse_integer(call.args[1]).and_then(|count| i32::try_from(count).ok()).filter(|count| *count > 0);
    let count = usize::try_from(count.ok_or(bad_count)?).unwrap_or(usize::MAX);
    let pairs = call.args[2..].get(..count.saturating_mul(2)).ok_or(bad_pairs)?;
    let options = Options::parse(call, Of::Msetex, 2 + pairs.len())?;
    let expires_at_ms = options.expires_at_ms(call, "msetex", space.now_ms())?;
    let mut keys = pairs.iter().step_by(2);
    let held_back = options.if_absent && keys.clone().any(|key| space.exists(key))
        || options.if_present && !keys.all(|key| space.exists(key));
    if !held_back {
        for pair in pairs.chunks_exact(2) {
            let kept = if options.keep_ttl { expiry_of(space, pair[0]) } else { None };
            space.put(pair[0], Entry { value: pair[1].to_vec(), expires_at_ms: expires_at_ms.or(kept) });
            space.note(Event::Set, pair[0]);
            if expires_at_ms.is_some() {
                space.note(Event::Expire, pair[0]);
            }
        }
    }
    answer.integer(i64::from(!held_back));
    Ok(())
}

/// Keys and values by turns. An odd number passes the server's arity check and is refused in the command.
fn pairs<'a>(call: &'a Call<'_>, command: &str) -> Result<&'a [&'a [u8]], Halt> {
    let pairs = &call.args[1..];
    if pairs.len() % 2 == 1 {
        return Err(Halt::Error(format!("ERR wrong number of arguments for '{command}' command")));
    }
    Ok(pairs)
}

fn write(pairs: &[&[u8]], space: &mut Space) {
    for pair in pairs.chunks_exact(2) {
        space.put(pair[0], Entry { value: pair[1].to_vec(), expires_at_ms: None });
        space.note(Event::Set, pair[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;
    use super::{MOST_ANSWERED_BYTES, TOO_MUCH_ASKED};

    #[test]
    fn mget_shows_other_types_as_nil() {
        let mut keys = now_is(1000);
        keys.string("a", "");
        keys.other("l", "list");
        assert_eq!(keys.run(&["MGET", "a", "l", "none", "a"]), "*4\r\n$0\r\n\r\n$-1\r\n$-1\r\n$0\r\n\r\n");
    }

    #[test]
    fn msetex_writes_all_with_one_expiry_or_nothing() {
        for (options, answer, left_ms) in [
            (&[][..], ":1\r\n", "-1"),
            (&["px", "500"], ":1\r\n", "500"),
            (&["EXAT", "2", "EXAT", "3"], ":1\r\n", "2000"),
            (&["KEEPTTL", "XX", "XX"], ":0\r\n", "4000"),
            (&["KEEPTTL"], ":1\r\n", "4000"),
            (&["NX"], ":0\r\n", "4000"),
            (&["PXAT", "999"], ":1\r\n", "-2"),
        ] {
            let mut keys = now_is(1000);
            keys.string_until("a", "old", 5000);
            assert_eq!(keys.run(&[&["MSETEX", "2", "a", "1", "b", "2"], options].concat()), answer, "{options:?}");
            assert_eq!(keys.run(&["PTTL", "a"]), format!(":{left_ms}\r\n"), "{options:?}");
            let written = if answer == ":1\r\n" { vec!["a", "b"] } else { Vec::new() };
            assert_eq!(keys.changed(), written, "{options:?}");
        }
        let mut keys = now_is(1000);
        keys.other("l", "list");
        assert_eq!(keys.run(&["MSETEX", "2", "a", "1", "a", "2", "NX"]), ":1\r\n");
        assert_eq!(keys.run(&["GET", "a"]), "$1\r\n2\r\n");
        assert_eq!(keys.run(&["MSETEX", "1", "l", "1", "NX"]), ":0\r\n");
        assert_eq!(keys.run(&["MSETEX", "2", "l", "1", "a", "3", "XX", "KEEPTTL"]), ":1\r\n");
        assert_eq!(keys.run(&["GET", "l"]), "$1\r\n1\r\n");
    }

    #[test]
    fn what_is_wrong_with_msetex_is_said_in_the_servers_words() {
        let syntax = "ERR syntax error";
        for (args, redis, valkey) in [
            (&["0", "a", "b"][..], "ERR invalid numkeys value", "ERR invalid numkeys value or out of range"),
            (&["x", "a", "b"], "ERR invalid numkeys value", "ERR invalid numkeys value or out of range"),
            (&["2147483648", "a", "b"], "ERR invalid numkeys value", "ERR invalid numkeys value or out of range"),
            (&["2147483647", "a", "b"], "ERR wrong number of key-value pairs", syntax),
            (&["2", "a", "b", "c"], "ERR wrong number of key-value pairs", syntax),
            (&["1", "a", "b", "c"], syntax, syntax),
            (&["1", "a", "b", "NX", "XX"], syntax, syntax),
            (&["1", "a", "b", "GET"], syntax, syntax),
            (&["1", "a", "b", "IFEQ", "b"], syntax, syntax),
            (&["1", "a", "b", "KEEPTTL", "EX", "1"], syntax, syntax),
            (&["1", "a", "b", "EX"], syntax, syntax),
            (
                &["1", "a", "b", "EX", "0"],
                "ERR invalid expire time in 'msetex' command",
                "ERR invalid expire time in 'msetex' command",
            ),
        ] {
            for (name, version, error) in [("redis", "7.0.15", redis), ("valkey", "8.0.1", valkey)] {
                let mut keys = now_is(1000).behind(name, version, true);
                let answer = keys.run(&[&["MSETEX"], args].concat());
                assert_eq!(answer, format!("-{error}\r\n"), "{name} {args:?}");
            }
        }
    }

    #[test]
    fn msetnx_is_all_or_nothing() {
        let mut keys = now_is(1000);
        keys.other("l", "list");
        assert_eq!(keys.run(&["MSETNX", "a", "1", "l", "2"]), ":0\r\n");
        assert_eq!(keys.changed(), Vec::<String>::new());
        assert_eq!(keys.run(&["MSETNX", "a", "1", "a", "2"]), ":1\r\n");
        assert_eq!(keys.run(&["GET", "a"]), "$1\r\n2\r\n");
        assert_eq!(keys.run(&["MSET", "a", "1", "b"]), "-ERR wrong number of arguments for 'mset' command\r\n");
    }

    #[test]
    fn a_value_that_is_asked_for_again_and_again_is_not_answered_without_end() {
        let mut keys = now_is(1000);
        keys.string("k", &"x".repeat(MOST_ANSWERED_BYTES / 2));
        assert_eq!(keys.run(&["MGET", "k", "k", "k"]), format!("-{TOO_MUCH_ASKED}\r\n"));
        keys.string("k", "x");
        assert_eq!(keys.run(&["MGET", "k", "k"]), "*2\r\n$1\r\nx\r\n$1\r\nx\r\n");
    }
}
