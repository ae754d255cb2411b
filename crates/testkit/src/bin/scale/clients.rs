//! The load: clients that know what each answer must be, and what they felt while something else was done.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use keyfold_testkit::Wire;
use keyfold_testkit::load::{Client, Counters, Latencies, Load, Report};

const CLIENTS: u32 = 4;
const KEYS_A_CLIENT: u64 = 1000;
/// Ids from here on are the clients'.
const FIRST: u64 = 9_000_000_000;

/// Clients at one keyfold.
pub(crate) struct Clients {
    idle: Vec<Client>,
    address: SocketAddr,
    every: Option<Duration>,
}

/// What clients felt for a while.
#[derive(Debug, Default)]
pub(crate) struct Felt {
    pub(crate) answers: u64,
    pub(crate) errors: u64,
    pub(crate) latencies: Latencies,
}

impl Clients {
    /// Clients that send so many commands a second, all together, to this address.
    pub(crate) fn new(rate: u32, address: SocketAddr) -> Self {
        let counters = Counters::new((0..4).map(|id| format!("user:{}", 2 * FIRST + id).into_bytes()));
        let client = |client: u64| {
            let keys = (0..KEYS_A_CLIENT).map(|id| {
                let template = if id % 2 == 0 { "user" } else { "doc" };
                (format!("{template}:{}", FIRST + client * KEYS_A_CLIENT + id).into_bytes(), None)
            });
            Client::new(client, keys, &counters)
        };
        let every = Duration::from_secs(1).checked_mul(CLIENTS).and_then(|all| all.checked_div(rate));
        Self { idle: (0..u64::from(CLIENTS)).map(client).collect(), address, every }
    }

    /// Does something while they are at work.
    pub(crate) fn beside<T>(&mut self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Felt)> {
        let Some(every) = self.every else { return Ok((work()?, Felt::default())) };
        let load = Load::start(std::mem::take(&mut self.idle), &[self.address], Some(every));
        let began = Instant::now();
        let done = work();
        let ended = Instant::now();
        self.idle = load.stop();
        let report = self.report()?;
        let errors = report.errors.values().sum::<u64>() + report.lost;
        let felt = Felt { answers: report.answers, errors, latencies: report.latencies.between(began, ended) };
        Ok((done?, felt))
    }

    /// Reads all that they wrote, now that nobody writes.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let mut wire = Wire::connect(self.address)?;
        self.idle.iter_mut().for_each(|client| client.check(&mut wire));
        self.report().map(drop)
    }

    fn report(&mut self) -> anyhow::Result<Report> {
        let mut report = Report::default();
        self.idle.iter_mut().for_each(|client| report.extend(client.take_report()));
        ensure!(report.wrong.is_empty(), "clients got wrong answers:\n{}", report.wrong.join("\n"));
        Ok(report)
    }
}
