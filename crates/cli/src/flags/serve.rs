//! `keyfold serve`.

use std::net::Ipv4Addr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use keyfold_core::cluster::{Endpoint, ReadFrom};
use keyfold_core::layout::{CachePolicy, MaxMemory};
use keyfold_proxy::address::{AddressError, ListenAddress};
use keyfold_proxy::config::{DEFAULT_MAX_REPLICA_LAG, Limits, Slow, Sweeping, Timeouts};

use super::footer::footer;
use super::units::{Bytes, Threshold, Wait};
use super::upstream::{SettingsFlags, UpstreamFlags};

const ABOUT: &str = "\
Run the proxy.

Clients connect to keyfold as they would to the server. Without a URL, keyfold starts a valkey-server
or redis-server of its own behind it, which nobody else can reach, and stops it when it ends.

Each address is printed as a line `listening on ADDRESS` once clients can connect, and the operators' one as
`admin on ADDRESS`. SIGTERM and SIGINT let
every accepted request be answered; a second one ends at once.";

/// The one password of all clients.
pub(crate) const PASSWORD_VARIABLE: &str = "KEYFOLD_PASSWORD";

const URL_HELP: &str = "The server: redis://[user:password@]host:port[/db], rediss://… for TLS, unix:///path[?db=n], \
    cluster://[user:password@]host:port,host:port for a cluster (redis:// finds out by itself), or \
    sentinel://[user:password@]host:port,host:port/NAME[/db] for the primary that Sentinels name [default: one of \
    keyfold's own]";

const LISTEN_HELP: &str = "Where clients come in; may be repeated: 127.0.0.1:6379, tls://[::1]:6380, unix:/path. \
    Port 0 takes a free one";

const ADMIN_HELP: &str = "Where metrics (/metrics), health (/livez, /readyz), /status and a page to watch (/) are asked \
    for by HTTP: a port of 127.0.0.1, 10.0.0.1:9379, tls://[::1]:9379, unix:/path. Port 0 takes a free one \
    (docs/metrics.md, docs/watching.md)";

const EXAMPLES: &str = "\
Examples:
  keyfold serve --layout layout.toml
      on 127.0.0.1:6379, before a server of its own that keeps nothing
  keyfold serve --layout layout.toml --data /var/lib/keyfold
      the same, and the data is on disk
  keyfold serve --layout layout.toml --listen 127.0.0.1:6380 --upstream redis://127.0.0.1:6379
      before a server that runs already
  keyfold serve --upstream sentinel://10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379/main
      before the primary that Sentinels name, whichever that is (docs/sentinel.md)
  KEYFOLD_PASSWORD=… keyfold serve --listen tls://0.0.0.0:6380 --tls-cert cert.pem --tls-key key.pem
      for other machines
  keyfold serve --config /etc/keyfold/keyfold.toml
      by a file (docs/configuration.md); --check says whether it is right
  keyfold serve --upstream redis://127.0.0.1:6379 --listen 127.0.0.1:6380 --admin 9379
      with a page to watch at http://127.0.0.1:9379/, metrics at /metrics, and /readyz for who sends clients

Exit codes:
  0  stopped as asked
  1  did not start, or died; the reason is on stderr
  2  the command line is wrong
  --check ends with 0 where all is right, and with 1 where anything is not";

