//! Answers that leave together.
//!
//! Before a cluster the requests of one pipeline are answered by several nodes, each at its time. What is sent as it comes
//! goes out in parts: keyfold writes, and the client reads, once for each. So the answers to what came together leave
//! together, or without the rest where that takes long.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use super::Client;
use crate::worker::Worker;

/// How often it is looked who waits for long. The timers' own grain.
const TURN: Duration = Duration::from_millis(1);

/// So many turns answers wait for the rest.
const PATIENCE: u32 = 2;

/// So many bytes wait for no more.
pub(super) const ENOUGH_BYTES: usize = 16 * 1024;

/// The clients of a worker whose answers wait for others.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    clients: RefCell<Vec<Rc<Client>>>,
    turn: Cell<u32>,
    begun: Notify,
}

/// What a client's part in it is.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// The turn since which answers wait.
    since: Cell<Option<u32>>,
    is_listed: Cell<bool>,
}

impl Waits {
    /// Nothing waits any more.
    pub(super) fn end(&self) {
        self.since.set(None);
    }
}

impl Gathering {
    /// Whether what there is for this client may wait for the rest; it is woken once that takes too long.
    pub(super) fn may_wait(&self, client: &Rc<Client>) -> bool {
        let waits = &client.waits;
        let since = waits.since.get().unwrap_or(self.turn.get());
        if self.is_over(since) {
            return false;
        }
        waits.since.set(Some(since));
        if !waits.is_listed.replace(true) {
            let mut clients = self.clients.borrow_mut();
            if clients.is_empty() {
                self.begun.notify_one();
            }
            clients.push(Rc::clone(client));
        }
        true
    }

    fn is_over(&self, since: u32) -> bool {
        self.turn.get().wrapping_sub(since) >= PATIENCE
    }

    /// Wakes those who have waited long enough.
    fn end_turn(&self) {
        self.turn.set(self.turn.get().wrapping_add(1));
        self.clients.borrow_mut().retain(|client| {
            let since = client.waits.since.get();
            let stays = since.is_some_and(|since| !self.is_over(since));
            client.waits.is_listed.set(stays);
            if since.is_some() && !stays {
                client.wake();
            }
            stays
        });
    }
}

/// Has answers wait no longer than they may.
pub(crate) async fn end_waits(worker: Rc<Worker>) {
    let gathering = &worker.gathering;
    loop {
        gathering.begun.notified().await;
        while !gathering.clients.borrow().is_empty() {
            tokio::time::sleep(TURN).await;
            gathering.end_turn();
        }
    }
}
