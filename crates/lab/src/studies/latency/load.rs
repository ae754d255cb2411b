//! Reads at a constant rate, and how long each took.
//!
//! A read is due at a moment that does not depend on how the ones before it went, and its latency counts from then: where
//! the server stalls, all that became due meanwhile waited, and shows it. Clients that count from when they sent leave
//! that out (coordinated omission). A client that is late sends all that is due at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use hdrhistogram::Histogram;
use keyfold_core::resp::Reply;
use keyfold_server::interrupt::{Interrupt, Interrupted};
use keyfold_server::{Server, Target};

use super::form::Shape;
use keyfold_survey::random::Random;

/// Connections, each with a thread.
pub(super) const CLIENTS: u32 = 8;
/// Reads that a late client sends at once, at the most.
const AT_ONCE: usize = 64;
/// A load ends at the latest after so many times the time that it was to take, its last reads being late.
const PATIENCE: u32 = 2;
/// Of latencies, which are in nanoseconds up to a minute.
const DIGITS: u8 = 3;
const MOST_NS: u64 = 60_000_000_000;

/// A rate for some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Reads a second, of all clients.
    pub(super) rate: u32,
    pub(super) duration: Duration,
    pub(super) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    pub(super) rate: u32,
    /// Answers a second.
    pub(super) achieved: f64,
    /// In nanoseconds, from when a read was due.
    pub(super) histogram: Histogram<u64>,
    /// Reads that were not answered when patience was over.
    pub(super) unanswered: u64,
}

impl Latencies {
    pub(super) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1e6
    }

    pub(super) fn mean_ms(&self) -> f64 {
        self.histogram.mean() / 1e6
    }

    pub(super) fn min_ms(&self) -> f64 {
        self.histogram.min() as f64 / 1e6
    }

    pub(super) fn max_ms(&self) -> f64 {
        self.histogram.max() as f64 / 1e6
    }

    /// Whether the rate was more than could be answered.
    pub(super) fn is_saturated(&self) -> bool {
        self.achieved < f64::from(self.rate) * 0.95
    }
}

impl Load {
    /// Reads records of the shape by chance.
    pub(super) fn run(
        &self,
        target: &Target,
        shape: &Shape,
        prefix: &[u8],
        interrupt: &Interrupt,
    ) -> anyhow::Result<Latencies> {
        let servers = (0..CLIENTS).map(|_| Server::connect(target)).collect::<anyhow::Result<Vec<_>>>()?;
        let (started, stop) = (Instant::now(), AtomicBool::new(false));
        let reports = thread::scope(|scope| {
            let client = |(number, server): (u32, Server)| {
                let stop = &stop;
                let client = Client { load: self, number, server, shape, prefix, started, interrupt };
                scope.spawn(move || {
                    let report = client.run(stop);
                    stop.fetch_or(report.is_err(), Ordering::Relaxed);
                    report
                })
            };
            let threads: Vec<_> = (0..).zip(servers).map(client).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, anyhow::Result<Report>>| {
                thread.join().map_err(|_| anyhow!("a client of the load died"))?
            };
            threads.into_iter().map(join).collect::<Vec<_>>()
        });
        let mut all = Latencies { rate: self.rate, achieved: 0.0, histogram: histogram()?, unanswered: 0 };
        let mut took = self.duration;
        for report in reports {
            let report = report?;
            all.histogram.add(&report.histogram).context("can't add latencies up")?;
            all.unanswered += report.unanswered;
            took = took.max(report.ended);
        }
        all.achieved = all.histogram.len() as f64 / took.as_secs_f64();
        Ok(all)
    }
}

fn histogram() -> anyhow::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, MOST_NS, DIGITS).context("can't make a histogram")
}

struct Report {
    histogram: Histogram<u64>,
    unanswered: u64,
    ended: Duration,
}

struct Client<'a> {
    load: &'a Load,
    number: u32,
    server: Server,
    shape: &'a Shape,
    prefix: &'a [u8],
    started: Instant,
    interrupt: &'a Interrupt,
}

impl Client<'_> {
    fn run(mut self, stop: &AtomicBool) -> anyhow::Result<Report> {
        sleep_precisely();
        let Load { rate, duration, seed } = *self.load;
        let interval = Duration::from_secs(u64::from(CLIENTS)) / rate;
        let mut random = Random::new(seed ^ u64::from(self.number) << 32);
        let (mut latencies, mut wire, mut due_at) = (histogram()?, Vec::new(), Vec::with_capacity(AT_ONCE));
        let mut due = interval * self.number / CLIENTS;
        while due < duration && self.started.elapsed() < duration * PATIENCE {
            if self.interrupt.wanted() || stop.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            thread::sleep(due.saturating_sub(self.started.elapsed()));
            let now = self.started.elapsed();
            wire.clear();
            due_at.clear();
            while due <= now && due < duration && due_at.len() < AT_ONCE {
                self.shape.read(random.below(self.shape.records), self.prefix, &mut wire)?;
                due_at.push(due);
                due += interval;
            }
            self.exchange(&wire, &due_at, &mut latencies)?;
        }
        let left = duration.saturating_sub(due).as_nanos().div_ceil(interval.as_nanos().max(1));
        Ok(Report { histogram: latencies, unanswered: u64::try_from(left)?, ended: self.started.elapsed() })
    }

    fn exchange(&mut self, wire: &[u8], due_at: &[Duration], latencies: &mut Histogram<u64>) -> anyhow::Result<()> {
        if due_at.is_empty() {
            return Ok(());
        }
        self.server.send(wire, due_at.len() as u64)?;
        for due in due_at {
            match Reply::parse(&self.server.receive()?)? {
                Reply::Bulk(_) => {}
                Reply::Error(error) => bail!(self.server.refused(error).context("the server refused a read")),
                other => bail!("a record that was written was read as {other:?}"),
            }
            let took = self.started.elapsed().saturating_sub(*due).as_nanos();
            latencies.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

/// Linux lets a sleeping thread lie some 50 µs longer than it asked for, which would be in every latency.
fn sleep_precisely() {
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_not_reached_is_saturated() {
        let mut latencies = Latencies { rate: 1000, achieved: 990.0, histogram: histogram().unwrap(), unanswered: 0 };
        (1..=100).for_each(|ms| latencies.histogram.record(ms * 1_000_000).unwrap());
        assert!(!latencies.is_saturated());
        assert!((latencies.quantile_ms(0.5) - 50.0).abs() < 0.1 && (latencies.max_ms() - 100.0).abs() < 0.1);
        latencies.achieved = 900.0;
        assert!(latencies.is_saturated());
    }
}
