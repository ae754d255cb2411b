//! Which way a request goes: by its command, its keys, and the state of its client.

use smallvec::SmallVec;

use crate::command::{Access, Categories, Command, Flags, Id, Keys, table};
use crate::exchange::transaction::Queued;
use crate::exchange::{Env, OnOtherType};
use crate::layout::{Layout, Located, NamespaceIndex, Place};
use crate::number::parse_integer;
use crate::resp::word::{is_ambiguous, is_word};
use crate::session::hello::{Hello, HelloError};
use crate::session::patience::MANY_ARGS;
use crate::session::refusal::{
    is_http, not_in_transaction, printable, refused_always, refused_debug, refused_patterns, refused_unknown,
    unknown_command,
};
use crate::session::{Patience, Session};
use crate::string::{CopyCommand, Run};

/// The namespaces of the keys that a request names, one for each key.
pub(crate) type Touched = SmallVec<[NamespaceIndex; 1]>;

/// The way of one request.
#[derive(Debug)]
pub(crate) enum Route {
    /// An error, before anything is sent.
    Error(String),
    /// The same within MULTI, whose EXEC will fail for it.
    QueueError(String),
    /// The error reply of a command that no server has, or not for certain; within MULTI its EXEC will fail for it.
    Unknown(Vec<u8>),
    /// Answered from the session.
    Session(SessionCommand),
    /// CLIENT, or one of its subcommands.
    Client(&'static Command),
    /// ACL, or one of its subcommands.
    Acl(&'static Command),
    /// To the server as it came.
    PassOn {
        patience: Patience,
        alone: bool,
    },
    /// To the server, with the short names of zipped keys.
    Rewrite(Places),
    /// A string command on one key in a bucket.
    One {
        command: StringCommand,
        place: Place,
    },
    /// A string command on several keys, or on one that has to be looked at together with its type.
    Many {
        command: StringCommand,
        places: Places,
    },
    /// The same where one of the keys lies in one of two places.
    Moving {
        command: StringCommand,
        places: Places,
    },
    /// A command of another type that names folded keys.
    Foreign {
        foreign: OnOtherType,
        places: Places,
        patience: Patience,
    },
    Keyspace(KeyspaceCommand),
    Select {
        database: u32,
    },
    Watch,
    /// UNWATCH, or DISCARD of a client that watches.
    Unwatch,
    Exec {
        own: bool,
        patience: Patience,
    },
    /// Within MULTI: queued.
    Queue(Queued),
    /// A command that the table doesn't know: the server says whether there is one.
    Probe {
        refusal: Option<String>,
    },
    /// EXEC of a queue that can't be carried out: the error is the answer, and the queue is dropped.
    AbortExec {
        message: String,
        own: bool,
    },
    /// HELLO, once it is known to be right.
    Hello(Hello),
    /// HELLO with a wrong password for the user of this name.
    NotLetIn(Vec<u8>),
    /// WAIT and WAITAOF.
    Wait {
        patience: Patience,
    },
    Subscribe(Id),
    /// SCRIPT KILL and FUNCTION KILL.
    Kill,
    /// CLIENT UNBLOCK of a client that has a connection to the server to itself, by the server's number of it.
    Unblock {
        connection: i64,
        reason: &'static str,
    },
    /// RESET of a client with a lane of its own.
    Reset,
}

/// A string or key command on folded keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StringCommand {
    pub(crate) id: Id,
    pub(crate) run: Run,
    pub(crate) writes: bool,
}

/// What the session answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionCommand {
    Quit,
    /// It is no command but HTTP: the connection is closed without a word.
    HangUp,
    Auth,
    Reset,
    Monitor,
    Multi,
    Discard,
    Unwatch,
    InfoKeyfold,
    /// EXEC of a queue that an error has spoilt.
    ExecAbort,
}

/// A command on the whole keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyspaceCommand {
    Keys,
    Scan,
    Size,
    Random,
    Flush,
    Info,
}

