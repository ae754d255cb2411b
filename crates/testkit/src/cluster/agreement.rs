//! Who is what in a cluster, and waiting until all nodes that can be reached say the same.

use std::collections::HashSet;

use crate::patience::wait_for;

use super::error::ClusterError;
use super::node::Node;
use super::slots::SLOTS;
use super::view::Seen;
use super::{Cluster, PATIENCE};

impl Cluster {
    /// The nodes that run and that others can reach.
    pub fn reachable(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|index| self.nodes[*index].is_reachable())
    }

    /// What each node that can be reached says of itself.
    ///
    /// # Errors
    /// Where one does not answer.
    fn claims(&self) -> Result<Vec<(usize, Seen)>, ClusterError> {
        self.reachable().map(|index| Ok((index, self.nodes[index].myself()?))).collect()
    }

    /// The nodes that can be reached and say that they are primaries.
    ///
    /// # Errors
    /// Where one does not answer.
    pub fn primaries(&self) -> Result<Vec<usize>, ClusterError> {
        Ok(self.claims()?.iter().filter(|(_, seen)| seen.is("master")).map(|(index, _)| *index).collect())
    }

    /// The nodes that can be reached and say that they replicate this one.
    ///
    /// # Errors
    /// Where one does not answer.
    pub fn replicas_of(&self, primary: usize) -> Result<Vec<usize>, ClusterError> {
        let id = self.nodes[primary].id();
        let claims = self.claims()?;
        Ok(claims.iter().filter(|(_, seen)| seen.primary.as_deref() == Some(id)).map(|(index, _)| *index).collect())
    }

    /// The node that can be reached and says, by the newest configuration, that it owns a slot.
    ///
    /// # Errors
    /// Where no node says so, or one does not answer.
    pub fn owner(&self, slot: u16) -> Result<usize, ClusterError> {
        owner_by(&self.claims()?, slot)
    }

    /// The same of every slot, at one moment.
    ///
    /// # Errors
    /// Where nobody owns one, or a node does not answer.
    pub fn owners(&self) -> Result<Vec<usize>, ClusterError> {
        let claims = self.claims()?;
        (0..SLOTS).map(|slot| owner_by(&claims, slot)).collect()
    }

    /// Waits until all nodes that can be reached agree: every slot is owned and served, everybody is connected with
    /// everybody and sees the same primaries, replicas and slots, and each replica follows its primary.
    ///
    /// # Errors
    /// Where they do not agree in time.
    pub fn wait_until_settled(&self) -> Result<(), ClusterError> {
        wait_for("the cluster to agree", PATIENCE, || {
            let claims = self.claims().map_err(|error| error.to_string())?;
            self.reachable().try_for_each(|index| self.is_settled(&self.nodes[index], &claims))
        })?;
        Ok(())
    }

    /// Waits until no slot is on its way any more.
    ///
    /// # Errors
    /// Where one is still in the end, or a node does not answer.
    pub fn wait_until_still(&self) -> Result<(), ClusterError> {
        wait_for("slots to be where they belong", PATIENCE, || {
            for (index, seen) in self.claims().map_err(|error| error.to_string())? {
                if let Some((slot, _)) = seen.migrating.iter().chain(&seen.importing).next() {
                    return Err(format!("slot {slot} is on its way, says {}", self.nodes[index].name()));
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Waits until all nodes that can be reached know the configuration epoch of each primary among them, and no two
    /// have the same.
    ///
    /// # Errors
    /// Where they do not in time.
    pub(super) fn wait_for_epochs(&self) -> Result<(), ClusterError> {
        wait_for("the primaries' epochs to be known", PATIENCE, || {
            let mut claims = self.claims().map_err(|error| error.to_string())?;
            claims.retain(|(_, seen)| seen.is("master"));
            for index in self.reachable() {
                let node = &self.nodes[index];
                let view = node.view().map_err(|error| error.to_string())?;
                let knows = |claim: &Seen| {
                    view.iter().any(|seen| (&seen.id, seen.config_epoch) == (&claim.id, claim.config_epoch))
                };
                if let Some((index, claim)) = claims.iter().find(|(_, claim)| !knows(claim)) {
                    let (name, epoch) = (self.nodes[*index].name(), claim.config_epoch);
                    return Err(format!("{} has not heard of epoch {epoch} of {name}", node.name()));
                }
            }
            let epochs: HashSet<u64> = claims.iter().map(|(_, claim)| claim.config_epoch).collect();
            if epochs.len() == claims.len() { Ok(()) } else { Err("two primaries have the same epoch".to_owned()) }
        })?;
        Ok(())
    }

    /// Waits until the maps of all nodes that can be reached (CLUSTER SLOTS) name every replica that can be reached. They
    /// name a replica only once its offset has come round, which may be a second or more after all else is settled.
    ///
    /// # Errors
    /// Where they do not in time.
    pub fn wait_until_listed(&self) -> Result<(), ClusterError> {
        wait_for("all replicas to be listed", PATIENCE, || {
            let claims = self.claims().map_err(|error| error.to_string())?;
            let replicas: Vec<&str> =
                claims.iter().filter(|(_, seen)| seen.primary.is_some()).map(|(_, seen)| seen.id.as_str()).collect();
            for index in self.reachable() {
                let node = &self.nodes[index];
                let slots = format!("{:?}", node.call(&["CLUSTER", "SLOTS"]).map_err(|error| error.to_string())?);
                if let Some(missing) = replicas.iter().find(|id| !slots.contains(**id)) {
                    return Err(format!("{} does not list {missing}", node.name()));
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Whether one node sees all as they see themselves; what is amiss otherwise.
    fn is_settled(&self, node: &Node, claims: &[(usize, Seen)]) -> Result<(), String> {
        let name = node.name();
        let info = node.text(&["CLUSTER", "INFO"]).map_err(|error| error.to_string())?;
        for line in ["cluster_state:ok".to_owned(), format!("cluster_slots_assigned:{SLOTS}")] {
            if !info.lines().any(|said| said == line) {
                return Err(format!("{name} does not say {line}"));
            }
        }
        let view = node.view().map_err(|error| error.to_string())?;
        for (index, claim) in claims {
            let other = self.nodes[*index].name();
            let Some(seen) = view.iter().find(|seen| seen.id == claim.id) else {
                return Err(format!("{name} does not know {other}"));
            };
            if !seen.is_connected || ["fail", "fail?", "handshake", "noaddr"].iter().any(|flag| seen.is(flag)) {
                return Err(format!("{name} sees {other} as {:?}, connected: {}", seen.flags, seen.is_connected));
            }
            if (&seen.slots, &seen.primary) != (&claim.slots, &claim.primary) {
                return Err(format!("{name} sees {other} as {seen:?}, and that one itself as {claim:?}"));
            }
        }
        let replication = node.text(&["INFO", "replication"]).map_err(|error| error.to_string())?;
        match replication.lines().find_map(|line| line.strip_prefix("master_link_status:")) {
            Some("down") => Err(format!("{name} has no link to its primary")),
            _ => Ok(()),
        }
    }
}

/// The node that owns a slot, by what nodes say of themselves.
fn owner_by(claims: &[(usize, Seen)], slot: u16) -> Result<usize, ClusterError> {
    let owners = claims.iter().filter(|(_, seen)| seen.is("master") && seen.owns(slot));
    let newest = owners.max_by_key(|(_, seen)| seen.config_epoch);
    newest.map(|(index, _)| *index).ok_or(ClusterError::Unowned(slot))
}
