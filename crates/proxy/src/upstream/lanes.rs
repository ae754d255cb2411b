//! A worker's connections to the server, by what they are for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use keyfold_core::session::Lane;
use slab::Slab;

use super::gate::Gate;
use super::{Status, Upstream};
use crate::client::Client;
use crate::config::Config;
use crate::worker::Worker;

/// The shared connections, and own ones between two clients.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    shared: RefCell<HashMap<Lane, Rc<Upstream>>>,
    /// Every own connection, with a client or between two.
    own: RefCell<Slab<Rc<Upstream>>>,
    /// Those between two clients; whose was used last comes last.
    idle: RefCell<Vec<Rc<Upstream>>>,
    /// Where own connections are opened.
    pub(super) gate: Gate,
}

impl Lanes {
    /// The shared connection of this lane, opened where there is none.
    pub(crate) fn shared(&self, lane: Lane, worker: &Rc<Worker>) -> Rc<Upstream> {
        if let Some(upstream) = self.shared.borrow().get(&lane) {
            return Rc::clone(upstream);
        }
        let upstream = Rc::new(Upstream::new(lane, None));
        self.shared.borrow_mut().insert(lane, Rc::clone(&upstream));
        tokio::task::spawn_local(Rc::clone(&upstream).run_shared(Rc::clone(worker)));
        upstream
    }

    /// A connection that `client` has to itself: one that was given back, or a new one.
    pub(crate) fn own(&self, lane: Lane, client: &Rc<Client>, worker: &Rc<Worker>) -> Rc<Upstream> {
        let mut idle = self.idle.borrow_mut();
        if let Some(found) = idle.iter().rposition(|upstream| upstream.lane.get() == lane && upstream.is_ready()) {
            let upstream = idle.remove(found);
            upstream.queue.borrow_mut().owner = Some(Rc::clone(client));
            return upstream;
        }
        drop(idle);
        let upstream = Rc::new(Upstream::new(lane, Some(Rc::clone(client))));
        let key = self.own.borrow_mut().insert(Rc::clone(&upstream));
        let (task, worker) = (Rc::clone(&upstream), Rc::clone(worker));
        tokio::task::spawn_local(async move {
            let _listed = Listed { key, worker: Rc::clone(&worker) };
            task.run_own(worker).await;
        });
        upstream
    }

    /// Takes back a connection that holds nothing of its client any more. One that isn't what its lane says
    /// is closed.
    pub(crate) fn give_back(&self, upstream: Rc<Upstream>, reusable: bool) {
        let mut queue = upstream.queue.borrow_mut();
        queue.owner = None;
        let clean = reusable && matches!(queue.status, Status::Ready) && queue.pipe.is_idle() && !queue.finishing;
        drop(queue);
        if clean {
            self.idle.borrow_mut().push(upstream);
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

    /// Gives up connections to servers that are not the primary any more; whoever needs one tries at once.
    pub(crate) fn leave(&self, worker: &Worker) {
        self.gate.reopen();
        self.shared.borrow().values().for_each(|upstream| upstream.leave(worker));
        self.own.borrow().iter().for_each(|(_, upstream)| upstream.leave(worker));
    }

    /// Looks after all connections, some times a second.
    pub(crate) fn check(&self, config: &Config) {
        let (now, timeouts) = (Instant::now(), &config.timeouts);
        self.shared.borrow().values().for_each(|upstream| upstream.check(now, timeouts));
        self.own.borrow().iter().for_each(|(_, upstream)| upstream.check(now, timeouts));
        let mut idle = self.idle.borrow_mut();
        idle.retain(|upstream| upstream.is_ready());
        let surplus = idle.len().saturating_sub(config.limits.idle_server_connections);
        let unused = idle[..surplus].iter().take_while(|upstream| upstream.is_unused(now)).count();
        idle.drain(..unused).for_each(|upstream| upstream.finish());
    }
}

/// An own connection stands in the list for as long as its task runs, however that ends.
struct Listed {
    key: usize,
    worker: Rc<Worker>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.worker.lanes.own.borrow_mut().try_remove(self.key);
    }
}
