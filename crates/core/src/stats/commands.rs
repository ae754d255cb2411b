//! Commands by the way that each went, how it ended, and how long it took.
//!
//! Each thread that drives conversations counts for itself. Room for a command's numbers is made when it comes for the
//! first time, so that what nobody sends costs a pointer; there is as much of it as the table has commands, however many
//! names clients make up.

use std::sync::OnceLock;

use super::{Counter, Durations, Histogram, NativeDurations};
use crate::command::{Command, Flags, table};

crate::named! {
    /// How a command was carried out.
    pub enum CommandWay {
        /// Answered here, by what keyfold knows.
        Local = "local",
        /// Within MULTI: it waits for EXEC, with which it is carried out.
        Queued = "queued",
        /// On folded keys, by the hash command that does the same.
        Native = "native",
        /// On one folded key, by a short script of keyfold's own.
        Script = "script",
        /// On folded keys that were read, worked on here, and written back where nobody else was quicker.
        WorkedOut = "worked_out",
        /// A user's script or function on folded keys.
        UserScript = "user_script",
        /// EXEC.
        Transaction = "transaction",
        /// On the whole keyspace: SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHALL, INFO.
        Keyspace = "keyspace",
        /// By several nodes of a cluster, each a part of it.
        Parts = "parts",
        /// As it came; zipped keys by their short names.
        PassedOn = "passed_on",
    }
}

crate::named! {
    /// How a command ended.
    pub enum CommandEnd {
        /// With an answer that is no error.
        Ok = "ok",
        /// With an error, mostly the server's.
        Error = "error",
        /// keyfold did not carry it out: it may not be sent, is none, or could not be right on folded keys.
        Refused = "refused",
        /// The server was away, or the connection to it was lost.
        Unavailable = "unavailable",
    }
}

/// The name that stands for all commands that no known server has.
const OTHER: &str = "other";

/// What one thread has counted.
#[derive(Debug)]
pub struct CommandStats {
    /// One for each command of the table, and one for all others.
    rows: Box<[OnceLock<Box<Row>>]>,
}

#[derive(Debug, Default)]
struct Row {
    ends: [[Counter; CommandEnd::ALL.len()]; CommandWay::ALL.len()],
    durations: Histogram,
}

/// What several threads have counted of one command.
#[derive(Clone, Debug)]
pub struct CommandCounts {
    /// Its name, a subcommand's after its container's and a bar; `other` for all that no known server has.
    pub name: &'static str,
    /// How long those took that were not refused or queued.
    pub durations: Durations,
    /// The same by finer buckets.
    pub native: NativeDurations,
    ends: [[u64; CommandEnd::ALL.len()]; CommandWay::ALL.len()],
}

impl Default for CommandStats {
    fn default() -> Self {
        Self { rows: (0..=table().len()).map(|_| OnceLock::new()).collect() }
    }
}

impl CommandStats {
    /// Counts a command that has ended, and what it took where that tells something.
    pub(crate) fn count(
        &self,
        command: Option<&'static Command>,
        way: CommandWay,
        end: CommandEnd,
        took_us: Option<u64>,
    ) {
        let row = self.rows[command.map_or(self.rows.len() - 1, Command::index)].get_or_init(Box::default);
        row.ends[way as usize][end as usize].add(1);
        if let Some(took_us) = took_us {
            row.durations.note(took_us);
        }
    }

    /// How long commands took, those left out that may wait for what other clients do (BLPOP, WAIT …): their time says
    /// nothing of keyfold or the server.
    pub fn durations(&self) -> Durations {
        let mut all = Durations::default();
        let prompt = table().iter().map(|command| !command.flags.contains(Flags::BLOCKING)).chain([true]);
        let rows = self.rows.iter().zip(prompt).filter(|(_, is_prompt)| *is_prompt);
        rows.filter_map(|(row, _)| row.get()).for_each(|row| all.add(&row.durations));
        all
    }

    /// Adds up what several threads have counted: all commands that came.
    pub fn sum(all: &[&Self]) -> Vec<CommandCounts> {
        let names = table().iter().map(|command| command.name).chain([OTHER]);
        let of_command = |(index, name): (usize, &'static str)| {
            let mut rows = all.iter().filter_map(|stats| stats.rows[index].get()).peekable();
            rows.peek()?;
            let (durations, native, ends) = Default::default();
            let mut counts = CommandCounts { name, durations, native, ends };
            rows.for_each(|row| counts.add(row));
            Some(counts)
        };
        names.enumerate().filter_map(of_command).collect()
    }
}

impl CommandCounts {
    fn add(&mut self, row: &Row) {
        self.durations.add(&row.durations);
        self.native.add(&row.durations);
        for (sums, counters) in self.ends.iter_mut().flatten().zip(row.ends.iter().flatten()) {
            *sums += counters.read();
        }
    }

    /// How many went each way and ended so, those left out that none did.
    pub fn ends(&self) -> impl Iterator<Item = (CommandWay, CommandEnd, u64)> + '_ {
        let each = CommandWay::ALL.into_iter().flat_map(|way| CommandEnd::ALL.map(|end| (way, end)));
        each.map(|(way, end)| (way, end, self.ends[way as usize][end as usize])).filter(|(_, _, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_several_threads_add_up_by_command_way_and_end() {
        let (one, other) = (CommandStats::default(), CommandStats::default());
        let get = table().lookup(b"get");
        one.count(get, CommandWay::Native, CommandEnd::Ok, Some(40));
        other.count(get, CommandWay::Native, CommandEnd::Ok, Some(50));
        other.count(get, CommandWay::PassedOn, CommandEnd::Error, None);
        other.count(None, CommandWay::Local, CommandEnd::Refused, None);
        let all = CommandStats::sum(&[&one, &other]);
        assert_eq!(all.iter().map(|counts| counts.name).collect::<Vec<_>>(), ["get", "other"]);
        let ends: Vec<_> = all[0].ends().collect();
        assert_eq!(ends, [(CommandWay::Native, CommandEnd::Ok, 2), (CommandWay::PassedOn, CommandEnd::Error, 1)]);
        assert_eq!((all[0].durations.count(), all[0].durations.sum_us()), (2, 90));
        assert_eq!(all[1].durations.count(), 0);
    }

    #[test]
    fn what_waits_for_other_clients_is_left_out_of_durations() {
        let stats = CommandStats::default();
        stats.count(table().lookup(b"get"), CommandWay::Native, CommandEnd::Ok, Some(40));
        stats.count(table().lookup(b"blpop"), CommandWay::PassedOn, CommandEnd::Ok, Some(9_000_000));
        stats.count(table().lookup(b"wait"), CommandWay::PassedOn, CommandEnd::Ok, Some(9_000_000));
        stats.count(None, CommandWay::PassedOn, CommandEnd::Ok, Some(50));
        assert_eq!((stats.durations().count(), stats.durations().sum_us()), (2, 90));
    }
}
