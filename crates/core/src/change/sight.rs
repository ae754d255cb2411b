//! What members and coordinators see of the server: its time and the three keys, at one moment. And what an atomic
//! step answers.

use super::{CHANGE_KEY, LEASES_KEY};
use crate::layout::STORED_KEY;
use crate::resp::{Reply, write_command};

/// What was seen.
pub(super) struct Sight<'r> {
    /// The server's clock, in milliseconds since 1970.
    pub(super) now_ms: i64,
    /// The reply about the leases.
    pub(super) leases: Option<Reply<'r>>,
    /// The announcement's bytes.
    pub(super) announcement: Option<Vec<u8>>,
    /// The layout's text.
    pub(super) layout: Option<Vec<u8>>,
}

/// Asks for it; how many replies that has. `member` is the one whose lease is wanted; none for all leases.
pub(super) fn ask(member: Option<&[u8]>, wire: &mut Vec<u8>) -> usize {
    write_command(wire, &[b"MULTI"]);
    write_command(wire, &[b"TIME"]);
    match member {
        Some(member) => write_command(wire, &[b"HGET", LEASES_KEY, member]),
        None => write_command(wire, &[b"HGETALL", LEASES_KEY]),
    }
    write_command(wire, &[b"GET", CHANGE_KEY]);
    write_command(wire, &[b"GET", STORED_KEY]);
    write_command(wire, &[b"EXEC"]);
    6
}

/// Reads the replies to [`ask`], in RESP2.
///
/// # Errors
/// What the server said instead.
pub(super) fn read(replies: &[Vec<u8>]) -> Result<Sight<'_>, String> {
    if let Some(error) = replies.iter().find(|raw| raw.starts_with(b"-")) {
        return Err(text(error));
    }
    let Some(Ok(Reply::Array(mut parts))) = replies.last().map(|raw| Reply::parse(raw)) else {
        return Err("no answer to EXEC".to_owned());
    };
    let now_ms = parts.next().and_then(read_time).ok_or("no time")?;
    let leases = parts.next();
    let mut bytes = || parts.next().and_then(Reply::bytes).map(<[u8]>::to_vec);
    let (announcement, layout) = (bytes(), bytes());
    Ok(Sight { now_ms, leases, announcement, layout })
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

/// The reply to TIME, in milliseconds since 1970.
fn read_time(reply: Reply<'_>) -> Option<i64> {
    let Reply::Array(mut parts) = reply else { return None };
    let mut number = || std::str::from_utf8(parts.next()?.bytes()?).ok()?.parse::<i64>().ok();
    let (seconds, micros) = (number()?, number()?);
    seconds.checked_mul(1000)?.checked_add(micros / 1000)
}

fn text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).trim_end().to_owned()
}
