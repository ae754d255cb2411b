//! One client, as the rest of its worker sees it.
//!
//! A client is in two halves. [`Connection`](connection::Connection) is its task: it owns the socket, reads
//! and begins requests, and flushes. [`Client`] is what the connections to the server reach: the requests
//! under way and the answers on their way out.
//!
//! ```text
//! slots   [ first ] [ second ] [ third ]        oldest first; each is under way, or answered and parked
//!             │          └────────┴── answers wait in their slots
//!             └── answered straight into the outbox, then all behind it that are complete
//! ```
//! What holds: bytes reach the outbox in the order of the requests, and only whole answers do, but for a large one that
//! the server alone gives: it comes in pieces with nothing between them, and its client is closed where the rest is lost.

mod connection;
mod requests;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use keyfold_core::access::Users;
use keyfold_core::clients::{LookupKind, Outcome};
use keyfold_core::exchange::{Effect, Env, Exchange, Io, Step};
use keyfold_core::session::{LARGE_BYTES, Lane, Peer, Session};

use crate::outbox::Outbox;
use crate::upstream::Upstream;
use crate::worker::Worker;

pub(crate) use connection::serve;

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
    ending: Cell<Option<Ending>>,
    /// The worker's tick when it last said something.
    heard: Cell<u32>,
    /// The worker's tick when it last took a byte of what waits for it, or when nothing waited.
    took: Cell<u32>,
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

/// How a request goes on after a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is answered, or waits for the rest of its replies.
    Kept,
    /// It wrote more commands, which will have so many replies.
    More(u32),
    /// The reply can't be trusted, and neither can the connection.
    Unexpected,
}

#[derive(Debug)]
struct State {
    session: Session,
    slots: VecDeque<Slot>,
    /// The number of the first slot; they are numbered in order, for the client's life.
    first: u64,
    outbox: Outbox,
    parked_bytes: usize,
    /// The last slot must be answered before another request begins.
    held: bool,
    /// The task is gone: requests under way are carried through, their answers dropped.
    gone: bool,
    own: Option<Rc<Upstream>>,
    /// Requests under way on the own lane.
    own_in_flight: usize,
    /// A part of the first slot's answer is in the outbox, and the rest comes as it is received.
    flowing: bool,
    /// RESET went to the own lane: it has lost its user, database and protocol, and is of no use to others.
    own_was_reset: bool,
}

/// A request that has begun and isn't answered, or whose answer waits for those before.
#[derive(Debug)]
struct Slot {
    lane: Lane,
    /// It waits for what other clients may do.
    blocks: bool,
    /// What its answer tells of the keys that it read.
    lookups: LookupKind,
    /// None once it is answered.
    exchange: Option<Exchange>,
    answer: Vec<u8>,
}

impl Client {
    fn new(peer: Peer, worker: &Worker) -> Self {
        let state = State {
            session: worker.with_env(|env| Session::new(peer, &worker.everybody, env)),
            slots: VecDeque::new(),
            first: 0,
            outbox: Outbox::default(),
            parked_bytes: 0,
            held: false,
            gone: false,
            own: None,
            own_in_flight: 0,
            flowing: false,
            own_was_reset: false,
        };
        Self {
            state: RefCell::new(state),
            task: OnceCell::new(),
            woken: Cell::new(false),
            waiting: Cell::new(false),
            ending: Cell::new(None),
            heard: Cell::new(worker.tick.get()),
            took: Cell::new(worker.tick.get()),
            max_queued_answer_bytes: worker.config.limits.max_queued_answer_bytes,
        }
    }

    /// Takes a reply to the request in this slot.
    pub(crate) fn handle_reply(&self, slot: u64, reply: &[u8], env: &mut Env<'_>, wire: &mut Vec<u8>) -> Progress {
        let mut state = self.state.borrow_mut();
        let progress = state.handle_reply(slot, reply, env, wire);
        self.after_answer(&mut state);
        progress
    }

    /// Takes a reply on the client's own lane; true when it is a push and goes to the client as it is.
    pub(crate) fn handle_push(&self, reply: &[u8]) -> bool {
        let mut state = self.state.borrow_mut();
        let pushed = state.session.handle_push(reply);
        if pushed {
            state.outbox.buffer().extend_from_slice(reply);
            self.after_answer(&mut state);
        }
        pushed
    }

    /// Whether the answer of the request in this slot may go out in pieces, while it is received.
    pub(crate) fn may_flow(&self, slot: u64) -> bool {
        let state = self.state.borrow();
        let first = state.slots.front().filter(|_| slot == state.first);
        let exchange = first.and_then(|first| first.exchange.as_ref());
        // Messages go out as they come, and would come between the pieces.
        !state.session.is_subscribed() && exchange.is_some_and(Exchange::hands_on)
    }

    /// Takes a piece of the first slot's answer; `ends` with the last one.
    pub(crate) fn handle_piece(&self, piece: &[u8], ends: bool) {
        let mut state = self.state.borrow_mut();
        state.outbox.buffer().extend_from_slice(piece);
        state.flowing = !ends;
        if ends {
            state.session.note_reply_bytes(LARGE_BYTES);
            state.complete(0);
        }
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
        if std::mem::take(&mut state.flowing) {
            self.ending.set(Some(Ending::AnswerCutOff));
        }
        state.handle_server_lost(slot, reason);
        self.after_answer(&mut state);
    }

