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

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::admin::SCRATCH_KEY;
use crate::command::Command;
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::foreign::{OnOtherType, Verdict};
use crate::exchange::in_place::{self, Hosting};
use crate::exchange::key::Key;
use crate::exchange::load::{Load, Loading};
use crate::exchange::script::{self, CompareAndSet};
use crate::exchange::time_span::{TimeSpan, guard_name};
use crate::exchange::work::{GROWTH_LIMIT_BYTES, ask_commands, read_help};
use crate::exchange::{Effect, Env, Io, Refusal, Step, Watched, store};
use crate::resp::{Answer, Protocol, Reply, write_command};
use crate::string::{Ask, Call, Halt, Held, Run, Space, Unread, WhyUnread, finish};

const MAX_ATTEMPTS: u32 = 1000;

/// Arguments of more bytes than this don't go through the script, unless keys lie in more places than [`FEW`].
const MOST_COMPARED_BYTES: usize = 1 << 20;
/// So many physical keys a server watches in less than a millisecond.
const FEW: usize = 256;
/// Over more it would stand still for a tenth of a second.
const MOST_WATCHED: usize = 4096;

/// A command in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    /// The command and its arguments.
    pub(crate) args: Vec<Vec<u8>>,
    /// What the table knows of it.
    pub(crate) command: Option<&'static Command>,
    /// Where its keys are among its arguments.
    pub(crate) keys: Vec<usize>,
    /// Whether one of its keys is folded.
    pub(crate) folded: bool,
    /// Set for a command of another type on folded keys.
    pub(crate) foreign: Option<OnOtherType>,
    /// Whether the server may compute for long over it.
    pub(crate) is_slow: bool,
}

impl Queued {
    /// A command that the server answers.
    pub(crate) fn passed(args: &[&[u8]], command: Option<&'static Command>, keys: Vec<usize>) -> Self {
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        Self { args, command, keys, folded: false, foreign: None, is_slow: false }
    }

    /// What it is worked out by, where that is needed or possible.
    fn run(&self) -> Option<Run> {
        self.command?.run
    }

    /// Whether it needs nothing of the server but strings and their expiry.
    fn may_be_worked_out(&self) -> bool {
        self.run().is_some() && self.foreign.is_none()
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().filter_map(|index| self.args.get(*index)).map(Vec::as_slice)
    }
}

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
    phase: Phase,
    outcomes: Vec<Outcome>,
    /// The first command that may have no answer yet.
    next: usize,
    /// Keys whose commands the server carries out on their large values, where these lie.
    hosted: BTreeMap<Vec<u8>, Hosting>,
    attempts: u32,
    /// When EXEC may come, where that matters.
    span: Option<TimeSpan>,
    /// The number in the guard's name, which tells it from other transactions' guards.
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
    /// The script compares what was read, and writes.
    Comparing {
        batch: Batch,
        writes: CompareAndSet,
    },
    Unwatching,
}

/// A load of the keys that are worked out here; none where there are none.
fn load_of(queue: &[Queued], env: &Env<'_>) -> Option<Load> {
    let folded = || queue.iter().filter(|queued| queued.folded);
    folded().next()?;
    Some(Load::new(env, folded().flat_map(Queued::keys)))
}

/// How many physical keys its keys lie in.
fn places_of(load: &Option<Load>) -> usize {
    load.iter().flat_map(|load| load.keys()).flat_map(Key::physicals).collect::<BTreeSet<_>>().len()
}

fn bytes_of(queue: &[Queued]) -> usize {
    queue.iter().flat_map(|queued| &queued.args).map(Vec::len).sum()
}

/// The error of a transaction whose keys would have to be watched for this command, and are too many for that.
fn too_many(queued: &Queued, what: &str) -> String {
    format!(
        "EXECABORT keyfold: a transaction on folded keys in more than {MOST_WATCHED} places can't hold {} {what}; split it",
        queued.args[0].escape_ascii()
    )
}

