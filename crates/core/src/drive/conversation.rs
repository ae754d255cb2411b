//! One client's requests and answers, in their order.
//!
//! ```text
//! slots   [ first ] [ second ] [ third ]        oldest first; each is under way, or answered and parked
//!             │          └────────┴── answers wait in their slots
//!             └── answered straight into `out`, then all behind it that are complete
//! ```
//! What holds: bytes reach `out`, where the client's answers go out, in the order of its requests, and only whole
//! answers do, but for a large one that the server alone gives: it comes in pieces with nothing between them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use super::held::{Following, Held, Holding};
use super::metering::{Metered, Metering};
use super::parts::{PartRequest, Parts, SentPart};
use super::replica_read::ReplicaRead;
use crate::clients::{Admission, KeyHash, LookupKind, Lookups, Ticket, Turn, hash_of};
use crate::exchange::{Ahead, Effect, Encoded, Env, Exchange, Flow, Io, Step};
use crate::layout::Layout;
use crate::session::{Begun, Hold, LARGE_BYTES, Lane, Plan, Session};
use crate::slowlog::Timekeeper;
use crate::stats::{CommandStats, CommandWay, Stats};
use crate::tracking::{Key, Mail, Stale, Traced};

/// So many answers' room is kept for those that will wait in their slots.
const SPARE_ANSWERS: usize = 32;
/// Room beyond so many bytes is not kept.
const SPARE_BYTES: usize = 256;

/// A client's session, and its requests that are under way.
#[derive(Debug)]
pub struct Conversation {
    pub(super) session: Session,
    pub(super) slots: VecDeque<Slot>,
    /// Replies that wait until what was asked before on the same key is answered.
    pub(super) kept_replies: usize,
    /// The number of the first slot; they are numbered in order, for the client's life.
    pub(super) first: u64,
    /// The number of the last one that may write, or 0.
    last_writer: u64,
    parked_bytes: usize,
    /// Empty room for answers that will wait.
    spare: Vec<Vec<u8>>,
    pub(super) held: Held,
    /// Requests under way on the own lane.
    own_in_flight: usize,
    /// RESET went to the own lane: it has lost its user, database and protocol, and is of no use to others.
    own_was_reset: bool,
    /// A part of the first slot's answer has gone out, and the rest comes as it is received.
    flow: Option<Flow>,
    /// The answers to all that came with some request are there since it was last asked.
    gathered: bool,
    /// Where the next request stands in the line of a key that many clients write.
    ticket: Option<Ticket>,
    /// It is the next request's turn to write such a key.
    turn: Option<Turn>,
    /// Values of the next request that were encoded before it begins.
    encoded: Option<Arc<Encoded>>,
    metering: Metering,
}

/// A request that has begun and isn't answered, or whose answer waits for those before.
#[derive(Debug)]
pub(super) struct Slot {
    lane: Lane,
    /// It waits for what other clients may do.
    blocks: bool,
    /// The key that it gives something then.
    gives_to: Option<Box<[u8]>>,
    /// It is the last of those that came together.
    ends_batch: bool,
    /// What its answer tells of the keys that it read.
    lookups: LookupKind,
    metered: Metered,
    /// None once it is answered.
    pub(super) exchange: Option<Exchange>,
    /// What it goes out with in one call, on the same key.
    pub(super) following: Option<Following>,
    /// A replica was asked, whose answer may not be the client's.
    replica_read: Option<Box<ReplicaRead>>,
    /// What several nodes carry out of it, until all have answered.
    parts: Option<Box<Parts>>,
    /// What later requests wait for.
    holds: Holding,
    /// Others wait for it to have written a key.
    turn: Option<Turn>,
    /// What it reads and writes, where somebody is told of that.
    traced: Option<Box<Traced>>,
    /// Values of it that were encoded before it began.
    encoded: Option<Arc<Encoded>>,
    answer: Vec<u8>,
}

impl Slot {
    /// With nothing under way and no answer.
    fn new(plan: &Plan, args: &[&[u8]]) -> Self {
        let (blocks, gives_to) = (plan.patience.blocks(), plan.gives_to(args).map(Box::from));
        Self { blocks, gives_to, ..Self::on(plan.lane, plan.lookup_kind(args.len())) }
    }

