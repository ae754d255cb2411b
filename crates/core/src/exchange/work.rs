//! Any string command on any mix of folded and plain keys: read, work out, compare and set; again where
//! another client was quicker.
//!
//! Large spilled values are left in the server. A command that needs the bytes of one is carried out there, where the
//! server can do that; else they are read after all.

use std::mem;

use crate::admin::scratch_key;
use crate::command::{self, Flags};
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::in_place::{InPlace, Outcome};
use crate::exchange::load::{Load, Loading};
use crate::exchange::parts::{self, Asker, PartsCall};
use crate::exchange::passed_on::PassedOn;
use crate::exchange::script::CompareAndSet;
use crate::exchange::{Effect, Env, Io, Step, done, fail, in_place, native_collection, script, store};
use crate::layout::Located;
use crate::notify::Notices;
use crate::resp::{Answer, Protocol, Reply, Texts};
use crate::string::{self, Call, Halt, Held, HelpRequest, Run, Space, finish};
use crate::user_script::reply_of_one_command;

/// How often a command is worked out again before it gives up. Every conflict is another client's success,
/// so that only a storm on one key gets here.
pub(crate) const MAX_ATTEMPTS: u32 = 1000;

/// What is answered then.
pub(crate) const WORN_OUT: &str =
    "ERR keyfold: other clients changed the key each time this command was worked out; nothing was written, try again";

/// No value grows beyond this here: the server makes it, under a spill's name.
pub(crate) const GROWTH_LIMIT_BYTES: usize = 1 << 20;

/// A string command under way.
#[derive(Debug)]
pub(crate) struct Work {
    args: Vec<Vec<u8>>,
    run: Run,
    protocol: Protocol,
    load: Load,
    space: Space,
    phase: Phase,
    /// The keys were taken for absent, and not read yet.
    guessed: bool,
    attempts: u32,
    /// A server that is out of memory was asked again, as it would carry the command out on a plain key.
    is_let_through: bool,
    /// What is published of what it does.
    notices: Option<Notices>,
}

#[derive(Debug)]
enum Phase {
    Loading,
    Asking(Batch),
    Writing {
        writes: CompareAndSet,
        answer: Vec<u8>,
    },
    /// The server works on the value where it lies.
    InPlace(InPlace),
    /// The script works on members in their parts.
    InParts(Box<PartsCall>),
    /// Replies that count for nothing are outstanding; then this is the answer, or it begins again.
    Clearing(Option<Vec<u8>>),
    /// The server answers itself.
    PassedOn(PassedOn),
    /// The server answers itself, if the key's members still lie under its own name.
    ByServer,
}

/// How a command on a collection in parts is answered.
enum InParts {
    /// By its header.
    Count(i64),
    /// By the script, which was called.
    Sent(Box<PartsCall>),
}

