//! A native command that the server may refuse; then the logical command is worked out instead.
//!
//! SETNX goes as HSETNX first, which refuses a field that is there though its value may have expired; INCR
//! goes as HINCRBY, for which a frame is no integer.

use crate::exchange::{Effect, Env, Io, ReplyKind, Step, Work};
use crate::layout::Place;
use crate::resp::word::is_word;
use crate::resp::{Protocol, write_command};
use crate::string::Run;

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct Attempt {
    args: Vec<Vec<u8>>,
    run: Run,
    protocol: Protocol,
    /// What to answer if the field was set; none if the server's reply is itself the answer.
    when_set: Option<&'static [u8]>,
}

impl Attempt {
    /// Sends HSETNX with a value as it is stored; it has one reply.
    pub(crate) fn set_if_absent(
        args: &[&[u8]],
        run: Run,
        place: &Place,
        stored: &[u8],
        when_set: &'static [u8],
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> Self {
        write_command(wire, &[b"HSETNX", &place.physical, &place.field, stored]);
        Self { args: owned(args), run, protocol, when_set: Some(when_set) }
    }

    /// Sends HINCRBY; it has one reply.
    pub(crate) fn increment(
        args: &[&[u8]],
        run: Run,
        place: &Place,
        by: i64,
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> Self {
        write_command(wire, &[b"HINCRBY", &place.physical, &place.field, itoa::Buffer::new().format(by).as_bytes()]);
        Self { args: owned(args), run, protocol, when_set: None }
    }

    /// Takes the reply.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Attempted {
        match self.when_set {
            Some(_) if reply == b":0\r\n" => return self.work_out(env, io),
            None if reply.starts_with(b"-ERR hash value is not an integer") => return self.work_out(env, io),
            Some(answer) if reply == b":1\r\n" => io.answer.extend_from_slice(answer),
            _ if reply.starts_with(b"-") || (self.when_set.is_none() && ReplyKind::Integer.fits(reply)) => {
                io.answer.extend_from_slice(reply);
            }
            _ => return Attempted::Ended(Step::Unexpected),
        }
        Attempted::Ended(Step::Done(Effect::None))
    }

    fn work_out(&self, env: &Env<'_>, io: &mut Io<'_>) -> Attempted {
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        let (work, replies) = Work::start(self.run, &args, std::iter::once(1), self.protocol, env, io.wire);
        Attempted::Refused(Box::new(work), replies)
    }
}

/// What came of an attempt.
pub(crate) enum Attempted {
    /// It ends so.
    Ended(Step),
    /// The server refused the native command. The logical one is worked out instead, with so many replies to come.
    Refused(Box<Work>, u32),
}

fn owned(args: &[&[u8]]) -> Vec<Vec<u8>> {
    args.iter().map(|arg| arg.to_vec()).collect()
}

/// A SET that needs nothing of the old value, read from SET, SETNX, SETEX or PSETEX.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SimpleSet<'a> {
    /// The value.
    pub(crate) value: &'a [u8],
    /// When it expires, or never.
    pub(crate) expires_at_ms: Option<i64>,
    /// Only where the key doesn't exist.
    pub(crate) if_absent: bool,
    /// The answer where it was set.
    pub(crate) when_set: &'static [u8],
}

impl<'a> SimpleSet<'a> {
    /// Reads a command; none where it needs the old value, or has an error in it: such a command is worked out.
    pub(crate) fn read(name: &str, args: &[&'a [u8]], now_ms: i64) -> Option<Self> {
        let set = |value, expires_at_ms, if_absent, when_set| Some(Self { value, expires_at_ms, if_absent, when_set });
        match (name, args) {
            ("set", [_, _, value]) => set(*value, None, false, b"+OK\r\n"),
            ("set", [_, _, value, options @ ..]) => {
                let (if_absent, expires_at_ms) = read_options(options, now_ms)?;
                set(*value, expires_at_ms, if_absent, b"+OK\r\n")
            }
            ("setnx", [_, _, value]) => set(*value, None, true, b":1\r\n"),
            ("setex", [_, _, seconds, value]) => {
                set(*value, Some(read_expiry(seconds, 1000, now_ms)?), false, b"+OK\r\n")
            }
            ("psetex", [_, _, milliseconds, value]) => {
                set(*value, Some(read_expiry(milliseconds, 1, now_ms)?), false, b"+OK\r\n")
            }
            _ => None,
        }
    }
}

fn read_options(options: &[&[u8]], now_ms: i64) -> Option<(bool, Option<i64>)> {
    let mut if_absent = false;
    let mut expires_at_ms = None;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if is_word(option, "nx") {
            if_absent = true;
            continue;
        }
        if expires_at_ms.is_some() {
            return None;
        }
        expires_at_ms = Some(if is_word(option, "ex") {
            read_expiry(options.next()?, 1000, now_ms)?
        } else if is_word(option, "px") {
            read_expiry(options.next()?, 1, now_ms)?
        } else if is_word(option, "pxat") {
            read_time(options.next()?, now_ms)?
        } else {
            return None;
        });
    }
    Some((if_absent, expires_at_ms))
}

/// A time from now, in plain digits and far from where it could overflow.
fn read_expiry(text: &[u8], unit_ms: i64, now_ms: i64) -> Option<i64> {
    if text.len() > 12 || text.first() == Some(&b'0') || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(now_ms + count * unit_ms)
}

/// A time to come, in milliseconds since 1970: plain digits, within ten thousand years.
fn read_time(text: &[u8], now_ms: i64) -> Option<i64> {
    if text.len() > 15 || text.first() == Some(&b'0') || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok().filter(|at| *at > now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<SimpleSet<'_>> {
        let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let name = text.split(' ').next().unwrap();
        SimpleSet::read(name, &args, 1_000_000)
    }

    #[test]
    fn simple_ones_are_read() {
        assert_eq!(
            read("set k v").map(|set| (set.value, set.expires_at_ms, set.if_absent)),
            Some((&b"v"[..], None, false))
        );
        assert_eq!(
            read("set k v nx Px 5").map(|set| (set.expires_at_ms, set.if_absent)),
            Some((Some(1_000_005), true))
        );
        assert_eq!(
            read("set k v PXAT 1000001 nx").map(|set| (set.expires_at_ms, set.if_absent)),
            Some((Some(1_000_001), true))
        );
        assert_eq!(read("setex k 2 v").map(|set| set.expires_at_ms), Some(Some(1_002_000)));
        assert_eq!(read("setnx k v").map(|set| set.when_set), Some(&b":1\r\n"[..]));
    }

    #[test]
    fn the_rest_is_worked_out() {
        for text in [
            "set k v xx",
            "set k v ex",
            "set k v ex 0",
            "set k v ex 1 px 1",
            "set k v px 1 pxat 2000000",
            "set k v pxat 1000000",
            "set k v pxat -5",
            "set k v pxat 1000000000000000",
            "set k v get",
            "setex k -1 v",
            "setex k 1x v",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
