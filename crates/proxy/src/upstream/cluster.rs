//! The cluster before which a worker stands: which steps go to which of its nodes.
//!
//! The core's [`Router`] decides; here its orders are carried out. A step that a client begins is sent at once, or waits
//! with the router. Nothing else is done from there, as the client is under way itself: what has become possible is left
//! to the cluster's own task ([`keep`]), or to the connection that has just read replies.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use keyfold_core::cluster::{
    Adoption, Alone, AskedAt, Direct, Endpoint, Node, Order, Outcome, ReadFrom, Redirect, Refresh, Replicas, Router,
    SlotMap, Topology, Tries,
};
use keyfold_core::drive::Progress;
use keyfold_core::exchange::ClusterRules;
use keyfold_core::slot::Slot;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::Upstream;
use super::lookout::Lookout;
use super::step::{After, NodeStep, Whose};
use crate::config::Config;
use crate::stats::ClusterGauges;
use crate::worker::Worker;

/// A slot that is not served is tried again after so long.
const PAUSE_MS: i64 = 20;

/// Longer commands are not copied: a step owns them.
const DIRECT_BYTES: usize = 16 * 1024;

/// What a client is told whose WATCH, or the reads behind its EXEC, are at a node that has the slot no more.
pub(crate) const LEFT_BEHIND: &str = "TRYAGAIN keyfold: not carried out: its slot has moved to another node; begin again, with WATCH where there was one";

/// A cluster, as one worker knows it.
#[derive(Debug)]
pub(crate) struct Cluster {
    router: RefCell<Router<Whose>>,
    /// Room for the commands of the step that begins next.
    room: RefCell<Vec<u8>>,
    pub(super) refresh: RefCell<Refresh>,
    /// The nodes that were named at the start.
    pub(super) seeds: Vec<Endpoint>,
    pub(crate) rules: ClusterRules,
    pub(super) lookout: Lookout,
    pub(super) replicas: RefCell<Replicas>,
    /// Each primary with a slot of its own, and of which map that is.
    shards: RefCell<Vec<(Node, Slot)>>,
    shards_of: Cell<u64>,
    /// How many slots some node has.
    served: Cell<u64>,
    start: Instant,
    /// There is something to do for the cluster's task.
    pub(super) stirred: Notify,
    /// A map has come for the first time.
    known: Notify,
    is_known: Cell<bool>,
}

impl Cluster {
    /// A cluster of which only some nodes are known.
    pub(crate) fn new(seeds: Vec<Endpoint>, config: &Config) -> Self {
        let give_up_after_ms = i64::try_from(config.timeouts.connect.as_millis()).unwrap_or(i64::MAX);
        let max_lag_ms = i64::try_from(config.max_replica_lag.as_millis()).unwrap_or(i64::MAX);
        let tries = Tries { give_up_after_ms, pause_ms: PAUSE_MS };
        Self {
            router: RefCell::new(Router::new(SlotMap::new((*config.addresses).clone()), tries)),
            room: RefCell::default(),
            refresh: RefCell::default(),
            seeds,
            rules: ClusterRules {
                split_writes: config.split_writes,
                read_replicas: config.read_from != ReadFrom::Primary,
            },
            lookout: Lookout::default(),
            replicas: RefCell::new(Replicas::new(config.read_from, max_lag_ms)),
            shards: RefCell::default(),
            shards_of: Cell::new(0),
            served: Cell::new(0),
            start: Instant::now(),
            stirred: Notify::new(),
            known: Notify::new(),
            is_known: Cell::new(false),
        }
    }

