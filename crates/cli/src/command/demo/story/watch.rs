//! Looks at the server's memory all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::anyhow;

use keyfold_server::{Server, Target};

const EVERY: Duration = Duration::from_millis(100);

/// `used_memory` at a time since the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Duration,
    pub(crate) used_bytes: u64,
}

/// A look under way.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Vec<Reading>>>,
}

impl Watch {
    pub(crate) fn start(target: &Target, started: Instant) -> anyhow::Result<Self> {
        Self::start_on(Server::connect(target)?, started, false)
    }

    /// The same of a server that may be killed meanwhile.
    pub(crate) fn start_until_gone(server: Server, started: Instant) -> anyhow::Result<Self> {
        Self::start_on(server, started, true)
    }

    fn start_on(mut server: Server, started: Instant, may_end: bool) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let watch = move || {
            let mut readings = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                match server.used_memory() {
                    Ok(used_bytes) => readings.push(Reading { at: started.elapsed(), used_bytes }),
                    Err(_) if may_end => break,
                    Err(error) => return Err(error),
                }
                thread::sleep(EVERY);
            }
            Ok(readings)
        };
        Ok(Self { stop, thread: thread::Builder::new().name("demo-watch".to_owned()).spawn(watch)? })
    }

    pub(crate) fn stop(self) -> anyhow::Result<Vec<Reading>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the demo's look at memory died"))?
    }
}
