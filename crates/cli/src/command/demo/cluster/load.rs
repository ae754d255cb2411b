//! Readers and writers before a cluster whose nodes fail, which check every answer.
//!
//! Each has keys of its own. A write without an answer leaves two values that its key may have; the next read says which.
//! What the cluster itself loses, because a primary died before its replica had heard of a write, is told apart from
//! wrong answers: it may only be what was acknowledged shortly before the kill.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use keyfold_core::slot::Slot;
use keyfold_lab::data_sets::records::Record;
use keyfold_lab::random::Random;
use keyfold_server::{LinkError, Server, Target};

use super::super::story::load::Sample;

pub(crate) const CLIENTS: usize = 8;
/// Commands a second of all of them.
pub(crate) const RATE: u32 = 2000;
/// Of so many commands one writes.
const WRITES_ONE_IN: u64 = 5;
/// Answers that were not what they should be are told so many times.
const TOLD: usize = 5;
const SLOTS: usize = 16_384;

/// What came of a load.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Commands that were answered.
    pub(crate) samples: Vec<Sample>,
    /// When commands were refused, or not answered: their node was away.
    pub(crate) refused: Vec<Duration>,
    /// When the writes were acknowledged that the cluster lost.
    pub(crate) lost: Vec<Duration>,
    pub(crate) wrong: u64,
    /// What was wrong, the first of it.
    pub(crate) told: Vec<String>,
    /// Every key with what it must hold at the end.
    pub(crate) records: Vec<Record>,
}

/// A load under way.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<anyhow::Result<Outcome>>>,
}

impl Load {
    /// Begins with the keys of `records`, which hold what they say.
    pub(crate) fn start(target: &Target, records: Vec<Record>, started: Instant) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut shares: Vec<Vec<Record>> = (0..CLIENTS).map(|_| Vec::new()).collect();
        // Each has slots that are neighbours, so that a node that is away holds up some and not all.
        for record in records {
            shares[usize::from(Slot::of(&record.key).number()) * CLIENTS / SLOTS].push(record);
        }
        let start = |(number, records): (usize, Vec<Record>)| {
            let server = Server::connect(target).context("the demo's clients can't connect to keyfold")?;
            let (random, outcome) = (Random::new(number as u64), Outcome::default());
            let client =
                Client { server, records, outcome, random, started, doubts: HashMap::new(), before: HashMap::new() };
            let stop = Arc::clone(&stop);
            let name = format!("demo-client-{number}");
            Ok(thread::Builder::new().name(name).spawn(move || client.run(number, &stop))?)
        };
        let clients = shares.into_iter().enumerate().map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { stop, clients })
    }

    /// Ends it: every key is read once more, and has to hold what it should.
    pub(crate) fn stop(self) -> anyhow::Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Outcome::default();
        for client in self.clients {
            let one = client.join().map_err(|_| anyhow!("a client of the demo died"))??;
            all.samples.extend(one.samples);
            all.refused.extend(one.refused);
            all.lost.extend(one.lost);
            all.wrong += one.wrong;
            all.told.extend(one.told);
            all.records.extend(one.records);
        }
        all.samples.sort_unstable_by_key(|sample| sample.due);
        all.refused.sort_unstable();
        all.told.truncate(TOLD);
        Ok(all)
    }
}

struct Client {
    server: Server,
    records: Vec<Record>,
    outcome: Outcome,
    random: Random,
    started: Instant,
    /// Keys that may have another value than their record: a write of it has no answer.
    doubts: HashMap<usize, Vec<u8>>,
    /// What keys held before their last write, and when that was acknowledged.
    before: HashMap<usize, (Vec<u8>, Duration)>,
}

