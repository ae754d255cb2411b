//! Starts a proxy and ends it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use keyfold_core::cache::Cache;
use keyfold_core::clients::Clients;
use keyfold_core::layout::Layout;
use keyfold_core::stats::{Counts, Traffic};
use tokio::sync::{mpsc, watch};
use tokio_rustls::rustls::ClientConfig;

use crate::accepting::Accepting;
use crate::address::ListenAddress;
use crate::admin::{self, Entrance, Routes, Sources};
use crate::arrival::Room;
use crate::config::Config;
use crate::descriptors;
use crate::doors::{AdminDoor, Doors, refuse_open, refuse_open_to_operators, unix_path};
use crate::encoders::Encoders;
use crate::folding::Folding;
use crate::keeper;
use crate::listen;
use crate::membership::Membership;
use crate::observation::{self, Observations};
use crate::order::{Order, Task};
use crate::reload::Reloader;
use crate::service_manager::ServiceManager;
use crate::shutdown::{Phase, Signals, Stopper};
use crate::sockets::{RemoveOnDrop, SocketFiles, Sockets};
use crate::start_error::StartError;
use crate::stats::{Stats, Totals};
use crate::takeover::{Predecessor, READY_WITHIN, TakeoverError};
use crate::tls::{self, Current};
use crate::whereabouts::Whereabouts;
use crate::worker::{self, Common, Worker};
use crate::{dictionaries, eviction, peers, sweep};

/// How often it is looked whether this proxy can serve, before it takes over from another.
const READY_POLL: Duration = Duration::from_millis(5);

/// Why a running proxy ended otherwise than asked.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It never started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A thread ended by itself.
    #[error("a thread of the proxy died: {0}")]
    Thread(io::Error),
}

/// A proxy that runs. Dropping it ends it at once.
#[derive(Debug)]
pub struct Handle {
    addresses: Vec<ListenAddress>,
    admin: Option<ListenAddress>,
    stopper: Stopper,
    workers: Vec<mpsc::UnboundedSender<Order>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    room: Arc<Room>,
    stats: Vec<Arc<Stats>>,
    reloader: Reloader,
    /// What servers say of themselves, where operators ask.
    observations: Option<Arc<Observations>>,
    membership: Arc<Membership>,
    /// What is known of caches.
    cache: Arc<Cache>,
    /// What the core counts, by namespace.
    folding: watch::Receiver<Arc<Folding>>,
}

/// Starts a proxy on threads of its own, and returns once it listens.
///
/// # Errors
/// An address that can't be had or shouldn't be, a certificate of no use, no threads.
pub fn start(config: Config) -> Result<Handle, StartError> {
    start_with(config, Sockets::default())
}

/// The same with listening sockets that this process was started with. Where another keyfold hands over its own
/// ([`Config::takeover`]), it lets clients in until this one does.
///
/// # Errors
/// As [`start`]; and one of these sockets is none that the configuration names, or the other keyfold goes on.
pub fn start_with(config: Config, sockets: Sockets) -> Result<Handle, StartError> {
    let client_tls = config.client_tls.as_ref().map(tls::client_side).transpose()?.map(Current::new);
    let doors = Doors::open(&config, client_tls.as_ref(), sockets)?;
    let server_tls = match config.upstream.speaks_tls() {
        true => Some(Current::new(tls::server_side(&config.server_tls)?)),
        false => None,
    };
    let max_clients = descriptors::clients_within_limit(config.limits.max_clients);
    for address in doors.addresses() {
        tracing::info!(%address, server = %config.upstream, "listening");
    }
    let config = Arc::new(config);
    let (stopper, phase) = Stopper::new();
    let membership = Arc::new(Membership::new()?);
    let (folding_sender, folding) =
        watch::channel(Arc::new(Folding::new((*config.layout).clone(), config.read_only_in_doubt)));
    folding.borrow().namespaces.note_server(config.upstream.to_string());
    let room = Room::new(config.worker_count(), max_clients);
    let clients = Arc::new(Clients::default());
    clients.tracking().set_most_keys(config.limits.max_tracked_keys);
    clients.slow().keep_from(config.slow.kept_from);
    clients.slow().keep_most(config.slow.most_kept);
    clients.slow().tell_from(config.slow.logged_from);
    let admin_tls = doors.admin.as_ref().and_then(|admin| admin.tls.clone());
    let reloader = Reloader {
        config: Arc::clone(&config),
        clients,
        room: Arc::clone(&room),
        client_tls,
        admin_tls,
        server_tls: server_tls.clone(),
    };
    let observations = doors.admin.as_ref().map(|_| Arc::<Observations>::default());
    let mut handle = Handle {
        addresses: doors.addresses(),
        admin: doors.admin.as_ref().map(|admin| admin.door.address.clone()),
        stopper,
        workers: vec![],
        threads: vec![],
        room,
        stats: vec![],
        reloader,
        observations,
        membership: Arc::clone(&membership),
        folding,
        cache: Arc::new(Cache::new(config.cache.counters_bytes)),
    };
    // Each worker holds one end; the other one hears when all have ended.
    let (running, ended) = mpsc::channel(1);
    let whereabouts = config.upstream.sentinels().map(|_| Arc::new(Whereabouts::new()));
    let encoders = Encoders::new(config.encode_threads, config.worker_count());
    let common = Common {
        membership: Arc::clone(&membership),
        everybody: Arc::clone(&handle.reloader.clients),
        whereabouts,
        encoders: Arc::new(encoders),
        cache: Arc::clone(&handle.cache),
    };
    for _ in 0..config.worker_count() {
        handle.spawn_worker(&config, server_tls.clone(), phase.clone(), common.clone(), &running)?;
    }
    drop(running);
    let traffic = handle.stats.iter().map(|stats| Arc::clone(stats) as Arc<dyn Traffic>);
    handle.folding.borrow().namespaces.note_traffic(traffic.collect());
    handle.folding.borrow().namespaces.note_cache(Arc::clone(&handle.cache));
    handle.spawn_background(&config, &membership, folding_sender);
    handle.let_in(&config, doors, &membership, &phase, ended)?;
    Ok(handle)
}

