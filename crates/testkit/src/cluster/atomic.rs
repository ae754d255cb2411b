//! Slots moved by the server itself, all keys at once: no key ever answers ASK, the owner changes in one step.
//!
//! Valkey from 9.0 on is told at the source (CLUSTER MIGRATESLOTS), Redis from 8.4 on at the target (CLUSTER MIGRATION
//! IMPORT). Which of the two a server has is read from its CLUSTER HELP. Redis's way is written by its documentation and
//! has not met a server yet.
//!
//! Valkey lists the newest move first, in these states: waiting-to-snapshot, snapshotting, replicating, failover-paused,
//! then success, failed or cancelled. The source serves until the end and holds writes back in failover-paused; the
//! target shows none of the keys, answers MOVED, and builds them as its own settings say.

use std::ops::RangeInclusive;

use crate::patience::wait_for;
use crate::reply::Value;

use super::error::ClusterError;
use super::{Cluster, PATIENCE};

/// How a server moves slots by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicMigration {
    /// CLUSTER MIGRATESLOTS, GETSLOTMIGRATIONS, CANCELSLOTMIGRATIONS of Valkey.
    MigrateSlots,
    /// CLUSTER MIGRATION of Redis.
    Migration,
}

impl Cluster {
    /// How its server moves slots by itself, where it does.
    ///
    /// # Errors
    /// Where the first node that can be reached does not answer.
    pub fn atomic_migration(&self) -> Result<Option<AtomicMigration>, ClusterError> {
        let Some(index) = self.reachable().next() else { return Ok(None) };
        let help = self.nodes[index].call(&["CLUSTER", "HELP"])?;
        let mut lines = help.elements().unwrap_or_default().iter().filter_map(Value::bytes);
        Ok(lines.find_map(|line| match line.split(|byte| *byte == b' ').next() {
            Some(b"MIGRATESLOTS") => Some(AtomicMigration::MigrateSlots),
            Some(b"MIGRATION") => Some(AtomicMigration::Migration),
            _ => None,
        }))
    }

    /// Moves slots of one owner with their keys, and waits until all nodes know.
    ///
    /// # Errors
    /// Where the server has no such thing, or gives up, or the nodes do not agree in time.
    pub fn reshard_atomically(&self, slots: RangeInclusive<u16>, target: usize) -> Result<(), ClusterError> {
        let source = self.owner(*slots.start())?;
        let way = self.begin_atomic_reshard(slots.clone(), target)?;
        wait_for("the slots to be moved", PATIENCE, || {
            if self.owner(*slots.start()).is_ok_and(|owner| owner == target) {
                return Ok(Ok(()));
            }
            match self.failure_of_last(way, source, target) {
                Ok(Some(failure)) => Ok(Err(failure)),
                Ok(None) => Err("they are still on their way".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })??;
        self.wait_for_owner(*slots.start(), target)?;
        self.wait_for_owner(*slots.end(), target)
    }

    /// Has the server begin, and does not wait for anything.
    ///
    /// # Errors
    /// Where the server has no such thing, or refuses.
    pub fn begin_atomic_reshard(
        &self,
        slots: RangeInclusive<u16>,
        target: usize,
    ) -> Result<AtomicMigration, ClusterError> {
        let way = self.atomic_migration()?.ok_or_else(|| ClusterError::NotAtomic(self.binary.name()))?;
        let (first, last) = (slots.start().to_string(), slots.end().to_string());
        let target = &self.nodes[target];
        match way {
            AtomicMigration::MigrateSlots => {
                let source = &self.nodes[self.owner(*slots.start())?];
                source.call(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &first, &last, "NODE", target.id()])?
            }
            AtomicMigration::Migration => target.call(&["CLUSTER", "MIGRATION", "IMPORT", &first, &last])?,
        };
        Ok(way)
    }

    /// Cancels what a node was told to move: the source's moves of Valkey, the target's of Redis.
    ///
    /// # Errors
    /// Where the server has no such thing, or refuses.
    pub fn cancel_atomic_reshard(&self, index: usize) -> Result<(), ClusterError> {
        let command: &[&str] = match self.atomic_migration()? {
            // Valkey's own help names an ALL after it, which it then takes for an argument too many (9.1.2).
            Some(AtomicMigration::MigrateSlots) => &["CLUSTER", "CANCELSLOTMIGRATIONS"],
            Some(AtomicMigration::Migration) => &["CLUSTER", "MIGRATION", "CANCEL", "ALL"],
            None => return Err(ClusterError::NotAtomic(self.binary.name())),
        };
        self.nodes[index].call(command)?;
        Ok(())
    }

    /// Why the move that was begun last came to nothing, where it did.
    fn failure_of_last(
        &self,
        way: AtomicMigration,
        source: usize,
        target: usize,
    ) -> Result<Option<ClusterError>, ClusterError> {
        let (node, command): (_, &[&str]) = match way {
            AtomicMigration::MigrateSlots => (&self.nodes[source], &["CLUSTER", "GETSLOTMIGRATIONS"]),
            AtomicMigration::Migration => (&self.nodes[target], &["CLUSTER", "MIGRATION", "STATUS", "ALL"]),
        };
        let reply = node.call(command)?;
        let Some(last) = reply.elements().and_then(<[Value]>::first) else { return Ok(None) };
        let state = field(last, b"state").unwrap_or_default();
        Ok([b"failed".as_slice(), b"cancelled", b"canceled"].contains(&state).then(|| ClusterError::Refused {
            node: node.name().to_owned(),
            command: command.join(" "),
            error: format!("{last:?}"),
        }))
    }
}

/// The text under a name, in a map as RESP2 has it: names and values in turn.
fn field<'v>(map: &'v Value, name: &[u8]) -> Option<&'v [u8]> {
    map.elements()?.chunks_exact(2).find(|pair| pair[0].bytes() == Some(name))?[1].bytes()
}
