//! Hears from servers which keys change, where clients cache what they read: the connections behind the core's
//! [`Tracking`](keyfold_core::tracking::Tracking).
//!
//! One task for all workers, and as long as any client of theirs is told of anything. It has a connection to the server, or
//! to each node of a cluster that may write, on which CLIENT TRACKING ON BCAST was said; before it relies on them it has all.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{future, mem};

use keyfold_core::cluster::Node;
use keyfold_core::resp::{Protocol, Reply, ReplyScanner};
use keyfold_core::session::Patience;
use keyfold_core::tracking::{Seen, Tracking};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use super::errand::Errand;
use super::link::{Link, LinkError};
use crate::backoff::Backoff;
use crate::worker::Worker;

/// How long the connections are kept once nobody wants to be told of anything.
const LINGER: Duration = Duration::from_secs(10);

/// How often it is looked which nodes there are.
const LOOK: Duration = Duration::from_secs(1);

/// How often it is looked whether slots have moved.
const GLANCE: Duration = Duration::from_millis(50);

/// A server that was silent for so long is asked whether it is still there.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// Hears changes for as long as the worker lives.
pub(crate) async fn hear_changes(worker: Rc<Worker>) {
    let clients = Arc::clone(&worker.everybody);
    let mut seen = Seen::default();
    loop {
        future::poll_fn(|context| clients.tracking().poll_stirred(context, &mut seen)).await;
        if seen.wanted {
            Hearing::new(&worker).run(&mut seen).await;
        }
    }
}

/// The connections, and what is known of them.
struct Hearing {
    worker: Rc<Worker>,
    errand: Errand,
    ears: HashMap<Option<Node>, Ear>,
    /// Something has become of one of them.
    stirred: Rc<Notify>,
    /// The servers are known that there are, as of this change of the map.
    looked: Option<(Instant, u64)>,
    /// Why they aren't.
    trouble: Option<String>,
}

/// A connection on which one server tells.
struct Ear {
    state: Rc<EarState>,
    /// The server has slots, or is the only one. One that has none and can't be reached holds nobody up: no request reaches
    /// it either.
    is_needed: bool,
    task: AbortHandle,
}

