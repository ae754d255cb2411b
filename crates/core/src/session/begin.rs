//! Starts a request whose plan has been met.

use std::sync::Arc;

use crate::admin::{COPY_KEY, DICTIONARIES_KEY, LAYOUT_KEY};
use crate::command::{Command, Id};
use crate::exchange::overview::Overview;
use crate::exchange::pieces::Pieces;
use crate::exchange::probe::{Probe, WhenKnown};
use crate::exchange::transaction::{Queued, Transaction};
use crate::exchange::watch::Watch;
use crate::exchange::{
    Configure, Copy, Env, Exchange, FieldCall, FieldWrite, Foreign, FunctionCall, Io, Look, LookAtMany, NativeFirst,
    PartsAttempt, PartsCall, ReplyKind, ScriptsExist, SharedCall, ShowSettings, UnderWay, UserCall, Work,
    ask_why_refused, asks_own_configuration, increment, info, keyspace, listing, native, sets_configuration, wait,
};
use crate::layout::{Located, Place};
use crate::notify::Notices;
use crate::resp::{Answer, write_command};
use crate::session::client_command::ReplyMode;
use crate::session::command_command::answer_keys;
use crate::session::hello::WRONG_PASSWORD;
use crate::session::places::Places;
use crate::session::queue::Queue;
use crate::session::route::{Effort, FoldedCommand, Route};
use crate::session::{Begun, Hold, Lane, Plan, Session};
use crate::slot::Slot;
use crate::string::{CopyCommand, Run, SetCommand, SetForm};

/// The answer to EXEC where a command was refused when it was to be queued.
const SPOILT: &str = "EXECABORT Transaction discarded because of previous errors.";

const FLUSH: &[u8] = include_bytes!("../exchange/flush.lua");

/// A request, and as it came where it was an array; an inline command has no such bytes.
#[derive(Clone, Copy)]
struct Request<'a> {
    args: &'a [&'a [u8]],
    raw: Option<&'a [u8]>,
}

impl Request<'_> {
    /// Sends it as it is.
    fn pass_on(self, io: &mut Io<'_>) {
        match self.raw {
            Some(raw) => io.wire.extend_from_slice(raw),
            None => write_command(io.wire, self.args),
        }
    }
}

/// How a request that was sent goes on.
fn sent(under_way: UnderWay, replies: u32, hold: Hold) -> Begun {
    Begun::Sent { exchange: Exchange(under_way), replies, hold }
}

/// What the script on fields is asked for by a request that may be sent in one call with another, be it one that would go another
/// way alone.
fn field_call(command: FoldedCommand, place: &Place, args: &[&[u8]], env: &Env<'_>) -> Option<FieldCall> {
    FieldCall::of(command.id, args, place, env).filter(FieldCall::may_follow)
}

/// Ends the watch of the client, who then gets this answer.
fn unwatch(answer: Vec<u8>, io: &mut Io<'_>) -> Begun {
    write_command(io.wire, &[b"UNWATCH"]);
    sent(UnderWay::Unwatch { answer }, 1, Hold::All)
}

