//! One logical command's conversation with the server, without I/O.
//!
//! An exchange writes physical commands to a wire, is fed each of their replies in order, and ends with the
//! one logical reply in the answer, or goes on with more commands. Whoever drives it (the proxy, a tool, a
//! test) keeps three promises: the commands of one write go out together on one connection, nothing between
//! them; the replies come back in order; and an exchange whose connection is lost is dropped, never fed
//! another connection's replies.

use std::sync::Arc;

use crate::access::Users;
use crate::cache::Cache;
use crate::dialect::Dialect;
use crate::layout::{Layout, Place};
use crate::resp::{Answer, Protocol, Texts};
use crate::slot::Slot;
use crate::stats::{CommandWay, Stats};
use crate::tracking::Tracking;

mod ahead;
mod batch;
mod configure;
mod copy;
mod field;
mod foreign;
mod function_call;
mod glance;
mod hello;
mod in_place;
pub(crate) mod info;
pub(crate) mod key;
pub(crate) mod keyspace;
pub(crate) mod later_commands;
pub(crate) mod listing;
pub(crate) mod load;
mod look;
mod look_at_many;
pub(crate) mod native;
mod native_collection;
mod native_first;
mod outcome;
pub(crate) mod overview;
mod parts;
mod parts_attempt;
mod passed_on;
pub(crate) mod pieces;
pub(crate) mod probe;
mod recode;
mod reply_kind;
mod retire;
mod script;
mod shown;
pub(crate) mod slot_listing;

mod slot_walk;
pub(crate) mod store;
mod sum;
mod time_span;
pub(crate) mod transaction;
mod transfer;
mod user_call;
pub(crate) mod wait;
pub(crate) mod watch;
mod work;

pub use ahead::{AHEAD_BYTES, Ahead, Encoded};
pub(crate) use batch::Batch;
pub(crate) use configure::{Configure, ShowSettings, asks_own as asks_own_configuration, sets as sets_configuration};
pub(crate) use copy::{Copy, ask_why_refused};
pub(crate) use field::{CALL as FIELD_CALL, Call as FieldCall, FieldWrite, increment};
pub(crate) use foreign::{Foreign, OnOtherType};
pub(crate) use function_call::FunctionCall;
pub use hello::Hello;
use hello::answer_hello;
pub(crate) use later_commands::LaterCommands;
pub(crate) use look::Look;
pub(crate) use look_at_many::LookAtMany;
pub(crate) use native_first::NativeFirst;
use outcome::Outcome;
pub(crate) use parts::{CALL as PARTS_CALL, PartsCall, SHARED_WORDS};
pub use parts::{
    InParts, PARTS_SCRIPT, draw_from_parts_command, find_in_parts_command, read_parts, read_parts_command,
};
pub(crate) use parts::{send_drain, send_fill};
pub(crate) use parts_attempt::PartsAttempt;
pub(crate) use reply_kind::{Refusal, ReplyKind};
pub(crate) use retire::abandon;
pub use retire::{RETIRE_MS, goes_at_once};
pub(crate) use script::{CompareAndSet, Script, SharedCall, SharedScript, in_calls};
pub(crate) use store::{encode, types_in};
pub(crate) use user_call::{ScriptsExist, UserCall};
pub use watch::Watched;
pub(crate) use work::Work;

pub use crate::server_info::ServerInfo;

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
    /// Who is told when a value that was read expires; none where nobody can be.
    pub tracking: Option<&'a Tracking>,
    /// Counts who is asked for, where a cache is kept.
    pub cache: Option<&'a Cache>,
    /// Set before a cluster.
    pub cluster: Option<ClusterRules>,
    /// Folded keys know what later servers have than the one behind.
    pub newest_commands: bool,
    /// Values of the request at hand that were encoded before it began.
    pub encoded: Option<Arc<Encoded>>,
    /// Its client has sent others behind it that may write: who reads once more may find what these have written.
    pub is_followed: bool,
    /// Others of its client are under way that may read parts of the same key yet, in a second round trip.
    pub is_read: bool,
}

