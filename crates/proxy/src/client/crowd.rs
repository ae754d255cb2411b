//! Writes that wait until something has left a cache.
//!
//! Where memory is above its mark, as much may be written as has left since it was looked at. Whoever would write more waits, so
//! that a burst is slowed down and not refused.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::Instant;

use super::Client;
use crate::worker::Worker;

/// How often it is looked whether there is room. The timers' own grain.
const TURN: Duration = Duration::from_millis(1);

/// No write waits for longer: a server that doesn't say how much has left must not hold up clients for ever.
const PATIENCE: Duration = Duration::from_millis(100);

/// The clients of a worker whose next request waits for room.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    clients: RefCell<Vec<Rc<Client>>>,
    /// How often all were woken.
    turn: Cell<u64>,
}

/// How long a client's next request waits.
#[derive(Debug, Default)]
pub(super) struct Stay {
    since: Cell<Option<Instant>>,
    /// The turn in which it was listed last.
    listed: Cell<Option<u64>>,
}

impl Stay {
    /// It waits no more.
    pub(super) fn end(&self) {
        self.since.set(None);
    }
}

impl Crowd {
    /// Whether a write goes on waiting; the client is woken when it is worth another try.
    pub(super) fn holds(client: &Rc<Client>, stay: &Stay, worker: &Rc<Worker>) -> bool {
        let begun = stay.since.get().unwrap_or_else(|| {
            worker.cache.count_waited();
            Instant::now()
        });
        stay.since.set(Some(begun));
        if begun.elapsed() >= PATIENCE || worker.stopping.get() {
            return false;
        }
        let turn = worker.crowd.turn.get();
        if stay.listed.replace(Some(turn)) != Some(turn) {
            let mut clients = worker.crowd.clients.borrow_mut();
            if clients.is_empty() {
                spawn_local(wake_when_there_is_room(Rc::clone(worker)));
            }
            clients.push(Rc::clone(client));
        }
        true
    }
}

/// In the order in which they came.
async fn wake_when_there_is_room(worker: Rc<Worker>) {
    let until = Instant::now() + PATIENCE;
    while !worker.cache.has_room() && Instant::now() < until {
        tokio::time::sleep(TURN).await;
    }
    let clients = worker.crowd.clients.take();
    worker.crowd.turn.set(worker.crowd.turn.get() + 1);
    clients.iter().for_each(|client| client.wake());
}
