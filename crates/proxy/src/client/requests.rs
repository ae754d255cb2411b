//! Begins a client's requests.

use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use keyfold_core::cluster::Node;
use keyfold_core::drive::Started;
use keyfold_core::exchange::{AHEAD_BYTES, Ahead, Encoded, Env};
use keyfold_core::resp::{Args, Read, RequestLimits, RequestReader};
use keyfold_core::session::{Lane, Patience, Plan};

use tokio::sync::oneshot;

use super::crowd::{Crowd, Stay};
use super::{Client, State};
use crate::encoders::Asked;
use crate::upstream::{Status, Upstream};
use crate::worker::Worker;

/// Reads a client's requests and begins them, one after the other.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) client: Rc<Client>,
    pub(super) worker: Rc<Worker>,
    reader: RequestReader,
    /// The shared connection used last, and most likely next.
    shared: Option<(Lane, Rc<Upstream>)>,
    /// How far the large values of the next request are.
    encoding: Encoding,
    /// How long the next request waits for room in a cache.
    waits_for_room: Stay,
    /// The client was authenticated when it was last looked at, and may send what the limits allow.
    trusted: bool,
    /// What the server took for the longest argument when it was last looked at.
    max_bulk_bytes: usize,
    /// A whole request waits until it may begin.
    pub(super) blocked: bool,
    /// No request is read any more: one broke the protocol, or asked to close.
    pub(super) over: bool,
}

/// A request, and what it needs.
pub(super) struct Request<'r, 'a> {
    pub(super) plan: Plan,
    pub(super) args: &'r [&'a [u8]],
    /// As it came, where that was an array.
    pub(super) raw: Option<&'r [u8]>,
}

/// How far large values are that another thread encodes before their request begins.
#[derive(Debug)]
enum Encoding {
    NotAsked,
    /// Too much is being encoded already.
    Waiting(Ahead),
    UnderWay(oneshot::Receiver<Encoded>),
    /// What isn't encoded by now is when the request begins: there is nothing large, no such thread, or it has died over this.
    Over,
}

/// What became of one request.
pub(super) enum Start {
    Begun,
    /// Not yet; the client is woken when it is worth another try.
    Wait,
    Close,
}

impl Requests {
    pub(super) fn new(client: Rc<Client>, worker: Rc<Worker>) -> Self {
        let reader = RequestReader::new(RequestLimits::UNAUTHENTICATED);
        Self {
            client,
            worker,
            reader,
            shared: None,
            encoding: Encoding::NotAsked,
            waits_for_room: Stay::default(),
            trusted: false,
            max_bulk_bytes: usize::MAX,
            blocked: false,
            over: false,
        }
    }

    /// Begins what is whole in `input` and may begin; how many bytes that took.
    pub(super) fn begin_all(&mut self, input: &[u8]) -> usize {
        let worker = Rc::clone(&self.worker);
        worker.with_env(|env| {
            let mut start = 0;
            self.blocked = false;
            while !self.over && start < input.len() {
                let rest = &input[start..];
                self.trust();
                match self.reader.read(rest) {
                    Ok(Read::Incomplete) => break,
                    Ok(Read::Nothing(len)) => start += len,
                    Ok(Read::Request(len)) => match self.begin(&rest[..len], start, env) {
                        Start::Begun => start += len,
                        Start::Close => self.over = true,
                        Start::Wait => {
                            self.blocked = true;
                            self.client.state.borrow_mut().conversation.note_waiting();
                            break;
                        }
                    },
                    Err(error) => self.refuse(&format!("ERR {error}")),
                }
            }
            self.client.state.borrow_mut().conversation.end_batch(&input[..start]);
            if self.over { input.len() } else { start }
        })
    }

    /// Sets the limits by whether the client has authenticated, and by what the server takes.
    fn trust(&mut self) {
        let trusted = self.client.state.borrow().conversation.session().is_authenticated();
        let max_bulk_bytes = self.worker.max_bulk_bytes.get();
        if (trusted, max_bulk_bytes) == (self.trusted, self.max_bulk_bytes) {
            return;
        }
        (self.trusted, self.max_bulk_bytes) = (trusted, max_bulk_bytes);
        let mut limits = if trusted { self.worker.config.limits.request } else { RequestLimits::UNAUTHENTICATED };
        limits.max_bulk_bytes = limits.max_bulk_bytes.min(max_bulk_bytes);
        self.reader.set_limits(limits);
    }

    /// Answers with an error behind all other answers, and reads no more.
    fn refuse(&mut self, error: &str) {
        self.over = true;
        let mut state = self.client.state.borrow_mut();
        let State { conversation, outbox, .. } = &mut *state;
        conversation.refuse_unread(error, outbox.buffer());
    }

