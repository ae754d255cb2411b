//! Values as the server writes them to files: DUMP and RESTORE. Redis 7.0 cluster.c.
//!
//! The payload (LZF, a version, a CRC-64) is the server's own. It is made, and read back, by the server, on
//! the scratch key.

use super::space::SCRATCH;
use super::{Call, Entry, Flow, Halt, Held, HelpRequest, Reply, Space, not_on_type};
use crate::notify::Event;
use crate::resp::Answer;
use crate::resp::word::is_word;

/// DUMP key: the payload, or nil.
pub(super) fn dump(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    if let Held::Other(kind) = space.held(call.args[1]) {
        return Err(not_on_type("DUMP", kind));
    }
    let Some(Entry { value, .. }) = space.string(call.args[1])?.cloned() else {
        answer.nil();
        return Ok(());
    };
    let Some(replies) = space.help() else {
        return ask(&[&[b"SET", SCRATCH, &value], &[b"DUMP", SCRATCH], &[b"DEL", SCRATCH]]);
    };
    match replies.into_iter().nth(1) {
        Some(Reply::Bytes(payload)) => answer.bulk(&payload),
        Some(Reply::Error(error)) => return Err(Halt::Error(error)),
        _ => return Err("ERR keyfold: unexpected reply to DUMP".into()),
    }
    Ok(())
}

/// RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds | FREQ frequency]: OK.
///
/// How recently or often a folded value was used is not kept; IDLETIME and FREQ are only checked.
///
/// # Errors
/// A payload of another type is refused.
pub(super) fn restore(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let options = RestoreOptions::parse(call)?;
    if !options.replace && space.exists(key) {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = call.integer(2)?;
    if ttl < 0 {
        return Err("ERR Invalid TTL value, must be >= 0".into());
    }
    let Some(replies) = space.help() else {
        let restore: &[&[u8]] = &[b"RESTORE", SCRATCH, b"0", call.args[3]];
        return ask(&[restore, &[b"TYPE", SCRATCH], &[b"GET", SCRATCH], &[b"DEL", SCRATCH]]);
    };
    let value = restored(replies)?;
    let expires_at_ms = match ttl {
        0 => None,
        at if options.absolute => Some(at),
        // The server's sum wraps: a span beyond the signed 64 bits has already passed.
        span => Some(span.wrapping_add(space.now_ms())),
    };
    if expires_at_ms.is_some_and(|at| at <= space.now_ms()) {
        if space.exists(key) {
            space.remove(key);
            space.note(Event::Del, key);
        }
    } else {
        if options.replace && space.exists(key) {
            // The server removes it first.
            space.remove(key);
        }
        space.put(key, Entry { value, expires_at_ms });
        space.note(Event::Restore, key);
    }
    answer.ok();
    Ok(())
}

/// The value among the replies to RESTORE, TYPE, GET and DEL.
fn restored(replies: Vec<Reply>) -> Result<Vec<u8>, Halt> {
    let mut replies = replies.into_iter();
    match (replies.next(), replies.next(), replies.next()) {
        (Some(Reply::Error(error)), ..) => Err(Halt::Error(error)),
        (_, Some(Reply::Bytes(kind)), Some(Reply::Bytes(value))) if kind == b"string" => Ok(value),
        (_, Some(Reply::Bytes(kind)), _) if kind != b"none" => Err(not_on_type("RESTORE", &kind)),
        _ => Err("ERR keyfold: unexpected reply to RESTORE".into()),
    }
}

fn ask(commands: &[&[&[u8]]]) -> Flow {
    let commands = commands.iter().map(|args| args.iter().map(|arg| arg.to_vec()).collect()).collect();
    Err(Halt::Ask(HelpRequest { commands }))
}

#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    absolute: bool,
}

