//! Clients that read and write through keyfold all the time.
//!
//! Each has keys of its own, so that it knows what every one of them must hold.

use std::time::Instant;

use anyhow::Context;
use keyfold_lab::data_sets::records::Record;
use keyfold_server::{Server, Target};
use keyfold_survey::random::Random;

use super::schedule::{Sample, Schedule};
use super::threads::{Stop, Threads};

/// Clients at work.
pub(super) const CLIENTS: usize = 8;
/// Of so many commands one writes.
const WRITES_ONE_IN: u64 = 5;
/// Answers that were not what they should be are told so many times.
const TOLD: usize = 5;

/// What came of the commands of one client, or of all.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) samples: Vec<Sample>,
    pub(super) wrong: u64,
    /// What was wrong, the first of it.
    pub(super) told: Vec<String>,
    /// Every key with what it must hold at the end.
    pub(super) records: Vec<Record>,
}

impl Answers {
    /// Counts an answer that was not what it should be.
    pub(super) fn note_wrong(&mut self, what: String) {
        self.wrong += 1;
        if self.told.len() < TOLD {
            self.told.push(what);
        }
    }

    /// Those of all clients together.
    pub(super) fn of_all(each: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        for one in each {
            all.samples.extend(one.samples);
            all.wrong += one.wrong;
            all.told.extend(one.told);
            all.records.extend(one.records);
        }
        all.samples.sort_unstable_by_key(|sample| sample.due);
        all.told.truncate(TOLD);
        all
    }
}

/// What a write does to a value.
pub(super) enum Write {
    /// Counts it on, to this number.
    Count(i64),
    /// Puts this in its place: as long as before, and as much alike.
    Replace(Vec<u8>),
}

/// One client, with the keys that are its own.
pub(super) struct Client {
    pub(super) server: Server,
    /// What the keys must hold.
    pub(super) records: Vec<Record>,
    pub(super) schedule: Schedule,
    random: Random,
}

impl Client {
    /// The key of the next command.
    pub(super) fn draw_key(&mut self) -> usize {
        usize::try_from(self.random.below(self.records.len() as u64)).unwrap_or(0)
    }

    /// Whether the next command writes.
    pub(super) fn draw_write(&mut self) -> bool {
        self.random.below(WRITES_ONE_IN) == 0
    }

    /// A number is counted on, and of anything else a letter changed.
    pub(super) fn plan_write(&mut self, at: usize) -> Write {
        let value = &self.records[at].value;
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
        if let Some(number) = number.filter(|number| *number < i64::from(i32::MAX)) {
            return Write::Count(number + 1);
        }
        let mut next = value.clone();
        if let Some(byte) = next.iter_mut().rev().find(|byte| byte.is_ascii_lowercase()) {
            *byte = b'a' + u8::try_from(self.random.below(26)).unwrap_or(0);
        }
        Write::Replace(next)
    }
}

/// Starts a client for each share of the keys, which hold what their records say; all send `rate` commands a second
/// together.
///
/// # Errors
/// One can't connect to keyfold.
pub(super) fn start<T: Send + 'static>(
    target: &Target,
    shares: [Vec<Record>; CLIENTS],
    rate: u32,
    started: Instant,
    run: fn(Client, &Stop) -> anyhow::Result<T>,
) -> anyhow::Result<Threads<T>> {
    let mut threads = Threads::new();
    for (number, records) in shares.into_iter().enumerate() {
        let server = Server::connect(target).context("the demo's clients can't connect to keyfold")?;
        let schedule = Schedule::new(started, number, CLIENTS, rate);
        let client = Client { server, records, schedule, random: Random::new(number as u64) };
        threads.start(format!("demo-client-{number}"), move |stop| run(client, stop))?;
    }
    Ok(threads)
}

/// The keys of each client: `share` says, of a record and its place among them, whose it is.
pub(super) fn shares(records: Vec<Record>, share: impl Fn(usize, &Record) -> usize) -> [Vec<Record>; CLIENTS] {
    let mut shares = [const { Vec::new() }; CLIENTS];
    for (at, record) in records.into_iter().enumerate() {
        shares[share(at, &record)].push(record);
    }
    shares
}