    /// Milliseconds since it began, which no clock puts back.
    pub(crate) fn now_ms(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// The node that has a slot.
    pub(crate) fn node_of(&self, slot: Slot) -> Option<Node> {
        self.router.borrow().map().primary(slot)
    }

    /// Where the node takes clients to which a connection goes; none before a single server.
    pub(super) fn endpoint_of(node: Option<Node>, worker: &Worker) -> Option<Endpoint> {
        node.zip(worker.cluster.get()).map(|(node, cluster)| cluster.endpoint(node))
    }

    /// Where a node takes clients.
    pub(crate) fn endpoint(&self, node: Node) -> Endpoint {
        self.router.borrow().map().endpoint(node).clone()
    }

    /// The node at this endpoint.
    pub(crate) fn node_at(&self, endpoint: &Endpoint) -> Node {
        self.router.borrow_mut().map_mut().node(endpoint)
    }

    /// Each primary, with one of its slots.
    pub(crate) fn shards(&self) -> Vec<(Node, Slot)> {
        self.present_shards().clone()
    }

    /// Each primary with a slot that it has now: a node's word about one slot changes that too.
    fn present_shards(&self) -> Ref<'_, Vec<(Node, Slot)>> {
        let router = self.router.borrow();
        let map = router.map();
        if self.shards_of.replace(map.changes()) != map.changes() {
            let (mut shards, mut served) = (BTreeMap::new(), 0);
            for (slot, node) in Slot::all().filter_map(|slot| Some((slot, map.primary(slot)?))) {
                shards.entry(node).or_insert(slot);
                served += 1;
            }
            self.served.set(served);
            *self.shards.borrow_mut() = shards.into_iter().collect();
        }
        self.shards.borrow()
    }

    /// How often the map came to be another.
    pub(crate) fn changes(&self) -> u64 {
        self.router.borrow().map().changes()
    }

    /// Primaries that have no slot, and one that is on its way to them: what was written of it may be there.
    pub(crate) fn importers(&self) -> Vec<(Node, Slot)> {
        let router = self.router.borrow();
        let shards = self.present_shards();
        router.led_ahead().filter(|(node, _)| !shards.iter().any(|(shard, _)| shard == node)).collect()
    }

    /// The slot isn't on its way to that primary any more.
    pub(crate) fn forget_importer(&self, node: Node, slot: Slot) {
        self.router.borrow_mut().forget_led_ahead(node, slot);
    }

    /// A slot for what any node can answer: of one that is there, where that is known, and of the same one for each
    /// client.
    pub(crate) fn any_slot(&self, client: usize, is_ready: impl Fn(Node) -> bool) -> Slot {
        let shards = self.present_shards();
        let at = client.checked_rem(shards.len()).unwrap_or(0);
        let from_there = || shards.iter().skip(at).chain(&shards[..at]);
        let ready = from_there().find(|(node, _)| is_ready(*node)).or_else(|| from_there().next());
        ready.map_or(Slot::FIRST, |(_, slot)| *slot)
    }

    /// What is known of it, and how it went so far.
    pub(crate) fn gauges(&self) -> ClusterGauges {
        let (router, shards) = (self.router.borrow(), self.present_shards());
        let map = router.map();
        let replicas: BTreeSet<Node> = shards.iter().flat_map(|(_, slot)| map.replicas(*slot)).copied().collect();
        ClusterGauges {
            is_there: true,
            primaries: shards.len() as u64,
            replicas: replicas.len() as u64,
            served_slots: self.served.get(),
            held_slots: router.held() as u64,
            map_changes: map.changes(),
            redirects: router.redirects(),
        }
    }

    /// Another layout is in force: replicas are read from once they have all that was written before.
    pub(crate) fn follow_layout(&self) {
        self.replicas.borrow_mut().begin_anew();
    }

    /// Each primary with its replicas.
    pub(super) fn shards_with_replicas(&self) -> Vec<(Node, Vec<Node>)> {
        let (router, shards) = (self.router.borrow(), self.present_shards());
        shards.iter().map(|(node, slot)| (*node, router.map().replicas(*slot).to_vec())).collect()
    }

    /// The replica that a reader is to ask for keys of this slot; none where that is the primary.
    pub(crate) fn replica_of(&self, slot: Slot, reader: usize, is_ready: impl Fn(Node) -> bool) -> Option<Node> {
        let router = self.router.borrow();
        let (primary, replicas) = (router.map().primary(slot)?, router.map().replicas(slot));
        self.replicas.borrow_mut().choose(primary, replicas, reader, self.now_ms(), is_ready)
    }

