//! EXEC: a queue of commands, all or nothing, with nothing between them.
//!
//! What doesn't touch a folded key goes to the server as it came, within MULTI and EXEC. What does is worked
//! out here: the physical keys are watched, read, the commands run one after another on one space, and their
//! writes join the others in the same MULTI. Where the watch was broken by another client it is all worked
//! out again, unless a key that the client itself watches has changed: then EXEC answers nil, as it must.
//!
//! A server looks through all keys that a client watches for each one more: it stands still for half a second over
//! 10,000. So where all commands can be worked out here, nothing is watched: one script compares what was read, and
//! writes. Only much data doesn't go through it.

mod queued;
mod run;
mod scripted;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::exchange::batch::Batch;
use crate::exchange::in_place::Hosting;
use crate::exchange::key::Key;
use crate::exchange::load::{Load, Loading};
use crate::exchange::recode::{Recode, Recoded};
use crate::exchange::script::CompareAndSet;
use crate::exchange::time_span::TimeSpan;
use crate::exchange::work::read_help;
use crate::exchange::{Effect, Env, Io, Refusal, Step, Watched};
use crate::notify::Notices;
use crate::resp::{Answer, Protocol, write_command};
use crate::string::Space;
use crate::user_script::Listed;
use queued::{Outcome, bytes_of, folded_keys, initial_outcomes, load_for, load_of, settle};
pub(crate) use queued::{Queued, Scripted};
use scripted::Answers;

const MAX_ATTEMPTS: u32 = 1000;

/// What is answered then where the client itself watches nothing.
const WORN_OUT: &[u8] = b"-ERR keyfold: other clients changed the keys each time this transaction was worked out; nothing was carried out, try again\r\n";

/// Arguments of more bytes than this don't go through the script, unless keys lie in more places than [`FEW`].
const MOST_COMPARED_BYTES: usize = 1 << 20;
/// So many physical keys a server watches in less than a millisecond.
const FEW: usize = 256;
/// Over more it would stand still for a tenth of a second.
const MOST_WATCHED: usize = 4096;

/// How it is made sure that nothing changes between the reads and EXEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// The server watches the physical keys.
    Watch,
    /// The script looks at each once more. All commands are worked out here.
    Compare,
}

impl Guard {
    /// The load, with the reads that this guard allows.
    fn guarded(self, load: Load) -> Load {
        match self {
            Self::Watch => load.watched().sparing(),
            Self::Compare => load.apart().sparing(),
        }
    }
}

/// A transaction under way.
#[derive(Debug)]
pub(crate) struct Transaction {
    protocol: Protocol,
    guard: Guard,
    queue: Vec<Queued>,
    /// Commands on plain keys alone that are worked out here too, so that nothing need be watched.
    drawn_in: Vec<usize>,
    /// What the client watches on this connection.
    watched: Option<Watched>,
    load: Option<Load>,
    space: Space,
    /// What is published of what it does.
    notices: Option<Notices>,
    phase: Phase,
    outcomes: Vec<Outcome>,
    /// The first command that may have no answer yet.
    next: usize,
    /// Keys whose commands the server carries out on their large values, where these lie.
    hosted: BTreeMap<Vec<u8>, Hosting>,
    /// The places of the replies to what is written that are none of the queue's.
    uncounted: BTreeSet<usize>,
    attempts: u32,
    /// When EXEC may come, where that matters.
    span: Option<TimeSpan>,
    /// The key that expires where the span ends.
    guard_key: Option<Vec<u8>>,
    /// It asks for the time itself, as it only reads.
    is_timed: bool,
    /// Somebody caches what it reads.
    for_cache: bool,
    /// A server that is out of memory has been asked to carry it out all the same.
    is_let_through: bool,
}

#[derive(Debug)]
enum Phase {
    /// The server is asked for the functions that are called.
    Finding,
    Watching,
    Loading,
    Asking(Batch),
    /// The server answers the command at this index; which of the replies counts.
    Judging {
        batch: Batch,
        index: usize,
        answer_at: usize,
    },
    /// The transaction's time is being bounded, before these writes.
    Bounding {
        batch: Batch,
        writes: Vec<Vec<Vec<u8>>>,
    },
    Committing(Batch),
    /// The script compares what was read, and writes.
    Comparing {
        batch: Batch,
        writes: CompareAndSet,
    },
    /// It was carried out, and what scripts wrote is encoded.
    Recoding {
        recode: Box<Recode>,
        answer: Vec<u8>,
    },
    /// It is looked when what scripts have read expires.
    Noting {
        load: Box<Load>,
        answer: Vec<u8>,
    },
    Unwatching,
}

/// How many physical keys its keys lie in.
fn places_of(load: &Option<Load>) -> usize {
    load.iter().flat_map(|load| load.keys()).flat_map(Key::physicals).collect::<BTreeSet<_>>().len()
}