#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = footer(EXAMPLES), mut_arg("url", |url| url.help(URL_HELP)))]
pub(crate) struct ServeFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// The server's password: the file's first line, where the URL has none
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "server"])]
    pub(crate) upstream_password_file: Option<PathBuf>,

    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379", help = LISTEN_HELP)]
    pub(crate) listen: Vec<ListenAddress>,

    /// Take the listening sockets of the keyfold that runs with the same path, once this one can serve, and give them to the
    /// next one: a restart without a gap (docs/operating.md)
    #[arg(long, value_name = "PATH", conflicts_with_all = ["data", "server"])]
    pub(crate) takeover: Option<PathBuf>,

    /// Which keys are folded, and how; what the server's own layout lacks is added to it [default: the
    /// layout that the server has]
    #[arg(long, value_name = "FILE")]
    pub(crate) layout: Option<PathBuf>,

    /// Fields of buckets looked at in a second to remove what has expired; 0 where another keyfold does it
    #[arg(long, value_name = "N", default_value_t = Sweeping::default().fields_per_second)]
    pub(crate) sweep_rate: u32,

    /// Refuse writes while the layout, which was lost and put back, is in doubt: until a walk has found where its
    /// keys lie
    #[arg(long)]
    pub(crate) read_only_in_doubt: bool,

    /// Whether folded keys know the string and key commands of later servers, such as SET IFEQ, MSETEX and INCREX
    /// (docs/differences.md); off: what the server behind knows
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = parse_on_off, action = ArgAction::Set)]
    pub(crate) newest_commands: bool,

    /// Where clients that know clusters reach this keyfold: to them it is a cluster's node. Given again for each other
    /// keyfold, they share the slots among themselves
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) announce: Vec<Endpoint>,

    /// Before a cluster, carry out MSET of several slots slot by slot. Others may then see some of its keys written
    /// and some not; without this it is answered with CROSSSLOT
    #[arg(long)]
    pub(crate) split_writes: bool,

    /// Before a cluster, which nodes reads go to: primary; replica, where one is fit; or nearest, whichever of both
    /// answers soonest. What a replica answers may be old
    #[arg(long, value_name = "NODES", default_value_t = ReadFrom::Primary, value_parser = parse_read_from)]
    pub(crate) read_from: ReadFrom,

    /// A replica that lags behind its primary by more is not read from
    #[arg(long, value_name = "TIME", default_value_t = Wait(DEFAULT_MAX_REPLICA_LAG), value_parser = above_zero)]
    pub(crate) max_replica_lag: Wait,

    /// Don't look whether keys of new namespaces are on the server already. Such keys become invisible
    #[arg(long)]
    pub(crate) skip_key_check: bool,

    /// Worker threads [default: 1 on up to two cores, else half the cores, at most 4]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZero<usize>>,

    /// Threads that encode large values for a codec, so that other clients don't wait for that; 0: workers do it [default: the
    /// processors without a worker, at least 1, at most as many as workers]
    #[arg(long, value_name = "N")]
    pub(crate) encode_threads: Option<usize>,

    #[command(flatten)]
    pub(crate) configuration: ConfigurationFlags,

    #[command(flatten)]
    pub(crate) log: LogFlags,

    #[command(flatten)]
    pub(crate) server: ServerFlags,

    #[command(flatten)]
    pub(crate) access: AccessFlags,

    #[command(flatten)]
    pub(crate) admin: AdminFlags,

    #[command(flatten)]
    pub(crate) settings: SettingsFlags,

    #[command(flatten)]
    pub(crate) limits: LimitFlags,

    #[command(flatten)]
    pub(crate) cache: CacheFlags,

    #[command(flatten)]
    pub(crate) slow: SlowFlags,

    #[command(flatten)]
    pub(crate) timeouts: TimeoutFlags,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Configuration file")]
pub(crate) struct ConfigurationFlags {
    /// A file that sets options, each by its name without the dashes. What is typed wins over the environment, and that
    /// over the file (docs/configuration.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Read the file and all files that are named, say what is wrong, and end; nothing is connected to
    #[arg(long)]
    pub(crate) check: bool,

