//! What the proxy can be told, with every default in one place.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use keyfold_core::access::Users;
use keyfold_core::cluster::{AddressMap, Announced, ReadFrom};
use keyfold_core::codec::Kinds;
use keyfold_core::layout::{CacheRules, Layout};
use keyfold_core::placement::Secrets;
use keyfold_core::resp::RequestLimits;
use keyfold_core::session::Patience;
use keyfold_core::slowlog::SlowLog;

use crate::address::{ListenAddress, ServerAddress};
use crate::token::AdminToken;

/// How far replicas may lag that are read from.
pub const DEFAULT_MAX_REPLICA_LAG: Duration = Duration::from_secs(20);

/// Everything the proxy needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients come in (`--listen`).
    pub listen: Vec<ListenAddress>,
    /// The server behind (`--upstream`).
    pub upstream: ServerAddress,
    /// Where servers are that Sentinels name where nobody can reach them from here (`--map-address`).
    pub addresses: Arc<AddressMap>,
    /// Worker threads (`--threads`); none: one on up to two cores, else half the cores, at most four.
    pub threads: Option<NonZero<usize>>,
    /// Threads that encode large values (`--encode-threads`), 0 for none; not said: as many as there are processors without a
    /// worker, at least one and at most as many as workers.
    pub encode_threads: Option<usize>,
    /// The certificate shown on `tls://` listeners.
    pub client_tls: Option<ClientTls>,
    /// How the server's certificate is checked.
    pub server_tls: ServerTls,
    /// Where operators come in; none where they don't.
    pub admin: Option<Admin>,
    /// Where the next keyfold asks for this one's listening sockets, and this one for those of the one before
    /// (`--takeover`): the path of a unix socket.
    pub takeover: Option<PathBuf>,
    /// Which keys are folded, and how.
    pub layout: Arc<Layout>,
    /// The codecs that are known; `layout` is open already, as far as it can be.
    pub codecs: Kinds,
    /// The secrets that namespaces may be keyed by.
    pub secrets: Secrets,
    /// Who may come in.
    pub users: Arc<Users>,
    /// Listen beyond loopback even where clients needn't authenticate (`--allow-open`).
    pub allow_open: bool,
    /// Bounds on what clients may take.
    pub limits: Limits,
    /// Which requests are slow, and what becomes of them.
    pub slow: Slow,
    /// Bounds on waiting.
    pub timeouts: Timeouts,
    /// How what has expired is removed.
    pub sweep: Sweeping,
    /// How caches are kept within their memory.
    pub cache: Caching,
    /// The keyfolds that clients are told of as nodes of a cluster (`--announce`).
    pub announced: Option<Arc<Announced>>,
    /// Before a cluster: carry out MSET of several slots slot by slot (`--split-writes`). Others may then see some of its
    /// keys written and some not.
    pub split_writes: bool,
    /// Folded keys know the string and key commands of later servers than the one behind (`--newest-commands`).
    pub newest_commands: bool,
    /// Before a cluster: which nodes reads go to (`--read-from`).
    pub read_from: ReadFrom,
    /// A replica that lags by more is not read from (`--max-replica-lag`). By default somewhat longer than clusters take to
    /// replace a primary (`cluster-node-timeout` is 15 seconds), so that reads go on meanwhile.
    pub max_replica_lag: Duration,
    /// Refuse writes while the layout was put back and it isn't known where its keys lie (`--read-only-in-doubt`).
    pub read_only_in_doubt: bool,
}

