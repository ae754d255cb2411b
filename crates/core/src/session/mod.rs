//! One client's connection: what it has chosen (database, protocol, user), and what each of its requests
//! needs from the server.
//!
//! A request goes through here in two steps, because between them the driver may have to wait or to open a
//! connection: [`Session::plan`] says which lane it needs and whether all earlier requests of this client
//! must have been answered first; [`Session::begin`] then starts it.
//!
//! The answers of one client keep the order of its requests, and so do their effects on each key: a request that may
//! write in a second round trip holds back those behind it that concern the same keys, or more than keys ([`Hold`]). A
//! change of lane holds back all.

mod acl_command;
mod begin;
mod client_command;
mod cluster_command;
mod command_command;
mod hello;
mod hold;
mod monitor;
mod patience;
mod places;
mod queue;
mod refusal;
mod replica_read;
mod route;
mod script;
mod slowlog_command;
mod subscriptions;
mod target;
mod tracking;

use std::fmt;
use std::sync::Arc;

use crate::access::User;
use crate::cache::{Cache, Use};
pub use crate::clients::Peer;
use crate::clients::{ClientFlags, Clients, Entry, Joined, LookupKind, State, Turns};
use crate::cluster::{Front, Target};
use crate::command::{Access, Categories, Command, Flags, Id, Keys, ResponsePolicy};
use crate::exchange::{Effect, Env, Exchange, SharedCall, Watched};
use crate::layout::{Layout, NamespaceIndex};
use crate::notify::{self, Heard};
use crate::number::parse_integer;
use crate::resp::{Answer, Protocol};
use crate::slowlog::SlowLog;
use crate::tracking::Mode;
use client_command::ReplyMode;
pub use hold::Hold;
pub use patience::Patience;
use places::Asked;
use queue::Queue;
use route::{Effort, Route, Touched, use_of};
use subscriptions::Subscriptions;

/// Which connection to the server a request travels on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// None: the answer is known here.
    Local,
    /// One that many clients share, in this database and protocol.
    Shared {
        /// The database selected on it.
        database: u32,
        /// The protocol it speaks.
        protocol: Protocol,
    },
    /// One that many clients share, in this database and protocol, to a replica that is only read from. Where none is fit,
    /// the request goes to the primary as if it had said [`Lane::Shared`].
    Replica {
        /// The database selected on it.
        database: u32,
        /// The protocol it speaks.
        protocol: Protocol,
    },
    /// The client's own, in this database and protocol: it has state that others must not see.
    Own {
        /// The database selected on it when it is opened.
        database: u32,
        /// The protocol it speaks when it is opened.
        protocol: Protocol,
    },
}

impl Lane {
    /// The lane that takes what could not go to a replica.
    #[must_use]
    pub fn at_primary(self) -> Self {
        match self {
            Self::Replica { database, protocol } => Self::Shared { database, protocol },
            lane => lane,
        }
    }
}

/// As a log has it: `shared, database 0, RESP2`.
impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, database, protocol) = match self {
            Self::Local => return f.write_str("none"),
            Self::Shared { database, protocol } => ("shared", database, protocol),
            Self::Replica { database, protocol } => ("shared, of a replica", database, protocol),
            Self::Own { database, protocol } => ("a client's own", database, protocol),
        };
        let version = if *protocol == Protocol::Resp3 { 3 } else { 2 };
        write!(f, "{what}, database {database}, RESP{version}")
    }
}

/// What a request needs before it can begin.
#[derive(Debug)]
pub struct Plan {
    /// The connection it travels on.
    pub lane: Lane,
    /// All earlier requests of this client must have been answered first.
    pub alone: bool,
    /// How long the server may take over it.
    pub patience: Patience,
    /// Which nodes it concerns, before a cluster.
    pub target: Target,
    /// The request that it is sent with in one call, on the same key.
    pub(crate) follows: Option<(u64, SharedCall)>,
    /// A replica may answer it.
    may_ask_replica: bool,
    route: Route,
    /// The command, where the table knows it.
    command: Option<&'static Command>,
    touched: Touched,
    asked: Asked,
}