    /// Waits until a map is known.
    pub(crate) async fn until_known(&self) {
        let known = self.known.notified();
        if !self.is_known.get() {
            known.await;
        }
    }

    /// The nodes that may be asked for the map: those that are known, and those that were named at the start.
    pub(super) fn nodes(&self) -> Vec<Endpoint> {
        let router = self.router.borrow();
        let map = router.map();
        let mut nodes: Vec<Endpoint> = Vec::new();
        for (node, slot) in self.present_shards().iter() {
            nodes.push(map.endpoint(*node).clone());
            nodes.extend(map.replicas(*slot).iter().map(|replica| map.endpoint(*replica).clone()));
        }
        for seed in &self.seeds {
            if !nodes.contains(seed) {
                nodes.push(seed.clone());
            }
        }
        nodes
    }

    /// Notes that nodes are asked for the map now.
    pub(super) fn ask(&self) -> AskedAt {
        self.router.borrow().map().ask()
    }

    /// Takes a node's word about the cluster.
    pub(super) fn adopt(&self, topology: &Topology, asked: AskedAt) -> Adoption {
        let adoption = self.router.borrow_mut().adopt(topology, asked);
        if matches!(adoption, Adoption::Adopted { .. }) && !self.is_known.replace(true) {
            self.known.notify_waiters();
        }
        adoption
    }

    /// Something suggests that the map is not right any more.
    pub(crate) fn doubt_map(&self) {
        self.refresh.borrow_mut().want();
        self.stirred.notify_one();
    }

    /// Empty room for a step's commands.
    pub(crate) fn room(&self) -> Vec<u8> {
        self.room.take()
    }

    /// Takes the room back, to be used again.
    pub(crate) fn give_back_room(&self, mut room: Vec<u8>) {
        room.clear();
        self.room.replace(room);
    }

    /// Begins the step of these commands: sends it, or has it wait. Takes them where it keeps them.
    pub(crate) fn begin(&self, whose: Whose, commands: &mut Vec<u8>, worker: &Rc<Worker>) {
        let node = self.node_of(whose.at);
        let upstream = node.and_then(|node| worker.lanes.known(Some(node), whose.lane.at_primary()));
        self.begin_by(whose, commands, node.zip(upstream.as_deref()), worker);
    }

    /// The same by the shared connection to its slot's node, where there is one.
    #[inline]
    pub(crate) fn begin_by(
        &self,
        whose: Whose,
        commands: &mut Vec<u8>,
        known: Option<(Node, &Upstream)>,
        worker: &Rc<Worker>,
    ) {
        if let Some((node, upstream)) = known
            && whose.is_ordinary()
            && commands.len() <= DIRECT_BYTES
            && upstream.is_ready()
            && let Some(direct) = self.router.borrow_mut().begin_direct(node, whose.at)
        {
            // Its node just answers it, most likely.
            upstream.queue().send_direct(direct, whose, commands);
            upstream.wake();
            return;
        }
        let now_ms = self.now_ms();
        self.begin_at(whose.step(mem::take(commands), now_ms), now_ms, worker);
    }

    /// Notes that all replies to such a step have come; whether that is all.
    pub(super) fn finish_direct(&self, direct: &Direct) -> bool {
        self.router.borrow_mut().finish_direct(direct)
    }

    fn begin_at(&self, step: NodeStep, now_ms: i64, worker: &Rc<Worker>) {
        let Some(replica) = step.whose.replica else { return self.begin_step(step, now_ms, worker) };
        let upstream = worker.lanes.known(Some(replica), step.whose.lane).filter(|upstream| upstream.is_ready());
        let Some(upstream) = upstream.filter(|_| step.only_reads()) else { return self.bring_back(step, None, worker) };
        if let Err((step, reason)) = upstream.take(step) {
            self.bring_back(step, Some(&reason), worker);
        }
    }

