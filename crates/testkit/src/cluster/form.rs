//! From single nodes to a cluster: epochs, slots, introductions, replicas.

use crate::patience::wait_for;

use super::error::ClusterError;
use super::node::Node;
use super::slots::shares;
use super::{Cluster, PATIENCE};

impl Cluster {
    /// Makes one cluster of nodes that know no others: the first `primaries` share the slots, the rest replicate them
    /// in turn.
    pub(super) fn form(&self, primaries: usize) -> Result<(), ClusterError> {
        for (index, node) in self.nodes.iter().enumerate() {
            node.call(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        for (node, share) in self.nodes.iter().zip(shares(primaries)) {
            let (first, last) = share.into_inner();
            // One by one: Redis 6.2 knows no ranges.
            let slots: Vec<String> = (first..=last).map(|slot| slot.to_string()).collect();
            let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
            node.call(&words.collect::<Vec<_>>())?;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[..index] {
                meet(node, other)?;
            }
        }
        self.wait_for_acquaintance()?;
        for (index, node) in self.nodes.iter().enumerate().skip(primaries) {
            node.call(&["CLUSTER", "REPLICATE", self.nodes[index % primaries].id()])?;
        }
        self.wait_until_settled()?;
        self.wait_until_listed()
    }

    /// Adds a node that owns no slots, started with more arguments than the others, and waits until all know it.
    ///
    /// # Errors
    /// Where it does not start, or the nodes do not agree in time.
    pub fn add(&mut self, args: &[&str]) -> Result<usize, ClusterError> {
        let index = self.nodes.len();
        let mut options = self.options.clone();
        options.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        let node = Node::start(&self.binary, index, &options)?;
        for other in self.nodes.iter().filter(|node| node.is_reachable()) {
            meet(&node, other)?;
        }
        self.nodes.push(node);
        self.wait_until_settled()?;
        Ok(index)
    }

    /// Until every node knows every other by its ID, and has said so.
    fn wait_for_acquaintance(&self) -> Result<(), ClusterError> {
        wait_for("all nodes to know each other", PATIENCE, || {
            for node in &self.nodes {
                let view = node.view().map_err(|error| error.to_string())?;
                let known = |id| view.iter().any(|seen| seen.id == id && seen.is_connected && !seen.is("handshake"));
                if let Some(missing) = self.nodes.iter().find(|other| !known(other.id())) {
                    return Err(format!("{} does not know {}", node.name(), missing.name()));
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Introduces a node to another.
fn meet(node: &Node, other: &Node) -> Result<(), ClusterError> {
    let (port, bus_port) = (other.address().port().to_string(), other.bus_port().to_string());
    node.call(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port])?;
    Ok(())
}
