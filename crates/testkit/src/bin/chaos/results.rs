//! What a run came to, kept as it goes, a round after the other.

use std::path::Path;

use anyhow::Context;
use keyfold_testkit::journal::Journal;
use serde::{Deserialize, Serialize};

use crate::round::{Outcome, Tally};

/// One round, as the file has it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    server: String,
    seed: u64,
    pub(crate) number: u64,
    pub(crate) mishaps: Vec<String>,
    pub(crate) took_ms: u64,
    /// Why it couldn't be ended, where it couldn't.
    pub(crate) broken: Option<String>,
    pub(crate) keyfold: Tally,
    pub(crate) plain: Tally,
}

impl Round {
    /// Whether nothing was wrong.
    pub(crate) fn is_well(&self) -> bool {
        self.broken.is_none() && self.keyfold.report.wrong.is_empty()
    }
}

/// The rounds of a run, those of before included.
pub(crate) struct Results {
    journal: Journal<Round>,
    server: String,
    seed: u64,
    pub(crate) rounds: Vec<Round>,
}

impl Results {
    /// Opens a file, or begins one. Rounds of other servers and seeds stay in it and are not looked at.
    pub(crate) fn open(path: &Path, server: &str, seed: u64) -> anyhow::Result<Self> {
        let (journal, rounds) = Journal::open(path)?;
        let mut results = Self { journal, server: server.to_owned(), seed, rounds };
        results.rounds.retain(|round| (round.server.as_str(), round.seed) == (server, seed));
        Ok(results)
    }

    pub(crate) fn path(&self) -> &Path {
        self.journal.path()
    }

    /// The number of the round that comes next.
    pub(crate) fn next(&self) -> u64 {
        self.rounds.iter().map(|round| round.number).max().unwrap_or(0) + 1
    }

    /// Notes a round that is over, or that couldn't be ended.
    pub(crate) fn add(&mut self, number: u64, ended: anyhow::Result<Outcome>) -> anyhow::Result<&Round> {
        let (server, seed) = (self.server.clone(), self.seed);
        let (mut mishaps, mut took_ms, mut broken) = (Vec::new(), 0, None);
        let (mut keyfold, mut plain) = (Tally::default(), Tally::default());
        match ended {
            Ok(outcome) => {
                mishaps = outcome.mishaps.iter().map(ToString::to_string).collect();
                mishaps.extend(outcome.moved.map(|moved| moved.to_string()));
                took_ms = u64::try_from(outcome.took.as_millis())?;
                (keyfold, plain) = (outcome.keyfold, outcome.plain);
            }
            Err(error) => broken = Some(format!("{error:#}")),
        }
        let round = Round { server, seed, number, mishaps, took_ms, broken, keyfold, plain };
        self.journal.add(&round)?;
        self.rounds.push(round);
        self.rounds.last().context("a round was just added")
    }

    /// What both sides met in all of them.
    pub(crate) fn totals(&self) -> (Tally, Tally) {
        let (mut keyfold, mut plain) = (Tally::default(), Tally::default());
        for round in &self.rounds {
            keyfold.add(&round.keyfold);
            plain.add(&round.plain);
        }
        (keyfold, plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_from_its_own_rounds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("of/results.jsonl");
        let mut results = Results::open(&path, "redis 7.0.15", 1).unwrap();
        results.add(1, Err(anyhow::anyhow!("a node didn't start"))).unwrap();
        results.add(2, Err(anyhow::anyhow!("nor did this"))).unwrap();
        assert_eq!(Results::open(&path, "redis 7.0.15", 2).unwrap().next(), 1);
        let mut results = Results::open(&path, "redis 7.0.15", 1).unwrap();
        assert_eq!((results.next(), results.rounds[1].broken.as_deref()), (3, Some("nor did this")));
        results.add(3, Err(anyhow::anyhow!("x"))).unwrap();
        assert_eq!(Results::open(&path, "redis 7.0.15", 1).unwrap().next(), 4);
    }
}