    /// A step that a replica was sent, or was to be, goes to the primary; with why where the replica isn't to be sent
    /// others for now.
    pub(super) fn bring_back(&self, mut step: NodeStep, trouble: Option<&str>, worker: &Rc<Worker>) {
        if let Some(replica) = step.whose.replica.take() {
            self.replicas.borrow_mut().note_returned(replica, trouble);
        }
        let sent = self.router.borrow_mut().bring_back(step, self.now_ms());
        match sent {
            Some((node, step)) => self.send(node, step, worker),
            None => self.stirred.notify_one(),
        }
    }

    /// All replies have come from a replica.
    fn finish_at_replica(&self, mut step: NodeStep, worker: &Rc<Worker>) {
        match step.outcome() {
            Outcome::Answered(replies) => self.hand_out(&step.whose, None, &replies, worker),
            Outcome::Led(cause) => {
                let said = String::from_utf8_lossy(&cause);
                let is_of_slot = matches!(Redirect::read(&cause), Some(Redirect::Ask(..) | Redirect::TryAgain));
                if !is_of_slot {
                    self.doubt_map();
                }
                let trouble = (!is_of_slot).then(|| format!("it says: {}", said.trim_start_matches('-').trim_end()));
                self.bring_back(step, trouble.as_deref(), worker);
            }
        }
    }

    fn begin_step(&self, step: NodeStep, now_ms: i64, worker: &Rc<Worker>) {
        let sent = self.router.borrow_mut().begin(step, now_ms);
        match sent {
            Some((node, step)) => self.send(node, step, worker),
            None => self.stirred.notify_one(),
        }
    }

    fn send(&self, node: Node, step: NodeStep, worker: &Rc<Worker>) {
        let upstream = worker.lanes.shared(Some(node), step.whose.lane.at_primary(), worker);
        if let Err((step, reason)) = upstream.take(step) {
            self.give_back(node, step, &reason);
        }
    }

    /// A step could not be sent.
    pub(super) fn give_back(&self, node: Node, step: NodeStep, reason: &str) {
        self.router.borrow_mut().give_back(node, step, reason, self.now_ms());
        self.stirred.notify_one();
    }

    /// Goes on after replies from `node`.
    pub(super) fn settle(&self, node: Node, after: Vec<After>, worker: &Rc<Worker>) {
        let now_ms = self.now_ms();
        for after in after {
            match after {
                After::Begin { before, replies, commands } => {
                    self.begin_next(&before, Some(node), replies, commands, worker);
                }
                After::Finish(step) if step.whose.is_alone() => {
                    let alone = self.router.borrow_mut().finish_alone(node, step, now_ms);
                    self.go_on_alone(alone, Some(node), worker);
                }
                After::Finish(step) if step.whose.replica.is_some() => self.finish_at_replica(step, worker),
                After::Finish(step) => {
                    let finished = self.router.borrow_mut().finish(node, step, now_ms);
                    if let Some((whose, replies)) = finished {
                        self.hand_out(&whose, None, &replies, worker);
                    }
                }
            }
        }
        self.carry_out(worker);
        if self.router.borrow().held() > 0 {
            self.stirred.notify_one();
        }
    }

    /// The connection to `node` took a step with it.
    pub(super) fn lose(&self, node: Node, step: NodeStep, reason: &str, worker: &Rc<Worker>) {
        if step.whose.replica.is_some() {
            match step.flows() {
                true => step.whose.lose(reason),
                false => self.bring_back(step, Some("the connection to it was lost"), worker),
            }
            return;
        }
        if step.whose.is_alone() {
            self.doubt_map();
            step.whose.lose(reason);
            return;
        }
        let lost = self.router.borrow_mut().lose(node, step, reason, self.now_ms());
        if let Some((whose, _)) = lost {
            whose.lose(reason);
        }
        self.stirred.notify_one();
    }

    /// Carries out what the router orders.
    pub(super) fn carry_out(&self, worker: &Rc<Worker>) {
        loop {
            let order = self.router.borrow_mut().poll(self.now_ms());
            match order {
                None => break,
                Some(Order::Send(node, step)) => {
                    note_written_ahead(&step);
                    self.send(node, step, worker);
                }
                Some(Order::Answer(whose, replies)) => self.hand_out(&whose, None, &replies, worker),
            }
        }
        if self.router.borrow_mut().take_wish_for_map() {
            self.refresh.borrow_mut().want();
        }
    }

