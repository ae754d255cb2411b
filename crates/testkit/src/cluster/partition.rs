//! Nodes that lose the network: to clients, to other nodes, or to both. They run on and know nothing of it.
//!
//! What is held on the way is not lost: it arrives when the network is back, late. [`Cluster::break_held`] ends such
//! connections instead. Replication is between nodes, though it goes through the port for clients.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use crate::relay::Held;

use super::Cluster;
use super::error::ClusterError;
use super::node::{Cut, Node, Relays};

/// What partitions need.
const WITH_RELAYS: &str = "the cluster was started with relays";

impl Cluster {
    /// Cuts a node off: nothing gets through any more, and nobody is told.
    ///
    /// # Errors
    /// Where the node cannot be asked before what it owns.
    ///
    /// # Panics
    /// Where the cluster was started without relays.
    pub fn cut(&mut self, index: usize, cut: Cut) -> Result<(), ClusterError> {
        self.note_slot(index)?;
        self.nodes[index].cut = Some(cut);
        self.apply_cuts();
        Ok(())
    }

    /// Gives a node the network back. One that was followed while it was cut off from other nodes becomes its successor's
    /// replica; and sometimes primary again at once: it still takes the successor for gone, and wins an election against
    /// it.
    ///
    /// # Panics
    /// Where the cluster was started without relays.
    pub fn heal(&mut self, index: usize) {
        self.nodes[index].cut = None;
        self.apply_cuts();
    }

    /// Moves a node so far away from clients, and from replicas of its, that all they send, and all it sends, takes so long.
    ///
    /// # Panics
    /// Where the cluster was started without relays.
    pub fn move_away(&self, index: usize, delay: Duration) {
        relays(&self.nodes[index]).clients.slow(delay);
    }

    /// Has a node's port refuse connections, and closes those there are: of clients, and of replicas too, which come
    /// through the same port. Other nodes notice nothing else.
    ///
    /// # Panics
    /// Where the cluster was started without relays.
    pub fn refuse(&mut self, index: usize) {
        self.nodes[index].relays_mut().expect(WITH_RELAYS).clients.go_away();
    }

    /// Has it take connections again.
    ///
    /// # Errors
    /// Where another process has taken the port meanwhile.
    ///
    /// # Panics
    /// Where the cluster was started without relays.
    pub fn accept(&mut self, index: usize) -> Result<(), ClusterError> {
        let node = &mut self.nodes[index];
        let come_back = node.relays_mut().expect(WITH_RELAYS).clients.come_back();
        come_back.map_err(|source| ClusterError::System { node: node.name().to_owned(), source })
    }

    /// Closes all connections through which nothing gets at the moment.
    ///
    /// # Panics
    /// Where the cluster was started without relays.
    pub fn break_held(&self) {
        for node in &self.nodes {
            let Relays { clients, bus } = relays(node);
            clients.break_held();
            bus.break_held();
        }
    }

    /// Holds at each relay what comes from whom either side is cut off from.
    fn apply_cuts(&self) {
        for node in &self.nodes {
            let Relays { clients, bus } = relays(node);
            let from_clients = node.cut.is_some_and(Cut::is_from_clients);
            let from_nodes = node.cut.is_some_and(Cut::is_from_nodes);
            let is_held = |other: &&Node| from_nodes || other.cut.is_some_and(Cut::is_from_nodes);
            let sources = |held: bool| -> BTreeSet<IpAddr> {
                self.nodes.iter().filter(|other| is_held(other) == held).map(Node::source).collect()
            };
            bus.hold(Held { others: false, but: sources(true) });
            clients.hold(Held { others: from_clients, but: sources(!from_clients) });
        }
    }
}

fn relays(node: &Node) -> &Relays {
    node.relays().expect(WITH_RELAYS)
}
