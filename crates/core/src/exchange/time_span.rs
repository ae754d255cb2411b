//! When a transaction may be carried out: while the values that it was worked out from are alive, and after those that
//! it took for expired are that by the server's clock too.
//!
//! Nothing in a MULTI can stop what follows it. But a server gives an EXEC up where a watched key has expired
//! (`isWatchedKeyExpired`, multi.c, since Redis 6.0.9). So the end of the span is a *guard*: a key of keyfold's own that
//! expires then, and is watched. The beginning needs none: what is past stays past.
//!
//! A transaction that only reads can be carried out again, so it needs no guard, which would be a write: a replica, and a server that has
//! too few of them, refuse one. It asks for the time itself, before the first of its commands and after the last.

use crate::exchange::batch::Commands;
use crate::resp::Reply;

/// A guard is never kept for longer. A transaction that takes longer is worked out again.
const GUARD_MS: i64 = 60_000;

/// A span of the server's time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    /// It must be later than this.
    pub(crate) since_ms: Option<i64>,
    /// It must not be later than this.
    pub(crate) until_ms: Option<i64>,
}

impl TimeSpan {
    /// The span in which values with these expiries are what they are at `now_ms`; none where none expires.
    pub(crate) fn of(expiries: impl Iterator<Item = i64>, now_ms: i64) -> Option<Self> {
        let (mut since_ms, mut until_ms) = (None::<i64>, None::<i64>);
        for at in expiries {
            if at < now_ms {
                since_ms = Some(since_ms.map_or(at, |since| since.max(at)));
            } else {
                let at = at.min(now_ms + GUARD_MS);
                until_ms = Some(until_ms.map_or(at, |until| until.min(at)));
            }
        }
        (since_ms.is_some() || until_ms.is_some()).then_some(Self { since_ms, until_ms })
    }

    /// The commands that set the guard, watch it, and ask whether the span holds by then.
    pub(crate) fn commands(&self, guard: &[u8]) -> Commands {
        let mut commands = Commands::default();
        if let Some(until_ms) = self.until_ms {
            commands.push(&[b"SET", guard, b""]);
            commands.push(&[b"PEXPIREAT", guard, until_ms.to_string().as_bytes()]);
            commands.push(&[b"WATCH", guard]);
        }
        commands.push(&[b"TIME"]);
        commands
    }

    /// Whether the span holds, by the replies to its commands; none where they tell no time.
    ///
    /// Where the server's time is not past the end now, the guard was alive when it was watched.
    pub(crate) fn holds(&self, replies: &[Vec<u8>]) -> Option<bool> {
        let now_ms = time_ms(replies.last()?)?;
        Some(self.holds_between(now_ms, now_ms))
    }

    /// Whether it held while all of these were answered, the first and the last of which are replies to TIME; none where they tell no time.
    pub(crate) fn held(&self, replies: &[Vec<u8>]) -> Option<bool> {
        Some(self.holds_between(time_ms(replies.first()?)?, time_ms(replies.last()?)?))
    }

    fn holds_between(&self, first_ms: i64, last_ms: i64) -> bool {
        self.since_ms.is_none_or(|since| first_ms > since) && self.until_ms.is_none_or(|until| last_ms <= until)
    }
}

/// What TIME has answered.
fn time_ms(reply: &[u8]) -> Option<i64> {
    Some(Reply::parse(reply).ok()?.time_us()? / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_ends_before_the_first_expiry_and_begins_after_the_last() {
        assert_eq!(TimeSpan::of(std::iter::empty(), 100), None);
        let span = TimeSpan::of([90, 95, 100, 120].into_iter(), 100).unwrap();
        assert_eq!(span, TimeSpan { since_ms: Some(95), until_ms: Some(100) });
        let time =
            |ms: i64| format!("*2\r\n$1\r\n0\r\n${}\r\n{}\r\n", (ms * 1000).to_string().len(), ms * 1000).into_bytes();
        for (ms, holds) in [(94, false), (95, false), (96, true), (100, true), (101, false)] {
            assert_eq!(span.holds(&[time(ms)]), Some(holds), "{ms}");
        }
        assert_eq!(span.holds(&[b"+QUEUED\r\n".to_vec()]), None);
        for (first, last, held) in [(96, 100, true), (95, 100, false), (96, 101, false)] {
            assert_eq!(span.held(&[time(first), b":1\r\n".to_vec(), time(last)]), Some(held), "{first} to {last}");
        }
        assert_eq!(span.held(&[time(96), b":1\r\n".to_vec()]), None);
        assert_eq!(TimeSpan::of([i64::MAX].into_iter(), 100).unwrap().until_ms, Some(100 + GUARD_MS));
    }
}
