//! What is counted of a client's commands, from when it is their turn until they are answered; and which of them were slow.

use std::ops::Range;
use std::sync::Arc;

use crate::clients::Entry;
use crate::command::Command;
use crate::layout::NamespaceIndex;
use crate::session::Plan;
use crate::slowlog::{Asked, AskedArguments, AskedAt, SlowLog, SlowRequest, Timekeeper};
use crate::stats::{CommandEnd, CommandStats, CommandWay};

/// What is to be known of a command when it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Metered {
    command: Option<&'static Command>,
    /// When it was its turn.
    since_us: u64,
    /// All keys that it reads are of this namespace.
    pub(super) namespace: Option<NamespaceIndex>,
    /// What was asked.
    asked: AskedAt,
    /// It waits for what other clients do, which says nothing of how fast anything is.
    blocks: bool,
    /// The connection to a server was lost over it.
    is_lost: bool,
}

impl Metered {
    /// Notes that it, or a part of it, was lost.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Where it is kept what was asked.
    pub(super) fn asked(&self) -> AskedAt {
        self.asked
    }
}

/// Where a client's commands are timed and counted.
#[derive(Debug, Default)]
pub(super) struct Metering {
    /// None where nobody says what time it is.
    timing: Option<Timing>,
    /// None where nobody wants to know.
    stats: Option<Arc<CommandStats>>,
    /// Since when the next command has been waiting for its turn.
    waiting_since_us: Option<u64>,
    asked: Asked,
}

/// By which clock, and what is slow.
#[derive(Debug)]
struct Timing {
    time: Arc<Timekeeper>,
    slow: Arc<SlowLog>,
}

impl Metering {
    /// Goes by this clock.
    pub(super) fn time_by(&mut self, time: Arc<Timekeeper>, slow: Arc<SlowLog>) {
        self.timing = Some(Timing { time, slow });
    }

    /// Counts there, what time it is being known.
    pub(super) fn count_in(&mut self, stats: Arc<CommandStats>) {
        self.stats = Some(stats);
    }

    /// The next command has to wait.
    pub(super) fn note_waiting(&mut self) {
        if let Some(timing) = &self.timing {
            self.waiting_since_us.get_or_insert(timing.time.now_us());
        }
    }

    /// The next command is these bytes of the batch.
    #[inline]
    pub(super) fn note_request(&mut self, bytes: Range<usize>) {
        self.asked.note(bytes);
    }

    /// The batch has ended, of which this much has begun; see [`Asked::end_batch`].
    #[inline]
    pub(super) fn end_batch(&mut self, begun: &[u8], under_way: impl Iterator<Item = AskedAt>) {
        self.asked.end_batch(begun, under_way);
    }

    /// No command is under way.
    #[inline]
    pub(super) fn rest(&mut self) {
        self.asked.clear();
    }

    /// Gives back room, where no command is under way.
    pub(super) fn shrink(&mut self) {
        self.asked.shrink();
    }

    /// A command begins.
    pub(super) fn begin(&mut self, plan: &Plan, args: &[&[u8]]) -> Metered {
        let namespace = plan.read_namespace(args.len());
        let Some(Timing { time, .. }) = &self.timing else { return Metered { namespace, ..Metered::default() } };
        let since_us = self.waiting_since_us.take().unwrap_or_else(|| time.now_us());
        let command = plan.command();
        let asked = self.asked.begin(command, args);
        Metered { command, since_us, namespace, asked, blocks: plan.patience.blocks(), is_lost: false }
    }

    /// A command ends that needed no server. `fails`: with an error.
    pub(super) fn end_here(&self, metered: Metered, plan: &Plan, args: &[&[u8]], fails: bool, entry: &Entry) {
        let Some(Timing { time, slow }) = &self.timing else { return };
        let end = match () {
            () if plan.is_refusal() => CommandEnd::Refused,
            () if fails => CommandEnd::Error,
            () => CommandEnd::Ok,
        };
        let way = if plan.is_queued() { CommandWay::Queued } else { CommandWay::Local };
        let tells = way == CommandWay::Local && end != CommandEnd::Refused;
        let took_us = tells.then(|| time.now_us().saturating_sub(metered.since_us));
        if let Some(stats) = &self.stats {
            stats.count(metered.command, way, end, took_us);
        }
        if let Some(took_us) = took_us.filter(|took_us| slow.is_slow(*took_us)) {
            self.note_slow(metered, Some(args), took_us, (way, end), entry);
        }
    }

    /// A command ends that went this way, with this answer.
    #[inline]
    pub(super) fn end(&self, metered: Metered, way: impl FnOnce() -> CommandWay, answer: &[u8], entry: &Entry) {
        let Some(Timing { time, slow }) = &self.timing else { return };
        let took_us = time.now_us().saturating_sub(metered.since_us);
        let is_slow = slow.is_slow(took_us) && !metered.blocks;
        if self.stats.is_none() && !is_slow {
            return;
        }
        let end = match answer.first() {
            _ if metered.is_lost => CommandEnd::Unavailable,
            Some(b'-' | b'!') => CommandEnd::Error,
            _ => CommandEnd::Ok,
        };
        let way = way();
        if let Some(stats) = &self.stats {
            stats.count(metered.command, way, end, Some(took_us));
        }
        // What the server has no command for was not carried out.
        let is_none = metered.command.is_none() && end == CommandEnd::Error;
        if is_slow && !is_none {
            self.note_slow(metered, None, took_us, (way, end), entry);
        }
    }

    /// A command could not begin, as the server is away.
    pub(super) fn refuse(&mut self, plan: &Plan, args: &[&[u8]], entry: &Entry) {
        let since_us = self.waiting_since_us.take();
        let Some(Timing { time, slow }) = &self.timing else { return };
        let took_us = time.now_us().saturating_sub(since_us.unwrap_or(time.now_us()));
        let (way, end) = (CommandWay::Local, CommandEnd::Unavailable);
        if let Some(stats) = &self.stats {
            stats.count(plan.command(), way, end, Some(took_us));
        }
        if slow.is_slow(took_us) {
            let metered = Metered { command: plan.command(), ..Metered::default() };
            self.note_slow(metered, Some(args), took_us, (way, end), entry);
        }
    }

    /// What came was no request.
    pub(super) fn refuse_unread(&self) {
        if let Some(stats) = &self.stats {
            stats.count(None, CommandWay::Local, CommandEnd::Refused, None);
        }
    }

    /// A command was slow; `args` where they are at hand.
    #[cold]
    fn note_slow(
        &self,
        metered: Metered,
        args: Option<&[&[u8]]>,
        took_us: u64,
        (way, end): (CommandWay, CommandEnd),
        entry: &Entry,
    ) {
        let Some(Timing { time, slow }) = &self.timing else { return };
        let command = metered.command;
        let asked = match args {
            Some(args) => AskedArguments::of(command, args),
            None => self.asked.find(metered.asked, command),
        };
        let request = SlowRequest {
            took_us,
            answered_ms: time.server_ms(),
            client: entry.address().to_owned(),
            client_name: entry.words().name.clone(),
            ..SlowRequest::new(command, asked, way, end)
        };
        slow.add(request, time);
    }
}
