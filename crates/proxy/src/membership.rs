//! This proxy's part in changes of the layout: its lease, and standing still when it is asked to.
//!
//! One task asks the server what there is to see, and does what the core's [`Member`] decides. Where it is to
//! stop, all workers stop beginning requests and say when those under way are answered; then all go on together,
//! by the same layout or the next. Clients wait for some milliseconds; none is answered by one layout and carried
//! out by another.
//!
//! Without a lease nothing is served: requests wait until there is one, or are answered with what stands against
//! it. That is looked at where each request begins, so that a process that slept doesn't go on by what it knew.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use keyfold_core::change::{Act, LEASE_MS, LEASES_KEY, Lease, Member};
use keyfold_core::codec::Kinds;
use keyfold_core::layout::{Epoch, Layout};
use keyfold_core::placement::Secrets;
use keyfold_core::resp::{Reply, write_command};
use tokio::sync::{mpsc, oneshot, watch};

use crate::dictionaries;
use crate::folding::Folding;
use crate::upstream::{Errand, LinkError};
use crate::worker::{Order, Task, Worker};

/// How much sooner than the server a member takes its lease for ended.
const MARGIN: Duration = Duration::from_millis(500);

/// How long the end of the proxy waits for the server to take the lease back.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);

/// How long to wait after the server could not be asked.
const RETRY: Duration = Duration::from_millis(100);

/// What all workers know of the membership.
#[derive(Debug)]
pub(crate) struct Membership {
    id: String,
    start: Instant,
    /// Workers that haven't ended.
    workers: AtomicUsize,
    /// Until when there is a lease, in milliseconds since `start`.
    until_ms: AtomicU64,
    /// Why there is none, once that is known.
    trouble: Mutex<Option<Arc<str>>>,
    /// Connections, by the server's numbers, that were lost with commands under way.
    lost: Mutex<Vec<i64>>,
}

impl Membership {
    /// A membership that has yet to get its lease.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(crate) fn new(workers: usize) -> Result<Self, getrandom::Error> {
        Ok(Self {
            workers: AtomicUsize::new(workers),
            id: format!("{:016x}", getrandom::u64()?),
            start: Instant::now(),
            until_ms: AtomicU64::new(0),
            trouble: Mutex::new(None),
            lost: Mutex::new(Vec::new()),
        })
    }

    /// The name of this proxy's connections, for CLIENT LIST.
    pub(crate) fn connection_name(&self) -> String {
        format!("keyfold:{}", self.id)
    }

    /// The field of its lease.
    pub(crate) fn id(&self) -> &[u8] {
        self.id.as_bytes()
    }

    /// A worker serves nobody any more; the last one gives the lease back, so that nobody waits for it to end.
    pub(crate) async fn leave(&self, worker: &Rc<Worker>) {
        if self.workers.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        self.revoke();
        let mut command = Vec::new();
        write_command(&mut command, &[b"HDEL", LEASES_KEY, self.id()]);
        let mut errand = Errand::new(Rc::clone(worker)).in_database(0);
        let _ = tokio::time::timeout(LEAVE_WITHIN, errand.request(&command, 1)).await;
    }

    /// Whether requests may begin now.
    pub(crate) fn is_leased(&self) -> bool {
        let now = Instant::now().saturating_duration_since(self.start);
        now.as_millis() < u128::from(self.until_ms.load(Ordering::Acquire))
    }

    /// Why there is no lease, where that is known.
    pub(crate) fn trouble(&self) -> Option<Arc<str>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that a connection was lost while commands on it were under way: the server may yet carry them out.
    pub(crate) fn note_lost(&self, connection: i64) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// The lease is gone, or nobody knows of it.
    fn revoke(&self) {
        self.until_ms.store(0, Ordering::Release);
    }

    /// The command that asks whether the server still has the lease, and what to say to the answer. A connection
    /// begins with it: a proxy that lost its lease had its connections closed, and must not go on by new ones.
    pub(crate) fn question(&self) -> (Vec<u8>, Answered<'_>) {
        let mut command = Vec::new();
        write_command(&mut command, &[b"HEXISTS", LEASES_KEY, self.id()]);
        (command, Answered { membership: self, until_ms: self.until_ms.load(Ordering::Acquire) })
    }

    /// The lease was written by a command sent at this time.
    fn leased_at(&self, sent: Instant) {
        let until =
            sent.saturating_duration_since(self.start) + Duration::from_millis(LEASE_MS.unsigned_abs()) - MARGIN;
        self.set_trouble(None);
        self.until_ms.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }

    fn set_trouble(&self, trouble: Option<&str>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble.map(Arc::from);
    }

    fn take_lost(&self) -> Vec<i64> {
        std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What waits for the answer to [`Membership::question`].
pub(crate) struct Answered<'m> {
    membership: &'m Membership,
    /// The lease that was asked about.
    until_ms: u64,
}

