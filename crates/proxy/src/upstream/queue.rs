//! What goes out on a connection to the server, and whose the replies are.

use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use keyfold_core::cluster::{Direct, Landed, Redirect};
use keyfold_core::drive::{Joining, Pipe, Progress};
use keyfold_core::exchange::Env;
use keyfold_core::resp::{ReplyFlow, array_head, write_command};
use keyfold_core::session::LARGE_BYTES;
use keyfold_core::stats::Stats;

use super::LinkError;
use super::after::Afterwards;
use super::silence::Silence;
use super::step::{DirectStep, NodeStep, Whose};
use super::timing::Timing;
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
    /// What of a client's commands may be sent as one with the next.
    joining: Joining,
    /// The commands of all steps in `pipe` that are [`Asker::Direct`], oldest first.
    kept: VecDeque<u8>,
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
    /// The same once it owes no answer.
    pub(super) retiring: bool,
    /// A request wanted this lane since the last try to connect.
    pub(super) wanted: bool,
    pub(super) silence: Silence,
    /// How long its server takes to answer, where anybody wants to know.
    pub(super) timing: Option<Timing>,
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
    pub(super) asker: Asker,
    /// How long the server may be silent before the first reply; none: for ever.
    pub(super) patience: Option<Duration>,
    /// Where the commands end, in all that was ever written to the outbox.
    pub(super) end: u64,
    /// How many commands went out as the one that begins with its own, as long as no reply has come: 1 where it went alone, or
    /// behind another's. The next ones in the pipe are those that share it.
    joined: u32,
    /// When it was asked, in microseconds; none where that is nobody's, or waits for what other clients may do.
    pub(super) since_us: Option<u64>,
}

/// Whose the replies are.
#[derive(Debug)]
pub(super) enum Asker {
    /// The proxy's own.
    Nobody,
    /// The same, for the database that all behind it are meant for.
    Select,
    /// Those of a client's request.
    Client(Rc<Client>, u64),
    /// The same before a cluster, as long as its node just answers. Its commands are in [`Queue::kept`].
    Direct(DirectStep),
    /// The same, whatever its node says.
    Step(NodeStep),
}

impl Asker {
    /// The same with its commands, which are the oldest that were kept.
    fn whole(self, kept: &mut VecDeque<u8>, now_ms: i64) -> Self {
        match self {
            Self::Direct(step) => Self::Step(step.whole(kept, now_ms)),
            other => other,
        }
    }

    /// Whose a step is.
    fn whose(&self) -> Option<&Whose> {
        match self {
            Self::Nobody | Self::Select | Self::Client(..) => None,
            Self::Direct(step) => Some(&step.whose),
            Self::Step(step) => Some(&step.whose),
        }
    }

    /// Whether it is the proxy itself.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Nobody | Self::Select)
    }

    /// The client that it is for.
    fn client(&self) -> Option<&Rc<Client>> {
        match self {
            Self::Client(client, _) => Some(client),
            _ => self.whose().map(|whose| &whose.client),
        }
    }
}

impl Queue {
    /// A queue of a connection that is yet to be opened.
    pub(super) fn new(owner: Option<Rc<Client>>) -> Self {
        Self {
            status: Status::Connecting,
            outbox: Outbox::default(),
            pipe: Pipe::default(),
            joining: Joining::default(),
            kept: VecDeque::new(),
            flow: None,
            waits_for_owner: false,
            parked: Vec::new(),
            waiting: Vec::new(),
            owner,
            finishing: false,
            retiring: false,
            wanted: true,
            silence: Silence::new(),
            timing: None,
        }
    }

