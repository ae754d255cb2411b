//! Begins requests before a cluster: each goes to the nodes that it concerns.

use std::rc::Rc;

use keyfold_core::admin::home;
use keyfold_core::cluster::{Node, Target};
use keyfold_core::drive::{PartRequest, Started};
use keyfold_core::exchange::Env;
use keyfold_core::session::{Lane, Patience, Plan, has_error_code};
use keyfold_core::slot::Slot;

use super::State;
use super::requests::{Request, Requests, Start, own_lane, refuse, refuse_for_now};
use crate::upstream::{Cluster, LEFT_BEHIND, Status, Whom, Whose, ask_alone};

/// What is answered where no node has a slot.
const NO_NODE: &str = "CLUSTERDOWN keyfold: no node of the cluster has the slot; looking for one";

/// What is answered to a command that would need a second connection of the client's own.
const ELSEWHERE: &str = "ERR keyfold: what this connection watches or is subscribed to is at another node of the cluster; \
                         send this command on a connection of its own";

/// What is answered to a command that was not begun, with a code that clients which know clusters try again on.
fn try_later(reason: &str) -> String {
    match has_error_code(reason) {
        true => reason.to_owned(),
        false => format!("CLUSTERDOWN keyfold: not carried out: {reason}"),
    }
}

impl Requests {
    pub(super) fn begin_in_cluster(
        &self,
        state: &mut State,
        request: &mut Request<'_, '_>,
        env: &mut Env<'_>,
        cluster: &Rc<Cluster>,
    ) -> Start {
        if !self.worker.membership.is_serving() {
            return match self.worker.membership.trouble() {
                Some(trouble) => refuse_for_now(state, &mut request.plan, request.args, &try_later(&trouble)),
                None => Start::Wait,
            };
        }
        if request.plan.goes_by_slots() {
            request.plan.take_shared_lane();
        }
        if matches!(request.plan.lane, Lane::Own { .. }) {
            let node = self.own_node(state, &request.plan.target, cluster);
            if !self.holds_state_elsewhere(state, node) {
                return self.begin_alone(state, request, env, cluster, node);
            }
            if request.plan.is_exec() && !state.conversation.session().is_subscribed() {
                // Its WATCH is at a node that has the slot no more: as broken as can be.
                state.end_own();
                return refuse(state, &request.plan, request.args, LEFT_BEHIND);
            }
            request.plan.take_shared_lane();
            if !request.plan.may_share() {
                return refuse(state, &request.plan, request.args, ELSEWHERE);
            }
        }
        match &request.plan.target {
            Target::Parts(_) | Target::Shards => self.begin_parts(state, request, env, cluster),
            Target::Slot(slot) => self.begin_step(state, request, env, cluster, *slot),
            Target::Node(node) => {
                let node = cluster.node_at(node);
                self.begin_at_node(state, request, env, cluster, node)
            }
            Target::Any | Target::CrossSlot => {
                let slot = self.any_slot(request.plan.lane, cluster);
                self.begin_step(state, request, env, cluster, slot)
            }
        }
    }

    /// The replica that a request on keys of this slot goes to; none where it goes to the primary.
    fn replica(&self, plan: &Plan, at: Slot, cluster: &Cluster) -> Option<Node> {
        let lane = plan.lane;
        if !matches!(lane, Lane::Replica { .. }) {
            return None;
        }
        // A connection that is yet to come up is opened and not waited for.
        let is_ready = |node| self.worker.lanes.shared(Some(node), lane, &self.worker).is_ready();
        cluster.replica_of(at, self.number(), is_ready)
    }

    /// A number for the client, evenly spread.
    fn number(&self) -> usize {
        Rc::as_ptr(&self.client) as usize / size_of::<super::Client>().max(1)
    }

    /// A slot for what any node may answer.
    fn any_slot(&self, lane: Lane, cluster: &Cluster) -> Slot {
        cluster.any_slot(self.number(), |node| {
            self.worker.lanes.known(Some(node), lane).is_some_and(|lane| lane.is_ready())
        })
    }

