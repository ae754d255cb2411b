//! When keys expire: EXPIRE and its three relatives, TTL and its three, PERSIST. Redis 7.0 expire.c.

use super::{Call, Flow, Halt, Held, Space, not_on_type};
use crate::dialect::Dialect;
use crate::notify::Event;
use crate::resp::Answer;
use crate::resp::word::{c_text, is_word};

/// The commands that set when a key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpireForm {
    Expire,
    Pexpire,
    Expireat,
    Pexpireat,
}

/// One of these commands, as it was read without looking at the key.
pub(crate) struct ExpireCommand {
    /// When the key is to expire.
    pub(crate) expires_at_ms: i64,
    condition: Condition,
    /// The command's.
    name: &'static str,
}

impl ExpireCommand {
    /// Reads a command; the inner error is the reply to an option that it doesn't know.
    pub(crate) fn read(form: ExpireForm, args: &[&[u8]], now_ms: i64) -> Result<Result<Self, Vec<u8>>, Halt> {
        let call = &Call { args, dialect: Dialect::of_every_server() };
        let condition = match Condition::parse(&call.args[3..])? {
            Ok(condition) => condition,
            Err(unsupported) => return Ok(Err(unsupported)),
        };
        let (name, scale, start_ms) = match form {
            ExpireForm::Expire => ("expire", 1000, now_ms),
            ExpireForm::Pexpire => ("pexpire", 1, now_ms),
            ExpireForm::Expireat => ("expireat", 1000, 0),
            ExpireForm::Pexpireat => ("pexpireat", 1, 0),
        };
        // A time before 1970 is no error; one beyond the signed 64 bits is.
        let expires_at_ms = call
            .integer(2)?
            .checked_mul(scale)
            .and_then(|time| time.checked_add(start_ms))
            .ok_or_else(|| Halt::Error(format!("ERR invalid expire time in '{name}' command")))?;
        Ok(Ok(Self { expires_at_ms, condition, name }))
    }

    /// Its conditions, as they are written.
    pub(crate) fn conditions(&self) -> String {
        let Condition { nx, xx, gt, lt } = self.condition;
        let words = [(nx, "NX"), (xx, "XX"), (gt, "GT"), (lt, "LT")];
        words.into_iter().filter_map(|(is_set, word)| is_set.then_some(word)).collect()
    }
}

/// EXPIRE key seconds [NX | XX | GT | LT]: 1 where it set the expiry, 0 where it did not.
pub(super) fn expire(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiry(ExpireForm::Expire, call, space, answer)
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT].
pub(super) fn pexpire(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiry(ExpireForm::Pexpire, call, space, answer)
}

/// EXPIREAT key seconds-since-1970 [NX | XX | GT | LT].
pub(super) fn expireat(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiry(ExpireForm::Expireat, call, space, answer)
}

/// PEXPIREAT key milliseconds-since-1970 [NX | XX | GT | LT].
pub(super) fn pexpireat(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiry(ExpireForm::Pexpireat, call, space, answer)
}

fn set_expiry(form: ExpireForm, call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let expire = match ExpireCommand::read(form, call.args, space.now_ms())? {
        Ok(expire) => expire,
        Err(unsupported) => {
            answer.raw(&unsupported);
            return Ok(());
        }
    };
    let ExpireCommand { expires_at_ms: at, condition, name } = expire;
    let met = string_expiry(space, key, name)?.is_some_and(|current| condition.met(current, at));
    if met {
        if at <= space.now_ms() {
            space.remove(key);
            space.note(call.dialect.event_of_past_expiry(), key);
        } else {
            space.set_expiry(key, Some(at));
            space.note(Event::Expire, key);
        }
    }
    answer.integer(i64::from(met));
    Ok(())
}

/// When the string under `key` expires, none where there is none. A key of another type expires too, but what it
/// holds is not in the space.
fn string_expiry(space: &Space, key: &[u8], name: &str) -> Result<Option<Option<i64>>, Halt> {
    match space.held(key) {
        Held::Other(kind) => Err(not_on_type(&name.to_ascii_uppercase(), kind)),
        _ => Ok(space.expiry(key)),
    }
}

/// The conditions of one EXPIRE, or of one HEXPIRE.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    /// Reads the options; the inner error is the reply to an unknown one, which echoes its bytes.
    pub(crate) fn parse(options: &[&[u8]]) -> Result<Result<Self, Vec<u8>>, Halt> {
        let mut read = Self::default();
        for option in options {
            let flag = match option {
                option if is_word(option, "NX") => &mut read.nx,
                option if is_word(option, "XX") => &mut read.xx,
                option if is_word(option, "GT") => &mut read.gt,
                option if is_word(option, "LT") => &mut read.lt,
                option => return Ok(Err(echo_error("Unsupported option ", option))),
            };
            *flag = true;
        }
        if read.nx && (read.xx || read.gt || read.lt) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if read.gt && read.lt {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(Ok(read))
    }

    /// Whether the expiry may be set to `at`. A key without expiry counts as one that never ends.
    pub(crate) fn met(&self, current: Option<i64>, at: i64) -> bool {
        !(self.nx && current.is_some()
            || self.xx && current.is_none()
            || self.gt && current.is_none_or(|current| at <= current)
            || self.lt && current.is_some_and(|current| at >= current))
    }
}

/// The reply to an option that a command does not know, which shows its bytes: trailing line breaks go, others become spaces.
pub(crate) fn echo_error(text: &str, option: &[u8]) -> Vec<u8> {
    let mut reply = [b"-ERR ", text.as_bytes(), c_text(option)].concat();
    while reply.pop_if(|byte| is_break(*byte)).is_some() {}
    for byte in &mut reply {
        if is_break(*byte) {
            *byte = b' ';
        }
    }
    reply.extend_from_slice(b"\r\n");
    reply
}

