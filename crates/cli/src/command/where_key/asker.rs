//! Questions about one key: to the one server, or to the node of a cluster that has it, also while its slot moves.

use anyhow::{Context, anyhow};
use keyfold_core::resp::write_command;
use keyfold_core::slot::Slot;
use keyfold_server::nodes::SlotState;
use keyfold_server::reply::{self, FromReply};
use keyfold_server::{Nodes, Server, Steps};

use super::Report;

/// Who is asked.
pub(super) struct Asker {
    nodes: Nodes,
    /// None before one server.
    steps: Option<Steps<()>>,
    slot: Slot,
    state: SlotState,
}

impl Asker {
    /// Says of a cluster which slot the key is in, who has it, and where it goes.
    pub(super) fn new(mut nodes: Nodes, key: &[u8], database: u32, report: &mut Report) -> anyhow::Result<Self> {
        let (slot, mut steps, mut state) = (Slot::of(key), nodes.steps(Box::new(|_| Ok(()))), SlotState::default());
        match &mut steps {
            None => nodes.first().select(database)?,
            Some(steps) => {
                steps.select(database)?;
                let states = nodes.slot_states()?;
                state = states.of(slot).clone();
                report.add("slot", slot.to_string(), slot.number());
                let owner = state.owner.as_ref().map_or_else(|| "nobody".to_owned(), |id| states.address(id));
                report.text("slot is at", owner);
                let to = state.to.iter().chain(&state.importers).next();
                if let Some(to) = to {
                    report.text("slot moves to", states.address(to));
                }
            }
        }
        Ok(Self { nodes, steps, slot, state })
    }

    /// Says which node has what lies under a name.
    pub(super) fn name_node(&mut self, physical: &[u8], report: &mut Report) -> anyhow::Result<()> {
        if self.steps.is_none() {
            return Ok(());
        }
        let owner = self.nodes.owner_of(physical);
        let mut node = self.nodes.servers()[owner].address().to_string();
        let is_gone = |server: &mut Server| -> bool {
            server.query::<bool>(&[b"EXISTS", physical]).is_err_and(|error| matches!(error.code(), "ASK" | "MOVED"))
        };
        if self.state.is_on_its_way() && is_gone(&mut self.nodes.servers()[owner]) {
            let states = self.nodes.slot_states()?;
            let to = self.state.to.iter().chain(&self.state.importers).next();
            node = to.map_or(node, |id| states.address(id));
        }
        report.text("node", node);
        Ok(())
    }

    /// Sends one command; its key lies in the slot of the key in question.
    pub(super) fn ask<T: FromReply>(&mut self, command: &[&[u8]]) -> anyhow::Result<T> {
        let Some(steps) = &mut self.steps else { return self.nodes.first().ask(command) };
        let mut wire = Vec::new();
        write_command(&mut wire, command);
        let replies = steps.carry_out((), self.slot, wire, 1)?;
        let raw = replies.first().context("a node answered nothing")?;
        reply::read(raw).map_err(|error| anyhow!("{}: {error}", String::from_utf8_lossy(command[0])))
    }
}