impl Client {
    fn run(mut self, number: usize, stop: &AtomicBool) -> anyhow::Result<Outcome> {
        let interval = Duration::from_secs(CLIENTS as u64) / RATE;
        let mut due = self.started.elapsed() + interval * u32::try_from(number)? / u32::try_from(CLIENTS)?;
        while !stop.load(Ordering::Relaxed) && !self.records.is_empty() {
            thread::sleep(due.saturating_sub(self.started.elapsed()));
            let at = usize::try_from(self.random.below(self.records.len() as u64))?;
            let writes = self.random.below(WRITES_ONE_IN) == 0 && !self.doubts.contains_key(&at);
            match if writes { self.write(at) } else { self.read(at) } {
                Ok(()) => {
                    self.outcome.samples.push(Sample { due, took: self.started.elapsed().saturating_sub(due) });
                }
                Err(LinkError::Refused(_)) => self.outcome.refused.push(due),
                Err(error) => return Err(error.into()),
            }
            // Whoever was held up doesn't make up for it: a client waits for its answer.
            due = (due + interval).max(self.started.elapsed().saturating_sub(interval));
        }
        for at in 0..self.records.len() {
            self.read(at)
                .with_context(|| format!("{} can't be read at the end", self.records[at].key.escape_ascii()))?;
        }
        self.outcome.records = self.records;
        Ok(self.outcome)
    }

    fn read(&mut self, at: usize) -> Result<(), LinkError> {
        let found: Option<Vec<u8>> = self.server.query(&[b"GET", &self.records[at].key])?;
        self.judge(at, "GET", found);
        Ok(())
    }

    /// Compares what a key holds with what it must hold, and goes on from there.
    fn judge(&mut self, at: usize, command: &str, found: Option<Vec<u8>>) {
        let record = &mut self.records[at];
        let doubt = self.doubts.remove(&at);
        if found.as_ref() == Some(&record.value) {
            return;
        }
        let is_before = self.before.get(&at).is_some_and(|(value, _)| found.as_ref() == Some(value));
        if doubt.is_none() || found != doubt {
            match self.before.remove(&at).filter(|_| is_before) {
                Some((_, acked)) => self.outcome.lost.push(acked),
                None => {
                    self.outcome.wrong += 1;
                    let found =
                        found.as_deref().map_or_else(|| "nothing".into(), |found| found.escape_ascii().to_string());
                    let (key, value) = (record.key.escape_ascii(), record.value.escape_ascii());
                    self.outcome.told.push(format!("{command} {key} found {found}, not {value}"));
                }
            }
        }
        record.value = found.unwrap_or_default();
    }

    /// Counts a number on, and changes anything else; its time to live stays.
    fn write(&mut self, at: usize) -> Result<(), LinkError> {
        let Record { key, value, .. } = &self.records[at];
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
        let Some(number) = number.filter(|number| *number < i64::from(i32::MAX)) else {
            let mut next = value.clone();
            // One letter is another: as long as before, and as much alike.
            if let Some(byte) = next.iter_mut().rev().find(|byte| byte.is_ascii_lowercase()) {
                *byte = b'a' + u8::try_from(self.random.below(26)).unwrap_or(0);
            }
            let written = self.server.query::<()>(&[b"SET", key, &next, b"KEEPTTL"]);
            return self.note(at, next, written);
        };
        let counted = self.server.query::<i64>(&[b"INCR", key]);
        if let Ok(counted) = counted {
            self.judge(at, "INCR", Some((counted - 1).to_string().into_bytes()));
            return self.note(at, counted.to_string().into_bytes(), Ok(()));
        }
        self.note(at, (number + 1).to_string().into_bytes(), counted.map(|_| ()))
    }

    fn note(&mut self, at: usize, next: Vec<u8>, written: Result<(), LinkError>) -> Result<(), LinkError> {
        match &written {
            Ok(()) => {
                let before = std::mem::replace(&mut self.records[at].value, next);
                self.before.insert(at, (before, self.started.elapsed()));
            }
            Err(_) => _ = self.doubts.insert(at, next),
        }
        written
    }
}
