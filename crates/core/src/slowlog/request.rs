//! A request that was slow, as the log keeps it.

use crate::command::Command;
use crate::redaction::{REDACTED, shown_arguments};
use crate::resp::Answer;
use crate::slowlog::cut::{MOST_BYTES, cut};
use crate::stats::{CommandEnd, CommandWay};

/// The name that stands for a command that no known server has.
const UNKNOWN: &str = "unknown";

/// What was asked, cut, and without its secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskedArguments {
    args: Vec<Vec<u8>>,
    /// The first of its keys, where that isn't too long to be kept.
    pub(super) first_key: Option<Vec<u8>>,
}

impl AskedArguments {
    /// Of these arguments, the command's name first.
    pub(crate) fn of(command: Option<&Command>, args: &[&[u8]]) -> Self {
        let keys = command.filter(|command| command.arity_ok(args.len())).map(|command| command.keys_in(args));
        let first = keys.iter().flatten().next().and_then(|key| args.get(key.index));
        let first_key = first.filter(|key| key.len() <= MOST_BYTES && **key != REDACTED).map(|key| key.to_vec());
        Self { args: cut(&shown_arguments(command, args)), first_key }
    }

    #[cfg(test)]
    pub(super) fn shown_bytes(&self) -> usize {
        self.args.iter().map(Vec::len).sum()
    }

    /// Where the arguments aren't known any more: the command's name.
    pub(crate) fn of_name(command: Option<&Command>) -> Self {
        let name = command.map_or(UNKNOWN, |command| command.name).to_ascii_uppercase();
        Self { args: name.split('|').map(|word| word.as_bytes().to_vec()).collect(), first_key: None }
    }
}

/// A request that took long, from when it was its turn until it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// The command's name as tables have it, a subcommand's after a bar; `unknown` where no known server has it.
    pub command: &'static str,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// When it was answered, in milliseconds since 1970 by the server's clock.
    pub answered_ms: i64,
    /// The client's address.
    pub client: String,
    /// The name that the client has given itself.
    pub client_name: Vec<u8>,
    /// How it was carried out.
    pub way: CommandWay,
    /// How it ended.
    pub end: CommandEnd,
    pub(crate) asked: AskedArguments,
}

impl SlowRequest {
    /// Of a command that ended so.
    pub(crate) fn new(
        command: Option<&'static Command>,
        asked: AskedArguments,
        way: CommandWay,
        end: CommandEnd,
    ) -> Self {
        Self {
            command: command.map_or(UNKNOWN, |command| command.name),
            took_us: 0,
            answered_ms: 0,
            client: String::new(),
            client_name: Vec::new(),
            way,
            end,
            asked,
        }
    }

    /// The first of its keys, where it has any that isn't too long to be kept.
    pub fn first_key(&self) -> Option<&[u8]> {
        self.asked.first_key.as_deref()
    }

    /// Writes it as an entry of SLOWLOG GET, under this number.
    pub(super) fn write(&self, id: u64, answer: &mut Answer<'_>) {
        answer.array(6);
        answer.integer(i64::try_from(id).unwrap_or(i64::MAX));
        answer.integer(self.answered_ms.div_euclid(1000));
        answer.integer(i64::try_from(self.took_us).unwrap_or(i64::MAX));
        answer.array(self.asked.args.len());
        self.asked.args.iter().for_each(|arg| answer.bulk(arg));
        answer.bulk(self.client.as_bytes());
        answer.bulk(&self.client_name);
    }
}