impl Plan {
    /// Counts a read or a write of each folded key, and that each was asked for.
    fn count_touched(&self, args: &[&[u8]], env: &Env<'_>) {
        let writes = self.command.is_some_and(|command| command.flags.contains(Flags::WRITE));
        for namespace in &self.touched {
            let stats = env.stats.namespace(*namespace);
            if writes { stats.count_write() } else { stats.count_read() }
        }
        if let Some(cache) = env.cache.filter(|_| !self.asked.is_empty()) {
            self.note_asked(args, cache);
        }
    }

    fn note_asked(&self, args: &[&[u8]], cache: &Cache) {
        let used = self.command.map_or(Use::Read, use_of);
        let bytes = if used.writes() { args.iter().map(|arg| arg.len()).sum::<usize>() / self.asked.len() } else { 0 };
        for key in &self.asked {
            cache.note(*key, used, bytes);
        }
    }

    /// Whether it goes over slots of a cluster, each at its own node.
    pub fn goes_by_slots(&self) -> bool {
        self.target == Target::Any && matches!(self.route, Route::Keyspace(_))
    }

    /// Whether it waits until replicas have what the client wrote.
    pub fn awaits_replicas(&self) -> bool {
        matches!(self.route, Route::OnOwnLane(Id::Wait | Id::Waitaof))
    }

    /// Whether it is sent in one call with a request before.
    pub fn follows_another(&self) -> bool {
        self.follows.is_some()
    }

    /// Whether it names keys of sets or hashes, whose members may lie in parts.
    pub(crate) fn may_read_parts(&self) -> bool {
        match &self.route {
            Route::One { place, .. } => place.kind.collection().is_some(),
            Route::Many { places, .. } => places.hold_collections(),
            _ => false,
        }
    }

    /// Whether something may be written by it.
    pub fn may_write(&self) -> bool {
        !self.command.is_some_and(|command| command.flags.contains(Flags::READONLY))
    }

    /// The keys that the request concerns; none where it may concern anything else: other keys, other clients, the
    /// connection.
    pub(crate) fn keys(&self, args: &[&[u8]]) -> Option<Keys> {
        let command = self.command.filter(|command| !command.categories.contains(Categories::SCRIPTING))?;
        let is_of_keys = matches!(
            self.route,
            Route::One { .. } | Route::Many { .. } | Route::Rewrite(_) | Route::Foreign { .. } | Route::PassOn
        );
        Some(command.keys_in(args)).filter(|keys| is_of_keys && !keys.is_empty() && !keys.is_open())
    }

    /// The keys that it writes together with the values that it gives them, where these stand in the request.
    pub(crate) fn written_values<'a>(&self, args: &'a [&'a [u8]]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let command = self.command.filter(|_| matches!(self.route, Route::One { .. } | Route::Many { .. }));
        let counted = || args.get(1).and_then(|count| usize::try_from(parse_integer(count)?).ok()).unwrap_or(0);
        // Where the first key is, how far its value is behind it, and how many such pairs there may be.
        let (key, behind, pairs) = match command.map(|command| command.id) {
            Some(Id::Set | Id::Setnx | Id::Getset) => (1, 1, 1),
            Some(Id::Setex | Id::Psetex) => (1, 2, 1),
            Some(Id::Mset | Id::Msetnx) => (1, 1, usize::MAX),
            Some(Id::Msetex) => (2, 1, counted()),
            _ => (args.len(), 1, 0),
        };
        let all = args.get(key..).unwrap_or_default().chunks(behind + 1).take(pairs);
        all.filter_map(move |pair| Some((*pair.first()?, *pair.get(behind)?)))
    }

    /// Whether it writes keys that are known, where many may write them at once. A script has to read some anew after each
    /// write of others, though it may only read.
    pub(crate) fn may_contend(&self) -> bool {
        let is_known = matches!(self.route, Route::One { .. } | Route::Many { .. } | Route::Exec { .. });
        self.may_write() && is_known || matches!(self.route, Route::Script { .. })
    }

    /// Whether it ends a transaction.
    pub fn is_exec(&self) -> bool {
        matches!(self.route, Route::Exec { .. })
    }

