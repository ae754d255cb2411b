//! What goes out on a connection to the server, and whose the replies are.

use std::rc::Rc;
use std::time::{Duration, Instant};

use keyfold_core::cluster::{Landed, Redirect};
use keyfold_core::drive::{Pipe, Progress};
use keyfold_core::exchange::Env;
use keyfold_core::resp::{ReplyFlow, write_command};
use keyfold_core::session::LARGE_BYTES;

use super::LinkError;
use super::cluster::After;
use super::silence::Silence;
use super::step::{NodeStep, Whose};
use crate::client::Client;
use crate::outbox::Outbox;

/// A connection that was idle for so long gives its buffer back.
const TRIM_AFTER: Duration = Duration::from_secs(1);

/// A replica may be silent for so long over a read; then the primary is asked. Reads that may take longer don't go there.
const REPLICA_PATIENCE: Duration = Duration::from_millis(400);

/// A connection that was idle for so long is asked whether it is still there.
const ASK_AFTER: Duration = Duration::from_secs(15);

/// What goes out and what is awaited.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) status: Status,
    pub(crate) outbox: Outbox,
    /// Whose replies come next.
    pub(super) pipe: Pipe<Asked>,
    /// The reply to the first request goes to its client in pieces.
    pub(super) flow: Option<ReplyFlow>,
    /// Nothing is read until the owner has taken what waits for it.
    pub(super) waits_for_owner: bool,
    /// Steps to send when the connection is ready.
    pub(super) parked: Vec<NodeStep>,
    /// Clients to wake when the connection is ready, or has room again.
    pub(super) waiting: Vec<Rc<Client>>,
    /// The one client of a [`Lane::Own`].
    pub(super) owner: Option<Rc<Client>>,
    /// Nothing more will be asked: say so to the server once the outbox is empty.
    pub(super) finishing: bool,
    /// A request wanted this lane since the last try to connect.
    pub(super) wanted: bool,
    pub(super) silence: Silence,
}

/// Whether requests may begin.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    /// They wait for the first try to connect to end.
    Connecting,
    /// They may.
    Ready,
    /// They fail with this reason.
    Away(Rc<str>),
    /// This object is of no use any more; ask the lanes for another.
    Closed,
}

/// What was asked.
#[derive(Debug)]
pub(super) struct Asked {
    /// Whose the replies are; none for commands of the proxy itself.
    pub(super) client: Option<Rc<Client>>,
    pub(super) slot: u64,
    /// What it is before a cluster; `client` is none then.
    pub(super) step: Option<NodeStep>,
    /// How long the server may be silent before the first of them; none: for ever.
    pub(super) patience: Option<Duration>,
    /// Where the commands end, in all that was ever written to the outbox.
    pub(super) end: u64,
}

impl Queue {
    /// A queue of a connection that is yet to be opened.
    pub(super) fn new(owner: Option<Rc<Client>>) -> Self {
        Self {
            status: Status::Connecting,
            outbox: Outbox::default(),
            pipe: Pipe::default(),
            flow: None,
            waits_for_owner: false,
            parked: Vec::new(),
            waiting: Vec::new(),
            owner,
            finishing: false,
            wanted: true,
            silence: Silence::new(),
        }
    }

    /// Adds a request's replies to those that are awaited.
    pub(crate) fn expect(&mut self, client: &Rc<Client>, slot: u64, replies: u32, patience: Option<Duration>) {
        self.push(Some(Rc::clone(client)), slot, replies, patience);
    }

    /// Notes that confirmations will come as pushes.
    pub(crate) fn expect_pushes(&mut self) {
        self.silence.broken();
    }

    /// Asks the server on the proxy's own account; the reply says nothing.
    pub(super) fn ask(&mut self, args: &[&[u8]], patience: Option<Duration>) {
        write_command(self.outbox.buffer(), args);
        self.push(None, 0, 1, patience);
    }

    pub(super) fn push(&mut self, client: Option<Rc<Client>>, slot: u64, replies: u32, patience: Option<Duration>) {
        if self.pipe.is_idle() {
            self.silence.broken();
        }
        let end = self.outbox.appended();
        self.pipe.expect(Asked { client, slot, step: None, patience, end }, replies);
    }

    /// Writes a step.
    pub(super) fn send(&mut self, mut step: NodeStep) {
        if self.pipe.is_idle() {
            self.silence.broken();
        }
        let replies = step.write(self.outbox.buffer()).unwrap_or(step.whose.replies);
        self.expect_step(step, replies);
    }

    /// Sends what waited for the connection.
    pub(super) fn send_parked(&mut self) {
        for step in std::mem::take(&mut self.parked) {
            self.send(step);
        }
    }

    fn expect_step(&mut self, step: NodeStep, replies: u32) {
        let shorter = step.whose.replica.map(|_| REPLICA_PATIENCE);
        let patience = step.whose.patience.into_iter().chain(shorter).min();
        let end = self.outbox.appended();
        self.pipe.expect(Asked { client: None, slot: 0, step: Some(step), patience, end }, replies);
    }

    /// Nothing is awaited: gives back what need not be held, and asks from time to time whether the other end is
    /// still there.
    pub(super) fn rest(&mut self, now: Instant, patience: Option<Duration>) {
        let silent = self.silence.lasts(now);
        if silent > TRIM_AFTER {
            self.outbox.trim();
        }
        if patience.is_some() && silent > ASK_AFTER {
            self.ask(&[b"PING"], patience);
        }
    }

