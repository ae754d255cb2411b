//! What a walk over all primaries proves: that a thing that it didn't find is on no node any more, and comes back by no failover.
//!
//! A move is settled, and a codec's slot freed, because a walk found nothing more to do. One server that is set back to an
//! earlier state (a restart, a failover) takes its register along; a shard of a cluster is set back alone, and brings keys to
//! places where nobody looks any more. So a walk counts only where all of this holds:
//!
//! | what | what it rules out |
//! | --- | --- |
//! | each primary was walked over on one connection, which lives at the end | a primary that restarted, and has an earlier state |
//! | the cluster's epoch, its nodes and their slots are at the end what they were at the beginning | failovers meanwhile; slots that came from where the walk had not been, or went away and came back |
//! | no slot is on its way at either end, and no key was led elsewhere | keys on two nodes |
//! | each replica says that it has all that its primary had when the walk over it ended | a failover later that brings back what the walk took away |
//! | no node is taken for gone | one that comes back with an earlier state, and is made a primary by hand |
//!
//! Replicas are asked by name, and compared by the offset in the replication stream: WAIT counts whoever follows a primary,
//! and waits for what the connection that asks has written itself. But what clients wrote counts as well: the walk found
//! nothing because they had moved it.
//!
//! The beginning is seen before the first walk, the replicas after the last, and the end after these. `N` is how nodes are
//! told apart.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// What all nodes say of the cluster at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Picture<N: Ord> {
    /// The greatest `cluster_current_epoch` that a node says: each failover and each move of a slot raises it.
    pub epoch: u64,
    /// All nodes that any of them counts to the cluster.
    pub nodes: BTreeMap<N, PictureNode<N>>,
    /// Slots are on their way from node to node, key by key or all at once.
    pub has_slots_on_their_way: bool,
}

/// One of the nodes, by its own word where it can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PictureNode<N> {
    /// Whom it follows; none of a primary.
    pub follows: Option<N>,
    /// Its slots.
    pub slots: Vec<RangeInclusive<u16>>,
    /// Another takes it for gone.
    pub is_gone: bool,
}

/// How far a node is in a replication stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct History {
    /// Which stream: `master_replid`.
    pub id: String,
    /// Bytes of it that are carried out.
    pub offset: u64,
}

/// What came of the walk over one primary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walked {
    /// The connection that it began on is alive.
    pub is_unbroken: bool,
    /// Keys that were led to another node.
    pub led_elsewhere: u64,
    /// How far the primary was when it ended.
    pub end: History,
}

/// Why a walk proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Doubt<N> {
    /// Slots are on their way.
    SlotsOnTheirWay,
    /// So many keys are on a node that hasn't their slot.
    LedElsewhere(u64),
    /// A failover, slots that changed hands, or nodes that came or went.
    Changed,
    /// This primary wasn't walked over, or not on one connection.
    Broken(N),
    /// This node is taken for gone.
    Gone(N),
    /// This replica doesn't have yet what the walk left.
    Behind(N),
}

impl<N: Ord + Clone> Picture<N> {
    /// What stands against any walk, as things are.
    pub fn doubt(&self) -> Option<Doubt<N>> {
        if let Some((id, _)) = self.nodes.iter().find(|(_, node)| node.is_gone) {
            return Some(Doubt::Gone(id.clone()));
        }
        self.has_slots_on_their_way.then_some(Doubt::SlotsOnTheirWay)
    }

    /// The primaries that have slots.
    pub fn owners(&self) -> impl Iterator<Item = &N> {
        let owners = self.nodes.iter().filter(|(_, node)| node.follows.is_none() && !node.slots.is_empty());
        owners.map(|(id, _)| id)
    }

    /// The replicas, each with whom it follows.
    pub fn replicas(&self) -> impl Iterator<Item = (&N, &N)> {
        self.nodes.iter().filter_map(|(id, node)| Some((id, node.follows.as_ref()?)))
    }
}

impl History {
    /// Whether a replica that is here has all that its primary had there.
    pub fn has(&self, primary: &Self) -> bool {
        self.id == primary.id && self.offset >= primary.offset
    }
}

/// Whether what none of the walks found is nowhere, and stays so: walks by primary, and how far replicas are.
///
/// # Errors
/// What stands against it. Nothing has happened: walk again.
pub fn proof<N: Ord + Clone>(
    before: &Picture<N>,
    walks: &BTreeMap<N, Walked>,
    replicas: &BTreeMap<N, History>,
    after: &Picture<N>,
) -> Result<(), Doubt<N>> {
    if let Some(doubt) = before.doubt().or_else(|| after.doubt()) {
        return Err(doubt);
    }
    if before != after {
        return Err(Doubt::Changed);
    }
    for id in after.owners() {
        match walks.get(id).filter(|walked| walked.is_unbroken) {
            None => return Err(Doubt::Broken(id.clone())),
            Some(walked) if walked.led_elsewhere > 0 => return Err(Doubt::LedElsewhere(walked.led_elsewhere)),
            Some(_) => {}
        }
    }
    for (id, primary) in after.replicas() {
        // One of a primary without slots has nothing that could come back.
        let Some(walked) = walks.get(primary) else { continue };
        if !replicas.get(id).is_some_and(|history| history.has(&walked.end)) {
            return Err(Doubt::Behind(id.clone()));
        }
    }
    Ok(())
}
