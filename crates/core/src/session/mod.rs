//! One client's connection: what it has chosen (database, protocol, user), and what each of its requests
//! needs from the server.
//!
//! A request goes through here in two steps, because between them the driver may have to wait or to open a
//! connection: [`Session::plan`] says which lane it needs and whether all earlier requests of this client
//! must have been answered first; [`Session::begin`] then starts it.
//!
//! The answers of one client keep the order of its requests, and so do their effects: a request that may
//! write in a second round trip holds back those behind it, and so does a change of lane.

mod begin;
mod client_command;
mod hello;
mod queue;
mod route;
mod subscriptions;

use std::sync::Arc;

use crate::access::User;
use crate::exchange::{Effect, Env, Exchange, Watched};
use crate::resp::{Answer, Protocol};
use client_command::ReplyMode;
pub(crate) use hello::answer_hello;
use queue::Queue;
use route::Route;
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
    /// The client's own, in this database and protocol: it has state that others must not see.
    Own {
        /// The database selected on it when it is opened.
        database: u32,
        /// The protocol it speaks when it is opened.
        protocol: Protocol,
    },
}

/// What a request needs before it can begin.
#[derive(Debug)]
pub struct Plan {
    /// The connection it travels on.
    pub lane: Lane,
    /// All earlier requests of this client must have been answered first.
    pub alone: bool,
    route: Route,
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
        /// No later request of this client may begin before this one is answered.
        hold: bool,
    },
    /// Commands were written whose replies come as pushes ([`Session::handle_push`]), such as SUBSCRIBE. No
    /// later request of this client may begin while [`Session::awaits_pushes`].
    Pushes,
    /// The answer is written; the connection is to be closed once it is sent.
    Close,
}

/// Who a client is to the proxy.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// A number of its own, as CLIENT ID answers it.
    pub id: u64,
    /// Its address, as CLIENT INFO shows it.
    pub address: String,
    /// The address it connected to.
    pub local_address: String,
    /// The database it starts in, and comes back to by RESET.
    pub database: u32,
}

/// A client's session.
#[derive(Debug)]
pub struct Session {
    peer: Peer,
    protocol: Protocol,
    database: u32,
    user: Option<Arc<User>>,
    /// Who it was before it said so, and is again after RESET.
    initial_user: Option<Arc<User>>,
    name: Vec<u8>,
    library: (Vec<u8>, Vec<u8>),
    reply_mode: ReplyMode,
    queue: Option<Queue>,
    /// What is watched on the client's own lane.
    watched: Option<Watched>,
    subscriptions: Subscriptions,
    /// The lane of the last request that had one.
    lane: Lane,
}

impl Session {
    /// The session of a client that has just connected.
    pub fn new(peer: Peer, env: &Env<'_>) -> Self {
        Self {
            database: peer.database,
            peer,
            protocol: Protocol::Resp2,
            user: env.users.initial(),
            initial_user: env.users.initial(),
            name: Vec::new(),
            library: (Vec::new(), Vec::new()),
            reply_mode: ReplyMode::On,
            queue: None,
            watched: None,
            subscriptions: Subscriptions::default(),
            lane: Lane::Local,
        }
    }

    /// The protocol the client speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether the client has said who it is, where it must.
    pub fn is_authenticated(&self) -> bool {
        self.user.is_some()
    }

    /// Says what a request needs. Cheap; may be called again for the same request.
    pub fn plan(&self, args: &[&[u8]], env: &Env<'_>) -> Plan {
        let route = self.route(args, env);
        let lane = self.lane_of(&route);
        let alone = route.alone() || (lane != Lane::Local && self.lane != Lane::Local && lane != self.lane);
        Plan { lane, alone, route }
    }

    fn lane_of(&self, route: &Route) -> Lane {
        let (database, protocol) = (self.database, self.protocol);
        if let Route::Hello { protocol } = route {
            Lane::Shared { database, protocol: *protocol }
        } else if route.is_local() {
            Lane::Local
        } else if route.needs_own_lane() || self.hears_only_pushes() {
            Lane::Own { database, protocol }
        } else {
            Lane::Shared { database, protocol }
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
            Effect::Watching(more) => match &mut self.watched {
                Some(watched) => watched.add(more),
                None => self.watched = Some(more),
            },
            Effect::SpoilQueue => self.queue.iter_mut().for_each(|queue| queue.spoilt = true),
            Effect::Unwatched => self.watched = None,
            Effect::Reset => self.reset(),
        }
    }

    fn reset(&mut self) {
        self.protocol = Protocol::Resp2;
        self.database = self.peer.database;
        self.user.clone_from(&self.initial_user);
        self.name.clear();
        self.reply_mode = ReplyMode::On;
        self.queue = None;
        self.watched = None;
        self.subscriptions = Subscriptions::default();
    }

    /// Says that a request that was planned can't begin, or that its exchange was dropped, because the
    /// server is away: the session forgets what lived on the lost connection, and writes the error that the
    /// client gets.
    pub fn server_lost(&mut self, lane: Lane, reason: &str, answer: &mut Vec<u8>) {
        if matches!(lane, Lane::Own { .. }) {
            self.watched = None;
            self.subscriptions = Subscriptions::default();
        }
        Answer::new(answer, self.protocol).error(&format!("ERR keyfold: {reason}"));
    }

    /// Looks at a reply that came on the client's own lane, before any exchange does: true when it is a push
    /// (a pub/sub message, a confirmation, a line of MONITOR), which goes to the client as it is.
    pub fn handle_push(&mut self, reply: &[u8]) -> bool {
        self.subscriptions.handle_push(reply, self.protocol)
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

    /// Whether the client's own lane holds no state any more (no WATCH, no subscription): another client may
    /// have the connection.
    pub fn own_lane_is_clean(&self) -> bool {
        !self.has_own_state()
    }
}
