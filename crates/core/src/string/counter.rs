//! Values as numbers: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT. Redis 7.0 t_string.c.
//!
//! The integer commands are worked out here. INCRBYFLOAT adds and prints C long doubles, whose 64-bit
//! mantissa and rounding belong to the server, so it is the server that adds them, on the scratch key.

use super::space::SCRATCH;
use super::{Call, Entry, Flow, Halt, HelpRequest, Reply, Space};
use crate::notify::Event;
use crate::number::{NOT_AN_INTEGER, parse_integer};
use crate::resp::Answer;

/// INCR key: the new value.
pub(super) fn incr(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    add(call.args[1], 1, space, answer)
}

/// DECR key: the new value.
pub(super) fn decr(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    add(call.args[1], -1, space, answer)
}

/// INCRBY key integer: the new value.
pub(super) fn incrby(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    add(call.args[1], call.integer(2)?, space, answer)
}

/// DECRBY key integer: the new value. The lowest integer has no opposite, which is an error of its own.
pub(super) fn decrby(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let by = call.integer(2)?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(call.args[1], by, space, answer)
}

fn add(key: &[u8], by: i64, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let old = match space.string(key)? {
        Some(entry) => parse_integer(&entry.value).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    replace_value(space, key, sum.to_string().into_bytes());
    space.note(Event::IncrBy, key);
    answer.integer(sum);
    Ok(())
}

/// INCRBYFLOAT key number: the new value, as a string.
pub(super) fn incrbyfloat(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, by) = (call.args[1], call.args[2]);
    let old = space.string(key)?.map(|entry| entry.value.clone());
    let Some(replies) = space.help() else { return Err(Halt::Ask(sum_ask(old, by))) };
    let sum = match replies.into_iter().nth_back(1) {
        Some(Reply::Bytes(sum)) => sum,
        Some(Reply::Error(error)) => return Err(Halt::Error(error)),
        _ => return Err("ERR keyfold: unexpected reply to INCRBYFLOAT".into()),
    };
    answer.bulk(&sum);
    replace_value(space, key, sum);
    space.note(Event::IncrByFloat, key);
    Ok(())
}

fn sum_ask(old: Option<Vec<u8>>, by: &[u8]) -> HelpRequest {
    let mut commands = Vec::with_capacity(3);
    if let Some(old) = old {
        commands.push(vec![b"SET".to_vec(), SCRATCH.to_vec(), old]);
    }
    commands.push(vec![b"INCRBYFLOAT".to_vec(), SCRATCH.to_vec(), by.to_vec()]);
    commands.push(vec![b"DEL".to_vec(), SCRATCH.to_vec()]);
    HelpRequest { commands }
}

/// Writes a value and leaves the expiry as it is.
fn replace_value(space: &mut Space, key: &[u8], value: Vec<u8>) {
    match space.edit(key) {
        Some(entry) => entry.value = value,
        None => space.put(key, Entry { value, expires_at_ms: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;
    use super::*;

    #[test]
    fn overflow_is_refused() {
        let mut keys = now_is(1000);
        keys.string("k", "9223372036854775806");
        assert_eq!(keys.run(&["INCR", "k"]), ":9223372036854775807\r\n");
        let overflow = "-ERR increment or decrement would overflow\r\n";
        assert_eq!(keys.run(&["INCR", "k"]), overflow);
        assert_eq!(keys.run(&["DECRBY", "k", "-1"]), overflow);
        assert_eq!(keys.run(&["DECRBY", "k", "-9223372036854775808"]), "-ERR decrement would overflow\r\n");
        assert_eq!(keys.run(&["INCRBY", "k", "-9223372036854775808"]), ":-1\r\n");
    }

    #[test]
    fn only_canonical_integers_count() {
        let mut keys = now_is(1000);
        for value in ["", " 1", "01", "1.0", "-0"] {
            keys.string("k", value);
            assert_eq!(keys.run(&["INCR", "k"]), "-ERR value is not an integer or out of range\r\n", "{value:?}");
        }
        keys.string_until("k", "-1", 3000);
        assert_eq!(keys.run(&["INCR", "k"]), ":0\r\n");
        assert_eq!(keys.run(&["PTTL", "k"]), ":2000\r\n");
    }

    #[test]
    fn floats_are_the_servers() {
        let mut keys = now_is(1000);
        keys.string("k", "3.0e3");
        let ask = keys.ask(&["INCRBYFLOAT", "k", "200"]);
        let shown: Vec<String> = ask.commands.iter().map(|args| args.concat().escape_ascii().to_string()).collect();
        assert_eq!(shown, ["SET(scratch)3.0e3", "INCRBYFLOAT(scratch)200", "DEL(scratch)"]);
        keys.answers(vec![Reply::Bytes(b"OK".to_vec()), Reply::Bytes(b"3200".to_vec()), Reply::Integer(1)]);
        assert_eq!(keys.run(&["INCRBYFLOAT", "k", "200"]), "$4\r\n3200\r\n");
        keys.answers(vec![Reply::Error("ERR value is not a valid float".to_owned()), Reply::Integer(0)]);
        assert_eq!(keys.run(&["INCRBYFLOAT", "none", "x"]), "-ERR value is not a valid float\r\n");
        assert_eq!(keys.run(&["EXISTS", "none"]), ":0\r\n");
    }
}
