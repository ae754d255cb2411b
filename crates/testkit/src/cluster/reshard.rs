//! Slots moved key by key, as redis-cli does it, with stops half-way.
//!
//! ```text
//! begin       target: SETSLOT IMPORTING, source: SETSLOT MIGRATING    keys that are gone answer ASK from now on
//! move_keys   source: GETKEYSINSLOT, MIGRATE                          some keys here, some there
//! finish      the rest, then SETSLOT NODE on target, source, others   MOVED
//! ```
//!
//! The target makes itself a newer configuration epoch when it is told that it owns the slot: newer than those it has
//! heard of. So all have to have heard of all before. Else two may choose the same; if the source is the one of them that
//! then takes a newer still, while it has not been told yet, it takes the slot back from the target, which removes its
//! keys, and afterwards each of the two says that the other owns it.
//!
//! Who drops a [`Resharding`] leaves the slot as it is, half-way. Another can be begun for it and gone on with, also
//! after a failover of either side.

use crate::patience::wait_for;
use crate::reply::Value;

use super::error::ClusterError;
use super::{Cluster, PATIENCE};

/// Keys in one MIGRATE.
const BATCH: usize = 100;
/// How long one MIGRATE may take.
const MIGRATE_MS: &str = "10000";

/// A slot on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resharding {
    /// The slot.
    pub slot: u16,
    /// The node that owned it when this was begun.
    pub source: usize,
    /// The node that is to own it.
    pub target: usize,
}

impl Cluster {
    /// Moves a slot with its keys.
    ///
    /// # Errors
    /// Where a node does not do what it is told, or they do not agree in time.
    pub fn reshard(&self, slot: u16, target: usize) -> Result<(), ClusterError> {
        let resharding = self.begin_reshard(slot, target)?;
        self.finish_reshard(resharding)
    }

    /// Puts a slot on its way, and moves no key yet.
    ///
    /// # Errors
    /// Where a node does not do what it is told, also because the target owns the slot already.
    pub fn begin_reshard(&self, slot: u16, target: usize) -> Result<Resharding, ClusterError> {
        let source = self.owner(slot)?;
        self.set_slot(target, slot, &["IMPORTING", self.nodes[source].id()])?;
        self.set_slot(source, slot, &["MIGRATING", self.nodes[target].id()])?;
        Ok(Resharding { slot, source, target })
    }

    /// Moves this many keys of the slot, or all there are; how many it moved.
    ///
    /// # Errors
    /// Where a node does not do what it is told.
    pub fn move_keys(&self, resharding: Resharding, at_most: usize) -> Result<usize, ClusterError> {
        let Resharding { slot, target, .. } = resharding;
        let source = &self.nodes[self.owner(slot)?];
        // MIGRATE goes past the target's relay, which could not tell it from a client.
        let port = self.nodes[target].server().port().to_string();
        let mut moved = 0;
        while moved < at_most {
            let count = BATCH.min(at_most - moved).to_string();
            let command = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &count];
            let reply = source.call(&command)?;
            let keys: Vec<&[u8]> = reply.elements().unwrap_or_default().iter().filter_map(Value::bytes).collect();
            if keys.is_empty() {
                break;
            }
            let mut migrate: Vec<&[u8]> = vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0"];
            // A copy at the target can only be left from a try that broke off: who finds a key here is not sent there.
            migrate.extend([MIGRATE_MS.as_bytes(), b"REPLACE"]);
            if let Some(password) = &self.options.password {
                migrate.extend([b"AUTH".as_slice(), password.as_bytes()]);
            }
            migrate.push(b"KEYS");
            migrate.extend(&keys);
            source.call_bytes(&migrate)?;
            moved += keys.len();
        }
        Ok(moved)
    }

    /// Moves what keys are left, and has the target own the slot.
    ///
    /// # Errors
    /// Where a node does not do what it is told, or they do not agree in time.
    pub fn finish_reshard(&self, resharding: Resharding) -> Result<(), ClusterError> {
        let Resharding { slot, target, .. } = resharding;
        let source = self.owner(slot)?;
        if source != target {
            self.move_keys(resharding, usize::MAX)?;
            self.wait_for_epochs()?;
        }
        // The target first: should it fail over now, its replica knows already, and the source still sends clients there.
        let others = self.primaries()?.into_iter().filter(|index| *index != source && *index != target);
        let order = [target, source].into_iter().chain(others);
        for index in order.take(if source == target { 1 } else { usize::MAX }) {
            self.set_slot(index, slot, &["NODE", self.nodes[target].id()])?;
        }
        self.wait_for_owner(slot, target)
    }

    /// Takes back what was begun. Where no key has moved yet, nothing is left of it. Else the slot is moved to its end
    /// and then back, as there is no other way on which nobody misses a key: the owner of a slot that is not on its way
    /// answers nil for keys that lie elsewhere, and one on its way takes none back.
    ///
    /// # Errors
    /// Where a node does not do what it is told, or they do not agree in time.
    pub fn take_back_reshard(&self, resharding: Resharding) -> Result<(), ClusterError> {
        let Resharding { slot, source, target } = resharding;
        if self.keys_in_slot(target, slot)? > 0 {
            self.finish_reshard(resharding)?;
            return self.reshard(slot, source);
        }
        // The source first: from then on nobody is sent to the target any more.
        self.set_slot(source, slot, &["STABLE"])?;
        self.set_slot(target, slot, &["STABLE"])
    }

    /// How many keys of a slot lie at a node.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn keys_in_slot(&self, index: usize, slot: u16) -> Result<usize, ClusterError> {
        let (node, command) = (&self.nodes[index], ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
        let reply = node.call(&command)?;
        let count = reply.integer().and_then(|count| usize::try_from(count).ok());
        count.ok_or_else(|| node.strange(&command, &reply))
    }

    /// Waits until every node that can be reached says that this one owns the slot.
    ///
    /// # Errors
    /// Where they do not agree in time.
    pub fn wait_for_owner(&self, slot: u16, owner: usize) -> Result<(), ClusterError> {
        let id = self.nodes[owner].id();
        wait_for(&format!("all to say that {} owns slot {slot}", self.nodes[owner].name()), PATIENCE, || {
            for index in self.reachable() {
                let node = &self.nodes[index];
                let view = node.view().map_err(|error| error.to_string())?;
                if !view.iter().any(|seen| seen.id == id && seen.owns(slot)) {
                    return Err(format!("{} says something else", node.name()));
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Tells a node about a slot. Valkey from 8.0 on has its replicas know first, and refuses where they do not in 2 s:
    /// then it is told again.
    fn set_slot(&self, index: usize, slot: u16, what: &[&str]) -> Result<(), ClusterError> {
        let (node, slot) = (&self.nodes[index], slot.to_string());
        let args: Vec<&str> = ["CLUSTER", "SETSLOT", &slot].into_iter().chain(what.iter().copied()).collect();
        wait_for(&format!("the replicas of {}", node.name()), PATIENCE, || match node.call(&args) {
            Err(ClusterError::Refused { error, .. }) if error.starts_with("NOREPLICAS") => Err(error),
            done => Ok(done.map(|_| ())),
        })?
    }
}