    /// Adds a request's replies to those that are awaited; `is_timed` where it waits for its server alone.
    ///
    /// Its commands begin at `start` of all bytes that were ever written to the outbox, and may be joined to those before:
    /// whether they were.
    pub(crate) fn expect(
        &mut self,
        client: &Rc<Client>,
        slot: u64,
        replies: u32,
        patience: Option<Duration>,
        start: u64,
        is_timed: bool,
    ) -> bool {
        let mut commands = 1;
        if replies == 1 && self.owner.is_none() {
            commands = self.joining.join(self.outbox.with_last(start));
            let first = (commands as usize).checked_sub(2).and_then(|before| self.pipe.nth_back_mut(before));
            first.into_iter().for_each(|first| first.joined = commands);
        }
        self.push(Asker::Client(Rc::clone(client), slot), replies, patience, is_timed);
        commands > 1
    }

    /// Whether a call of so many bytes is sure to be joined to the one that carries this request of a client out.
    pub(crate) fn would_join(&self, client: &Rc<Client>, slot: u64, bytes: usize) -> bool {
        let commands = self.joining.open_call(self.outbox.written(), self.outbox.appended(), bytes);
        let is_it = |asked: &Asked| matches!(&asked.asker, Asker::Client(other, at) if *at == slot && Rc::ptr_eq(other, client));
        self.pipe.latest().take(commands as usize).any(is_it)
    }

    /// Takes the head of an array off `input`, where its elements are the replies to commands that were joined; how long
    /// it is.
    pub(super) fn open_joined(&mut self, input: &[u8]) -> Result<Option<usize>, LinkError> {
        let Some(front) = self.pipe.front_mut().filter(|front| front.joined > 1 && input.starts_with(b"*")) else {
            return Ok(None);
        };
        let Some((len, elements)) = array_head(input)? else { return Ok(None) };
        let is_for_all = u64::from(mem::replace(&mut front.joined, 1)) == elements;
        if is_for_all { Ok(Some(len)) } else { Err(LinkError::Unexpected) }
    }

    /// How many of those who asked get this reply, which is no such array: more than one where it is for all whose
    /// commands were joined.
    pub(super) fn take_sharers(&mut self, reply: &[u8]) -> u32 {
        match self.pipe.front_mut() {
            Some(front) if !reply.starts_with(b">") => mem::replace(&mut front.joined, 1),
            _ => 1,
        }
    }

    /// Notes that confirmations will come as pushes.
    pub(crate) fn expect_pushes(&mut self) {
        self.silence.broken();
    }

    /// Asks the server on the proxy's own account; the reply says nothing.
    pub(super) fn ask(&mut self, args: &[&[u8]], patience: Option<Duration>) {
        write_command(self.outbox.buffer(), args);
        self.push(Asker::Nobody, 1, patience, false);
    }

    /// Goes on in another database. Where the server refuses, the connection is of no use: what follows would be carried out in
    /// the one before.
    pub(super) fn select(&mut self, database: u32, patience: Option<Duration>) {
        write_command(self.outbox.buffer(), &[b"SELECT", database.to_string().as_bytes()]);
        self.push(Asker::Select, 1, patience, false);
    }

    #[inline]
    fn push(&mut self, asker: Asker, replies: u32, patience: Option<Duration>, is_timed: bool) {
        if self.pipe.is_idle() {
            self.silence.broken();
        }
        let end = self.outbox.appended();
        let since_us = self.timing.as_ref().filter(|_| is_timed).map(|timing| timing.now_us(&self.silence));
        self.pipe.expect(Asked { asker, patience, end, joined: 1, since_us }, replies);
    }

    /// The front has had one of its replies; what that was, where it was the last.
    #[inline]
    fn take_front(&mut self) -> Option<Asked> {
        let asked = self.pipe.advance()?;
        if let (Some(timing), Some(since_us)) = (&self.timing, asked.since_us) {
            timing.note(since_us, &self.silence);
        }
        Some(asked)
    }

