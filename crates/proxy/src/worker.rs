//! One thread of the proxy: its clients, its connections to the server, and what they share.
//!
//! A worker shares only configuration and counters with others. All its tasks run on its thread, one at a
//! time, so what they share is behind `Cell` and `RefCell`; a borrow never lasts over an await.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyfold_core::cache::Cache;
use keyfold_core::clients::Clients;
use keyfold_core::cluster::{Endpoint, Front};
use keyfold_core::exchange::{Env, ServerInfo};
use slab::Slab;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

use crate::address::Route;
use crate::arrival::{Arrival, greet};
use crate::backoff::Backoff;
use crate::client::{self, Client, Crowd, Gathering, end_waits};
use crate::clock::Clock;
use crate::config::Config;
use crate::encoders::Encoders;
use crate::folding::Folding;
use crate::inbox::SCRATCH_BYTES;
use crate::membership::Membership;
use crate::nonce::Nonces;
use crate::order::Order;
use crate::shutdown::Phase;
use crate::slow::SlowLines;
use crate::stats::{ClientGauges, Stats};
use crate::tls::Current;
use crate::upstream::{Cluster, Errand, KeptLinks, Lanes, LinkError, Names, hear_changes, keep, look_out};
use crate::whereabouts::Whereabouts;

/// How often clients are looked after. Their timeouts are counted in these.
const TICK: Duration = Duration::from_secs(1);

/// How often connections to the server are looked after: so late it is noticed that one is silent for too long, twice.
const LANES_TICK: Duration = Duration::from_millis(200);

/// How often it is looked whether requests under way are answered while others are held back.
const PAUSE_POLL: Duration = Duration::from_millis(1);

/// How often it is looked for namespaces whose values spill, in ticks.
const WARN_TICKS: u32 = 10;

/// How long a client says nothing before it is closed, once another keyfold has taken over: longer than the pause between two
/// requests of one that is busy, since the next one of these would meet a closed connection.
const IDLE_FOR: Duration = Duration::from_millis(200);

/// How often the server is asked for its time.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// What the tasks of one worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    pub(crate) nonces: Nonces,
    /// Encode large values for all workers.
    pub(crate) encoders: Arc<Encoders>,
    /// Counts who is asked for, for all workers.
    pub(crate) cache: Arc<Cache>,
    /// What the server last said of itself.
    pub(crate) server: RefCell<ServerInfo>,
    /// The longest argument that the server takes, where it says so. It would close a connection over a longer one,
    /// and many clients share that.
    pub(crate) max_bulk_bytes: Cell<usize>,
    pub(crate) lanes: Lanes,
    /// Connections for what is asked of one node of a cluster alone.
    pub(crate) kept_links: KeptLinks,
    /// Where hosts are.
    pub(crate) names: Names,
    /// Where the primary is, where it is Sentinels who say so.
    pub(crate) whereabouts: Option<Arc<Whereabouts>>,
    /// The cluster that it stands before, once that is known.
    pub(crate) cluster: OnceCell<Rc<Cluster>>,
    /// Where every socket is read into, one at a time.
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) clients: RefCell<Slab<Rc<Client>>>,
    /// Those whose answers wait for others.
    pub(crate) gathering: Gathering,
    /// Those whose writes wait for room in a cache.
    pub(crate) crowd: Crowd,
    /// The clients of all workers, as they see one another.
    pub(crate) everybody: Arc<Clients>,
    /// A task waits for the end of CLIENT PAUSE.
    pub(crate) awaits_unpause: Cell<bool>,
    pub(crate) stopping: Cell<bool>,
    /// What was written of slow requests.
    slow_lines: RefCell<SlowLines>,
    /// Ticks since the start.
    pub(crate) tick: Cell<u32>,
    pub(crate) stats: Arc<Stats>,
    /// The layout in use.
    pub(crate) folding: RefCell<Arc<Folding>>,
    /// No request begins.
    pub(crate) paused: Cell<bool>,
    /// Work of the proxy's own by the layout, under way.
    pub(crate) busy_errands: Cell<usize>,
    /// What allows requests to begin at all.
    pub(crate) membership: Arc<Membership>,
    /// Clients that have gone while requests of theirs were under way.
    pub(crate) leaving: RefCell<Vec<Rc<Client>>>,
    server_tls: Option<Arc<Current<ClientConfig>>>,
    /// The last client has gone.
    empty: Notify,
}