    /// Whether the client takes its WATCH for ended by it, whatever becomes of it.
    pub fn ends_watch(&self) -> bool {
        matches!(self.route, Route::Exec { .. } | Route::AbortExec { .. } | Route::OnOwnLane(Id::Unwatch))
    }

    /// Whether it may travel with other clients' requests, though it may take long.
    pub fn may_share(&self) -> bool {
        !self.route.needs_own_lane() && !self.patience.blocks()
    }

    /// Has it travel with other clients' requests, where it may; else nothing of it is to be sent.
    pub fn take_shared_lane(&mut self) {
        if let Lane::Own { database, protocol } | Lane::Replica { database, protocol } = self.lane {
            self.lane = Lane::Shared { database, protocol };
        }
    }

    /// Has it go to a replica, where one may answer it and `is_free`: nothing of the client's is under way, or only what
    /// goes to replicas too.
    pub(crate) fn take_replica_lane(&mut self, is_free: bool) {
        if let (true, Lane::Shared { database, protocol }) = (self.may_ask_replica && is_free, self.lane) {
            self.lane = Lane::Replica { database, protocol };
            self.alone = false;
        }
    }

    /// What is made of the answers where several nodes carry it out.
    pub(crate) fn response(&self) -> ResponsePolicy {
        self.command.map_or_else(ResponsePolicy::default, |command| command.cluster.response)
    }

    /// The key to which a command that blocks will give something, where there is one.
    pub(crate) fn gives_to<'a>(&self, args: &[&'a [u8]]) -> Option<&'a [u8]> {
        let command = self.command.filter(|_| self.patience.blocks())?;
        let keys = command.keys_in(args);
        let key = keys.iter().find(|key| key.access.intersects(Access::CREATES))?;
        args.get(key.index).copied()
    }

    /// The command, where the table knows it.
    pub(crate) fn command(&self) -> Option<&'static Command> {
        self.command
    }

    /// Whether it is refused before anything is sent.
    pub(crate) fn is_refusal(&self) -> bool {
        self.route.is_refusal()
    }

    /// Whether it waits for EXEC.
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.route, Route::Queue(_))
    }

    /// The namespace of the keys that it reads, of so many arguments, where all are of one.
    pub(crate) fn read_namespace(&self, argc: usize) -> Option<NamespaceIndex> {
        let keys = match self.lookup_kind(argc) {
            LookupKind::None => return None,
            LookupKind::One => 1,
            LookupKind::Each | LookupKind::Counted(_) => argc - 1,
        };
        let first = *self.touched.first()?;
        (self.touched.len() == keys && self.touched.iter().all(|namespace| *namespace == first)).then_some(first)
    }

    /// How the answer to the request, which has so many arguments, tells whether the keys that it read were there.
    pub fn lookup_kind(&self, argc: usize) -> LookupKind {
        self.command.map_or(LookupKind::None, |command| LookupKind::of(command, argc))
    }
}

/// How a request began.
#[derive(Debug)]
pub enum Begun {
    /// The answer is written (or is empty: the client has asked for none); nothing was sent.
    Answered,
    /// Commands were written to the wire.
    Sent {
        /// Takes the replies.
        exchange: Exchange,
        /// How many replies will come.
        replies: u32,
        /// Which later requests of this client may not begin before this one is answered.
        hold: Hold,
    },
    /// Commands were written whose replies come as pushes ([`Session::handle_push`]), such as SUBSCRIBE. No
    /// later request of this client may begin while [`Session::awaits_pushes`].
    Pushes,
    /// The answer is written; the connection is to be closed once it is sent.
    Close,
}

/// A request or reply of so many bytes is large: others shouldn't wait for it to pass.
pub const LARGE_BYTES: usize = 64 * 1024;

/// After a large answer, so many of the client's next requests are taken to have large answers too.
const LARGE_REQUESTS: u16 = 256;

fn is_large(args: &[&[u8]]) -> bool {
    args.iter().map(|arg| arg.len()).sum::<usize>() >= LARGE_BYTES
}

