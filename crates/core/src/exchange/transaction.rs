//! EXEC: a queue of commands, all or nothing, with nothing between them.
//!
//! What doesn't touch a folded key goes to the server as it came, within MULTI and EXEC. What does is worked
//! out here: the physical keys are watched, read, the commands run one after another on one space, and their
//! writes join the others in the same MULTI. Where the watch was broken by another client it is all worked
//! out again, unless a key that the client itself watches has changed: then EXEC answers nil, as it must.

use std::collections::BTreeSet;
use std::mem;

use crate::exchange::batch::{Batch, Commands};
use crate::exchange::foreign::{OnOtherType, Verdict};
use crate::exchange::key::Key;
use crate::exchange::load::{Load, Loading};
use crate::exchange::work::{ask_commands, read_help};
use crate::exchange::{Effect, Env, Io, Step, Watched, store};
use crate::resp::{Answer, Protocol, write_command};
use crate::string::{self, Ask, Call, Run, Space, finish};

const MAX_ATTEMPTS: u32 = 1000;

/// A command in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    /// The command and its arguments.
    pub(crate) args: Vec<Vec<u8>>,
    /// Where its keys are among them.
    pub(crate) keys: Vec<usize>,
    /// What it is worked out by, where that is needed or possible.
    pub(crate) run: Option<Run>,
    /// Whether one of its keys is folded.
    pub(crate) folded: bool,
    /// Set for a command of another type on folded keys.
    pub(crate) foreign: Option<OnOtherType>,
}

impl Queued {
    /// A command that the server answers.
    pub(crate) fn passed(args: &[&[u8]], keys: Vec<usize>, run: Option<Run>) -> Self {
        Self { args: args.iter().map(|arg| arg.to_vec()).collect(), keys, run, folded: false, foreign: None }
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().filter_map(|index| self.args.get(*index)).map(Vec::as_slice)
    }
}

/// A transaction under way.
#[derive(Debug)]
pub(crate) struct Transaction {
    protocol: Protocol,
    queue: Vec<Queued>,
    /// What the client watches on this connection.
    watched: Option<Watched>,
    load: Option<Load>,
    space: Space,
    phase: Phase,
    outcomes: Vec<Outcome>,
    attempts: u32,
}

/// What is known of a command's answer.
#[derive(Clone, Debug)]
enum Outcome {
    /// It is yet to be worked out.
    Open,
    /// It was worked out.
    Answer(Vec<u8>),
    /// The server gives it.
    Passed,
}

#[derive(Debug)]
enum Phase {
    Watching,
    Loading,
    Asking(Batch),
    /// The server answers the command at this index; which of the replies counts.
    Judging {
        batch: Batch,
        index: usize,
        answer_at: usize,
    },
    Committing(Batch),
    Unwatching,
}

/// Marks what must be worked out: commands on folded keys, and those that share a plain key with one.
///
/// # Errors
/// A command that shares a key with one that is worked out, but can't be itself: its name and the key.
fn settle(queue: &mut [Queued]) -> Result<(), String> {
    loop {
        let shared: BTreeSet<Vec<u8>> =
            queue.iter().filter(|queued| queued.folded).flat_map(Queued::keys).map(<[u8]>::to_vec).collect();
        let Some(next) =
            queue.iter_mut().find(|queued| !queued.folded && queued.keys().any(|key| shared.contains(key)))
        else {
            return Ok(());
        };
        if next.run.is_none() {
            let name = next.args[0].escape_ascii().to_string();
            return Err(format!(
                "EXECABORT keyfold: {name} and a command on a folded key use the same key in one transaction; split it"
            ));
        }
        next.folded = true;
    }
}