impl Answered<'_> {
    /// Takes the answer. Where there is no lease in the server, the one that was asked about is over; one that was
    /// written meanwhile is not.
    pub(crate) fn with(self, reply: &[u8]) {
        if Reply::parse(reply) == Ok(Reply::Integer(0)) {
            let lease = &self.membership.until_ms;
            let _ = lease.compare_exchange(self.until_ms, 0, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

/// The task that keeps the lease, and the workers' layout the server's.
pub(crate) fn keep(
    membership: Arc<Membership>,
    who: String,
    workers: Vec<mpsc::UnboundedSender<Order>>,
    current: watch::Sender<Arc<Folding>>,
    kinds: Kinds,
    secrets: Secrets,
) -> Task {
    Box::new(move |errand| {
        let member = Member::new(membership.id(), &who);
        let keeper = Keeper {
            errand: errand.in_database(0),
            kinds,
            secrets,
            membership,
            member,
            workers,
            current,
            next: None,
            refused: None,
        };
        Box::pin(keeper.keep()) as Pin<Box<dyn Future<Output = ()>>>
    })
}

/// Why a round was broken off.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("the server refuses keyfold's lease: {0}")]
    Server(String),
}

struct Keeper {
    errand: Errand,
    kinds: Kinds,
    secrets: Secrets,
    membership: Arc<Membership>,
    member: Member,
    workers: Vec<mpsc::UnboundedSender<Order>>,
    current: watch::Sender<Arc<Folding>>,
    /// A layout that was seen and isn't served yet, with its text.
    next: Option<(Vec<u8>, Layout)>,
    /// A layout in the server that can't be served, reported once.
    refused: Option<Vec<u8>>,
}

impl Keeper {
    async fn keep(mut self) {
        let mut is_reported = false;
        loop {
            match self.round().await {
                Ok(()) => is_reported = false,
                Err(broken) => {
                    self.give_way(&broken);
                    if !std::mem::replace(&mut is_reported, true) && matches!(broken, Broken::Server(_)) {
                        tracing::error!(reason = %broken, "requests are refused until this is mended");
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Asks, does what is to be done, and rests.
    async fn round(&mut self) -> Result<(), Broken> {
        self.look().await?;
        match self.member.decide() {
            Act::Rest => {}
            Act::Stop => self.stop().await?,
            Act::Write(lease) => self.write(&lease).await?,
        }
        tokio::time::sleep(Duration::from_millis(self.member.rest_ms())).await;
        Ok(())
    }

    async fn look(&mut self) -> Result<(), Broken> {
        let mut wire = Vec::new();
        let count = self.member.ask(&mut wire);
        let replies = self.errand.request(&wire, count).await?;
        let now = Arc::clone(&self.current.borrow());
        let serving = self.member.serving().is_some();
        let refused = &mut self.refused;
        let secrets = &self.secrets;
        let epoch_of = |text: Option<&[u8]>| epoch_to_serve(&now, secrets, text, serving, refused);
        self.member.see(&replies, epoch_of).map_err(Broken::Server)?;
        self.prepare().await
    }

    /// Reads what a layout that was seen needs, before it is served: from then on nothing may fail.
    async fn prepare(&mut self) -> Result<(), Broken> {
        let now = Arc::clone(&self.current.borrow());
        let Some(text) = self.member.layout_text() else { return Ok(()) };
        if self.next.as_ref().is_some_and(|(known, _)| known.as_slice() == text) {
            return Ok(());
        }
        let text = text.to_vec();
        let changed = std::str::from_utf8(&text).ok().filter(|text| *text != now.text);
        self.next = match changed.and_then(|text| Layout::from_stored_with(text, &self.secrets).ok()) {
            Some(mut layout) => {
                layout.adopt_codecs(&now.layout);
                dictionaries::open(&mut self.errand, &self.kinds, &mut layout).await?;
                Some((text, layout))
            }
            None => None,
        };
        Ok(())
    }

    /// Has all workers stop; where requests under way take too long, they go on.
    async fn stop(&mut self) -> Result<(), Broken> {
        if !pause(&self.workers).await {
            self.resume(None);
            self.member.go_on();
            return Ok(());
        }
        self.forget_lost().await?;
        self.member.stopped();
        Ok(())
    }

    /// Has the server close connections that were lost with commands under way, so that it can't come upon those
    /// commands later.
    async fn forget_lost(&mut self) -> Result<(), Broken> {
        let lost = self.membership.take_lost();
        let mut wire = Vec::new();
        for connection in &lost {
            write_command(&mut wire, &[b"CLIENT", b"KILL", b"ID", connection.to_string().as_bytes()]);
        }
        if !lost.is_empty() {
            self.errand.request(&wire, lost.len()).await?;
        }
        Ok(())
    }

    async fn write(&mut self, lease: &Lease) -> Result<(), Broken> {
        let was_serving = self.member.serving().is_some();
        let mut wire = Vec::new();
        self.member.note_script_flags(self.errand.with_env(|env| env.server.knows_script_flags()));
        self.member.write(lease, &mut wire);
        let sent = Instant::now();
        let replies = self.errand.request(&wire, 1).await?;
        let reply = replies.first().map_or(&[][..], Vec::as_slice);
        if was_serving && takes_no_writes(reply) {
            // The lease is what it was, as the step looks first; and nobody can replace the layout now.
            self.membership.leased_at(sent);
            return Ok(());
        }
        if !self.member.written(lease, reply).map_err(Broken::Server)? {
            return Ok(());
        }
        let was_leased = self.membership.is_leased();
        self.membership.leased_at(sent);
        if !was_serving && self.member.serving().is_some() {
            self.serve();
        } else if !was_leased && was_serving {
            // Who waits for the lease is woken.
            self.resume(None);
        }
        Ok(())
    }

    /// Goes on by the layout that the lease names.
    fn serve(&mut self) {
        let now = Arc::clone(&self.current.borrow());
        let text = self.member.layout_text();
        let next = self.next.take().filter(|(known, _)| Some(known.as_slice()) == text);
        let next = next.map(|(_, layout)| Arc::new(now.followed_by(layout)));
        if let Some(next) = &next {
            tracing::info!(epoch = %next.layout.epoch(), "the server's layout has changed; serving the new one");
            self.current.send_replace(Arc::clone(next));
        }
        self.resume(next.as_ref());
    }

    fn resume(&self, next: Option<&Arc<Folding>>) {
        for worker in &self.workers {
            let _ = worker.send(Order::Resume(next.cloned()));
        }
    }

    /// The server can't be asked: whoever waits for the lease gets to know, and a pause ends.
    fn give_way(&mut self, broken: &Broken) {
        if let Broken::Server(_) = broken {
            self.membership.set_trouble(Some(&broken.to_string()));
            self.membership.revoke();
        }
        if self.member.serving().is_none() {
            // What begins now finds no lease.
            self.membership.revoke();
            self.resume(None);
        }
    }
}

/// The epoch of the layout in the server, as far as it can be served: of one that can't be, or that is gone, the
/// epoch before goes on.
fn epoch_to_serve(
    now: &Folding,
    secrets: &Secrets,
    text: Option<&[u8]>,
    serving: bool,
    refused: &mut Option<Vec<u8>>,
) -> Epoch {
    let epoch = now.layout.epoch();
    let Some(bytes) = text else {
        if serving && !now.layout.is_empty() && refused.as_deref() != Some(b"") {
            tracing::error!(
                %epoch,
                "the layout in the server is gone, and keys are still folded by it here; put it back with `keyfold \
                 layout push`, or another keyfold will not find them"
            );
            *refused = Some(Vec::new());
        }
        return epoch;
    };
    let parsed = std::str::from_utf8(bytes).map_err(|error| error.to_string()).and_then(|text| {
        if text == now.text {
            return Ok(epoch);
        }
        let layout = Layout::from_stored_with(text, secrets).map_err(|error| error.to_string())?;
        if layout.epoch() == epoch {
            return Err(format!("it says something else under the same epoch {epoch}"));
        }
        layout.follows(&now.layout)?;
        Ok(layout.epoch())
    });
    match parsed {
        Ok(epoch) => epoch,
        Err(reason) => {
            if serving && refused.as_deref() != Some(bytes) {
                tracing::error!(
                    %epoch,
                    %reason,
                    "the layout in the server has changed and can't be served; going on with the one before. \
                     Put it back with `keyfold layout push`, or restart keyfold with the layout that is meant"
                );
                *refused = Some(bytes.to_vec());
            }
            epoch
        }
    }
}

/// Whether a server refuses a write that it would take at another time: it is out of memory, can't save, or has too
/// few replicas. Whoever reads goes on.
fn takes_no_writes(reply: &[u8]) -> bool {
    let refusals: [&[u8]; 3] = [b"OOM ", b"MISCONF ", b"NOREPLICAS "];
    reply.starts_with(b"-") && refusals.iter().any(|code| reply.windows(code.len()).any(|part| part == *code))
}

/// Has all workers stop beginning requests; false where requests under way took too long.
async fn pause(workers: &[mpsc::UnboundedSender<Order>]) -> bool {
    let mut quiet = Vec::new();
    for worker in workers {
        let (sender, receiver) = oneshot::channel();
        if worker.send(Order::Pause(sender)).is_ok() {
            quiet.push(receiver);
        }
    }
    let mut all_quiet = true;
    for receiver in quiet {
        all_quiet &= receiver.await.unwrap_or(false);
    }
    all_quiet
}