/// What all workers have one of.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) membership: Arc<Membership>,
    pub(crate) everybody: Arc<Clients>,
    pub(crate) whereabouts: Option<Arc<Whereabouts>>,
    pub(crate) encoders: Arc<Encoders>,
    pub(crate) cache: Arc<Cache>,
}

impl Worker {
    pub(crate) fn new(
        config: Arc<Config>,
        server_tls: Option<Arc<Current<ClientConfig>>>,
        stats: Arc<Stats>,
        folding: Arc<Folding>,
        common: Common,
    ) -> Result<Self, getrandom::Error> {
        let Common { membership, everybody, whereabouts, encoders, cache } = common;
        Ok(Self {
            config,
            clock: Clock::new(),
            nonces: Nonces::new()?,
            encoders,
            cache,
            server: RefCell::default(),
            max_bulk_bytes: Cell::new(usize::MAX),
            lanes: Lanes::default(),
            kept_links: KeptLinks::default(),
            names: Names::default(),
            whereabouts,
            cluster: OnceCell::new(),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            clients: RefCell::default(),
            gathering: Gathering::default(),
            crowd: Crowd::default(),
            everybody,
            awaits_unpause: Cell::new(false),
            stopping: Cell::new(false),
            slow_lines: RefCell::default(),
            tick: Cell::new(0),
            stats,
            folding: RefCell::new(folding),
            paused: Cell::new(false),
            busy_errands: Cell::new(0),
            membership,
            leaving: RefCell::default(),
            server_tls,
            empty: Notify::new(),
        })
    }

