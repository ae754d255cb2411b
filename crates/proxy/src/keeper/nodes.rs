//! The keeper's ways to servers: the one, or all nodes of a cluster.

use std::collections::BTreeMap;

use keyfold_core::admin::witness;
use keyfold_core::change::{Connection, Coordinator};
use keyfold_core::cluster::{Endpoint, Node};
use keyfold_core::resp::{Reply, write_command};
use keyfold_core::slot::Slot;

use super::Broken;
use crate::membership::said;
use crate::upstream::Errand;

/// Ways to all of them, each of which is kept.
pub(super) struct Nodes {
    /// A way to any, from which the others are made.
    any: Errand,
    to_nodes: BTreeMap<Option<Node>, Errand>,
    to_slots: BTreeMap<Slot, Errand>,
    /// Those that were asked last who is there: connections name their node by its place here.
    listed: Vec<Option<Node>>,
}

impl Nodes {
    pub(super) fn new(any: Errand) -> Self {
        Self { any, to_nodes: BTreeMap::new(), to_slots: BTreeMap::new(), listed: Vec::new() }
    }

    /// Whether they are a cluster.
    pub(super) fn are_cluster(&self) -> bool {
        self.any.is_before_cluster()
    }

    fn errand(&mut self, node: Option<Node>) -> &mut Errand {
        let any = &self.any;
        self.to_nodes.entry(node).or_insert_with(|| any.another().at_node(node))
    }

    /// Asks the node that has this slot; one reply.
    pub(super) async fn ask_at(&mut self, slot: Slot, wire: &[u8]) -> Result<Vec<u8>, Broken> {
        let any = &self.any;
        let errand = self.to_slots.entry(slot).or_insert_with(|| any.another().at_slot(slot));
        Ok(errand.request(wire, 1).await?.pop().unwrap_or_default())
    }

    /// Who is there, on every node that there is now, replicas and primaries without slots included: whoever is given slots
    /// later keeps the connections that it has.
    pub(super) async fn list(&mut self) -> Result<Vec<Connection>, Broken> {
        self.listed = self.any.all_nodes().await?;
        let mut connections = Vec::new();
        for (place, node) in self.listed.clone().into_iter().enumerate() {
            connections.extend(self.list_one(place, node).await?);
        }
        Ok(connections)
    }

    async fn list_one(&mut self, place: usize, node: Option<Node>) -> Result<Vec<Connection>, Broken> {
        let list = self.errand(node).ask_one(|wire| write_command(wire, &[b"CLIENT", b"LIST"])).await?;
        let Ok(Reply::Bulk(list)) = Reply::parse(&list) else { return Err(Broken::Server(said(&list))) };
        Ok(Connection::read_all_of(place, &String::from_utf8_lossy(list), None))
    }

    /// Has their servers close these connections, which were listed last.
    pub(super) async fn close(&mut self, connections: &[Connection]) -> Result<(), Broken> {
        let mut wires: BTreeMap<usize, (usize, Vec<u8>)> = BTreeMap::new();
        for connection in connections {
            let (replies, wire) = wires.entry(connection.node).or_default();
            Coordinator::close(connection, wire);
            *replies += 1;
        }
        for (place, (replies, wire)) in wires {
            let node = self.listed.get(place).copied().flatten();
            self.errand(node).request(&wire, replies).await?;
        }
        Ok(())
    }

    /// The connections of such a kind to the primary at this endpoint; none where that is no primary any more: what was
    /// under way there is lost with all that it writes.
    pub(super) async fn list_at(&mut self, endpoint: Option<&Endpoint>) -> Result<Vec<Connection>, Broken> {
        self.listed = match endpoint.map(|endpoint| self.any.primary_at(endpoint)) {
            None => vec![None],
            Some(Some(node)) => vec![Some(node)],
            Some(None) => return Ok(Vec::new()),
        };
        self.list_one(0, self.listed[0]).await
    }

    /// Tells all witnesses of a change.
    pub(super) async fn warn(&mut self, change: &mut Coordinator) -> Result<(), Broken> {
        for slot in witness::slots() {
            let mut wire = Vec::new();
            change.warn(slot, &mut wire);
            let told = match self.ask_at(slot, &wire).await {
                Ok(reply) => change.told(slot, &reply),
                Err(broken) => Err(broken.to_string()),
            };
            told.map_err(Broken::Witness)?;
        }
        change.warned();
        Ok(())
    }

    /// Has all witnesses that can be reached say what is in force, now that a change is over.
    pub(super) async fn release(&mut self, change: &Coordinator) {
        for slot in witness::slots() {
            let mut wire = Vec::new();
            if change.release(slot, &mut wire)
                && let Err(reason) = self.ask_at(slot, &wire).await
            {
                tracing::debug!(%slot, %reason, "a witness is told later which layout is in force");
            }
        }
    }
}
