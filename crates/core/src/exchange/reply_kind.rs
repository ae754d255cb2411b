//! What kinds of replies commands have.
//!
//! A reply of another kind says that a connection isn't in the state it is taken for: in somebody's MULTI, where
//! everything answers QUEUED, in a debugger of scripts, or out of step by one. To take it for success would be to
//! acknowledge what was never written. Nothing that comes on such a connection can be trusted, so whoever finds one
//! ends with [`Step::Unexpected`], and the connection is given up.

use crate::exchange::{Io, Step, done};

/// The kind of reply that a command has where it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// Not told here.
    Any,
    /// OK.
    Ok,
    /// A word, such as PONG.
    Simple,
    /// An integer.
    Integer,
    /// A string, or nil.
    Bulk,
    /// An array, a set or a map.
    Array,
}

impl ReplyKind {
    /// The reply to a command as keyfold itself sends it.
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"SET" | b"SELECT" | b"MULTI" | b"WATCH" | b"UNWATCH" => Self::Ok,
            b"TYPE" | b"PING" => Self::Simple,
            b"HSET" | b"SADD" | b"RPUSH" | b"HSETNX" | b"HINCRBY" | b"HDEL" | b"HLEN" | b"DEL" | b"UNLINK"
            | b"EXISTS" | b"STRLEN" | b"EXPIRE" | b"PEXPIRE" | b"PEXPIREAT" | b"PEXPIRETIME" | b"PTTL" | b"DBSIZE"
            | b"SPUBLISH" => Self::Integer,
            b"GET" | b"HGET" | b"DUMP" | b"RANDOMKEY" => Self::Bulk,
            b"HMGET" | b"HGETALL" | b"HPEXPIREAT" | b"HPEXPIRETIME" | b"SMEMBERS" | b"LRANGE" | b"HSCAN" | b"SCAN"
            | b"KEYS" | b"TIME" => Self::Array,
            _ => Self::Any,
        }
    }

    /// Whether a reply is of this kind. An error is of every kind.
    pub(crate) fn fits(self, reply: &[u8]) -> bool {
        let Some(first) = reply.first() else { return false };
        match (self, first) {
            (_, b'-' | b'!') | (Self::Any, _) => true,
            (Self::Ok, _) => reply == b"+OK\r\n",
            (Self::Simple, b'+') | (Self::Integer, b':') | (Self::Bulk, b'_') => true,
            (Self::Bulk, b'$') | (Self::Array, b'*' | b'~' | b'%') => true,
            _ => false,
        }
    }
}

/// Why replies can't be gone by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The server's error, as it came, which is the answer.
    Error(Vec<u8>),
    /// A reply of a kind that the command doesn't have.
    Unexpected,
}

impl Refusal {
    /// Ends an exchange with it.
    pub(crate) fn end(&self, io: &mut Io<'_>) -> Step {
        match self {
            Self::Error(error) => done(io, error),
            Self::Unexpected => Step::Unexpected,
        }
    }

    /// What a reply that isn't the one hoped for means: the server's error, or that it can't be trusted.
    pub(crate) fn of(reply: &[u8]) -> Self {
        if matches!(reply.first(), Some(b'-' | b'!')) { Self::Error(reply.to_vec()) } else { Self::Unexpected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_a_debugger_and_a_push_fit_nothing() {
        for command in [&b"SET"[..], b"HSET", b"GET", b"SELECT", b"HDEL"] {
            let kind = ReplyKind::of(command);
            for reply in [&b"+QUEUED\r\n"[..], b"*1\r\n+<error>\r\n", b">2\r\n+a\r\n+b\r\n", b"", b"+PONG\r\n"] {
                assert!(!kind.fits(reply), "{} {}", command.escape_ascii(), reply.escape_ascii());
            }
            assert!(kind.fits(b"-ERR any error\r\n"));
        }
        assert!(ReplyKind::of(b"HSET").fits(b":0\r\n") && !ReplyKind::of(b"SET").fits(b":0\r\n"));
        assert!(ReplyKind::of(b"HGET").fits(b"$-1\r\n") && ReplyKind::of(b"HGET").fits(b"_\r\n"));
    }
}
