//! The tools' connection to a server, and errors that say what to do.
//!
//! A question is asked and answered in one call, or sent ahead of its answer; the link sees to it that no question gets
//! the answer to an earlier one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use anyhow::{Context, anyhow, bail};
use keyfold_core::admin::LAYOUT_KEY;
use keyfold_core::cluster::{AddressMap, Endpoint};
use keyfold_core::resp::{Reply, write_command};
use keyfold_core::walk::KeyWalk;
use keyfold_proxy::address::{Route, ServerAddress};
use keyfold_proxy::config::ServerTls;
use keyfold_proxy::tls;
use rustls::ClientConfig;

use crate::behind;
use crate::commands::Commands;
use crate::error::LinkError;
use crate::info::Info;
use crate::link::{CONNECT_WITHIN, Link};
use crate::primary::Way;
use crate::reply::{self, FromReply};
use crate::version::Version;

/// The name of a tool's connection.
const TOOL: &str = "keyfold-tool";

/// So soon a server is asked again that is not ready.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The server loads its data or runs a script, and answers nothing else until it is done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotReady(String);

/// Whether an error is the server's that it loads its data or runs a script: it is well, and the same may be done again.
pub fn is_not_ready(error: &anyhow::Error) -> bool {
    error.is::<NotReady>()
}

/// Where a server is, and how it is checked.
#[derive(Clone, Debug)]
pub struct Target {
    /// With who logs in.
    pub address: ServerAddress,
    /// Where the address says so.
    pub tls: ServerTls,
    /// Where servers are that Sentinels name where nobody can reach them from here.
    pub addresses: Arc<AddressMap>,
}

impl Target {
    /// Behind a unix socket of nobody else's.
    pub fn on_socket(path: PathBuf) -> Self {
        ServerAddress { route: Route::Unix(path), user: None, password: None, database: 0 }.into()
    }
}

/// Checked by the authorities that the system trusts.
impl From<ServerAddress> for Target {
    fn from(address: ServerAddress) -> Self {
        Self { address, tls: ServerTls::default(), addresses: Arc::default() }
    }
}

/// A connection to a server that keyfold can stand before.
pub struct Server {
    /// The server itself, also where Sentinels named it.
    target: Target,
    link: Link,
    version: Version,
}

impl Server {
    /// Connects, and asks which server it is.
    pub fn connect(target: &Target) -> anyhow::Result<Self> {
        Self::connect_to(target, false)
    }

    /// The same where it may be a node of a cluster.
    pub fn connect_to_node(target: &Target) -> anyhow::Result<Self> {
        Self::connect_to(target, true)
    }

    /// The same with another limit for each step, and for each answer.
    pub(crate) fn connect_to_node_within(target: &Target, limit: Duration) -> anyhow::Result<Self> {
        let mut server = Self::connect_within(target, true, limit)?;
        server.set_patience(limit)?;
        Ok(server)
    }

    fn connect_to(target: &Target, cluster: bool) -> anyhow::Result<Self> {
        Self::connect_within(target, cluster, CONNECT_WITHIN)
    }

    fn connect_within(target: &Target, cluster: bool, limit: Duration) -> anyhow::Result<Self> {
        let (address, mut link) =
            open(target, limit).with_context(|| format!("can't connect to the server at {}", target.address))?;
        let info = query(&mut link, &[b"INFO", b"server"])
            .map(Info)
            .map_err(|error| explain(&error, &address))
            .with_context(|| format!("can't ask the server at {address} for its version"))?;
        let version =
            Version::parse(&info).with_context(|| format!("what answers at {address} is no Redis or Valkey"))?;
        version.check(cluster)?;
        if matches!(target.address.route, Route::Cluster { .. }) && !version.is_cluster() {
            bail!("the server at {address} is no node of a cluster, which cluster:// says; name one server {address}");
        }
        let mut server = Self { target: Target { address, ..target.clone() }, link, version };
        server.set_name(TOOL);
        Ok(server)
    }

    /// Connects once the server answers questions, however long it loads its data or runs a script; the log says once
    /// what is waited for. A keyfold is refused.
    pub fn connect_when_ready(target: &Target) -> anyhow::Result<Self> {
        let mut is_told = false;
        loop {
            let look = |mut server: Self| server.refuse_keyfold().and_then(|()| server.look()).map(|()| server);
            let ready = Self::connect(target).and_then(look);
            match ready {
                Err(error) if is_not_ready(&error) => {
                    if !is_told {
                        tracing::warn!("waiting for the server: {error:#}");
                    }
                    is_told = true;
                    thread::sleep(ASK_AGAIN);
                }
                ready => return ready,
            }
        }
    }