    fn on(lane: Lane, lookups: LookupKind) -> Self {
        Self {
            lane,
            blocks: false,
            gives_to: None,
            ends_batch: false,
            lookups,
            metered: Metered::default(),
            exchange: None,
            following: None,
            replica_read: None,
            parts: None,
            holds: Holding::default(),
            turn: None,
            traced: None,
            encoded: None,
            answer: Vec::new(),
        }
    }

    pub(super) fn is_answered(&self) -> bool {
        self.exchange.is_none() && self.parts.is_none()
    }
}

/// How a request began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It needed no server.
    Answered,
    /// Commands were written to the wire.
    Sent {
        /// By which [`Conversation::handle_reply`] knows the request.
        slot: u64,
        /// How many replies will come.
        replies: u32,
    },
    /// Commands were written whose replies come as pushes ([`Conversation::handle_push`]).
    Pushes,
    /// The client is to be closed once what is in `out` is sent.
    Close,
}

/// How a request goes on after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is answered, or waits for the rest of its replies.
    Kept,
    /// It wrote more commands, which will have so many replies.
    More(u32),
    /// The reply can't be trusted, and neither can the connection: it must be given up.
    Unexpected,
}

impl Conversation {
    /// The conversation of a client that has just connected.
    pub fn new(session: Session) -> Self {
        Self {
            session,
            slots: VecDeque::new(),
            kept_replies: 0,
            first: 0,
            last_writer: 0,
            parked_bytes: 0,
            spare: Vec::new(),
            held: Held::default(),
            own_in_flight: 0,
            own_was_reset: false,
            flow: None,
            gathered: false,
            ticket: None,
            turn: None,
            encoded: None,
            metering: Metering::default(),
        }
    }

    /// The same, whose commands are timed by this clock. What was asked is known of those that are slow as far as the driver
    /// says where it lies ([`Self::note_request`]) and when all that came with it has begun ([`Self::end_batch`]).
    #[must_use]
    pub fn timed_by(mut self, time: Arc<Timekeeper>) -> Self {
        self.metering.time_by(time, Arc::clone(self.session.slow()));
        self
    }

    /// The same, whose commands are counted too.
    #[must_use]
    pub fn counted_by(mut self, stats: Arc<CommandStats>) -> Self {
        self.metering.count_in(stats);
        self
    }

    /// The request that is planned next is these bytes of the batch.
    #[inline]
    pub fn note_request(&mut self, bytes: Range<usize>) {
        self.metering.note_request(bytes);
    }

    /// The next request can't begin yet: that it waits counts as part of how long it takes.
    pub fn note_waiting(&mut self) {
        self.metering.note_waiting();
    }

