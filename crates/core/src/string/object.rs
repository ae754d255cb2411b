//! OBJECT: what a server would say of how it keeps a value. Redis 7.0 object.c.
//!
//! A folded value is kept otherwise; the answers are those of a plain server that was just SET the value.
//! A real one may also have turned it to `raw` by APPEND, which nothing remembers here.

use super::{Call, Entry, Flow, Halt, Held, Space, not_on_type};
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::resp::word::c_text;

/// The longest string that is kept in one piece with its header, in bytes.
const EMBSTR_MAX_BYTES: usize = 44;

/// The server keeps one object for each integer below this, and counts no references to it.
const SHARED_INTEGERS: i64 = 10_000;

const NO_LFU: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
                      when switching between policies at runtime LRU and LFU data will take some time to adjust.";

const HELP: [&str; 15] = [
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];

/// OBJECT ENCODING | REFCOUNT | IDLETIME | FREQ key, OBJECT HELP.
pub(super) fn object(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let name = call.args[1].to_ascii_lowercase();
    match name.as_slice() {
        b"encoding" => shown(call, space, answer, "encoding", |entry, answer| {
            answer.bulk(entry.map_or("raw", |entry| encoding(&entry.value)).as_bytes());
            Ok(())
        }),
        b"refcount" => shown(call, space, answer, "refcount", |entry, answer| {
            answer.integer(entry.map_or(1, |entry| reference_count(&entry.value)));
            Ok(())
        }),
        b"idletime" => shown(call, space, answer, "idletime", |_, answer| {
            answer.integer(0);
            Ok(())
        }),
        b"freq" => shown(call, space, answer, "freq", |_, _| Err(NO_LFU.into())),
        b"help" => help(call, answer),
        _ => {
            answer.raw(&unknown(call.args[1]));
            Ok(())
        }
    }
}

/// Shows something of a key that is there. No entry stands for a string whose bytes were left unread, as they are many.
fn shown(
    call: &Call<'_>,
    space: &Space,
    answer: &mut Answer<'_>,
    name: &str,
    show: impl Fn(Option<&Entry>, &mut Answer<'_>) -> Flow,
) -> Flow {
    check_arity(call, name, 3)?;
    match space.held(call.args[2]) {
        Held::Nothing => answer.nil(),
        Held::String(entry) => show(Some(entry), answer)?,
        Held::Unread(_) => match space.string(call.args[2]) {
            Err(Halt::Large) => show(None, answer)?,
            other => drop(other?),
        },
        Held::Other(kind) => return Err(not_on_type("OBJECT", kind)),
    }
    Ok(())
}

fn check_arity(call: &Call<'_>, name: &str, arity: usize) -> Flow {
    if call.args.len() == arity {
        return Ok(());
    }
    Err(Halt::Error(format!("ERR wrong number of arguments for 'object|{name}' command")))
}

fn help(call: &Call<'_>, answer: &mut Answer<'_>) -> Flow {
    check_arity(call, "help", 2)?;
    answer.array(HELP.len());
    for line in HELP {
        answer.simple(line);
    }
    Ok(())
}

fn encoding(value: &[u8]) -> &'static str {
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

/// The reply to an unknown subcommand, which echoes up to 128 bytes of it.
fn unknown(name: &[u8]) -> Vec<u8> {
    let name = c_text(name);
    let mut reply = [b"-ERR unknown subcommand '", &name[..name.len().min(128)], b"'. Try OBJECT HELP."].concat();
    for byte in &mut reply {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    reply.extend_from_slice(b"\r\n");
    reply
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
        assert_eq!(keys.run(&["OBJECT", "fo\no"]), "-ERR unknown subcommand 'fo o'. Try OBJECT HELP.\r\n");
        let arity = "-ERR wrong number of arguments for 'object|freq' command\r\n";
        assert_eq!(keys.run(&["OBJECT", "FREQ"]), arity);
        assert!(keys.run(&["OBJECT", "help"]).starts_with("*15\r\n+OBJECT <subcommand>"));
    }
}
