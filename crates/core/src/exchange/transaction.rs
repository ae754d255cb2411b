//! EXEC: a queue of commands, all or nothing, with nothing between them.
//!
//! What doesn't touch a folded key goes to the server as it came, within MULTI and EXEC. What does is worked
//! out here: the physical keys are watched, read, the commands run one after another on one space, and their
//! writes join the others in the same MULTI. Where the watch was broken by another client it is all worked
//! out again, unless a key that the client itself watches has changed: then EXEC answers nil, as it must.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::command::{Command, table};
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::foreign::{OnOtherType, Verdict};
use crate::exchange::in_place::{self, Hosting};
use crate::exchange::key::Key;
use crate::exchange::load::{Load, Loading};
use crate::exchange::time_span::{TimeSpan, guard_name};
use crate::exchange::work::{GROWTH_LIMIT_BYTES, ask_commands, read_help};
use crate::exchange::{Effect, Env, Io, Refusal, Step, Watched, store};
use crate::resp::{Answer, Protocol, write_command};
use crate::string::{self, Ask, Call, Halt, Held, Run, Space, Unread, WhyUnread, finish};

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
    /// Whether the server may compute for long over it.
    pub(crate) is_slow: bool,
}

impl Queued {
    /// A command that the server answers.
    pub(crate) fn passed(args: &[&[u8]], keys: Vec<usize>, run: Option<Run>) -> Self {
        Self {
            args: args.iter().map(|arg| arg.to_vec()).collect(),
            keys,
            run,
            folded: false,
            foreign: None,
            is_slow: false,
        }
    }

    /// The command, where the table knows it.
    pub(crate) fn command(&self) -> Option<&'static Command> {
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        table().resolve(&args)
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
    /// The first command that may have no answer yet.
    next: usize,
    /// Keys whose commands the server carries out on their large values, where these lie.
    hosted: BTreeMap<Vec<u8>, Hosting>,
    attempts: u32,
    /// When EXEC may come, where that matters.
    span: Option<TimeSpan>,
    /// Tells the key that bounds the time from other transactions'.
    nonce: Option<u64>,
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
    /// The transaction's time is being bounded, before these writes.
    Bounding {
        batch: Batch,
        writes: Vec<Vec<Vec<u8>>>,
    },
    Committing(Batch),
    Unwatching,
}

