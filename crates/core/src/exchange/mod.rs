//! One logical command's conversation with the server, without I/O.
//!
//! An exchange writes physical commands to a wire, is fed each of their replies in order, and ends with the
//! one logical reply in the answer, or goes on with more commands. Whoever drives it (the proxy, a tool, a
//! test) keeps three promises: the commands of one write go out together on one connection, nothing between
//! them; the replies come back in order; and an exchange whose connection is lost is dropped, never fed
//! another connection's replies.

use crate::resp::{Protocol, Reply};

/// What the core takes from outside while it works.
pub struct Env<'a> {
    /// The time by the server's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// Fresh numbers for spilled values; never the same twice.
    pub nonces: &'a mut dyn FnMut() -> u64,
    /// What the server said of itself when the connection was made.
    pub server: &'a ServerInfo,
}

/// What a server says of itself in its reply to HELLO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// `redis` or `valkey`, as the server names itself.
    pub name: String,
    /// Its version, such as `7.0.15`.
    pub version: String,
}

impl ServerInfo {
    /// Reads the reply to HELLO, a map in RESP3 and a flat array in RESP2.
    pub fn from_hello(reply: Reply<'_>) -> Option<Self> {
        let (Reply::Array(mut pairs) | Reply::Map(mut pairs)) = reply else { return None };
        let mut info = Self::default();
        while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
            let text = || value.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            match key.bytes() {
                Some(b"server") => info.name = text()?,
                Some(b"version") => info.version = text()?,
                _ => {}
            }
        }
        (!info.version.is_empty()).then_some(info)
    }
}

/// Where an exchange writes.
pub struct Io<'a> {
    /// Commands to the server, behind whatever already waits there.
    pub wire: &'a mut Vec<u8>,
    /// The logical reply to the client; appended whole, once, at the end.
    pub answer: &'a mut Vec<u8>,
}

/// How an exchange goes on after a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It waits for the rest of the replies to what it has written.
    Wait,
    /// It wrote more commands to the wire, which will have so many replies.
    More(u32),
    /// The answer is complete. No reply is outstanding.
    Done(Effect),
}

/// What a finished exchange changes in its client's session.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// The client is on this database now.
    Database(u32),
    /// The client speaks this protocol now.
    Protocol(Protocol),
}

/// A conversation under way.
#[derive(Debug)]
pub enum Exchange {
    /// The one reply is the answer, as it came.
    PassOn,
}

impl Exchange {
    /// Takes the next reply, which is whole.
    pub fn handle_reply(&mut self, reply: &[u8], _env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        match self {
            Self::PassOn => {
                io.answer.extend_from_slice(reply);
                Step::Done(Effect::None)
            }
        }
    }
}
