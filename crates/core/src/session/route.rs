//! Which way a request goes: by its command, its keys, and the state of its client.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cache::{Cache, Use};
use crate::cluster::Endpoint;
use crate::collection::CollectionKind;
use crate::command::{Access, Categories, Command, Flags, Id, Keys, table};
use crate::dialect::Dialect;
use crate::exchange::transaction::{Queued, Scripted};
use crate::exchange::{Env, Hello, OnOtherType, types_in};
use crate::layout::{Layout, Located, NamespaceIndex, Place};
use crate::members;
use crate::number::parse_integer;
use crate::resp::word::{is_ambiguous, is_word};
use crate::session::hello::HelloError;
use crate::session::places::{Asked, Places};
use crate::session::refusal::{
    is_http, not_in_transaction, printable, refused_always, refused_debug, refused_patterns, refused_unknown,
    unknown_command, wrong_arity,
};
use crate::session::script::{calls_function, calls_script, no_script};
use crate::session::{Hold, Patience, Session};
use crate::slot::Slot;
use crate::string::{CopyCommand, Run};
use crate::user_script::UserScript;

/// The namespaces of the keys that a request names, one for each key.
pub(crate) type Touched = SmallVec<[NamespaceIndex; 1]>;

/// Whether a command uses its keys' values, or has them, and not only what is known of the keys.
fn asks_for_values(command: &Command) -> bool {
    let keeps = matches!(command.id, Id::Touch | Id::Exists | Id::Copy | Id::Rename | Id::Renamenx | Id::Restore);
    keeps || !command.categories.contains(Categories::KEYSPACE)
}

/// What a command does to its keys, as a cache counts it.
pub(crate) fn use_of(command: &Command) -> Use {
    match command.id {
        Id::Set | Id::Setnx | Id::Setex | Id::Psetex | Id::Mset | Id::Msetnx | Id::Msetex => Use::Write,
        _ if command.flags.contains(Flags::DENYOOM) => Use::Update,
        _ => Use::Read,
    }
}

/// What a request asks of the server.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    /// The folded keys that it touches.
    pub(crate) touched: Touched,
    /// The keys that it asks for, where a cache is kept.
    pub(crate) asked: Asked,
    /// How long it may take.
    pub(crate) patience: Patience,
}

/// The way of one request.
#[derive(Debug)]
pub(crate) enum Route {
    /// An error, before anything is sent. Within MULTI the EXEC fails for one that `spoils` it.
    Error { message: String, spoils: bool },
    /// The error reply of a command that no server has, or not for certain; within MULTI its EXEC will fail for it.
    Unknown(Vec<u8>),
    /// HELLO with a wrong password for the user of this name.
    NotLetIn(Vec<u8>),
    /// It is no command but HTTP: the connection is closed without a word.
    HangUp,
    /// Answered here, by what the command is.
    Local(&'static Command),
    /// Within MULTI: queued.
    Queue(Queued),
    /// To the server as it came.
    PassOn,
    /// The same for SCRIPT KILL and FUNCTION KILL, which a busy server carries out.
    Kill,
    /// To the server, with the short names of zipped keys.
    Rewrite(Places),
    /// A string command on one key that has a place.
    One { command: FoldedCommand, place: Place },
    /// A command on several keys, on one that has to be looked at together with its type, on one that lies in one of two places,
    /// or on sets and hashes.
    Many { command: FoldedCommand, places: Places },
    /// A user's script of whose keys some are folded; none where it is a function of the server's, which is to be found.
    Script { command: Id, script: Option<Arc<UserScript>>, places: Places },
    /// SCRIPT EXISTS.
    ScriptsExist,
    /// COMMAND INFO or COMMAND DOCS, of commands of which the server lacks some.
    LaterCommands(Id),
    /// A command of another type that names folded keys.
    Foreign { foreign: OnOtherType, places: Places },
    /// A command on the whole keyspace.
    Keyspace(Id),
    /// To the server on the client's own connection, on whose state it depends or which it changes.
    OnOwnLane(Id),
    /// SELECT; none of a database that there can't be.
    Select { database: Option<u32> },
    /// EXEC, perhaps on the client's own connection.
    Exec { own: bool },
    /// EXEC of a queue that can't be carried out: the error is the answer, and the queue is dropped.
    AbortExec { message: String, own: bool },
    /// A command that the table doesn't know: the server says whether there is one.
    Probe { refusal: Option<String> },
    /// HELLO, once it is known to be right.
    Hello(Hello),
    /// CLIENT UNBLOCK of a client that has a connection to the server to itself, by the server's number of it; which node
    /// of a cluster that is.
    Unblock { connection: i64, reason: &'static str, node: Option<Endpoint> },
}

/// A command on folded keys that is carried out here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoldedCommand {
    pub(crate) id: Id,
    pub(crate) run: Run,
    pub(crate) writes: bool,
    /// One of its keys holds a set or hash.
    pub(crate) on_collections: bool,
    /// It needs the members of all its keys that are sets or hashes, and not only to know that they are there.
    pub(crate) needs_members: bool,
}

impl FoldedCommand {
    /// What waits for it where it is worked out.
    pub(crate) fn hold(self) -> Hold {
        if self.writes { Hold::SameKeys } else { Hold::Nothing }
    }
}

impl Route {
    /// An error that spoils the client's queue, where there is one.
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::Error { message: message.into(), spoils: true }
    }

