//! `used_memory`, to the byte.
//!
//! Read over a new connection, when no other of the lab's is open, as connections have buffers; once the table of keys
//! no longer holds its old half; until it comes out equal several times. Every command has run once before, as servers
//! allocate a histogram for each at its first call.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use keyfold_server::{Commands, Server, Target};

/// Equal readings in a row that count as settled.
const EQUAL: u32 = 3;
const PAUSE: Duration = Duration::from_millis(1);
/// How long connections that were closed may still be seen: then they are taken for somebody else's.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);
const SETTLES_WITHIN: Duration = Duration::from_secs(60);
/// Look-ups sent at a time.
const BATCH: u64 = 1000;
/// A name that no study uses.
const NOBODY: &[u8] = b"keyfold:lab:nobody";

/// Reads one server's memory.
pub(crate) struct Gauge {
    target: Target,
    /// The fewest connections ever seen: the gauge's own, and those of others.
    fewest: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Reading {
    used_bytes: u64,
    clients: u64,
    /// Bytes of tables of keys that are being moved, where the server tells.
    moving_bytes: u64,
}

impl Gauge {
    pub(super) fn new(target: Target) -> Self {
        Self { target, fewest: u64::MAX }
    }

    /// `used_memory`, settled; the table of keys included.
    pub(super) fn weigh(&mut self) -> anyhow::Result<u64> {
        self.finish_moving()?;
        self.read_settled()
    }

    /// `used_memory` once it is the same over several readings. Quick: for where no table of keys can have grown.
    pub(super) fn read_settled(&mut self) -> anyhow::Result<u64> {
        let started = Instant::now();
        let (mut last, mut equal) = (None, 0);
        loop {
            let reading = self.read()?;
            self.fewest = self.fewest.min(reading.clients);
            let alone = reading.clients == self.fewest || started.elapsed() > CLOSED_WITHIN;
            equal = if alone && reading.moving_bytes == 0 && last == Some(reading) { equal + 1 } else { 1 };
            if equal == EQUAL {
                // Others may have come to stay.
                self.fewest = reading.clients;
                return Ok(reading.used_bytes);
            }
            last = Some(reading);
            if started.elapsed() > SETTLES_WITHIN {
                bail!("the server's used_memory does not come to rest; does somebody else use it?");
            }
            if equal == 1 {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Looks for as many keys as there are. Each look into a table that has grown moves it on by a bucket, so that in
    /// the end no table is kept twice; the server's timer would get there too, at some later time.
    fn finish_moving(&self) -> anyhow::Result<()> {
        let mut server = Server::connect(&self.target)?;
        let mut left: u64 = server.ask(&[b"DBSIZE"])?;
        while left > 0 {
            let now = left.min(BATCH);
            let mut looks = Commands::default();
            (0..now).for_each(|_| looks.push(&[b"EXISTS", NOBODY]));
            server.query_all::<()>(&looks).context("can't look for keys")?;
            left -= now;
        }
        Ok(())
    }

    fn read(&self) -> anyhow::Result<Reading> {
        let mut server = Server::connect(&self.target)?;
        let (clients, memory) = (server.info("clients")?, server.info("memory")?);
        Ok(Reading {
            used_bytes: memory.needed("used_memory")?,
            clients: clients.needed("connected_clients")?,
            moving_bytes: memory.number("mem_overhead_db_hashtable_rehashing"),
        })
    }
}