fn is_break(byte: u8) -> bool {
    byte == b'\r' || byte == b'\n'
}

/// TTL key: the seconds left, to the nearest; -1 where it never expires, -2 where there is no key.
pub(super) fn ttl(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let now_ms = space.now_ms();
    show_expiry(call, space, answer, "ttl", |at| to_seconds(at.saturating_sub(now_ms)))
}

/// PTTL key: the milliseconds left, or -1 or -2.
pub(super) fn pttl(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let now_ms = space.now_ms();
    show_expiry(call, space, answer, "pttl", |at| at.saturating_sub(now_ms))
}

/// EXPIRETIME key: the second since 1970, to the nearest, or -1 or -2.
pub(super) fn expiretime(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    show_expiry(call, space, answer, "expiretime", to_seconds)
}

/// PEXPIRETIME key: the millisecond since 1970, or -1 or -2.
pub(super) fn pexpiretime(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    show_expiry(call, space, answer, "pexpiretime", |at| at)
}

fn show_expiry(
    call: &Call<'_>,
    space: &mut Space,
    answer: &mut Answer<'_>,
    name: &str,
    show: impl Fn(i64) -> i64,
) -> Flow {
    let shown = match string_expiry(space, call.args[1], name)? {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => show(at),
    };
    answer.integer(shown);
    Ok(())
}

/// Milliseconds, rounded to whole seconds.
pub(crate) fn to_seconds(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 >= 500)
}

/// PERSIST key: 1 where it had an expiry, which is gone, else 0.
pub(super) fn persist(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let expiring = string_expiry(space, key, "persist")?.flatten().is_some();
    if expiring {
        space.set_expiry(key, None);
        space.note(Event::Persist, key);
    }
    answer.integer(i64::from(expiring));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;

    #[test]
    fn options_come_before_the_number_and_the_key() {
        let mut keys = now_is(1000);
        assert_eq!(keys.run(&["EXPIRE", "none", "x", "zz\r\ny\n"]), "-ERR Unsupported option zz  y\r\n");
        let with_nx = "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n";
        assert_eq!(keys.run(&["EXPIRE", "none", "x", "nx", "LT"]), with_nx);
        let both = "-ERR GT and LT options at the same time are not compatible\r\n";
        assert_eq!(keys.run(&["EXPIRE", "none", "x", "gt", "LT"]), both);
        assert_eq!(keys.run(&["EXPIRE", "none", "x"]), "-ERR value is not an integer or out of range\r\n");
        let range = "-ERR invalid expire time in 'pexpire' command\r\n";
        assert_eq!(keys.run(&["PEXPIRE", "none", "9223372036854775807"]), range);
        assert_eq!(keys.run(&["PEXPIREAT", "none", "9223372036854775807"]), ":0\r\n");
    }

    #[test]
    fn conditions_compare_with_what_is_set() {
        let mut keys = now_is(1000);
        keys.string("k", "v");
        assert_eq!(keys.run(&["PEXPIRE", "k", "10", "GT"]), ":0\r\n");
        assert_eq!(keys.run(&["PEXPIRE", "k", "10", "XX"]), ":0\r\n");
        assert_eq!(keys.run(&["PEXPIRE", "k", "10", "LT"]), ":1\r\n");
        assert_eq!(keys.run(&["PEXPIRE", "k", "10", "NX"]), ":0\r\n");
        assert_eq!(keys.run(&["PEXPIRE", "k", "10", "GT"]), ":0\r\n");
        assert_eq!(keys.run(&["PEXPIRE", "k", "11", "GT", "xx"]), ":1\r\n");
        assert_eq!(keys.run(&["PEXPIRETIME", "k"]), ":1011\r\n");
    }

    #[test]
    fn now_is_too_late_to_set_and_early_enough_to_read() {
        let mut keys = now_is(1000);
        keys.string_until("k", "v", 1000);
        assert_eq!(keys.run(&["PTTL", "k"]), ":0\r\n");
        assert_eq!(keys.run(&["PEXPIREAT", "k", "1000"]), ":1\r\n");
        assert_eq!(keys.run(&["EXISTS", "k"]), ":0\r\n");
        keys.string("k", "v");
        assert_eq!(keys.run(&["EXPIRE", "k", "-9223372036854775"]), ":1\r\n");
        assert_eq!(keys.run(&["TTL", "k"]), ":-2\r\n");
    }

    #[test]
    fn seconds_are_the_nearest() {
        let mut keys = now_is(1000);
        for (at, ttl, time) in [(2499, ":1\r\n", ":2\r\n"), (2500, ":2\r\n", ":3\r\n"), (1000, ":0\r\n", ":1\r\n")] {
            keys.string_until("k", "v", at);
            assert_eq!(keys.run(&["TTL", "k"]), ttl);
            assert_eq!(keys.run(&["EXPIRETIME", "k"]), time);
        }
        keys.string_until("k", "v", i64::MAX);
        assert_eq!(keys.run(&["EXPIRETIME", "k"]), ":9223372036854776\r\n");
    }

    #[test]
    fn persist_writes_only_where_there_was_an_expiry() {
        let mut keys = now_is(1000);
        keys.string("k", "v");
        assert_eq!(keys.run(&["PERSIST", "k"]), ":0\r\n");
        assert_eq!(keys.changed(), Vec::<String>::new());
        keys.string_until("k", "v", 2000);
        assert_eq!(keys.run(&["PERSIST", "k"]), ":1\r\n");
        assert_eq!(keys.changed(), ["k"]);
    }
}