    /// Print every option as such a file, with where its value comes from, and end
    #[arg(long, conflicts_with = "check")]
    pub(crate) print_config: bool,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogFlags {
    /// How the log is written: as text, or as JSON, an object a line
    #[arg(long, value_name = "text|json", default_value = "text", hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Server of keyfold's own")]
pub(crate) struct ServerFlags {
    /// Without a URL: where keyfold's own server keeps its data [default: nowhere; all is gone at the
    /// end]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "upstream"])]
    pub(crate) data: Option<PathBuf>,

    /// Without a URL: the server to start [default: valkey-server or redis-server on PATH]
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["url", "upstream"])]
    pub(crate) server: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessFlags {
    /// The users, as in Redis's ACL file: `user app on >secret ~session:* +@all`
    #[arg(long, value_name = "FILE", conflicts_with = "password_file")]
    pub(crate) users: Option<PathBuf>,

    /// One password for all clients: the file's first line [or the environment's KEYFOLD_PASSWORD]
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,

    /// Listen beyond this machine even where clients need no password
    #[arg(long)]
    pub(crate) allow_open: bool,

    /// The certificate chain that tls:// addresses show, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The key of that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Clients on tls:// have to show a certificate that this authority signed, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Operators' address")]
pub(crate) struct AdminFlags {
    #[arg(long, value_name = "ADDRESS", value_parser = parse_admin, help = ADMIN_HELP)]
    pub(crate) admin: Option<ListenAddress>,

    /// Who asks for more than health has to show this token, as Bearer or, in a browser, as the password of any user: the
    /// file's first line
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// Who asks on tls:// has to show a certificate that this authority signed, PEM; the address shows that of
    /// --tls-cert
    #[arg(long, value_name = "FILE", requires_all = ["admin", "tls_cert"])]
    pub(crate) admin_client_ca: Option<PathBuf>,

    /// What a gigabyte (10⁹ bytes) of the server's memory costs a month, in US dollars: the page says what is saved in
    /// money too
    #[arg(long, value_name = "USD", requires = "admin", value_parser = parse_price)]
    pub(crate) usd_per_gb_month: Option<f64>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitFlags {
    /// Clients at one time
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_clients)]
    pub(crate) max_clients: usize,

    /// Bytes of one request
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(Limits::default().request.max_request_bytes))]
    pub(crate) max_request_bytes: Bytes,

    /// Bytes of one argument of a request
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(Limits::default().request.max_bulk_bytes))]
    pub(crate) max_argument_bytes: Bytes,

    /// Arguments of one request
    #[arg(long, value_name = "N", default_value_t = Limits::default().request.max_args)]
    pub(crate) max_arguments: usize,

    /// Requests of one client under way; past it the client isn't read from
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_in_flight)]
    pub(crate) max_in_flight: usize,

    /// Answer bytes that may wait for one client before it isn't read from
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(Limits::default().answer_high_water_bytes))]
    pub(crate) answer_high_water_bytes: Bytes,

    /// Answer bytes that may wait for one client at all; past it, it is closed
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(Limits::default().max_queued_answer_bytes))]
    pub(crate) max_queued_answer_bytes: Bytes,

    /// Command bytes that may wait for one connection to the server; past it no request begins there
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(Limits::default().server_high_water_bytes))]
    pub(crate) server_high_water_bytes: Bytes,

    /// Connections that had a client to themselves and are kept for the next, in each worker
    #[arg(long, value_name = "N", default_value_t = Limits::default().idle_server_connections)]
    pub(crate) idle_server_connections: usize,

    /// Keys that are remembered for clients that cache them; past it others are put out, and told
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_tracked_keys)]
    pub(crate) max_tracked_keys: usize,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Cache (docs/caches.md)")]
pub(crate) struct CacheFlags {
    /// Keep each server within so much memory, by removing the keys that are worth the least before it evicts whole buckets:
    /// 4gb, or a share of its maxmemory, 90% [default: what the layout's cache table says]
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_memory: Option<MaxMemory>,

    /// By what it is chosen which keys leave: tinylfu, those that were asked for least often lately
    #[arg(long, value_name = "POLICY", default_value_t = CachePolicy::default())]
    pub(crate) evict: CachePolicy,

    /// Remove plain keys too, as far as clients ask for them through keyfold
    #[arg(long, requires = "max_memory")]
    pub(crate) evict_plain_keys: bool,