/// Marks what must be worked out: commands on folded keys, and those that share a plain key with one.
///
/// # Errors
/// A command that shares a key with one that is worked out, but can't be itself: its name and the key.
fn settle(queue: &mut [Queued]) -> Result<(), String> {
    let mut on_key = BTreeMap::<Vec<u8>, Vec<usize>>::new();
    for (index, queued) in queue.iter().enumerate() {
        for key in queued.keys() {
            on_key.entry(key.to_vec()).or_default().push(index);
        }
    }
    let mut folded: Vec<usize> = (0..queue.len()).filter(|index| queue[*index].folded).collect();
    while let Some(index) = folded.pop() {
        let sharing: Vec<usize> = queue[index].keys().filter_map(|key| on_key.remove(key)).flatten().collect();
        for index in sharing {
            let next = &mut queue[index];
            if next.folded {
                continue;
            }
            if next.run.is_none() {
                let name = next.args[0].escape_ascii().to_string();
                return Err(format!(
                    "EXECABORT keyfold: {name} and a command on a folded key use the same key in one transaction; split it"
                ));
            }
            next.folded = true;
            folded.push(index);
        }
    }
    Ok(())
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
        let mut exec = Self {
            protocol,
            queue,
            watched,
            load: None,
            space,
            phase: Phase::Watching,
            outcomes,
            next: 0,
            hosted: BTreeMap::new(),
            attempts: 0,
            span: None,
            nonce: None,
        };
        let replies = if exec.queue.iter().any(|queued| queued.folded) {
            exec.load = Some(
                Load::new(env, exec.queue.iter().filter(|queued| queued.folded).flat_map(Queued::keys))
                    .watched()
                    .sparing(),
            );
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
            Phase::Asking(batch) => {
                if !batch.handle_reply(reply) {
                    return Step::Wait;
                }
                match batch.take() {
                    Err(refusal) => self.refused(refusal, io),
                    Ok(replies) => {
                        self.space.answer_ask(replies.iter().map(|raw| read_help(raw)).collect());
                        self.work_out(env, io)
                    }
                }
            }
            Phase::Judging { batch, index, answer_at } => {
                if !batch.handle_reply(reply) {
                    return Step::Wait;
                }
                match batch.take() {
                    Err(refusal) => self.refused(refusal, io),
                    Ok(mut replies) if *answer_at < replies.len() => {
                        self.outcomes[*index] = Outcome::Answer(replies.swap_remove(*answer_at));
                        self.work_out(env, io)
                    }
                    Ok(_) => Step::Unexpected,
                }
            }
            Phase::Bounding { batch, writes } => {
                if !batch.handle_reply(reply) {
                    return Step::Wait;
                }
                let (taken, writes) = (batch.take(), mem::take(writes));
                match taken {
                    Err(refusal) => self.refused(refusal, io),
                    Ok(replies) => self.bounded(&replies, &writes, env, io),
                }
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
                    Err(Refusal::Error(error)) => done(io, &error),
                    Err(Refusal::Unexpected) => Step::Unexpected,
                }
            }
            Phase::Unwatching if reply != b"+OK\r\n" => Step::Unexpected,
            Phase::Unwatching => {
                // The answer was written when it was known; this is UNWATCH's reply.
                Step::Done(Effect::Unwatched)
            }
        }
    }

    fn loaded(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        if self.watch_is_broken() {
            return self.give_up_with_nil(io);
        }
        self.hosted.clear();
        self.start_over(Space::new(env.now_ms).bounded(GROWTH_LIMIT_BYTES));
        self.work_out(env, io)
    }

    /// Begins to work the queue out on what was read.
    fn start_over(&mut self, space: Space) {
        self.space = space;
        self.next = 0;
        self.outcomes = initial_outcomes(&self.queue);
        if let Some(load) = &self.load {
            load.fill(&mut self.space);
        }
    }

    /// Works the queue out until it needs the server's help.
    fn work_out(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        loop {
            let step = match self.run_commands(env, io) {
                Ran::All => return self.write(env, io),
                Ran::Asked(step) => return step,
                Ran::Large(index) => self.work_elsewhere(index, env, io),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// Runs the commands that have no answer yet, in order, until one can't go on.
    fn run_commands(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Ran {
        while let Some(queued) = self.queue.get(self.next) {
            let index = self.next;
            if !matches!(self.outcomes[index], Outcome::Open) {
                self.next += 1;
                continue;
            }
            // EXEC would end the watch, so what the server is asked goes without MULTI, on a scratch key of its own.
            let scratch = format!("{}:{:x}:", String::from_utf8_lossy(string::SCRATCH), (env.nonces)()).into_bytes();
            if queued.keys().any(|key| self.hosted.contains_key(key)) {
                self.outcomes[index] = Outcome::Passed;
                continue;
            }
            let (commands, answer_at) = match run_queued(queued, &mut self.space, self.protocol, &scratch) {
                Worked::Large => return Ran::Large(index),
                Worked::Undecodable(error) => {
                    return Ran::Asked(self.give_up(format!("-{error}\r\n").into_bytes(), io));
                }
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
            return Ran::Asked(Step::More(replies));
        }
        Ran::All
    }

    /// All commands were run: what they changed is written.
    fn write(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let keys = self.load.as_ref().map_or(&[][..], Load::keys);
        if store::needs_all_bytes(keys, &self.space) {
            return self.read_all(io);
        }
        match store::plan_writes(env, keys, &self.space) {
            Ok(writes) => self.bound(writes.into_writes(), env, io),
            Err(message) => self.give_up(format!("-{message}\r\n").into_bytes(), io),
        }
    }

    /// The command at `index` works on more bytes than are read here: the server carries out all commands on its key,
    /// and on all others whose values are large, or they are read after all. None where the queue is to be worked out
    /// once more.
    fn work_elsewhere(&mut self, index: usize, env: &mut Env<'_>, io: &mut Io<'_>) -> Option<Step> {
        let Some(load) = &self.load else { return Some(Step::Wait) };
        let mut before = Space::new(env.now_ms);
        load.fill(&mut before);
        let mut on_key = BTreeMap::<&[u8], Vec<&Queued>>::new();
        for queued in &self.queue {
            queued.keys().for_each(|key| on_key.entry(key).or_default().push(queued));
        }
        let named: BTreeSet<&[u8]> = self.queue[index].keys().collect();
        // One value that grows large is an exception, several are the rule: each would have all of it begin again.
        let many_grow = !self.hosted.is_empty();
        let mut hosted = Vec::new();
        for key in load.keys().iter().filter(|key| !self.hosted.contains_key(&key.logical)) {
            let (logical, commands) = (key.logical.as_slice(), &on_key[key.logical.as_slice()]);
            let names = || commands.iter().map(|queued| queued.args[0].as_slice());
            let held = before.held(logical);
            let is_large = matches!(held, Held::Unread(Unread { why: WhyUnread::Large, .. }));
            let is_meant = named.contains(logical) || is_large || many_grow && names().any(in_place::writes);
            let is_alone = commands.iter().all(|queued| queued.foreign.is_none() && queued.keys == [1]);
            if is_meant && is_alone {
                hosted.extend(in_place::host(names(), key, held, env).map(|hosting| (logical.to_vec(), hosting)));
            }
        }
        let space = Space::new(env.now_ms);
        if hosted.iter().any(|(key, _)| named.contains(key.as_slice())) {
            self.hosted.extend(hosted);
            self.start_over(space.bounded(GROWTH_LIMIT_BYTES));
        } else if load.left_any_unread() {
            return Some(self.read_all(io));
        } else {
            // What the client asks for is made here.
            self.start_over(space);
        }
        None
    }

    fn read_all(&mut self, io: &mut Io<'_>) -> Step {
        let Some(load) = &mut self.load else { return Step::Wait };
        self.phase = Phase::Loading;
        Step::More(load.send_rest(io.wire))
    }

    /// Sees to it that EXEC comes at a time at which the keys are as they were taken for: alive or expired.
    fn bound(&mut self, writes: Vec<Vec<Vec<u8>>>, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let expiries = self.load.iter().flat_map(Load::keys).filter_map(Key::field_expires_at_ms);
        let span = TimeSpan::of(expiries, self.space.now_ms());
        let has_effects = !writes.is_empty() || self.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Passed));
        self.span = span.filter(|_| has_effects);
        let Some(span) = &self.span else { return Step::More(self.commit(&writes, io.wire)) };
        let nonce = *self.nonce.get_or_insert_with(|| (env.nonces)());
        let batch = Batch::send(&span.commands(nonce), io.wire);
        let replies = batch.left();
        self.phase = Phase::Bounding { batch, writes };
        Step::More(replies)
    }

    /// The time is bounded, or has run out.
    fn bounded(&mut self, replies: &[Vec<u8>], writes: &[Vec<Vec<u8>>], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if let Some(error) = replies.iter().find(|reply| reply.starts_with(b"-")) {
            return self.give_up(error.clone(), io);
        }
        match self.span.as_ref().map(|span| span.holds(replies)) {
            Some(Some(true)) | None => Step::More(self.commit(writes, io.wire)),
            Some(Some(false)) => self.begin_again(env, io),
            Some(None) => Step::Unexpected,
        }
    }

    fn commit(&mut self, writes: &[Vec<Vec<u8>>], wire: &mut Vec<u8>) -> u32 {
        let mut commands = Commands::default();
        for before in self.hosted.values().flat_map(|hosting| &hosting.before) {
            commands.push_bytes(before);
        }
        let outcomes = self.queue.iter().zip(&self.outcomes);
        for (queued, _) in outcomes.filter(|(_, outcome)| matches!(outcome, Outcome::Passed)) {
            let mut args = queued.args.iter().map(Vec::as_slice).collect::<Vec<_>>();
            if let Some(hosting) = queued.keys().find_map(|key| self.hosted.get(key)) {
                args[1] = &hosting.name;
            }
            commands.push_passed(&args);
        }
        for write in writes {
            commands.push(&write.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        for after in self.hosted.values().flat_map(|hosting| &hosting.after) {
            commands.push_bytes(after);
        }
        if let (Some(span), Some(nonce)) = (&self.span, self.nonce)
            && span.until_ms.is_some()
        {
            commands.push(&[b"UNLINK", &guard_name(nonce)]);
        }
        let batch = Batch::send_transaction(&commands, wire);
        let replies = batch.left();
        self.phase = Phase::Committing(batch);
        replies
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
            return self.give_up_with_nil(io);
        }
        // From now on the watched keys are read too, to see whether it was one of them.
        let watched = self.watched.iter().flat_map(Watched::keys);
        let queued = self.queue.iter().filter(|queued| queued.folded).flat_map(Queued::keys);
        self.load = Some(Load::new(env, queued.chain(watched)).watched().sparing());
        Step::More(self.watch(io.wire))
    }

    /// Whether a key that the client watches holds something else than it did at its WATCH.
    fn watch_is_broken(&self) -> bool {
        let Some((load, watched)) = self.load.as_ref().zip(self.watched.as_ref()) else { return false };
        self.attempts > 0 && watched.differs_from(load.keys())
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

    fn finish(&mut self, replies: Vec<Vec<u8>>, io: &mut Io<'_>) -> Step {
        let before = self.hosted.values().map(|hosting| hosting.before.len()).sum();
        let mut replies = replies.into_iter().skip(before);
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

/// How far the commands of a queue were run.
enum Ran {
    All,
    /// The server was asked something, or the transaction given up.
    Asked(Step),
    /// The one at this index works on more bytes than are read here.
    Large(usize),
}

/// What came of working one command out.
enum Worked {
    Out(Outcome),
    /// The server's help is needed.
    Asks(Ask),
    /// The server answers these, at this index.
    Shows(Commands, usize),
    /// It works on more bytes than are read here.
    Large,
    /// It needs a value that can't be decoded.
    Undecodable(String),
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
            Verdict::NeedsBytes => return Worked::Large,
            Verdict::Undecodable(error) => return Worked::Undecodable(error),
        }
    } else if let Some(run) = queued.run {
        let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
        match run(&Call { args: &args }, space, &mut answer) {
            Err(Halt::Large) => return Worked::Large,
            Err(Halt::Undecodable(error)) => return Worked::Undecodable(error),
            flow => {
                if let Err(ask) = finish(flow, &mut answer) {
                    return Worked::Asks(ask);
                }
            }
        }
    }
    Worked::Out(Outcome::Answer(out))
}
