//! Threads that go on until they are told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::anyhow;

/// Whether a thread is to stop.
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Threads under way, each with a result.
pub(super) struct Threads<T> {
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<anyhow::Result<T>>>,
}

impl<T: Send + 'static> Threads<T> {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { stop: Arc::new(AtomicBool::new(false)), handles: Vec::new() }
    }

    /// Starts one more.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub(super) fn start(
        &mut self,
        name: String,
        work: impl FnOnce(&Stop) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<()> {
        let stop = Stop(Arc::clone(&self.stop));
        self.handles.push(thread::Builder::new().name(name).spawn(move || work(&stop))?);
        Ok(())
    }

    /// Tells all of them to stop, and waits for their results.
    ///
    /// # Errors
    /// The first one's that failed.
    pub(super) fn stop(self) -> anyhow::Result<Vec<T>> {
        self.stop.store(true, Ordering::Relaxed);
        let join = |handle: JoinHandle<anyhow::Result<T>>| {
            let name = handle.thread().name().unwrap_or("a thread").to_owned();
            handle.join().map_err(|_| anyhow!("{name} died"))?
        };
        self.handles.into_iter().map(join).collect()
    }
}