/// Marks what must be worked out: commands on folded keys, and those that share a plain key with one.
///
/// # Errors
/// A command that shares a key with one that is worked out, but can't be itself: its name and the key.
fn settle(queue: &mut [Queued]) -> Result<(), String> {
    let folded = queue.iter().filter(|queued| queued.folded).count();
    if folded == 0 || folded == queue.len() {
        return Ok(());
    }
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
            if next.run().is_none() {
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
        let mut load = load_of(&queue, env);
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
            load = load_of(&queue, env);
        }
        let mut exec = Self {
            protocol,
            guard,
            outcomes: initial_outcomes(&queue),
            load: load.map(|load| guard.guarded(load)),
            queue,
            drawn_in,
            watched,
            space: Space::new(env.now_ms),
            phase: Phase::Watching,
            next: 0,
            hosted: BTreeMap::new(),
            attempts: 0,
            span: None,
            nonce: None,
        };
        let replies = if exec.load.is_some() { exec.begin(wire) } else { exec.commit(&[], wire) };
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
                Some(Ok(replies)) => self.finish(replies, io),
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
            Phase::Unwatching if reply != b"+OK\r\n" => Step::Unexpected,
            // The answer was written when it was known; this is UNWATCH's reply.
            Phase::Unwatching => Step::Done(Effect::Unwatched),
        }
    }

    fn loaded(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        if self.watch_is_broken() {
            return self.give_up_with_nil(io);
        }
        let is_other = |key: &Key| matches!(key.held(), Ok(Held::Other(_)));
        if !self.drawn_in.is_empty() && self.load.iter().flat_map(Load::keys).any(is_other) {
            return self.let_go(env, io);
        }
        self.hosted.clear();
        self.start_over(Space::new(env.now_ms).bounded(GROWTH_LIMIT_BYTES));
        self.work_out(env, io)
    }

    /// A plain key holds another type than a string: the commands in `drawn_in` go to the server after all.
    fn let_go(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let drawn_in = mem::take(&mut self.drawn_in);
        let first = drawn_in[0];
        drawn_in.into_iter().for_each(|index| self.queue[index].folded = false);
        self.watch_after_all(first, "on another type", env, io)
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
            let scratch = format!("{}:{:x}:", String::from_utf8_lossy(SCRATCH_KEY), (env.nonces)()).into_bytes();
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
            let (batch, replies) = Batch::send(&commands, io.wire);
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
        match (store::plan_writes(env, keys, &self.space), self.guard) {
            (Ok(writes), Guard::Watch) => self.bound(writes.into_writes(), env, io),
            (Ok(mut writes), Guard::Compare) => {
                if writes.is_empty() {
                    // What was read must have been there at one moment.
                    store::check_all(&mut writes, keys, self.space.now_ms());
                }
                self.compare(writes, false, io.wire)
            }
            (Err(message), _) => self.give_up(format!("-{message}\r\n").into_bytes(), io),
        }
    }

    /// Sends the script, in a MULTI where the client watches keys of its own: there a server that doesn't know the
    /// script would say so too late, and gets its text.
    fn compare(&mut self, writes: CompareAndSet, with_text: bool, wire: &mut Vec<u8>) -> Step {
        let is_watching = self.watched.is_some() && self.attempts == 0;
        let (mut commands, mut script) = (Commands::default(), Vec::new());
        match is_watching || with_text {
            true => writes.send_with_text(&mut script),
            false => writes.send(&mut script),
        }
        commands.push_bytes(&script);
        let (batch, replies) = match is_watching {
            true => Batch::send_transaction(&commands, wire),
            false => Batch::send(&commands, wire),
        };
        self.phase = Phase::Comparing { batch, writes };
        Step::More(replies)
    }

    /// The script has answered.
    fn compared(&mut self, answer: &[u8], writes: CompareAndSet, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        match Reply::parse(answer) {
            Ok(Reply::Integer(1)) => self.finish(Vec::new(), io),
            Ok(Reply::Integer(_)) => self.begin_again(env, io),
            Ok(Reply::Error(error)) if error.starts_with(b"NOSCRIPT") => self.compare(writes, true, io.wire),
            Ok(Reply::Error(_)) => self.give_up(script::without_place(answer), io),
            _ => Step::Unexpected,
        }
    }

    /// The command at `index` works on more bytes than are read here: the server carries out all commands on its key,
    /// and on all others whose values are large, or they are read after all. None where the queue is to be worked out
    /// once more.
    fn work_elsewhere(&mut self, index: usize, env: &mut Env<'_>, io: &mut Io<'_>) -> Option<Step> {
        if self.guard == Guard::Compare {
            return Some(self.watch_after_all(index, "on a large value", env, io));
        }
        let Some(load) = &self.load else { return Some(Step::Wait) };
        let mut before = Space::new(env.now_ms);
        load.fill(&mut before);
        let mut on_key = BTreeMap::<&[u8], Vec<&Queued>>::new();
        for queued in &self.queue {
            queued.keys().for_each(|key| on_key.entry(key).or_default().push(queued));
        }
        let named: BTreeSet<&[u8]> = self.queue[index].keys().collect();
        // Each value that grows large has the whole queue begin again: after a first one all others are hosted.
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

    /// Has the keys watched, so that the server can carry out the command at `index`.
    fn watch_after_all(&mut self, index: usize, what: &str, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        self.guard = Guard::Watch;
        self.load_anew(env);
        if places_of(&self.load) > MOST_WATCHED {
            let error = too_many(&self.queue[index], what);
            return self.give_up(format!("-{error}\r\n").into_bytes(), io);
        }
        Step::More(self.watch(io.wire))
    }

    fn read_all(&mut self, io: &mut Io<'_>) -> Step {
        let Some(load) = &mut self.load else { return Step::Wait };
        self.phase = Phase::Loading;
        Step::More(load.send_rest(io.wire))
    }

    /// Bounds the time of EXEC, so that what was read as alive or as expired is still that when it is carried out.
    fn bound(&mut self, writes: Vec<Vec<Vec<u8>>>, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let expiries = self.load.iter().flat_map(Load::keys).filter_map(Key::field_expires_at_ms);
        let span = TimeSpan::of(expiries, self.space.now_ms());
        let has_effects = !writes.is_empty() || self.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Passed));
        self.span = span.filter(|_| has_effects);
        let Some(span) = &self.span else { return Step::More(self.commit(&writes, io.wire)) };
        let nonce = *self.nonce.get_or_insert_with(|| (env.nonces)());
        let (batch, replies) = Batch::send(&span.commands(nonce), io.wire);
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
        let (batch, replies) = Batch::send_transaction(&commands, wire);
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
        self.load_anew(env);
        Step::More(self.begin(io.wire))
    }

    /// A load of all that is read. Once a watch was broken these are the watched keys too, to see whether it was one of
    /// them.
    fn load_anew(&mut self, env: &Env<'_>) {
        let watched = self.watched.iter().filter(|_| self.attempts > 0).flat_map(Watched::keys);
        let queued = self.queue.iter().filter(|queued| queued.folded).flat_map(Queued::keys);
        self.load = Some(self.guard.guarded(Load::new(env, queued.chain(watched))));
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
    } else if let Some(run) = queued.run() {
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