/// What holds for requests before a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterRules {
    /// MSET of several slots is carried out by slot: others may see some of its keys written and some not.
    pub split_writes: bool,
    /// Reads may be answered by replicas.
    pub read_replicas: bool,
}

impl Env<'_> {
    /// By whose rules clients' commands are read.
    pub(crate) fn dialect(&self) -> Dialect<'_> {
        Dialect::new(self.server, self.newest_commands)
    }

    /// Has whoever caches a value that was read, and is kept by its frame, be told when it expires.
    fn note_read_until(&self, key: &[u8], expires_at_ms: Option<i64>) {
        if let (Some(tracking), Some(at)) = (self.tracking, expires_at_ms) {
            tracking.note_expiry(key, at, self.layout);
        }
    }

    /// Has the sweep look through a bucket once what is written there now has expired.
    fn note_expiry(&self, place: &Place, expires_at_ms: Option<i64>) {
        if let Some(at) = expires_at_ms {
            self.stats.sweep().expiring.note(&place.physical, at, self.now_ms);
        }
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
    /// The reply is of a kind that the command doesn't have. Nothing was answered: the connection is in a state that
    /// nobody knows, and must be given up with all that is under way on it.
    Unexpected,
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
    /// The client is who HELLO said.
    Hello(Box<Hello>),
}

/// A conversation under way.
#[derive(Debug)]
pub struct Exchange(pub(crate) UnderWay);

/// What kinds of conversation there are. The frequent ones are small; the others are boxed.
#[derive(Debug)]
pub(crate) enum UnderWay {
    /// The one reply is the answer, as it came.
    PassOn,
    /// The reply says nothing where it is of this kind; the answer is OK.
    Set(ReplyKind),
    Get(native::Get),
    Overwrite(Box<native::Overwrite>),
    /// MSET.
    SetMany(Batch),
    Delete(Box<native::Delete>),
    NativeFirst(Box<NativeFirst>),
    FieldWrite(Box<FieldWrite>),
    PartsAttempt(Box<PartsAttempt>),
    Look(Box<Look>),
    LookAtMany(Box<LookAtMany>),
    Work(Box<Work>),
    Foreign(Box<Foreign>),
    UserCall(Box<UserCall>),
    FunctionCall(Box<FunctionCall>),
    ScriptsExist(ScriptsExist),
    LaterCommands(Box<LaterCommands>),
    Configure(Configure),
    ShowSettings(ShowSettings),
    Copy(Box<Copy>),
    Pieces(Box<pieces::Pieces>),
    List(Box<listing::List>),
    SlotList(Box<slot_listing::SlotList>),
    Size(Box<keyspace::Size>),
    Random(Box<keyspace::Random>),
    /// SELECT to a database and back: the first reply is the answer.
    Select {
        database: u32,
        answer: Option<Vec<u8>>,
    },
    Overview(Box<overview::Overview>),
    /// HELLO: the server's answer, with the client's own id, and with another mode where clients are told so.
    Hello {
        id: u64,
        mode: Option<&'static str>,
        /// What becomes of the client once that is there.
        hello: Option<Box<Hello>>,
    },
    /// SCAN or COPY with options that aren't known here: the reply counts where it is an error.
    ErrorOnly {
        protocol: Protocol,
    },
    /// RESET: the one reply is the answer.
    Reset,
    Probe(Box<probe::Probe>),
    /// Something that replicas get, then WAIT, whose reply is the answer.
    Wait {
        announced: wait::Announced,
    },
    Transaction(Box<transaction::Transaction>),
    Watch(Box<watch::Watch>),
    /// The reply counts, but the client wants no answer: CLIENT REPLY.
    Silent(Box<Exchange>),
    /// FLUSHDB or FLUSHALL, perhaps by the script.
    Flush,
    /// UNWATCH is sent before the answer that is known.
    Unwatch {
        answer: Vec<u8>,
    },
}

