//! What is counted of a client's commands, from when it is their turn until they are answered.

use std::sync::Arc;

use crate::command::Command;
use crate::layout::NamespaceIndex;
use crate::session::Plan;
use crate::stats::{CommandEnd, CommandStats, CommandWay};

/// What is to be known of a command when it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Metered {
    command: Option<&'static Command>,
    /// When it was its turn.
    since_us: u64,
    /// All keys that it reads are of this namespace.
    pub(super) namespace: Option<NamespaceIndex>,
    /// The connection to a server was lost over it.
    is_lost: bool,
}

impl Metered {
    /// Notes that it, or a part of it, was lost.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }
}

/// Where a client's commands are counted.
#[derive(Debug, Default)]
pub(super) struct Metering {
    /// None where nobody wants to know.
    stats: Option<Arc<CommandStats>>,
    /// Since when the next command has been waiting for its turn.
    waiting_since_us: Option<u64>,
}

impl Metering {
    pub(super) fn by(stats: Arc<CommandStats>) -> Self {
        Self { stats: Some(stats), waiting_since_us: None }
    }

    /// The next command has to wait.
    pub(super) fn note_waiting(&mut self) {
        if let Some(stats) = &self.stats {
            self.waiting_since_us.get_or_insert(stats.now_us());
        }
    }

    /// A command begins which has so many arguments.
    pub(super) fn begin(&mut self, plan: &Plan, argc: usize) -> Metered {
        let namespace = plan.read_namespace(argc);
        let Some(stats) = &self.stats else { return Metered { namespace, ..Metered::default() } };
        let since_us = self.waiting_since_us.take().unwrap_or_else(|| stats.now_us());
        Metered { command: plan.command(), since_us, namespace, is_lost: false }
    }

    /// A command ends that needed no server. `fails`: with an error.
    pub(super) fn end_here(&self, metered: Metered, plan: &Plan, fails: bool) {
        let Some(stats) = &self.stats else { return };
        let end = match () {
            () if plan.is_refusal() => CommandEnd::Refused,
            () if fails => CommandEnd::Error,
            () => CommandEnd::Ok,
        };
        let way = if plan.is_queued() { CommandWay::Queued } else { CommandWay::Local };
        let tells = way == CommandWay::Local && end != CommandEnd::Refused;
        stats.count(metered.command, way, end, tells.then(|| stats.now_us().saturating_sub(metered.since_us)));
    }

    /// A command ends that went this way, with this answer.
    #[inline]
    pub(super) fn end(&self, metered: Metered, way: impl FnOnce() -> CommandWay, answer: &[u8]) {
        let Some(stats) = &self.stats else { return };
        let end = match answer.first() {
            _ if metered.is_lost => CommandEnd::Unavailable,
            Some(b'-' | b'!') => CommandEnd::Error,
            _ => CommandEnd::Ok,
        };
        stats.count(metered.command, way(), end, Some(stats.now_us().saturating_sub(metered.since_us)));
    }

    /// A command could not begin, as the server is away.
    pub(super) fn refuse(&mut self, plan: &Plan) {
        let since_us = self.waiting_since_us.take();
        let Some(stats) = &self.stats else { return };
        let took_us = stats.now_us().saturating_sub(since_us.unwrap_or(stats.now_us()));
        stats.count(plan.command(), CommandWay::Local, CommandEnd::Unavailable, Some(took_us));
    }

    /// What came was no request.
    pub(super) fn refuse_unread(&self) {
        if let Some(stats) = &self.stats {
            stats.count(None, CommandWay::Local, CommandEnd::Refused, None);
        }
    }
}