/// What of the addresses that clients and operators are to come in at can't be listened on: asked before anything is changed for them.
/// Those that another keyfold may hand over aren't asked about.
pub fn check_addresses(config: &Config, sockets: &Sockets) -> Vec<StartError> {
    if config.takeover.is_some() {
        return Vec::new();
    }
    let taken = |address: &ListenAddress| (!sockets.has(address)).then(|| listen::is_free(address).err()).flatten();
    let of_clients = config
        .listen
        .iter()
        .filter_map(|address| taken(address).map(|source| StartError::Bind { address: address.clone(), source }));
    let of_operators =
        config.admin.as_ref().map(|admin| &admin.listen).and_then(|address| {
            taken(address).map(|source| StartError::BindAdmin { address: address.clone(), source })
        });
    of_clients.chain(of_operators).collect()
}

/// What would keep a proxy from starting, as far as files and the configuration say: certificates of no use, addresses that
/// anyone could come in at. Nothing is bound and nobody is connected to.
pub fn check(config: &Config) -> Vec<StartError> {
    let mut wrong: Vec<StartError> = Vec::new();
    wrong.extend(refuse_open(config).err());
    wrong.extend(config.admin.as_ref().and_then(|admin| refuse_open_to_operators(admin).err()));
    wrong.extend(config.client_tls.as_ref().and_then(|tls| tls::client_side(tls).err()).map(StartError::from));
    let needs_certificate = |address: &ListenAddress| matches!(address, ListenAddress::Tls(_));
    if config.client_tls.is_none() {
        let lacking = config.listen.iter().chain(config.admin.as_ref().map(|admin| &admin.listen));
        wrong.extend(
            lacking
                .filter(|address| needs_certificate(address))
                .map(|address| StartError::Bind { address: address.clone(), source: listen::no_certificate() }),
        );
    }
    let of_operators = config.admin.as_ref().filter(|admin| needs_certificate(&admin.listen));
    // What both show is told of already.
    let of_operators = of_operators.and_then(|admin| admin.tls.as_ref()).filter(|tls| tls.client_ca.is_some());
    if config.client_tls.as_ref().is_none_or(|tls| tls::client_side(tls).is_ok()) {
        wrong.extend(of_operators.and_then(|tls| tls::client_side(tls).err()).map(StartError::from));
    }
    if config.upstream.speaks_tls() {
        wrong.extend(tls::server_side(&config.server_tls).err().map(StartError::from));
    }
    wrong
}

/// Runs a proxy until SIGTERM or SIGINT: the first lets every accepted request be answered, the second ends
/// at once.
///
/// # Errors
/// It didn't start, or died.
pub fn serve(config: Config) -> Result<(), ServeError> {
    let handle = start(config)?;
    handle.follow_signals().map_err(StartError::Thread)?;
    let ended = handle.join();
    tracing::info!("stopped");
    ended
}