    /// When the router may have something to do though nothing else happens.
    pub(super) fn next_ms(&self) -> Option<i64> {
        let router = self.router.borrow().next_ms();
        let refresh = self.refresh.borrow().next_ms();
        router.into_iter().chain(refresh).min()
    }

    /// Hands over replies that were kept back, of `node` where that matters to what follows.
    fn hand_out(&self, whose: &Whose, node: Option<Node>, replies: &[Vec<u8>], worker: &Rc<Worker>) {
        for reply in replies {
            let mut wire = Vec::new();
            match worker.with_env(|env| whose.handle_reply(reply, env, &mut wire)) {
                Progress::Kept => {}
                Progress::More(replies) => {
                    self.begin_next(whose, node, replies, wire, worker);
                }
                Progress::Unexpected => whose.lose("a node sent a reply of another kind than the command has"),
            }
        }
    }

    /// Goes on with what the replies of `node` have led to.
    fn begin_next(&self, before: &Whose, node: Option<Node>, replies: u32, mut commands: Vec<u8>, worker: &Rc<Worker>) {
        let next = before.next(replies);
        if let (Some(replica), None) = (before.replica, next.replica) {
            self.replicas.borrow_mut().note_returned(replica, None);
        }
        match node {
            _ if !next.is_alone() => self.begin(next, &mut commands, worker),
            // Its client may have gone on to another node meanwhile.
            Some(node) if !next.stays => {
                let step = next.step(commands, self.now_ms());
                self.go_on_alone(Alone::Send(node, step), Some(node), worker);
            }
            _ => before.client.send_alone(next.step(commands, self.now_ms())),
        }
    }

    /// Goes on with a step on a connection that its client has to itself, which was to `node`.
    fn go_on_alone(&self, alone: Alone<Whose>, node: Option<Node>, worker: &Rc<Worker>) {
        match alone {
            Alone::Answer(whose, replies) => self.hand_out(&whose, node, &replies, worker),
            Alone::Wait(step, _) if step.whose.stays => {
                self.doubt_map();
                step.whose.lose(LEFT_BEHIND);
                step.whose.client.end_own_lane();
            }
            Alone::Wait(step, until_ms) => {
                self.doubt_map();
                let pause = u64::try_from(until_ms - self.now_ms()).unwrap_or(0);
                let worker = Rc::clone(worker);
                spawn_local(async move {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    let Some(cluster) = worker.cluster.get() else { return };
                    if step.whose.client.is_gone() {
                        // Nobody waits for what it would take; but a change of the layout, until all has ended.
                        return step.whose.lose("the client has gone");
                    }
                    let now_ms = cluster.now_ms();
                    let alone = cluster.router.borrow_mut().go_on_alone(step, now_ms);
                    cluster.go_on_alone(alone, node, &worker);
                });
            }
            Alone::Send(node, step) => {
                let client = Rc::clone(&step.whose.client);
                note_written_ahead(&step);
                let upstream: Rc<Upstream> = client.own_lane_at(node, step.whose.lane, worker);
                let here = upstream.is_ready().then(|| upstream.waits_on(Some(self.endpoint(node)))).flatten();
                client.note_waits_on(here);
                if let Err((step, reason)) = upstream.take(step) {
                    self.give_back_alone(node, step, &reason, worker);
                }
            }
        }
    }

    /// A step could not be sent on a connection of its own.
    pub(super) fn give_back_alone(&self, node: Node, step: NodeStep, reason: &str, worker: &Rc<Worker>) {
        let alone = self.router.borrow_mut().give_back_alone(node, step, reason, self.now_ms());
        self.go_on_alone(alone, Some(node), worker);
    }
}

/// Notes with its client where a step writes at a node that doesn't have its slot yet.
fn note_written_ahead(step: &NodeStep) {
    if step.writes_ahead() {
        step.whose.client.note_written_ahead();
    }
}