/// How a reply is handed on while it comes.
#[derive(Clone, Debug)]
pub(crate) enum Flow {
    /// Byte for byte.
    AsItComes,
    /// Its texts are those of the answer, which has begun.
    Texts(Texts),
}

impl Exchange {
    /// Whether the layout has no part in it any more: what is under way is a client's own command, as it came.
    pub fn is_the_servers(&self) -> bool {
        match &self.0 {
            UnderWay::PassOn | UnderWay::Wait { .. } => true,
            UnderWay::Work(work) => work.is_passed_on(),
            UnderWay::PartsAttempt(attempt) => attempt.work().is_some_and(Work::is_passed_on),
            UnderWay::Foreign(foreign) => foreign.is_passed_on(),
            UnderWay::Silent(exchange) => exchange.is_the_servers(),
            _ => false,
        }
    }

    /// How the command is carried out, as it came to be.
    pub(crate) fn way(&self) -> CommandWay {
        match &self.0 {
            UnderWay::Get(_)
            | UnderWay::Set(_)
            | UnderWay::Overwrite(_)
            | UnderWay::SetMany(_)
            | UnderWay::Delete(_)
            | UnderWay::NativeFirst(_)
            | UnderWay::Look(_)
            | UnderWay::LookAtMany(_) => CommandWay::Native,
            UnderWay::FieldWrite(_) => CommandWay::Script,
            UnderWay::PartsAttempt(attempt) if attempt.work().is_none() => CommandWay::Script,
            UnderWay::PartsAttempt(_) | UnderWay::Work(_) | UnderWay::Copy(_) | UnderWay::Pieces(_) => {
                CommandWay::WorkedOut
            }
            UnderWay::UserCall(_) | UnderWay::FunctionCall(_) => CommandWay::UserScript,
            UnderWay::Transaction(_) => CommandWay::Transaction,
            UnderWay::List(_)
            | UnderWay::SlotList(_)
            | UnderWay::Size(_)
            | UnderWay::Random(_)
            | UnderWay::Overview(_)
            | UnderWay::Flush => CommandWay::Keyspace,
            UnderWay::Silent(exchange) => exchange.way(),
            UnderWay::PassOn
            | UnderWay::Foreign(_)
            | UnderWay::ScriptsExist(_)
            | UnderWay::LaterCommands(_)
            | UnderWay::Configure(_)
            | UnderWay::ShowSettings(_)
            | UnderWay::Select { .. }
            | UnderWay::Hello { .. }
            | UnderWay::ErrorOnly { .. }
            | UnderWay::Reset
            | UnderWay::Probe(_)
            | UnderWay::Wait { .. }
            | UnderWay::Watch(_)
            | UnderWay::Unwatch { .. } => CommandWay::PassedOn,
        }
    }

    /// Whether its one reply, which has begun to come, may be handed on to the client in pieces. Where the answer begins otherwise, that is
    /// written to `out`.
    pub(crate) fn begin_flow(&self, input: &[u8], out: &mut Vec<u8>) -> Option<Flow> {
        match &self.0 {
            UnderWay::PassOn => Some(Flow::AsItComes),
            UnderWay::PartsAttempt(attempt) => attempt.begin_flow(input, out).map(Flow::Texts),
            UnderWay::Work(work) => work.begin_flow(input, out).map(Flow::Texts),
            _ => None,
        }
    }

    /// The call that it has sent on this key, where another one may be joined to that.
    pub(crate) fn shared_call(&self, key: &[u8]) -> Option<SharedCall> {
        match &self.0 {
            UnderWay::FieldWrite(write) if write.may_be_followed(key) => Some(SharedCall::Fields),
            UnderWay::PartsAttempt(attempt) => attempt.may_be_followed(key).map(|nonce| SharedCall::Parts { nonce }),
            _ => None,
        }
    }