    /// Writes the commands of a step that goes straight to this node.
    #[inline]
    pub(super) fn send_direct(&mut self, direct: Direct, whose: Whose, commands: &[u8]) {
        self.outbox.buffer().extend_from_slice(commands);
        self.kept.extend(commands);
        let (replies, patience, is_timed) = (whose.replies, whose.patience, !whose.blocks);
        self.push(Asker::Direct(DirectStep { direct, whose, len: commands.len() }), replies, patience, is_timed);
    }

    /// Writes a step.
    pub(super) fn send(&mut self, mut step: NodeStep) {
        let replies = step.write(self.outbox.buffer()).unwrap_or(step.whose.replies);
        let shorter = step.whose.replica.map(|_| REPLICA_PATIENCE);
        let patience = step.whose.patience.into_iter().chain(shorter).min();
        let is_timed = !step.whose.blocks;
        self.push(Asker::Step(step), replies, patience, is_timed);
    }

    /// Sends what waited for the connection.
    pub(super) fn send_parked(&mut self) {
        for step in std::mem::take(&mut self.parked) {
            self.send(step);
        }
    }

    /// Nothing is awaited: gives back what need not be held, and asks from time to time whether the other end is
    /// still there.
    pub(super) fn rest(&mut self, now: Instant, patience: Option<Duration>) {
        let silent = self.silence.lasts(now);
        if silent > TRIM_AFTER {
            self.outbox.trim();
            self.kept.shrink_to(0);
        }
        if patience.is_some() && silent > ASK_AFTER {
            self.ask(&[b"PING"], patience);
        }
    }

    pub(super) fn handle_reply(
        &mut self,
        reply: &[u8],
        env: &mut Env<'_>,
        after: &mut Afterwards<'_>,
    ) -> Result<(), LinkError> {
        match &self.owner {
            // What was to be subscribed to is at another node: the client begins anew.
            Some(owner) if owner.awaits_pushes() && is_elsewhere(reply) => {
                return Err(LinkError::Elsewhere(String::from_utf8_lossy(reply).trim_end().to_owned()));
            }
            Some(owner) if owner.handle_push(reply, env) => return Ok(()),
            // Nobody here asked for pushes; a server may still send some.
            None if reply.first() == Some(&b'>') => return Ok(()),
            _ => {}
        }
        let Some(Asked { asker, patience, since_us, .. }) = self.pipe.front_mut() else {
            return Err(LinkError::Unasked);
        };
        if let Asker::Direct(step) = asker
            && !step.direct.handle_reply(reply)
        {
            self.make_front_whole(after.now_ms());
            return self.handle_reply(reply, env, after);
        }
        let (mut commands, mut kept) = (Vec::new(), None);
        let progress = match asker {
            Asker::Select if reply != b"+OK\r\n" => Progress::Unexpected,
            Asker::Nobody | Asker::Select => Progress::Kept,
            Asker::Client(client, slot) => match client.handle_reply(*slot, reply, env, self.outbox.buffer()) {
                Progress::More(replies) => {
                    let (asker, patience) = (Asker::Client(Rc::clone(client), *slot), *patience);
                    let is_timed = since_us.is_some();
                    self.take_front();
                    self.push(asker, replies, patience, is_timed);
                    return Ok(());
                }
                progress => {
                    kept = client.has_kept_replies().then(|| (Rc::clone(client), *patience, since_us.is_some()));
                    progress
                }
            },
            Asker::Direct(step) => step.whose.handle_reply(reply, env, &mut commands),
            Asker::Step(step) => match step.handle_reply(reply) {
                Landed::Kept => Progress::Kept,
                Landed::HandOut => step.whose.handle_reply(reply, env, &mut commands),
            },
        };
        match (progress, asker.whose()) {
            (Progress::Unexpected, _) => return Err(LinkError::Unexpected),
            (Progress::More(replies), Some(before)) => after.begin(before.clone(), replies, commands),
            (Progress::More(_) | Progress::Kept, _) => {}
        }
        self.advance(after);
        match kept {
            Some((client, patience, is_timed)) => self.take_up(&client, patience, is_timed, env),
            None => Ok(()),
        }
    }

