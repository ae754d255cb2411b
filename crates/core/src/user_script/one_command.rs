//! A command on folded keys as a script of its own, for a transaction in which a user's script uses the same keys.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use super::UserScript;
use crate::resp::Protocol;
use crate::resp::word::is_word;

static SCRIPT: LazyLock<Arc<UserScript>> =
    LazyLock::new(|| Arc::new(UserScript::new(include_bytes!("one_command.lua"), false)));

/// The script that carries out the command in its arguments.
pub(crate) fn one_command() -> &'static Arc<UserScript> {
    &SCRIPT
}

/// The reply of the command of this name, by that of the script.
pub(crate) fn reply_of_one_command<'r>(name: &[u8], protocol: Protocol, reply: &'r [u8]) -> Cow<'r, [u8]> {
    if let Some(number) = reply.strip_prefix(b"+exactly ") {
        return Cow::Owned([b":", number].concat());
    }
    // In scripts LCS IDX answers by RESP2.
    match reply.strip_prefix(b"*4\r\n") {
        Some(pairs) if protocol == Protocol::Resp3 && is_word(name, "lcs") => Cow::Owned([b"%2\r\n", pairs].concat()),
        _ => Cow::Borrowed(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_the_commands_own() {
        for (name, protocol, reply, expected) in [
            (&b"incr"[..], Protocol::Resp2, &b"+exactly 9007199254740993\r\n"[..], &b":9007199254740993\r\n"[..]),
            (b"LCS", Protocol::Resp3, b"*4\r\n$3\r\nlen\r\n", b"%2\r\n$3\r\nlen\r\n"),
            (b"LCS", Protocol::Resp2, b"*4\r\n$3\r\nlen\r\n", b"*4\r\n$3\r\nlen\r\n"),
            (b"MGET", Protocol::Resp3, b"*4\r\n_\r\n", b"*4\r\n_\r\n"),
        ] {
            assert_eq!(reply_of_one_command(name, protocol, reply), expected);
        }
    }
}
