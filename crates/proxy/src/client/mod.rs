//! One client, as the rest of its worker sees it.
//!
//! A client is in two halves. [`Connection`](connection::Connection) is its task: it owns the socket, reads
//! and begins requests, and flushes. [`Client`] is what the connections to the server reach: the requests
//! under way and the answers on their way out, whose order is the core's [`Conversation`].

mod before_cluster;
mod connection;
mod crowd;
mod gathering;
mod requests;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use keyfold_core::access::Users;
use keyfold_core::clients::{Outcome, WaitsOn};
use keyfold_core::cluster::{Front, Node, Written};
use keyfold_core::drive::{Conversation, Progress};
use keyfold_core::exchange::Env;
use keyfold_core::layout::{Layout, Located};
use keyfold_core::session::{Lane, Peer, Session};
use keyfold_core::slot::Slot;
use keyfold_core::stats::Stats;

use crate::outbox::Outbox;
use crate::stats::ClientGauges;
use crate::upstream::{NodeStep, Upstream};
use crate::worker::Worker;

pub(crate) use connection::serve;
pub(crate) use crowd::Crowd;
use gathering::Waits;
pub(crate) use gathering::{Gathering, end_waits};

/// A client without requests under way keeps room for so many.
const KEPT_SLOTS: usize = 32;

/// The half of a client that its worker shares.
#[derive(Debug)]
pub(crate) struct Client {
    state: RefCell<State>,
    task: OnceCell<Waker>,
    /// The task has been woken and hasn't run yet.
    woken: Cell<bool>,
    /// It waits for a connection to the server to be ready.
    waiting: Cell<bool>,
    /// Its next request waits until it may begin.
    held: Cell<bool>,
    ending: Cell<Option<Ending>>,
    /// It has said something since it was last looked whether it is idle.
    said: Cell<bool>,
    /// It has closed its side, and says no more; it may still take answers.
    pub(crate) has_ended: Cell<bool>,
    /// It is to be closed, unless it has said something by then.
    let_go: Cell<bool>,
    /// The worker's tick when it last said something.
    heard: Cell<u32>,
    /// The worker's tick when it last took a byte of what waits for it, or when nothing waited.
    took: Cell<u32>,
    /// Something that it wrote went to a node that didn't have its slot yet.
    has_written_ahead: Cell<bool>,
    /// Its answers wait for others.
    waits: Waits,
    max_queued_answer_bytes: usize,
}

/// Why a client is closed at once, whatever is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Idle,
    WriteStalled,
    AnswersOverLimit,
    AnswerCutOff,
    ServerStateLost,
    Killed,
    ShutOut,
    MonitorFellBehind,
}

#[derive(Debug)]
struct State {
    conversation: Conversation,
    outbox: Outbox,
    /// The task is gone: requests under way are carried through, their answers dropped.
    gone: bool,
    own: Option<Rc<Upstream>>,
    /// Where it has written, before a cluster.
    written: Written,
}

impl Client {
    fn new(peer: Peer, worker: &Worker) -> Self {
        let mut session = worker.with_env(|env| Session::new(peer, &worker.everybody, env));
        session.set_front(worker.front());
        let conversation = Conversation::new(session).timed_by(Arc::clone(&worker.stats.time));
        let conversation = match &worker.stats.meters {
            Some(meters) => conversation.counted_by(Arc::clone(&meters.commands)),
            None => conversation,
        };
        let state =
            State { conversation, outbox: Outbox::default(), gone: false, own: None, written: Written::default() };
        Self {
            state: RefCell::new(state),
            task: OnceCell::new(),
            woken: Cell::new(false),
            waiting: Cell::new(false),
            held: Cell::new(false),
            ending: Cell::new(None),
            said: Cell::new(true),
            has_ended: Cell::new(false),
            let_go: Cell::new(false),
            heard: Cell::new(worker.tick.get()),
            took: Cell::new(worker.tick.get()),
            has_written_ahead: Cell::new(false),
            waits: Waits::default(),
            max_queued_answer_bytes: worker.config.limits.max_queued_answer_bytes,
        }
    }