    /// Whether the answer needs no server.
    pub(crate) fn is_local(&self) -> bool {
        matches!(
            self,
            Self::Error { .. } | Self::Unknown(_) | Self::NotLetIn(_) | Self::HangUp | Self::Local(_) | Self::Queue(_)
        )
    }

    /// Whether it may leave state on the connection.
    pub(crate) fn needs_own_lane(&self) -> bool {
        match self {
            Self::Exec { own } | Self::AbortExec { own, .. } => *own,
            Self::OnOwnLane(_) => true,
            _ => false,
        }
    }

    /// Whether it is refused before anything is sent.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Error { .. } | Self::Unknown(_) | Self::NotLetIn(_) | Self::AbortExec { .. })
    }

    /// Whether all earlier requests must have been answered.
    pub(crate) fn is_alone(&self) -> bool {
        match self {
            // The lines of MONITOR don't wait for answers that are still to come.
            Self::Local(command) => matches!(command.id, Id::Reset | Id::Monitor),
            Self::Keyspace(Id::Flushall | Id::Flushdb) | Self::Hello(_) | Self::Select { .. } => true,
            _ => self.needs_own_lane(),
        }
    }
}

impl Session {
    /// Which way a request goes, and its command where the table knows it.
    pub(crate) fn route(
        &self,
        args: &[&[u8]],
        env: &Env<'_>,
        effort: &mut Effort,
    ) -> (Option<&'static Command>, Route) {
        if is_http(args[0]) {
            return (None, Route::HangUp);
        }
        let known = |command: &&Command| command.since.is_none_or(|since| env.dialect().knows(since));
        let Some(command) = table().lookup(args[0]).filter(known) else {
            return (None, self.route_unknown(args, env, effort));
        };
        if !command.arity_ok(args.len()) {
            let is_lacking = command.since.is_some_and(|since| !env.dialect().server_has(since));
            let is_unknown = is_lacking && !names_folded(command, args, env.layout);
            let wrong_arity = || self.refuse_command(command, wrong_arity(command));
            return (Some(command), if is_unknown { Route::Unknown(unknown_command(args)) } else { wrong_arity() });
        }
        let command = table().resolve(args).unwrap_or(command);
        (Some(command), self.route_command(command, args, env, effort))
    }

    fn route_command(&self, command: &'static Command, args: &[&[u8]], env: &Env<'_>, effort: &mut Effort) -> Route {
        // Outside a transaction whoever runs a subcommand says so.
        if self.queue.is_some() && !command.arity_ok(args.len()) {
            return Route::error(wrong_arity(command));
        }
        if let Some(error) = self.refuse(command, args).or_else(|| self.refuse_write(command, args, env)) {
            return self.refuse_command(command, error);
        }
        if command.is_container && args.len() > 1 && command.id != Id::Client {
            return self.route_unknown_subcommand(args, env, effort);
        }
        if self.queue.is_some() {
            return self.route_queued(command, args, env, effort);
        }
        if let Some(route) = self.route_session(command, args, env, effort) {
            return route;
        }
        self.route_keys(command, args, env, effort)
    }

