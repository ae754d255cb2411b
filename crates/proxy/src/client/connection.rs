//! A client's task: one poll function that reads, begins requests and flushes.
//!
//! A wake costs at most one read and one write where that is all there is to do. The loop ends only where
//! every reason to go on has a waker: the socket's, the server connection's, or the client's own.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use keyfold_core::session::Peer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::gathering::ENOUGH_BYTES;
use super::requests::Requests;
use super::{Client, Ending, State};
use crate::inbox::{self, Inbox, SCRATCH_BYTES};
use crate::socket::Socket;
use crate::worker::Worker;

/// After so many full reads in a row others get their turn.
const READS_PER_TURN: usize = 4;

/// How long a closed connection is still read from, so that what the client had sent on does not make its
/// system throw away our last answer.
const LINGER: Duration = Duration::from_secs(1);

/// What is still read from the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    /// Nothing of it counts any more, as the client broke the protocol or asked to be closed: only its leaving is waited for.
    Over,
    /// The client says no more.
    Ended,
    /// The proxy reads no more, as it shuts down.
    Closed,
}

/// A client with its socket.
#[derive(Debug)]
struct Connection {
    client: Rc<Client>,
    worker: Rc<Worker>,
    key: usize,
    inbox: Inbox,
    requests: Requests,
    input: Input,
    /// What the client has sent on is left in the socket until what came before has begun.
    withheld: bool,
}

/// Serves one client to its end.
pub(crate) async fn serve(mut socket: Socket, peer: Peer, worker: Rc<Worker>) {
    let mut connection = Connection::new(peer, Rc::clone(&worker));
    let ended = std::future::poll_fn(|cx| connection.poll(cx, &mut socket)).await;
    match ended {
        Ok(()) if connection.is_finished() && connection.input != Input::Ended => Box::pin(linger(socket)).await,
        Ok(()) => {}
        Err(error) => tracing::debug!(%error, "client gone"),
    }
    if let Some(ending) = connection.client.ending.get() {
        log_ending(ending, &worker);
    }
}

