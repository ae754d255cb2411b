//! Connections to the server.
//!
//! Clients append commands to a connection's outbox and themselves to its queue; its task, woken once, runs
//! after all clients that were ready and writes what they left in one go. Replies go to the front of the
//! queue in the order in which they come.
//!
//! What holds: an entry joins the queue in the same step in which its commands join the outbox; both die
//! with the connection. So no reply ever meets another request than its own.

mod after;
mod alone;
mod changes;
mod clearance;
mod cluster;
mod errand;
mod gate;
mod lanes;
mod link;
mod lookout;
mod map;
mod names;
mod queue;
mod replicas;
mod scout;
mod silence;
mod step;
mod timing;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use std::{future, pin};

use keyfold_core::clients::WaitsOn;
use keyfold_core::cluster::{Endpoint, Node};
use keyfold_core::session::{Lane, Patience};
use tokio::io::AsyncWrite;

use crate::backoff::Backoff;
use crate::client::Client;
use crate::config::Timeouts;
use crate::inbox::{self, Inbox};
use crate::socket::Socket;
use crate::worker::Worker;

use after::Afterwards;
pub(crate) use alone::{KeptLinks, Whom, ask_alone};
pub(crate) use changes::hear_changes;
pub(crate) use cluster::{Cluster, LEFT_BEHIND};
pub use errand::Errand;
pub(crate) use lanes::Lanes;
pub(crate) use link::Link;
pub use link::LinkError;
pub(crate) use map::keep;
pub(crate) use names::Names;
use queue::Asker;
pub(crate) use queue::{Queue, Status};
pub(crate) use scout::look_out;
use silence::Verdict;
pub(crate) use step::{NodeStep, Whose};
use timing::Timing;

/// After so many full reads in a row others get their turn.
const READS_PER_TURN: usize = 4;

/// Own connections beyond those that are kept are closed after so long without a client.
const UNUSED_AFTER: Duration = Duration::from_secs(10);

/// So soon a server is asked again that is busy, or loads its data.
const SOON: Duration = Duration::from_millis(20);

/// How a replica answers a write.
const READONLY: &[u8] = b"-READONLY";

/// A connection that lived shorter than this is not tried again at once: something drops it on purpose.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// A connection to the server, as clients see it.
#[derive(Debug)]
pub(crate) struct Upstream {
    lane: Cell<Lane>,
    /// Which node of a cluster it goes to.
    node: Option<Node>,
    queue: RefCell<Queue>,
    task: OnceCell<Waker>,
    /// The task has been woken and hasn't run yet.
    woken: Cell<bool>,
    /// The server's number for the connection that it has now.
    number: Cell<Option<i64>>,
    /// Where that goes, where it is Sentinels who say where.
    at: RefCell<Option<Endpoint>>,
}

impl Upstream {
    fn new(node: Option<Node>, lane: Lane, owner: Option<Rc<Client>>) -> Self {
        Self {
            lane: Cell::new(lane),
            node,
            queue: RefCell::new(Queue::new(owner)),
            task: OnceCell::new(),
            woken: Cell::new(false),
            number: Cell::new(None),
            at: RefCell::new(None),
        }
    }

    /// Whether a request may begin here now; where it has to wait, the client is woken when it may go on.
    pub(crate) fn poll_ready(&self, client: &Rc<Client>, high_water_bytes: usize) -> Status {
        let mut queue = self.queue.borrow_mut();
        let full = queue.outbox.unsent() > high_water_bytes;
        match queue.status {
            Status::Ready if !full => return Status::Ready,
            Status::Away(_) => queue.wanted = true,
            Status::Ready | Status::Connecting => {
                queue.wait(client);
                return Status::Connecting;
            }
            Status::Closed => {}
        }
        queue.status.clone()
    }

    /// Whether a step more may be written; where not, the client is woken when it may.
    pub(crate) fn poll_room(&self, client: &Rc<Client>, high_water_bytes: usize) -> bool {
        let mut queue = self.queue.borrow_mut();
        let is_full = matches!(queue.status, Status::Ready) && queue.outbox.unsent() > high_water_bytes;
        if is_full {
            queue.wait(client);
        }
        !is_full
    }

    /// The connection that it has now, to this node of a cluster; none of a server that doesn't tell its number.
    pub(crate) fn waits_on(&self, node: Option<Endpoint>) -> Option<WaitsOn> {
        self.number.get().map(|number| WaitsOn { number, node })
    }

