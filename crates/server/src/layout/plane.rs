//! What a change of the layout is carried out on: one server, or all nodes of a cluster.

use anyhow::{Context, anyhow, ensure};
use keyfold_core::admin::{home, witness};
use keyfold_core::change::{Connection, Coordinator, Obstacle};

use super::fence;
use super::fleet::Fleet;
use crate::connection::Server;

/// What a change is carried out on.
pub(super) struct Plane<'s> {
    /// The connection that whoever wants the change has himself; it is not closed.
    server: &'s mut Server,
    /// Its number.
    own: i64,
    /// The nodes, where it is one of a cluster.
    fleet: Option<Fleet>,
    /// The connection to the home: what was seen on it may be acted on only there, as another node that has the home by
    /// now may hold what was there before.
    home: (usize, u32),
}

impl<'s> Plane<'s> {
    /// By a connection to the server, in a cluster to the node that has the home.
    ///
    /// # Errors
    /// A node of the cluster is away, or nobody could tell whether one was set back.
    pub(super) fn of(server: &'s mut Server) -> anyhow::Result<Self> {
        let fleet = server.version().is_cluster().then(|| Fleet::of(server)).transpose()?;
        if fleet.as_ref().is_some_and(Fleet::are_together) {
            return Err(Obstacle::Together.into());
        }
        let own = server.ask(&[b"CLIENT", b"ID"]).context(fence::WHY)?;
        let home = fleet.as_ref().map_or(Ok((0, 0)), Fleet::home_connection)?;
        Ok(Self { server, own, fleet, home })
    }

    /// The nodes, where it is a cluster.
    pub(super) fn fleet(&mut self) -> Option<&mut Fleet> {
        self.fleet.as_mut()
    }

    /// Where a change is decided.
    ///
    /// # Errors
    /// Nobody has the home, or another node has it than when this began.
    pub(super) fn home(&mut self) -> anyhow::Result<&mut Server> {
        match &mut self.fleet {
            Some(fleet) => {
                let is_same = fleet.home_connection()? == self.home;
                ensure!(is_same, "another node has keyfold's own keys than a moment ago; try again");
                fleet.home()
            }
            None => Ok(self.server),
        }
    }

    /// Tries out whether connections are closed for good, everywhere.
    pub(super) fn prove(&mut self) -> anyhow::Result<()> {
        let Some(fleet) = &mut self.fleet else { return fence::prove(self.server, [home()]) };
        for (node, slots) in fleet.primaries() {
            let server = fleet.node(node).context("it was counted")?;
            let named = format!("on the node at {}", server.address());
            fence::prove(server, slots).context(named)?;
        }
        Ok(())
    }

    /// Who is there, on every node that there is now.
    pub(super) fn list(&mut self) -> anyhow::Result<Vec<Connection>> {
        let Some(fleet) = &mut self.fleet else {
            return Ok(Connection::read_all(&fence::list(self.server)?, Some(self.own)));
        };
        fleet.refresh()?;
        let own = self.server.address().clone();
        let mut connections = Vec::new();
        for (node, server) in fleet.each() {
            let own = Some(self.own).filter(|_| *server.address() == own);
            connections.extend(Connection::read_all_of(node, &fence::list(server)?, own));
        }
        Ok(connections)
    }

    /// Has their servers close these connections.
    pub(super) fn close(&mut self, connections: &[Connection]) -> anyhow::Result<()> {
        for connection in connections {
            let mut wire = Vec::new();
            Coordinator::close(connection, &mut wire);
            let server = match &mut self.fleet {
                Some(fleet) => fleet.node(connection.node).context("it was listed there")?,
                None => &mut *self.server,
            };
            server.exchange_one(&wire)?;
        }
        Ok(())
    }

    /// Tells all witnesses of the change.
    ///
    /// # Errors
    /// One of them doesn't confirm it.
    pub(super) fn warn(&mut self, coordinator: &mut Coordinator) -> anyhow::Result<()> {
        for slot in witness::slots() {
            let mut wire = Vec::new();
            coordinator.warn(slot, &mut wire);
            let Some(fleet) = &mut self.fleet else { continue };
            let reply = fleet.exchange_at(slot, &wire)?;
            coordinator
                .told(slot, &reply)
                .map_err(|said| anyhow!("the node that has slot {slot} refuses a change of the layout: {said}"))?;
        }
        coordinator.warned();
        Ok(())
    }

    /// Has all witnesses that can be reached say what is in force. Whoever can't be reached now is told by keyfolds later.
    pub(super) fn release(&mut self, coordinator: &Coordinator) {
        let Some(fleet) = &mut self.fleet else { return };
        for slot in witness::slots() {
            let mut wire = Vec::new();
            if coordinator.release(slot, &mut wire)
                && let Err(error) = fleet.exchange_at(slot, &wire)
            {
                tracing::warn!(%slot, "a witness doesn't know yet which layout is in force: {error:#}");
            }
        }
    }

    /// An error of the server that has the home.
    pub(super) fn refused(&mut self, error: &str) -> anyhow::Error {
        let advice = match error.starts_with("TRYAGAIN") {
            true => "; the slot of keyfold's own keys is being moved to another node: try again when that is over",
            false => "",
        };
        let address = self.home().map_or_else(|_| String::new(), |server| server.address().to_string());
        anyhow!("the server at {address} refuses a change of the layout: {}{advice}", error.trim())
    }
}