/// Says that no more comes, and waits until the client has heard.
async fn linger(mut socket: Socket) {
    let drain = async {
        socket.shutdown().await?;
        let mut discarded = [0; 1024];
        while socket.read(&mut discarded).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(LINGER, drain).await;
}

impl Connection {
    fn new(peer: Peer, worker: Rc<Worker>) -> Self {
        let client = Rc::new(Client::new(peer, &worker));
        let key = worker.clients.borrow_mut().insert(Rc::clone(&client));
        let requests = Requests::new(Rc::clone(&client), Rc::clone(&worker));
        Self { client, worker, key, inbox: Inbox::default(), requests, input: Input::Open, withheld: false }
    }

    /// Does all that can be done now; ready when the connection is to be closed.
    fn poll(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> Poll<io::Result<()>> {
        let _ = self.client.task.set(cx.waker().clone());
        self.client.woken.set(false);
        self.client.state.borrow().conversation.session().entry().set_task(cx.waker());
        self.client.hear_others(&self.worker.config.users);
        if self.client.ending.get().is_some() {
            return Poll::Ready(Ok(()));
        }
        self.resume();
        self.poll_requests(cx, socket)?;
        self.release_own_lane();
        loop {
            let flushed = self.poll_answers(cx, socket)?;
            if let Some(own) = &self.client.state.borrow().own {
                own.go_on();
            }
            // Room in the outbox may be what the next request waited for.
            if !self.resume() {
                self.note_buffers();
                if self.withheld && !self.is_full() {
                    self.client.wake();
                }
                return if flushed.is_ready() && self.is_finished() { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
        }
    }

    fn note_buffers(&self) {
        self.client.held.set(self.requests.blocked);
        let state = self.client.state.borrow();
        state.conversation.session().entry().note_buffers(self.inbox.len(), state.queued_bytes());
    }

    /// Whether so much waits to begin that nothing more is read.
    fn is_full(&self) -> bool {
        self.requests.blocked && self.inbox.len() >= SCRATCH_BYTES
    }

    /// Begins requests that had to wait; whether any could.
    fn resume(&mut self) -> bool {
        if !self.requests.blocked {
            return false;
        }
        let used = self.requests.begin_all(self.inbox.rest());
        self.inbox.consume(used);
        self.note_whether_over();
        used > 0
    }

    fn note_whether_over(&mut self) {
        if self.requests.over && self.input == Input::Open {
            self.input = Input::Over;
        }
    }

    /// Reads what has come. At a shutdown this is the last time: what has come by now counts as accepted.
    fn poll_requests(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> io::Result<()> {
        self.poll_input(cx, socket)?;
        let lets_go = self.client.let_go.replace(false) && !self.client.said.get() && self.inbox.len() == 0;
        let may_say_more = matches!(self.input, Input::Open | Input::Over);
        if (self.worker.stopping.get() || lets_go) && may_say_more {
            self.input = Input::Closed;
        }
        Ok(())
    }

    fn poll_input(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> io::Result<()> {
        let worker = Rc::clone(&self.worker);
        let mut scratch = worker.scratch.borrow_mut();
        self.withheld = false;
        for _ in 0..READS_PER_TURN {
            self.withheld = self.is_full();
            if self.withheld || !matches!(self.input, Input::Open | Input::Over) {
                return Ok(());
            }
            let Poll::Ready(read) = inbox::poll_read(socket, cx, &mut scratch)? else { return Ok(()) };
            if read == 0 {
                self.input = Input::Ended;
                self.client.has_ended.set(true);
                return Ok(());
            }
            self.client.heard.set(worker.tick.get());
            self.client.said.set(true);
            if let Some(meters) = &worker.stats.meters {
                meters.client_received_bytes.add(read as u64);
            }
            self.handle_input(&scratch[..read]);
        }
        self.client.wake();
        Ok(())
    }

    fn handle_input(&mut self, fresh: &[u8]) {
        if self.input == Input::Over {
            return;
        }
        if self.requests.blocked {
            self.inbox.push(fresh);
        } else if self.inbox.len() == 0 {
            let used = self.requests.begin_all(fresh);
            self.inbox.push(&fresh[used..]);
        } else {
            self.inbox.push(fresh);
            let used = self.requests.begin_all(self.inbox.rest());
            self.inbox.consume(used);
        }
        self.note_whether_over();
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> io::Result<Poll<()>> {
        let mut state = self.client.state.borrow_mut();
        let before = state.outbox.unsent();
        if state.outbox.is_flushed() || (before > 0 && self.awaits_more(&mut state)) {
            return Ok(Poll::Ready(()));
        }
        self.client.waits.end();
        let written = state.outbox.written();
        let flushed = state.outbox.poll_flush(socket, cx)?;
        if state.outbox.unsent() < before {
            self.client.took.set(self.worker.tick.get());
        }
        if let Some(meters) = &self.worker.stats.meters {
            meters.client_sent_bytes.add(state.outbox.written() - written);
        }
        Ok(flushed)
    }

    /// Whether the answers that are there wait for others, of requests that came with theirs: see
    /// [`gathering`](super::gathering).
    fn awaits_more(&self, state: &mut State) -> bool {
        let is_whole = state.conversation.take_gathered();
        !is_whole
            && state.conversation.in_flight() > 0
            && !self.requests.blocked
            && !state.conversation.is_flowing()
            && state.outbox.unsent() < ENOUGH_BYTES
            && self.worker.cluster.get().is_some()
            && self.worker.gathering.may_wait(&self.client)
    }

    /// Gives the own connection back once it holds nothing of this client and no request waits, be it for this
    /// connection to be opened. Where the client has left it is ended instead: a command that blocks there
    /// would never be answered, and what came behind it is not carried out, as before a plain server.
    fn release_own_lane(&mut self) {
        let mut state = self.client.state.borrow_mut();
        let Some(own) = &state.own else { return };
        if state.conversation.is_blocked() {
            if matches!(self.input, Input::Ended | Input::Closed) {
                own.finish();
            }
            if self.input == Input::Ended {
                self.inbox = Inbox::default();
                self.requests.blocked = false;
            }
        } else if !self.requests.blocked && state.conversation.may_release_own_lane() {
            state.give_back_own(&self.worker);
        }
    }

    fn is_finished(&self) -> bool {
        let state = self.client.state.borrow();
        self.input != Input::Open
            && !self.requests.blocked
            && state.conversation.in_flight() == 0
            && state.outbox.is_flushed()
    }
}

/// Whatever ended the task, what it had begun is carried through.
impl Drop for Connection {
    fn drop(&mut self) {
        self.worker.forget_client(self.key);
        let mut state = self.client.state.borrow_mut();
        state.gone = true;
        state.conversation.session().leave();
        state.drop_answers();
        if let Some(own) = state.own.take() {
            own.finish();
        }
    }
}

fn log_ending(ending: Ending, worker: &Worker) {
    let limits = &worker.config.limits;
    match ending {
        Ending::Idle => tracing::info!("client closed: it was idle for longer than --idle-timeout"),
        Ending::WriteStalled => {
            tracing::warn!("client closed: it took none of its answers for longer than --write-timeout");
        }
        Ending::Killed => tracing::info!("client closed: by CLIENT KILL"),
        Ending::ShutOut => {
            tracing::info!("client closed: its user is no more, or may not listen to its channels any more");
        }
        Ending::MonitorFellBehind => {
            tracing::warn!("client closed: it takes the lines of MONITOR more slowly than they come");
        }
        Ending::AnswersOverLimit => tracing::warn!(
            limit = limits.max_queued_answer_bytes,
            "client closed: the answers that wait for it are over --max-queued-answer-bytes"
        ),
        Ending::AnswerCutOff => {
            tracing::warn!("client closed: the connection to the server was lost in the middle of its answer");
        }
        Ending::ServerStateLost => {
            tracing::info!("client closed: its subscriptions or WATCH were lost with the connection to the server");
        }
    }
}
