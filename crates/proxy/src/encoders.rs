//! Threads that encode large values, so that no worker, and none of its other clients, waits for that.
//!
//! ```text
//! client's next request ──Ahead──▶ queue ──▶ thread: run ──Encoded──▶ the client's task is woken, and begins the request
//! ```
//! A client has one request here at the most, its next one, and what waits is bounded in bytes: beyond that clients wait to
//! be let in. Nothing was sent for a request that is here, so that it is done wholly or not at all, whatever becomes of its
//! client; where that has gone, nobody encodes for it. Threads are started when they are first needed, and end with the
//! proxy. Where one can't be had, or dies, workers encode themselves.

use std::collections::VecDeque;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::task::Waker;

use keyfold_core::exchange::{Ahead, Encoded};
use tokio::sync::oneshot;

/// Bytes of values that wait, or are being encoded, before clients wait to be let in. A larger value is let in alone.
const MOST_BYTES: usize = 64 << 20;

/// The threads, for all workers.
#[derive(Debug)]
pub(crate) struct Encoders {
    threads: usize,
    started: Once,
    shared: Arc<Shared>,
}

/// What came of asking for values to be encoded.
#[derive(Debug)]
pub(crate) enum Asked {
    /// What will be received.
    Begun(oneshot::Receiver<Encoded>),
    /// They are to be brought again: the task is woken when that is worth another try.
    Wait(Ahead),
    /// There is no thread: who asks encodes.
    Nobody,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Bytes of the jobs that wait or run.
    bytes: usize,
    /// Who waits to be let in.
    waiting: Vec<Waker>,
    running: usize,
    is_over: bool,
}

#[derive(Debug)]
struct Job {
    values: Ahead,
    to: oneshot::Sender<Encoded>,
}

impl Encoders {
    /// So many threads, or a number that leaves each worker a processor.
    pub(crate) fn new(threads: Option<usize>, workers: usize) -> Self {
        let threads = threads.unwrap_or_else(|| default_threads(workers));
        Self { threads, started: Once::new(), shared: Arc::default() }
    }

    /// Has these values encoded; `task` is woken then.
    pub(crate) fn ask(&self, values: Ahead, task: &Waker) -> Asked {
        self.started.call_once(|| self.start());
        let mut queue = self.shared.lock();
        if queue.running == 0 {
            return Asked::Nobody;
        }
        let bytes = values.bytes();
        if queue.bytes > 0 && queue.bytes + bytes > MOST_BYTES {
            queue.waiting.push(task.clone());
            return Asked::Wait(values);
        }
        let (to, receiver) = oneshot::channel();
        queue.bytes += bytes;
        queue.jobs.push_back(Job { values, to });
        drop(queue);
        self.shared.changed.notify_one();
        Asked::Begun(receiver)
    }

    /// Whether there are any, or will be.
    pub(crate) fn are_there(&self) -> bool {
        self.threads > 0
    }

    fn start(&self) {
        for number in 0..self.threads {
            let shared = Arc::clone(&self.shared);
            shared.lock().running += 1;
            let thread = std::thread::Builder::new().name(format!("keyfold-enc-{number}"));
            if let Err(error) = thread.spawn(move || shared.run()) {
                tracing::warn!(%error, "a thread that encodes large values can't be started");
                self.shared.lock().running -= 1;
            }
        }
    }
}

impl Drop for Encoders {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes one job after the other, until the proxy has ended.
    fn run(&self) {
        while let Some(Job { values, to }) = self.next() {
            let bytes = values.bytes();
            if !to.is_closed() {
                // Who waits hears of a panic by what it receives, and encodes itself.
                if let Ok(encoded) = catch_unwind(AssertUnwindSafe(|| values.run())) {
                    // Fails where it has gone meanwhile.
                    let _ = to.send(encoded);
                }
            }
            let mut queue = self.lock();
            queue.bytes -= bytes;
            let waiting = std::mem::take(&mut queue.waiting);
            drop(queue);
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    fn next(&self) -> Option<Job> {
        let queue = self.lock();
        let is_idle = |queue: &mut Queue| queue.jobs.is_empty() && !queue.is_over;
        let mut queue = self.changed.wait_while(queue, is_idle).unwrap_or_else(PoisonError::into_inner);
        queue.jobs.pop_front().filter(|_| !queue.is_over)
    }
}

/// A worker that waits for a processor is worse off than one whose clients wait for a value, and so there are no more of
/// these than processors without a worker; but one costs nothing while nobody has large values, and where there is no
/// processor for it the system has it take turns with the worker, which would have to encode alone otherwise.
fn default_threads(workers: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_sub(workers).clamp(1, workers.max(1))
}