    /// Refuses to work through a keyfold, and names the server behind it. Who connects to a keyfold on purpose doesn't ask.
    ///
    /// # Errors
    /// It is one.
    pub fn refuse_keyfold(&mut self) -> anyhow::Result<()> {
        behind::refuse_keyfold(&self.info("keyfold")?, &self.target.address)
    }

    /// Another connection to the same server.
    pub fn another(&self) -> anyhow::Result<Self> {
        Self::connect_to(&self.target, self.version.is_cluster())
    }

    /// A connection to another node of the same cluster.
    pub(crate) fn to_node(&self, endpoint: &Endpoint) -> anyhow::Result<Self> {
        let tls = self.target.address.speaks_tls();
        let route = Route::Tcp { host: endpoint.host.clone(), port: endpoint.port, tls };
        let address = ServerAddress { route, ..self.target.address.clone() };
        Self::connect_to_node(&Target { address, ..self.target.clone() })
    }

    /// Where the server is, and how it is checked.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Names the connection, for CLIENT LIST. A user who may not goes without.
    pub fn set_name(&mut self, name: &str) {
        let _: Result<(), _> = self.query(&[b"CLIENT", b"SETNAME", name.as_bytes()]);
    }

    /// Has reads leave keys as they are for LRU and LFU, where the server can do that (Redis 7.2 and later, Valkey). Not
    /// on Redis in cluster mode: there 8.0.6 ends with a segmentation fault in `lookupKey`, called by `getNodeByQuery`, at
    /// the next command on a slot that is on its way.
    pub fn leave_untouched(&mut self) -> anyhow::Result<()> {
        if self.version.is_cluster() && self.version.flavor == "Redis" {
            return Ok(());
        }
        match self.query::<()>(&[b"CLIENT", b"NO-TOUCH", b"ON"]) {
            Err(error @ LinkError::Broken(_)) => Err(self.broken(&error)),
            // Who doesn't know the command, or may not use it, goes without.
            _ => Ok(()),
        }
    }

    /// Whether the server answers questions.
    pub fn is_ready(&mut self) -> anyhow::Result<bool> {
        match self.look() {
            Err(error) if is_not_ready(&error) => Ok(false),
            looked => looked.map(|()| true),
        }
    }