    fn begin_step(
        &self,
        state: &mut State,
        request: &mut Request<'_, '_>,
        env: &mut Env<'_>,
        cluster: &Rc<Cluster>,
        at: Slot,
    ) -> Start {
        let replica = self.replica(&request.plan, at, cluster);
        if replica.is_none() && state.conversation.in_flight() == 0 {
            request.plan.take_shared_lane();
        }
        let high_water_bytes = self.worker.config.limits.server_high_water_bytes;
        let lane = if replica.is_some() { request.plan.lane } else { request.plan.lane.at_primary() };
        let node = replica.or_else(|| cluster.node_of(at));
        let upstream = node.and_then(|node| self.worker.lanes.known(Some(node), lane));
        if upstream.as_ref().is_some_and(|upstream| !upstream.poll_room(&self.client, high_water_bytes)) {
            return Start::Wait;
        }
        let mut commands = cluster.room();
        let Request { plan, args, raw } = request;
        let start = match state.conversation.begin(plan, args, *raw, env, &mut commands, state.outbox.buffer()) {
            Started::Answered | Started::Pushes => Start::Begun,
            Started::Close => Start::Close,
            Started::Sent { slot, replies } => {
                let at = state.conversation.goes_to(slot).unwrap_or(at);
                // Where another node has that slot the router doesn't take the step for this one.
                let known = node.zip(upstream.as_deref());
                note_written(state, &request.plan, at, cluster);
                let whose = Whose { replica, ..self.whose(request, slot, at, replies) };
                cluster.begin_by(whose, &mut commands, known, &self.worker);
                Start::Begun
            }
        };
        cluster.give_back_room(commands);
        start
    }

    /// Runs a request that several nodes carry out.
    fn begin_parts(
        &self,
        state: &mut State,
        request: &mut Request<'_, '_>,
        env: &mut Env<'_>,
        cluster: &Rc<Cluster>,
    ) -> Start {
        let replicas: Vec<Option<Node>> = match &request.plan.target {
            Target::Parts(parts) => parts.iter().map(|part| self.replica(&request.plan, part.slot, cluster)).collect(),
            _ => Vec::new(),
        };
        if replicas.iter().all(Option::is_none) && state.conversation.in_flight() == 0 {
            request.plan.take_shared_lane();
        }
        let Request { plan, args, .. } = &*request;
        if plan.awaits_replicas() {
            return self.begin_wait(state, request, env, cluster);
        }
        let (slots, parts): (Vec<Slot>, Vec<PartRequest<'_>>) = match &plan.target {
            Target::Parts(parts) => parts.iter().map(|part| (part.slot, PartRequest::of_slot(part, args))).unzip(),
            _ => {
                let home = cluster.node_of(home());
                let whole = |(node, slot)| (slot, PartRequest::whole(args, slot, home == Some(node)));
                cluster.shards().into_iter().map(whole).unzip()
            }
        };
        if slots.is_empty() {
            cluster.doubt_map();
            return refuse(state, plan, args, NO_NODE);
        }
        let (slot, sent) = state.conversation.begin_parts(plan, args, parts, env, state.outbox.buffer());
        for mut part in sent {
            let at = slots.get(part.part).copied().unwrap_or(Slot::FIRST);
            let replica = replicas.get(part.part).copied().flatten();
            let whose = Whose { part: Some(part.part), replica, ..self.whose(request, slot, at, part.replies) };
            note_written(state, plan, at, cluster);
            cluster.begin(whose, &mut part.commands, &self.worker);
        }
        Start::Begun
    }

    /// Has the nodes wait to which the client has written, or all where it may have been any.
    fn begin_wait(
        &self,
        state: &mut State,
        request: &Request<'_, '_>,
        env: &mut Env<'_>,
        cluster: &Rc<Cluster>,
    ) -> Start {
        let Request { plan, args, .. } = request;
        let written = state.written.nodes(cluster.changes()).filter(|_| !self.client.has_written_ahead());
        let has_written = |node: &Node| written.is_none_or(|written| written.contains(node));
        let shards = cluster.shards().into_iter().filter(|(node, _)| has_written(node));
        let importers = if self.client.has_written_ahead() { cluster.importers() } else { Vec::new() };
        let asked: Vec<(Whom, Slot)> = shards
            .map(|(node, slot)| (Whom::Node(node), slot))
            .chain(importers.into_iter().map(|(node, slot)| (Whom::Importer(node), slot)))
            .collect();
        if asked.is_empty() {
            cluster.doubt_map();
            return refuse(state, plan, args, NO_NODE);
        }
        // Whether keyfold's own keys are there matters to FLUSHALL alone.
        let parts = asked.iter().map(|(_, slot)| PartRequest::whole(args, *slot, true)).collect();
        let (slot, sent) = state.conversation.begin_parts(plan, args, parts, env, state.outbox.buffer());
        for part in sent {
            // What it counts is of this node, and of no other that has the slot once it moves.
            let (whom, at) = asked[part.part];
            let whose = Whose { part: Some(part.part), ..self.whose(request, slot, at, part.replies) };
            ask_alone(&self.worker, cluster, whom, whose, part.commands);
        }
        Start::Begun
    }