impl Work {
    /// Starts a command on these keys; with the number of replies to come.
    pub(crate) fn start<'a>(
        run: Run,
        args: &[&[u8]],
        keys: impl Iterator<Item = (&'a [u8], Located)>,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        Self::start_by(
            Load::located(env, keys).sparing().sparing_parts().sparing_own(args),
            run,
            args,
            protocol,
            env,
            wire,
        )
    }

    /// The same where a key is a set or hash: others are read with their members too.
    pub(crate) fn start_on_collections<'a>(
        run: Run,
        args: &[&[u8]],
        keys: impl Iterator<Item = (&'a [u8], Located)>,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let load = Load::located(env, keys).with_members().sparing_parts().sparing_own(args);
        Self::start_by(load, run, args, protocol, env, wire)
    }

    fn start_by(
        mut load: Load,
        run: Run,
        args: &[&[u8]],
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let replies = load.send(wire);
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        let space = Space::new(env.now_ms);
        (
            Self {
                args,
                run,
                protocol,
                load,
                space,
                phase: Phase::Loading,
                guessed: false,
                attempts: 0,
                is_let_through: false,
                notices: None,
            },
            replies,
        )
    }

    /// The same, where what it does is published.
    pub(crate) fn publishing(self, notices: Option<Notices>) -> Self {
        Self { notices, ..self }
    }

    /// Starts a command that mostly finds none of its keys there, such as MSETNX: what it does then is written if that is
    /// so, in one round trip, and else it is worked out by what is there. None where it would write nothing.
    pub(crate) fn start_on_nothing<'a>(
        run: Run,
        args: &[&[u8]],
        keys: impl Iterator<Item = (&'a [u8], Located)>,
        protocol: Protocol,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Option<(Self, u32)> {
        let load = Load::located(env, keys).sparing();
        let (mut space, mut answer) = (Space::new(env.now_ms), Vec::new());
        let call = Call { args, dialect: env.dialect() };
        run(&call, &mut space, &mut Answer::new(&mut answer, protocol)).ok()?;
        let writes = store::plan_writes(env, load.keys(), &space, None).ok().filter(|writes| !writes.is_empty())?;
        writes.send(wire);
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        let phase = Phase::Writing { writes, answer };
        Some((
            Self {
                args,
                run,
                protocol,
                load,
                space,
                phase,
                guessed: true,
                attempts: 0,
                is_let_through: false,
                notices: None,
            },
            1,
        ))
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        match &mut self.phase {
            Phase::Loading => {
                let loading = self.load.handle_reply(reply, env, io.wire);
                self.go_on(loading, env, io)
            }
            Phase::Asking(batch) => match batch.handle_reply(reply) {
                None => Step::Wait,
                Some(Err(refusal)) => refusal.end(io),
                Some(Ok(replies)) => {
                    self.space.answer_ask(replies.iter().map(|raw| read_help(raw)).collect());
                    self.work_out(env, io)
                }
            },
            Phase::Writing { writes, answer } => match Reply::parse(reply) {
                Ok(Reply::Integer(1)) => {
                    io.answer.append(answer);
                    Step::Done(Effect::None)
                }
                Ok(Reply::Integer(_)) if mem::take(&mut self.guessed) => {
                    self.phase = Phase::Loading;
                    Step::More(self.load.send(io.wire))
                }
                Ok(Reply::Integer(_)) => self.begin_again(env, io),
                Ok(Reply::Error(error)) if error.starts_with(b"NOSCRIPT") => {
                    writes.send_with_text(io.wire);
                    Step::More(1)
                }
                Ok(Reply::Error(_)) => {
                    let error = script::without_place(reply);
                    // Such a command only makes less of what keyfold writes anew, or gives it another expiry.
                    let is_let_through = error.starts_with(b"-OOM ")
                        && !takes_memory(&self.args[0])
                        && !mem::replace(&mut self.is_let_through, true)
                        && writes.take_no_memory(&self.load.scratch_key());
                    if !is_let_through {
                        return done(io, &error);
                    }
                    writes.send(io.wire);
                    Step::More(1)
                }
                _ => Step::Unexpected,
            },
            Phase::InPlace(in_place) => {
                let Some(outcome) = in_place.handle_reply(reply, io.wire) else { return Step::Wait };
                self.worked_in_place(outcome, env, io)
            }
            Phase::InParts(call) => match call.handle_reply(reply, env, io) {
                Some(step) => step,
                None => self.read_all(io),
            },
            Phase::Clearing(answer) => match answer.take() {
                Some(answer) => done(io, &answer),
                None => self.begin_again(env, io),
            },
            Phase::PassedOn(passed) => match passed.handle_reply(reply, &self.args, io) {
                Some(step) => step,
                None => self.begin_again(env, io),
            },
            Phase::ByServer if reply == native_collection::NOT_THERE => self.begin_again(env, io),
            Phase::ByServer => {
                let reply = script::without_place(reply);
                done(io, &reply_of_one_command(&self.args, self.protocol, &reply))
            }
        }
    }

    /// Begins to answer with a reply that has begun to come, where it is to be handed on in pieces.
    pub(crate) fn begin_flow(&self, input: &[u8], out: &mut Vec<u8>) -> Option<Texts> {
        let Phase::InParts(call) = &self.phase else { return None };
        call.begin_flow(input, out)
    }

    /// Whether it went to the server as it came.
    pub(crate) fn is_passed_on(&self) -> bool {
        match self.phase {
            Phase::PassedOn(passed) => passed.is_free(),
            Phase::ByServer => true,
            _ => false,
        }
    }

    /// The first of its keys, where it has had to begin again.
    pub(crate) fn contended_key(&self) -> Option<&[u8]> {
        self.load.keys().first().filter(|_| self.attempts > 0).map(|key| &key.logical[..])
    }

    /// Goes on from the replies to the commands that [`Self::start`] wrote, which somebody else has sent.
    pub(crate) fn take_replies(&mut self, replies: &[Vec<u8>], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let loading = self.load.take_replies(replies, env, io.wire);
        self.go_on(loading, env, io)
    }

    fn go_on(&mut self, loading: Loading, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        match loading {
            Loading::Wait => Step::Wait,
            Loading::More(replies) => Step::More(replies),
            Loading::Failed(refusal) => refusal.end(io),
            Loading::Ready => self.loaded(env, io),
        }
    }

    fn loaded(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        self.space = self.empty_space(env).bounded(GROWTH_LIMIT_BYTES).seeded((env.nonces)());
        self.load.fill(&mut self.space);
        match self.in_parts(env, io.wire) {
            Some(InParts::Count(count)) => {
                Answer::new(io.answer, self.protocol).integer(count);
                Step::Done(Effect::None)
            }
            Some(InParts::Sent(call)) => {
                self.phase = Phase::InParts(call);
                Step::More(1)
            }
            None => self.work_out(env, io),
        }
    }

    /// What answers a command on the members of one collection in parts without reading it whole; none where there is no such way.
    fn in_parts(&self, env: &mut Env<'_>, wire: &mut Vec<u8>) -> Option<InParts> {
        let [key] = self.load.keys() else { return None };
        let mut stored = key.spots().iter().enumerate().filter(|(_, spot)| spot.is_stored());
        let (Some((at, spot)), None) = (stored.next(), stored.next()) else { return None };
        let (header, nonce) = (spot.unread_header()?, spot.parts()?);
        if !key.is_moving() {
            env.stats.in_parts().note(&key.logical, nonce, header.seed);
        }
        // What has expired is worked out.
        if !matches!(self.space.held(&key.logical), Held::Unread(_)) {
            return None;
        }
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        parts::count_of(&args, &header).map(InParts::Count).or_else(|| {
            let asker = Asker { protocol: self.protocol, notices: self.notices, is_in_former_place: at > 0 };
            PartsCall::start(&args, spot.bucket()?, nonce, spot.stored()?, asker, env, wire)
                .map(|call| InParts::Sent(Box::new(call)))
        })
    }

    fn work_out(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        if let Some((key, kind, most)) = self.load.unread_own() {
            // While keys are moved, one of many members is the server's affair as long as it is where it was.
            let (name, wire) = (&key.logical, &mut *io.wire);
            if native_collection::send_command(name, (kind, most), &args, env, wire).is_some() {
                self.phase = Phase::ByServer;
                return Step::More(1);
            }
            if let Some(replies) = self.load.send_with_own(io.wire) {
                self.phase = Phase::Loading;
                return Step::More(replies);
            }
        }
        let mut out = Vec::new();
        let mut answer = Answer::new(&mut out, self.protocol);
        let flow = (self.run)(&Call { args: &args, dialect: env.dialect() }, &mut self.space, &mut answer);
        if matches!(flow, Err(Halt::OtherType(_)))
            && let [key] = self.load.keys()
            && key.is_moving()
        {
            // While keys are moved, one of another type stays where it was, under its own name.
            let (keys, now_ms) = (self.load.keys(), self.space.now_ms());
            let passed = PassedOn::if_as_read(&self.args, keys, now_ms, self.protocol, env, io.wire);
            self.phase = Phase::PassedOn(passed);
            return Step::More(1);
        }
        if flow == Err(Halt::Large) {
            return self.work_elsewhere(env, io);
        }
        if let Err(ask) = finish(flow, &mut answer) {
            let (batch, replies) = Batch::send_atomic(&ask_commands(&ask, &scratch_key(args[1])), io.wire);
            self.phase = Phase::Asking(batch);
            return Step::More(replies);
        }
        if store::needs_all_bytes(self.load.keys(), &self.space) {
            return self.read_all(io);
        }
        match store::plan_writes(env, self.load.keys(), &self.space, self.notices) {
            Err(message) => fail(io, self.protocol, &message),
            Ok(writes) if writes.is_empty() && !self.load.is_of_moments() => done(io, &out),
            Ok(mut writes) => {
                if writes.is_empty() {
                    store::check_all(&mut writes, self.load.keys(), self.space.now_ms());
                } else if takes_memory(args[0]) {
                    writes.take_memory(&self.load.scratch_key());
                }
                writes.send(io.wire);
                self.phase = Phase::Writing { writes, answer: mem::take(&mut out) };
                Step::More(1)
            }
        }
    }

    /// The command works on more bytes than are read here: the server does it, or they are read after all.
    fn work_elsewhere(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        // Of what the server writes in place it isn't known beforehand what is to be published.
        let may_go = self.notices.is_none() || !in_place::writes(args[0]);
        if let [key] = self.load.keys()
            && may_go
            && let Some((in_place, replies)) = InPlace::start(&args, key, self.space.held(&key.logical), env, io.wire)
        {
            self.phase = Phase::InPlace(in_place);
            return Step::More(replies);
        }
        if self.load.left_any_unread() {
            return self.read_all(io);
        }
        // Several keys, or one that is being moved: what the client asks for is made here.
        self.space = self.empty_space(env);
        self.load.fill(&mut self.space);
        self.work_out(env, io)
    }

    fn empty_space(&self, env: &Env<'_>) -> Space {
        Space::new(env.now_ms).noting_events(self.notices.is_some())
    }

    fn read_all(&mut self, io: &mut Io<'_>) -> Step {
        self.phase = Phase::Loading;
        Step::More(self.load.send_rest(io.wire))
    }

    fn worked_in_place(&mut self, outcome: Outcome, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        match outcome {
            Outcome::Answer(answer) | Outcome::Failed(answer, 0) => done(io, &answer),
            Outcome::Unexpected => Step::Unexpected,
            Outcome::Changed(0) => self.begin_again(env, io),
            Outcome::Changed(replies) => self.clear(None, replies),
            Outcome::Failed(error, replies) => self.clear(Some(error), replies),
        }
    }

    /// Waits for the one reply that counts for nothing.
    fn clear(&mut self, answer: Option<Vec<u8>>, replies: u32) -> Step {
        self.phase = Phase::Clearing(answer);
        Step::More(replies)
    }

    fn begin_again(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        for key in self.load.keys() {
            if let Some(place) = key.place() {
                env.stats.namespace(place.namespace).count_conflict();
            }
        }
        self.is_let_through = false;
        self.attempts += 1;
        if self.attempts == MAX_ATTEMPTS {
            return fail(io, self.protocol, WORN_OUT);
        }
        self.phase = Phase::Loading;
        Step::More(self.load.send(io.wire))
    }
}