    /// Takes a reply to the request in this slot.
    pub(crate) fn handle_reply(&self, slot: u64, reply: &[u8], env: &mut Env<'_>, wire: &mut Vec<u8>) -> Progress {
        let mut state = self.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        let progress = conversation.handle_reply(slot, reply, env, wire, outbox.buffer());
        self.after_answer(&mut state);
        progress
    }

    /// Whether replies are kept for requests that wait for others.
    pub(crate) fn has_kept_replies(&self) -> bool {
        self.state.borrow().conversation.has_kept_replies()
    }

    /// Goes on with a request whose reply was kept; by its slot.
    pub(crate) fn take_up(&self, env: &mut Env<'_>, wire: &mut Vec<u8>) -> Option<(u64, Progress)> {
        let mut state = self.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        let taken_up = conversation.take_up(env, wire, outbox.buffer());
        self.after_answer(&mut state);
        taken_up
    }

    /// Says what the client is to take keyfold for.
    pub(crate) fn set_front(&self, front: Front) {
        self.state.borrow_mut().conversation.session_mut().set_front(front);
    }

    /// The slot whose node is to get what a request has written last; none where that is its own.
    pub(crate) fn goes_to(&self, slot: u64) -> Option<Slot> {
        self.state.borrow().conversation.goes_to(slot)
    }

    /// Whether what a request, or a part of it, writes next goes to the replica that it was sent to.
    pub(crate) fn is_at_replica(&self, slot: u64, part: Option<usize>) -> bool {
        self.state.borrow().conversation.is_at_replica(slot, part)
    }

    /// A request, or a part of it, is at the primary from now on.
    pub(crate) fn leave_replica(&self, slot: u64, part: Option<usize>) {
        self.state.borrow_mut().conversation.leave_replica(slot, part);
    }