    /// The error of a command that may not be sent as it is. Where that is EXEC the transaction ends here.
    fn refuse_command(&self, command: &Command, error: String) -> Route {
        if command.id != Id::Exec {
            return Route::error(error);
        }
        let message = match error.strip_prefix("EXECABORT ") {
            Some(_) => error,
            None => {
                let why = error.strip_prefix("ERR ").unwrap_or(&error);
                format!("EXECABORT Transaction discarded because of: {why}")
            }
        };
        Route::AbortExec { message, own: self.watched.is_some() }
    }

    /// Why the client may not send this command now.
    fn refuse(&self, command: &Command, args: &[&[u8]]) -> Option<String> {
        match &self.user {
            None if matches!(command.id, Id::Auth | Id::Hello | Id::Quit | Id::Reset) => {}
            None => return Some("NOAUTH Authentication required.".to_owned()),
            Some(user) if user.is_unrestricted() => {}
            Some(user) => {
                if let Some(error) = user.refuse(command, args, &command.keys_in(args)) {
                    return Some(error);
                }
            }
        }
        if self.monitoring && command.flags.intersects(Flags::WRITE | Flags::READONLY | Flags::MAY_REPLICATE) {
            // To the server whoever monitors is a kind of replica.
            return Some("ERR Replica can't interact with the keyspace".to_owned());
        }
        let subscribed = self.hears_only_pushes();
        let allowed = command.id.subscribes() || matches!(command.id, Id::Ping | Id::Quit | Id::Reset);
        if subscribed && !allowed {
            let name = String::from_utf8_lossy(args[0]).to_lowercase();
            return Some(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            ));
        }
        None
    }

    /// The error of a command that writes, while keyfold refuses writes: memory is full, or the layout is in doubt. None where
    /// it may go on.
    fn refuse_write(&self, command: &Command, args: &[&[u8]], env: &Env<'_>) -> Option<String> {
        let takes_memory = || self.takes_memory(command, env.dialect());
        let is_full = |cache: &&Cache| {
            cache.is_full() && takes_memory() && self.reaches(command, args, |slot| cache.is_full_at(slot))
        };
        if let Some(cache) = env.cache.filter(is_full) {
            cache.count_refused();
            return Some("OOM command not allowed when used memory > 'maxmemory'.".to_owned());
        }
        if !env.layout.refuses_writes() {
            return None;
        }
        let is_script = matches!(command.id, Id::Eval | Id::Evalsha | Id::Fcall);
        let is_queued = command.id == Id::Exec
            && self.queue.as_ref().is_some_and(|queue| queue.holds(|queued| queued.flags.contains(Flags::WRITE)));
        (command.flags.contains(Flags::WRITE) || is_script || is_queued).then(|| {
            "READONLY keyfold takes no writes while its layout is in doubt (--read-only-in-doubt): it was lost and put \
             back, and it is being looked where its keys lie"
                .to_owned()
        })
    }

    /// Whether a server whose memory is full refuses it. To some what is queued takes memory, whatever it is
    /// (`processCommand`, server.c of Redis 7.0).
    fn takes_memory(&self, command: &Command, dialect: Dialect<'_>) -> bool {
        let takes_some = |command: &Command| command.flags.contains(Flags::DENYOOM);
        let Some(queue) = &self.queue else { return takes_some(command) };
        match command.id {
            Id::Exec => queue.holds(takes_some),
            Id::Discard | Id::Multi | Id::Watch | Id::Quit | Id::Reset => false,
            _ => takes_some(command) || !dialect.queues_reads_when_full(),
        }
    }

    /// Whether one of its keys, or of what is queued before it, lies in such a slot. What has none may go anywhere.
    pub(super) fn reaches(&self, command: &Command, args: &[&[u8]], is_such: impl Fn(Slot) -> bool) -> bool {
        let keys = command.keys_in(args);
        let own = keys.iter().filter_map(|key| args.get(key.index).copied());
        let queued = self.queue.iter().flat_map(|queue| &queue.commands).flat_map(Queued::keys);
        let mut all = own.chain(queued).peekable();
        all.peek().is_none() || all.any(|key| is_such(Slot::of(key)))
    }

    /// A command that no server known to us has: a module's, a newer one's, or a mistake.
    fn route_unknown(&self, args: &[&[u8]], env: &Env<'_>, effort: &mut Effort) -> Route {
        let Some(user) = &self.user else {
            return Route::error("NOAUTH Authentication required.");
        };
        if is_ambiguous(args[0]) {
            return Route::Unknown(unknown_command(args));
        }
        if let Some(error) = user.refuse_unknown(args[0]) {
            return Route::error(error);
        }
        self.route_unlisted(refused_unknown(args, env.layout), effort)
    }

    /// A subcommand that no server known to us has, of a command that they have and that the user may use.
    fn route_unknown_subcommand(&self, args: &[&[u8]], env: &Env<'_>, effort: &mut Effort) -> Route {
        if is_ambiguous(args[1]) {
            return Route::Unknown(unknown_command(args));
        }
        let may_run = self.user.as_ref().and_then(|user| user.refuse_unknown(args[0]));
        self.route_unlisted(may_run.or_else(|| refused_unknown(args, env.layout)), effort)
    }

    /// What isn't in the table, and is refused with this error where the server has it.
    fn route_unlisted(&self, refusal: Option<String>, effort: &mut Effort) -> Route {
        if refusal.is_some() || self.queue.is_some() {
            return Route::Probe { refusal };
        }
        // Nothing is known of it, so it is given time as a slow command.
        effort.patience = Patience::Slow;
        Route::PassOn
    }

    /// Commands on the connection and on the keyspace.
    fn route_session(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        env: &Env<'_>,
        effort: &mut Effort,
    ) -> Option<Route> {
        Some(match command.id {
            Id::Hello => match self.read_hello(args, env) {
                Ok(hello) => Route::Hello(hello),
                Err(HelloError::Password(name)) => Route::NotLetIn(name),
                Err(HelloError::Other(message)) => Route::error(message),
            },
            // What only tells of commands is the server's to answer.
            Id::ClientHelp | Id::AclCat | Id::AclGenpass | Id::AclHelp => return None,
            Id::Client => self.unblock_route(command, args).unwrap_or(Route::Local(command)),
            Id::Acl | Id::Auth | Id::Monitor | Id::Multi | Id::Quit => Route::Local(command),
            Id::Reset => self.route_reset(command),
            Id::Exec | Id::Discard => Route::error(format!("ERR {} without MULTI", command.name.to_uppercase())),
            Id::Unwatch if self.watched.is_none() => Route::Local(command),
            Id::Wait | Id::Waitaof => {
                effort.patience = Patience::with(command, args);
                Route::OnOwnLane(command.id)
            }
            Id::Watch | Id::Unwatch => Route::OnOwnLane(command.id),
            id if id.subscribes() => Route::OnOwnLane(id),
            Id::Select => Route::Select { database: parse_integer(args[1]).and_then(|number| number.try_into().ok()) },
            Id::ScriptKill | Id::FunctionKill => Route::Kill,
            Id::ScriptExists if !env.layout.is_empty() => Route::ScriptsExist,
            Id::CommandInfo | Id::CommandDocs | Id::CommandGetkeys | Id::CommandGetkeysandflags => {
                return self.route_about_commands(command, args, env);
            }
            Id::SlowlogGet | Id::SlowlogLen | Id::SlowlogReset | Id::LatencyHistogram => {
                if !command.arity_ok(args.len()) {
                    return Some(Route::error(wrong_arity(command)));
                }
                Route::Local(command)
            }
            Id::Info if args.len() == 2 && is_word(args[1], "keyfold") => Route::Local(command),
            Id::Flushall | Id::Flushdb => {
                effort.patience = Patience::with(command, args);
                Route::Keyspace(command.id)
            }
            Id::Scan | Id::Keys | Id::Dbsize | Id::Randomkey | Id::Info => Route::Keyspace(command.id),
            Id::Cluster | Id::ClusterHelp | Id::Clusterscan | Id::Readonly | Id::Readwrite | Id::Asking => {
                return self.route_cluster(command, args);
            }
            _ => return refused_always(command, args).map(Route::error),
        })
    }

    /// RESET, also within MULTI.
    fn route_reset(&self, command: &'static Command) -> Route {
        if self.has_own_state() { Route::OnOwnLane(Id::Reset) } else { Route::Local(command) }
    }

    /// Commands with keys, and all others.
    fn route_keys(&self, command: &'static Command, args: &[&[u8]], env: &Env<'_>, effort: &mut Effort) -> Route {
        effort.patience = Patience::with(command, args);
        if matches!(command.id, Id::Mset | Id::Msetnx) && args.len().is_multiple_of(2) {
            // A key without a value: the server says so before it looks at any, and a value is no key's name.
            return Route::PassOn;
        }
        let keys = command.keys_in(args);
        let mut places = match Places::locate(env.layout, &keys, args) {
            Ok(places) => places,
            Err(message) => return Route::error(message),
        };
        if let Some(cache) = env.cache.filter(|cache| cache.is_on() && asks_for_values(command)) {
            places.note_asked(&keys, args, cache, &mut effort.asked);
        }
        if let Some(error) = refused_patterns(command, &keys, args, env.layout) {
            return Route::error(error);
        }
        if command.id == Id::Debug
            && let Some(error) = refused_debug(args, env.layout)
        {
            return Route::error(error);
        }
        if command.id == Id::Swapdb && env.layout.moving().next().is_some() {
            return Route::error(
                "ERR keyfold: SWAPDB waits until keys have been moved, as the walk over them would miss some; try again later"
                    .to_owned(),
            );
        }
        if places.is_empty() {
            return Route::PassOn;
        }
        effort.touched.extend(places.folded().map(|(_, namespace)| namespace));
        if calls_script(command.id) {
            return match self.find_script(command, args, env) {
                Ok(Some(script)) => Route::Script { command: command.id, script: Some(script), places },
                Ok(None) => Route::PassOn,
                Err(message) => Route::error(message),
            };
        }
        if calls_function(command.id) {
            return Route::Script { command: command.id, script: None, places };
        }
        if places.hold_collections() {
            return self.route_collections(command, args, &keys, places, env, effort);
        }
        let Some(run) = command.run else {
            return self.route_foreign(command, args, &keys, places, env, effort);
        };
        if !command.arity_ok(args.len()) {
            return Route::error(wrong_arity(command));
        }
        effort.patience = Patience::with_keys(places.len());
        let server_has = command.server_has(args, env.dialect());
        let writes = command.flags.contains(Flags::WRITE);
        let command = FoldedCommand { id: command.id, run, writes, on_collections: false, needs_members: false };
        if places.are_moving() {
            return route_moving(command, args, places);
        }
        let is_native = |located: &Located| match located {
            Located::Placed(place) => place.kind.is_raw() || place.kind.is_framed() && leaves_values_alone(command.id),
            Located::Plain | Located::Reserved | Located::Moving(_) => true,
        };
        // What the server publishes of a short name means nothing to clients.
        let is_told = command.writes && self.notices().is_some();
        if places.iter().all(is_native) && !may_bring_another_type(command.id) && server_has && !is_told {
            return Route::Rewrite(places);
        }
        match places.take_only() {
            Some(place) => Route::One { command, place },
            None => Route::Many { command, places },
        }
    }

    /// A command of whose keys one holds a set or hash.
    fn route_collections(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &Keys,
        mut places: Places,
        env: &Env<'_>,
        effort: &mut Effort,
    ) -> Route {
        let Some(run) = command.run.or(command.members) else {
            return self.route_foreign(command, args, keys, places, env, effort);
        };
        if !command.arity_ok(args.len()) {
            return Route::error(wrong_arity(command));
        }
        if members::since(command.name).is_some_and(|since| !env.dialect().knows(since)) {
            // The server says that it has no such command.
            return Route::PassOn;
        }
        let are_large = || keys.iter().any(|key| env.stats.in_parts().has(args[key.index]));
        effort.patience = match reads_all_members(command) && are_large() {
            // Several of those that come at once take the server seconds.
            true => Patience::Slow,
            false => Patience::with_keys(places.len()),
        };
        let writes = command.flags.contains(Flags::WRITE);
        let is_one_step = steps_on_members(command);
        let needs_members = command.run.is_none() || matches!(command.id, Id::Rename | Id::Renamenx | Id::Copy);
        let command = FoldedCommand { id: command.id, run, writes, on_collections: true, needs_members };
        if command.id == Id::Copy && CopyCommand::read(args).is_ok_and(|copy| copy.database.is_some()) {
            return Route::error(
                "ERR keyfold: COPY to another database is not supported where a key is a folded set or hash",
            );
        }
        match is_one_step.then(|| places.take_only()).flatten() {
            Some(place) => Route::One { command, place },
            None => Route::Many { command, places },
        }
    }

    /// A command that isn't carried out here, on folded keys.
    fn route_foreign(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &Keys,
        places: Places,
        env: &Env<'_>,
        effort: &Effort,
    ) -> Route {
        let folded: Vec<usize> = places.folded().map(|(index, _)| index).collect();
        let Some((index, namespace)) = places.folded().min() else {
            return Route::PassOn;
        };
        let namespace = env.layout.namespace(namespace);
        let named = format!("'{}' belongs to the namespace {}", printable(args[index]), namespace.keys);
        let name = command.name.replace('|', " ").to_uppercase();
        if !works_on_one_type(command) {
            let instead = match namespace.collection() {
                None => "GET and SET",
                Some(CollectionKind::Set) => "SMEMBERS and SADD",
                Some(CollectionKind::Hash) => "HGETALL and HSET",
            };
            return Route::error(format!(
                "ERR keyfold: {name} is not supported on folded keys ({named}); use {instead}, or leave the namespace unfolded"
            ));
        }
        let overwrites = keys.iter().any(|key| key.access.contains(Access::OW) && folded.contains(&key.index));
        let would_create = keys.iter().any(|key| key.access.intersects(Access::CREATES) && folded.contains(&key.index))
            && !never_creates(command.id);
        let refusal = would_create.then(|| {
            let types = types_in(namespace.collection());
            format!("ERR keyfold: {name} would create a key of another type, but {named}, whose keys are {types}; use another key")
        });
        if overwrites && let Some(refusal) = refusal {
            return Route::error(refusal);
        }
        if effort.patience.blocks() && self.watched.is_some() {
            return Route::error(format!(
                "ERR keyfold: {name} on a folded key is not supported while keys are watched"
            ));
        }
        let writes_hyperloglog = command.categories.contains(Categories::HYPERLOGLOG | Categories::WRITE);
        let writes_by_several = command.flags.contains(Flags::WRITE) && keys.len() > 1 && !effort.patience.blocks();
        let waits_to_give = would_create && effort.patience.blocks();
        Route::Foreign {
            foreign: OnOtherType { folded, writes_hyperloglog, writes_by_several, waits_to_give, refusal },
            places,
        }
    }

    /// Within MULTI.
    fn route_queued(&self, command: &'static Command, args: &[&[u8]], env: &Env<'_>, effort: &mut Effort) -> Route {
        match command.id {
            Id::Exec => return self.route_exec(command, env, effort),
            Id::Discard if self.watched.is_some() => return Route::OnOwnLane(Id::Unwatch),
            Id::Discard | Id::Quit => return Route::Local(command),
            Id::Reset => return self.route_reset(command),
            // To Redis these two leave the queue as it is, to Valkey they spoil it.
            Id::Multi | Id::Watch if env.server.is_valkey() => {
                return Route::error(not_in_transaction(command.name, env.server));
            }
            Id::Multi => {
                return Route::Error { message: "ERR MULTI calls can not be nested".to_owned(), spoils: false };
            }
            Id::Watch => {
                return Route::Error { message: "ERR WATCH inside MULTI is not allowed".to_owned(), spoils: false };
            }
            Id::Select
            | Id::Auth
            | Id::Client
            | Id::ClientHelp
            | Id::Acl
            | Id::AclCat
            | Id::AclGenpass
            | Id::AclHelp
            | Id::Hello
            | Id::Monitor => {
                return Route::error(
                    "ERR keyfold: commands on the connection are not supported inside MULTI; send them before it",
                );
            }
            Id::SlowlogGet | Id::SlowlogLen | Id::SlowlogReset | Id::LatencyHistogram => {
                return Route::error(format!(
                    "ERR keyfold: {} is not supported inside MULTI; send it before it",
                    command.name.replace('|', " ").to_uppercase()
                ));
            }
            _ if command.flags.contains(Flags::NO_MULTI) => {
                return Route::error(not_in_transaction(command.name, env.server));
            }
            id if id.subscribes() => {
                return Route::error("ERR keyfold: subscribing inside MULTI is not supported; do it before");
            }
            Id::Scan | Id::Keys | Id::Dbsize | Id::Randomkey | Id::Flushall | Id::Flushdb if !env.layout.is_empty() => {
                return Route::error(
                    "ERR keyfold: commands on the whole keyspace are not supported inside MULTI while keys are folded",
                );
            }
            Id::Scan | Id::Keys | Id::Dbsize | Id::Randomkey | Id::Flushall | Id::Flushdb
                if self.front.before_cluster =>
            {
                return Route::error(
                    "ERR keyfold: commands on the whole keyspace are not supported inside MULTI before a cluster",
                );
            }
            Id::Cluster | Id::ClusterHelp | Id::Clusterscan | Id::Readonly | Id::Readwrite | Id::Asking
                if self.front.mode().is_some() =>
            {
                return Route::error(
                    "ERR keyfold: commands on the cluster are not supported inside MULTI; send them before it",
                );
            }
            _ => {
                if let Some(message) = refused_always(command, args) {
                    return Route::error(message);
                }
            }
        }
        match self.settle_queued(command, args, env, effort) {
            Err(message) => Route::error(message),
            // Its keys are plain, and the server's own word counts: whether there is such a command.
            Ok(queued)
                if !queued.names_folded && command.since.is_some() && !command.server_has(args, env.dialect()) =>
            {
                Route::Probe { refusal: None }
            }
            Ok(queued) => Route::Queue(queued),
        }
    }

    /// What a queued command with keys comes to under the layout of `env`.
    fn settle_queued(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        env: &Env<'_>,
        effort: &mut Effort,
    ) -> Result<Queued, String> {
        let route = self.route_keys(command, args, env, effort);
        let keys = command.keys_in(args).iter().map(|key| key.index).collect();
        let mut queued = Queued::passed(args, Some(command), keys);
        queued.names_folded = !matches!(route, Route::PassOn);
        queued.is_slow = effort.patience == Patience::Slow;
        match route {
            // That a script isn't known is said in its place among the answers.
            Route::Error { message, .. } if calls_script(command.id) && message == no_script(env.server) => {
                queued.script = Scripted::Failed(no_script(env.server).to_owned());
            }
            Route::Error { message, .. } => return Err(message),
            Route::One { command, .. } | Route::Many { command, .. } if command.on_collections => {
                (queued.folded, queued.on_collections) = (queued.names_folded, true);
            }
            Route::Script { script, .. } => queued.script = script.map_or(Scripted::Function, Scripted::Call),
            // What it reads of folded keys is shown to the server before EXEC, and so would be all that it writes.
            Route::Foreign { foreign, .. }
                if command.flags.contains(Flags::WRITE) && foreign.folded.len() < queued.keys.len() =>
            {
                return Err(format!(
                    "ERR keyfold: {} of a folded key and others is not supported in a transaction; send it outside",
                    command.name.to_uppercase()
                ));
            }
            Route::Foreign { foreign, .. } => {
                queued.folded = true;
                queued.keys.clone_from(&foreign.folded);
                queued.foreign = Some(foreign);
            }
            _ => queued.folded = queued.names_folded,
        }
        Ok(queued)
    }

    /// The same queue under the layout of `env`, where it was gathered under another.
    ///
    /// # Errors
    /// The error of a command that can't be carried out any more.
    pub(crate) fn requeue(&self, queue: Vec<Queued>, env: &Env<'_>) -> Result<Vec<Queued>, String> {
        let again = |queued: Queued| {
            let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
            match queued.command {
                // It was counted when it was queued.
                Some(command) => self.settle_queued(command, &args, env, &mut Effort::default()),
                None => refused_unknown(&args, env.layout).map_or_else(|| Ok(queued.clone()), Err),
            }
        };
        queue.into_iter().map(again).collect()
    }

    fn route_exec(&self, command: &'static Command, env: &Env<'_>, effort: &mut Effort) -> Route {
        let Some(queue) = self.queue.as_ref().filter(|queue| !queue.spoilt || self.watched.is_some()) else {
            return Route::Local(command);
        };
        if queue.is_slow() {
            effort.patience = Patience::Slow;
        }
        let is_old = queue.epoch != env.layout.epoch();
        Route::Exec { own: queue.needs_own_lane() || is_old || self.watched.is_some() }
    }
}