impl Route {
    /// Whether the answer needs no server.
    pub(crate) fn is_local(&self) -> bool {
        matches!(
            self,
            Self::Error(_)
                | Self::QueueError(_)
                | Self::Unknown(_)
                | Self::NotLetIn(_)
                | Self::Session(_)
                | Self::Client(_)
                | Self::Acl(_)
                | Self::Queue(_)
        )
    }

    /// Whether it may leave state on the connection, or block it.
    pub(crate) fn needs_own_lane(&self) -> bool {
        match self {
            Self::PassOn { patience, .. } | Self::Foreign { patience, .. } => patience.blocks(),
            Self::Exec { own, .. } | Self::AbortExec { own, .. } => *own,
            Self::Watch | Self::Unwatch | Self::Wait { .. } | Self::Subscribe { .. } | Self::Reset => true,
            _ => false,
        }
    }

    /// How long the server may take over it.
    pub(crate) fn patience(&self) -> Patience {
        match self {
            Self::PassOn { patience, .. }
            | Self::Foreign { patience, .. }
            | Self::Exec { patience, .. }
            | Self::Wait { patience } => *patience,
            Self::Keyspace(KeyspaceCommand::Flush) => Patience::Slow,
            Self::Many { places, .. } if places.len() > MANY_ARGS / 2 => Patience::Slow,
            Self::Rewrite(places) if places.folded().count() > MANY_ARGS / 2 => Patience::Slow,
            _ => Patience::Prompt,
        }
    }

    /// Whether it goes to the server as it came, by no transaction of keyfold's own.
    pub(crate) fn only_passes_on(&self) -> bool {
        matches!(self, Self::PassOn { .. })
    }

