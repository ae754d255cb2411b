//! A worker's connections to the server, by what they are for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use keyfold_core::session::Lane;

use super::{Status, Upstream};
use crate::client::Client;
use crate::worker::Worker;

/// The shared connections, and own ones between two clients.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    shared: RefCell<HashMap<Lane, Rc<Upstream>>>,
    idle: RefCell<Vec<Rc<Upstream>>>,
}

impl Lanes {
    /// The shared connection of this lane, opened where there is none.
    pub(crate) fn shared(&self, lane: Lane, worker: &Rc<Worker>) -> Rc<Upstream> {
        if let Some(upstream) = self.shared.borrow().get(&lane) {
            return Rc::clone(upstream);
        }
        let upstream = Rc::new(Upstream::new(lane, None, worker.tick.get()));
        self.shared.borrow_mut().insert(lane, Rc::clone(&upstream));
        tokio::task::spawn_local(Rc::clone(&upstream).run_shared(Rc::clone(worker)));
        upstream
    }

    /// A connection that `client` has to itself: one that was given back, or a new one.
    pub(crate) fn own(&self, lane: Lane, client: &Rc<Client>, worker: &Rc<Worker>) -> Rc<Upstream> {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|upstream| matches!(upstream.queue.borrow().status, Status::Ready));
        if let Some(found) = idle.iter().rposition(|upstream| upstream.lane.get() == lane) {
            let upstream = idle.swap_remove(found);
            upstream.queue.borrow_mut().owner = Some(Rc::clone(client));
            return upstream;
        }
        drop(idle);
        let upstream = Rc::new(Upstream::new(lane, Some(Rc::clone(client)), worker.tick.get()));
        tokio::task::spawn_local(Rc::clone(&upstream).run_own(Rc::clone(worker)));
        upstream
    }

    /// Takes back a connection that holds nothing of its client any more. One that isn't what its lane says
    /// is closed.
    pub(crate) fn give_back(&self, upstream: Rc<Upstream>, reusable: bool, worker: &Worker) {
        let mut queue = upstream.queue.borrow_mut();
        queue.owner = None;
        let clean = reusable && matches!(queue.status, Status::Ready) && queue.pending.is_empty() && !queue.finishing;
        drop(queue);
        let mut idle = self.idle.borrow_mut();
        if clean && idle.len() < worker.config.limits.idle_server_connections {
            idle.push(upstream);
        } else {
            upstream.finish();
        }
    }

    /// Lets go of a shared connection that nobody wanted; the next who does opens another.
    pub(crate) fn forget(&self, upstream: &Rc<Upstream>) {
        let mut shared = self.shared.borrow_mut();
        if shared.get(&upstream.lane.get()).is_some_and(|known| Rc::ptr_eq(known, upstream)) {
            shared.remove(&upstream.lane.get());
        }
    }

    /// Looks after the shared connections, every second.
    pub(crate) fn check(&self, tick: u32, timeout_ticks: u32) {
        for upstream in self.shared.borrow().values() {
            upstream.check(tick, timeout_ticks);
        }
    }
}