    /// Whether its own lane holds something that would be lost with it.
    pub(crate) fn holds_server_state(&self) -> bool {
        !self.state.borrow().session.own_lane_is_clean()
    }

    /// Whether confirmations of a SUBSCRIBE are still to come on its own lane.
    pub(crate) fn awaits_pushes(&self) -> bool {
        self.state.borrow().session.awaits_pushes()
    }

    /// Its own lane is gone. A client that had state there (a subscription, a WATCH) is closed, as if the
    /// server itself had gone: it would wait for messages that never come, or trust a WATCH that isn't there.
    pub(crate) fn handle_own_lane_lost(&self, stateful: bool) {
        self.state.borrow_mut().own = None;
        if stateful {
            self.ending.set(Some(Ending::ServerStateLost));
        }
        self.wake();
    }

    /// Whether none of its requests is under way that the layout has a part in; a command that blocks on its
    /// own lane may go on.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = self.state.borrow();
        state.slots.iter().all(|slot| match &slot.exchange {
            None => true,
            Some(exchange) => slot.blocks && exchange.is_the_servers(),
        })
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
        if silent > 0 && state.slots.is_empty() {
            state.outbox.trim();
            state.slots.shrink_to(KEPT_SLOTS);
            // A client that listens to channels or is blocked owes no word, as in Redis.
            if idle_ticks > 0 && silent > idle_ticks && state.own.is_none() {
                self.ending.set(Some(Ending::Idle));
                self.wake();
            }
        }
    }

    /// What others have decided about the client, and the lines of MONITOR that they have for it.
    fn hear_others(&self, users: &Users) {
        let mut state = self.state.borrow_mut();
        state.session.follow_users(users);
        if state.session.is_shut_out() {
            self.ending.set(Some(Ending::ShutOut));
        }
        let State { session, outbox, flowing, .. } = &mut *state;
        match session.entry().outcome() {
            Some(Outcome::Killed) => self.ending.set(Some(Ending::Killed)),
            Some(Outcome::FellBehind) => self.ending.set(Some(Ending::MonitorFellBehind)),
            // Nothing comes between the pieces of an answer.
            None if *flowing => {}
            None => {
                let before = outbox.unsent();
                session.entry().take_feed(outbox.buffer());
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
        self.outbox.unsent() + self.parked_bytes
    }

    fn handle_reply(&mut self, slot: u64, reply: &[u8], env: &mut Env<'_>, wire: &mut Vec<u8>) -> Progress {
        let Some(index) = self.index(slot) else { return Progress::Kept };
        let slot = &mut self.slots[index];
        let Some(exchange) = &mut slot.exchange else { return Progress::Kept };
        let answer = if index == 0 { self.outbox.buffer() } else { &mut slot.answer };
        self.session.note_reply_bytes(reply.len());
        let start = answer.len();
        match exchange.handle_reply(reply, env, &mut Io { wire, answer }) {
            Step::Wait => Progress::Kept,
            Step::More(replies) => Progress::More(replies),
            Step::Unexpected => Progress::Unexpected,
            Step::Done(effect) => {
                self.session.entry().note_answer(slot.lookups, answer.get(start..).unwrap_or_default());
                self.own_was_reset |= matches!(effect, Effect::Reset);
                self.session.apply(effect);
                self.complete(index);
                Progress::Kept
            }
        }
    }

    fn handle_server_lost(&mut self, slot: u64, reason: &str) {
        let Some(index) = self.index(slot) else { return };
        let slot = &mut self.slots[index];
        let Some(exchange) = slot.exchange.take() else { return };
        let answer = if index == 0 { self.outbox.buffer() } else { &mut slot.answer };
        self.session.lose(slot.lane, &exchange, reason, answer);
        self.complete(index);
    }

    fn index(&self, slot: u64) -> Option<usize> {
        let index = usize::try_from(slot.checked_sub(self.first)?).ok()?;
        (index < self.slots.len()).then_some(index)
    }

    /// Marks a slot as answered; sends what is complete at the front.
    fn complete(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.exchange = None;
        if matches!(slot.lane, Lane::Own { .. }) {
            self.own_in_flight -= 1;
            if self.own_in_flight == 0 {
                self.session.entry().note_waits_on(None);
            }
        }
        if index > 0 {
            self.parked_bytes += slot.answer.len();
            return;
        }
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.exchange.is_none()) {
            self.first += 1;
            self.parked_bytes = self.parked_bytes.saturating_sub(slot.answer.len());
            self.outbox.buffer().extend_from_slice(&slot.answer);
        }
        self.held &= !self.slots.is_empty();
    }

    /// Gives the own connection back, which holds nothing of this client any more.
    fn give_back_own(&mut self, worker: &Worker) {
        let reusable = !std::mem::take(&mut self.own_was_reset);
        if let Some(own) = self.own.take() {
            worker.lanes.give_back(own, reusable);
        }
    }

    /// Adds a slot whose answer is known already.
    fn park(&mut self, answer: Vec<u8>) {
        self.parked_bytes += answer.len();
        self.slots.push_back(Slot {
            lane: Lane::Local,
            blocks: false,
            lookups: LookupKind::None,
            exchange: None,
            answer,
        });
    }

    fn drop_answers(&mut self) {
        self.outbox.clear();
        self.parked_bytes = 0;
        for slot in &mut self.slots {
            slot.answer = Vec::new();
        }
    }
}