/// A client's session.
#[derive(Debug)]
pub struct Session {
    peer: Peer,
    front: Front,
    protocol: Protocol,
    database: u32,
    user: Option<Arc<User>>,
    /// Who it was before it said so, and is again after RESET.
    initial_user: Option<Arc<User>>,
    /// What other clients see of it.
    joined: Joined,
    /// The version of the users that it goes by.
    users_version: u64,
    /// It is to be closed: its user is no more.
    shut_out: bool,
    /// What it chose by CLIENT NO-EVICT, NO-TOUCH and CAPA.
    options: ClientFlags,
    /// It gets the lines of MONITOR.
    monitoring: bool,
    /// What it has chosen by CLIENT TRACKING ON.
    tracked: Option<Box<Mode>>,
    reply_mode: ReplyMode,
    queue: Option<Queue>,
    /// What is watched on the client's own lane.
    watched: Option<Watched>,
    subscriptions: Subscriptions,
    /// The lane of the last request that had one.
    lane: Lane,
    /// So many requests more are taken for ones with large answers.
    expects_large: u16,
}

impl Session {
    /// The session of a client that has just connected, and is one of `clients` from now on.
    pub fn new(peer: Peer, clients: &Arc<Clients>, env: &Env<'_>) -> Self {
        let joined = clients.join(&peer, env.now_ms);
        let mut session = Self {
            database: peer.database,
            peer,
            front: Front::default(),
            protocol: Protocol::Resp2,
            user: None,
            initial_user: env.users.initial(),
            joined,
            users_version: env.users.version(),
            shut_out: false,
            options: ClientFlags::empty(),
            monitoring: false,
            tracked: None,
            reply_mode: ReplyMode::On,
            queue: None,
            watched: None,
            subscriptions: Subscriptions::default(),
            lane: Lane::Local,
            expects_large: 0,
        };
        session.set_user(env.users.initial());
        session
    }

    /// The protocol the client speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether the client has said who it is, where it must.
    pub fn is_authenticated(&self) -> bool {
        self.user.is_some()
    }

    /// Says what a request needs. Cheap, and changes nothing that can be seen: it may be called again for the same
    /// request, which is counted where it begins.
    pub fn plan(&mut self, args: &[&[u8]], env: &Env<'_>) -> Plan {
        self.follow_users(env.users);
        let mut effort = Effort::default();
        let (command, route) = self.route(args, env, &mut effort);
        let (route, target) = self.aim(command, route, args, env);
        let Effort { touched, asked, patience } = effort;
        let patience = if route.is_local() { Patience::Prompt } else { patience };
        let in_parts = matches!(target, Target::Parts(_) | Target::Shards);
        let lane = if in_parts { self.shared_lane() } else { self.lane_of(&route, patience, args) };
        let alone = route.is_alone()
            || patience.blocks()
            || (lane != Lane::Local && self.lane != Lane::Local && lane != self.lane);
        let may_ask_replica = self.may_ask_replica(command, &route, &target, lane, args, env);
        Plan { lane, alone, patience, target, follows: None, may_ask_replica, route, command, touched, asked }
    }

    /// Whether the last request went to a replica.
    pub(crate) fn is_at_replicas(&self) -> bool {
        matches!(self.lane, Lane::Replica { .. })
    }

    /// Whether CLIENT PAUSE holds a planned request back now.
    pub fn is_paused(&self, plan: &Plan, env: &Env<'_>) -> bool {
        let may_write = || self.may_write(plan);
        !plan.route.is_refusal() && self.joined.clients().pause().holds(env.now_ms, may_write)
    }

    /// Whether a planned request writes where it is crowded, and waits until something has left.
    pub fn awaits_room(&self, plan: &Plan, args: &[&[u8]], env: &Env<'_>) -> bool {
        let Some(cache) = env.cache.filter(|cache| !cache.has_room()) else { return false };
        let Some(command) = plan.command.filter(|command| use_of(command).writes()) else { return false };
        !plan.route.is_refusal() && self.reaches(command, args, |slot| cache.is_crowded_at(slot))
    }