    /// Takes a reply to a part of the request in this slot.
    pub(crate) fn handle_part_reply(
        &self,
        slot: u64,
        part: usize,
        reply: &[u8],
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Progress {
        let mut state = self.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        let progress = conversation.handle_part_reply(slot, part, reply, env, wire, outbox.buffer());
        self.after_answer(&mut state);
        progress
    }

    /// Takes a reply on the client's own lane; true when it is a push, which goes to the client unless it concerns
    /// only keyfold.
    pub(crate) fn handle_push(&self, reply: &[u8], env: &Env<'_>) -> bool {
        let mut state = self.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        let pushed = conversation.handle_push(reply, env, outbox.buffer());
        if pushed {
            if state.conversation.session().is_cut_off() {
                self.ending.set(Some(Ending::ServerStateLost));
            }
            self.after_answer(&mut state);
        }
        pushed
    }

    /// Has the answer of the request in this slot go out in pieces, while the reply is received that begins so; false where it
    /// may not.
    pub(crate) fn begin_flow(&self, slot: u64, input: &[u8], stats: &Stats) -> bool {
        let mut state = self.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        conversation.begin_flow(slot, input, stats, outbox.buffer())
    }

    /// Takes a piece of the reply to the first slot's request; `ends` with the last one.
    pub(crate) fn handle_piece(&self, piece: &[u8], ends: bool) {
        let mut state = self.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        conversation.handle_piece(piece, ends, outbox.buffer());
        self.after_answer(&mut state);
    }

    /// Whether so much is on its way out to it that the pieces behind had better wait. Answers that wait in their slots
    /// don't count: they go out only behind those pieces.
    pub(crate) fn is_full(&self, high_water_bytes: usize) -> bool {
        let state = self.state.borrow();
        !state.gone && state.outbox.unsent() > high_water_bytes
    }

    /// Answers the request in this slot with an error: its connection is lost.
    pub(crate) fn handle_server_lost(&self, slot: u64, reason: &str) {
        let mut state = self.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        if !conversation.lose(slot, reason, outbox.buffer()) {
            self.ending.set(Some(Ending::AnswerCutOff));
        }
        self.after_answer(&mut state);
    }

    /// The server has dropped the request in this slot with a connection on which nothing more was to be said.
    pub(crate) fn handle_dropped(&self, slot: u64) {
        let mut state = self.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        conversation.drop_blocked(slot, outbox.buffer());
        self.after_answer(&mut state);
    }

    /// Answers a part of the request in this slot with an error: its connection is lost.
    pub(crate) fn handle_part_lost(&self, slot: u64, part: usize, reason: &str) {
        let mut state = self.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        conversation.lose_part(slot, part, reason, outbox.buffer());
        self.after_answer(&mut state);
    }

    /// Sends the next step of a request on its own connection. Where that is gone, so is the request.
    pub(crate) fn send_alone(&self, step: NodeStep) {
        let own = self.state.borrow().own.clone();
        let unsent = match own {
            Some(own) => own.take(step).err(),
            None => Some((step, "the connection to its node was closed".into())),
        };
        if let Some((step, reason)) = unsent {
            step.whose.lose(&reason);
        }
    }

    /// Its own connection, which goes to `node` from now on: what was on another holds nothing of it.
    pub(crate) fn own_lane_at(self: &Rc<Self>, node: Node, lane: Lane, worker: &Rc<Worker>) -> Rc<Upstream> {
        let mut state = self.state.borrow_mut();
        if state.own.as_ref().is_some_and(|own| !own.serves(Some(node), lane)) {
            state.give_back_own(worker);
        }
        Rc::clone(state.own.get_or_insert_with(|| worker.lanes.own(Some(node), lane, self, worker)))
    }

    /// Its own connection is of no use to it any more, nor to others.
    pub(crate) fn end_own_lane(&self) {
        self.state.borrow_mut().end_own();
    }

    /// Whether its own lane holds something that would be lost with it.
    pub(crate) fn holds_server_state(&self) -> bool {
        !self.state.borrow().conversation.session().own_lane_is_clean()
    }

    /// What it waits for is under way on this connection of its own.
    pub(crate) fn note_waits_on(&self, connection: Option<WaitsOn>) {
        self.state.borrow().conversation.session().entry().note_waits_on(connection);
    }

    /// Something that it writes goes elsewhere than the map says.
    pub(crate) fn note_written_ahead(&self) {
        self.has_written_ahead.set(true);
    }

    /// Whether something that it wrote went elsewhere than the map said.
    pub(crate) fn has_written_ahead(&self) -> bool {
        self.has_written_ahead.get()
    }

    /// Whether its task is gone, and nobody takes its answers.
    pub(crate) fn is_gone(&self) -> bool {
        self.state.borrow().gone
    }

    /// Whether confirmations of a SUBSCRIBE are still to come on its own lane.
    pub(crate) fn awaits_pushes(&self) -> bool {
        self.state.borrow().conversation.session().awaits_pushes()
    }

    /// Its own lane is gone. A client that had state there (a subscription, a WATCH) is closed, as if the
    /// server itself had gone: it would wait for messages that never come, or trust a WATCH that isn't there.
    pub(crate) fn handle_own_lane_lost(&self, lost: &Upstream, stateful: bool) {
        let mut state = self.state.borrow_mut();
        // It may have another by now.
        state.own.take_if(|own| std::ptr::eq(&raw const **own, lost));
        drop(state);
        if stateful {
            self.ending.set(Some(Ending::ServerStateLost));
        }
        self.wake();
    }

    /// Ends what it waits for where that would go to a key that this layout places: the server knows such a key by another name.
    pub(crate) fn end_wait_for(&self, layout: &Layout) {
        let state = self.state.borrow();
        let is_placed = |key: &[u8]| layout.locate(key) != Located::Plain;
        if let (Some(own), true) = (&state.own, state.conversation.waits_to_give().is_some_and(is_placed)) {
            tracing::info!(epoch = %layout.epoch(), "a client waited to give something to a key that is folded from now on: its wait is ended");
            own.finish();
        }
    }

    /// Whether none of its requests is under way that the layout has a part in; a command that blocks on its
    /// own lane may go on.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state.borrow().conversation.is_quiet()
    }

    /// Has its task run, after what runs now.
    pub(crate) fn wake(&self) {
        if !self.woken.replace(true)
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }

    /// Notes that it waits for the server; false when it already did.
    pub(crate) fn start_waiting(&self) -> bool {
        !self.waiting.replace(true)
    }

    /// Has it try again.
    pub(crate) fn stop_waiting(&self) {
        self.waiting.set(false);
        self.wake();
    }