/// The addresses in a word, for the answers to a change.
fn shown(addresses: &[ListenAddress]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl Handle {
    /// Where it listens, with the ports that port 0 got, in the order of the configuration.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// Where operators come in, with the port that port 0 got.
    pub fn admin_address(&self) -> Option<&ListenAddress> {
        self.admin.as_ref()
    }

    /// What it has counted so far.
    pub fn totals(&self) -> Totals {
        Totals {
            requests: self.stats.iter().map(|stats| stats.requests()).sum(),
            clients: self.room.taken(),
            refused: self.room.refused(),
        }
    }

    /// Tells the service manager that clients can connect, and then how it fares until it has ended.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn tell(&self, manager: ServiceManager) -> io::Result<()> {
        let phase = self.stopper.phase();
        let sources = self.sources(Arc::clone(&self.membership), phase.clone(), Arc::default(), None);
        manager.follow(sources, phase, self.reloader.config.timeouts.shutdown)
    }

    /// The layout that is served.
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.folding.borrow().layout)
    }

    /// The same from time to time, for another thread.
    pub fn layouts(&self) -> impl Fn() -> Arc<Layout> + Send + 'static {
        let folding = self.folding.clone();
        move || Arc::clone(&folding.borrow().layout)
    }

    /// What each namespace's keys went through so far, in the order of the layout.
    pub fn namespaces(&self) -> Vec<Counts> {
        let folding = Arc::clone(&self.folding.borrow());
        folding.layout.iter().map(|(index, _)| folding.namespaces.namespace(index).counts()).collect()
    }

    /// What is known of the cache before the server, where it is one.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Runs a task in the background of the first worker, given a connection to the server of its own. It is
    /// dropped when the proxy ends.
    pub fn spawn(&self, task: Task) {
        if let Some(worker) = self.workers.first() {
            let _ = worker.send(Order::Run(task));
        }
    }

    /// Ends the proxy by SIGTERM or SIGINT: the first lets every accepted request be answered, the second
    /// ends at once. Whatever comes after this returns is followed; [`join`](Self::join) waits.
    ///
    /// # Errors
    /// The system gives no handler or no thread.
    pub fn follow_signals(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::new()?
        };
        let stopper = self.stopper.clone();
        // The thread waits for a second signal that need not come; it ends with the program.
        std::thread::Builder::new()
            .name("keyfold-signals".to_owned())
            .spawn(move || runtime.block_on(signals.follow(stopper)))?;
        Ok(())
    }

    /// What another thread can replace parts of the proxy by.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// What another thread can end the proxy by.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Begins the end: no more clients, no more requests, and every accepted one is answered, as far as the
    /// shutdown timeout allows. Returns at once; [`join`](Self::join) waits.
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// Ends at once, whatever is under way.
    pub fn abort(&self) {
        self.stopper.advance(Phase::Ended);
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// A thread died.
    pub fn join(mut self) -> Result<(), ServeError> {
        self.threads.drain(..).try_for_each(|thread| {
            let panicked = |_| io::Error::other("it panicked");
            thread.join().map_err(panicked).flatten().map_err(ServeError::Thread)
        })
    }

    fn spawn_worker(
        &mut self,
        config: &Arc<Config>,
        server_tls: Option<Arc<Current<ClientConfig>>>,
        phase: watch::Receiver<Phase>,
        common: Common,
        running: &mpsc::Sender<Infallible>,
    ) -> Result<(), StartError> {
        let (sender, orders) = mpsc::unbounded_channel();
        let stats = Arc::new(Stats::new(config.admin.is_some()));
        let running = running.clone();
        let (config, counted) = (Arc::clone(config), Arc::clone(&stats));
        let folding = Arc::clone(&self.folding.borrow());
        let thread = std::thread::Builder::new().name(format!("keyfold-{}", self.workers.len())).spawn(move || {
            let _running = running;
            // Made on its thread, where it stays: a worker holds what can't move to another.
            let worker = Worker::new(config, server_tls, counted, folding, common).map_err(io::Error::other)?;
            worker::run(worker, orders, phase)
        })?;
        self.workers.push(sender);
        self.threads.push(thread);
        self.stats.push(stats);
        Ok(())
    }

    /// Has the first worker do what is done beside clients' requests.
    fn spawn_background(
        &self,
        config: &Arc<Config>,
        membership: &Arc<Membership>,
        folding: watch::Sender<Arc<Folding>>,
    ) {
        let who = format!("pid:{},listen:{}", std::process::id(), shown(&self.addresses));
        let (kinds, secrets) = (config.codecs.clone(), config.secrets.clone());
        self.spawn(keeper::keep(Arc::clone(membership), who, self.workers.clone(), folding, kinds, secrets));
        self.spawn(dictionaries::keep());
        if let Some(announced) = &config.announced {
            self.spawn(peers::watch(Arc::clone(announced)));
        }
        self.spawn(eviction::keep(Arc::clone(config), Arc::clone(&self.cache)));
        if config.sweep.fields_per_second > 0 {
            self.spawn(sweep::walk(Arc::clone(config), self.observations.clone()));
            self.spawn(sweep::remove_due());
        }
        if let Some(observations) = &self.observations {
            self.spawn(observation::observe(Arc::clone(observations)));
            self.spawn(observation::observe_move(Arc::clone(observations)));
        }
    }

    /// Lets operators and clients in; where they come in by another keyfold so far, once this one can serve them.
    fn let_in(
        &mut self,
        config: &Config,
        mut doors: Doors,
        membership: &Arc<Membership>,
        phase: &watch::Receiver<Phase>,
        ended: mpsc::Receiver<Infallible>,
    ) -> Result<(), StartError> {
        let predecessor = doors.predecessor.take();
        if let Some((predecessor, _)) = &predecessor {
            wait_until_ready(membership, predecessor)?;
        }
        if let (Some(admin), Some(observations)) = (doors.admin.take(), self.observations.clone()) {
            let sources =
                self.sources(Arc::clone(membership), phase.clone(), observations, admin.config.usd_per_gb_month);
            let entrance = Entrance::of(&admin.door.address, admin.config.token.clone());
            let routes = Routes::new(sources, entrance, admin.config.sample_every);
            let file = remove_on_drop(&doors.files, [&admin.door.address]);
            self.spawn_admin(admin, file, routes, phase.clone(), doors.operators_left.clone(), ended)?;
        }
        self.spawn_acceptor(doors, phase.clone(), config)?;
        if let Some((predecessor, on)) = predecessor {
            predecessor.relieve(on);
        }
        Ok(())
    }

    /// All that operators see.
    fn sources(
        &self,
        membership: Arc<Membership>,
        phase: watch::Receiver<Phase>,
        observations: Arc<Observations>,
        usd_per_gb_month: Option<f64>,
    ) -> Sources {
        let (stats, room, folding) = (self.stats.clone(), Arc::clone(&self.room), self.folding.clone());
        let started = SystemTime::now();
        Sources { stats, room, folding, membership, phase, observations, started, usd_per_gb_month }
    }

    /// Lets operators in until all workers have ended: they want to see a proxy that ends, too.
    fn spawn_admin(
        &mut self,
        admin: AdminDoor,
        file: RemoveOnDrop,
        routes: Arc<Routes>,
        phase: watch::Receiver<Phase>,
        left: watch::Receiver<bool>,
        ended: mpsc::Receiver<Infallible>,
    ) -> Result<(), StartError> {
        tracing::info!(address = %admin.door.address, "operators are let in");
        let thread = std::thread::Builder::new().name("keyfold-admin".to_owned()).spawn(move || {
            let _file = file;
            admin::run(admin.door.listener, &routes, phase, left, ended)
        })?;
        self.threads.push(thread);
        Ok(())
    }

    fn spawn_acceptor(
        &mut self,
        doors: Doors,
        phase: watch::Receiver<Phase>,
        config: &Config,
    ) -> Result<(), StartError> {
        let Doors { clients, giver, files, .. } = doors;
        let paths = clients.iter().map(|door| &door.address);
        let takeover = config.takeover.clone().map(ListenAddress::Unix);
        let files = remove_on_drop(&files, paths.chain(&takeover));
        let listeners = clients.into_iter().map(|door| door.listener).collect();
        let accepting = Accepting {
            listeners,
            giver,
            room: Arc::clone(&self.room),
            workers: self.workers.clone(),
            stopper: self.stopper.clone(),
            phase,
            drain: config.timeouts.drain,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("keyfold-accept".to_owned());
        let thread = thread.spawn(move || runtime.block_on(accepting.run(files)))?;
        self.threads.push(thread);
        Ok(())
    }
}

/// Files of unix sockets that are removed once they are of no use, unless they are another keyfold's by then.
fn remove_on_drop<'a>(
    files: &Arc<SocketFiles>,
    addresses: impl IntoIterator<Item = &'a ListenAddress>,
) -> RemoveOnDrop {
    RemoveOnDrop { files: Arc::clone(files), paths: addresses.into_iter().filter_map(unix_path).collect() }
}

/// Waits until clients would be served here.
fn wait_until_ready(membership: &Membership, predecessor: &Predecessor) -> Result<(), TakeoverError> {
    let began = Instant::now();
    while !membership.is_serving() {
        if began.elapsed() > READY_WITHIN {
            let why = membership.trouble();
            let why = why.map_or_else(|| "the server says nothing of the layout".to_owned(), |why| why.to_string());
            return Err(predecessor.is_kept(why));
        }
        std::thread::sleep(READY_POLL);
    }
    Ok(())
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.abort();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