    fn may_write(&self, plan: &Plan) -> bool {
        let may_write = |command: &Command| command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE);
        let queued =
            matches!(plan.route, Route::Exec { .. }) && self.queue.as_ref().is_some_and(|queue| queue.holds(may_write));
        plan.command.is_some_and(may_write) || queued
    }

    /// What others see of the client, and tell it.
    pub fn entry(&self) -> &Entry {
        self.joined.entry()
    }

    /// Which requests of all clients were slow.
    pub(crate) fn slow(&self) -> &Arc<SlowLog> {
        self.joined.clients().slow()
    }

    /// Whose turn it is to write a key that many clients write.
    pub(crate) fn turns(&self) -> &Turns {
        self.joined.clients().turns()
    }

    /// The folded keys that a request writes; what EXEC does are those of its queue.
    pub(crate) fn written_keys<'a>(&'a self, plan: &Plan, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
        match &self.queue {
            Some(queue) if plan.is_exec() => queue.folded_keys().collect(),
            _ if let Route::Script { places, .. } = &plan.route => places.folded_of(args).map(|(key, _)| key).collect(),
            _ => plan.keys(args).iter().flat_map(Keys::iter).map(|key| args[key.index]).collect(),
        }
    }

    /// The client has gone: nobody sees it any more, although requests of it may be under way.
    pub fn leave(&self) {
        self.joined.leave();
    }

    /// The state that others see.
    fn state(&self, blocks: bool) -> State {
        let mut flags = self.options;
        flags.set(ClientFlags::MONITOR, self.monitoring);
        flags.set(ClientFlags::PUBSUB, self.subscriptions.subscribed());
        flags.set(ClientFlags::MULTI, self.queue.is_some());
        flags.set(ClientFlags::BLOCKED, blocks);
        flags.set(ClientFlags::RESP3, self.protocol == Protocol::Resp3);
        flags |= self.tracking_flags();
        let (channels, patterns, shards) = self.subscriptions.counts();
        State {
            database: self.database,
            flags,
            channels,
            patterns,
            shards,
            queued: self.queue.as_ref().map_or(0, |queue| queue.commands.len()),
            queued_bytes: self.queue.as_ref().map_or(0, Queue::bytes),
            watched: self.watched.as_ref().map_or(0, |watched| watched.keys().len()),
            redirect: Mode::shown_redirect(self.tracked.as_deref()),
        }
    }

    /// Says who the client is from now on.
    fn set_user(&mut self, user: Option<Arc<User>>) {
        user.as_ref().map_or("", |user| user.name()).clone_into(&mut self.entry().words().user);
        self.user = user;
    }

    fn lane_of(&self, route: &Route, patience: Patience, args: &[&[u8]]) -> Lane {
        let (database, protocol) = (self.database, self.protocol);
        // What may keep a connection busy must not have other clients' requests behind it. A client's WATCH would
        // be ended there by a transaction of keyfold's own.
        let is_long = patience == Patience::Slow || self.expects_large > 0 || is_large(args);
        let keeps_away = is_long && (matches!(route, Route::PassOn | Route::Script { .. }) || !self.has_own_state());
        if let Route::Hello(hello) = route {
            Lane::Shared { database, protocol: hello.protocol }
        } else if matches!(route, Route::Kill) {
            // A busy server lets nobody choose a database.
            Lane::Shared { database: self.peer.database, protocol }
        } else if route.is_local() {
            Lane::Local
        } else if route.needs_own_lane() || patience.blocks() || keeps_away || self.hears_only_pushes() {
            Lane::Own { database, protocol }
        } else {
            self.shared_lane()
        }
    }

    fn shared_lane(&self) -> Lane {
        Lane::Shared { database: self.database, protocol: self.protocol }
    }

    /// Notes that the server's replies to a request had so many bytes. After large ones the client's next requests
    /// are taken to have large answers too: what a command brings isn't known before.
    pub fn note_reply_bytes(&mut self, len: usize) {
        if len >= LARGE_BYTES {
            self.expects_large = LARGE_REQUESTS;
        }
    }

    /// Whether the client is in the state that RESP2 has for subscribers, in which even PING is answered otherwise.
    fn hears_only_pushes(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.subscriptions.active()
    }

    /// Whether the client's own lane holds something that would be lost with it. Only what concerns that state
    /// travels there: any other command may need a MULTI of ours, whose EXEC would end the client's WATCH.
    fn has_own_state(&self) -> bool {
        self.watched.is_some() || self.subscriptions.active()
    }

    /// Applies what a finished exchange changed.
    pub fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Database(database) => self.database = database,
            Effect::Watching(more) => {
                let more = more.in_database(self.database);
                match &mut self.watched {
                    Some(watched) => watched.add(more),
                    None => self.watched = Some(more),
                }
            }
            Effect::SpoilQueue => self.queue.iter_mut().for_each(|queue| queue.spoilt = true),
            Effect::Unwatched => self.watched = None,
            Effect::Reset => self.reset(),
            Effect::Hello(hello) => self.be(*hello),
        }
        self.entry().note_state(&self.state(false));
    }

    fn reset(&mut self) {
        self.protocol = Protocol::Resp2;
        self.database = self.peer.database;
        self.set_user(self.initial_user.clone());
        self.entry().words().name.clear();
        self.options &= ClientFlags::REDIRECT;
        self.end_monitor();
        self.end_tracking();
        self.reply_mode = ReplyMode::On;
        self.queue = None;
        self.watched = None;
        self.subscriptions = Subscriptions::default();
    }

    /// Answers a request that was planned and can't begin, because the server is away.
    pub fn refuse_planned(&mut self, plan: &Plan, reason: &str, answer: &mut Vec<u8>) {
        self.forget_lane(plan.lane);
        match &plan.route {
            // The client takes its transaction for ended.
            _ if plan.ends_watch() => self.queue = None,
            Route::Probe { .. } => self.apply(Effect::SpoilQueue),
            _ => {}
        }
        self.end_caching(plan.command);
        let wanted = self.reply_mode == ReplyMode::On;
        if self.reply_mode == ReplyMode::Skip {
            self.reply_mode = ReplyMode::On;
        }
        self.write_loss(wanted, reason, answer);
    }

    /// Answers a request whose exchange was under way on a connection that is lost.
    pub fn lose(&mut self, lane: Lane, exchange: &Exchange, reason: &str, answer: &mut Vec<u8>) {
        self.forget_lane(lane);
        if exchange.is_probe() {
            self.apply(Effect::SpoilQueue);
        }
        self.write_loss(!exchange.is_silent(), reason, answer);
    }

    /// Answers bytes that are no request; the connection is closed after it.
    pub fn refuse_unread(&self, error: &str, answer: &mut Vec<u8>) {
        if self.reply_mode == ReplyMode::On {
            Answer::new(answer, self.protocol).error(error);
        }
    }

    fn write_loss(&self, wanted: bool, reason: &str, answer: &mut Vec<u8>) {
        if wanted {
            // What the server itself says has its own code, which clients go by.
            let error = if has_error_code(reason) { reason.to_owned() } else { format!("ERR keyfold: {reason}") };
            Answer::new(answer, self.protocol).error(&error);
        }
    }

    /// Forgets what lived on the client's own lane, where it was that one that is lost.
    fn forget_lane(&mut self, lane: Lane) {
        if matches!(lane, Lane::Own { .. }) {
            self.watched = None;
            self.subscriptions = Subscriptions::default();
        }
    }

    /// Looks at a reply that came on the client's own lane, before any exchange does: true when it is a push
    /// (a pub/sub message, a confirmation), which goes to the client, as it is or as it would be without a layout; what
    /// concerns only keyfold doesn't.
    pub fn handle_push(&mut self, reply: &[u8], layout: &Layout, out: &mut Vec<u8>) -> bool {
        let is_push = self.subscriptions.handle_push(reply, self.protocol);
        if is_push {
            self.entry().note_state(&self.state(false));
            match notify::hear(reply, layout) {
                Heard::AsItCame => out.extend_from_slice(reply),
                Heard::Instead(other) => out.extend(other),
                Heard::Nothing => {}
            }
        }
        is_push
    }

    /// Whether the server has ended a subscription by itself, as a node of a cluster does whose slot moves away. Its
    /// client would wait for messages that go elsewhere.
    pub fn is_cut_off(&self) -> bool {
        self.subscriptions.are_cut()
    }

    /// Whether confirmations of a SUBSCRIBE or UNSUBSCRIBE are still to come.
    pub fn awaits_pushes(&self) -> bool {
        self.subscriptions.awaited()
    }

    /// Whether the client is to get what its subscriptions bring: a loss of the own lane must then close it,
    /// since it would wait for messages that can't come.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.active()
    }

    /// Whether the client has chosen nothing that its later requests depend on.
    pub fn is_as_it_began(&self) -> bool {
        self.protocol == Protocol::Resp2
            && self.database == self.peer.database
            && self.reply_mode == ReplyMode::On
            && self.queue.is_none()
            && !self.monitoring
            && self.tracked.is_none()
            && !self.has_own_state()
    }

    /// Whether a client without a request under way has begun nothing that the end of its connection would break off: no
    /// transaction, no WATCH, no subscription; and it doesn't wait for the lines of MONITOR.
    pub fn is_between_requests(&self) -> bool {
        self.queue.is_none() && !self.monitoring && !self.has_own_state()
    }

    /// Whether the client's own lane holds no state any more (no WATCH, no subscription): another client may
    /// have the connection.
    pub fn own_lane_is_clean(&self) -> bool {
        !self.has_own_state()
    }
}

