//! One logical command's conversation with the server, without I/O.
//!
//! An exchange writes physical commands to a wire, is fed each of their replies in order, and ends with the
//! one logical reply in the answer, or goes on with more commands. Whoever drives it (the proxy, a tool, a
//! test) keeps three promises: the commands of one write go out together on one connection, nothing between
//! them; the replies come back in order; and an exchange whose connection is lost is dropped, never fed
//! another connection's replies.

use crate::access::Users;
use crate::layout::{Epoch, Layout};
use crate::resp::{Answer, Protocol, Reply};
use crate::session::answer_hello;
use crate::stats::Stats;

mod attempt;
mod batch;
mod copy;
mod foreign;
pub(crate) mod info;
pub(crate) mod key;
pub(crate) mod keyspace;
pub(crate) mod load;
pub(crate) mod native;
pub(crate) mod probe;
mod script;
pub(crate) mod store;
pub(crate) mod transaction;
mod work;

pub(crate) use attempt::{Attempt, SimpleSet};
pub(crate) use batch::Batch;
pub(crate) use copy::{Copy, CopyArguments};
pub(crate) use foreign::{Foreign, OnOtherType};
pub(crate) use script::CompareAndSet;
pub(crate) use store::{RETIRE_MS, encode_field};
pub(crate) use work::Work;

/// What the core takes from outside while it works.
pub struct Env<'a> {
    /// The time by the server's clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// Fresh numbers for spilled values; never the same twice.
    pub nonces: &'a mut dyn FnMut() -> u64,
    /// What the server said of itself when the connection was made.
    pub server: &'a ServerInfo,
    /// The namespaces, and where their keys lie.
    pub layout: &'a Layout,
    /// What is counted of each namespace, by its index in `layout`.
    pub stats: &'a Stats,
    /// Who may use the proxy.
    pub users: &'a Users,
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
    /// The first number of its version; 0 where that doesn't read.
    pub(crate) fn major(&self) -> u32 {
        self.version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
    }

    /// Whether it knows flags at the head of a script: since Redis 7.0.
    pub fn knows_script_flags(&self) -> bool {
        self.major() >= 7
    }

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
#[derive(Debug)]
pub enum Step {
    /// It waits for the rest of the replies to what it has written.
    Wait,
    /// It wrote more commands to the wire, which will have so many replies.
    More(u32),
    /// The answer is complete. No reply is outstanding.
    Done(Effect),
}

/// What a finished exchange changes in its client's session.
#[derive(Debug)]
pub enum Effect {
    /// Nothing.
    None,
    /// The client is on this database now.
    Database(u32),
    /// The client watches these keys too, on its own lane.
    Watching(Watched),
    /// The client watches nothing any more.
    Unwatched,
    /// A command of the client's transaction was refused.
    SpoilQueue,
    /// The client is back to where it began, by RESET.
    Reset,
}

/// What WATCH found under keys.
#[derive(Debug)]
pub struct Watched {
    pub(crate) keys: Vec<key::Key>,
    /// The layout that said where they lie.
    pub(crate) epoch: Epoch,
    /// The time of the WATCH.
    pub(crate) now_ms: i64,
}

impl Watched {
    /// Adds what another WATCH found.
    pub(crate) fn add(&mut self, other: Self) {
        self.keys.extend(other.keys);
    }

    /// Whether something happened to a key that the server can't have noticed: it has expired, or belongs
    /// elsewhere by now.
    pub(crate) fn is_broken(&self, env: &Env<'_>) -> bool {
        let expired =
            |key: &key::Key| key.field_expires_at_ms().is_some_and(|at| (self.now_ms..env.now_ms).contains(&at));
        self.epoch != env.layout.epoch() || self.keys.iter().any(expired)
    }
}

/// A conversation under way.
#[derive(Debug)]
pub struct Exchange(pub(crate) Kind);

/// What kinds of conversation there are. The frequent ones are small; the others are boxed.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The one reply is the answer, as it came.
    PassOn,
    /// The reply says nothing where it is no error; the answer is OK.
    Set,
    Get(native::Get),
    Overwrite(Box<native::Overwrite>),
    /// MSET.
    SetMany(Batch),
    Delete(Box<native::Delete>),
    Attempt(Box<Attempt>),
    Work(Box<Work>),
    Foreign(Box<Foreign>),
    Copy(Box<Copy>),
    List(Box<keyspace::List>),
    Size(Box<keyspace::Size>),
    Random(Box<keyspace::Random>),
    /// SELECT to a database and back: the first reply is the answer.
    Select {
        database: u32,
        answer: Option<Vec<u8>>,
    },
    Info {
        protocol: Protocol,
    },
    /// HELLO: the server's answer, with the client's own id.
    Hello {
        id: u64,
    },
    /// SCAN with options that aren't known here: the reply counts where it is an error.
    ErrorOnly {
        protocol: Protocol,
    },
    /// The one reply is the answer; then this has changed.
    Then(Option<Effect>),
    Probe(Box<probe::Probe>),
    /// A write on the connection, then WAIT, whose reply is the answer.
    Wait {
        written: bool,
    },
    Transaction(Box<transaction::Transaction>),
    Watch(Box<transaction::Watch>),
    /// EXEC of a client whose watched key has expired meanwhile: UNWATCH is sent, the answer is nil.
    Abort {
        protocol: Protocol,
    },
    /// The reply counts, but the client wants no answer: CLIENT REPLY.
    Silent(Box<Exchange>),
    /// FLUSHDB or FLUSHALL, perhaps by the script.
    Flush,
    /// UNWATCH is sent before the answer that is known.
    Unwatch {
        answer: Vec<u8>,
    },
}

