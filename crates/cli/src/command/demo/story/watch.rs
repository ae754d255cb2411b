//! Looks at the server's memory all the time.

use std::thread;
use std::time::{Duration, Instant};

use keyfold_server::{Server, Target};

use super::super::threads::{Stop, Threads};

const EVERY: Duration = Duration::from_millis(100);

/// `used_memory` at a time since the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Duration,
    pub(crate) used_bytes: u64,
}

/// A look under way.
pub(crate) struct Watch(Threads<Vec<Reading>>);

impl Watch {
    pub(crate) fn start(target: &Target, started: Instant) -> anyhow::Result<Self> {
        Self::start_on(Server::connect(target)?, started, false)
    }

    /// The same of a server that may be killed meanwhile.
    pub(crate) fn start_until_gone(server: Server, started: Instant) -> anyhow::Result<Self> {
        Self::start_on(server, started, true)
    }

    fn start_on(mut server: Server, started: Instant, may_end: bool) -> anyhow::Result<Self> {
        let watch = move |stop: &Stop| {
            let mut readings = Vec::new();
            while !stop.is_asked() {
                match server.used_memory() {
                    Ok(used_bytes) => readings.push(Reading { at: started.elapsed(), used_bytes }),
                    Err(_) if may_end => break,
                    Err(error) => return Err(error),
                }
                thread::sleep(EVERY);
            }
            Ok(readings)
        };
        let mut threads = Threads::new();
        threads.start("demo-watch".to_owned(), watch)?;
        Ok(Self(threads))
    }

    pub(crate) fn stop(self) -> anyhow::Result<Vec<Reading>> {
        Ok(self.0.stop()?.concat())
    }
}