    /// Closes it where it was silent or stalled for too long, and gives back what it need not hold. Called
    /// every second; limits of 0 ticks are none.
    pub(crate) fn check(&self, tick: u32, idle_ticks: u32, stall_ticks: u32) {
        let mut state = self.state.borrow_mut();
        let silent = tick.saturating_sub(self.heard.get());
        let stalled = tick.saturating_sub(self.took.get());
        if state.outbox.unsent() == 0 {
            self.took.set(tick);
        } else if stall_ticks > 0 && stalled > stall_ticks {
            self.ending.set(Some(Ending::WriteStalled));
            self.wake();
        }
        if silent > 0 && state.conversation.in_flight() == 0 {
            state.outbox.trim();
            state.conversation.shrink_to(KEPT_SLOTS);
            // A client that listens to channels or to MONITOR, or is blocked or paused, owes no word, as in Redis.
            let owes_a_word = state.own.is_none() && !self.held.get() && !state.conversation.session().is_monitoring();
            if idle_ticks > 0 && silent > idle_ticks && owes_a_word {
                self.ending.set(Some(Ending::Idle));
                self.wake();
            }
        }
    }

    /// Closes it where it has said nothing since this was called last, and waits for nothing. What it says until it is closed is
    /// answered, and keeps it.
    pub(crate) fn let_go_if_idle(&self) {
        if !self.said.replace(false) && self.is_idle() {
            self.let_go.set(true);
            self.wake();
        }
    }

    /// Whether nothing of it is under way, nor begun in a way that closing it would break off.
    fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        state.conversation.in_flight() == 0
            && state.outbox.unsent() == 0
            && state.own.is_none()
            && !self.held.get()
            && state.conversation.session().is_between_requests()
    }

    /// Counts it among its worker's clients, as it is now.
    pub(crate) fn note_in(&self, gauges: &mut ClientGauges) {
        let state = self.state.borrow();
        let conversation = &state.conversation;
        let of_its_state = match () {
            () if conversation.is_blocked() => &mut gauges.blocked,
            () if self.held.get() => &mut gauges.held,
            () if conversation.in_flight() > 0 => &mut gauges.active,
            () if conversation.session().is_subscribed() => &mut gauges.subscribed,
            () => &mut gauges.idle,
        };
        *of_its_state += 1;
        gauges.requests += conversation.in_flight() as u64;
        gauges.parked += conversation.parked() as u64;
        gauges.answer_bytes += state.queued_bytes() as u64;
    }

    /// What others have decided about the client, and the lines of MONITOR that they have for it.
    fn hear_others(&self, users: &Users) {
        let mut state = self.state.borrow_mut();
        state.conversation.session_mut().follow_users(users);
        if state.conversation.session().is_shut_out() {
            self.ending.set(Some(Ending::ShutOut));
        }
        let State { conversation, outbox, .. } = &mut *state;
        let session = conversation.session();
        match session.entry().outcome() {
            Some(Outcome::Killed) => self.ending.set(Some(Ending::Killed)),
            Some(Outcome::FellBehind) => self.ending.set(Some(Ending::MonitorFellBehind)),
            // Nothing comes between the pieces of an answer.
            None if conversation.is_flowing() => {}
            None => {
                let before = outbox.unsent();
                session.entry().take_feed(outbox.buffer());
                conversation.hear_tracking(outbox.buffer());
                if outbox.unsent() > before {
                    self.after_answer(&mut state);
                }
            }
        }
    }

    fn after_answer(&self, state: &mut State) {
        if state.gone {
            state.drop_answers();
        } else if state.queued_bytes() > self.max_queued_answer_bytes {
            self.ending.set(Some(Ending::AnswersOverLimit));
            state.gone = true;
            state.drop_answers();
        }
        self.wake();
    }
}

impl State {
    fn queued_bytes(&self) -> usize {
        self.outbox.unsent() + self.conversation.parked_bytes()
    }

    /// Gives the own connection back, which holds nothing of this client any more.
    fn give_back_own(&mut self, worker: &Worker) {
        let reusable = self.conversation.release_own_lane();
        if let Some(own) = self.own.take() {
            worker.lanes.give_back(own, reusable);
        }
    }

    /// Ends the own connection: whatever becomes of it concerns this client no more.
    fn end_own(&mut self) {
        if let Some(own) = self.own.take() {
            own.retire();
        }
    }

    fn drop_answers(&mut self) {
        self.outbox.clear();
        self.conversation.drop_answers();
    }
}
