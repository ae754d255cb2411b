//! What members and coordinators see of the server: its time, the answers, and then, at one moment, the announcement and
//! the register. And what an atomic step answers.
//!
//! No MULTI: a server that is out of memory refuses that, and whoever only looks must go on. The answers come first, so
//! they are at most older than the announcement; the atomic steps check what matters.

use super::Register;
use crate::admin::{ANSWERS_KEY, CHANGE_KEY, COPY_KEY, LAYOUT_KEY};
use crate::resp::{Reply, write_command};

/// What was seen.
pub(super) struct Sight<'r> {
    /// The server's clock, in milliseconds since 1970.
    pub(super) now_ms: i64,
    /// The reply about the answers.
    pub(super) answers: Option<Reply<'r>>,
    /// The announcement's bytes.
    pub(super) announcement: Option<Vec<u8>>,
    /// The register.
    pub(super) register: Register,
}

/// Asks for it; how many replies that has. `member` is the one whose answer is wanted; none for all answers.
pub(super) fn ask(member: Option<&[u8]>, wire: &mut Vec<u8>) -> usize {
    write_command(wire, &[b"TIME"]);
    match member {
        Some(member) => write_command(wire, &[b"HGET", ANSWERS_KEY, member]),
        None => write_command(wire, &[b"HGETALL", ANSWERS_KEY]),
    }
    write_command(wire, &[b"MGET", CHANGE_KEY, LAYOUT_KEY, COPY_KEY]);
    3
}

/// Reads the replies to [`ask`], in RESP2.
///
/// # Errors
/// What the server said instead.
pub(super) fn read(replies: &[Vec<u8>]) -> Result<Sight<'_>, String> {
    // Another type under the key of the answers is as good as none; any other error is the server's last word.
    let is_error = |raw: &&Vec<u8>| raw.starts_with(b"-") && !raw.starts_with(b"-WRONGTYPE");
    if let Some(error) = replies.iter().find(is_error) {
        return Err(text(error));
    }
    let mut replies = replies.iter().map(|raw| Reply::parse(raw).ok());
    let (time, answers, keys) = (replies.next().flatten(), replies.next().flatten(), replies.next().flatten());
    let now_ms = time.and_then(Reply::time_us).ok_or("no time")? / 1000;
    let Some(Reply::Array(mut keys)) = keys else { return Err("no answer to MGET".to_owned()) };
    let mut bytes = || keys.next().and_then(Reply::bytes).map(<[u8]>::to_vec);
    let announcement = bytes();
    let register = Register { layout: bytes(), copy: bytes() };
    Ok(Sight { now_ms, answers, announcement, register })
}

/// Whether an atomic step was carried out.
///
/// # Errors
/// What the server said instead.
pub(super) fn carried_out(reply: &[u8]) -> Result<bool, String> {
    match Reply::parse(reply) {
        Ok(Reply::Integer(done)) => Ok(done == 1),
        _ => Err(text(reply)),
    }
}

/// A server's error, without what marks it as one.
pub(super) fn text(reply: &[u8]) -> String {
    let text = reply.strip_prefix(b"-").unwrap_or(reply);
    String::from_utf8_lossy(text).trim_end().to_owned()
}
