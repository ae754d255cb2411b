//! Readers and writers before a cluster whose nodes fail, which check every answer.
//!
//! A write without an answer leaves two values that its key may have; the next read says which. What the cluster itself
//! loses, because a primary died before its replica had heard of a write, is told apart from wrong answers: it may only be
//! what was acknowledged shortly before the kill.

use std::collections::HashMap;
use std::mem;
use std::time::{Duration, Instant};

use anyhow::Context;
use keyfold_core::slot::Slot;
use keyfold_lab::data_sets::records::Record;
use keyfold_server::{LinkError, Target};

use super::super::clients::{self, Answers, CLIENTS, Client, Write};
use super::super::threads::{Stop, Threads};

/// Commands a second of all of them.
pub(crate) const RATE: u32 = 2000;

/// What came of a load.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) answers: Answers,
    /// When commands were refused, or not answered: their node was away.
    pub(crate) refused: Vec<Duration>,
    /// When the writes were acknowledged that the cluster lost.
    pub(crate) lost: Vec<Duration>,
}

/// A load under way.
pub(crate) struct Load(Threads<Outcome>);

impl Load {
    /// Begins with the keys of `records`, which hold what they say.
    pub(crate) fn start(target: &Target, records: Vec<Record>, started: Instant) -> anyhow::Result<Self> {
        let slots = usize::from(Slot::LAST.number()) + 1;
        // Each has slots that are neighbours, so that a node that is away holds up some and not all.
        let share = |_, record: &Record| usize::from(Slot::of(&record.key).number()) * CLIENTS / slots;
        clients::start(target, clients::shares(records, share), RATE, started, run).map(Self)
    }

    /// Ends it: every key is read once more, and has to hold what it should.
    pub(crate) fn stop(self) -> anyhow::Result<Outcome> {
        let mut each = self.0.stop()?;
        let mut refused: Vec<_> = each.iter_mut().flat_map(|one| mem::take(&mut one.refused)).collect();
        refused.sort_unstable();
        let lost = each.iter_mut().flat_map(|one| mem::take(&mut one.lost)).collect();
        Ok(Outcome { answers: Answers::of_all(each.into_iter().map(|one| one.answers)), refused, lost })
    }
}

fn run(client: Client, stop: &Stop) -> anyhow::Result<Outcome> {
    Checker { client, outcome: Outcome::default(), doubts: HashMap::new(), before: HashMap::new() }.run(stop)
}

/// A client, and what it knows of its keys beside their records.
struct Checker {
    client: Client,
    outcome: Outcome,
    /// Keys that may have another value than their record: a write of it has no answer.
    doubts: HashMap<usize, Vec<u8>>,
    /// What keys held before their last write, and when that was acknowledged.
    before: HashMap<usize, (Vec<u8>, Duration)>,
}

impl Checker {
    fn run(mut self, stop: &Stop) -> anyhow::Result<Outcome> {
        while !stop.is_asked() && !self.client.records.is_empty() {
            let due = self.client.schedule.wait();
            let at = self.client.draw_key();
            let writes = self.client.draw_write() && !self.doubts.contains_key(&at);
            match if writes { self.write(at) } else { self.read(at) } {
                Ok(()) => self.outcome.answers.samples.push(self.client.schedule.sample(due)),
                Err(LinkError::Refused(_)) => self.outcome.refused.push(due),
                Err(error) => return Err(error.into()),
            }
            // Whoever was held up doesn't make up for it: a client waits for its answer.
            self.client.schedule.skip_missed();
        }
        for at in 0..self.client.records.len() {
            self.read(at)
                .with_context(|| format!("{} can't be read at the end", self.client.records[at].key.escape_ascii()))?;
        }
        self.outcome.answers.records = self.client.records;
        Ok(self.outcome)
    }

    fn read(&mut self, at: usize) -> Result<(), LinkError> {
        let found: Option<Vec<u8>> = self.client.server.query(&[b"GET", &self.client.records[at].key])?;
        self.judge(at, "GET", found);
        Ok(())
    }

    /// Compares what a key holds with what it must hold, and goes on from there.
    fn judge(&mut self, at: usize, command: &str, found: Option<Vec<u8>>) {
        let record = &mut self.client.records[at];
        let doubt = self.doubts.remove(&at);
        if found.as_ref() == Some(&record.value) {
            return;
        }
        let is_before = self.before.get(&at).is_some_and(|(value, _)| found.as_ref() == Some(value));
        if doubt.is_none() || found != doubt {
            match self.before.remove(&at).filter(|_| is_before) {
                Some((_, acked)) => self.outcome.lost.push(acked),
                None => {
                    let found =
                        found.as_deref().map_or_else(|| "nothing".into(), |found| found.escape_ascii().to_string());
                    let (key, value) = (record.key.escape_ascii(), record.value.escape_ascii());
                    self.outcome.answers.note_wrong(format!("{command} {key} found {found}, not {value}"));
                }
            }
        }
        record.value = found.unwrap_or_default();
    }

    /// The key's time to live stays.
    fn write(&mut self, at: usize) -> Result<(), LinkError> {
        let write = self.client.plan_write(at);
        let Client { server, records, .. } = &mut self.client;
        let key = &records[at].key;
        match write {
            Write::Count(number) => match server.query::<i64>(&[b"INCR", key]) {
                Ok(counted) => {
                    self.judge(at, "INCR", Some((counted - 1).to_string().into_bytes()));
                    self.note(at, counted.to_string().into_bytes(), Ok(()))
                }
                Err(error) => self.note(at, number.to_string().into_bytes(), Err(error)),
            },
            Write::Replace(next) => {
                let written = server.query::<()>(&[b"SET", key, &next, b"KEEPTTL"]);
                self.note(at, next, written)
            }
        }
    }

    fn note(&mut self, at: usize, next: Vec<u8>, written: Result<(), LinkError>) -> Result<(), LinkError> {
        match &written {
            Ok(()) => {
                let before = mem::replace(&mut self.client.records[at].value, next);
                self.before.insert(at, (before, self.client.schedule.elapsed()));
            }
            Err(_) => _ = self.doubts.insert(at, next),
        }
        written
    }
}
