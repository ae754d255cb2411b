//! A step of a client's request on its way to a node of a cluster.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use keyfold_core::cluster::{Direct, Node, Step};
use keyfold_core::drive::Progress;
use keyfold_core::exchange::Env;
use keyfold_core::session::Lane;
use keyfold_core::slot::Slot;

use crate::client::Client;

/// Commands of one slot, and whose they are.
pub(crate) type NodeStep = Box<Step<Whose>>;

/// Whose a step's replies are.
#[derive(Clone, Debug)]
pub(crate) struct Whose {
    pub(crate) client: Rc<Client>,
    /// The client's request.
    pub(crate) slot: u64,
    /// The slot of its keys.
    pub(crate) at: Slot,
    /// Which part of it, where several nodes carry it out.
    pub(crate) part: Option<usize>,
    /// The kind of connection that it travels on, where it goes to a replica if [`Self::replica`] says so.
    pub(crate) lane: Lane,
    /// How long a node may be silent over it.
    pub(crate) patience: Option<Duration>,
    /// How many replies there will be.
    pub(crate) replies: u32,
    /// The replica that it is sent to.
    pub(crate) replica: Option<Node>,
    /// It depends on what its client has on its own connection, and can't go to another.
    pub(crate) stays: bool,
    /// So will its next steps.
    pub(crate) all_stay: bool,
    /// It waits for what other clients may do.
    pub(crate) blocks: bool,
}

/// A step whose commands are kept elsewhere, as long as its node just answers.
#[derive(Debug)]
pub(super) struct DirectStep {
    pub(super) direct: Direct,
    pub(super) whose: Whose,
    /// How long its commands are.
    pub(super) len: usize,
}

/// What one reply leads to.
#[derive(Debug)]
pub(super) enum After {
    /// The next step of a request.
    Begin {
        /// Whose the one before was.
        before: Whose,
        replies: u32,
        commands: Vec<u8>,
    },
    /// All replies to a step have come.
    Finish(NodeStep),
}

impl DirectStep {
    /// The step with its commands, which are the oldest in `kept`.
    pub(super) fn whole(self, kept: &mut VecDeque<u8>, now_ms: i64) -> NodeStep {
        let (client, commands) = (self.whose.client_number(), kept.drain(..self.len).collect());
        Step::of(self.whose, client, self.direct, commands, now_ms)
    }
}

impl Whose {
    /// Hands over a reply. What it leads to is written to `wire`.
    pub(crate) fn handle_reply(&self, reply: &[u8], env: &mut Env<'_>, wire: &mut Vec<u8>) -> Progress {
        if matches!(self.lane, Lane::Replica { .. }) && self.replica.is_none() {
            self.client.leave_replica(self.slot, self.part);
        }
        match self.part {
            None => self.client.handle_reply(self.slot, reply, env, wire),
            Some(part) => self.client.handle_part_reply(self.slot, part, reply, env, wire),
        }
    }

    /// Answers the request by an error: what was sent of it is lost.
    pub(crate) fn lose(&self, reason: &str) {
        match self.part {
            None => self.client.handle_server_lost(self.slot, reason),
            Some(part) => self.client.handle_part_lost(self.slot, part, reason),
        }
    }

    /// Whether it goes to its slot's node, on the connection there that all share.
    pub(super) fn is_ordinary(&self) -> bool {
        self.replica.is_none() && !self.is_alone()
    }

    /// Whether it travels on a connection that its client has to itself.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.lane, Lane::Own { .. })
    }

    /// The step of `commands` that begins now. Commands of one client stay in order among those of its slot.
    pub(crate) fn step(self, commands: Vec<u8>, now_ms: i64) -> NodeStep {
        let (slot, client) = (self.at, self.client_number());
        Step::new(self, client, slot, commands, now_ms)
    }

    /// By which steps of the same client are known.
    fn client_number(&self) -> u64 {
        Rc::as_ptr(&self.client) as usize as u64
    }

    /// Whose the next step of the same request is.
    pub(crate) fn next(&self, replies: u32) -> Self {
        let at = self.client.goes_to(self.slot).filter(|_| self.part.is_none()).unwrap_or(self.at);
        let replica = self.replica.filter(|_| self.client.is_at_replica(self.slot, self.part));
        Self { at, replies, replica, stays: self.all_stay, ..self.clone() }
    }
}