    /// What the core takes from outside. The one place that knows what that is.
    pub(crate) fn with_env<R>(&self, body: impl FnOnce(&mut Env<'_>) -> R) -> R {
        let server = self.server.borrow();
        let folding = self.folding.borrow();
        let now_ms = self.set_now(Instant::now());
        let mut nonces = || self.nonces.draw();
        body(&mut Env {
            now_ms,
            nonces: &mut nonces,
            server: &server,
            layout: &folding.layout,
            stats: &folding.namespaces,
            users: &self.config.users,
            tracking: Some(self.everybody.tracking()),
            cache: self.cache.is_on().then_some(&*self.cache),
            cluster: self.cluster.get().map(|cluster| cluster.rules),
            newest_commands: self.config.newest_commands,
            encoded: None,
            is_followed: false,
            is_read: false,
        })
    }

    /// Says what time it is, once for all that has come together; the server's, in milliseconds since 1970.
    pub(crate) fn set_now(&self, now: Instant) -> i64 {
        let now_ms = self.clock.at(now);
        self.stats.set_now(now, now_ms);
        now_ms
    }

    /// Wakes this worker's clients when CLIENT PAUSE has ended by itself. (CLIENT UNPAUSE wakes them at once.)
    pub(crate) fn await_unpause(self: &Rc<Self>) {
        if self.awaits_unpause.replace(true) {
            return;
        }
        let worker = Rc::clone(self);
        spawn_local(async move {
            while let Some(left_ms) = worker.everybody.pause().left_ms(worker.clock.now_ms()) {
                // Looked at again from time to time: a pause may be made shorter, and the server's clock set.
                tokio::time::sleep(Duration::from_millis(left_ms.unsigned_abs()).min(TICK)).await;
            }
            worker.awaits_unpause.set(false);
            for (_, client) in worker.clients.borrow().iter() {
                client.wake();
            }
        });
    }

    /// Where the primary is that Sentinels name.
    pub(crate) async fn find_place(&self) -> Result<Endpoint, LinkError> {
        match &self.whereabouts {
            Some(whereabouts) => Ok(whereabouts.find().await?),
            // Nobody asks before a server that isn't behind Sentinels.
            None => Err(LinkError::Closed),
        }
    }

    /// Whether a connection to the server at `place` may be used still.
    pub(crate) fn check_place(&self, place: Option<&Endpoint>) -> Result<(), LinkError> {
        match (&self.whereabouts, place) {
            (Some(whereabouts), Some(place)) if whereabouts.has_left(place) => Err(LinkError::Demoted(place.clone())),
            _ => Ok(()),
        }
    }

    /// What clients are to take keyfold for.
    pub(crate) fn front(&self) -> Front {
        Front { before_cluster: self.cluster.get().is_some(), announced: self.config.announced.clone() }
    }

    /// Stands before a cluster from now on, of which this much is known.
    fn stand_before_cluster(self: &Rc<Self>) {
        let seeds = match &self.config.upstream.route {
            Route::Tcp { host, port, .. } => vec![Endpoint { host: host.clone(), port: *port }],
            Route::Cluster { seeds, .. } => seeds.clone(),
            Route::Unix(_) | Route::Sentinel { .. } => return,
        };
        let cluster = Rc::new(Cluster::new(seeds, &self.config));
        if self.cluster.set(Rc::clone(&cluster)).is_ok() {
            spawn_local(keep(Rc::clone(self), cluster));
            spawn_local(end_waits(Rc::clone(self)));
            for (_, client) in self.clients.borrow().iter() {
                client.set_front(self.front());
            }
        }
    }

    /// Waits until it may not.
    pub(crate) async fn until_left(&self, place: Option<&Endpoint>) -> LinkError {
        match (&self.whereabouts, place) {
            (Some(whereabouts), Some(place)) => {
                whereabouts.until_left(place).await;
                LinkError::Demoted(place.clone())
            }
            _ => std::future::pending().await,
        }
    }

    /// Something went wrong with a connection: where the primary is, is asked for anew.
    pub(crate) fn doubt_place(&self) {
        if let Some(whereabouts) = &self.whereabouts {
            whereabouts.doubt();
        }
    }

    /// How often there came to be a primary, or another, that Sentinels name.
    pub(crate) fn moves(&self) -> u64 {
        self.whereabouts.as_ref().map_or(0, |whereabouts| whereabouts.moves())
    }

    /// Waits before the next try to connect, for as long as there was no move since `before`.
    pub(crate) async fn rest(&self, pause: Duration, before: u64) {
        match &self.whereabouts {
            Some(whereabouts) => drop(tokio::time::timeout(pause, whereabouts.until_moved(before)).await),
            None => tokio::time::sleep(pause).await,
        }
    }

    /// How to speak TLS with the server.
    pub(crate) fn connector(&self) -> Result<TlsConnector, LinkError> {
        let missing = || LinkError::Tls(std::io::ErrorKind::Unsupported.into());
        self.server_tls.as_ref().map(|tls| TlsConnector::from(tls.now())).ok_or_else(missing)
    }

    pub(crate) fn forget_client(&self, key: usize) {
        let mut clients = self.clients.borrow_mut();
        if let Some(client) = clients.try_remove(key).filter(|client| !client.is_quiet()) {
            self.leaving.borrow_mut().push(client);
        }
        if clients.is_empty() {
            self.empty.notify_one();
        }
    }

    /// Holds requests back, and says once those under way are answered, or that they take too long.
    pub(crate) async fn pause(self: Rc<Self>, patience: Duration, done: oneshot::Sender<bool>) {
        self.paused.set(true);
        let quiet = async {
            while !self.is_quiet() {
                tokio::time::sleep(PAUSE_POLL).await;
            }
        };
        let _ = done.send(tokio::time::timeout(patience, quiet).await.is_ok());
    }

    /// Whether no request is under way that the layout has a part in, of clients that have gone either.
    fn is_quiet(&self) -> bool {
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|client| !client.is_quiet());
        self.busy_errands.get() == 0
            && leaving.is_empty()
            && self.clients.borrow().iter().all(|(_, client)| client.is_quiet())
    }

    /// Goes on, with another layout where there is one.
    pub(crate) fn resume(&self, next: Option<Arc<Folding>>) {
        if let Some(next) = next {
            self.everybody.tracking().follow_layout(&next.layout);
            self.clients.borrow().iter().for_each(|(_, client)| client.end_wait_for(&next.layout));
            *self.folding.borrow_mut() = next;
            self.cluster.get().into_iter().for_each(|cluster| cluster.follow_layout());
        }
        self.paused.set(false);
        for (_, client) in self.clients.borrow().iter() {
            client.wake();
        }
    }