    /// Whether it is refused before anything is sent.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Error(_) | Self::QueueError(_) | Self::Unknown(_) | Self::NotLetIn(_) | Self::AbortExec { .. }
        )
    }

    /// Whether all earlier requests must have been answered.
    pub(crate) fn alone(&self) -> bool {
        match self {
            Self::PassOn { patience, alone } => patience.blocks() || *alone,
            Self::Session(command) => *command == SessionCommand::Reset,
            Self::Keyspace(KeyspaceCommand::Flush) | Self::Hello(_) | Self::Select { .. } => true,
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
        touched: &mut Touched,
    ) -> (Option<&'static Command>, Route) {
        if is_http(args[0]) {
            return (None, Route::Session(SessionCommand::HangUp));
        }
        let Some(command) = table().lookup(args[0]) else {
            return (None, self.route_unknown(args, env));
        };
        if !command.arity_ok(args.len()) {
            return (Some(command), self.refuse_command(command, wrong_arity(command)));
        }
        let command = table().resolve(args).unwrap_or(command);
        (Some(command), self.route_command(command, args, env, touched))
    }

    fn route_command(&self, command: &'static Command, args: &[&[u8]], env: &Env<'_>, touched: &mut Touched) -> Route {
        // Outside a transaction whoever runs a subcommand says so.
        if self.queue.is_some() && !command.arity_ok(args.len()) {
            return self.error(wrong_arity(command));
        }
        if let Some(error) = self.refuse(command, args).or_else(|| self.refuse_write(command, env)) {
            return self.refuse_command(command, error);
        }
        if command.is_container && args.len() > 1 && command.id != Id::Client {
            return self.route_unknown_subcommand(args, env);
        }
        if self.queue.is_some() {
            return self.route_queued(command, args, env, touched);
        }
        if let Some(route) = self.route_session(command, args, env) {
            return route;
        }
        self.route_keys(command, args, env, touched)
    }

    /// An error that spoils the queue, where there is one.
    fn error(&self, message: String) -> Route {
        if self.queue.is_some() { Route::QueueError(message) } else { Route::Error(message) }
    }

    /// The error of a command that may not be sent as it is. Where that is EXEC the transaction ends here.
    fn refuse_command(&self, command: &Command, error: String) -> Route {
        if command.id != Id::Exec {
            return self.error(error);
        }
        let why = error.strip_prefix("ERR ").unwrap_or(&error);
        let message = format!("EXECABORT Transaction discarded because of: {why}");
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

    /// The error of a command that writes, while keyfold refuses writes; none where it may go on.
    fn refuse_write(&self, command: &Command, env: &Env<'_>) -> Option<String> {
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

    /// A command that no server known to us has: a module's, a newer one's, or a mistake.
    fn route_unknown(&self, args: &[&[u8]], env: &Env<'_>) -> Route {
        let Some(user) = &self.user else {
            return Route::Error("NOAUTH Authentication required.".to_owned());
        };
        if is_ambiguous(args[0]) {
            return Route::Unknown(unknown_command(args));
        }
        if let Some(error) = user.refuse_unknown(args[0]) {
            return self.error(error);
        }
        let refusal = refused_unknown(args, env.layout);
        if refusal.is_some() || self.queue.is_some() {
            return Route::Probe { refusal };
        }
        Route::PassOn { patience: Patience::Slow, alone: false }
    }

    /// A subcommand that no server known to us has, of a command that they have and that the user may use.
    fn route_unknown_subcommand(&self, args: &[&[u8]], env: &Env<'_>) -> Route {
        if is_ambiguous(args[1]) {
            return Route::Unknown(unknown_command(args));
        }
        let may_run = self.user.as_ref().and_then(|user| user.refuse_unknown(args[0]));
        let refusal = may_run.or_else(|| refused_unknown(args, env.layout));
        if refusal.is_some() || self.queue.is_some() {
            return Route::Probe { refusal };
        }
        // Nothing is known of it, so it is given time as a slow command.
        Route::PassOn { patience: Patience::Slow, alone: false }
    }

    /// Commands on the connection and on the keyspace.
    fn route_session(&self, command: &'static Command, args: &[&[u8]], env: &Env<'_>) -> Option<Route> {
        let session = |command| Some(Route::Session(command));
        match command.id {
            Id::Quit => session(SessionCommand::Quit),
            Id::Hello => Some(match self.read_hello(args, env) {
                Ok(hello) => Route::Hello(hello),
                Err(HelloError::Password(name)) => Route::NotLetIn(name),
                Err(HelloError::Other(message)) => Route::Error(message),
            }),
            Id::Auth => session(SessionCommand::Auth),
            // What only tells of commands is the server's to answer.
            Id::ClientHelp | Id::AclCat | Id::AclGenpass | Id::AclHelp => None,
            Id::Client => Some(self.unblock_route(command, args).unwrap_or(Route::Client(command))),
            Id::Acl => Some(Route::Acl(command)),
            Id::Multi => session(SessionCommand::Multi),
            Id::Reset if self.has_own_state() => Some(Route::Reset),
            Id::Reset => session(SessionCommand::Reset),
            Id::Exec => Some(Route::Error("ERR EXEC without MULTI".to_owned())),
            Id::Discard => Some(Route::Error("ERR DISCARD without MULTI".to_owned())),
            Id::Watch => Some(Route::Watch),
            Id::Unwatch if self.watched.is_some() => Some(Route::Unwatch),
            Id::Unwatch => session(SessionCommand::Unwatch),
            Id::Select => Some(route_select(args)),
            Id::Wait | Id::Waitaof => Some(Route::Wait { patience: Patience::with(command, args) }),
            id if id.subscribes() => Some(Route::Subscribe(id)),
            Id::Monitor => session(SessionCommand::Monitor),
            Id::ScriptKill | Id::FunctionKill => Some(Route::Kill),
            Id::Scan => Some(Route::Keyspace(KeyspaceCommand::Scan)),
            Id::Keys => Some(Route::Keyspace(KeyspaceCommand::Keys)),
            Id::Dbsize => Some(Route::Keyspace(KeyspaceCommand::Size)),
            Id::Randomkey => Some(Route::Keyspace(KeyspaceCommand::Random)),
            Id::Flushall | Id::Flushdb => Some(Route::Keyspace(KeyspaceCommand::Flush)),
            Id::Info if args.len() == 2 && is_word(args[1], "keyfold") => session(SessionCommand::InfoKeyfold),
            Id::Info => Some(Route::Keyspace(KeyspaceCommand::Info)),
            _ => refused_always(command, args).map(Route::Error),
        }
    }

    /// Commands with keys, and all others.
    fn route_keys(&self, command: &'static Command, args: &[&[u8]], env: &Env<'_>, touched: &mut Touched) -> Route {
        if matches!(command.id, Id::Mset | Id::Msetnx) && args.len().is_multiple_of(2) {
            // A key without a value: the server says so before it looks at any, and a value is no key's name.
            return Route::PassOn { patience: Patience::Prompt, alone: false };
        }
        let keys = command.keys_in(args);
        let mut places = match Places::locate(env.layout, &keys, args) {
            Ok(places) => places,
            Err(message) => return Route::Error(message),
        };
        if let Some(error) = refused_patterns(command, &keys, args, env.layout) {
            return Route::Error(error);
        }
        if command.id == Id::Debug
            && let Some(error) = refused_debug(args, env.layout)
        {
            return Route::Error(error);
        }
        if places.is_empty() {
            return Route::PassOn { patience: Patience::with(command, args), alone: false };
        }
        touched.extend(places.folded().map(|(_, namespace)| namespace));
        let (id, writes) = (command.id, command.flags.contains(Flags::WRITE));
        if command.run.is_some() && !command.arity_ok(args.len()) {
            return Route::Error(wrong_arity(command));
        }
        let Some(command) = command.run.map(|run| StringCommand { id, run, writes }) else {
            return self.route_foreign(command, args, &keys, places, env);
        };
        if places.are_moving() {
            return route_moving(command, args, places);
        }
        let is_native = |located: &Located| match located {
            Located::Placed(place) => place.kind.is_raw() || place.kind.is_framed() && leaves_values_alone(id),
            Located::Plain | Located::Reserved | Located::Moving(_) => true,
        };
        if places.0.iter().all(|(_, located)| is_native(located)) && !may_bring_another_type(id) {
            return Route::Rewrite(places);
        }
        match places.0.pop() {
            Some((1, Located::Placed(place))) if places.is_empty() => Route::One { command, place },
            last => {
                places.0.extend(last);
                Route::Many { command, places }
            }
        }
    }

    /// A command that is no string command, on folded keys.
    fn route_foreign(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &Keys,
        places: Places,
        env: &Env<'_>,
    ) -> Route {
        let folded: Vec<usize> = places.folded().map(|(index, _)| index).collect();
        let Some((index, namespace)) = places.folded().min() else {
            return Route::PassOn { patience: Patience::with(command, args), alone: false };
        };
        let namespace = &env.layout.namespace(namespace).template;
        let named = format!("'{}' belongs to the namespace {namespace}", printable(args[index]));
        let name = command.name.replace('|', " ").to_uppercase();
        if !works_on_one_type(command) {
            return Route::Error(format!(
                "ERR keyfold: {name} is not supported on folded keys ({named}); use GET and SET, or leave the namespace unfolded"
            ));
        }
        let creates = Access::INSERT | Access::UPDATE | Access::OW;
        let overwrites = keys.iter().any(|key| key.access.contains(Access::OW) && folded.contains(&key.index));
        let would_create = keys.iter().any(|key| key.access.intersects(creates) && folded.contains(&key.index))
            && !never_creates(command.id);
        let refusal = would_create.then(|| {
            format!("ERR keyfold: {name} would create a key of another type, but {named}, whose keys are strings; use another key")
        });
        if overwrites && let Some(refusal) = refusal {
            return Route::Error(refusal);
        }
        let patience = Patience::with(command, args);
        if patience.blocks() && self.watched.is_some() {
            return Route::Error(format!(
                "ERR keyfold: {name} on a folded key is not supported while keys are watched"
            ));
        }
        let writes_hyperloglog = command.categories.contains(Categories::HYPERLOGLOG | Categories::WRITE);
        Route::Foreign { foreign: OnOtherType { folded, writes_hyperloglog, refusal }, places, patience }
    }

    /// Within MULTI.
    fn route_queued(&self, command: &'static Command, args: &[&[u8]], env: &Env<'_>, touched: &mut Touched) -> Route {
        let error = |message: &str| Route::QueueError(message.to_owned());
        match command.id {
            Id::Exec => return self.route_exec(env),
            Id::Discard if self.watched.is_some() => return Route::Unwatch,
            Id::Discard => return Route::Session(SessionCommand::Discard),
            Id::Quit => return Route::Session(SessionCommand::Quit),
            Id::Reset if self.has_own_state() => return Route::Reset,
            Id::Reset => return Route::Session(SessionCommand::Reset),
            // To Redis these two leave the queue as it is, to Valkey they spoil it.
            Id::Multi | Id::Watch if env.server.is_valkey() => {
                return Route::QueueError(not_in_transaction(command.name, env.server));
            }
            Id::Multi => return Route::Error("ERR MULTI calls can not be nested".to_owned()),
            Id::Watch => return Route::Error("ERR WATCH inside MULTI is not allowed".to_owned()),
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
                return error(
                    "ERR keyfold: commands on the connection are not supported inside MULTI; send them before it",
                );
            }
            _ if command.flags.contains(Flags::NO_MULTI) => {
                return Route::QueueError(not_in_transaction(command.name, env.server));
            }
            id if id.subscribes() => {
                return error("ERR keyfold: subscribing inside MULTI is not supported; do it before");
            }
            Id::Scan | Id::Keys | Id::Dbsize | Id::Randomkey | Id::Flushall | Id::Flushdb if !env.layout.is_empty() => {
                return error(
                    "ERR keyfold: commands on the whole keyspace are not supported inside MULTI while keys are folded",
                );
            }
            _ => {
                if let Some(message) = refused_always(command, args) {
                    return Route::QueueError(message);
                }
            }
        }
        match self.settle_queued(command, args, env, touched) {
            Err(message) => Route::QueueError(message),
            Ok(queued) => Route::Queue(queued),
        }
    }

    /// What a queued command with keys comes to under the layout of `env`.
    fn settle_queued(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        env: &Env<'_>,
        touched: &mut Touched,
    ) -> Result<Queued, String> {
        let route = match self.route_keys(command, args, env, touched) {
            Route::Error(message) => return Err(message),
            route => route,
        };
        let keys = command.keys_in(args).iter().map(|key| key.index).collect();
        let mut queued = Queued::passed(args, Some(command), keys);
        queued.folded = !matches!(route, Route::PassOn { .. });
        queued.is_slow = route.patience() == Patience::Slow;
        if let Route::Foreign { foreign, .. } = route {
            queued.keys.clone_from(&foreign.folded);
            queued.foreign = Some(foreign);
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
                Some(command) => self.settle_queued(command, &args, env, &mut Touched::new()),
                None => refused_unknown(&args, env.layout).map_or_else(|| Ok(queued.clone()), Err),
            }
        };
        queue.into_iter().map(again).collect()
    }

    fn route_exec(&self, env: &Env<'_>) -> Route {
        match &self.queue {
            Some(queue) if queue.spoilt && self.watched.is_none() => Route::Session(SessionCommand::ExecAbort),
            Some(queue) => {
                let is_old = queue.epoch != env.layout.epoch();
                let patience = if queue.is_slow() { Patience::Slow } else { Patience::Prompt };
                Route::Exec { own: queue.needs_own_lane() || is_old || self.watched.is_some(), patience }
            }
            None => Route::Error("ERR EXEC without MULTI".to_owned()),
        }
    }
}