    /// The slot whose node is to get what the exchange wrote last; none where that goes as the request goes
    /// ([`Target`](crate::cluster::Target)). It may be another one after each [`Step::More`]. All of it only reads, and
    /// goes by the router like any step of that slot, redirects included.
    pub fn goes_to(&self) -> Option<Slot> {
        match &self.0 {
            UnderWay::SlotList(list) => Some(list.slot()),
            UnderWay::Random(random) => random.slot(),
            UnderWay::Overview(overview) => overview.slot(),
            UnderWay::Silent(exchange) => exchange.goes_to(),
            _ => None,
        }
    }

    /// The key that it writes, where it has had to begin again as others were quicker.
    pub(crate) fn contended_key(&self) -> Option<&[u8]> {
        match &self.0 {
            UnderWay::Work(work) => work.contended_key(),
            UnderWay::Foreign(foreign) => foreign.contended_key(),
            UnderWay::PartsAttempt(attempt) => attempt.work().and_then(Work::contended_key),
            UnderWay::UserCall(call) => call.contended_key(),
            UnderWay::FunctionCall(call) => call.contended_key(),
            UnderWay::Transaction(transaction) => transaction.contended_key(),
            UnderWay::Silent(exchange) => exchange.contended_key(),
            _ => None,
        }
    }

