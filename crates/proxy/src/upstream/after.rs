//! What replies of a node of a cluster lead to.

use keyfold_core::cluster::Direct;

use super::cluster::Cluster;
use super::step::{After, NodeStep, Whose};

/// What is to be done once the connection on which replies came is let go of, in this order.
#[derive(Debug)]
pub(super) struct Afterwards<'c> {
    cluster: Option<&'c Cluster>,
    all: Vec<After>,
    /// Some steps in it are finished, which the router has yet to hear of.
    finishes: bool,
}

impl<'c> Afterwards<'c> {
    /// Of a connection to a node of this cluster, if it is one.
    pub(super) fn new(cluster: Option<&'c Cluster>) -> Self {
        Self { cluster, all: Vec::new(), finishes: false }
    }

    /// The request goes on.
    pub(super) fn begin(&mut self, before: Whose, replies: u32, commands: Vec<u8>) {
        self.all.push(After::Begin { before, replies, commands });
    }

    /// All replies to a step have come.
    pub(super) fn finish(&mut self, step: NodeStep) {
        self.finishes = true;
        self.all.push(After::Finish(step));
    }

    /// All replies to a step have come, and its node just answered. Whether that is all: what the router hears of it must
    /// not come before what it will hear of others.
    pub(super) fn finish_direct(&self, direct: &Direct) -> bool {
        !self.finishes && self.cluster.is_some_and(|cluster| cluster.finish_direct(direct))
    }

    /// The cluster's time.
    pub(super) fn now_ms(&self) -> i64 {
        self.cluster.map_or(0, Cluster::now_ms)
    }

    /// All of it.
    pub(super) fn into_all(self) -> Vec<After> {
        self.all
    }
}
