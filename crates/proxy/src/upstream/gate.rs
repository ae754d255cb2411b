//! Opens clients' own connections a few at a time, and none while the server was just found to be away.
//!
//! After a restart of the server thousands of clients may come back at one moment. Those that share a connection wait
//! for one try; here those that need their own wait for [`TURNS`] tries, and what stands against one stands against
//! all for a while, which grows with each failure.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::LinkError;
use crate::backoff::Backoff;

/// So many connections are opened at one time, in each worker.
const TURNS: usize = 32;

/// Where own connections are opened, one gate for each worker.
#[derive(Debug)]
pub(super) struct Gate {
    turns: Semaphore,
    shut: RefCell<Shut>,
}

/// Until when nobody tries, and why.
#[derive(Debug, Default)]
struct Shut {
    until: Option<(Instant, Arc<str>)>,
    backoff: Backoff,
}

impl Default for Gate {
    fn default() -> Self {
        Self { turns: Semaphore::new(TURNS), shut: RefCell::default() }
    }
}

impl Gate {
    /// Waits for a turn and opens; `random` is any 64 random bits.
    ///
    /// # Errors
    /// Why it can't be opened, or why another could not just before.
    pub(super) async fn pass<T>(
        &self,
        open: impl Future<Output = Result<T, LinkError>>,
        random: u64,
    ) -> Result<T, LinkError> {
        let _turn = self.turns.acquire().await.map_err(|_| LinkError::Closed)?;
        self.check(Instant::now())?;
        let opened = open.await;
        let mut shut = self.shut.borrow_mut();
        match &opened {
            Ok(_) => *shut = Shut::default(),
            Err(why) if shut.until.is_none() => {
                let until = Instant::now() + shut.backoff.next(random);
                shut.until = Some((until, why.to_string().into()));
            }
            // One of those that tried at the same time; the first has spoken for it.
            Err(_) => {}
        }
        opened
    }

    /// Lets the next try, whatever stood against the last.
    pub(super) fn reopen(&self) {
        self.shut.replace(Shut::default());
    }

    fn check(&self, now: Instant) -> Result<(), LinkError> {
        let mut shut = self.shut.borrow_mut();
        match &shut.until {
            Some((until, why)) if now < *until => Err(LinkError::Known(Arc::clone(why))),
            _ => {
                shut.until = None;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::task::{JoinSet, LocalSet};

    use super::*;

    /// How many of these clients get through, and how often it was tried, where each try fails.
    async fn storm(gate: &Rc<Gate>, clients: usize) -> (usize, usize) {
        let tries = Rc::new(Cell::new(0));
        let mut waiting = JoinSet::new();
        for _ in 0..clients {
            let (gate, tries) = (Rc::clone(gate), Rc::clone(&tries));
            let fails = async move {
                tries.set(tries.get() + 1);
                tokio::task::yield_now().await;
                Err::<(), _>(LinkError::Closed)
            };
            waiting.spawn_local(async move { gate.pass(fails, 0).await.is_ok() });
        }
        let passed = waiting.join_all().await.into_iter().filter(|passed| *passed).count();
        (passed, tries.get())
    }

    #[test]
    fn one_failure_speaks_for_all_that_wait() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let gate = Rc::new(Gate::default());
            let (passed, tries) = storm(&gate, 2000).await;
            assert!(passed == 0 && tries <= TURNS, "{passed} passed, {tries} tries");
            let until = gate.shut.borrow().until.as_ref().unwrap().0;
            assert!(gate.check(until).is_ok(), "it is open again after a while");
            assert!(gate.pass(async { Ok(()) }, 0).await.is_ok());
            assert!(gate.shut.borrow().until.is_none());
            storm(&gate, 1).await;
            assert!(gate.check(Instant::now()).is_err());
            gate.reopen();
            assert!(gate.check(Instant::now()).is_ok());
        });
    }
}