    /// Begins the request that the reader has just found at `at` of the input. It counts once, however often it has to wait
    /// before.
    fn begin(&mut self, request: &[u8], at: usize, env: &mut Env<'_>) -> Start {
        let start = self.try_to_begin(request, at, env);
        if matches!(start, Start::Wait) {
            // It may be a connection that it waits for by now, which may take its time to open.
            self.client.state.borrow_mut().conversation.give_back_turn();
        } else {
            self.encoding = Encoding::NotAsked;
            self.waits_for_room.end();
            self.worker.stats.count_request();
        }
        start
    }

    fn try_to_begin(&mut self, request: &[u8], at: usize, env: &mut Env<'_>) -> Start {
        let args = self.reader.args(request);
        let raw = (!self.reader.is_inline()).then_some(request);
        let client = Rc::clone(&self.client);
        let mut state = client.state.borrow_mut();
        let Some(plan) = self.plan_next(&mut state, at..at + request.len(), &args, env) else {
            // Whoever takes none of its answers, say, must not hold up others that write the same key.
            state.conversation.leave_line();
            return Start::Wait;
        };
        if request.len() > AHEAD_BYTES
            && let Some(task) = client.task.get()
            && !are_values_encoded(&mut self.encoding, &mut state, &plan, &args, env, &self.worker, task)
        {
            return Start::Wait;
        }
        if !client.task.get().is_none_or(|task| state.conversation.take_turn(&plan, &args, task)) {
            return Start::Wait;
        }
        if plan.lane != Lane::Local
            && let Some(cluster) = self.worker.cluster.get().map(Rc::clone)
        {
            return self.begin_in_cluster(&mut state, &mut Request { plan, args: &args, raw }, env, &cluster);
        }
        let upstream = match plan.lane {
            Lane::Local => return begin_here(&mut state, &plan, &args, raw, env),
            // There are replicas to read from before a cluster alone.
            Lane::Shared { .. } | Lane::Replica { .. } => {
                shared_lane(&mut self.shared, plan.lane.at_primary(), &self.worker)
            }
            Lane::Own { .. } => own_lane(&mut state, None, plan.lane, &self.client, &self.worker),
        };
        match upstream.poll_ready(&self.client, self.worker.config.limits.server_high_water_bytes) {
            Status::Ready if !self.worker.membership.is_serving() => self.wait_for_layout(&mut state, plan, &args),
            Status::Ready => {
                upstream.follow(plan.lane, self.worker.config.timeouts.silence(Patience::Prompt));
                let patience = self.worker.config.timeouts.silence(plan.patience);
                let at = At { upstream: &upstream, client: &self.client, patience };
                begin_there(&mut state, &plan, &args, raw, env, &at)
            }
            Status::Away(reason) => refuse(&mut state, &plan, &args, &reason),
            Status::Connecting => Start::Wait,
            Status::Closed => {
                // The next try opens another.
                self.shared = None;
                state.own = state.own.take().filter(|own| !Rc::ptr_eq(own, &upstream));
                self.client.wake();
                Start::Wait
            }
        }
    }
}

impl Requests {
    /// How the next request is to be carried out; none where it has to wait for what is none of its own.
    fn plan_next(&self, state: &mut State, at: Range<usize>, args: &Args<'_>, env: &mut Env<'_>) -> Option<Plan> {
        if !may_begin(state, &self.worker) {
            return None;
        }
        state.conversation.note_request(at);
        let joins = |lane, slot| joins(self.shared.as_ref(), lane, &self.client, slot, args);
        let plan = state.conversation.plan_or_follow(args, env, joins)?;
        if state.conversation.session().is_paused(&plan, env) {
            self.worker.await_unpause();
            return None;
        }
        if state.conversation.session().awaits_room(&plan, args, env)
            && Crowd::holds(&self.client, &self.waits_for_room, &self.worker)
        {
            return None;
        }
        (!state.conversation.session().awaits_tracking(&plan, args)).then_some(plan)
    }

    /// Nothing may begin until the layout may be served. All clients are woken then.
    fn wait_for_layout(&self, state: &mut State, mut plan: Plan, args: &[&[u8]]) -> Start {
        match self.worker.membership.trouble() {
            Some(trouble) => refuse_for_now(state, &mut plan, args, &trouble),
            None => Start::Wait,
        }
    }
}

/// Has large values of the next request encoded by another thread; whether that is over.
fn are_values_encoded(
    encoding: &mut Encoding,
    state: &mut State,
    plan: &Plan,
    args: &[&[u8]],
    env: &Env<'_>,
    worker: &Worker,
    task: &Waker,
) -> bool {
    let values = match std::mem::replace(encoding, Encoding::Over) {
        Encoding::NotAsked if worker.encoders.are_there() => {
            let folding = worker.folding.borrow();
            state.conversation.encodes(plan, args, env, &folding.layout)
        }
        Encoding::Waiting(values) => Some(values),
        known => {
            *encoding = known;
            None
        }
    };
    match values.map(|values| worker.encoders.ask(values, task)) {
        Some(Asked::Begun(begun)) => *encoding = Encoding::UnderWay(begun),
        Some(Asked::Wait(values)) => {
            *encoding = Encoding::Waiting(values);
            return false;
        }
        Some(Asked::Nobody) | None => {}
    }
    let Encoding::UnderWay(under_way) = encoding else { return true };
    let Poll::Ready(encoded) = Pin::new(under_way).poll(&mut Context::from_waker(task)) else { return false };
    *encoding = Encoding::Over;
    encoded.into_iter().for_each(|encoded| state.conversation.take_encoded(encoded));
    true
}

