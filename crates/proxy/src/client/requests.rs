//! Begins a client's requests.

use std::rc::Rc;

use keyfold_core::exchange::{Env, Io};
use keyfold_core::resp::{Answer, Args, Read, RequestLimits, RequestReader};
use keyfold_core::session::{Begun, Lane, Plan};

use super::{Client, Slot, State};
use crate::upstream::{Status, Upstream};
use crate::worker::Worker;

/// Reads a client's requests and begins them, one after the other.
#[derive(Debug)]
pub(super) struct Requests {
    client: Rc<Client>,
    worker: Rc<Worker>,
    reader: RequestReader,
    /// The shared connection used last, and most likely next.
    shared: Option<(Lane, Rc<Upstream>)>,
    /// The client was authenticated when it was last looked at, and may send what the limits allow.
    trusted: bool,
    /// A whole request waits until it may begin.
    pub(super) blocked: bool,
    /// No request is read any more: one broke the protocol, or asked to close.
    pub(super) over: bool,
}

/// What became of one request.
enum Start {
    Begun,
    /// Not yet; the client is woken when it is worth another try.
    Wait,
    Close,
}

impl Requests {
    pub(super) fn new(client: Rc<Client>, worker: Rc<Worker>) -> Self {
        let reader = RequestReader::new(RequestLimits::UNAUTHENTICATED);
        Self { client, worker, reader, shared: None, trusted: false, blocked: false, over: false }
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
                    Ok(Read::Request(len)) => match self.begin(&rest[..len], env) {
                        Start::Begun => start += len,
                        Start::Close => self.over = true,
                        Start::Wait => {
                            self.blocked = true;
                            break;
                        }
                    },
                    Err(error) => self.refuse(&format!("ERR {error}")),
                }
            }
            if self.over { input.len() } else { start }
        })
    }

    /// Sets the limits by whether the client has authenticated.
    fn trust(&mut self) {
        let trusted = self.client.state.borrow().session.is_authenticated();
        if trusted != self.trusted {
            self.trusted = trusted;
            let limits = &self.worker.config.limits;
            self.reader.set_limits(if trusted { limits.request } else { RequestLimits::UNAUTHENTICATED });
        }
    }

    /// Answers with an error behind all other answers, and reads no more.
    fn refuse(&mut self, error: &str) {
        self.over = true;
        let mut state = self.client.state.borrow_mut();
        let mut answer = Vec::new();
        Answer::new(&mut answer, state.session.protocol()).error(error);
        if state.slots.is_empty() {
            state.outbox.buffer().extend_from_slice(&answer);
        } else {
            state.park(answer);
        }
    }

    /// Begins the request that the reader has just found.
    fn begin(&mut self, request: &[u8], env: &mut Env<'_>) -> Start {
        let args = self.reader.args(request);
        let raw = (!self.reader.is_inline()).then_some(request);
        let client = Rc::clone(&self.client);
        let mut state = client.state.borrow_mut();
        if !may_begin(&state, &self.worker) {
            return Start::Wait;
        }
        let plan = state.session.plan(&args, env);
        if plan.alone && !state.slots.is_empty() {
            return Start::Wait;
        }
        self.worker.stats.count_request();
        let upstream = match plan.lane {
            Lane::Local => return begin_here(&mut state, &plan, &args, raw, env),
            Lane::Shared { .. } => shared_lane(&mut self.shared, plan.lane, &self.worker),
            Lane::Own { .. } => own_lane(&mut state, plan.lane, &self.client, &self.worker),
        };
        match upstream.poll_ready(&self.client, self.worker.config.limits.server_high_water_bytes) {
            Status::Ready if !self.worker.membership.is_leased() => self.wait_for_lease(&mut state, plan.lane),
            Status::Ready => {
                upstream.follow(plan.lane);
                begin_there(&mut state, &plan, &args, raw, env, &upstream, &self.client)
            }
            Status::Away(reason) => begin_lost(&mut state, plan.lane, &reason),
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
    /// Nothing may begin without a lease. All clients are woken when there is one.
    fn wait_for_lease(&self, state: &mut State, lane: Lane) -> Start {
        match self.worker.membership.trouble() {
            Some(trouble) => begin_lost(state, lane, &trouble),
            None => Start::Wait,
        }
    }
}

/// The shared connection of a lane, which is most often the one used last.
fn shared_lane(last: &mut Option<(Lane, Rc<Upstream>)>, lane: Lane, worker: &Rc<Worker>) -> Rc<Upstream> {
    match last {
        Some((known, upstream)) if *known == lane => Rc::clone(upstream),
        _ => {
            let upstream = worker.lanes.shared(lane, worker);
            *last = Some((lane, Rc::clone(&upstream)));
            upstream
        }
    }
}

/// Whether any request may begin: none before holds it back, and the client takes its answers.
fn may_begin(state: &State, worker: &Worker) -> bool {
    let limits = &worker.config.limits;
    !state.held
        && !worker.paused.get()
        && state.slots.len() < limits.max_in_flight
        && state.queued_bytes() <= limits.answer_high_water_bytes
        && !state.session.awaits_pushes()
}

fn own_lane(state: &mut State, lane: Lane, client: &Rc<Client>, worker: &Rc<Worker>) -> Rc<Upstream> {
    let own = state.own.get_or_insert_with(|| worker.lanes.own(lane, client, worker));
    Rc::clone(own)
}

/// Runs a request that needs no server.
fn begin_here(state: &mut State, plan: &Plan, args: &Args<'_>, raw: Option<&[u8]>, env: &mut Env<'_>) -> Start {
    let mut unused = Vec::new();
    let begun = answer_in_order(state, |state, answer| {
        state.session.begin(plan, args, raw, env, &mut Io { wire: &mut unused, answer })
    });
    debug_assert!(unused.is_empty(), "a local request has no wire");
    match begun {
        Begun::Close => Start::Close,
        Begun::Answered | Begun::Sent { .. } | Begun::Pushes => Start::Begun,
    }
}

/// Runs a request that the server has a part in.
fn begin_there(
    state: &mut State,
    plan: &Plan,
    args: &Args<'_>,
    raw: Option<&[u8]>,
    env: &mut Env<'_>,
    upstream: &Upstream,
    client: &Rc<Client>,
) -> Start {
    let mut queue = upstream.queue();
    let begun = answer_in_order(state, |state, answer| {
        let wire = queue.outbox.buffer();
        state.session.begin(plan, args, raw, env, &mut Io { wire, answer })
    });
    match begun {
        Begun::Answered => return Start::Begun,
        Begun::Close => return Start::Close,
        Begun::Pushes => {}
        Begun::Sent { exchange, replies, hold } => {
            queue.expect(client, state.first + state.slots.len() as u64, replies);
            state.slots.push_back(Slot { lane: plan.lane, exchange: Some(exchange), answer: Vec::new() });
            state.held = hold;
            state.own_in_flight += usize::from(matches!(plan.lane, Lane::Own { .. }));
        }
    }
    drop(queue);
    upstream.wake();
    Start::Begun
}

/// Answers a request that can't begin because the server is away.
fn begin_lost(state: &mut State, lane: Lane, reason: &str) -> Start {
    answer_in_order(state, |state, answer| state.session.server_lost(lane, reason, answer));
    if matches!(lane, Lane::Own { .. }) {
        state.own = None;
    }
    Start::Begun
}

/// Runs what may answer at once: straight into the outbox where no earlier answer is awaited, else into a
/// slot of its own.
fn answer_in_order<R>(state: &mut State, run: impl FnOnce(&mut State, &mut Vec<u8>) -> R) -> R {
    if state.slots.is_empty() {
        // Taken, because the session is borrowed from the same state.
        let mut answer = std::mem::take(state.outbox.buffer());
        let result = run(state, &mut answer);
        *state.outbox.buffer() = answer;
        return result;
    }
    let mut answer = Vec::new();
    let result = run(state, &mut answer);
    if !answer.is_empty() {
        state.park(answer);
    }
    result
}