    /// Whether its client wants no answer.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.0, UnderWay::Silent(_))
    }

    /// Whether it asks the server if there is a command of some name.
    pub(crate) fn is_probe(&self) -> bool {
        match &self.0 {
            UnderWay::Probe(_) => true,
            UnderWay::Silent(exchange) => exchange.is_probe(),
            _ => false,
        }
    }

    /// Takes the next reply, which is whole.
    pub fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        match &mut self.0 {
            UnderWay::Get(get) => return get.handle_reply(reply, env, io),
            UnderWay::PassOn => io.answer.extend_from_slice(reply),
            UnderWay::Set(kind) if !kind.fits(reply) => return Step::Unexpected,
            UnderWay::Set(_) => io.answer.extend_from_slice(if reply.starts_with(b"-") { reply } else { b"+OK\r\n" }),
            UnderWay::Overwrite(overwrite) => return overwrite.handle_reply(reply, io),
            UnderWay::Delete(delete) => return delete.handle_reply(reply, env, io),
            UnderWay::Look(look) => return look.handle_reply(reply, env, io),
            UnderWay::PartsAttempt(attempt) => return attempt.handle_reply(reply, env, io),
            UnderWay::LookAtMany(look) => return look.handle_reply(reply, env, io),
            UnderWay::Work(work) => return work.handle_reply(reply, env, io),
            UnderWay::Foreign(foreign) => return foreign.handle_reply(reply, env, io),
            UnderWay::UserCall(call) => return call.handle_reply(reply, env, io),
            UnderWay::FunctionCall(call) => return call.handle_reply(reply, env, io),
            UnderWay::ScriptsExist(exist) => return exist.handle_reply(reply, io),
            UnderWay::Configure(configure) => return configure.handle_reply(reply, io),
            UnderWay::ShowSettings(show) => return show.handle_reply(reply, io),
            UnderWay::LaterCommands(commands) => return commands.handle_reply(reply, io),
            UnderWay::Copy(copy) => return copy.handle_reply(reply, env, io),
            UnderWay::Pieces(pieces) => return pieces.handle_reply(reply, env, io),
            UnderWay::List(list) => return list.handle_reply(reply, env, io),
            UnderWay::SlotList(list) => return list.handle_reply(reply, env, io),
            UnderWay::Size(size) => return size.handle_reply(reply, env, io),
            UnderWay::Random(random) => return random.handle_reply(reply, env, io),
            UnderWay::Transaction(transaction) => return transaction.handle_reply(reply, env, io),
            UnderWay::Watch(watch) => return watch.handle_reply(reply, env, io),
            UnderWay::Overview(overview) => return overview.handle_reply(reply, env, io),
            UnderWay::NativeFirst(attempt) => {
                let outcome = attempt.handle_reply(reply, env, io);
                return self.go_on(outcome);
            }
            UnderWay::FieldWrite(write) => {
                let outcome = write.handle_reply(reply, env, io);
                return self.go_on(outcome);
            }
            UnderWay::SetMany(batch) => match batch.handle_reply(reply) {
                None => return Step::Wait,
                Some(Err(refusal)) => return refusal.end(io),
                Some(Ok(replies)) => {
                    let failed = replies.iter().find(|reply| reply.starts_with(b"-"));
                    io.answer.extend_from_slice(failed.map_or(b"+OK\r\n", Vec::as_slice));
                }
            },
            UnderWay::Select { database, answer } => {
                let Some(answer) = answer else {
                    *answer = Some(reply.to_vec());
                    return if ReplyKind::Ok.fits(reply) { Step::Wait } else { Step::Unexpected };
                };
                // Back to where the others are that share the connection: an error leaves them elsewhere.
                if reply != b"+OK\r\n" {
                    return Step::Unexpected;
                }
                io.answer.extend_from_slice(answer);
                if !answer.starts_with(b"-") {
                    return Step::Done(Effect::Database(*database));
                }
            }
            UnderWay::Reset if !ReplyKind::Simple.fits(reply) => return Step::Unexpected,
            UnderWay::Reset => {
                io.answer.extend_from_slice(reply);
                if !reply.starts_with(b"-") {
                    return Step::Done(Effect::Reset);
                }
            }
            UnderWay::Probe(probe) => return probe.handle_reply(reply, io),
            UnderWay::Wait { announced } => return announced.handle_reply(reply, io),
            UnderWay::Hello { .. } if !matches!(reply.first(), Some(b'*' | b'%' | b'-')) => return Step::Unexpected,
            UnderWay::Hello { id, mode, hello } => {
                answer_hello(reply, *id, *mode, io.answer);
                if let Some(hello) = hello.take().filter(|_| !reply.starts_with(b"-")) {
                    return Step::Done(Effect::Hello(hello));
                }
            }
            UnderWay::ErrorOnly { .. } if reply.starts_with(b"-") => io.answer.extend_from_slice(reply),
            UnderWay::ErrorOnly { protocol } => {
                Answer::new(io.answer, *protocol).error(
                    "ERR keyfold: the server knows an option of this command that keyfold doesn't; leave it out",
                );
            }
            UnderWay::Flush if !ReplyKind::Ok.fits(reply) => return Step::Unexpected,
            UnderWay::Flush => io.answer.extend(script::without_place(reply)),
            UnderWay::Silent(exchange) => {
                let start = io.answer.len();
                let step = exchange.handle_reply(reply, env, io);
                io.answer.truncate(start);
                return step;
            }
            // A connection that goes on to watch what its last client did is of no use.
            UnderWay::Unwatch { .. } if reply != b"+OK\r\n" => return Step::Unexpected,
            UnderWay::Unwatch { answer } => {
                io.answer.append(answer);
                return Step::Done(Effect::Unwatched);
            }
        }
        Step::Done(Effect::None)
    }
}

impl Exchange {
    /// Goes on another way, where the server has done nothing.
    fn go_on(&mut self, outcome: Outcome) -> Step {
        match outcome {
            Outcome::Ended(step) => step,
            Outcome::Refused(instead, replies) => {
                self.0 = instead;
                Step::More(replies)
            }
        }
    }
}

/// Ends an exchange with this answer.
fn done(io: &mut Io<'_>, answer: &[u8]) -> Step {
    io.answer.extend_from_slice(answer);
    Step::Done(Effect::None)
}

/// Ends an exchange with this error.
fn fail(io: &mut Io<'_>, protocol: Protocol, message: &str) -> Step {
    Answer::new(io.answer, protocol).error(message);
    Step::Done(Effect::None)
}

/// The error of a key that can't be read or written as it should, code first.
pub(crate) fn failure(key: &[u8], why: &str) -> String {
    format!("ERR keyfold: key '{}': {why}", key.escape_ascii())
}