impl RestoreOptions {
    fn parse(call: &Call<'_>) -> Result<Self, Halt> {
        let mut options = Self::default();
        let (mut idle, mut frequency) = (false, false);
        let mut at = 4;
        while let Some(&option) = call.args.get(at) {
            let number_follows = at + 1 < call.args.len();
            if is_word(option, "REPLACE") {
                options.replace = true;
            } else if is_word(option, "ABSTTL") {
                options.absolute = true;
            } else if is_word(option, "IDLETIME") && number_follows && !frequency {
                idle = true;
                at += 1;
                check(call.integer(at)? >= 0, "ERR Invalid IDLETIME value, must be >= 0")?;
            } else if is_word(option, "FREQ") && number_follows && !idle {
                frequency = true;
                at += 1;
                let within = (0..=255).contains(&call.integer(at)?);
                check(within, "ERR Invalid FREQ value, must be >= 0 and <= 255")?;
            } else {
                return Err("ERR syntax error".into());
            }
            at += 1;
        }
        Ok(options)
    }
}

fn check(holds: bool, error: &str) -> Flow {
    if holds { Ok(()) } else { Err(error.into()) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;
    use super::*;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn dump_asks_for_the_payload() {
        let mut keys = now_is(1000);
        assert_eq!(keys.run(&["DUMP", "none"]), "$-1\r\n");
        keys.string("k", "v");
        assert_eq!(keys.ask(&["DUMP", "k"]).commands.len(), 3);
        keys.answers(vec![bytes("OK"), bytes("payload"), Reply::Integer(1)]);
        assert_eq!(keys.run(&["DUMP", "k"]), "$7\r\npayload\r\n");
    }

    #[test]
    fn restore_takes_strings_only() {
        let mut keys = now_is(1000);
        keys.answers(vec![bytes("OK"), bytes("string"), bytes("v"), Reply::Integer(1)]);
        assert_eq!(keys.run(&["RESTORE", "k", "500", "payload"]), "+OK\r\n");
        assert_eq!(keys.run(&["PTTL", "k"]), ":500\r\n");
        keys.answers(vec![bytes("OK"), bytes("list"), Reply::Error("WRONGTYPE".to_owned()), Reply::Integer(1)]);
        let refused = "-ERR keyfold: RESTORE of a list on a folded key is not supported\r\n";
        assert_eq!(keys.run(&["RESTORE", "k", "0", "payload", "REPLACE"]), refused);
        keys.answers(vec![Reply::Error("ERR Bad data format".to_owned()), bytes("none"), Reply::Nil]);
        assert_eq!(keys.run(&["RESTORE", "new", "0", "payload"]), "-ERR Bad data format\r\n");
    }

    #[test]
    fn restore_into_the_past_removes() {
        let mut keys = now_is(1000);
        for options in [&["1000", "p", "replace", "ABSTTL"][..], &["9223372036854775807", "p", "replace"]] {
            keys.string("k", "old");
            keys.answers(vec![bytes("OK"), bytes("string"), bytes("v"), Reply::Integer(1)]);
            assert_eq!(keys.run(&[&["RESTORE", "k"], options].concat()), "+OK\r\n");
            assert_eq!(keys.run(&["EXISTS", "k"]), ":0\r\n");
        }
    }

    #[test]
    fn restore_checks_before_it_asks() {
        let mut keys = now_is(1000);
        keys.string("k", "v");
        assert_eq!(keys.run(&["RESTORE", "k", "x", "p"]), "-BUSYKEY Target key name already exists.\r\n");
        assert_eq!(keys.run(&["RESTORE", "new", "-1", "p"]), "-ERR Invalid TTL value, must be >= 0\r\n");
        for (options, error) in [
            (&["idletime", "-1"][..], "-ERR Invalid IDLETIME value, must be >= 0\r\n"),
            (&["FREQ", "256"], "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n"),
            (&["FREQ", "1", "IDLETIME", "1"], "-ERR syntax error\r\n"),
            (&["FREQ"], "-ERR syntax error\r\n"),
        ] {
            assert_eq!(keys.run(&[&["RESTORE", "new", "0", "p"], options].concat()), error);
        }
    }
}
