//! Commands that read or write one whole string: GET, SET and their relatives. Redis 7.0 t_string.c.
//!
//! The order of the checks is the server's: options, then the expiry's number, then the type.

use super::options::{Of, Options, Unit, expiry};
use super::{Call, Entry, Flow, Space};
use crate::resp::Answer;

/// GET key: the value, or nil.
pub(super) fn get(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    match space.string(call.args[1])? {
        Some(entry) => answer.bulk(&entry.value),
        None => answer.nil(),
    }
    Ok(())
}

/// SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]: OK; nil where NX or XX held it
/// back; with GET the old value instead of either.
pub(super) fn set(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let options = Options::parse(call, Of::Set)?;
    let expires_at_ms = options.expires_at_ms(call, "set", space.now_ms())?;
    if options.get {
        get(call, space, answer)?;
    }
    let held_back = if space.exists(key) { options.if_absent } else { options.if_present };
    if !held_back {
        let kept = if options.keep_ttl { expiry_of(space, key) } else { None };
        write(space, key, call.args[2], expires_at_ms.or(kept));
    }
    if !options.get {
        if held_back { answer.nil() } else { answer.ok() }
    }
    Ok(())
}

/// SETNX key value: 1 where it wrote, 0 where the key was there.
pub(super) fn setnx(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let free = !space.exists(call.args[1]);
    if free {
        write(space, call.args[1], call.args[2], None);
    }
    answer.integer(i64::from(free));
    Ok(())
}

/// SETEX key seconds value: OK.
pub(super) fn setex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiring(call, space, answer, Unit::Ex, "setex")
}

/// PSETEX key milliseconds value: OK.
pub(super) fn psetex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiring(call, space, answer, Unit::Px, "psetex")
}

fn set_expiring(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>, unit: Unit, name: &str) -> Flow {
    let at = expiry(call, 2, unit, name, space.now_ms())?;
    write(space, call.args[1], call.args[3], Some(at));
    answer.ok();
    Ok(())
}

/// GETSET key value: the old value, or nil. The expiry is gone.
pub(super) fn getset(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    get(call, space, answer)?;
    write(space, call.args[1], call.args[2], None);
    Ok(())
}

/// GETDEL key: the value, which is then gone, or nil.
pub(super) fn getdel(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    get(call, space, answer)?;
    if space.exists(call.args[1]) {
        space.remove(call.args[1]);
    }
    Ok(())
}

/// GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]: the value, or nil; sets or removes the expiry.
///
/// The expiry's number is looked at only where there is a string, after the type.
pub(super) fn getex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let options = Options::parse(call, Of::Getex)?;
    let Some(entry) = space.string(key)? else {
        answer.nil();
        return Ok(());
    };
    let at = options.expires_at_ms(call, "getex", space.now_ms())?;
    answer.bulk(&entry.value);
    let had_expiry = entry.expires_at_ms.is_some();
    let absolute = options.expire.is_some_and(|(unit, _)| unit.is_absolute());
    if absolute && at.is_some_and(|at| at <= space.now_ms()) {
        space.remove(key);
    } else if at.is_some() || (options.persist && had_expiry) {
        space.set_expiry(key, at);
    }
    Ok(())
}

/// When the string under `key` expires.
pub(super) fn expiry_of(space: &Space, key: &[u8]) -> Option<i64> {
    space.expiry(key).flatten()
}

fn write(space: &mut Space, key: &[u8], value: &[u8], expires_at_ms: Option<i64>) {
    space.put(key, Entry { value: value.to_vec(), expires_at_ms });
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;

    const SYNTAX: &str = "-ERR syntax error\r\n";
    const EXPIRE: &str = "-ERR invalid expire time in 'set' command\r\n";

    #[test]
    fn options_that_contradict() {
        let mut keys = now_is(1000);
        for options in [
            &["NX", "XX"][..],
            &["EX", "1", "PX", "1"],
            &["EX", "1", "KEEPTTL"],
            &["KEEPTTL", "EXAT", "9"],
            &["EX"],
            &["PERSIST"],
            &["nonsense"],
        ] {
            assert_eq!(keys.run(&[&["SET", "k", "v"], options].concat()), SYNTAX, "{options:?}");
        }
        assert_eq!(keys.run(&["SET", "k", "v", "EX", "1", "ex", "2", "get", "GET", "nx", "NX"]), "$-1\r\n");
        assert_eq!(keys.run(&["PTTL", "k"]), ":2000\r\n");
    }

    #[test]
    fn expiries_out_of_range() {
        let mut keys = now_is(1000);
        for (unit, number) in [
            ("EX", "0"),
            ("PX", "-1"),
            ("EX", "9223372036854775807"),
            ("EX", "9223372036854775"),
            ("PX", "9223372036854775807"),
            ("EXAT", "9223372036854776"),
        ] {
            assert_eq!(keys.run(&["SET", "k", "v", unit, number]), EXPIRE, "{unit} {number}");
        }
        assert_eq!(keys.run(&["SET", "k", "v", "PXAT", "9223372036854775807"]), "+OK\r\n");
        assert_eq!(keys.run(&["SETEX", "k", "0", "v"]), "-ERR invalid expire time in 'setex' command\r\n");
        assert_eq!(keys.run(&["PSETEX", "k", "x", "v"]), "-ERR value is not an integer or out of range\r\n");
    }

    #[test]
    fn set_into_the_past_leaves_nothing() {
        let mut keys = now_is(1000);
        assert_eq!(keys.run(&["SET", "k", "v", "PXAT", "999"]), "+OK\r\n");
        assert_eq!(keys.run(&["GET", "k"]), "$-1\r\n");
        assert_eq!(keys.changed(), ["k"]);
        assert_eq!(keys.run(&["SET", "k", "v", "PXAT", "1000"]), "+OK\r\n");
        assert_eq!(keys.run(&["GET", "k"]), "$1\r\nv\r\n");
        assert_eq!(keys.run(&["GETEX", "k", "PXAT", "1000"]), "$1\r\nv\r\n");
        assert_eq!(keys.run(&["GET", "k"]), "$-1\r\n");
    }

    #[test]
    fn get_with_nx_and_with_another_type() {
        let mut keys = now_is(1000);
        keys.string("k", "old");
        keys.other("l", "list");
        assert_eq!(keys.run(&["SET", "k", "new", "GET", "NX"]), "$3\r\nold\r\n");
        assert_eq!(keys.changed(), Vec::<String>::new());
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
        assert_eq!(keys.run(&["SET", "l", "new", "GET"]), wrong);
        assert_eq!(keys.run(&["SET", "l", "new", "XX"]), "+OK\r\n");
        assert_eq!(keys.changed(), ["l"]);
    }

    #[test]
    fn getex_looks_at_the_number_last() {
        let mut keys = now_is(1000);
        assert_eq!(keys.run(&["GETEX", "none", "EX", "x"]), "$-1\r\n");
        keys.string_until("k", "v", 2000);
        assert_eq!(keys.run(&["GETEX", "k", "EX", "0"]), "-ERR invalid expire time in 'getex' command\r\n");
        assert_eq!(keys.run(&["GETEX", "k"]), "$1\r\nv\r\n");
        assert_eq!(keys.changed(), Vec::<String>::new());
        assert_eq!(keys.run(&["GETEX", "k", "persist"]), "$1\r\nv\r\n");
        assert_eq!(keys.run(&["TTL", "k"]), ":-1\r\n");
    }
}
