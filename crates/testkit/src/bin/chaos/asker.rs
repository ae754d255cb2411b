//! Whom commands are sent to: a keyfold, or the cluster by a plain client; and what came of each.

use std::net::SocketAddr;
use std::time::Duration;

use keyfold_core::resp::write_command;
use keyfold_testkit::Wire;
use keyfold_testkit::cluster::{CallError, PlainClient};
use keyfold_testkit::reply::Value;
use keyfold_testkit::wire::WireError;

/// keyfold bounds all that it waits for; what takes longer is no answer any more.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// How long a plain client waits for one answer, and for one command: what a keyfold does by its defaults.
const PLAIN_LIMITS: (Duration, Duration) = (Duration::from_millis(1500), Duration::from_secs(2));
/// Codes of errors with which a server, or keyfold for it, says that nothing was done.
const NOT_DONE: [&str; 5] = ["CLUSTERDOWN ", "TRYAGAIN ", "LOADING ", "MASTERDOWN ", "READONLY "];
/// Words of keyfold's own errors that say so: it works nothing out that it can't write.
const NOT_WRITTEN: &str = "nothing was written";
/// A plain client whose patience has ended says where it was sent last. Through a keyfold such an answer is wrong.
const PLAIN_NOT_DONE: [&str; 2] = ["MOVED ", "ASK "];

/// What came of a command.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Its answer.
    Answer(Value),
    /// It was not carried out, as is said.
    NotDone(String),
    /// It may have been carried out, as is said or as a lost connection leaves it.
    Maybe(String),
    /// An error that doesn't say which of the two, or no answer though nothing was lost.
    Unclear(String),
}

/// A client of one of the two sides.
pub(crate) enum Asker {
    Plain(Box<PlainClient>),
    Keyfold { address: SocketAddr, wire: Option<Wire> },
}

impl Asker {
    /// A client of a keyfold.
    pub(crate) fn of_keyfold(address: SocketAddr) -> Self {
        Self::Keyfold { address, wire: None }
    }

    /// A plain client of the cluster, as patient as a keyfold.
    pub(crate) fn plain(mut client: PlainClient) -> Self {
        client.set_limits(PLAIN_LIMITS.0, PLAIN_LIMITS.1);
        Self::Plain(Box::new(client))
    }

    /// Whether commands may name keys of several slots.
    pub(crate) fn spans_slots(&self) -> bool {
        matches!(self, Self::Keyfold { .. })
    }

    /// Sends a command and waits for what comes of it. The key is the first that the command names.
    pub(crate) fn call(&mut self, key: &[u8], args: &[&[u8]]) -> Outcome {
        match self {
            Self::Plain(client) => judge_plain(client.call(key, args)),
            Self::Keyfold { .. } => self.talk(|wire| wire.ask(args)),
        }
    }

    /// The same of commands on keys of this one's slot, between MULTI and EXEC; what comes of EXEC.
    pub(crate) fn transact(&mut self, key: &[u8], commands: &[&[&[u8]]]) -> Outcome {
        match self {
            Self::Plain(client) => judge_plain(client.transact(key, commands)),
            Self::Keyfold { .. } => self.talk(|wire| wire.transact(commands)),
        }
    }

    /// Sends commands one behind the other, all at once through a keyfold, and waits for what comes of each. Each has its
    /// first key behind its name.
    pub(crate) fn pipeline(&mut self, commands: &[Vec<&[u8]>]) -> Vec<Outcome> {
        if matches!(self, Self::Plain(_)) {
            return commands.iter().map(|args| self.call(args[1], args)).collect();
        }
        let mut requests = Vec::new();
        commands.iter().for_each(|args| write_command(&mut requests, args));
        let mut is_lost = false;
        let receive = |number: usize| {
            if is_lost {
                return Outcome::Maybe("keyfold's connection was lost".to_owned());
            }
            let outcome = self.talk(|wire| {
                if number == 0 {
                    wire.send_bytes(&requests)?;
                }
                Ok(Value::parse(&wire.reply()?)?)
            });
            is_lost = matches!(self, Self::Keyfold { wire: None, .. });
            outcome
        };
        (0..commands.len()).map(receive).collect()
    }

    /// Asks a keyfold, by a new connection where there is none.
    fn talk(&mut self, ask: impl FnOnce(&mut Wire) -> Result<Value, WireError>) -> Outcome {
        let Self::Keyfold { address, wire } = self else { return Outcome::Unclear("this is no keyfold".to_owned()) };
        if wire.is_none() {
            *wire = Wire::connect(*address).ok().filter(|wire| wire.set_timeout(ANSWERED_WITHIN).is_ok());
        }
        let Some(connection) = wire else { return Outcome::NotDone("no connection to keyfold".to_owned()) };
        match ask(connection) {
            Ok(value) => judge(value, &[]),
            Err(error) => {
                *wire = None;
                match error {
                    WireError::Timeout(_) => Outcome::Unclear("keyfold is silent".to_owned()),
                    _ => Outcome::Maybe("keyfold's connection was lost".to_owned()),
                }
            }
        }
    }
}

fn judge_plain(called: Result<Value, CallError>) -> Outcome {
    match called {
        Ok(value) => judge(value, &PLAIN_NOT_DONE),
        Err(error @ CallError::Lost { .. }) => Outcome::Maybe(error_kind(&error)),
        Err(error @ CallError::Nobody { .. }) => Outcome::NotDone(error_kind(&error)),
    }
}

/// Takes an answer for what it says. Errors of these kinds say that nothing was done, beside those that always do.
fn judge(value: Value, not_done: &[&str]) -> Outcome {
    let Value::Error(error) = value else { return Outcome::Answer(value) };
    let text = String::from_utf8_lossy(&error).into_owned();
    if text.contains("may or may not have been carried out") {
        Outcome::Maybe(text)
    } else if NOT_DONE.iter().chain(not_done).any(|code| text.starts_with(code)) || text.contains(NOT_WRITTEN) {
        Outcome::NotDone(text)
    } else {
        Outcome::Unclear(text)
    }
}

fn error_kind(error: &CallError) -> String {
    match error {
        CallError::Lost { .. } => "the node's connection was lost".to_owned(),
        CallError::Nobody { .. } => "nobody has the slot".to_owned(),
    }
}