/// Whether a command on one folded set or hash is one look at it, or may be one call of the script on fields.
fn steps_on_members(command: &Command) -> bool {
    match command.id {
        Id::Sadd | Id::Srem | Id::Hset | Id::Hmset | Id::Hsetnx | Id::Hdel | Id::Hincrby => true,
        Id::Expire | Id::Pexpire | Id::Expireat | Id::Pexpireat | Id::Persist => true,
        // These draw.
        Id::Srandmember | Id::Hrandfield => false,
        _ => command.members.is_some() && !command.flags.contains(Flags::WRITE),
    }
}

/// Whether a command works on all members of its keys, and not only on those that it names or draws.
fn reads_all_members(command: &Command) -> bool {
    matches!(
        command.name,
        "smembers"
            | "hgetall"
            | "hkeys"
            | "hvals"
            | "sinter"
            | "sinterstore"
            | "sintercard"
            | "sunion"
            | "sunionstore"
            | "sdiff"
            | "sdiffstore"
            | "copy"
            | "dump"
    )
}

/// Whether a request names a folded key.
fn names_folded(command: &Command, args: &[&[u8]], layout: &Layout) -> bool {
    let is_folded = |located: Located| matches!(located, Located::Placed(_) | Located::Moving(_));
    command.keys_in(args).iter().any(|key| is_folded(layout.locate(args[key.index])))
}