    /// Writes of slow requests to the log what may be written.
    fn write_slow(&self, now: Instant) {
        let node_of = |slot| {
            let cluster = self.cluster.get()?;
            cluster.node_of(slot).map(|node| cluster.endpoint(node).to_string())
        };
        let report = self.stats.time.take();
        self.slow_lines.borrow_mut().write(&report, now, &self.folding.borrow().layout, node_of);
    }

    /// Looks after the connections to the server, writes what was slow, and says that the worker runs.
    fn check_lanes(&self) {
        let now = Instant::now();
        self.set_now(now);
        self.lanes.check(&self.config);
        self.write_slow(now);
        self.stats.beat();
        if let Some(meters) = &self.stats.meters {
            meters.lanes.set(self.lanes.gauges());
            meters.cluster.set(self.cluster.get().map(|cluster| cluster.gauges()).unwrap_or_default());
        }
    }

    /// Closes what timed out and trims what is idle.
    fn check_all(&self) {
        let tick = self.tick.get().saturating_add(1);
        self.tick.set(tick);
        self.everybody.sample_rate(self.clock.now_ms());
        let timeouts = &self.config.timeouts;
        let (idle, stall) = (ticks(timeouts.idle_client), ticks(timeouts.write_stall));
        let mut gauges = self.stats.meters.as_ref().map(|_| ClientGauges::default());
        for (_, client) in self.clients.borrow().iter() {
            client.check(tick, idle, stall);
            gauges.iter_mut().for_each(|gauges| client.note_in(gauges));
        }
        if let (Some(meters), Some(gauges)) = (&self.stats.meters, gauges) {
            meters.clients.set(gauges);
        }
        self.leaving.borrow_mut().retain(|client| !client.is_quiet());
        if tick.is_multiple_of(WARN_TICKS) {
            self.folding.borrow().warn_of_spills();
        }
    }
}

fn ticks(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX).max(u32::from(!timeout.is_zero()))
}

/// Runs a worker until the proxy has ended. Blocks its thread.
pub(crate) fn run(
    worker: Worker,
    orders: mpsc::UnboundedReceiver<Order>,
    phase: watch::Receiver<Phase>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    runtime.block_on(local.run_until(run_worker(Rc::new(worker), orders, phase)));
    drop(local);
    // A name may still be looked up in the background; nobody waits for it.
    runtime.shutdown_background();
    Ok(())
}

async fn run_worker(worker: Rc<Worker>, mut orders: mpsc::UnboundedReceiver<Order>, mut phase: watch::Receiver<Phase>) {
    spawn_local(look_after(Rc::clone(&worker)));
    if let Some(whereabouts) = &worker.whereabouts {
        spawn_local(follow(Rc::clone(&worker), Arc::clone(whereabouts)));
        if whereabouts.take_over() {
            spawn_local(look_out(Rc::clone(&worker), Arc::clone(whereabouts)));
        }
    }
    if worker.everybody.tracking().take_over() {
        spawn_local(hear_changes(Rc::clone(&worker)));
    }
    // The first clients shouldn't find a core that doesn't know its server yet. A server that is away holds
    // them up for no longer than the connect timeout.
    if matches!(worker.config.upstream.route, Route::Cluster { .. }) {
        worker.stand_before_cluster();
    }
    let mut clock = Errand::new(Rc::clone(&worker)).unchecked();
    let known = tokio::select! {
        known = look_first(&mut clock, &worker) => known,
        _ = phase.wait_for(|phase| *phase == Phase::Ended) => return,
    };
    spawn_local(keep_clock(clock, known, Rc::clone(&worker)));

    spawn_local(let_go(Rc::clone(&worker), phase.clone()));
    loop {
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase >= Phase::Draining) => break,
            order = orders.recv() => match order {
                Some(order) => spawn_order(order, &worker),
                None => break,
            },
        }
    }
    // What was handed over before the end is served too: its requests may have come already.
    while let Ok(order) = orders.try_recv() {
        spawn_order(order, &worker);
    }
    drain(&worker, &mut phase).await;
    worker.write_slow(Instant::now());
    worker.slow_lines.borrow_mut().end_window();
    worker.stats.note_ended();
}

