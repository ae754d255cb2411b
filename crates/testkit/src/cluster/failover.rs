//! Primaries that are followed by others: told to, killed, frozen; and nodes that come back.

use std::time::{Duration, Instant};

use crate::patience::wait_for;

use super::error::ClusterError;
use super::{Cluster, PATIENCE};

/// A clean failover gives up after 5 s, and has to be asked for once more.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(6);

/// How a replica takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// In agreement with its primary, which stands still until the replica has everything: nothing is lost.
    Clean,
    /// Without its primary, by the other primaries' votes. They vote against the same primary once in two node timeouts.
    Force,
    /// Without anybody's.
    Takeover,
}

impl Cluster {
    /// Has a replica become primary, and waits until all nodes that can be reached know.
    ///
    /// # Errors
    /// Where it does not in time.
    pub fn fail_over(&self, replica: usize, how: Failover) -> Result<(), ClusterError> {
        let node = &self.nodes[replica];
        let command: &[&str] = match how {
            Failover::Clean => &["CLUSTER", "FAILOVER"],
            Failover::Force => &["CLUSTER", "FAILOVER", "FORCE"],
            Failover::Takeover => &["CLUSTER", "FAILOVER", "TAKEOVER"],
        };
        let mut asked: Option<Instant> = None;
        wait_for(&format!("{} to be primary", node.name()), PATIENCE, || {
            let seen = node.myself().map_err(|error| error.to_string())?;
            if seen.is("master") {
                return Ok(());
            }
            if asked.is_none_or(|asked| asked.elapsed() > ASK_AGAIN_AFTER) {
                node.call(command).map_err(|error| error.to_string())?;
                asked = Some(Instant::now());
            }
            Err(format!("it is {:?}", seen.flags))
        })?;
        self.wait_until_settled()
    }

    /// Kills a node (SIGKILL).
    ///
    /// # Errors
    /// Where the node cannot be asked before what it owns.
    pub fn kill(&mut self, index: usize) -> Result<(), ClusterError> {
        self.note_slot(index)?;
        self.nodes[index].kill();
        Ok(())
    }

    /// Stops a node where it is (SIGSTOP).
    ///
    /// # Errors
    /// Where the node cannot be asked before what it owns, or is gone.
    pub fn freeze(&mut self, index: usize) -> Result<(), ClusterError> {
        self.note_slot(index)?;
        self.nodes[index].freeze()
    }

    /// Lets a frozen node go on, and does not wait for anything.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn wake(&mut self, index: usize) -> Result<(), ClusterError> {
        self.nodes[index].wake()
    }

    /// Starts a killed node once more with its ports and files, and waits until it answers; for its place in the cluster
    /// wait with [`Cluster::wait_until_settled`].
    ///
    /// # Errors
    /// Where it does not start.
    pub fn restart(&mut self, index: usize) -> Result<(), ClusterError> {
        self.nodes[index].restart()
    }

    /// Waits until another node owns what this one owned when it was last killed, frozen or cut off from other nodes,
    /// and all that can be reached agree. Says which it is.
    ///
    /// # Errors
    /// Where it owned nothing, or nobody follows in time.
    pub fn wait_for_successor(&self, index: usize) -> Result<usize, ClusterError> {
        let node = &self.nodes[index];
        let successor = wait_for(&format!("a successor of {}", node.name()), PATIENCE, || {
            let slot = node.last_slot.ok_or("it owned no slot")?;
            let owner = self.owner(slot).map_err(|error| error.to_string())?;
            if owner == index { Err("it is primary still".to_owned()) } else { Ok(owner) }
        })?;
        self.wait_until_settled()?;
        Ok(successor)
    }

    /// Notes a slot that a node owns, for who asks later what became of it.
    pub(super) fn note_slot(&mut self, index: usize) -> Result<(), ClusterError> {
        if self.nodes[index].is_reachable() {
            let seen = self.nodes[index].myself()?;
            let first = seen.slots.first().map(|range| *range.start());
            self.nodes[index].last_slot = first.filter(|_| seen.is("master"));
        }
        Ok(())
    }
}