    /// What the client has chosen.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The same, to tell it what others have decided.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Requests that are under way, or whose answers wait for those before.
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// Answers that wait for those before.
    pub fn parked(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_answered()).count()
    }

    /// Whether it waits for what other clients may do.
    pub fn is_blocked(&self) -> bool {
        self.slots.front().is_some_and(|slot| slot.blocks)
    }

    /// The key to which what it waits for goes, where there is one.
    pub fn waits_to_give(&self) -> Option<&[u8]> {
        self.slots.front()?.gives_to.as_deref()
    }

    /// All requests of a batch that may begin by now are begun, and these are their bytes: their answers may go out together.
    pub fn end_batch(&mut self, begun: &[u8]) {
        if let Some(last) = self.slots.back_mut() {
            last.ends_batch = true;
        }
        match self.slots.is_empty() {
            true => self.metering.end_batch(&[], std::iter::empty()),
            false => self.metering.end_batch(begun, self.slots.iter().map(|slot| slot.metered.asked())),
        }
    }

    /// Whether, since this was last asked, the answers to all requests of a batch ([`Self::end_batch`]) have come.
    pub fn take_gathered(&mut self) -> bool {
        std::mem::take(&mut self.gathered)
    }

    /// Bytes of answers that wait for those before.
    pub fn parked_bytes(&self) -> usize {
        self.parked_bytes
    }

    /// Whether the answers to earlier requests must have come before any other is planned.
    pub fn is_held(&self) -> bool {
        self.held.is_all() || self.session.awaits_pushes()
    }

    /// Whether a part of an answer has gone out whose rest is to come.
    pub fn is_flowing(&self) -> bool {
        self.flow.is_some()
    }

    /// Whether none of its requests is under way that the layout has a part in; a command that blocks on its own lane
    /// may go on.
    pub fn is_quiet(&self) -> bool {
        self.slots.iter().all(|slot| match &slot.exchange {
            None => slot.parts.as_ref().is_none_or(|parts| slot.blocks && parts.are_the_servers()),
            Some(exchange) => slot.blocks && exchange.is_the_servers(),
        })
    }

    /// Says what a request needs; none where earlier ones must have been answered first.
    pub fn plan(&mut self, args: &[&[u8]], env: &Env<'_>) -> Option<Plan> {
        self.plan_or_follow(args, env, |_, _| false)
    }

    /// The same for a driver that joins calls ([`Joining`](super::Joining)). `joins` says whether what is written next on this
    /// lane is sure to be sent as one with what the request in this slot has sent: then one on the same key may follow it.
    pub fn plan_or_follow(
        &mut self,
        args: &[&[u8]],
        env: &Env<'_>,
        joins: impl FnOnce(Lane, u64) -> bool,
    ) -> Option<Plan> {
        let mut plan = self.session.plan(args, env);
        plan.take_replica_lane(self.slots.is_empty() || self.session.is_at_replicas());
        let may_begin = match plan.alone {
            true => self.slots.is_empty(),
            false => {
                self.held.lets_pass(&plan, args) && !self.waits_for_readers(&plan, args, env)
                    || self.may_follow(&mut plan, args, env, joins)
            }
        };
        may_begin.then_some(plan)
    }

    /// Whether earlier requests may yet go to the parts of a key that was found there meanwhile. Once they are answered it is gone
    /// to at once: else whoever comes behind had to look first as well, for as long as requests come.
    fn waits_for_readers(&self, plan: &Plan, args: &[&[u8]], env: &Env<'_>) -> bool {
        self.held.is_read(plan, args) && args.get(1).is_some_and(|key| env.stats.in_parts().has(key))
    }

    /// Whether it is the planned request's turn, where many clients write its keys; else `waker` is called once it is worth
    /// asking again. To be asked before the request begins, by drivers that have several clients.
    pub fn take_turn(&mut self, plan: &Plan, args: &[&[u8]], waker: &Waker) -> bool {
        self.turn = None;
        let mut ticket = self.ticket.take();
        if !self.session.turns().are_any() || !plan.may_contend() {
            return true;
        }
        let keys: Vec<KeyHash> = self.session.written_keys(plan, args).into_iter().map(hash_of).collect();
        // Asked for another key first, it would lose its place in the line where it waits: two such clients would hand the turn
        // to each other for ever.
        let waited_for = ticket.as_ref().map(Ticket::key).filter(|key| keys.contains(key));
        for key in waited_for.into_iter().chain(keys) {
            match self.session.turns().ask(key, ticket.take(), waker) {
                Admission::Free => {}
                Admission::Turn(turn) => {
                    self.turn = Some(turn);
                    return true;
                }
                Admission::Wait(ticket) => {
                    self.ticket = Some(ticket);
                    return false;
                }
            }
        }
        true
    }

    /// The next request has to wait for something else than its turn: whoever is behind it in its line need not.
    pub fn leave_line(&mut self) {
        (self.ticket, self.turn) = (None, None);
    }

    /// It is the next request's turn, and it can't begin for all that: others need not wait meanwhile.
    pub fn give_back_turn(&mut self) {
        self.turn = None;
    }

    /// The large values that the planned request writes, where somebody else may encode them before it begins
    /// ([`Ahead::run`], then [`Self::take_encoded`]), so that others don't wait for that here. `layout` is the one in `env`.
    pub fn encodes(&self, plan: &Plan, args: &[&[u8]], env: &Env<'_>, layout: &Arc<Layout>) -> Option<Ahead> {
        Ahead::of(plan.written_values(args), env, layout)
    }

    /// Takes what came of the next request's values. Without it they are encoded when the request begins.
    pub fn take_encoded(&mut self, encoded: Encoded) {
        self.encoded = Some(Arc::new(encoded));
    }

    /// Begins a planned request on the connection of its lane. `raw` is the request as it came, where it came as an
    /// array.
    pub fn begin(
        &mut self,
        plan: &Plan,
        args: &[&[u8]],
        raw: Option<&[u8]>,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Started {
        let traced = self.session.trace(plan, args, env);
        let turn = self.turn.take();
        env.is_read = self.held.is_read(plan, args);
        env.encoded = self.encoded.take();
        let metered = self.metering.begin(plan, args);
        let (begun, fails) = self.answer_in_order(out, |session, answer| {
            let start = answer.len();
            let begun = session.begin(plan, args, raw, env, &mut Io { wire, answer });
            (begun, answer.get(start) == Some(&b'-'))
        });
        if !matches!(begun, Begun::Sent { .. }) {
            self.metering.end_here(metered, plan, args, fails, self.session.entry());
        }
        match begun {
            Begun::Answered => Started::Answered,
            Begun::Close => Started::Close,
            Begun::Pushes => Started::Pushes,
            Begun::Sent { exchange, replies, hold } => {
                let slot = self.number_next(plan);
                let (lane, lookups) = (plan.lane, plan.lookup_kind(args.len()));
                let exchange = Some(exchange);
                let replica_read = replica_read(lane, args, lookups);
                let holds = self.held.hold(hold, plan, args, slot);
                let following = plan.follows.map(|(slot, _)| Following::new(slot));
                let empty = Slot::new(plan, args);
                self.slots.push_back(Slot {
                    metered,
                    exchange,
                    following,
                    replica_read,
                    holds,
                    turn,
                    traced,
                    encoded: env.encoded.take(),
                    ..empty
                });
                self.own_in_flight += usize::from(matches!(lane, Lane::Own { .. }));
                Started::Sent { slot, replies }
            }
        }
    }

    /// Begins a planned request that several nodes carry out, each one of `parts`: by which slot they are known, with what
    /// is to be sent for each. [`Self::handle_part_reply`] takes the replies. Nothing is sent where all is answered.
    pub fn begin_parts(
        &mut self,
        plan: &Plan,
        args: &[&[u8]],
        parts: Vec<PartRequest<'_>>,
        env: &mut Env<'_>,
        out: &mut Vec<u8>,
    ) -> (u64, Vec<SentPart>) {
        let slot = self.number_next(plan);
        let traced = self.session.trace(plan, args, env);
        let metered = self.metering.begin(plan, args);
        let is_silent = self.session.begin_parts(plan, args, env);
        let mut under_way = Box::new(Parts::new(plan.response(), self.session.protocol(), is_silent));
        env.encoded = self.encoded.take();
        let (mut sent, mut hold) = (Vec::new(), Hold::Nothing);
        for (part, request) in parts.into_iter().enumerate() {
            let (mut commands, mut answer) = (Vec::new(), Vec::new());
            let io = &mut Io { wire: &mut commands, answer: &mut answer };
            let exchange =
                match self.session.begin_part(&request.args, request.is_away_from_home, request.slot, env, io) {
                    Begun::Sent { exchange, replies, hold: of_part } => {
                        hold = hold.max(of_part);
                        sent.push(SentPart { part, commands, replies });
                        Some(exchange)
                    }
                    Begun::Answered | Begun::Pushes | Begun::Close => None,
                };
            let replica_read = replica_read(plan.lane, &request.args, plan.lookup_kind(request.args.len()));
            under_way.push(exchange, replica_read, request.keys, answer);
        }
        let holds = self.held.hold(hold, plan, args, slot);
        let (parts, turn, encoded) = (Some(under_way), self.turn.take(), env.encoded.take());
        self.slots.push_back(Slot { metered, parts, holds, turn, traced, encoded, ..Slot::new(plan, args) });
        self.own_in_flight += usize::from(matches!(plan.lane, Lane::Own { .. }));
        self.settle_parts(slot, Some(env.stats), out);
        (slot, sent)
    }

    /// Takes a reply to a part of the request in this slot.
    pub fn handle_part_reply(
        &mut self,
        slot: u64,
        part: usize,
        reply: &[u8],
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Progress {
        self.session.note_reply_bytes(reply.len());
        env.is_followed = self.last_writer > slot;
        let slot_of_it = self.index(slot).map(|index| &mut self.slots[index]);
        let parts = slot_of_it.and_then(|slot| {
            env.encoded.clone_from(&slot.encoded);
            slot.parts.as_mut()
        });
        match parts.and_then(|parts| parts.handle_reply(part, reply, env, wire)) {
            None | Some(Step::Wait) => Progress::Kept,
            Some(Step::More(replies)) => Progress::More(replies),
            Some(Step::Unexpected) => Progress::Unexpected,
            Some(Step::Done(effect)) => {
                self.session.apply(effect);
                if let Some(replies) = self.ask_primary_for_part(slot, part, env, wire) {
                    return Progress::More(replies);
                }
                self.settle_parts(slot, Some(env.stats), out);
                Progress::Kept
            }
        }
    }

    /// The slot of a cluster whose node is to get what the request in this slot wrote last; none where that goes as the
    /// request goes ([`Plan::target`]). To be asked once the request has begun, and after each [`Progress::More`]: see
    /// [`Exchange::goes_to`].
    pub fn goes_to(&self, slot: u64) -> Option<crate::slot::Slot> {
        self.slots[self.index(slot)?].exchange.as_ref()?.goes_to()
    }

    /// Answers a part of the request in this slot with an error: its connection is lost.
    pub fn lose_part(&mut self, slot: u64, part: usize, reason: &str, out: &mut Vec<u8>) {
        let Some(index) = self.index(slot) else { return };
        let Slot { lane, parts, metered, .. } = &mut self.slots[index];
        let session = &mut self.session;
        let write = |exchange: &Exchange, answer: &mut Vec<u8>| session.lose(*lane, exchange, reason, answer);
        if parts.as_mut().is_some_and(|parts| parts.lose(part, write)) {
            metered.lose();
            self.settle_parts(slot, None, out);
        }
    }

    /// Answers the request in this slot, where all its parts are answered. What it found is counted where `stats` are known.
    fn settle_parts(&mut self, slot: u64, stats: Option<&Stats>, out: &mut Vec<u8>) {
        let Some(index) = self.index(slot) else { return };
        let slot = &mut self.slots[index];
        if let Some(parts) = slot.parts.take_if(|parts| parts.are_answered()) {
            let answer = if index == 0 { &mut *out } else { &mut slot.answer };
            let start = answer.len();
            parts.write(answer);
            let written = answer.get(start..).unwrap_or_default();
            let found = self.session.entry().note_answer(slot.lookups, written);
            count_lookups(slot.metered, found, stats);
            self.metering.end(slot.metered, || CommandWay::Parts, written, self.session.entry());
            slot.traced.iter_mut().for_each(|traced| traced.note_answer(written));
            self.complete(index, out);
        }
    }

    /// Answers a planned request that can't begin because the server is away.
    pub fn refuse(&mut self, plan: &Plan, args: &[&[u8]], reason: &str, out: &mut Vec<u8>) {
        (self.turn, self.encoded) = (None, None);
        self.metering.refuse(plan, args, self.session.entry());
        self.answer_in_order(out, |session, answer| session.refuse_planned(plan, reason, answer));
    }

    /// Answers bytes that are no request; the client is to be closed after it.
    pub fn refuse_unread(&mut self, error: &str, out: &mut Vec<u8>) {
        self.metering.refuse_unread();
        self.answer_in_order(out, |session, answer| session.refuse_unread(error, answer));
    }

    /// Runs what may answer at once: straight into `out` where no earlier answer is awaited, else into a slot of its
    /// own.
    fn answer_in_order<R>(&mut self, out: &mut Vec<u8>, run: impl FnOnce(&mut Session, &mut Vec<u8>) -> R) -> R {
        if self.slots.is_empty() {
            return run(&mut self.session, out);
        }
        let mut answer = Vec::new();
        let result = run(&mut self.session, &mut answer);
        if !answer.is_empty() {
            self.parked_bytes += answer.len();
            self.slots.push_back(Slot { answer, ..Slot::on(Lane::Local, LookupKind::None) });
        }
        result
    }

    /// Takes a reply to the request in this slot.
    pub fn handle_reply(
        &mut self,
        slot: u64,
        reply: &[u8],
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Progress {
        let Some(index) = self.index(slot) else { return Progress::Kept };
        if self.keep_reply(index, reply) {
            return Progress::Kept;
        }
        env.is_followed = self.last_writer > slot;
        let slot = &mut self.slots[index];
        let Some(exchange) = &mut slot.exchange else { return Progress::Kept };
        env.encoded.clone_from(&slot.encoded);
        if index > 0 && slot.answer.capacity() == 0 {
            slot.answer = self.spare.pop().unwrap_or_default();
        }
        let answer = if index == 0 { &mut *out } else { &mut slot.answer };
        self.session.note_reply_bytes(reply.len());
        let start = answer.len();
        match exchange.handle_reply(reply, env, &mut Io { wire, answer }) {
            Step::Wait => Progress::Kept,
            Step::More(replies) => {
                if let Some(key) = exchange.contended_key() {
                    match &slot.turn {
                        Some(turn) => turn.begin_again(),
                        None => slot.turn = Some(self.session.turns().join(hash_of(key))),
                    }
                }
                Progress::More(replies)
            }
            Step::Unexpected => Progress::Unexpected,
            Step::Done(_) if slot.replica_read.as_ref().is_some_and(|read| read.doubts(&answer[start..])) => {
                answer.truncate(start);
                self.ask_primary(index, env, wire, out)
            }
            Step::Done(effect) => {
                let written = answer.get(start..).unwrap_or_default();
                let found = self.session.entry().note_answer(slot.lookups, written);
                count_lookups(slot.metered, found, Some(env.stats));
                self.metering.end(slot.metered, || exchange.way(), written, self.session.entry());
                slot.traced.iter_mut().for_each(|traced| traced.note_answer(written));
                if let Some(turn) = &mut slot.turn {
                    turn.note_end(matches!(exchange.way(), CommandWay::Native | CommandWay::Script));
                }
                self.own_was_reset |= matches!(effect, Effect::Reset);
                self.session.apply(effect);
                self.complete(index, out);
                Progress::Kept
            }
        }
    }

    /// Begins the request in this place anew, at the primary: a replica could not be believed.
    fn ask_primary(&mut self, index: usize, env: &mut Env<'_>, wire: &mut Vec<u8>, out: &mut Vec<u8>) -> Progress {
        let slot = &mut self.slots[index];
        let answer = if index == 0 { &mut *out } else { &mut slot.answer };
        let Some(read) = slot.replica_read.take() else { return Progress::Kept };
        match self.session.begin_part(&read.args(), false, None, env, &mut Io { wire, answer }) {
            Begun::Sent { exchange, replies, .. } => {
                slot.exchange = Some(exchange);
                Progress::More(replies)
            }
            // Its user may not send it any more.
            Begun::Answered | Begun::Pushes | Begun::Close => {
                self.metering.end(slot.metered, || CommandWay::PassedOn, b"-", self.session.entry());
                self.complete(index, out);
                Progress::Kept
            }
        }
    }

    /// The same for a part; none where its answer may be believed.
    fn ask_primary_for_part(&mut self, slot: u64, part: usize, env: &mut Env<'_>, wire: &mut Vec<u8>) -> Option<u32> {
        let index = self.index(slot)?;
        let parts = self.slots[index].parts.as_mut()?;
        let read = parts.take_doubtful(part)?;
        let mut answer = Vec::new();
        let io = &mut Io { wire, answer: &mut answer };
        let (exchange, replies) = match self.session.begin_part(&read.args(), false, None, env, io) {
            Begun::Sent { exchange, replies, .. } => (Some(exchange), Some(replies)),
            Begun::Answered | Begun::Pushes | Begun::Close => (None, None),
        };
        parts.begin_again(part, exchange, answer);
        replies
    }

    /// Whether what the request in this slot, or this part of it, writes next goes to the replica that it was sent to.
    pub fn is_at_replica(&self, slot: u64, part: Option<usize>) -> bool {
        let Some(slot) = self.index(slot).map(|index| &self.slots[index]) else { return false };
        match part {
            None => slot.replica_read.is_some(),
            Some(part) => slot.parts.as_ref().is_some_and(|parts| parts.is_at_replica(part)),
        }
    }

    /// The request in this slot, or this part of it, is at the primary from now on, whose answers are believed.
    pub fn leave_replica(&mut self, slot: u64, part: Option<usize>) {
        let Some(index) = self.index(slot) else { return };
        let slot = &mut self.slots[index];
        match part {
            None => slot.replica_read = None,
            Some(part) => slot.parts.iter_mut().for_each(|parts| parts.leave_replica(part)),
        }
    }

    /// Takes a reply on the client's own lane; true when it is a push, which goes to the client unless it concerns
    /// only keyfold.
    pub fn handle_push(&mut self, reply: &[u8], env: &Env<'_>, out: &mut Vec<u8>) -> bool {
        self.session.handle_push(reply, env.layout, out)
    }

    /// Tells the client which keys to forget that it has read, where there are any: at once, and again behind the answers to
    /// requests under way that read them. Not to be called while an answer goes out in pieces.
    pub fn hear_tracking(&mut self, out: &mut Vec<u8>) {
        let Some(Mail { own, redirected }) = self.session.take_mail() else { return };
        let under_way = self.slots.iter_mut().filter_map(|slot| slot.traced.as_deref_mut());
        under_way.for_each(|traced| traced.note_told(&own));
        let own = match self.session.skips_own_writes() {
            true => self.hold_back_own(&own),
            false => own,
        };
        self.session.tell(&own, out);
        self.session.tell_redirected(&redirected, out);
    }

    /// Has what the client is writing itself wait for the answer to that; what is left to tell now.
    fn hold_back_own(&mut self, stale: &Stale) -> Stale {
        let mut rest = if stale.is_all() { Stale::all() } else { Stale::default() };
        for key in stale.keys() {
            let writing = self.slots.iter_mut().rev().filter_map(|slot| slot.traced.as_deref_mut());
            match writing.into_iter().find(|traced| traced.overwrites(key)) {
                Some(traced) => traced.held.add(key),
                None => rest.add(key),
            }
        }
        rest
    }

    /// Has the answer of the request in this slot go out in pieces from now on, while the reply is received that begins so; false
    /// where it may not.
    pub fn begin_flow(&mut self, slot: u64, input: &[u8], stats: &Stats, out: &mut Vec<u8>) -> bool {
        // Messages go out as they come, and would come between the pieces.
        let Some(first) = self.slots.front().filter(|_| slot == self.first && !self.session.is_subscribed()) else {
            return false;
        };
        let start = out.len();
        let Some(flow) = first.exchange.as_ref().and_then(|exchange| exchange.begin_flow(input, out)) else {
            return false;
        };
        if matches!(flow, Flow::Texts(_)) {
            let found = self.session.entry().note_answer(first.lookups, &out[start..]);
            count_lookups(first.metered, found, Some(stats));
        }
        self.flow = Some(flow);
        true
    }

    /// Takes a piece of the first slot's reply; `ends` with the last one.
    pub fn handle_piece(&mut self, piece: &[u8], ends: bool, out: &mut Vec<u8>) {
        match &mut self.flow {
            Some(Flow::Texts(texts)) => texts.append(piece, out),
            _ => out.extend_from_slice(piece),
        }
        if ends {
            self.flow = None;
            self.session.note_reply_bytes(LARGE_BYTES);
            if let Some(slot) = self.slots.front() {
                // What comes in pieces is more than an error.
                let way = || slot.exchange.as_ref().map_or(CommandWay::PassedOn, Exchange::way);
                self.metering.end(slot.metered, way, b"", self.session.entry());
            }
            self.complete(0, out);
        }
    }

    /// Answers the request in this slot with an error: its connection is lost. False where a part of its answer has
    /// gone out already, so that the client must be closed.
    pub fn lose(&mut self, slot: u64, reason: &str, out: &mut Vec<u8>) -> bool {
        self.end_unanswered(slot, Some(reason), out)
    }

    /// The server has dropped the request in this slot, a command that blocked, as it does with whoever says no more: there is no
    /// answer.
    pub fn drop_blocked(&mut self, slot: u64, out: &mut Vec<u8>) {
        self.end_unanswered(slot, None, out);
    }

    fn end_unanswered(&mut self, slot: u64, reason: Option<&str>, out: &mut Vec<u8>) -> bool {
        let is_whole = self.lose_one(slot, reason, out);
        // Those that waited for it with their replies are awaited by nobody else.
        while let Some((follower, _)) = self.next_kept() {
            self.lose_one(follower, reason, out);
        }
        is_whole
    }

    fn lose_one(&mut self, slot: u64, reason: Option<&str>, out: &mut Vec<u8>) -> bool {
        let is_whole = self.flow.take().is_none();
        let Some(index) = self.index(slot) else { return is_whole };
        let slot = &mut self.slots[index];
        let Some(exchange) = slot.exchange.take() else { return is_whole };
        let answer = if index == 0 { &mut *out } else { &mut slot.answer };
        if let Some(reason) = reason {
            self.session.lose(slot.lane, &exchange, reason, answer);
            slot.metered.lose();
        }
        self.metering.end(slot.metered, || exchange.way(), b"", self.session.entry());
        self.complete(index, out);
        is_whole
    }

    /// The number of the slot of the request that begins.
    fn number_next(&mut self, plan: &Plan) -> u64 {
        let slot = self.first + self.slots.len() as u64;
        if plan.may_write() {
            self.last_writer = slot;
        }
        slot
    }

    pub(super) fn index(&self, slot: u64) -> Option<usize> {
        let index = usize::try_from(slot.checked_sub(self.first)?).ok()?;
        (index < self.slots.len()).then_some(index)
    }

    /// Marks a slot as answered; sends what is complete at the front.
    fn complete(&mut self, index: usize, out: &mut Vec<u8>) {
        let number = self.first + index as u64;
        let slot = &mut self.slots[index];
        slot.exchange = None;
        slot.turn = None;
        self.held.release(std::mem::take(&mut slot.holds), number);
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
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.is_answered()) {
            self.first += 1;
            self.gathered |= slot.ends_batch;
            self.parked_bytes = self.parked_bytes.saturating_sub(slot.answer.len());
            out.extend_from_slice(&slot.answer);
            self.keep_room(slot.answer);
            if let Some(traced) = slot.traced {
                let under_way = &self.slots;
                let is_read = |key: &Key| under_way.iter().any(|slot| slot.traced.iter().any(|other| other.reads(key)));
                self.session.settle(*traced, is_read, out);
            }
        }
        if self.slots.is_empty() {
            self.held.release_all();
            self.metering.rest();
        }
    }

    /// Keeps an answer's room for another one.
    fn keep_room(&mut self, mut room: Vec<u8>) {
        if (1..=SPARE_BYTES).contains(&room.capacity()) && self.spare.len() < SPARE_ANSWERS {
            room.clear();
            self.spare.push(room);
        }
    }

    /// Whether the client needs its own connection no longer: no request is under way there, and it holds nothing.
    pub fn may_release_own_lane(&self) -> bool {
        self.own_in_flight == 0 && self.session.own_lane_is_clean() && !self.session.awaits_pushes()
    }

    /// Whether RESET has made the own connection useless to others.
    pub fn own_was_reset(&self) -> bool {
        self.own_was_reset
    }

    /// The own connection goes; whether another client may have it.
    pub fn release_own_lane(&mut self) -> bool {
        !std::mem::take(&mut self.own_was_reset)
    }

    /// Drops answers that wait: the client is gone. Its requests are carried through all the same.
    pub fn drop_answers(&mut self) {
        self.leave_line();
        self.parked_bytes = 0;
        self.slots.iter_mut().for_each(|slot| slot.answer = Vec::new());
    }

    /// Gives back room beyond so many requests.
    pub fn shrink_to(&mut self, slots: usize) {
        self.spare = Vec::new();
        self.slots.shrink_to(slots);
        self.metering.shrink();
    }
}

/// Counts what a read found of the keys of one namespace.
fn count_lookups(metered: Metered, found: Lookups, stats: Option<&Stats>) {
    if let (Some(namespace), Some(stats)) = (metered.namespace, stats) {
        stats.namespace(namespace).count_lookups(found.hits, found.misses);
    }
}

fn replica_read(lane: Lane, args: &[&[u8]], lookups: LookupKind) -> Option<Box<ReplicaRead>> {
    matches!(lane, Lane::Replica { .. }).then(|| Box::new(ReplicaRead::new(args, lookups)))
}