    /// Goes on with a client's requests that were sent as one with another, and waited for that to be answered.
    fn take_up(
        &mut self,
        client: &Rc<Client>,
        patience: Option<Duration>,
        is_timed: bool,
        env: &mut Env<'_>,
    ) -> Result<(), LinkError> {
        while let Some((slot, progress)) = client.take_up(env, self.outbox.buffer()) {
            match progress {
                Progress::More(replies) => {
                    self.push(Asker::Client(Rc::clone(client), slot), replies, patience, is_timed);
                }
                Progress::Unexpected => return Err(LinkError::Unexpected),
                Progress::Kept => {}
            }
        }
        Ok(())
    }

    /// The front has had one of its replies.
    #[inline]
    fn advance(&mut self, after: &mut Afterwards<'_>) {
        match self.take_front() {
            Some(Asked { asker: Asker::Direct(step), .. }) => match after.finish_direct(&step.direct) {
                true => drop(self.kept.drain(..step.len)),
                false => after.finish(step.whole(&mut self.kept, after.now_ms())),
            },
            Some(Asked { asker: Asker::Step(step), .. }) => after.finish(step),
            _ => {}
        }
    }

    /// The front's step needs its commands: its node does not just answer.
    fn make_front_whole(&mut self, now_ms: i64) {
        if let Some(Asked { asker, .. }) = self.pipe.front_mut() {
            *asker = mem::replace(asker, Asker::Nobody).whole(&mut self.kept, now_ms);
        }
    }

    /// The connection is lost: everybody who was still owed replies, in order; whose steps are whole.
    pub(super) fn lose(&mut self, now_ms: i64) -> Vec<Asker> {
        self.joining.forget();
        self.pipe.lose().map(|asked| asked.asker.whole(&mut self.kept, now_ms)).collect()
    }

    /// Has the rest of a reply go to its client as it comes, where it is a large one that the client gets as it is, or all texts of.
    pub(super) fn begin_flow(&mut self, input: &[u8], stats: &Stats, now_ms: i64) -> bool {
        let is_push = input.first() == Some(&b'>');
        if input.len() < LARGE_BYTES || is_push || self.pipe.left_for_front() != 1 {
            return false;
        }
        self.make_front_whole(now_ms);
        let may_flow = match self.pipe.front().map(|front| &front.asker) {
            Some(Asker::Step(step)) => {
                let Whose { client, slot, part, .. } = &step.whose;
                // Of a replica only a value is believed that has begun; an array may say of a key that it isn't there.
                let is_certain = step.whose.replica.is_none() || input.starts_with(b"$");
                is_certain && step.may_flow(input) && part.is_none() && client.begin_flow(*slot, input, stats)
            }
            Some(Asker::Client(client, slot)) => client.begin_flow(*slot, input, stats),
            _ => false,
        };
        if !may_flow {
            return false;
        }
        if let Some(Asked { asker: Asker::Step(step), .. }) = self.pipe.front_mut() {
            step.begin_flow();
        }
        self.pipe.rescan();
        self.flow = Some(ReplyFlow::default());
        true
    }

    /// Hands on what is there of a reply that goes to its client in pieces; how many bytes that took.
    pub(super) fn hand_on(&mut self, input: &[u8], after: &mut Afterwards<'_>) -> Result<usize, LinkError> {
        let (Some(flow), Some(front)) = (&mut self.flow, self.pipe.front_mut()) else { return Err(LinkError::Unasked) };
        let (len, ends) = flow.advance(input)?;
        if let Some(client) = front.asker.client() {
            client.handle_piece(&input[..len], ends);
        }
        if ends {
            self.flow = None;
            // What it begins with is enough to tell that it is an answer.
            if let Asker::Step(step) = &mut front.asker {
                step.handle_reply(&input[..len.min(1)]);
            }
            self.advance(after);
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
