//! One client's connection: what it has chosen (database, protocol, user), and what each of its requests
//! needs from the server.
//!
//! A request goes through here in two steps, because between them the driver may have to wait or to open a
//! connection: [`Session::plan`] says which lane it needs and whether all earlier requests of this client
//! must have been answered first; [`Session::begin`] then starts it.

use crate::exchange::{Effect, Env, Exchange, Io};
use crate::resp::{Answer, Protocol, write_command};

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

/// A client's session.
#[derive(Debug, Default)]
pub struct Session {
    protocol: Protocol,
    database: u32,
}

impl Session {
    /// A session of a client that has just come, in the database that clients start in.
    pub fn starting_in(database: u32) -> Self {
        Self { database, ..Self::default() }
    }

    /// The protocol the client speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Says what a request needs. Cheap; may be called again for the same request.
    pub fn plan(&self, args: &[&[u8]], _env: &Env<'_>) -> Plan {
        let local = args[0].eq_ignore_ascii_case(b"quit");
        let lane = if local { Lane::Local } else { Lane::Shared { database: self.database, protocol: self.protocol } };
        Plan { lane, alone: false }
    }

    /// Starts a request whose plan has been met. `raw` is the request as it came, where it was an array;
    /// none for an inline command.
    pub fn begin(
        &mut self,
        _plan: &Plan,
        args: &[&[u8]],
        raw: Option<&[u8]>,
        _env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Begun {
        if args[0].eq_ignore_ascii_case(b"quit") {
            Answer::new(io.answer, self.protocol).ok();
            return Begun::Close;
        }
        match raw {
            Some(raw) => io.wire.extend_from_slice(raw),
            None => write_command(io.wire, args),
        }
        Begun::Sent { exchange: Exchange::PassOn, replies: 1, hold: false }
    }

    /// Applies what a finished exchange changed.
    pub fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Database(database) => self.database = database,
            Effect::Protocol(protocol) => self.protocol = protocol,
        }
    }

    /// Says that a request that was planned can't begin, or that its exchange was dropped, because the
    /// server is away: the session forgets what lived on the lost connection, and writes the error that the
    /// client gets.
    pub fn server_lost(&mut self, _lane: Lane, reason: &str, answer: &mut Vec<u8>) {
        Answer::new(answer, self.protocol).error(&format!("ERR keyfold: {reason}"));
    }

    /// Looks at a reply that came on the client's own lane, before any exchange does: true when it is a push
    /// (a pub/sub message, a confirmation, a line of MONITOR), which goes to the client as it is.
    pub fn handle_push(&mut self, reply: &[u8]) -> bool {
        reply.first() == Some(&b'>')
    }

    /// Whether confirmations of a SUBSCRIBE or UNSUBSCRIBE are still to come.
    pub fn awaits_pushes(&self) -> bool {
        false
    }

    /// Whether the client's own lane holds no state any more (no WATCH, no subscription): another client may
    /// have the connection.
    pub fn own_lane_is_clean(&self) -> bool {
        true
    }
}