impl Config {
    /// A proxy for `upstream` that folds by `layout` and listens nowhere yet; clients need no password.
    pub fn new(upstream: ServerAddress, layout: Layout) -> Self {
        Self {
            listen: Vec::new(),
            upstream,
            addresses: Arc::default(),
            threads: None,
            encode_threads: None,
            client_tls: None,
            server_tls: ServerTls::default(),
            admin: None,
            takeover: None,
            layout: Arc::new(layout),
            codecs: Kinds::default(),
            secrets: Secrets::default(),
            users: Arc::new(Users::open()),
            allow_open: false,
            limits: Limits::default(),
            slow: Slow::default(),
            timeouts: Timeouts::default(),
            sweep: Sweeping::default(),
            cache: Caching::default(),
            announced: None,
            split_writes: false,
            newest_commands: true,
            read_from: ReadFrom::Primary,
            max_replica_lag: DEFAULT_MAX_REPLICA_LAG,
            read_only_in_doubt: false,
        }
    }

    /// How many workers run.
    pub fn worker_count(&self) -> usize {
        self.threads.map_or_else(default_workers, NonZero::get)
    }
}

/// The server and the clients need cores too: half of them go to the proxy, and past four it is the server,
/// which runs commands on one thread, that is busy.
fn default_workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    if cores <= 2 { 1 } else { (cores / 2).min(4) }
}

/// Bounds on what clients may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Clients at one time (`--max-clients`); one more is told so and closed. As in Redis.
    pub max_clients: usize,
    /// How large a request may be (`--max-request-bytes`).
    pub request: RequestLimits,
    /// Requests of one client that may be under way (`--max-in-flight`); past it the client isn't read from.
    pub max_in_flight: usize,
    /// Answer bytes that may wait for one client before it isn't read from any more.
    pub answer_high_water_bytes: usize,
    /// Answer bytes that may wait for one client at all (`--max-queued-answer-bytes`); past it, it is closed.
    pub max_queued_answer_bytes: usize,
    /// Command bytes that may wait for one connection to the server; past it, no client begins a request there.
    pub server_high_water_bytes: usize,
    /// Connections that had a client to themselves and are kept for the next, in each worker; more than these are
    /// closed after some seconds without one.
    pub idle_server_connections: usize,
    /// Keys that are remembered for clients that cache them (`--max-tracked-keys`); one more puts others out, whose readers
    /// are told to forget them. As a server's `tracking-table-max-keys`.
    pub max_tracked_keys: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_clients: 10_000,
            request: RequestLimits::default(),
            max_in_flight: 1024,
            answer_high_water_bytes: 1 << 20,
            max_queued_answer_bytes: 256 << 20,
            server_high_water_bytes: 4 << 20,
            idle_server_connections: 16,
            max_tracked_keys: 1_000_000,
        }
    }
}

/// Which requests are slow. Those that wait for what other clients do, such as BLPOP, never are.
#[derive(Clone, Debug)]
pub struct Slow {
    /// SLOWLOG keeps requests that take so long (`--slowlog-slower-than`); none: none. As in Redis.
    pub kept_from: Option<Duration>,
    /// It keeps so many (`--slowlog-max-len`). As in Redis.
    pub most_kept: usize,
    /// The log has a line for each that takes so long (`--log-slow`); none: for none.
    pub logged_from: Option<Duration>,
}

impl Default for Slow {
    fn default() -> Self {
        Self { kept_from: Some(SlowLog::KEEPS_FROM), most_kept: SlowLog::MOST_ENTRIES, logged_from: None }
    }
}

/// Bounds on waiting. Zero stands for *no bound* where that is said.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// To connect to the server, TLS and greeting included (`--connect-timeout`).
    pub connect: Duration,
    /// For the server to answer a request whose turn has come (`--server-timeout`); zero: for ever. A connection
    /// that is silent for longer is given up, and those whose requests were on it are told.
    ///
    /// With what passes until that is noticed, a client waits for two seconds at most by default.
    pub server: Duration,
    /// The same for commands that may keep the server busy (`--slow-timeout`): scripts, KEYS, FLUSHALL, SORT, and
    /// commands that keyfold doesn't know. A command that blocks has its own time and the server timeout.
    pub slow: Duration,
    /// For a client to say something (`--idle-timeout`); zero: for ever, as in Redis.
    pub idle_client: Duration,
    /// For a client to take any byte of the answers that wait for it (`--write-timeout`); zero: for ever.
    pub write_stall: Duration,
    /// For a client's TLS handshake.
    pub handshake: Duration,
    /// For the requests under way to be answered at a shutdown (`--shutdown-timeout`). Zero: for as long as they take.
    pub shutdown: Duration,
    /// For clients to become idle once another keyfold has taken over (`--drain-timeout`); then as at a shutdown. Zero: for
    /// ever.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            server: Duration::from_millis(1500),
            slow: Duration::from_secs(60),
            idle_client: Duration::ZERO,
            write_stall: Duration::from_secs(60),
            handshake: Duration::from_secs(10),
            shutdown: Duration::from_secs(10),
            drain: Duration::from_secs(30),
        }
    }
}

