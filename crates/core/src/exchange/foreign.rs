//! A command for another type (a list, a hash …) that names folded keys, which are strings.
//!
//! A key that exists is shown to the server as what it is, a string under a scratch name, so that the server
//! itself answers: WRONGTYPE, or whatever it finds wrong first. A key that doesn't exist the server doesn't have
//! either, so a command that only reads, or that can only take away, goes to it as it came; one that would
//! create a key of its type is refused.
//!
//! One that writes by what several keys hold (ZUNIONSTORE) is carried out if they still hold it: else the first scratch
//! name is made one that the server refuses, and all begins again.

use crate::admin::scratch_key;
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::load::{Load, Loading};
use crate::exchange::passed_on::PassedOn;
use crate::exchange::script::{CompareAndSet, Otherwise};
use crate::exchange::work::{MAX_ATTEMPTS, WORN_OUT};
use crate::exchange::{Env, Io, Step, done, fail, native_collection, store};
use crate::layout::Located;
use crate::resp::Protocol;
use crate::string::{Collected, Held, Space, Unread, WhyUnread};

/// What such a command comes to.
#[derive(Clone, Debug)]
pub(crate) struct OnOtherType {
    /// Where the folded keys are among its arguments.
    pub(crate) folded: Vec<usize>,
    /// It writes HyperLogLogs, which are strings of their own form.
    pub(crate) writes_hyperloglog: bool,
    /// What it writes depends on what several keys hold.
    pub(crate) writes_by_several: bool,
    /// It waits to give one of them something, by which time that may be of another type.
    pub(crate) waits_to_give: bool,
    /// The error where no key exists and the command would create one.
    pub(crate) refusal: Option<String>,
}

/// When one is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment<'g> {
    /// As soon as it is known what is to be done.
    AsRead,
    /// The same, with this sent right before it.
    Guarded(&'g [u8]),
    /// Where its keys have been removed by an earlier command of a transaction, and lie under their own names as long as that isn't
    /// written: they are being moved. All of its keys are folded, and it makes none.
    BeforeRemoval,
}

impl Moment<'_> {
    /// Whether a key that isn't there is shown to the server under a name of which the same is true.
    fn shows_what_is_not_there(self) -> bool {
        !matches!(self, Self::AsRead)
    }
}

/// What is to be done about one.
#[derive(Debug)]
pub(crate) enum Verdict<'a> {
    /// It is refused with this error.
    Refused(&'a str),
    /// It goes to the server as it came.
    PassedOn,
    /// The same, as long as the keys are what was found.
    PassedOnIf,
    /// These commands are for the server; the reply to the one at this index is the answer.
    OnScratch(Commands, usize),
    /// A value that was left unread must be read: HyperLogLogs are strings of their own form.
    NeedsBytes,
    /// A value can't be decoded: the error.
    Undecodable(String),
}

const CANNOT_WAIT: &str =
    "ERR keyfold: keys like the one that this gives to are being moved, so it can't wait; use LMOVE until that is over";

const FOLDED_HYPERLOGLOG: &str =
    "ERR keyfold: HyperLogLog commands are not supported on folded keys; keep them under other names";

