//! A worker's connections to the server, by what they are for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use keyfold_core::cluster::Node;
use keyfold_core::session::Lane;
use slab::Slab;

use super::gate::Gate;
use super::{Status, Upstream};
use crate::client::Client;
use crate::config::Config;
use crate::stats::LaneGauges;
use crate::worker::Worker;

/// The shared connections to one server, of which there are a few.
type OfOne = Vec<(Lane, Rc<Upstream>)>;

/// The shared connections, and own ones between two clients.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// That to the one server, then those to each node of a cluster by its number.
    shared: RefCell<Vec<OfOne>>,
    /// Every own connection, with a client or between two.
    own: RefCell<Slab<Rc<Upstream>>>,
    /// Those between two clients; whose was used last comes last.
    idle: RefCell<Vec<Rc<Upstream>>>,
    /// Where own connections to each server are opened.
    gates: RefCell<HashMap<Option<Node>, Rc<Gate>>>,
}

impl Lanes {
    /// The shared connection of this lane, to this node of a cluster, opened where there is none.
    pub(crate) fn shared(&self, node: Option<Node>, lane: Lane, worker: &Rc<Worker>) -> Rc<Upstream> {
        if let Some(upstream) = self.known(node, lane) {
            return upstream;
        }
        self.note_new(node, worker);
        let upstream = Rc::new(Upstream::new(node, lane, None));
        let (mut shared, at) = (self.shared.borrow_mut(), place(node));
        if shared.len() <= at {
            shared.resize_with(at + 1, OfOne::new);
        }
        shared[at].push((lane, Rc::clone(&upstream)));
        drop(shared);
        tokio::task::spawn_local(Rc::clone(&upstream).run_shared(Rc::clone(worker)));
        upstream
    }

    /// The same where there is one.
    pub(crate) fn known(&self, node: Option<Node>, lane: Lane) -> Option<Rc<Upstream>> {
        let shared = self.shared.borrow();
        let known = shared.get(place(node))?.iter().find(|(known, _)| *known == lane);
        known.map(|(_, upstream)| Rc::clone(upstream))
    }

    /// A connection is about to be opened. Where there is none to this node of a cluster yet, it may be one whose changes
    /// nobody hears.
    fn note_new(&self, node: Option<Node>, worker: &Worker) {
        let shared = self.shared.borrow();
        if node.is_some() && shared.get(place(node)).is_none_or(Vec::is_empty) {
            worker.everybody.tracking().doubt();
        }
    }

    fn each_shared(&self, body: impl Fn(&Upstream)) {
        self.shared.borrow().iter().flatten().for_each(|(_, upstream)| body(upstream));
    }

    /// Where own connections to this node of a cluster are opened.
    pub(super) fn gate(&self, node: Option<Node>) -> Rc<Gate> {
        Rc::clone(self.gates.borrow_mut().entry(node).or_default())
    }

    /// A connection that `client` has to itself, to this node of a cluster: one that was given back, or a new one.
    pub(crate) fn own(&self, node: Option<Node>, lane: Lane, client: &Rc<Client>, worker: &Rc<Worker>) -> Rc<Upstream> {
        let mut idle = self.idle.borrow_mut();
        let fits =
            |upstream: &Rc<Upstream>| upstream.node == node && upstream.lane.get() == lane && upstream.is_ready();
        if let Some(found) = idle.iter().rposition(fits) {
            let upstream = idle.remove(found);
            upstream.queue.borrow_mut().owner = Some(Rc::clone(client));
            return upstream;
        }
        drop(idle);
        self.note_new(node, worker);
        let upstream = Rc::new(Upstream::new(node, lane, Some(Rc::clone(client))));
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
            upstream.retire();
        }
    }

    /// Lets go of a shared connection that nobody wanted; the next who does opens another.
    pub(crate) fn forget(&self, upstream: &Upstream) {
        let mut shared = self.shared.borrow_mut();
        shared.iter_mut().for_each(|of_one| of_one.retain(|(_, known)| !std::ptr::eq(&raw const **known, upstream)));
    }

    /// Gives up connections to servers that are not the primary any more; whoever needs one tries at once.
    pub(crate) fn leave(&self, worker: &Worker) {
        self.gates.borrow().values().for_each(|gate| gate.reopen());
        self.each_shared(|upstream| upstream.leave(worker));
        self.own.borrow().iter().for_each(|(_, upstream)| upstream.leave(worker));
    }

    /// How many there are.
    pub(crate) fn gauges(&self) -> LaneGauges {
        let mut gauges = LaneGauges::default();
        for (_, upstream) in self.shared.borrow().iter().flatten() {
            match upstream.queue.borrow().status {
                Status::Ready => gauges.shared_ready += 1,
                Status::Connecting => gauges.shared_connecting += 1,
                Status::Away(_) => gauges.shared_away += 1,
                Status::Closed => {}
            }
        }
        gauges.own_idle = self.idle.borrow().len() as u64;
        gauges.own_in_use = (self.own.borrow().len() as u64).saturating_sub(gauges.own_idle);
        gauges
    }

    /// Looks after all connections, some times a second.
    pub(crate) fn check(&self, config: &Config) {
        let (now, timeouts) = (Instant::now(), &config.timeouts);
        self.each_shared(|upstream| upstream.check(now, timeouts));
        self.own.borrow().iter().for_each(|(_, upstream)| upstream.check(now, timeouts));
        let mut idle = self.idle.borrow_mut();
        idle.retain(|upstream| upstream.is_ready());
        let surplus = idle.len().saturating_sub(config.limits.idle_server_connections);
        let unused = idle[..surplus].iter().take_while(|upstream| upstream.is_unused(now)).count();
        idle.drain(..unused).for_each(|upstream| upstream.finish());
    }
}

/// Where the connections to a node stand.
fn place(node: Option<Node>) -> usize {
    node.map_or(0, |node| node.index() + 1)
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