fn route_select(args: &[&[u8]]) -> Route {
    match parse_integer(args[1]).and_then(|database| u32::try_from(database).ok()) {
        Some(database) => Route::Select { database },
        // The server says what is wrong with it; nothing is selected.
        None => Route::PassOn { patience: Patience::Prompt, alone: true },
    }
}

/// Where the keys of a request lie, each with its position among the arguments and in the order in which the command
/// names them. Empty where all are plain, as most are that don't concern keyfold.
#[derive(Debug)]
pub(crate) struct Places(SmallVec<[(usize, Located); 1]>);

impl Places {
    fn locate(layout: &Layout, keys: &Keys, args: &[&[u8]]) -> Result<Self, String> {
        let mut found = SmallVec::new();
        for (nth, key) in keys.iter().enumerate() {
            let located = layout.locate(args[key.index]);
            match located {
                Located::Plain if found.is_empty() => continue,
                Located::Plain | Located::Placed(_) | Located::Moving(_) => {}
                Located::Reserved if layout.packing_in(args[key.index]).is_some() => {
                    return Err(format!(
                        "ERR keyfold: keys are being moved out of the hash '{}', and clients can't use it any more; use the keys that it holds",
                        printable(args[key.index])
                    ));
                }
                Located::Reserved => {
                    return Err(format!(
                        "ERR keyfold: '{}' starts with a prefix that keyfold keeps for itself ('~' and 'keyfold:'); use another name",
                        printable(args[key.index])
                    ));
                }
            }
            if found.is_empty() {
                found.extend(keys.iter().take(nth).map(|plain| (plain.index, Located::Plain)));
            }
            found.push((key.index, located));
        }
        Ok(Self(found))
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys with their places.
    pub(crate) fn of<'a>(&self, args: &[&'a [u8]]) -> impl Iterator<Item = (&'a [u8], Located)> {
        self.0.iter().map(|(index, located)| (args[*index], located.clone()))
    }

    /// The same without the plain ones.
    pub(crate) fn folded_of<'a>(&self, args: &[&'a [u8]]) -> impl Iterator<Item = (&'a [u8], Located)> {
        self.of(args).filter(|(_, located)| *located != Located::Plain)
    }

    /// The arguments with the physical names of zipped keys.
    pub(crate) fn renamed<'a>(&'a self, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let mut renamed = args.to_vec();
        for (index, located) in &self.0 {
            if let Located::Placed(place) = located {
                renamed[*index] = &place.physical;
            }
        }
        renamed
    }

    /// The positions and the namespaces of the keys that have one.
    fn folded(&self) -> impl Iterator<Item = (usize, NamespaceIndex)> {
        self.0.iter().filter_map(|(index, located)| Some((*index, located.namespace()?)))
    }

    /// Whether one of the keys lies in one of two places.
    fn are_moving(&self) -> bool {
        self.0.iter().any(|(_, located)| matches!(located, Located::Moving(_)))
    }
}

/// A string command of whose keys one lies in one of two places: it is worked out, whatever it is.
fn route_moving(command: StringCommand, args: &[&[u8]], places: Places) -> Route {
    if command.id == Id::Copy && CopyCommand::read(args).is_some_and(|copy| copy.database.is_some()) {
        let key = printable(args[1]);
        return Route::Error(format!(
            "ERR keyfold: COPY to another database waits until the keys of '{key}' or its copy have been moved; try again later"
        ));
    }
    Route::Moving { command, places }
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

pub(crate) fn wrong_arity(command: &Command) -> String {
    format!("ERR wrong number of arguments for '{}' command", command.name)
}