/// The error of a transaction whose keys would have to be watched for this command, and are too many for that.
fn too_many(queued: &Queued, what: &str) -> String {
    format!(
        "EXECABORT keyfold: a transaction on folded keys in more than {MOST_WATCHED} places can't hold {} {what}; split it",
        queued.args[0].escape_ascii()
    )
}

impl Transaction {
    /// Starts EXEC; with the number of replies to come.
    ///
    /// # Errors
    /// The error that answers EXEC where the queue can't be carried out; nothing was written then.
    pub(crate) fn start(
        queue: Vec<Queued>,
        watched: Option<Watched>,
        notices: Option<Notices>,
        protocol: Protocol,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Result<(Self, u32), String> {
        if !queue.iter().any(|queued| matches!(queued.script, Scripted::Function)) {
            return Self::start_found(queue, watched, notices, protocol, env, wire);
        }
        // Without MULTI, so that what the client watches stays watched.
        Listed::ask(wire);
        Ok((Self { phase: Phase::Finding, ..Self::new(queue, watched, notices, protocol, env) }, 1))
    }

    /// One of which nothing is known yet.
    fn new(
        queue: Vec<Queued>,
        watched: Option<Watched>,
        notices: Option<Notices>,
        protocol: Protocol,
        env: &Env<'_>,
    ) -> Self {
        Self {
            protocol,
            guard: Guard::Watch,
            outcomes: Vec::new(),
            load: None,
            queue,
            drawn_in: Vec::new(),
            watched,
            space: Space::new(env.now_ms),
            notices,
            phase: Phase::Watching,
            next: 0,
            hosted: BTreeMap::new(),
            uncounted: BTreeSet::new(),
            attempts: 0,
            span: None,
            guard_key: None,
            is_timed: false,
            for_cache: false,
            is_let_through: false,
        }
    }

    /// The same for a client that caches what it reads, and is told when that expires.
    pub(crate) fn for_cache(self, for_cache: bool) -> Self {
        Self { for_cache, ..self }
    }

    /// The same, of a queue whose functions are found.
    fn start_found(
        mut queue: Vec<Queued>,
        watched: Option<Watched>,
        notices: Option<Notices>,
        protocol: Protocol,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Result<(Self, u32), String> {
        scripted::settle(&mut queue, env.dialect())?;
        settle(&mut queue)?;
        let mut load = load_of(&queue, &scripted::strange_keys(&queue, env), env);
        let places = places_of(&load);
        let mut drawn_in = Vec::new();
        let guard = match queue.iter().find(|queued| !queued.may_be_worked_out()) {
            Some(other) if places > MOST_WATCHED => return Err(too_many(other, "too")),
            Some(_) => Guard::Watch,
            None if places > FEW => {
                let others = queue.iter_mut().enumerate().filter(|(_, queued)| !queued.folded);
                others.for_each(|(index, queued)| {
                    queued.folded = true;
                    drawn_in.push(index);
                });
                Guard::Compare
            }
            None if queue.iter().all(|queued| queued.folded) && bytes_of(&queue) <= MOST_COMPARED_BYTES => {
                Guard::Compare
            }
            None => Guard::Watch,
        };
        if !drawn_in.is_empty() {
            load = load_of(&queue, &scripted::strange_keys(&queue, env), env);
        }
        let outcomes = initial_outcomes(&queue);
        let load = load.map(|load| guard.guarded(load));
        let mut exec = Self { guard, outcomes, load, drawn_in, ..Self::new(queue, watched, notices, protocol, env) };
        let replies = if exec.load.is_some() { exec.begin(wire) } else { exec.bound(Vec::new(), env, wire) };
        Ok((exec, replies))
    }

    /// Watches, or reads at once where nothing is watched.
    fn begin(&mut self, wire: &mut Vec<u8>) -> u32 {
        match (self.guard, &mut self.load) {
            (Guard::Compare, Some(load)) => {
                self.phase = Phase::Loading;
                load.send(wire)
            }
            _ => self.watch(wire),
        }
    }

    fn watch(&mut self, wire: &mut Vec<u8>) -> u32 {
        let keys = self.load.iter().flat_map(|load| load.keys()).flat_map(Key::physicals).collect::<BTreeSet<_>>();
        let mut args: Vec<&[u8]> = vec![b"WATCH"];
        args.extend(keys);
        write_command(wire, &args);
        self.phase = Phase::Watching;
        1
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        match &mut self.phase {
            Phase::Finding if matches!(reply.first(), Some(b'-' | b'!')) => self.give_up(reply.to_vec(), io),
            Phase::Finding => match Listed::read(reply, env.server.has_server_in_scripts()) {
                Some(listed) => self.begin_found(&listed, env, io),
                None => Step::Unexpected,
            },
            Phase::Watching if reply.starts_with(b"-") => done(io, reply),
            Phase::Watching if reply != b"+OK\r\n" => Step::Unexpected,
            Phase::Watching => {
                let Some(load) = &mut self.load else { return Step::Wait };
                self.phase = Phase::Loading;
                Step::More(load.send(io.wire))
            }
            Phase::Loading => {
                let Some(load) = &mut self.load else { return Step::Wait };
                match load.handle_reply(reply, env, io.wire) {
                    Loading::Wait => Step::Wait,
                    Loading::More(replies) => Step::More(replies),
                    Loading::Failed(refusal) => self.refused(refusal, io),
                    Loading::Ready => self.loaded(env, io),
                }
            }
            Phase::Asking(batch) => match batch.handle_reply(reply) {
                None => Step::Wait,
                Some(Err(refusal)) => self.refused(refusal, io),
                Some(Ok(replies)) => {
                    self.space.answer_ask(replies.iter().map(|raw| read_help(raw)).collect());
                    self.work_out(env, io)
                }
            },
            Phase::Judging { batch, index, answer_at } => match batch.handle_reply(reply) {
                None => Step::Wait,
                Some(Err(refusal)) => self.refused(refusal, io),
                Some(Ok(mut replies)) if *answer_at < replies.len() => {
                    // A full server hasn't made the scratch key that the command was to read.
                    if let Some(error) = replies[..*answer_at].iter().find(|reply| reply.starts_with(b"-")) {
                        let error = error.clone();
                        return self.give_up(error, io);
                    }
                    self.outcomes[*index] = Outcome::Answer(replies.swap_remove(*answer_at));
                    self.work_out(env, io)
                }
                Some(Ok(_)) => Step::Unexpected,
            },
            Phase::Bounding { batch, writes } => match batch.handle_reply(reply) {
                None => Step::Wait,
                Some(Err(refusal)) => self.refused(refusal, io),
                Some(Ok(replies)) => {
                    let writes = mem::take(writes);
                    self.bounded(&replies, &writes, env, io)
                }
            },
            Phase::Committing(batch) => match batch.handle_reply(reply) {
                None => Step::Wait,
                Some(_) if batch.aborted() => self.aborted(env, io),
                Some(Ok(replies)) => self.committed(replies, env, io),
                Some(Err(Refusal::Error(error))) => done(io, &error),
                Some(Err(Refusal::Unexpected)) => Step::Unexpected,
            },
            Phase::Comparing { batch, writes } => match batch.handle_reply(reply) {
                None => Step::Wait,
                Some(_) if batch.aborted() => self.aborted(env, io),
                Some(Ok(replies)) => {
                    let writes = mem::take(writes);
                    self.compared(&replies.concat(), writes, env, io)
                }
                Some(Err(refusal)) => self.refused(refusal, io),
            },
            Phase::Recoding { recode, answer } => match recode.handle_reply(reply, env, io.wire) {
                Recoded::Wait => Step::Wait,
                Recoded::More(replies) => Step::More(replies),
                Recoded::Done => {
                    let answer = mem::take(answer);
                    self.note_expiries(answer, env, io)
                }
                Recoded::Unexpected => Step::Unexpected,
            },
            Phase::Noting { load, answer } => match load.take_expiries(reply, env, io.wire) {
                Some(step) => step,
                None => done(io, answer),
            },
            Phase::Unwatching if reply != b"+OK\r\n" => Step::Unexpected,
            // The answer was written when it was known; this is UNWATCH's reply.
            Phase::Unwatching => Step::Done(Effect::Unwatched),
        }
    }

    /// The server has these functions: it begins.
    fn begin_found(&mut self, listed: &Listed, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let (mut queue, watched) = (mem::take(&mut self.queue), self.watched.take());
        scripted::find_functions(&mut queue, listed, self.notices);
        match Self::start_found(queue, watched, self.notices, self.protocol, env, io.wire) {
            Ok((transaction, replies)) => {
                *self = transaction.for_cache(self.for_cache);
                Step::More(replies)
            }
            Err(message) => self.give_up(format!("-{message}\r\n").into_bytes(), io),
        }
    }

    /// The first folded key, where it has had to begin again.
    pub(crate) fn contended_key(&self) -> Option<&[u8]> {
        self.load.as_ref()?.keys().first().filter(|_| self.attempts > 0).map(|key| &key.logical[..])
    }

    /// The watch was broken. Where it was ours alone, or by another key of a bucket in which the client watches
    /// a key, it begins again.
    fn aborted(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if !self.watched.as_ref().is_none_or(Watched::may_be_others) {
            return self.answer_nil(io);
        }
        self.begin_again(env, io)
    }

    /// Reads everything once more, and works it out anew.
    fn begin_again(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        for place in self.load.iter().flat_map(|load| load.keys()).filter_map(Key::place) {
            env.stats.namespace(place.namespace).count_conflict();
        }
        self.attempts += 1;
        if self.attempts == MAX_ATTEMPTS {
            // Nil would say to a client that watches nothing that a key which it watches was changed.
            return match self.watched {
                Some(_) => self.give_up_with_nil(io),
                None => self.give_up(WORN_OUT.to_vec(), io),
            };
        }
        self.load_anew(env);
        Step::More(self.begin(io.wire))
    }

    /// A load of all that is read. Once a watch was broken these are the watched keys too, to see whether it was one of
    /// them.
    fn load_anew(&mut self, env: &Env<'_>) {
        let strange = scripted::strange_keys(&self.queue, env);
        let watched = self.watched.iter().filter(|_| self.attempts > 0).flat_map(Watched::keys);
        let keys = folded_keys(&self.queue).chain(strange.iter().map(Vec::as_slice)).chain(watched);
        self.load = Some(self.guard.guarded(load_for(&self.queue, keys, env)));
    }

    /// Whether a key that the client watches holds something else than it did at its WATCH.
    fn watch_is_broken(&self, env: &Env<'_>) -> bool {
        let Some((load, watched)) = self.load.as_ref().zip(self.watched.as_ref()) else { return false };
        watched.is_broken(env) || self.attempts > 0 && watched.differs_from(load.keys(), env.now_ms)
    }

    fn answer_nil(&mut self, io: &mut Io<'_>) -> Step {
        Answer::new(io.answer, self.protocol).nil_array();
        Step::Done(Effect::Unwatched)
    }

    /// Answers with nil where the watch stands still.
    fn give_up_with_nil(&mut self, io: &mut Io<'_>) -> Step {
        let mut nil = Vec::new();
        Answer::new(&mut nil, self.protocol).nil_array();
        self.give_up(nil, io)
    }

    fn refused(&mut self, refusal: Refusal, io: &mut Io<'_>) -> Step {
        match refusal {
            Refusal::Error(error) => self.give_up(error, io),
            Refusal::Unexpected => Step::Unexpected,
        }
    }

    /// Answers with an error; the watch must not outlive it.
    fn give_up(&mut self, error: Vec<u8>, io: &mut Io<'_>) -> Step {
        io.answer.extend(error);
        write_command(io.wire, &[b"UNWATCH"]);
        self.phase = Phase::Unwatching;
        Step::More(1)
    }

    /// EXEC was carried out. Where it only reads, it is to be known that all was alive meanwhile, or expired.
    fn committed(&mut self, replies: Vec<Vec<u8>>, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        match self.span.as_ref().filter(|_| self.is_timed).map(|span| span.held(&replies)) {
            Some(Some(true)) | None => self.finish(replies, env, io),
            Some(Some(false)) => self.begin_again(env, io),
            Some(None) => Step::Unexpected,
        }
    }

    fn finish(&mut self, replies: Vec<Vec<u8>>, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let replies = replies.into_iter().enumerate().filter(|(place, _)| !self.uncounted.contains(place));
        let mut replies = replies.map(|(_, reply)| reply);
        let (mut answers, mut answer) = (Answers::new(self.protocol), Vec::new());
        Answer::new(&mut answer, self.protocol).array(self.queue.len());
        for (queued, outcome) in self.queue.iter().zip(mem::take(&mut self.outcomes)) {
            match outcome {
                Outcome::Answer(known) => answer.extend(known),
                Outcome::Open | Outcome::Passed => {
                    let reply = replies.next().unwrap_or_default();
                    answer.extend_from_slice(&answers.read(queued, &reply));
                }
            }
        }
        let written: Vec<Vec<u8>> = scripted::script_keys(&self.queue).collect();
        let Some((recode, replies)) = Recode::start(written.iter().map(Vec::as_slice), env, io.wire) else {
            return self.note_expiries(answer, env, io);
        };
        self.phase = Phase::Recoding { recode: Box::new(recode), answer };
        Step::More(replies)
    }

    /// Looks when what scripts may have read expires, where that is to be known, before it is answered. Of what commands read
    /// that is known since it was loaded.
    fn note_expiries(&mut self, answer: Vec<u8>, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let keys: BTreeSet<Vec<u8>> = scripted::script_keys(&self.queue).filter(|_| self.for_cache).collect();
        let mut load = Load::of_expiries(env, keys.iter().map(|key| (key.as_slice(), env.layout.locate(key))));
        if load.keys().is_empty() {
            return done(io, &answer);
        }
        let replies = load.send(io.wire);
        self.phase = Phase::Noting { load: Box::new(load), answer };
        Step::More(replies)
    }
}

fn done(io: &mut Io<'_>, answer: &[u8]) -> Step {
    io.answer.extend_from_slice(answer);
    Step::Done(Effect::Unwatched)
}