impl OnOtherType {
    /// Says what is to be done, where `space` holds the folded keys. The scratch names begin with `scratch`.
    pub(crate) fn judge(&self, args: &[Vec<u8>], space: &Space, scratch: &[u8], moment: Moment<'_>) -> Verdict<'_> {
        let mut named = Vec::new();
        let mut shown: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let mut commands = Commands::default();
        let mut scratches: Vec<Vec<u8>> = Vec::new();
        let mut is_any_there = false;
        for index in &self.folded {
            let name = scratch_name(scratch, scratches.len());
            let value = match args.get(*index).map(|key| space.held(key)) {
                Some(Held::String(entry)) => entry.value.as_slice(),
                Some(Held::Collection(Collected { collection, .. })) => {
                    is_any_there = true;
                    commands.push(&[b"DEL", &name]);
                    native_collection::add(&name, collection, |args| commands.push(args));
                    scratches.push(name);
                    named.push(*index);
                    continue;
                }
                Some(Held::Unread(Unread { why: WhyUnread::Undecodable(error), .. })) => {
                    return Verdict::Undecodable(error.clone());
                }
                Some(Held::Unread(_)) if args[0].get(..2).is_some_and(|name| name.eq_ignore_ascii_case(b"pf")) => {
                    return Verdict::NeedsBytes;
                }
                // Every other command only finds that the key is a string; which one makes no difference.
                Some(Held::Unread(_)) => b"",
                Some(Held::Nothing) if moment.shows_what_is_not_there() => {
                    scratches.push(name);
                    named.push(*index);
                    continue;
                }
                Some(Held::Nothing | Held::Other(_)) | None => continue,
            };
            is_any_there = true;
            if self.writes_hyperloglog && value.starts_with(b"HYLL") {
                return Verdict::Refused(FOLDED_HYPERLOGLOG);
            }
            commands.push(&[b"SET", &name, value]);
            scratches.push(name);
            named.push(*index);
        }
        let of_another_type =
            |index: &usize| args.get(*index).is_some_and(|key| matches!(space.held(key), Held::Other(_)));
        if !is_any_there && self.folded.iter().any(of_another_type) {
            // While keys are moved, one of another type stays where it was.
            return Verdict::PassedOnIf;
        }
        match &self.refusal {
            Some(refusal) if !is_any_there => return Verdict::Refused(refusal),
            None if scratches.is_empty() => return Verdict::PassedOn,
            _ => {}
        }
        for (index, name) in named.iter().zip(&scratches) {
            shown[*index] = name;
        }
        if let Moment::Guarded(guard) = moment {
            commands.push_bytes(guard);
        }
        let answer_at = commands.count() as usize;
        commands.push_passed(&shown);
        for name in &scratches {
            commands.push(&[b"DEL", name]);
        }
        Verdict::OnScratch(commands, answer_at)
    }
}

/// The scratch name of the folded key at this place among those that have one.
fn scratch_name(scratch: &[u8], at: usize) -> Vec<u8> {
    [scratch, (at + 1).to_string().as_bytes()].concat()
}

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct Foreign {
    protocol: Protocol,
    args: Vec<Vec<u8>>,
    foreign: OnOtherType,
    load: Load,
    phase: Phase,
    attempts: u32,
}

#[derive(Debug)]
enum Phase {
    Loading,
    /// The server answers the command.
    PassedOn(PassedOn),
    /// The server answers; which of the replies counts.
    Asking(Batch, usize),
}

impl Foreign {
    /// Reads the folded keys; with the number of replies to come.
    pub(crate) fn start<'a>(
        args: &[&[u8]],
        keys: impl Iterator<Item = (&'a [u8], Located)>,
        foreign: &OnOtherType,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let mut load = Load::located(env, keys).sparing();
        let replies = load.send(wire);
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        (Self { protocol, args, foreign: foreign.clone(), load, phase: Phase::Loading, attempts: 0 }, replies)
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        match &mut self.phase {
            Phase::Loading => match self.load.handle_reply(reply, env, io.wire) {
                Loading::Wait => Step::Wait,
                Loading::More(replies) => Step::More(replies),
                Loading::Failed(refusal) => refusal.end(io),
                Loading::Ready => self.loaded(env, io),
            },
            Phase::PassedOn(passed) => match passed.handle_reply(reply, &self.args, io) {
                Some(step) => step,
                None => self.begin_again(io),
            },
            Phase::Asking(batch, answer_at) => match batch.handle_reply(reply) {
                None => Step::Wait,
                Some(Err(refusal)) => refusal.end(io),
                Some(Ok(replies)) => {
                    let answer = replies.get(*answer_at).map_or(&[][..], Vec::as_slice);
                    // What is answered otherwise didn't depend on what has changed.
                    let has_changed = answer.starts_with(b"-")
                        && self.foreign.writes_by_several
                        && replies.get(*answer_at - 1).is_some_and(|guard| guard == b":0\r\n");
                    if has_changed { self.begin_again(io) } else { done(io, answer) }
                }
            },
        }
    }

    /// Whether it went to the server as it came.
    pub(crate) fn is_passed_on(&self) -> bool {
        matches!(self.phase, Phase::PassedOn(passed) if passed.is_free())
    }

    fn loaded(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let mut space = Space::new(env.now_ms);
        self.load.fill(&mut space);
        let first = self.foreign.folded.first().and_then(|index| self.args.get(*index));
        let scratch = scratch_key(first.map_or(&[], Vec::as_slice));
        let guard = self.foreign.writes_by_several.then(|| {
            let mut guard = CompareAndSet::default();
            guard.name_key(&scratch_name(&scratch, 0));
            store::check_all(&mut guard, self.load.keys(), space.now_ms());
            guard.with_otherwise(Otherwise::MakeString)
        });
        let moment = guard.as_deref().map_or(Moment::AsRead, Moment::Guarded);
        let (commands, answer_at) = match self.foreign.judge(&self.args, &space, &scratch, moment) {
            Verdict::Refused(error) => return fail(io, self.protocol, error),
            Verdict::Undecodable(error) => return fail(io, self.protocol, &error),
            Verdict::NeedsBytes => return Step::More(self.load.send_rest(io.wire)),
            Verdict::PassedOnIf if self.foreign.waits_to_give => return fail(io, self.protocol, CANNOT_WAIT),
            Verdict::PassedOnIf => {
                let (keys, now_ms) = (self.load.keys(), space.now_ms());
                let passed = PassedOn::if_as_read(&self.args, keys, now_ms, self.protocol, env, io.wire);
                self.phase = Phase::PassedOn(passed);
                return Step::More(1);
            }
            Verdict::PassedOn => {
                self.phase = Phase::PassedOn(PassedOn::freely(&self.args, io.wire));
                return Step::More(1);
            }
            Verdict::OnScratch(commands, answer_at) => (commands, answer_at),
        };
        let (batch, replies) = Batch::send_atomic(&commands, io.wire);
        self.phase = Phase::Asking(batch, answer_at);
        Step::More(replies)
    }

    /// The first of its keys, where it has had to begin again.
    pub(crate) fn contended_key(&self) -> Option<&[u8]> {
        self.load.keys().first().filter(|_| self.attempts > 0).map(|key| &key.logical[..])
    }

    fn begin_again(&mut self, io: &mut Io<'_>) -> Step {
        self.attempts += 1;
        if self.attempts == MAX_ATTEMPTS {
            return fail(io, self.protocol, WORN_OUT);
        }
        self.phase = Phase::Loading;
        Step::More(self.load.send(io.wire))
    }
}