/// Whether a server that is out of memory refuses a command on a plain key.
pub(crate) fn takes_memory(name: &[u8]) -> bool {
    command::table().lookup(name).is_none_or(|command| command.flags.contains(Flags::DENYOOM))
}

/// The commands of an ask, on this scratch key; it is the first argument of each.
pub(crate) fn ask_commands(ask: &HelpRequest, scratch: &[u8]) -> Commands {
    let mut commands = Commands::default();
    for command in &ask.commands {
        let mut args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        args[1] = scratch;
        commands.push(&args);
    }
    commands
}

/// A reply to an ask, as the string functions take it.
pub(crate) fn read_help(raw: &[u8]) -> string::Reply {
    Reply::parse(raw).map_or(string::Reply::Nil, help_of)
}

fn help_of(reply: Reply<'_>) -> string::Reply {
    match reply {
        Reply::Nil => string::Reply::Nil,
        Reply::Bulk(bytes) | Reply::Simple(bytes) => string::Reply::Bytes(bytes.to_vec()),
        Reply::Integer(number) => string::Reply::Integer(number),
        Reply::Error(message) => string::Reply::Error(String::from_utf8_lossy(message).into_owned()),
        Reply::Array(parts) | Reply::Map(parts) => string::Reply::List(parts.map(help_of).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_with_all_that_is_in_them() {
        let bytes = |text: &str| string::Reply::Bytes(text.as_bytes().to_vec());
        let pairs = string::Reply::List(vec![bytes("a"), bytes("1")]);
        for (raw, reply) in [
            ("*2\r\n$1\r\na\r\n$1\r\n1\r\n", pairs.clone()),
            ("~2\r\n$1\r\na\r\n$1\r\n1\r\n", pairs.clone()),
            ("%1\r\n$1\r\na\r\n$1\r\n1\r\n", pairs.clone()),
            ("*2\r\n:-1\r\n*0\r\n", string::Reply::List(vec![string::Reply::Integer(-1), string::Reply::List(vec![])])),
            ("*-1\r\n", string::Reply::Nil),
            ("+set\r\n", bytes("set")),
            ("-ERR no\r\n", string::Reply::Error("ERR no".to_owned())),
        ] {
            assert_eq!(read_help(raw.as_bytes()), reply, "{raw:?}");
        }
    }
}