    /// Asks what only a server that is ready answers, or refuses to this user. One that loads its data answers INFO; one
    /// that can't save refuses PING, and answers reads. Another node of its cluster may have the key.
    fn look(&mut self) -> anyhow::Result<()> {
        match self.query::<u64>(&[b"EXISTS", LAYOUT_KEY]) {
            Err(error) if !matches!(error.code(), "NOPERM" | "MOVED") => Err(self.explain(&error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Lets an answer take this long, on this connection.
    pub fn set_patience(&mut self, patience: Duration) -> anyhow::Result<()> {
        Ok(self.link.set_patience(patience)?)
    }

    /// Which server it is.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Where it is, without a password.
    pub fn address(&self) -> &ServerAddress {
        &self.target.address
    }

    /// Sends one command.
    pub fn ask<T: FromReply>(&mut self, command: &[&[u8]]) -> anyhow::Result<T> {
        self.query(command).map_err(|error| self.failed(&String::from_utf8_lossy(command[0]), &error))
    }

    /// Sends one command; its error as the server, or the connection, gave it.
    pub fn query<T: FromReply>(&mut self, command: &[&[u8]]) -> Result<T, LinkError> {
        query(&mut self.link, command)
    }

    /// Sends several commands at once; the first error that the server gave, where it gave one.
    pub fn query_all<T: FromReply>(&mut self, commands: &Commands) -> anyhow::Result<Vec<T>> {
        let replies = self.ask_all(commands)?;
        replies.iter().map(|raw| reply::read(raw).map_err(|error| self.explain(&error))).collect()
    }

    /// Sends several commands at once; the replies as they came.
    pub fn ask_all(&mut self, commands: &Commands) -> anyhow::Result<Vec<Vec<u8>>> {
        self.exchange(commands.wire(), commands.len())
    }

    /// The same with commands that are written already.
    pub fn exchange(&mut self, commands: &[u8], replies: usize) -> anyhow::Result<Vec<Vec<u8>>> {
        let asked = self.link.settle().and_then(|()| self.link.send(commands, replies as u64));
        asked.map_err(|error| self.broken(&error))?;
        (0..replies).map(|_| self.receive()).collect()
    }

    /// The same with one command.
    pub fn exchange_one(&mut self, command: &[u8]) -> anyhow::Result<Vec<u8>> {
        Ok(self.exchange(command, 1)?.pop().unwrap_or_default())
    }

    /// Sends commands ahead of their answers; [`Self::receive`] brings one after another.
    pub fn send(&mut self, commands: &[u8], replies: u64) -> anyhow::Result<()> {
        self.link.send(commands, replies).map_err(|error| self.broken(&error))
    }

    /// The next reply, an error of the server included.
    pub fn receive(&mut self) -> anyhow::Result<Vec<u8>> {
        self.link.receive().map_err(|error| self.broken(&error))
    }

    /// The next names of a walk over the database that is selected; none once it is over.
    pub fn next_names(&mut self, walk: &mut KeyWalk) -> anyhow::Result<Option<Vec<Vec<u8>>>> {
        let mut wire = Vec::new();
        if walk.send(&mut wire).is_none() {
            return Ok(None);
        }
        let raw = self.exchange_one(&wire)?;
        let taken = Reply::parse(&raw).map_err(LinkError::from).and_then(|reply| Ok(walk.take(reply)?));
        let names = taken.map_err(|error| self.failed("SCAN", &error))?;
        Ok(Some(names.map(<[u8]>::to_vec).collect()))
    }

    /// What it says of itself under this heading.
    pub fn info(&mut self, section: &str) -> anyhow::Result<Info> {
        self.ask(&[b"INFO", section.as_bytes()]).map(Info)
    }

    /// A setting by the name that it has since Redis 7.0, or the one before: its name here, and its value; none where the
    /// server knows neither.
    pub fn setting(&mut self, name: &str) -> Result<Option<(String, String)>, LinkError> {
        for name in [name.to_owned(), name.replace("listpack", "ziplist")] {
            if let [_, value] = self.query::<Vec<String>>(&[b"CONFIG", b"GET", name.as_bytes()])?.as_slice() {
                return Ok(Some((name, value.clone())));
            }
        }
        Ok(None)
    }

    /// The server's `used_memory`, in bytes.
    pub fn used_memory(&mut self) -> anyhow::Result<u64> {
        self.info("memory")?.needed("used_memory")
    }

    /// What went wrong on the connection itself, and what to do where that is known.
    pub fn explain(&self, error: &LinkError) -> anyhow::Error {
        match error {
            // It has answered on this connection, so that the way to it is right.
            LinkError::Broken(cause) if ENDED.contains(&cause.kind()) => {
                anyhow!(
                    "{error}; it has ended, or was ended; run this again once it is back, or its replica in its place"
                )
            }
            error => explain(error, &self.target.address),
        }
    }

    /// The error that is a reply, with what to do about it.
    pub fn refused(&self, error: &[u8]) -> anyhow::Error {
        self.explain(&LinkError::refused(error))
    }

    fn failed(&self, command: &str, error: &LinkError) -> anyhow::Error {
        self.explain(error).context(format!("{command} failed on the server at {}", self.address()))
    }

    fn broken(&self, error: &LinkError) -> anyhow::Error {
        self.explain(error).context(format!("lost the server at {}", self.address()))
    }

    /// Goes on in another database.
    pub fn select(&mut self, database: u32) -> anyhow::Result<()> {
        self.query(&[b"SELECT", database.to_string().as_bytes()]).map_err(|error| match is_no_database(&error) {
            true => anyhow!("the server at {} has no database {database} ({error})", self.address()),
            false => self.failed("SELECT", &error),
        })
    }
}

/// How a connection shows that the other side has ended it.
const ENDED: [io::ErrorKind; 5] = [
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::ConnectionAborted,
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::NotConnected,
];

/// Whether a server has no such database, or, in a cluster, but one.
fn is_no_database(error: &LinkError) -> bool {
    let LinkError::Refused(text) = error else { return false };
    text.contains("DB index is out of range") || text.contains("SELECT is not allowed in cluster mode")
}

/// The server's own address, and a connection to it.
fn open(target: &Target, limit: Duration) -> anyhow::Result<(ServerAddress, Link)> {
    let address = &target.address;
    let config = match address.speaks_tls() {
        true => Some(tls::server_side(&target.tls).map_err(|error| anyhow!("{error}"))?),
        false => None,
    };
    let (sentinels, tls, sentinel_tls) = match &address.route {
        Route::Tcp { .. } | Route::Unix(_) => {
            return Ok((
                address.clone(),
                Link::open_within(address, config, limit).map_err(|error| explain(&error, address))?,
            ));
        }
        Route::Cluster { seeds, tls } => return open_any(address, seeds, *tls, config.as_ref()),
        Route::Sentinel { sentinels, tls, sentinel_tls } => (sentinels, *tls, *sentinel_tls),
    };
    let way = Way { sentinels, tls, sentinel_tls, address, config, addresses: &target.addresses };
    Ok(way.find(|error, server| explain(error, server).to_string())?)
}

/// The first of these nodes that lets one in.
fn open_any(
    address: &ServerAddress,
    seeds: &[Endpoint],
    tls: bool,
    config: Option<&Arc<ClientConfig>>,
) -> anyhow::Result<(ServerAddress, Link)> {
    let mut troubles = Vec::new();
    for Endpoint { host, port } in seeds {
        let route = Route::Tcp { host: host.clone(), port: *port, tls };
        let node = ServerAddress { route, ..address.clone() };
        match Link::open(&node, config.cloned()) {
            Ok(link) => return Ok((node, link)),
            Err(error) => troubles.push(format!("{node}: {:#}", explain(&error, &node))),
        }
    }
    bail!("none of the nodes that were named can be used: {}", troubles.join("; "))
}

fn query<T: FromReply>(link: &mut Link, command: &[&[u8]]) -> Result<T, LinkError> {
    let mut wire = Vec::new();
    write_command(&mut wire, command);
    link.settle()?;
    link.send(&wire, 1)?;
    reply::read(&link.receive()?)
}

/// What went wrong, and what to do where that is known.
fn explain(error: &LinkError, address: &ServerAddress) -> anyhow::Error {
    use io::ErrorKind::{ConnectionRefused, NotFound, TimedOut, WouldBlock};
    let text = error.to_string();
    if address.database > 0 && is_no_database(error) {
        return anyhow!("the server has no database {} ({text})", address.database);
    }
    if let Some(meaning) = tls::meaning(&text) {
        return anyhow!("{meaning}");
    }
    let is_over_tls = |wanted| matches!(&address.route, Route::Tcp { tls, .. } if *tls == wanted);
    let broken = match error {
        LinkError::Broken(error) => Some(error.kind()),
        _ => None,
    };
    let advice = match (error.code(), broken) {
        ("LOADING", _) => return NotReady(format!("{text}; try again once it has")).into(),
        ("BUSY", _) => {
            return NotReady(format!("{text}; try again once the script is over, or end it with SCRIPT KILL")).into();
        }
        ("NOAUTH" | "WRONGPASS", _) => NAME_THE_USER,
        ("ERR", _) if text.contains("AUTH") => NAME_THE_USER,
        ("NOPERM", _) => "the server's user may not do this; keyfold needs a user who may do everything (+@all ~* &*)",
        ("READONLY", _) => "this server is a replica; name its primary",
        ("MOVED" | "ASK" | "TRYAGAIN", _) => "slots of the cluster are on their way; run this again",
        ("CLUSTERDOWN", _) => "run this again once `redis-cli --cluster check` finds nothing wrong",
        (_, Some(ConnectionRefused | NotFound)) => "is a server running there?",
        (_, Some(TimedOut | WouldBlock)) => "nothing answered in time; is the address right, and the server well?",
        (_, Some(_)) if text.contains("not valid for name") => {
            "reach the server by a name that its certificate has: in the URL, or in what servers announce \
             (cluster-announce-hostname and cluster-preferred-endpoint-type, replica-announce-ip), or by --map-address"
        }
        (_, Some(_)) if text.contains("ertificate") => {
            "name the authority that signed the server's certificate with --upstream-ca"
        }
        (_, Some(_)) if is_over_tls(true) => "does the server speak TLS at this port? redis:// is without",
        (_, Some(kind)) if ENDED.contains(&kind) && is_over_tls(false) => {
            "if the server speaks TLS at this port, write rediss://"
        }
        _ => return anyhow!("{text}"),
    };
    anyhow!("{text}; {advice}")
}

const NAME_THE_USER: &str = "name the user and the password in the URL: redis://user:password@host:port";