    /// What keyfold itself takes, at most, to know how often keys are asked for: 5 to 6 bytes for each key that is held
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(64 << 20))]
    pub(crate) evict_counters: Bytes,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Slow requests (500us, 10ms, 2s; 0 is all of them, off is none)")]
pub(crate) struct SlowFlags {
    /// SLOWLOG keeps requests that take so long, as clients sent them. CONFIG SET slowlog-log-slower-than changes it
    #[arg(long, value_name = "TIME", default_value_t = Threshold(Slow::default().kept_from))]
    pub(crate) slowlog_slower_than: Threshold,

    /// So many it keeps. CONFIG SET slowlog-max-len changes it
    #[arg(long, value_name = "N", default_value_t = Slow::default().most_kept)]
    pub(crate) slowlog_max_len: usize,

    /// The log has a line for each request that takes so long, without keys and values; at most ten in ten seconds for
    /// each thread, and how many more there were
    #[arg(long, value_name = "TIME", default_value_t = Threshold(Slow::default().logged_from))]
    pub(crate) log_slow: Threshold,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Timeouts (500ms, 5s, 2m, 1h; 0 is for ever)")]
pub(crate) struct TimeoutFlags {
    /// To connect to the server, TLS and greeting included
    #[arg(long, value_name = "TIME", default_value_t = Wait(Timeouts::default().connect), value_parser = above_zero)]
    pub(crate) connect_timeout: Wait,

    /// For the server to answer; a command that blocks has its own time besides
    #[arg(long, value_name = "TIME", default_value_t = Wait(Timeouts::default().server))]
    pub(crate) server_timeout: Wait,

    /// For the server to answer scripts, KEYS, FLUSHALL, SORT and commands that keyfold doesn't know
    #[arg(long, value_name = "TIME", default_value_t = Wait(Timeouts::default().slow))]
    pub(crate) slow_timeout: Wait,

    /// For a client to say something
    #[arg(long, value_name = "TIME", default_value_t = Wait(Timeouts::default().idle_client))]
    pub(crate) idle_timeout: Wait,

    /// For a client to take any byte of the answers that wait for it
    #[arg(long, value_name = "TIME", default_value_t = Wait(Timeouts::default().write_stall))]
    pub(crate) write_timeout: Wait,

    /// For a client's TLS handshake
    #[arg(long, value_name = "TIME", default_value_t = Wait(Timeouts::default().handshake), value_parser = above_zero)]
    pub(crate) handshake_timeout: Wait,

    /// For the requests under way to be answered at a shutdown
    #[arg(long, value_name = "TIME", default_value_t = Wait(Timeouts::default().shutdown))]
    pub(crate) shutdown_timeout: Wait,

    /// For clients to become idle once another keyfold has taken over; then as at a shutdown
    #[arg(long, value_name = "TIME", default_value_t = Wait(Timeouts::default().drain))]
    pub(crate) drain_timeout: Wait,
}

/// A port alone is one of this machine's own.
fn parse_admin(text: &str) -> Result<ListenAddress, AddressError> {
    match text.parse::<u16>() {
        Ok(port) => Ok(ListenAddress::Tcp((Ipv4Addr::LOCALHOST, port).into())),
        Err(_) => text.parse(),
    }
}

fn parse_price(text: &str) -> Result<f64, &'static str> {
    let price: Option<f64> = text.parse().ok();
    price.filter(|price| price.is_finite() && *price >= 0.0).ok_or("it is an amount, as in 4.5")
}

fn parse_on_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("it is on or off"),
    }
}

fn parse_read_from(text: &str) -> Result<ReadFrom, String> {
    let known = ReadFrom::ALL.into_iter().find(|from| from.name() == text);
    known.ok_or_else(|| format!("write {}", ReadFrom::ALL.map(ReadFrom::name).join(", ")))
}

fn above_zero(text: &str) -> Result<Wait, String> {
    let wait: Wait = text.parse()?;
    if wait.0 > Duration::ZERO { Ok(wait) } else { Err("this one is above 0".to_owned()) }
}