impl Timeouts {
    /// How long the server may be silent over a request; none: for ever.
    pub(crate) fn silence(&self, patience: Patience) -> Option<Duration> {
        let bound = |limit: Duration| (!limit.is_zero()).then_some(limit);
        match patience {
            Patience::Prompt => bound(self.server),
            Patience::Slow => bound(self.slow),
            Patience::Blocks(ms) => bound(self.server)?.checked_add(Duration::from_millis(ms?)),
        }
    }
}

/// How the sweep goes about it.
#[derive(Clone, Debug)]
pub struct Sweeping {
    /// Fields looked at in a second (`--sweep-rate`); zero: none, for where another proxy does it.
    pub fields_per_second: u32,
    /// Rest between two walks over the keyspace.
    pub pause: Duration,
}

impl Default for Sweeping {
    fn default() -> Self {
        Self { fields_per_second: 20_000, pause: Duration::from_secs(10) }
    }
}

/// How caches are kept within their memory.
#[derive(Clone, Debug)]
pub struct Caching {
    /// By which rules (`--max-memory`, `--evict`, `--evict-plain-keys`); none: the layout's.
    pub rules: Option<CacheRules>,
    /// What the counters take that know how often keys are asked for, at most (`--evict-counters`).
    pub counters_bytes: u64,
}

impl Default for Caching {
    fn default() -> Self {
        Self { rules: None, counters_bytes: 64 << 20 }
    }
}

/// What `tls://` listeners show and ask.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// The certificate chain, PEM (`--tls-cert`).
    pub cert: PathBuf,
    /// Its key, PEM (`--tls-key`).
    pub key: PathBuf,
    /// Clients have to show a certificate that this authority signed, PEM (`--tls-client-ca`).
    pub client_ca: Option<PathBuf>,
}

/// Where operators come in, and what they have to show.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Where (`--admin`).
    pub listen: ListenAddress,
    /// The token of whoever may ask (`--admin-token-file`); none: they need none.
    pub token: Option<AdminToken>,
    /// What `tls://` shows and asks; the authority is that of operators' certificates (`--admin-client-ca`).
    pub tls: Option<ClientTls>,
    /// What a gigabyte (10⁹ bytes) of the server's memory costs a month, in US dollars (`--usd-per-gb-month`); none: what is
    /// saved is told in bytes alone.
    pub usd_per_gb_month: Option<f64>,
    /// How often the history takes a sample. It keeps 360 of them: the last hour.
    pub sample_every: Duration,
}

impl Admin {
    /// Operators come in at this address, and need to show nothing.
    pub fn at(listen: ListenAddress) -> Self {
        Self { listen, token: None, tls: None, usd_per_gb_month: None, sample_every: Duration::from_secs(10) }
    }
}

/// How a server behind `rediss://` is checked, and what it is shown.
#[derive(Clone, Debug, Default)]
pub struct ServerTls {
    /// The authority that signed its certificate, PEM (`--upstream-ca`); none: those of the system.
    pub ca: Option<PathBuf>,
    /// A certificate chain and its key to show, both PEM (`--upstream-cert`, `--upstream-key`).
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Take any certificate (`--upstream-insecure`): encrypted, but no proof of whom one talks to.
    pub insecure: bool,
}