/// Whether what a request on one key writes next on this lane is sure to be joined to what another one has written.
fn joins(shared: Option<&(Lane, Rc<Upstream>)>, lane: Lane, client: &Rc<Client>, slot: u64, args: &Args<'_>) -> bool {
    let Some((_, upstream)) = shared.filter(|(known, _)| *known == lane) else { return false };
    // The key is in it at most once as it is and once as bucket and field, and each word may have another one before it; the rest is what
    // all calls begin with.
    let bytes = args.iter().map(|arg| 2 * arg.len() + 32).sum::<usize>() + 512;
    upstream.queue().would_join(client, slot, bytes)
}

/// The shared connection of a lane, which is most often the one used last.
fn shared_lane(last: &mut Option<(Lane, Rc<Upstream>)>, lane: Lane, worker: &Rc<Worker>) -> Rc<Upstream> {
    match last {
        Some((known, upstream)) if *known == lane => Rc::clone(upstream),
        _ => {
            let upstream = worker.lanes.shared(None, lane, worker);
            *last = Some((lane, Rc::clone(&upstream)));
            upstream
        }
    }
}

/// Whether any request may begin: none before holds it back, and the client takes its answers.
fn may_begin(state: &State, worker: &Worker) -> bool {
    let limits = &worker.config.limits;
    !state.conversation.is_held()
        && !worker.paused.get()
        && state.conversation.in_flight() < limits.max_in_flight
        && state.queued_bytes() <= limits.answer_high_water_bytes
}

/// The client's own connection: the one it has, where that is as it needs it.
pub(super) fn own_lane(
    state: &mut State,
    node: Option<Node>,
    lane: Lane,
    client: &Rc<Client>,
    worker: &Rc<Worker>,
) -> Rc<Upstream> {
    if state.conversation.own_was_reset() || state.own.as_ref().is_some_and(|own| !own.serves(node, lane)) {
        state.give_back_own(worker);
    }
    let own = state.own.get_or_insert_with(|| worker.lanes.own(node, lane, client, worker));
    Rc::clone(own)
}

/// Runs a request that needs no server.
fn begin_here(state: &mut State, plan: &Plan, args: &Args<'_>, raw: Option<&[u8]>, env: &mut Env<'_>) -> Start {
    let mut unused = Vec::new();
    let started = state.conversation.begin(plan, args, raw, env, &mut unused, state.outbox.buffer());
    debug_assert!(unused.is_empty(), "a local request has no wire");
    if started == Started::Close { Start::Close } else { Start::Begun }
}

/// Where a request goes, and for whom.
struct At<'a> {
    upstream: &'a Upstream,
    client: &'a Rc<Client>,
    /// How long the server may be silent over it.
    patience: Option<Duration>,
}

/// Runs a request that the server has a part in.
fn begin_there(
    state: &mut State,
    plan: &Plan,
    args: &Args<'_>,
    raw: Option<&[u8]>,
    env: &mut Env<'_>,
    at: &At<'_>,
) -> Start {
    let mut queue = at.upstream.queue();
    let start = queue.outbox.appended();
    let started = state.conversation.begin(plan, args, raw, env, queue.outbox.buffer(), state.outbox.buffer());
    match started {
        Started::Answered => return Start::Begun,
        Started::Close => return Start::Close,
        Started::Pushes => queue.expect_pushes(),
        Started::Sent { slot, replies } => {
            let is_joined = queue.expect(at.client, slot, replies, at.patience, start, !plan.patience.blocks());
            debug_assert!(is_joined || !plan.follows_another(), "what was to be sent with another was sent alone");
            if matches!(plan.lane, Lane::Own { .. }) {
                state.conversation.session().entry().note_waits_on(at.upstream.waits_on(None));
            }
        }
    }
    drop(queue);
    at.upstream.wake();
    Start::Begun
}

/// Answers a request that can't begin because the server is away.
pub(super) fn refuse(state: &mut State, plan: &Plan, args: &[&[u8]], reason: &str) -> Start {
    state.conversation.refuse(plan, args, reason, state.outbox.buffer());
    if matches!(plan.lane, Lane::Own { .. }) {
        state.end_own();
    }
    Start::Begun
}

/// Refuses a request where the server is well: what the client's own connection holds stays there, but a WATCH that the
/// request ends.
pub(super) fn refuse_for_now(state: &mut State, plan: &mut Plan, args: &[&[u8]], reason: &str) -> Start {
    if !plan.ends_watch() || state.conversation.session().is_subscribed() {
        plan.take_shared_lane();
    }
    refuse(state, plan, args, reason)
}