/// Whether a reason begins with a code, as servers' errors do: `BUSY`, `LOADING`, `MASTERDOWN`.
pub fn has_error_code(reason: &str) -> bool {
    let is_code = |word: &str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    reason.split_once(' ').is_some_and(|(word, _)| is_code(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Context;
    use crate::exchange::Io;
    use crate::layout::NamespaceIndex;
    use crate::server_info::ServerInfo;

    #[test]
    fn a_request_is_counted_where_it_begins_however_often_it_is_planned() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n").unwrap();
        let context = Context::without_data(&layout, ServerInfo::default());
        let nonces = &mut || 1;
        let mut env = context.env(1, nonces);
        let mut session = Session::new(Peer::default(), &Arc::default(), &env);
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        let mut begin = |command: &str| {
            let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let plan = (0..3).map(|_| session.plan(&args, &env)).last().unwrap();
            session.begin(&plan, &args, None, &mut env, &mut Io { wire: &mut wire, answer: &mut answer });
            let counts = env.stats.namespace(NamespaceIndex(0)).counts();
            (counts.reads, counts.writes)
        };
        assert_eq!(begin("GET n:1"), (1, 0));
        assert_eq!(begin("MGET n:1 other n:2"), (3, 0));
        assert_eq!(begin("SET n:1 v"), (3, 1));
        assert_eq!(begin("GET other"), (3, 1));
        begin("MULTI");
        assert_eq!(begin("INCR n:3"), (3, 2));
        assert_eq!(begin("EXEC"), (3, 2));
    }

    #[test]
    fn what_reads_all_members_of_a_large_one_may_take_the_server_long() {
        let layout =
            Layout::parse_file("[[namespace]]\nkeys = 's:{id:int}'\ntype = 'set'\nbucket = { span = 10 }\n").unwrap();
        let context = Context::without_data(&layout, ServerInfo::default());
        let nonces = &mut || 1;
        let env = context.env(1, nonces);
        let mut session = Session::new(Peer::default(), &Arc::default(), &env);
        env.stats.in_parts().note(b"s:1", 7, 7);
        for (command, patience) in [
            ("SMEMBERS s:1", Patience::Slow),
            ("SINTER s:2 s:1", Patience::Slow),
            ("SDIFFSTORE s:3 other s:1", Patience::Slow),
            ("COPY s:1 s:2", Patience::Slow),
            ("SMEMBERS s:2", Patience::Prompt),
            ("SISMEMBER s:1 a", Patience::Prompt),
            ("SADD s:1 a", Patience::Prompt),
            ("SPOP s:1 5", Patience::Prompt),
            ("SCARD s:1", Patience::Prompt),
        ] {
            let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            assert_eq!(session.plan(&args, &env).patience, patience, "{command}");
        }
    }
}