fn spawn_order(order: Order, worker: &Rc<Worker>) {
    match order {
        Order::Serve(arrival) => {
            let worker = Rc::clone(worker);
            let Arrival { stream, seat } = arrival;
            spawn_local(async move {
                if let Some((socket, peer)) = greet(stream, seat.id, &worker.config).await {
                    client::serve(socket, peer, worker).await;
                }
                drop(seat);
            });
        }
        Order::Pause(patience, done) => drop(spawn_local(Rc::clone(worker).pause(patience, done))),
        Order::Resume(next) => worker.resume(next),
        Order::Run(task) => drop(spawn_local(task(Errand::new(Rc::clone(worker))))),
    }
}

/// Once another keyfold has taken over, closes each client that says nothing for a while and has nothing under way: it comes
/// back there.
async fn let_go(worker: Rc<Worker>, mut phase: watch::Receiver<Phase>) {
    if phase.wait_for(|phase| *phase > Phase::Running).await.is_err() {
        return;
    }
    loop {
        for (_, client) in worker.clients.borrow().iter() {
            client.let_go_if_idle();
        }
        tokio::time::sleep(IDLE_FOR).await;
    }
}

/// Waits until every client has its answers, or time is up.
async fn drain(worker: &Worker, phase: &mut watch::Receiver<Phase>) {
    // Connections that were handed over last have yet to become clients.
    tokio::task::yield_now().await;
    worker.stopping.set(true);
    for (_, client) in worker.clients.borrow().iter() {
        client.wake();
    }
    let emptied = async {
        while !worker.clients.borrow().is_empty() {
            worker.empty.notified().await;
        }
    };
    let shutdown = worker.config.timeouts.shutdown;
    tokio::select! {
        () = emptied => {}
        _ = phase.wait_for(|phase| *phase == Phase::Ended) => {}
        () = tokio::time::sleep(shutdown), if !shutdown.is_zero() => {
            let clients = worker.clients.borrow().len();
            tracing::warn!(clients, "closing clients whose requests were not answered within --shutdown-timeout");
        }
    }
}

async fn look_after(worker: Rc<Worker>) {
    let every = |period| {
        let mut ticker = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticker
    };
    let (mut clients, mut lanes) = (every(TICK), every(LANES_TICK));
    loop {
        tokio::select! {
            _ = clients.tick() => worker.check_all(),
            _ = lanes.tick() => worker.check_lanes(),
        }
    }
}

/// Leaves servers that are not the primary any more.
async fn follow(worker: Rc<Worker>, whereabouts: Arc<Whereabouts>) {
    let mut known = None;
    loop {
        known = whereabouts.until_news(known.as_ref()).await;
        worker.lanes.leave(&worker);
    }
}

/// Looks what server there is. One that proves to be a node of a cluster is asked for the others.
async fn look_first(clock: &mut Errand, worker: &Rc<Worker>) -> Result<(), LinkError> {
    match clock.sample_clock().await {
        Err(LinkError::Cluster) => {
            worker.stand_before_cluster();
            clock.sample_clock().await
        }
        looked => looked,
    }
}

/// Keeps the offset to the server's clock fresh, and tells the operator when the server goes and comes.
async fn keep_clock(mut errand: Errand, mut last: Result<(), LinkError>, worker: Rc<Worker>) {
    let server = &worker.config.upstream;
    let mut backoff = Backoff::default();
    let mut away = false;
    let mut before = worker.moves();
    loop {
        worker.stats.set_away(last.as_ref().err().map(ToString::to_string));
        let pause = match &last {
            Ok(()) => {
                if away {
                    tracing::info!(%server, "the server is back");
                }
                away = false;
                backoff = Backoff::default();
                CLOCK_INTERVAL
            }
            Err(reason) => {
                if !away {
                    tracing::warn!(%server, %reason, "the server is away; trying again");
                }
                away = true;
                backoff.next(worker.nonces.draw())
            }
        };
        worker.rest(pause, before).await;
        before = worker.moves();
        last = look_first(&mut errand, &worker).await;
    }
}