    pub(super) fn handle_reply(
        &mut self,
        reply: &[u8],
        env: &mut Env<'_>,
        after: &mut Vec<After>,
    ) -> Result<(), LinkError> {
        match &self.owner {
            // What was to be subscribed to is at another node: the client begins anew.
            Some(owner) if owner.awaits_pushes() && is_elsewhere(reply) => {
                return Err(LinkError::Elsewhere(String::from_utf8_lossy(reply).trim_end().to_owned()));
            }
            Some(owner) if owner.handle_push(reply) => return Ok(()),
            // Nobody here asked for pushes; a server may still send some.
            None if reply.first() == Some(&b'>') => return Ok(()),
            _ => {}
        }
        let Asked { client, slot, step, patience, .. } = self.pipe.front_mut().ok_or(LinkError::Unasked)?;
        if let Some(step) = step {
            handle_step_reply(step, reply, env, after)?;
            if let Some(Asked { step: Some(step), .. }) = self.pipe.advance() {
                after.push(After::Finish(step));
            }
            return Ok(());
        }
        let progress = match client {
            Some(client) => client.handle_reply(*slot, reply, env, self.outbox.buffer()),
            None => Progress::Kept,
        };
        match progress {
            Progress::Unexpected => return Err(LinkError::Unexpected),
            Progress::Kept => drop(self.pipe.advance()),
            Progress::More(replies) => {
                let (client, slot, patience) = (client.clone(), *slot, *patience);
                self.pipe.advance();
                self.push(client, slot, replies, patience);
            }
        }
        Ok(())
    }

    /// Has the rest of a reply go to its client as it comes, where it is a large one that the client gets as it is.
    pub(super) fn begin_flow(&mut self, input: &[u8]) -> bool {
        let is_push = input.first() == Some(&b'>');
        if input.len() < LARGE_BYTES || is_push || self.pipe.left_for_front() != 1 {
            return false;
        }
        let may_flow = match self.pipe.front() {
            Some(Asked { step: Some(step), .. }) => {
                let Whose { client, slot, part, .. } = &step.whose;
                // Of a replica only a value is believed that has begun; an array may say of a key that it isn't there.
                let is_certain = step.whose.replica.is_none() || input.starts_with(b"$");
                is_certain && step.may_flow(input) && part.is_none() && client.may_flow(*slot)
            }
            Some(Asked { client: Some(client), slot, .. }) => client.may_flow(*slot),
            _ => false,
        };
        if !may_flow {
            return false;
        }
        if let Some(Asked { step: Some(step), .. }) = self.pipe.front_mut() {
            step.begin_flow();
        }
        self.pipe.rescan();
        self.flow = Some(ReplyFlow::default());
        true
    }

    /// Hands on what is there of a reply that goes to its client in pieces; how many bytes that took.
    pub(super) fn hand_on(&mut self, input: &[u8], after: &mut Vec<After>) -> Result<usize, LinkError> {
        let (Some(flow), Some(front)) = (&mut self.flow, self.pipe.front_mut()) else { return Err(LinkError::Unasked) };
        let (len, ends) = flow.advance(input)?;
        let client = front.step.as_ref().map(|step| &step.whose.client).or(front.client.as_ref());
        if let Some(client) = client {
            client.handle_piece(&input[..len], ends);
        }
        if ends {
            self.flow = None;
            // What it begins with is enough to tell that it is an answer.
            front.step.iter_mut().for_each(|step| _ = step.handle_reply(&input[..len.min(1)]));
            if let Some(Asked { step: Some(step), .. }) = self.pipe.advance() {
                after.push(After::Finish(step));
            }
        }
        Ok(len)
    }

    /// Whether the one client that this connection is for has to take its answers first.
    pub(super) fn must_wait(&mut self, high_water_bytes: usize) -> bool {
        let is_full = |owner: &Rc<Client>| owner.is_full(high_water_bytes);
        self.waits_for_owner = self.flow.is_some() && self.owner.as_ref().is_some_and(is_full);
        if self.waits_for_owner {
            self.silence.broken();
        }
        self.waits_for_owner
    }

    pub(super) fn wait(&mut self, client: &Rc<Client>) {
        if client.start_waiting() {
            self.waiting.push(Rc::clone(client));
        }
    }

    pub(super) fn wake_waiting(&mut self) {
        for client in self.waiting.drain(..) {
            client.stop_waiting();
        }
    }
}

/// Whether a node says that another one is to be asked.
fn is_elsewhere(reply: &[u8]) -> bool {
    matches!(Redirect::read(reply), Some(Redirect::Moved(..) | Redirect::Ask(..) | Redirect::TryAgain))
}

/// Hands a node's reply to whose it is, where it is for them.
fn handle_step_reply(
    step: &mut NodeStep,
    reply: &[u8],
    env: &mut Env<'_>,
    after: &mut Vec<After>,
) -> Result<(), LinkError> {
    if step.handle_reply(reply) == Landed::Kept {
        return Ok(());
    }
    let mut commands = Vec::new();
    match step.whose.handle_reply(reply, env, &mut commands) {
        Progress::Kept => {}
        Progress::More(replies) => after.push(After::Begin { before: step.whose.clone(), replies, commands }),
        Progress::Unexpected => return Err(LinkError::Unexpected),
    }
    Ok(())
}