impl Exchange {
    /// Whether the server alone answers it, by one reply, on keys that no namespace has.
    pub fn only_passes_on(&self) -> bool {
        matches!(self.0, Kind::PassOn)
    }

    /// Takes the next reply, which is whole.
    pub fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        match &mut self.0 {
            Kind::Get(get) => return get.handle_reply(reply, env, io),
            Kind::PassOn => io.answer.extend_from_slice(reply),
            Kind::Set => io.answer.extend_from_slice(if reply.starts_with(b"-") { reply } else { b"+OK\r\n" }),
            Kind::Overwrite(overwrite) => return overwrite.handle_reply(reply, io),
            Kind::Delete(delete) => return delete.handle_reply(reply, env, io),
            Kind::Work(work) => return work.handle_reply(reply, env, io),
            Kind::Foreign(foreign) => return foreign.handle_reply(reply, env, io),
            Kind::Copy(copy) => return copy.handle_reply(reply, env, io),
            Kind::List(list) => return list.handle_reply(reply, env, io),
            Kind::Size(size) => return size.handle_reply(reply, env, io),
            Kind::Random(random) => return random.handle_reply(reply, env, io),
            Kind::Transaction(transaction) => return transaction.handle_reply(reply, env, io),
            Kind::Watch(watch) => return watch.handle_reply(reply, env, io),
            Kind::Info { protocol } => info::append_section(reply, env, *protocol, io.answer),
            Kind::Attempt(attempt) => {
                let Some((work, replies)) = attempt.handle_reply(reply, env, io) else {
                    return Step::Done(Effect::None);
                };
                self.0 = Kind::Work(Box::new(work));
                return Step::More(replies);
            }
            Kind::SetMany(batch) => {
                if !batch.handle_reply(reply) {
                    return Step::Wait;
                }
                let failed = batch.take().map(|replies| replies.into_iter().find(|reply| reply.starts_with(b"-")));
                match failed {
                    Err(error) | Ok(Some(error)) => io.answer.extend(error),
                    Ok(None) => io.answer.extend_from_slice(b"+OK\r\n"),
                }
            }
            Kind::Select { database, answer } => {
                let Some(answer) = answer else {
                    *answer = Some(reply.to_vec());
                    return Step::Wait;
                };
                io.answer.extend_from_slice(answer);
                if !answer.starts_with(b"-") {
                    return Step::Done(Effect::Database(*database));
                }
            }
            Kind::Then(effect) => {
                io.answer.extend_from_slice(reply);
                if !reply.starts_with(b"-")
                    && let Some(effect) = effect.take()
                {
                    return Step::Done(effect);
                }
            }
            Kind::Probe(probe) => return probe.handle_reply(reply, io),
            Kind::Wait { written } => {
                if !std::mem::replace(written, true) {
                    return Step::Wait;
                }
                io.answer.extend_from_slice(reply);
            }
            Kind::Hello { id } => answer_hello(reply, *id, io.answer),
            Kind::ErrorOnly { .. } if reply.starts_with(b"-") => io.answer.extend_from_slice(reply),
            Kind::ErrorOnly { protocol } => {
                Answer::new(io.answer, *protocol).error("ERR keyfold: SCAN takes MATCH, COUNT and TYPE here");
            }
            Kind::Flush => io.answer.extend(script::without_place(reply)),
            Kind::Silent(exchange) => {
                let start = io.answer.len();
                let step = exchange.handle_reply(reply, env, io);
                io.answer.truncate(start);
                return step;
            }
            Kind::Abort { protocol } => {
                Answer::new(io.answer, *protocol).nil_array();
                return Step::Done(Effect::Unwatched);
            }
            Kind::Unwatch { answer } => {
                io.answer.append(answer);
                return Step::Done(Effect::Unwatched);
            }
        }
        Step::Done(Effect::None)
    }
}

/// Ends an exchange with this answer.
fn done(io: &mut Io<'_>, answer: &[u8]) -> Step {
    io.answer.extend_from_slice(answer);
    Step::Done(Effect::None)
}

/// The error of a key that can't be read or written as it should, code first.
pub(crate) fn failure(key: &[u8], why: &str) -> String {
    format!("ERR keyfold: key '{}': {why}", key.escape_ascii())
}
