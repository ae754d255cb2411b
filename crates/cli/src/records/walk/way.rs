//! How questions reach the servers: one connection on which answers come in order, or each to the node that has its slot.

use std::collections::VecDeque;

use keyfold_core::slot::Slot;
use keyfold_server::{Commands, Server, Steps};

use crate::records::inquiry::{How, Inquiry, Wants};

/// Where questions go.
pub(super) enum Way<'a> {
    /// To the one server, answered in order.
    One { server: &'a mut Server, sent: VecDeque<(Inquiry, usize)>, commands: Commands },
    /// To the nodes of a cluster.
    Nodes(Box<Steps<Inquiry>>),
}

impl<'a> Way<'a> {
    pub(super) fn to(server: &'a mut Server) -> Self {
        Self::One { server, sent: VecDeque::new(), commands: Commands::default() }
    }

    /// Begins a question; how many commands it has.
    pub(super) fn begin(&mut self, ask: Inquiry, wants: Wants, how: How) -> usize {
        match self {
            Self::One { sent, commands, .. } => {
                let replies = ask.write(wants, how, commands);
                sent.push_back((ask, replies));
                replies
            }
            Self::Nodes(steps) => {
                let mut commands = Commands::default();
                let replies = ask.write(wants, how, &mut commands);
                let slot = Slot::of(ask.physical());
                steps.begin(ask, slot, commands.wire().to_vec(), u32::try_from(replies).unwrap_or(u32::MAX));
                replies
            }
        }
    }

    pub(super) fn under_way(&self) -> usize {
        match self {
            Self::One { sent, .. } => sent.len(),
            Self::Nodes(steps) => steps.under_way(),
        }
    }

    /// Sends what was begun.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        if let Self::One { server, commands, .. } = self
            && !commands.is_empty()
        {
            server.send(commands.wire(), commands.len() as u64)?;
            commands.clear();
        }
        Ok(())
    }

    /// The next question that is answered; none where nothing is under way.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<(Inquiry, Vec<Vec<u8>>)>> {
        match self {
            Self::One { server, sent, .. } => {
                let Some((ask, replies)) = sent.pop_front() else { return Ok(None) };
                let raw = (0..replies).map(|_| server.receive()).collect::<Result<_, _>>()?;
                Ok(Some((ask, raw)))
            }
            Self::Nodes(steps) => steps.answer(),
        }
    }

    /// The error that is a reply to a question, with what to do about it.
    pub(super) fn refused(&self, ask: &Inquiry, error: &[u8]) -> anyhow::Error {
        match self {
            Self::One { server, .. } => server.refused(error),
            Self::Nodes(steps) => {
                let owner = steps.owner(Slot::of(ask.physical()));
                anyhow::anyhow!("{} (the node {owner})", String::from_utf8_lossy(error))
            }
        }
    }
}
