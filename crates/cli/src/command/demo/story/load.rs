//! Readers and writers that go on all the time, and check every answer.
//!
//! Each has keys of its own, so that it knows what every one of them must hold. Commands are due at a constant
//! rate, and a latency counts from when the command was due: one that had to wait for the one before shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use keyfold_server::{Server, Target};

use keyfold_lab::data_sets::records::Record;

/// Clients at work.
pub(crate) const CLIENTS: usize = 8;
/// Commands a second of all of them.
pub(crate) const RATE: u32 = 4000;
/// Of so many commands one writes.
const WRITES_ONE_IN: u64 = 5;
/// Answers that were not what they should be are told so many times.
const TOLD: usize = 5;

/// One command: when it was due since the start, and how long its answer took from then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) due: Duration,
    pub(crate) took: Duration,
}

/// What came of a load.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) samples: Vec<Sample>,
    pub(crate) errors: u64,
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
        for (at, record) in records.into_iter().enumerate() {
            shares[at % CLIENTS].push(record);
        }
        let start = |(number, records): (usize, Vec<Record>)| {
            let server = Server::connect(target).context("the demo's clients can't connect to keyfold")?;
            let client = Client { server, records, outcome: Outcome::default(), seed: number as u64 + 1 };
            let stop = Arc::clone(&stop);
            Ok(thread::Builder::new()
                .name(format!("demo-client-{number}"))
                .spawn(move || client.run(number, started, &stop))?)
        };
        let clients = shares.into_iter().enumerate().map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { stop, clients })
    }

    /// Ends it.
    pub(crate) fn stop(self) -> anyhow::Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Outcome::default();
        for client in self.clients {
            let one = client.join().map_err(|_| anyhow!("a client of the demo died"))??;
            all.samples.extend(one.samples);
            all.errors += one.errors;
            all.told.extend(one.told);
            all.records.extend(one.records);
        }
        all.samples.sort_unstable_by_key(|sample| sample.due);
        all.told.truncate(TOLD);
        Ok(all)
    }
}

struct Client {
    server: Server,
    records: Vec<Record>,
    outcome: Outcome,
    seed: u64,
}

impl Client {
    fn run(mut self, number: usize, started: Instant, stop: &AtomicBool) -> anyhow::Result<Outcome> {
        let interval = Duration::from_secs(CLIENTS as u64) / RATE;
        let mut due = started.elapsed() + interval * u32::try_from(number)? / u32::try_from(CLIENTS)?;
        while !stop.load(Ordering::Relaxed) && !self.records.is_empty() {
            thread::sleep(due.saturating_sub(started.elapsed()));
            let at = usize::try_from(self.draw() % self.records.len() as u64)?;
            let right = if self.draw().is_multiple_of(WRITES_ONE_IN) { self.write(at) } else { self.read(at) };
            if let Err(error) = right {
                self.outcome.errors += 1;
                if self.outcome.told.len() < TOLD {
                    self.outcome.told.push(format!("{error:#}"));
                }
            }
            self.outcome.samples.push(Sample { due, took: started.elapsed().saturating_sub(due) });
            due += interval;
        }
        self.outcome.records = self.records;
        Ok(self.outcome)
    }

    fn read(&mut self, at: usize) -> anyhow::Result<()> {
        let Record { key, value, .. } = &self.records[at];
        let found: Option<Vec<u8>> = self.server.ask(&[b"GET", key])?;
        anyhow::ensure!(found.as_ref() == Some(value), "GET {} answered {found:?}", key.escape_ascii());
        Ok(())
    }

    /// Counts a number on, and changes anything else; its time to live stays.
    fn write(&mut self, at: usize) -> anyhow::Result<()> {
        let fresh = self.draw();
        let Record { key, value, .. } = &mut self.records[at];
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
        if let Some(number) = number.filter(|number| *number < i64::from(i32::MAX)) {
            let counted: i64 = self.server.ask(&[b"INCR", key])?;
            *value = counted.to_string().into_bytes();
            anyhow::ensure!(counted == number + 1, "INCR {} answered {counted}", key.escape_ascii());
            return Ok(());
        }
        // One letter is another: as long as before, and as much alike.
        let mut next = value.clone();
        if let Some(byte) = next.iter_mut().rev().find(|byte| byte.is_ascii_lowercase()) {
            *byte = b'a' + u8::try_from(fresh % 26).unwrap_or(0);
        }
        self.server.ask::<()>(&[b"SET", key, &next, b"KEEPTTL"])?;
        *value = next;
        Ok(())
    }

    /// Numbers that look random (xorshift by George Marsaglia).
    fn draw(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
}

/// The latency that a share of the samples is within.
pub(crate) fn percentile(samples: &[Sample], share: f64) -> Duration {
    let mut took: Vec<Duration> = samples.iter().map(|sample| sample.took).collect();
    took.sort_unstable();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index below the length")]
    let at = (took.len() as f64 * share) as usize;
    took.get(at.min(took.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted() {
        let sample = |ms| Sample { due: Duration::ZERO, took: Duration::from_millis(ms) };
        let samples: Vec<Sample> = (1..=100).rev().map(sample).collect();
        assert_eq!(percentile(&samples, 0.5), Duration::from_millis(51));
        assert_eq!(percentile(&samples, 0.99), Duration::from_millis(100));
        assert_eq!(percentile(&[], 0.99), Duration::ZERO);
    }
}