    /// Runs a request that is for one node, whatever slots it has.
    fn begin_at_node(
        &self,
        state: &mut State,
        request: &Request<'_, '_>,
        env: &mut Env<'_>,
        cluster: &Rc<Cluster>,
        node: Node,
    ) -> Start {
        let Request { plan, args, raw } = request;
        let mut commands = Vec::new();
        match state.conversation.begin(plan, args, *raw, env, &mut commands, state.outbox.buffer()) {
            Started::Answered | Started::Pushes => Start::Begun,
            Started::Close => Start::Close,
            Started::Sent { slot, replies } => {
                let whose = self.whose(request, slot, Slot::FIRST, replies);
                ask_alone(&self.worker, cluster, Whom::Node(node), whose, commands);
                Start::Begun
            }
        }
    }

    fn whose(&self, request: &Request<'_, '_>, slot: u64, at: Slot, replies: u32) -> Whose {
        let patience = self.worker.config.timeouts.silence(request.plan.patience);
        let (client, lane) = (Rc::clone(&self.client), request.plan.lane);
        let blocks = request.plan.patience.blocks();
        Whose {
            client,
            slot,
            at,
            part: None,
            lane,
            patience,
            replies,
            replica: None,
            stays: false,
            all_stay: false,
            blocks,
        }
    }

    /// The node that the client's own connection has to go to: where that is all the same, the one that it goes to.
    fn own_node(&self, state: &State, target: &Target, cluster: &Cluster) -> Option<Node> {
        match target {
            Target::Slot(slot) => cluster.node_of(*slot),
            _ => state.own.as_ref().and_then(|own| own.node()).or_else(|| {
                let shared = Lane::Shared { database: 0, protocol: state.conversation.session().protocol() };
                cluster.node_of(self.any_slot(shared, cluster))
            }),
        }
    }

    /// Whether the client's own connection goes to another node, and holds something there.
    fn holds_state_elsewhere(&self, state: &State, node: Option<Node>) -> bool {
        let is_elsewhere = state.own.as_ref().is_some_and(|own| own.node() != node);
        is_elsewhere && !state.conversation.session().own_lane_is_clean()
    }

    /// Runs a request on the client's own connection.
    fn begin_alone(
        &self,
        state: &mut State,
        request: &Request<'_, '_>,
        env: &mut Env<'_>,
        cluster: &Rc<Cluster>,
        node: Option<Node>,
    ) -> Start {
        let Request { plan, args, raw } = request;
        if node.is_none() {
            cluster.doubt_map();
            return refuse(state, plan, args, NO_NODE);
        }
        // Its own connection goes to one node at a time; each answer of that wakes the client.
        if state.own.as_ref().is_some_and(|own| !own.serves(node, plan.lane) && own.is_awaited()) {
            return Start::Wait;
        }
        let upstream = own_lane(state, node, plan.lane, &self.client, &self.worker);
        match upstream.poll_ready(&self.client, self.worker.config.limits.server_high_water_bytes) {
            Status::Ready => {}
            Status::Away(reason) => {
                cluster.doubt_map();
                return refuse(state, plan, args, &try_later(&reason));
            }
            Status::Connecting => return Start::Wait,
            Status::Closed => {
                state.own = None;
                self.client.wake();
                return Start::Wait;
            }
        }
        upstream.follow(plan.lane, self.worker.config.timeouts.silence(Patience::Prompt));
        let stays = !state.conversation.session().own_lane_is_clean();
        let mut commands = Vec::new();
        match state.conversation.begin(plan, args, *raw, env, &mut commands, state.outbox.buffer()) {
            Started::Answered => {}
            Started::Close => return Start::Close,
            Started::Pushes => {
                let mut queue = upstream.queue();
                queue.outbox.buffer().extend_from_slice(&commands);
                queue.expect_pushes();
                drop(queue);
                upstream.wake();
            }
            Started::Sent { slot, replies } => {
                let at = if let Target::Slot(slot) = plan.target { slot } else { Slot::FIRST };
                note_written(state, plan, at, cluster);
                let all_stay = stays || !plan.may_share();
                let whose = Whose { stays, all_stay, ..self.whose(request, slot, at, replies) };
                let node = node.map(|node| cluster.endpoint(node));
                state.conversation.session().entry().note_waits_on(upstream.waits_on(node));
                // It is ready, as was just seen.
                let taken = upstream.take(whose.step(commands, cluster.now_ms()));
                debug_assert!(taken.is_ok(), "the connection is ready");
            }
        }
        Start::Begun
    }
}

/// Notes where a request writes that begins now.
fn note_written(state: &mut State, plan: &Plan, at: Slot, cluster: &Cluster) {
    if let Some(node) = cluster.node_of(at).filter(|_| plan.may_write()) {
        state.written.note(node, cluster.changes());
    }
}
