//! Whom commands are sent to: a keyfold, or the cluster by a plain client; and what came of each.

use std::net::SocketAddr;
use std::time::Duration;

use keyfold_testkit::Wire;
use keyfold_testkit::cluster::{CallError, PlainClient};
use keyfold_testkit::reply::Value;

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
            Self::Plain(client) => match client.call(key, args) {
                Ok(value) => judge(value, &PLAIN_NOT_DONE),
                Err(error @ CallError::Lost { .. }) => Outcome::Maybe(error_kind(&error)),
                Err(error @ CallError::Nobody { .. }) => Outcome::NotDone(error_kind(&error)),
            },
            Self::Keyfold { address, wire } => {
                let Some(connection) = wire else {
                    return match Wire::connect(*address) {
                        Ok(connection) => {
                            let _ = connection.set_timeout(ANSWERED_WITHIN);
                            *wire = Some(connection);
                            self.call(key, args)
                        }
                        Err(_) => Outcome::NotDone("no connection to keyfold".to_owned()),
                    };
                };
                match connection.ask(args) {
                    Ok(value) => judge(value, &[]),
                    Err(error) => {
                        *wire = None;
                        match error {
                            keyfold_testkit::wire::WireError::Timeout(_) => {
                                Outcome::Unclear("keyfold is silent".to_owned())
                            }
                            _ => Outcome::Maybe("keyfold's connection was lost".to_owned()),
                        }
                    }
                }
            }
        }
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