/// A string command of whose keys one lies in one of two places: it is worked out, whatever it is.
fn route_moving(command: FoldedCommand, args: &[&[u8]], places: Places) -> Route {
    if command.id == Id::Copy && CopyCommand::read(args).is_ok_and(|copy| copy.database.is_some()) {
        let key = printable(args[1]);
        return Route::error(format!(
            "ERR keyfold: COPY to another database waits until the keys of '{key}' or its copy have been moved; try again later"
        ));
    }
    Route::Many { command, places }
}

/// Whether a command neither reads nor writes values, so that it makes no difference to it how these are stored.
fn leaves_values_alone(command: Id) -> bool {
    matches!(
        command,
        Id::Del
            | Id::Unlink
            | Id::Exists
            | Id::Touch
            | Id::Type
            | Id::Expire
            | Id::Pexpire
            | Id::Expireat
            | Id::Pexpireat
            | Id::Persist
            | Id::Ttl
            | Id::Pttl
            | Id::Expiretime
            | Id::Pexpiretime
    )
}

/// Whether a command of another type only changes what is there.
fn never_creates(command: Id) -> bool {
    matches!(command, Id::Linsert | Id::Lpushx | Id::Lset | Id::Rpushx | Id::XgroupSetid | Id::Xsetid)
}

/// Whether a command writes whatever type it finds or is given, so that keys of their own aren't safe from it.
fn may_bring_another_type(command: Id) -> bool {
    matches!(command, Id::Rename | Id::Renamenx | Id::Copy | Id::Restore)
}

/// Whether a command answers WRONGTYPE to a string, so that an absent folded key and an absent plain one are
/// the same to it.
fn works_on_one_type(command: &Command) -> bool {
    let typed = Categories::LIST
        | Categories::HASH
        | Categories::SET
        | Categories::SORTEDSET
        | Categories::STREAM
        | Categories::HYPERLOGLOG
        | Categories::GEO;
    command.categories.intersects(typed) && !command.categories.intersects(Categories::SCRIPTING)
}