impl Transaction {
    /// Starts EXEC; with the number of replies to come.
    ///
    /// # Errors
    /// The error that answers EXEC where the queue can't be carried out; nothing was written then.
    pub(crate) fn start(
        mut queue: Vec<Queued>,
        watched: Option<Watched>,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Result<(Self, u32), String> {
        settle(&mut queue)?;
        let outcomes = initial_outcomes(&queue);
        let space = Space::new(env.now_ms);
        let mut exec =
            Self { protocol, queue, watched, load: None, space, phase: Phase::Watching, outcomes, attempts: 0 };
        let replies = if exec.queue.iter().any(|queued| queued.folded) {
            exec.load =
                Some(Load::new(env, exec.queue.iter().filter(|queued| queued.folded).flat_map(Queued::keys)).watched());
            exec.watch(wire)
        } else {
            exec.commit(&[], wire)
        };
        Ok((exec, replies))
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
            Phase::Watching if reply.starts_with(b"-") => done(io, reply),
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
                    Loading::Failed(error) => self.give_up(error, io),
                    Loading::Ready => self.loaded(env, io),
                }
            }
            Phase::Asking(batch) => {
                if !batch.handle_reply(reply) {
                    return Step::Wait;
                }
                let replies = batch.take().unwrap_or_default();
                self.space.answer_ask(replies.iter().map(|raw| read_help(raw)).collect());
                self.work_out(env, io)
            }
            Phase::Judging { batch, index, answer_at } => {
                if !batch.handle_reply(reply) {
                    return Step::Wait;
                }
                let answer = batch.take().unwrap_or_default().into_iter().nth(*answer_at);
                self.outcomes[*index] = Outcome::Answer(answer.unwrap_or_default());
                self.work_out(env, io)
            }
            Phase::Committing(batch) => {
                if !batch.handle_reply(reply) {
                    return Step::Wait;
                }
                if batch.aborted() {
                    return self.aborted(env, io);
                }
                match batch.take() {
                    Ok(replies) => self.finish(replies, io),
                    Err(error) => done(io, &error),
                }
            }
            Phase::Unwatching => {
                // The answer was written when it was known; this is UNWATCH's reply.
                Step::Done(Effect::Unwatched)
            }
        }
    }

    fn loaded(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        if self.watch_is_broken() {
            let mut nil = Vec::new();
            Answer::new(&mut nil, self.protocol).nil_array();
            return self.give_up(nil, io);
        }
        self.space = Space::new(env.now_ms);
        self.outcomes = initial_outcomes(&self.queue);
        let filled = self.load.as_ref().map_or(Ok(()), |load| load.fill(&mut self.space));
        match filled {
            Ok(()) => self.work_out(env, io),
            Err(message) => self.give_up(format!("-{message}\r\n").into_bytes(), io),
        }
    }

    /// Runs the commands that have no answer yet, in order, until one needs the server's help.
    fn work_out(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        for (index, queued) in self.queue.iter().enumerate() {
            if !matches!(self.outcomes[index], Outcome::Open) {
                continue;
            }
            // EXEC would end the watch, so what the server is asked goes without MULTI, on a scratch key of its own.
            let scratch = format!("{}:{:x}:", String::from_utf8_lossy(string::SCRATCH), (env.nonces)()).into_bytes();
            let (commands, answer_at) = match run_queued(queued, &mut self.space, self.protocol, &scratch) {
                Worked::Out(known) => {
                    self.outcomes[index] = known;
                    continue;
                }
                Worked::Asks(ask) => (ask_commands(&ask, &scratch), None),
                Worked::Shows(commands, answer_at) => (commands, Some(answer_at)),
            };
            let batch = Batch::send(&commands, io.wire);
            let replies = batch.left();
            self.phase = match answer_at {
                Some(answer_at) => Phase::Judging { batch, index, answer_at },
                None => Phase::Asking(batch),
            };
            return Step::More(replies);
        }
        let keys = self.load.as_ref().map_or(&[][..], Load::keys);
        match store::plan_writes(env, keys, &self.space) {
            Ok(writes) => Step::More(self.commit(&writes.into_writes(), io.wire)),
            Err(message) => self.give_up(format!("-{message}\r\n").into_bytes(), io),
        }
    }

    fn commit(&mut self, writes: &[Vec<Vec<u8>>], wire: &mut Vec<u8>) -> u32 {
        let mut commands = Commands::default();
        let outcomes = self.queue.iter().zip(&self.outcomes);
        let passed = outcomes.filter(|(_, outcome)| matches!(outcome, Outcome::Passed)).map(|(queued, _)| &queued.args);
        for command in passed.chain(writes) {
            commands.push(&command.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        let batch = Batch::send_transaction(&commands, wire);
        let replies = batch.left();
        self.phase = Phase::Committing(batch);
        replies
    }

    /// The watch was broken. Where it was ours alone, or by another key of a bucket in which the client watches
    /// a key, it begins again.
    fn aborted(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        for place in self.load.iter().flat_map(|load| load.keys()).filter_map(Key::place) {
            env.stats.namespace(place.namespace).count_conflict();
        }
        self.attempts += 1;
        let folded_only = self.watched.as_ref().is_none_or(|watched| watched.keys.iter().all(Key::is_in_buckets));
        if !folded_only || self.attempts == MAX_ATTEMPTS {
            return self.answer_nil(io);
        }
        // From now on the watched keys are read too, to see whether it was one of them.
        let watched = self.watched.iter().flat_map(|watched| &watched.keys).map(|key| key.logical.as_slice());
        let queued = self.queue.iter().filter(|queued| queued.folded).flat_map(Queued::keys);
        self.load = Some(Load::new(env, queued.chain(watched)).watched());
        Step::More(self.watch(io.wire))
    }

    /// Whether a key that the client watches holds something else than it did at its WATCH.
    fn watch_is_broken(&self) -> bool {
        let Some((load, watched)) = self.load.as_ref().zip(self.watched.as_ref()) else { return false };
        let now = |key: &Key| load.keys().iter().find(|known| known.logical == key.logical);
        self.attempts > 0 && watched.keys.iter().any(|key| now(key).is_none_or(|now| !now.holds_the_same(key)))
    }

    fn answer_nil(&mut self, io: &mut Io<'_>) -> Step {
        Answer::new(io.answer, self.protocol).nil_array();
        Step::Done(Effect::Unwatched)
    }

    /// Answers with an error; the watch must not outlive it.
    fn give_up(&mut self, error: Vec<u8>, io: &mut Io<'_>) -> Step {
        io.answer.extend(error);
        write_command(io.wire, &[b"UNWATCH"]);
        self.phase = Phase::Unwatching;
        Step::More(1)
    }

    fn finish(&mut self, replies: Vec<Vec<u8>>, io: &mut Io<'_>) -> Step {
        let mut replies = replies.into_iter();
        Answer::new(io.answer, self.protocol).array(self.queue.len());
        for outcome in mem::take(&mut self.outcomes) {
            match outcome {
                Outcome::Answer(answer) => io.answer.extend(answer),
                Outcome::Open | Outcome::Passed => io.answer.extend(replies.next().unwrap_or_default()),
            }
        }
        Step::Done(Effect::Unwatched)
    }
}

fn done(io: &mut Io<'_>, answer: &[u8]) -> Step {
    io.answer.extend_from_slice(answer);
    Step::Done(Effect::Unwatched)
}

fn initial_outcomes(queue: &[Queued]) -> Vec<Outcome> {
    queue.iter().map(|queued| if queued.folded { Outcome::Open } else { Outcome::Passed }).collect()
}

/// What came of working one command out.
enum Worked {
    Out(Outcome),
    /// The server's help is needed.
    Asks(Ask),
    /// The server answers these, at this index.
    Shows(Commands, usize),
}

/// Works one command out.
fn run_queued(queued: &Queued, space: &mut Space, protocol: Protocol, scratch: &[u8]) -> Worked {
    let mut out = Vec::new();
    let mut answer = Answer::new(&mut out, protocol);
    if let Some(foreign) = &queued.foreign {
        match foreign.judge(&queued.args, space, scratch) {
            Verdict::Refused(error) => answer.error(error),
            Verdict::PassedOn => return Worked::Out(Outcome::Passed),
            Verdict::OnScratch(commands, answer_at) => return Worked::Shows(commands, answer_at),
        }
    } else if let Some(run) = queued.run {
        let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
        if let Err(ask) = finish(run(&Call { args: &args }, space, &mut answer), &mut answer) {
            return Worked::Asks(ask);
        }
    }
    Worked::Out(Outcome::Answer(out))
}

/// WATCH: the physical keys, and what lies under them: that a value expires no server would notice, and a
/// bucket changes more often than the key.
#[derive(Debug)]
pub(crate) struct Watch {
    load: Load,
    answer: Option<Vec<u8>>,
}

impl Watch {
    /// Sends WATCH; it has one reply.
    pub(crate) fn start(keys: &[&[u8]], env: &Env<'_>, wire: &mut Vec<u8>) -> Self {
        let load = Load::new(env, keys.iter().copied()).watched();
        let physical = load.keys().iter().flat_map(Key::physicals).collect::<BTreeSet<_>>();
        let mut args: Vec<&[u8]> = vec![b"WATCH"];
        args.extend(physical);
        write_command(wire, &args);
        Self { load, answer: None }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if self.answer.is_none() {
            self.answer = Some(reply.to_vec());
            if reply.starts_with(b"-") {
                return done(io, reply);
            }
            return Step::More(self.load.send(io.wire));
        }
        match self.load.handle_reply(reply, env, io.wire) {
            Loading::Wait => Step::Wait,
            Loading::More(replies) => Step::More(replies),
            Loading::Ready | Loading::Failed(_) => {
                io.answer.extend(self.answer.take().unwrap_or_default());
                let keys = self.load.keys().to_vec();
                Step::Done(Effect::Watching(Watched { keys, epoch: env.layout.epoch(), now_ms: env.now_ms }))
            }
        }
    }
}