#[derive(Default)]
struct EarState {
    /// It does.
    hears: Cell<bool>,
    /// Why it doesn't.
    trouble: RefCell<Option<String>>,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hearing {
    fn new(worker: &Rc<Worker>) -> Self {
        Self {
            worker: Rc::clone(worker),
            errand: Errand::new(Rc::clone(worker)).unchecked(),
            ears: HashMap::new(),
            stirred: Rc::default(),
            looked: None,
            trouble: None,
        }
    }

    /// Goes on until nobody wants to be told for a while.
    async fn run(mut self, seen: &mut Seen) {
        let clients = Arc::clone(&self.worker.everybody);
        let tracking = clients.tracking();
        let (mut unwanted_since, mut doubts) = (None, seen.doubts);
        loop {
            if mem::replace(&mut doubts, seen.doubts) != seen.doubts {
                self.ears.clear();
                self.looked = None;
            }
            self.look().await;
            self.settle();
            self.expire();
            match seen.wanted {
                true => unwanted_since = None,
                false if unwanted_since.get_or_insert_with(Instant::now).elapsed() >= LINGER => {
                    if tracking.rest() {
                        return;
                    }
                }
                false => {}
            }
            let next_look = if self.worker.cluster.get().is_some() { GLANCE } else { LOOK };
            let pause = next_look.min(self.until_expiry(seen));
            tokio::select! {
                () = self.stirred.notified() => {}
                () = future::poll_fn(|context| tracking.poll_stirred(context, seen)) => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// How long until the next value expires.
    fn until_expiry(&self, seen: &Seen) -> Duration {
        let left = |at_ms: i64| u64::try_from(at_ms - self.worker.clock.now_ms()).unwrap_or(0);
        seen.next_ms.map_or(Duration::MAX, |at_ms| Duration::from_millis(left(at_ms).max(1)))
    }

    fn expire(&self) {
        let layout = Arc::clone(&self.worker.folding.borrow().layout);
        self.worker.everybody.tracking().expire(self.worker.clock.now_ms(), &layout);
    }

    /// Looks which servers there are that may write, and listens to each.
    async fn look(&mut self) {
        let changes = self.worker.cluster.get().map_or(0, |cluster| cluster.changes());
        let known = self.looked.filter(|(_, then)| *then == changes);
        if known.is_some_and(|(at, _)| self.worker.cluster.get().is_none() || at.elapsed() < LOOK) {
            return;
        }
        if self.looked.is_some() && known.is_none() {
            // Keys have come to where nobody listened, perhaps.
            self.worker.everybody.tracking().break_off();
        }
        match self.writers().await {
            Ok(nodes) => {
                self.trouble = None;
                self.ears.retain(|node, _| nodes.contains_key(node));
                for (node, is_needed) in nodes {
                    let (worker, stirred) = (&self.worker, &self.stirred);
                    let ear = self.ears.entry(node).or_insert_with(|| Ear::listen(worker, node, stirred));
                    ear.is_needed = is_needed;
                }
                self.looked = Some((Instant::now(), changes));
            }
            Err(why) => self.trouble = Some(format!("it can't be seen which nodes the cluster has: {why}")),
        }
    }

    /// The one server; or all nodes of a cluster that have slots, and those that may be given some, key by key. Says which
    /// have.
    async fn writers(&mut self) -> Result<HashMap<Option<Node>, bool>, LinkError> {
        let all = self.errand.all_nodes().await?;
        let Some(cluster) = self.worker.cluster.get() else {
            return Ok(all.into_iter().map(|node| (node, true)).collect());
        };
        let shards = cluster.shards_with_replicas();
        let replicas: Vec<_> = shards.iter().flat_map(|(_, replicas)| replicas.iter().copied().map(Some)).collect();
        let others = all.into_iter().filter(|node| !replicas.contains(node)).map(|node| (node, false));
        let primaries = shards.iter().map(|(primary, _)| (Some(*primary), true));
        Ok(others.chain(primaries).collect())
    }

    /// Says whether all servers tell.
    fn settle(&self) {
        let clients = &self.worker.everybody;
        let tracking = clients.tracking();
        let matters = |ear: &Ear| ear.is_needed || ear.state.trouble.borrow().is_none();
        let deaf = self.ears.values().find(|ear| !ear.state.hears.get() && matters(ear));
        let trouble = match (deaf, self.ears.is_empty()) {
            (None, false) if self.trouble.is_none() => {
                if !tracking.is_standing() {
                    tracking.stand();
                    clients.wake_all();
                }
                return;
            }
            (Some(ear), _) => ear.state.trouble.borrow().clone(),
            (None, _) => self.trouble.clone(),
        };
        tracking.break_off();
        if trouble.is_some_and(|why| tracking.fail(&why)) {
            clients.wake_all();
        }
    }
}

impl Ear {
    fn listen(worker: &Rc<Worker>, node: Option<Node>, stirred: &Rc<Notify>) -> Self {
        let state = Rc::<EarState>::default();
        let listener =
            Listener { worker: Rc::clone(worker), node, state: Rc::clone(&state), stirred: Rc::clone(stirred) };
        Self { state, is_needed: true, task: spawn_local(listener.run()).abort_handle() }
    }
}

/// The task of one connection.
struct Listener {
    worker: Rc<Worker>,
    node: Option<Node>,
    state: Rc<EarState>,
    stirred: Rc<Notify>,
}

impl Listener {
    async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            let before = self.worker.moves();
            let Err(why) = self.hear().await;
            let server = self.server();
            if self.state.hears.replace(false) {
                self.tracking().break_off();
                backoff = Backoff::default();
                tracing::warn!(%server, reason = %why, "what the server tells of changes was lost; all caches are emptied");
            }
            let hint = match &why {
                LinkError::Refused(said) if said.starts_with("NOPERM") => {
                    "; allow keyfold's user there the command: +client|tracking"
                }
                _ => "",
            };
            self.state.trouble.replace(Some(format!("the server at {server} does not tell of changes: {why}{hint}")));
            self.stirred.notify_one();
            self.worker.rest(backoff.next(self.worker.nonces.draw()), before).await;
        }
    }

    fn tracking(&self) -> &Tracking {
        self.worker.everybody.tracking()
    }

    fn server(&self) -> String {
        match (self.node, self.worker.cluster.get()) {
            (Some(node), Some(cluster)) => cluster.endpoint(node).to_string(),
            _ => self.worker.config.upstream.to_string(),
        }
    }

    /// Connects and hears, until that can't go on.
    async fn hear(&self) -> Result<Infallible, LinkError> {
        let worker = &self.worker;
        let mut link = Link::open_unchecked(worker, self.node, 0, Protocol::Resp3).await?;
        let at = link.at.clone();
        tokio::select! {
            biased;
            why = worker.until_left(at.as_ref()) => Err(why),
            why = self.hear_on(&mut link) => why,
        }
    }

    async fn hear_on(&self, link: &mut Link) -> Result<Infallible, LinkError> {
        let patience = self.worker.config.timeouts.silence(Patience::Prompt);
        let mut scanner = ReplyScanner::default();
        let mut asked = Some(Instant::now());
        link.send(&[b"CLIENT", b"TRACKING", b"ON", b"BCAST"]).await?;
        loop {
            let mut refusal = None;
            let wait = patience.map_or(ASK_AFTER, |patience| patience.min(ASK_AFTER));
            let heard = link.receive(&mut scanner, |reply| match reply.first() {
                Some(b'>') => self.take_push(reply),
                Some(b'-') => refusal = Some(String::from_utf8_lossy(&reply[1..]).trim_end().to_owned()),
                _ if !self.state.hears.replace(true) => {
                    self.state.trouble.replace(None);
                    self.stirred.notify_one();
                }
                _ => {}
            });
            match (tokio::time::timeout(wait, heard).await, asked) {
                (Ok(heard), _) => {
                    heard?;
                    asked = None;
                }
                (Err(_), None) => {
                    link.send(&[b"PING"]).await?;
                    asked = Some(Instant::now());
                }
                (Err(_), Some(since)) => {
                    if let Some(limit) = patience.filter(|limit| since.elapsed() >= *limit) {
                        return Err(LinkError::TimedOut(limit));
                    }
                }
            }
            if let Some(refusal) = refusal {
                return Err(LinkError::Refused(refusal));
            }
        }
    }

    /// Some keys have changed, or all.
    fn take_push(&self, push: &[u8]) {
        let Ok(Reply::Array(mut parts)) = Reply::parse(push) else { return };
        if parts.next().and_then(Reply::bytes) != Some(b"invalidate") {
            return;
        }
        match parts.next() {
            Some(Reply::Array(keys)) => {
                let layout = Arc::clone(&self.worker.folding.borrow().layout);
                self.tracking().invalidate(keys.filter_map(Reply::bytes), &layout);
            }
            _ => self.tracking().flush(),
        }
    }
}