    /// The wire to append commands to; [`Queue::expect`] their replies and [`wake`](Self::wake) afterwards.
    pub(crate) fn queue(&self) -> std::cell::RefMut<'_, Queue> {
        self.queue.borrow_mut()
    }

    /// Has the task run, after all clients that are ready now.
    pub(crate) fn wake(&self) {
        if !self.woken.replace(true)
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }

    /// Which node of a cluster it goes to.
    pub(crate) fn node(&self) -> Option<Node> {
        self.node
    }

    /// Whether a client waits for an answer of it.
    pub(crate) fn is_awaited(&self) -> bool {
        let queue = self.queue.borrow();
        !queue.parked.is_empty() || queue.pipe.latest().any(|asked| !asked.asker.is_own())
    }

    /// Whether it is a client's own, goes to this node, and speaks the protocol of `lane`, in whatever database.
    pub(crate) fn serves(&self, node: Option<Node>, lane: Lane) -> bool {
        self.node == node
            && matches!((self.lane.get(), lane), (Lane::Own { protocol, .. }, Lane::Own { protocol: needed, .. }) if protocol == needed)
    }

    /// Brings an own connection to the database of `lane`: its client has changed it while there was state
    /// on the connection, and another can't take its place.
    pub(crate) fn follow(&self, lane: Lane, patience: Option<Duration>) {
        let Lane::Own { database, .. } = lane else { return };
        if self.lane.replace(lane) != lane {
            self.queue.borrow_mut().select(database, patience);
        }
    }

    /// Reads on, where it waited for its client to take what there was.
    pub(crate) fn go_on(&self) {
        if self.queue.borrow().waits_for_owner {
            self.wake();
        }
    }

    /// Takes a step, to send it now or once it is connected.
    ///
    /// # Errors
    /// The step, where its node is away: why.
    pub(crate) fn take(&self, step: NodeStep) -> Result<(), (NodeStep, Rc<str>)> {
        let mut queue = self.queue.borrow_mut();
        match &queue.status {
            Status::Ready => queue.send(step),
            Status::Connecting => {
                queue.parked.push(step);
                return Ok(());
            }
            Status::Away(reason) => {
                let reason = reason.clone();
                queue.wanted = true;
                return Err((step, reason));
            }
            Status::Closed => return Err((step, "the connection to its node was closed".into())),
        }
        drop(queue);
        self.wake();
        Ok(())
    }

    /// Whether requests may begin.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.queue.borrow().status, Status::Ready)
    }

    /// Whether nobody has used it for a while.
    fn is_unused(&self, now: Instant) -> bool {
        self.queue.borrow().silence.lasts(now) > UNUSED_AFTER
    }

    /// Ends the connection at once. The server sees a client that says no more: it carries out what it was sent, but drops a command
    /// that blocks, and what it still has of its answers.
    pub(crate) fn finish(&self) {
        self.queue.borrow_mut().finishing = true;
        self.wake();
    }

    /// The same once all that was asked has been answered: its client has parted from it already.
    pub(crate) fn retire(&self) {
        let mut queue = self.queue.borrow_mut();
        queue.owner = None;
        queue.retiring = true;
        drop(queue);
        self.wake();
    }

    /// Gives back what an idle connection need not hold, asks one that was silent for long whether it is still
    /// there, and gives up one that owes an answer for longer than it may. Called some times a second.
    pub(crate) fn check(&self, now: Instant, timeouts: &Timeouts) {
        let mut queue = self.queue.borrow_mut();
        if !matches!(queue.status, Status::Ready) {
            return;
        }
        let patience = if queue.waits_for_owner {
            None
        } else if queue.finishing {
            timeouts.silence(Patience::Slow)
        } else if let Some(front) = queue.pipe.front() {
            front.patience
        } else if queue.owner.as_ref().is_some_and(|owner| owner.awaits_pushes()) {
            timeouts.silence(Patience::Prompt)
        } else {
            queue.rest(now, timeouts.silence(Patience::Prompt));
            None
        };
        match queue.silence.judge(now, patience) {
            Verdict::Fine => return,
            // What has come may not have been read yet, where this process was held up itself.
            Verdict::Suspect => {}
            Verdict::Over => queue.status = Status::Closed,
        }
        drop(queue);
        self.wake();
    }

    /// Gives up the connection where its server is not the primary any more.
    fn leave(&self, worker: &Worker) {
        let mut queue = self.queue.borrow_mut();
        if matches!(queue.status, Status::Ready) && worker.check_place(self.at.borrow().as_ref()).is_err() {
            queue.status = Status::Closed;
            drop(queue);
            self.wake();
        }
    }

    /// Runs a connection that many share: connects, drives, and connects again as long as someone wants it.
    async fn run_shared(self: Rc<Self>, worker: Rc<Worker>) {
        let lane = self.lane.get();
        let (Lane::Shared { database, protocol } | Lane::Replica { database, protocol }) = lane else { return };
        let is_replica = matches!(lane, Lane::Replica { .. });
        let mut backoff = Backoff::default();
        let mut away = false;
        let server = self.server(&worker);
        loop {
            let before = worker.moves();
            let open = async {
                let mut link = Link::open(&worker, self.node, database, protocol).await?;
                if is_replica {
                    link.read_only().await?;
                }
                Ok(link)
            };
            let why = match open.await {
                Ok(link) => {
                    self.log_connected(&worker, away);
                    away = false;
                    let since = Instant::now();
                    let why = self.drive(link, &worker).await;
                    tracing::warn!(%server, lane = %self.lane.get(), reason = %why, "connection lost");
                    self.lose(&worker, &why);
                    if since.elapsed() > SHORT_LIFE {
                        backoff = Backoff::default();
                        continue;
                    }
                    why
                }
                Err(why) => why,
            };
            if !away {
                tracing::warn!(%server, lane = %self.lane.get(), reason = %why, "can't connect; trying again");
            }
            away = true;
            if !self.set_away(&why, &worker) {
                break;
            }
            let pause = match why {
                // It is there, and says itself that it will answer soon.
                LinkError::Said(_) => SOON,
                _ => backoff.next(worker.nonces.draw()),
            };
            worker.rest(pause, before).await;
        }
        worker.lanes.forget(&self);
    }

    fn log_connected(&self, worker: &Worker, back: bool) {
        let (server, lane) = (self.server(worker), self.lane.get());
        let version = &worker.server.borrow().version;
        tracing::info!(%server, version, %lane, "{}", if back { "connected again" } else { "connected" });
    }

    /// Runs a client's own connection, once.
    async fn run_own(self: Rc<Self>, worker: Rc<Worker>) {
        let Lane::Own { database, protocol } = self.lane.get() else { return };
        let open = Link::open(&worker, self.node, database, protocol);
        let gate = worker.lanes.gate(self.node);
        match gate.pass(open, worker.nonces.draw()).await {
            Ok(link) => {
                let why = self.drive(link, &worker).await;
                self.lose(&worker, &why);
            }
            Err(why) => {
                self.set_away(&why, &worker);
            }
        }
    }

    /// Carries commands and replies until the connection ends, and says why it did.
    async fn drive(&self, link: Link, worker: &Rc<Worker>) -> LinkError {
        let mut guard = LoseOnDrop { upstream: self, worker, armed: true };
        self.number.set(link.number);
        self.at.replace(link.at);
        if let Some(meters) = &worker.stats.meters {
            meters.server_connected.add(1);
            self.queue.borrow_mut().timing = Some(Timing::new(meters, &self.address(worker)));
        }
        self.set_ready(worker);
        let mut socket = link.socket;
        let mut inbox = Inbox::default();
        let why = future::poll_fn(|cx| {
            let _ = self.task.set(cx.waker().clone());
            self.poll(cx, &mut socket, &mut inbox, worker)
        })
        .await;
        guard.armed = false;
        why
    }

    fn poll(
        &self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        inbox: &mut Inbox,
        worker: &Rc<Worker>,
    ) -> Poll<LinkError> {
        self.woken.set(false);
        if matches!(self.queue.borrow().status, Status::Closed) {
            let silent = LinkError::TimedOut(self.queue.borrow().silence.limit());
            return Poll::Ready(worker.check_place(self.at.borrow().as_ref()).err().unwrap_or(silent));
        }
        match self.poll_replies(cx, socket, inbox, worker) {
            Ok(()) => {}
            Err(why) => return Poll::Ready(why),
        }
        let before = self.queue.borrow().outbox.written();
        let sent = self.poll_commands(cx, socket, worker.config.limits.server_high_water_bytes);
        if let Some(meters) = &worker.stats.meters {
            meters.server_sent_bytes.add(self.queue.borrow().outbox.written() - before);
        }
        match sent {
            Poll::Ready(Err(error)) => Poll::Ready(error.into()),
            _ => Poll::Pending,
        }
    }

    /// Reads replies and hands them out.
    fn poll_replies(
        &self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        inbox: &mut Inbox,
        worker: &Rc<Worker>,
    ) -> Result<(), LinkError> {
        let mut scratch = worker.scratch.borrow_mut();
        for _ in 0..READS_PER_TURN {
            if self.queue.borrow_mut().must_wait(worker.config.limits.answer_high_water_bytes) {
                return Ok(());
            }
            let Poll::Ready(read) = inbox::poll_read(socket, cx, &mut scratch)? else { return Ok(()) };
            if read == 0 {
                return Err(LinkError::Closed);
            }
            let fresh = &scratch[..read];
            if let Some(meters) = &worker.stats.meters {
                meters.server_received_bytes.add(read as u64);
            }
            if inbox.len() == 0 {
                let used = self.handle_replies(fresh, worker)?;
                inbox.push(&fresh[used..]);
            } else {
                inbox.push(fresh);
                let used = self.handle_replies(inbox.rest(), worker)?;
                inbox.consume(used);
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Hands out every reply that is whole; how many bytes that took.
    fn handle_replies(&self, input: &[u8], worker: &Rc<Worker>) -> Result<usize, LinkError> {
        let mut queue = self.queue.borrow_mut();
        queue.silence.broken();
        let cluster = worker.cluster.get().filter(|_| self.node.is_some());
        let mut after = Afterwards::new(cluster.map(Rc::as_ref));
        let handled = worker.with_env(|env| {
            let mut start = 0;
            while start < input.len() {
                if queue.flow.is_some() {
                    let len = queue.hand_on(&input[start..], &mut after)?;
                    start += len;
                    if len == 0 {
                        break;
                    }
                    continue;
                }
                if let Some(len) = queue.open_joined(&input[start..])? {
                    start += len;
                    continue;
                }
                let Some(len) = queue.pipe.scan(&input[start..])? else {
                    if queue.begin_flow(&input[start..], env.stats, after.now_ms()) {
                        continue;
                    }
                    break;
                };
                let reply = &input[start..start + len];
                if reply.starts_with(READONLY) {
                    worker.doubt_place();
                }
                for _ in 0..queue.take_sharers(reply) {
                    queue.handle_reply(reply, env, &mut after)?;
                }
                start += len;
            }
            Ok(start)
        });
        drop(queue);
        let after = after.into_all();
        if let (false, Some(node), Some(cluster)) = (after.is_empty(), self.node, cluster) {
            cluster.settle(node, after, worker);
        }
        handled
    }

    /// Writes what clients left, and tells those that wait when there is room again.
    fn poll_commands(
        &self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        high_water_bytes: usize,
    ) -> Poll<std::io::Result<()>> {
        let mut queue = self.queue.borrow_mut();
        let written = queue.outbox.written();
        let flushed = queue.outbox.poll_flush(socket, cx)?;
        // While a long request goes out there is nothing to answer yet.
        if queue.outbox.written() > written && queue.pipe.front().is_some_and(|front| front.end > written) {
            queue.silence.broken();
        }
        if queue.outbox.unsent() <= high_water_bytes {
            queue.wake_waiting();
        }
        ready!(flushed);
        queue.finishing |= queue.retiring && queue.pipe.is_idle();
        if queue.finishing {
            ready!(pin::Pin::new(socket).poll_shutdown(cx))?;
        }
        Poll::Pending
    }

    fn set_ready(&self, worker: &Worker) {
        let mut queue = self.queue.borrow_mut();
        // What its client waits for has moved here.
        if let (Some(owner), false) = (&queue.owner, queue.parked.is_empty()) {
            let endpoint = Cluster::endpoint_of(self.node, worker);
            owner.note_waits_on(self.waits_on(endpoint));
        }
        queue.status = Status::Ready;
        queue.silence.broken();
        queue.send_parked();
        queue.wake_waiting();
    }

    /// Requests fail from now on; false when nobody wanted this lane for a while, and it is closed.
    fn set_away(&self, why: &LinkError, worker: &Rc<Worker>) -> bool {
        let reason = away(why, &self.server(worker));
        let mut queue = self.queue.borrow_mut();
        let wanted = std::mem::take(&mut queue.wanted);
        queue.status = match wanted {
            true => Status::Away(Rc::clone(&reason)),
            false => Status::Closed,
        };
        queue.wake_waiting();
        let parked = std::mem::take(&mut queue.parked);
        drop(queue);
        if let (Some(node), Some(cluster)) = (self.node, worker.cluster.get()) {
            cluster.doubt_map();
            for step in parked {
                match step.whose.is_alone() {
                    _ if step.whose.replica.is_some() => cluster.bring_back(step, Some(&reason), worker),
                    true => cluster.give_back_alone(node, step, &reason, worker),
                    false => cluster.give_back(node, step, &reason),
                }
            }
        }
        wanted
    }

    /// Where the server is that it is connected to.
    fn address(&self, worker: &Worker) -> String {
        if let (Some(node), Some(cluster)) = (self.node, worker.cluster.get()) {
            return cluster.endpoint(node).to_string();
        }
        match &*self.at.borrow() {
            Some(endpoint) => endpoint.to_string(),
            None => worker.config.upstream.place(),
        }
    }

    /// The server, as people are told of it.
    fn server(&self, worker: &Worker) -> String {
        match (self.node, worker.cluster.get()) {
            (Some(node), Some(cluster)) => cluster.endpoint(node).to_string(),
            _ => worker.config.upstream.to_string(),
        }
    }

    /// Fails every request that was under way, and forgets the connection.
    fn lose(&self, worker: &Rc<Worker>, why: &LinkError) {
        worker.set_now(Instant::now());
        let (pending, owner, finishing) = {
            let mut queue = self.queue.borrow_mut();
            if !queue.finishing {
                if let Some(meters) = &worker.stats.meters {
                    meters.server_lost.add(1);
                }
                worker.doubt_place();
                if matches!(self.lane.get(), Lane::Shared { .. }) {
                    worker.everybody.tracking().doubt();
                }
                worker.cluster.get().into_iter().for_each(|cluster| cluster.doubt_map());
            }
            queue.status =
                if matches!(self.lane.get(), Lane::Own { .. }) { Status::Closed } else { Status::Connecting };
            queue.outbox.clear();
            queue.flow = None;
            queue.waits_for_owner = false;
            queue.wake_waiting();
            let now_ms = worker.cluster.get().map_or(0, |cluster| cluster.now_ms());
            (queue.lose(now_ms), queue.owner.take(), queue.finishing)
        };
        let is_clients = |asker: &Asker| !asker.is_own();
        // A replica may carry out what it will: nothing changes by it.
        let may_matter = !matches!(self.lane.get(), Lane::Replica { .. }) && pending.iter().any(is_clients);
        if let Some(number) = self.number.take().filter(|_| may_matter) {
            let endpoint = Cluster::endpoint_of(self.node, worker);
            worker.membership.note_lost((endpoint, number));
        }
        let server = self.server(worker);
        let reason = format!(
            "the connection to the server at {server} was lost ({why}); this command may or may not have been carried out"
        );
        let stateful = owner.as_ref().is_some_and(|owner| owner.holds_server_state());
        for asker in pending {
            match (asker, self.node.zip(worker.cluster.get())) {
                (Asker::Client(client, slot), _) if finishing && client.has_ended.get() => client.handle_dropped(slot),
                (Asker::Client(client, slot), _) => client.handle_server_lost(slot, &reason),
                (Asker::Step(step), Some((node, cluster))) => cluster.lose(node, step, &reason, worker),
                _ => {}
            }
        }
        if let Some(owner) = owner {
            owner.handle_own_lane_lost(self, stateful);
        }
    }
}

/// What clients are told while there is no connection.
fn away(why: &LinkError, server: &str) -> Rc<str> {
    match why {
        LinkError::Said(error) => error.as_str().into(),
        LinkError::Unsettled(why) => why.as_ref().into(),
        _ => format!("the server at {server} is away ({why}); trying again").into(),
    }
}

/// Fails what is under way if the task dies of a panic, so that no client waits for ever.
struct LoseOnDrop<'a> {
    upstream: &'a Upstream,
    worker: &'a Rc<Worker>,
    armed: bool,
}

impl Drop for LoseOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.upstream.lose(self.worker, &LinkError::Closed);
            self.upstream.queue.borrow_mut().status = Status::Closed;
            // The next who needs such a one opens another.
            self.worker.lanes.forget(self.upstream);
        }
    }
}