impl Session {
    /// Starts a request whose plan has been met. `raw` is the request as it came, where it was an array;
    /// none for an inline command.
    pub fn begin(
        &mut self,
        plan: &Plan,
        args: &[&[u8]],
        raw: Option<&[u8]>,
        env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Begun {
        self.note_begin(plan, args, env);
        let start = io.answer.len();
        let following = plan.follows.and_then(|(_, script)| self.begin_call(script, &plan.route, args, env, io));
        let mut begun = match following {
            Some(begun) => begun,
            None => self.begin_route(&plan.route, Request { args, raw }, env, io),
        };
        if self.reply_mode != ReplyMode::On {
            begun = self.silence(begun, start, io);
        }
        self.end_caching(plan.command);
        self.entry().note_begun(&self.state(plan.patience.blocks()));
        begun
    }

    fn note_begin(&mut self, plan: &Plan, args: &[&[u8]], env: &Env<'_>) {
        if plan.lane != Lane::Local {
            self.lane = plan.lane;
            self.expects_large = self.expects_large.saturating_sub(1);
        }
        self.entry().note_request(plan.command, env.now_ms);
        if !plan.route.is_refusal() {
            self.note_script(plan.command, args, env);
        }
        plan.count_touched(args, env);
        self.show_to_monitors(plan, args, env.now_ms);
        if plan.route.is_refusal()
            && let Some(command) = plan.command
        {
            self.note_denied(command, args, env);
        }
    }

    /// Notes that a request begins which several nodes carry out; whether the client wants no answer to it.
    pub(crate) fn begin_parts(&mut self, plan: &Plan, args: &[&[u8]], env: &Env<'_>) -> bool {
        self.note_begin(plan, args, env);
        self.end_caching(plan.command);
        self.entry().note_begun(&self.state(plan.patience.blocks()));
        let is_silent = self.reply_mode != ReplyMode::On;
        if self.reply_mode == ReplyMode::Skip {
            self.reply_mode = ReplyMode::On;
        }
        is_silent
    }

    /// Starts one of its parts, a request of its own; for a node that hasn't keyfold's own keys where
    /// `is_away_from_home`. Where it goes to each of several nodes, `slot` is one of that node's.
    pub(crate) fn begin_part(
        &mut self,
        args: &[&[u8]],
        is_away_from_home: bool,
        slot: Option<Slot>,
        env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Begun {
        let request = Request { args, raw: None };
        match self.route(request.args, env, &mut Effort::default()).1 {
            Route::Keyspace(Id::Flushall | Id::Flushdb) if is_away_from_home => {
                request.pass_on(io);
                sent(UnderWay::Flush, 1, Hold::All)
            }
            Route::OnOwnLane(Id::Wait | Id::Waitaof) if let Some(slot) = slot => {
                let announced = wait::announce_in(slot, io.wire);
                request.pass_on(io);
                sent(UnderWay::Wait { announced }, 2, Hold::All)
            }
            route => self.begin_route(&route, request, env, io),
        }
    }

    /// Keeps the answer from a client that wants none, by CLIENT REPLY.
    fn silence(&mut self, begun: Begun, start: usize, io: &mut Io<'_>) -> Begun {
        if self.reply_mode == ReplyMode::SkipNext {
            // This was the CLIENT REPLY SKIP itself, which has no answer.
            self.reply_mode = ReplyMode::Skip;
            return begun;
        }
        if self.reply_mode == ReplyMode::Skip {
            self.reply_mode = ReplyMode::On;
        }
        match begun {
            Begun::Sent { exchange, replies, hold } => {
                Begun::Sent { exchange: Exchange(UnderWay::Silent(Box::new(exchange))), replies, hold }
            }
            other => {
                io.answer.truncate(start);
                other
            }
        }
    }

    /// What is published of what the client writes; none where the server has nothing of it published.
    pub(super) fn notices(&self) -> Option<Notices> {
        self.joined.clients().notifications().in_database(self.database)
    }

    fn begin_route(&mut self, route: &Route, request: Request<'_>, env: &mut Env<'_>, io: &mut Io<'_>) -> Begun {
        let (protocol, args) = (self.protocol, request.args);
        match route {
            Route::One { command, place } => self.begin_one(*command, place, args, env, io),
            Route::PassOn if sets_configuration(args) => {
                request.pass_on(io);
                let configure = Configure::start(Arc::clone(self.joined.clients()), args, io.wire);
                sent(UnderWay::Configure(configure), 2, Hold::All)
            }
            Route::PassOn if asks_own_configuration(args) => {
                request.pass_on(io);
                let show = ShowSettings { slow: Arc::clone(self.slow()), protocol };
                sent(UnderWay::ShowSettings(show), 1, Hold::Nothing)
            }
            Route::PassOn | Route::Kill | Route::Select { database: None } => {
                request.pass_on(io);
                sent(UnderWay::PassOn, 1, Hold::Nothing)
            }
            Route::Rewrite(places) => {
                write_command(io.wire, &places.renamed(args));
                sent(UnderWay::PassOn, 1, Hold::Nothing)
            }
            Route::Many { command, places } => self.begin_many(*command, places, args, env, io),
            Route::Script { command, script, places } => {
                let (for_cache, keys) = (self.reads_for_cache(), places.of(args));
                let Some(script) = script else {
                    let functions = self.joined.clients().functions();
                    let notices = self.notices();
                    let (call, replies) =
                        FunctionCall::start(*command, args, keys, functions, for_cache, notices, env, io.wire);
                    return sent(UnderWay::FunctionCall(Box::new(call)), replies, Hold::All);
                };
                let also = Vec::new();
                let (call, replies) = UserCall::start(*command, args, keys, script, also, for_cache, env, io.wire);
                sent(UnderWay::UserCall(Box::new(call)), replies, Hold::All)
            }
            Route::ScriptsExist => {
                request.pass_on(io);
                let exist = ScriptsExist { known: self.known_scripts(args) };
                sent(UnderWay::ScriptsExist(exist), 1, Hold::Nothing)
            }
            Route::LaterCommands(command) => {
                request.pass_on(io);
                let asked = self.asked_of_commands(args, *command, env.dialect());
                let exchange = asked.map_or(UnderWay::PassOn, |asked| UnderWay::LaterCommands(Box::new(asked)));
                sent(exchange, 1, Hold::Nothing)
            }
            Route::Foreign { foreign, places } => {
                let (foreign, replies) = Foreign::start(args, places.folded_of(args), foreign, protocol, env, io.wire);
                sent(UnderWay::Foreign(Box::new(foreign)), replies, Hold::All)
            }
            Route::Error { message, spoils } => {
                self.queue.iter_mut().for_each(|queue| queue.spoilt |= spoils);
                Answer::new(io.answer, protocol).error(message);
                Begun::Answered
            }
            Route::Unknown(answer) => {
                self.queue.iter_mut().for_each(|queue| queue.spoilt = true);
                io.answer.extend_from_slice(answer);
                Begun::Answered
            }
            Route::HangUp => Begun::Close,
            Route::Local(command) => self.begin_local(command, args, env, io),
            Route::Queue(queued) => self.enqueue(queued.clone(), io),
            Route::Probe { refusal } => self.begin_probe(args, refusal.clone(), io),
            Route::AbortExec { message, own } => {
                self.queue = None;
                let answer = format!("-{message}\r\n").into_bytes();
                if !own {
                    io.answer.extend(answer);
                    return Begun::Answered;
                }
                unwatch(answer, io)
            }
            Route::Hello(hello) => self.hello(hello.clone(), io),
            Route::NotLetIn(name) => {
                self.note_not_let_in(args[0], name, env);
                Answer::new(io.answer, protocol).error(WRONG_PASSWORD);
                Begun::Answered
            }
            Route::Keyspace(command) => match self.begin_over_slots(*command, args, env, io) {
                Some(begun) => begun,
                None => self.begin_keyspace(*command, request, env, io),
            },
            Route::OnOwnLane(command) => self.begin_on_own_lane(*command, request, env, io),
            Route::Select { database: Some(database) } => self.begin_select(*database, args, io),
            Route::Exec { .. } => self.begin_exec(env, io),
            Route::Unblock { connection, reason, .. } => {
                write_command(io.wire, &[b"CLIENT", b"UNBLOCK", connection.to_string().as_bytes(), reason.as_bytes()]);
                sent(UnderWay::PassOn, 1, Hold::Nothing)
            }
        }
    }

    /// What needs the client's own connection to the server.
    fn begin_on_own_lane(&mut self, command: Id, request: Request<'_>, env: &Env<'_>, io: &mut Io<'_>) -> Begun {
        match command {
            Id::Watch => {
                let watch = Watch::start(&request.args[1..], env, io.wire);
                sent(UnderWay::Watch(Box::new(watch)), 1, Hold::All)
            }
            Id::Unwatch => {
                self.queue = None;
                unwatch(b"+OK\r\n".to_vec(), io)
            }
            Id::Reset => {
                request.pass_on(io);
                sent(UnderWay::Reset, 1, Hold::All)
            }
            Id::Wait | Id::Waitaof => {
                let announced = wait::announce(env.server, io.wire);
                request.pass_on(io);
                sent(UnderWay::Wait { announced }, 2, Hold::All)
            }
            _ => {
                request.pass_on(io);
                self.subscriptions.begin(command, &request.args[1..]);
                Begun::Pushes
            }
        }
    }

    /// A string command on one key in a bucket.
    fn begin_one(
        &mut self,
        command: FoldedCommand,
        place: &Place,
        args: &[&[u8]],
        env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Begun {
        let (protocol, run) = (self.protocol, command.run);
        if let Some(notices) = self.notices().filter(|_| command.writes) {
            let (work, replies) = Work::start(run, args, only_key(args, place), protocol, env, io.wire);
            return sent(UnderWay::Work(Box::new(work.publishing(Some(notices)))), replies, command.hold());
        }
        if place.kind.collection().is_some()
            && !env.is_read
            && self.may_leave_header(command)
            && let Some(nonce) = env.stats.in_parts().nonce(args[1])
            && let Some(begun) = self.begin_in_parts(run, place, nonce, args, env, io)
        {
            return begun;
        }
        match command.id {
            Id::Get => {
                return sent(UnderWay::Get(native::Get::start(args[1], place, protocol, io.wire)), 1, Hold::Nothing);
            }
            Id::Del | Id::Unlink => return begin_delete(args[0], only_key(args, place), env, io),
            Id::Incr | Id::Decr | Id::Incrby | Id::Decrby
                if place.kind.is_field() && !env.stats.namespace(place.namespace).has_framed_counters() =>
            {
                if let Some(by) = increment(args) {
                    let attempt = NativeFirst::increment(args, run, place, by, protocol, io.wire);
                    return sent(UnderWay::NativeFirst(Box::new(attempt)), 1, Hold::SameKeys);
                }
            }
            id => {
                if let Some(form) = set_form(id)
                    && let Some(begun) = self.begin_set(form, run, place, args, env, io)
                {
                    return begun;
                }
            }
        }
        if let Some(call) = FieldCall::of(command.id, args, place, env) {
            let write = FieldWrite::start(call, args, run, place, protocol, env, io.wire);
            return sent(UnderWay::FieldWrite(Box::new(write)), 1, Hold::SameKeys);
        }
        if !command.writes && Look::may_take(place) {
            let look = Look::start((command.id, run), args, place, protocol, io.wire);
            return sent(UnderWay::Look(Box::new(look)), 1, Hold::Nothing);
        }
        let (work, replies) = Work::start(run, args, only_key(args, place), protocol, env, io.wire);
        sent(UnderWay::Work(Box::new(work)), replies, command.hold())
    }

    /// Begins a call on the parts of a key that have this nonce; none where it has to be looked at first.
    fn begin_in_parts(
        &self,
        run: Run,
        place: &Place,
        nonce: u64,
        args: &[&[u8]],
        env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Option<Begun> {
        let attempt = PartsAttempt::start(run, args, place, nonce, self.protocol, env, io.wire)?;
        Some(sent(UnderWay::PartsAttempt(Box::new(attempt)), 1, Hold::SameKeys))
    }

    /// Whether parts may be reached without their header having been seen, which says when they expire: who caches what is read is
    /// told at that time.
    fn may_leave_header(&self, command: FoldedCommand) -> bool {
        command.writes || !self.reads_for_cache()
    }

    /// Whether a request is one that may be joined to this call on the same key.
    pub(crate) fn may_follow(&self, call: SharedCall, plan: &Plan, args: &[&[u8]], env: &Env<'_>) -> bool {
        let Route::One { command, place } = &plan.route else { return false };
        let is_told = command.writes && self.notices().is_some();
        !is_told
            && match call {
                SharedCall::Fields => field_call(*command, place, args, env).is_some(),
                SharedCall::Parts { .. } => {
                    let is_call = place.kind.collection().is_some_and(|kind| PartsCall::may_follow(args, kind));
                    is_call && self.may_leave_header(*command)
                }
            }
    }

    /// Begins such a request.
    fn begin_call(
        &self,
        call: SharedCall,
        route: &Route,
        args: &[&[u8]],
        env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Option<Begun> {
        let Route::One { command, place } = route else { return None };
        Some(match call {
            SharedCall::Fields => {
                let call = field_call(*command, place, args, env)?;
                let write = FieldWrite::start(call, args, command.run, place, self.protocol, env, io.wire);
                sent(UnderWay::FieldWrite(Box::new(write)), 1, Hold::SameKeys)
            }
            SharedCall::Parts { nonce } => self.begin_in_parts(command.run, place, nonce, args, env, io)?,
        })
    }

    /// A SET that needs nothing of the old value; none where it isn't one.
    fn begin_set(
        &mut self,
        form: SetForm,
        run: Run,
        place: &Place,
        args: &[&[u8]],
        env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Option<Begun> {
        let set = SetCommand::read_simple(form, args, env.now_ms)?;
        if place.kind.is_framed() {
            return (!set.if_absent()).then(|| {
                native::set_own(env, &set, place, args[1], io.wire);
                sent(UnderWay::Set(ReplyKind::Ok), 1, Hold::Nothing)
            });
        }
        let namespace = env.layout.namespace(place.namespace);
        if set.if_absent()
            && (namespace.codecs.written().is_none() || set.value.len() > namespace.value_limit.saturating_sub(9))
        {
            // A script sees whether what is there has expired; and a value may have to be spilled, which HSETNX alone can't.
            return None;
        }
        if !set.if_absent()
            && native::is_stored_raw(&set, namespace)
            && !env.stats.namespace(place.namespace).has_spilled()
        {
            native::set(set.value, place, io.wire);
            return Some(sent(UnderWay::Set(ReplyKind::Integer), 1, Hold::Nothing));
        }
        let stored = crate::exchange::encode(env, Some(place), args[1], set.value, set.expires_at_ms);
        if set.if_absent() {
            let attempt = NativeFirst::set_if_absent(
                args,
                run,
                place,
                stored.main.value(),
                set.when_set(),
                self.protocol,
                io.wire,
            );
            return Some(sent(UnderWay::NativeFirst(Box::new(attempt)), 1, Hold::SameKeys));
        }
        if !stored.is_spilled() && !env.stats.namespace(place.namespace).has_spilled() {
            native::set(stored.main.value(), place, io.wire);
            return Some(sent(UnderWay::Set(ReplyKind::Integer), 1, Hold::Nothing));
        }
        let (overwrite, replies) = native::Overwrite::start(args[1], place, &stored, io.wire);
        Some(sent(UnderWay::Overwrite(Box::new(overwrite)), replies, Hold::Nothing))
    }

    /// A string command on several keys, with plain ones or such that are moving among them.
    fn begin_many(
        &mut self,
        command: FoldedCommand,
        places: &Places,
        args: &[&[u8]],
        env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Begun {
        let FoldedCommand { id, run, on_collections, needs_members, .. } = command;
        let notices = self.notices().filter(|_| command.writes);
        if Pieces::may_take(id, places.len()) {
            // Later commands of the client wait until its last step is answered.
            let (pieces, replies) = Pieces::start(id, run, args, self.protocol, notices, env, io.wire);
            return sent(UnderWay::Pieces(Box::new(pieces)), replies, Hold::All);
        }
        if on_collections {
            let start = if needs_members { Work::start_on_collections } else { Work::start };
            let (work, replies) = start(run, args, places.of(args), self.protocol, env, io.wire);
            // Who only reads may look at several keys again, where one that lies in parts was changed between two looks.
            return sent(UnderWay::Work(Box::new(work.publishing(notices))), replies, Hold::SameKeys);
        }
        if id == Id::Copy && !places.are_moving() {
            return self.begin_copy(run, places, args, env, io);
        }
        if notices.is_some() {
            let (work, replies) = Work::start(run, args, places.of(args), self.protocol, env, io.wire);
            return sent(UnderWay::Work(Box::new(work.publishing(notices))), replies, command.hold());
        }
        let batch = match id {
            _ if places.are_moving() => set_form(id)
                .zip(places.of(args).next())
                .and_then(|(form, key)| native::set_moving(env, form, key, args, io.wire)),
            Id::Del | Id::Unlink => return begin_delete(args[0], places.of(args), env, io),
            Id::Mset => {
                let values = args[2..].iter().step_by(2).copied();
                native::set_many(env, places.of(args).zip(values), io.wire)
            }
            _ => None,
        };
        if let Some((batch, replies)) = batch {
            return sent(UnderWay::SetMany(batch), replies, Hold::Nothing);
        }
        if !command.writes
            && let Some((look, replies)) = LookAtMany::start((id, run), args, places.placed(), self.protocol, io.wire)
        {
            return sent(UnderWay::LookAtMany(Box::new(look)), replies, hold_of_group(env));
        }
        if id == Id::Msetnx
            && let Some((work, replies)) =
                Work::start_on_nothing(run, args, places.of(args), self.protocol, env, io.wire)
        {
            return sent(UnderWay::Work(Box::new(work)), replies, command.hold());
        }
        let (work, replies) = Work::start(run, args, places.of(args), self.protocol, env, io.wire);
        sent(UnderWay::Work(Box::new(work)), replies, command.hold())
    }

    /// COPY, perhaps with a database named, which may be the client's own.
    fn begin_copy(&mut self, run: Run, places: &Places, args: &[&[u8]], env: &Env<'_>, io: &mut Io<'_>) -> Begun {
        let copy = CopyCommand::read(args).ok();
        let database = copy.as_ref().and_then(|copy| copy.database_from(self.database));
        let (Some(CopyCommand { replace, .. }), Some(database)) = (copy, database) else {
            ask_why_refused(args, io.wire);
            return sent(UnderWay::ErrorOnly { protocol: self.protocol }, 1, Hold::Nothing);
        };
        let mut keys = places.of(args);
        if database != self.database
            && let (Some(source), Some(destination)) = (keys.next(), keys.next())
        {
            let databases = (self.database, database);
            let (copy, replies) =
                Copy::start(args, [source, destination], databases, replace, self.protocol, env, io.wire);
            return sent(UnderWay::Copy(Box::new(copy.publishing(self.notices()))), replies, Hold::All);
        }
        let mut here = args[..3].to_vec();
        here.extend(replace.then_some(&b"REPLACE"[..]));
        let (work, replies) = Work::start(run, &here, places.of(args), self.protocol, env, io.wire);
        sent(UnderWay::Work(Box::new(work.publishing(self.notices()))), replies, Hold::SameKeys)
    }

    /// What is answered without the server.
    fn begin_local(&mut self, command: &'static Command, args: &[&[u8]], env: &Env<'_>, io: &mut Io<'_>) -> Begun {
        let mut answer = Answer::new(io.answer, self.protocol);
        match command.id {
            Id::Client | Id::Acl => {
                let answers = if command.id == Id::Client { Self::client } else { Self::acl };
                let begun = answers(self, args, command, env, &mut answer);
                return begun.unwrap_or_else(|error| {
                    answer.error(&error);
                    Begun::Answered
                });
            }
            Id::Cluster | Id::Readonly | Id::Readwrite | Id::Asking => {
                if let Err(error) = self.cluster(args, command, env, &mut answer) {
                    answer.error(&error);
                }
            }
            Id::SlowlogGet | Id::SlowlogLen | Id::SlowlogReset | Id::LatencyHistogram => {
                if let Err(error) = self.slow_requests(args, command, env, &mut answer) {
                    answer.error(&error);
                }
            }
            Id::Quit => {
                answer.ok();
                return Begun::Close;
            }
            Id::Auth => self.auth(args, env, &mut answer),
            Id::Monitor => self.begin_monitor(&mut answer),
            Id::Reset => {
                answer.simple("RESET");
                self.reset();
            }
            Id::Multi => {
                self.queue = Some(Queue::under(env.layout.epoch(), self.users_version));
                answer.ok();
            }
            Id::Exec => {
                self.queue = None;
                answer.error(SPOILT);
            }
            Id::Info => answer.verbatim(info::section(env).as_bytes()),
            Id::CommandGetkeys | Id::CommandGetkeysandflags => answer_keys(command, args, env, &mut answer),
            // DISCARD, and UNWATCH where nothing is watched.
            _ => {
                self.queue = None;
                answer.ok();
            }
        }
        Begun::Answered
    }

    fn enqueue(&mut self, queued: Queued, io: &mut Io<'_>) -> Begun {
        let mut answer = Answer::new(io.answer, self.protocol);
        if self.queue.as_mut().is_some_and(|queue| queue.push(queued)) {
            answer.simple("QUEUED");
        } else {
            answer.error("ERR keyfold: the transaction is too large; split it");
        }
        Begun::Answered
    }

    /// Asks the server about a command that isn't in the table. Within MULTI it is queued meanwhile.
    fn begin_probe(&mut self, args: &[&[u8]], refusal: Option<String>, io: &mut Io<'_>) -> Begun {
        let when_known = match (&mut self.queue, refusal) {
            (None, refusal) => WhenKnown::Refuse(refusal.unwrap_or_default()),
            (Some(_), Some(refusal)) => WhenKnown::RefuseQueued(refusal),
            (Some(queue), None) => {
                queue.push(Queued { is_slow: true, ..Queued::passed(args, None, Vec::new()) });
                WhenKnown::Queued
            }
        };
        let probe = Probe::start(args, when_known, self.protocol, io.wire);
        sent(UnderWay::Probe(Box::new(probe)), 1, Hold::All)
    }

    /// Why what was queued isn't allowed any more, as the rules for its user have changed since; each command that isn't is noted.
    fn refuse_queued(&self, env: &Env<'_>) -> Option<String> {
        let queue = self.queue.as_ref().filter(|queue| !queue.spoilt && queue.users_version != self.users_version)?;
        let user = self.user.as_ref().filter(|user| !user.is_unrestricted())?;
        let refuse = |queued: &Queued| {
            let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
            let Some(command) = queued.command else { return user.refuse_unknown(args[0]) };
            let refused = user.refuse(command, &args, &command.keys_in(&args));
            if refused.is_some() {
                self.note_denied(command, &args, env);
            }
            refused
        };
        let refused: Vec<String> = queue.commands.iter().filter_map(refuse).collect();
        refused.into_iter().next()
    }

    fn begin_exec(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Begun {
        let protocol = self.protocol;
        let refused = self.refuse_queued(env);
        let queue = self.queue.take().unwrap_or_default();
        if queue.spoilt {
            return unwatch(format!("-{SPOILT}\r\n").into_bytes(), io);
        }
        if let Some(error) = refused {
            self.watched = None;
            return unwatch(format!("-EXECABORT Transaction discarded because of: {error}\r\n").into_bytes(), io);
        }
        let mut watched = self.watched.take();
        if let Some(watched) = &mut watched {
            watched.begin_in(self.database);
        }
        let watch_broken = watched.as_ref().is_some_and(|watched| watched.is_broken(env));
        if watch_broken {
            let mut nil = Vec::new();
            Answer::new(&mut nil, protocol).nil_array();
            return unwatch(nil, io);
        }
        let commands = match queue.epoch == env.layout.epoch() {
            true => Ok(queue.commands),
            false => self.requeue(queue.commands, env),
        };
        let begun = match commands {
            Ok(commands) => Transaction::start(commands, watched, self.notices(), protocol, env, io.wire),
            Err(message) => Err(format!("EXECABORT Transaction discarded because of: {message}")),
        };
        match begun {
            Ok((transaction, replies)) => {
                let transaction = transaction.for_cache(self.reads_for_cache());
                sent(UnderWay::Transaction(Box::new(transaction)), replies, Hold::All)
            }
            Err(message) => unwatch(format!("-{message}\r\n").into_bytes(), io),
        }
    }

    fn begin_keyspace(&mut self, command: Id, request: Request<'_>, env: &Env<'_>, io: &mut Io<'_>) -> Begun {
        let protocol = self.protocol;
        match command {
            Id::Info => {
                request.pass_on(io);
                let overview = Overview::new(
                    Arc::clone(self.joined.clients()),
                    self.database,
                    self.front.clone(),
                    request.args,
                    protocol,
                );
                sent(UnderWay::Overview(Box::new(overview)), 1, Hold::Nothing)
            }
            Id::Flushall | Id::Flushdb => self.begin_flush(command, request, io),
            Id::Dbsize => sent(UnderWay::Size(Box::new(keyspace::Size::start(io.wire))), 1, Hold::All),
            Id::Randomkey => sent(UnderWay::Random(Box::new(keyspace::Random::start(protocol, io.wire))), 1, Hold::All),
            Id::Keys => {
                let (list, replies) = listing::List::keys(env, request.args[1], protocol, io.wire);
                sent(UnderWay::List(Box::new(list)), replies, Hold::All)
            }
            _ => match listing::List::scan(env, request.args, protocol, io.wire) {
                Ok((list, replies)) => sent(UnderWay::List(Box::new(list)), replies, Hold::All),
                Err(_) => {
                    // The server's error is the answer. Keys that it lists instead must not reach the client.
                    request.pass_on(io);
                    sent(UnderWay::ErrorOnly { protocol }, 1, Hold::All)
                }
            },
        }
    }

    /// FLUSHDB and FLUSHALL leave the layout, its copy and the dictionaries, which lie in database 0.
    fn begin_flush(&mut self, command: Id, request: Request<'_>, io: &mut Io<'_>) -> Begun {
        let reaches_layout = self.database == 0 || command == Id::Flushall;
        if !reaches_layout {
            request.pass_on(io);
        } else {
            let mut call: Vec<&[u8]> = vec![b"EVAL", FLUSH, b"3", LAYOUT_KEY, COPY_KEY, DICTIONARIES_KEY];
            call.extend(request.args);
            write_command(io.wire, &call);
        }
        sent(UnderWay::Flush, 1, Hold::All)
    }

    /// On a shared connection: to the database asked for, which says whether there is one, and back.
    fn begin_select(&mut self, database: u32, args: &[&[u8]], io: &mut Io<'_>) -> Begun {
        write_command(io.wire, &[b"SELECT", args[1]]);
        write_command(io.wire, &[b"SELECT", itoa::Buffer::new().format(self.database).as_bytes()]);
        sent(UnderWay::Select { database, answer: None }, 2, Hold::All)
    }
}

fn set_form(command: Id) -> Option<SetForm> {
    Some(match command {
        Id::Set => SetForm::Set,
        Id::Setnx => SetForm::Setnx,
        Id::Setex => SetForm::Setex,
        Id::Psetex => SetForm::Psetex,
        _ => return None,
    })
}

/// The one key of a request, which is its first argument.
fn only_key<'a>(args: &[&'a [u8]], place: &Place) -> impl Iterator<Item = (&'a [u8], Located)> {
    std::iter::once((args[1], Located::Placed(place.clone())))
}

fn begin_delete<'a>(
    name: &[u8],
    keys: impl Iterator<Item = (&'a [u8], Located)>,
    env: &Env<'_>,
    io: &mut Io<'_>,
) -> Begun {
    let (delete, replies) = native::Delete::start(name, keys, io.wire);
    sent(UnderWay::Delete(Box::new(delete)), replies, hold_of_group(env))
}

/// What waits behind commands that go in a MULTI and take no memory: some servers refuse them there while memory is full, and
/// they are sent once more.
fn hold_of_group(env: &Env<'_>) -> Hold {
    if env.dialect().queues_reads_when_full() { Hold::Nothing } else { Hold::SameKeys }
}
