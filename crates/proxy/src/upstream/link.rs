//! Connects to the server and greets it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyfold_core::change::Clearance;
use keyfold_core::cluster::{Endpoint, Node};
use keyfold_core::exchange::ServerInfo;
use keyfold_core::notify::Classes;
use keyfold_core::resp::{Protocol, Reply, ReplyError, ReplyScanner, write_command};
use keyfold_core::sentinel::{NoPrimary, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_rustls::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::cluster::Cluster;
use super::names::connect_to_any;
use crate::address::{Route, ServerAddress};
use crate::membership::{Checked, Membership};
use crate::socket::{Socket, set_options};
use crate::tls;
use crate::worker::Worker;

/// How often a new connection looks whether the layout is settled.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What stands against a connection where nothing more is known.
const UNSETTLED: &str = "its layout is being changed or put back";

/// Why there is no connection to the server, or none any more. Reads on after "the server is away: ".
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The system says so, or TLS does.
    #[error("{}", plain(.0))]
    Io(#[from] io::Error),
    /// TLS says so.
    #[error("TLS: {}", meant(.0))]
    Tls(io::Error),
    /// The host can't be a name in a certificate.
    #[error("{0:?} can't stand in a certificate")]
    HostName(String),
    /// No connection, or no greeting, in time.
    #[error("no answer within {0:?}")]
    TimedOut(std::time::Duration),
    /// It closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// It answered the greeting with an error.
    #[error("it says: {0}")]
    Refused(String),
    /// It sent what is no reply.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// Its greeting is none.
    #[error("it does not answer HELLO as Redis and Valkey do")]
    Stranger,
    /// Another try has just shown why.
    #[error("{0}")]
    Known(Arc<str>),
    /// It answered a plain question with an error: it is busy, or loads its data.
    #[error("it says: {0}")]
    Said(String),
    /// The layout on the server isn't the one that is served here, and has not become so.
    #[error("{0}")]
    Unsettled(Arc<str>),
    /// It sent a reply of a kind that the command doesn't have.
    #[error("it sent a reply of another kind than the command has")]
    Unexpected,
    /// It sent a reply that nothing had asked for.
    #[error("it sent a reply that nobody asked for")]
    Unasked,
    /// Sentinels don't say where it is.
    #[error(transparent)]
    Nowhere(#[from] Arc<NoPrimary>),
    /// Nobody has the slot of the layout.
    #[error("no node of the cluster has the slot of keyfold's layout")]
    Homeless,
    /// It is a node of a cluster, which nobody knew.
    #[error("it is a node of a cluster; looking for the others")]
    Cluster,
    /// Nobody has the slot in which what is asked for lies, or another node than the one that was asked.
    #[error("the node that was asked does not have what is asked for: {0}")]
    Elsewhere(String),
    /// It isn't the one that takes writes, or not any more.
    #[error("{0} is not the primary")]
    Demoted(Endpoint),
}

/// What a server says of itself at first.
pub(super) struct Greeting {
    server: ServerInfo,
    /// It is a node of a cluster.
    is_node: bool,
}

/// A connection to the server that is used by one task, a few commands at a time.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: Socket,
    /// The server's number for it; none of a server that doesn't tell.
    pub(crate) number: Option<i64>,
    /// Where the server is, where it is Sentinels who say so.
    pub(crate) at: Option<Endpoint>,
    /// Which node of a cluster it is.
    pub(super) node: Option<Node>,
    input: Vec<u8>,
}

impl Link {
    /// Connects, authenticates, waits until the layout in use is seen to be in force, and selects the database, all
    /// within the connect timeout. Each new link also tells the worker what the server is and what time it has.
    pub(crate) async fn open(
        worker: &Worker,
        node: Option<Node>,
        database: u32,
        protocol: Protocol,
    ) -> Result<Self, LinkError> {
        Self::open_link(worker, node, database, protocol, true).await
    }

    /// The same without a look at the layout, for what doesn't go by it.
    pub(crate) async fn open_unchecked(
        worker: &Worker,
        node: Option<Node>,
        database: u32,
        protocol: Protocol,
    ) -> Result<Self, LinkError> {
        Self::open_link(worker, node, database, protocol, false).await
    }

    async fn open_link(
        worker: &Worker,
        node: Option<Node>,
        database: u32,
        protocol: Protocol,
        checked: bool,
    ) -> Result<Self, LinkError> {
        let limit = worker.config.timeouts.connect;
        let attempt = async {
            let mut link = Self::connect(worker, node).await?;
            let Greeting { server, is_node } = link.greet(worker, protocol).await?;
            if is_node && worker.cluster.get().is_none() {
                return Err(LinkError::Cluster);
            }
            link.confirm().await?;
            if let Some(number) = link.number {
                worker.membership.note_opened(&(Cluster::endpoint_of(node, worker), number));
            }
            if checked {
                match worker.cluster.get() {
                    None => link.check(worker, limit).await?,
                    Some(cluster) => check_by_others(worker, cluster, limit).await?,
                }
            }
            link.prepare(worker, database).await?;
            worker.check_place(link.at.as_ref())?;
            worker.server.replace(server);
            Ok(link)
        };
        let opened = tokio::time::timeout(limit, attempt).await.unwrap_or(Err(LinkError::TimedOut(limit)));
        opened.inspect_err(|_| worker.doubt_place())
    }

    async fn connect(worker: &Worker, node: Option<Node>) -> Result<Self, LinkError> {
        if let (Some(node), Some(cluster)) = (node, worker.cluster.get()) {
            let Endpoint { host, port } = cluster.endpoint(node);
            let socket = reach(worker, &host, port, worker.config.upstream.speaks_tls()).await?;
            return Ok(Self { node: Some(node), ..Self::on(socket) });
        }
        let (at, tls) = match &worker.config.upstream.route {
            Route::Unix(path) => return Ok(Self::on(Socket::Unix(UnixStream::connect(path).await?))),
            Route::Tcp { host, port, tls } => return Ok(Self::on(reach(worker, host, *port, *tls).await?)),
            Route::Sentinel { tls, .. } => (worker.find_place().await?, *tls),
            // Its nodes are connected to by the map.
            Route::Cluster { .. } => return Err(LinkError::Cluster),
        };
        let socket = reach(worker, &at.host, at.port, tls).await?;
        Ok(Self { at: Some(at), ..Self::on(socket) })
    }

    /// A connection on which nothing was said yet.
    pub(super) fn on(socket: Socket) -> Self {
        Self { socket, number: None, at: None, node: None, input: Vec::new() }
    }

    /// Has a server that Sentinels named say itself that it is the primary.
    async fn confirm(&mut self) -> Result<(), LinkError> {
        let Some(at) = self.at.clone() else { return Ok(()) };
        let mut question = Vec::new();
        Role::ask(&mut question);
        let reply = self.ask(&question, 1).await?.pop().ok_or(LinkError::Closed)?;
        match Role::read(&reply).map_err(LinkError::Said)? {
            Role::Primary => Ok(()),
            Role::Replica(_) | Role::Sentinel => Err(LinkError::Demoted(at)),
        }
    }

    /// Sends commands and waits for their replies.
    pub(crate) async fn ask(&mut self, commands: &[u8], replies: usize) -> Result<Vec<Vec<u8>>, LinkError> {
        self.socket.write_all(commands).await?;
        self.socket.flush().await?;
        let mut found = Vec::with_capacity(replies);
        let mut scanner = ReplyScanner::default();
        while found.len() < replies {
            match scanner.scan(&self.input)? {
                Some(end) => found.push(self.input.drain(..end).collect()),
                None if self.socket.read_buf(&mut self.input).await? == 0 => return Err(LinkError::Closed),
                None => {}
            }
        }
        if self.input.is_empty() { Ok(found) } else { Err(LinkError::Unasked) }
    }

    /// Sends a command whose reply comes among what [`Self::receive`] hands on.
    pub(super) async fn send(&mut self, args: &[&[u8]]) -> Result<(), LinkError> {
        let mut command = Vec::new();
        write_command(&mut command, args);
        self.socket.write_all(&command).await?;
        Ok(self.socket.flush().await?)
    }

    /// Waits until something whole has come, reply or push, and hands all that is whole to `take`. May be dropped and
    /// called again with the same scanner: nothing is lost.
    pub(super) async fn receive(
        &mut self,
        scanner: &mut ReplyScanner,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), LinkError> {
        loop {
            let mut start = 0;
            while let Some(len) = scanner.scan(&self.input[start..])? {
                take(&self.input[start..start + len]);
                start += len;
            }
            self.input.drain(..start);
            if start > 0 {
                return Ok(());
            }
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Err(LinkError::Closed);
            }
        }
    }

    async fn ask_one(&mut self, args: &[&[u8]]) -> Result<Vec<u8>, LinkError> {
        let mut command = Vec::new();
        write_command(&mut command, args);
        self.ask(&command, 1).await?.pop().ok_or(LinkError::Closed)
    }

    /// HELLO, or for servers before 6.0 AUTH and INFO.
    pub(super) async fn greet(&mut self, worker: &Worker, protocol: Protocol) -> Result<Greeting, LinkError> {
        let (address, name) = (&worker.config.upstream, worker.membership.connection_name());
        let user = address.user.as_deref().unwrap_or("default");
        let mut hello: Vec<&[u8]> = vec![b"HELLO", if protocol == Protocol::Resp3 { b"3" } else { b"2" }];
        if let Some(password) = &address.password {
            hello.extend([&b"AUTH"[..], user.as_bytes(), password.as_bytes()]);
        }
        hello.extend([&b"SETNAME"[..], name.as_bytes()]);
        let reply = self.ask_one(&hello).await?;
        match Reply::parse(&reply)? {
            Reply::Error(text) if protocol == Protocol::Resp2 && is_unknown_command(text) => {
                self.greet_old(address, &name).await
            }
            Reply::Error(text) => Err(refused(text)),
            reply => {
                self.number = connection_number(&reply);
                let is_node = is_node(&reply);
                Ok(Greeting { server: ServerInfo::from_hello(reply).ok_or(LinkError::Stranger)?, is_node })
            }
        }
    }

    async fn greet_old(&mut self, address: &ServerAddress, name: &str) -> Result<Greeting, LinkError> {
        if let Some(password) = &address.password {
            let mut auth: Vec<&[u8]> = vec![b"AUTH"];
            auth.extend(address.user.as_deref().map(str::as_bytes));
            auth.push(password.as_bytes());
            accepted(&self.ask_one(&auth).await?)?;
        }
        accepted(&self.ask_one(&[b"CLIENT", b"SETNAME", name.as_bytes()]).await?)?;
        let info = self.ask_one(&[b"INFO", b"server"]).await?;
        let text = Reply::parse(&info)?.bytes().unwrap_or_default();
        let version = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"redis_version:"));
        let version = String::from_utf8_lossy(version.unwrap_or_default()).trim().to_owned();
        let is_node = text.windows(18).any(|line| line == b"redis_mode:cluster");
        Ok(Greeting { server: ServerInfo { name: "redis".to_owned(), version }, is_node })
    }

    /// Waits until it sees, on itself, that the layout in use is in force and nobody is about to replace it. The name
    /// comes first and this after it: whoever announces that, and then asks for the connections of that name, either
    /// finds this one, or has announced it before.
    async fn check(&mut self, worker: &Worker, limit: Duration) -> Result<(), LinkError> {
        let since = Instant::now();
        let mut question = Vec::new();
        Membership::question(&mut question);
        loop {
            let reply = self.ask(&question, 1).await?.pop().ok_or(LinkError::Closed)?;
            let folding = Arc::clone(&*worker.folding.borrow());
            match worker.membership.check(&reply, &folding).map_err(LinkError::Said)? {
                Checked::Fine => return Ok(()),
                // Requests are refused, and so are those that wait here.
                Checked::Later if let Some(trouble) = worker.membership.refuses_for() => {
                    return Err(LinkError::Unsettled(trouble));
                }
                Checked::Later if since.elapsed() < limit / 2 => tokio::time::sleep(LOOK_AGAIN).await,
                Checked::Later => return Err(LinkError::Unsettled(UNSETTLED.into())),
            }
        }
    }

    /// Has a replica answer reads on this connection from what it has.
    pub(super) async fn read_only(&mut self) -> Result<(), LinkError> {
        accepted(&self.ask_one(&[b"READONLY"]).await?)
    }

    async fn prepare(&mut self, worker: &Worker, database: u32) -> Result<(), LinkError> {
        if database != 0 {
            accepted(&self.ask_one(&[b"SELECT", database.to_string().as_bytes()]).await?)?;
        }
        // Nodes' clocks differ: one at a time is gone by.
        match worker.cluster.get() {
            None => self.sample_clock(worker).await,
            Some(_) => Ok(()),
        }
    }

    /// Asks for the server's time.
    pub(crate) async fn sample_clock(&mut self, worker: &Worker) -> Result<(), LinkError> {
        let sent = Instant::now();
        let reply = self.ask_one(&[b"TIME"]).await?;
        if !worker.clock.handle_time(&reply, sent, Instant::now()) {
            let reply = reply.escape_ascii();
            tracing::warn!(%reply, "the server does not tell its time; expiry goes by this machine's clock");
        }
        Ok(())
    }

    /// Asks for how long an argument the server takes. One that doesn't tell keeps what it said last.
    pub(crate) async fn learn_limits(&mut self, worker: &Worker) -> Result<(), LinkError> {
        let longest = self.setting(b"proto-max-bulk-len").await?;
        // An argument waits in the query buffer with its line end until all of it is there.
        let buffered = self.setting(b"client-query-buffer-limit").await?.map(|bytes| bytes.saturating_sub(2));
        if let Some(bytes) = longest.into_iter().chain(buffered).min() {
            worker.max_bulk_bytes.set(bytes);
        }
        Ok(())
    }

    /// Asks what the server publishes of its keys. One that doesn't tell publishes what it did last.
    pub(crate) async fn learn_notifications(&mut self, worker: &Worker) -> Result<(), LinkError> {
        let notifications = worker.everybody.notifications();
        let known = notifications.known();
        let mut question = Vec::new();
        Classes::ask(&mut question);
        let reply = self.ask(&question, 1).await?.pop().unwrap_or_default();
        if let Some(classes) = Classes::read(&reply) {
            notifications.follow_since(known, classes);
        }
        Ok(())
    }

    /// A setting that is a number; none where the server doesn't tell.
    async fn setting(&mut self, name: &[u8]) -> Result<Option<usize>, LinkError> {
        let reply = self.ask_one(&[b"CONFIG", b"GET", name]).await?;
        let (Reply::Array(mut setting) | Reply::Map(mut setting)) = Reply::parse(&reply)? else { return Ok(None) };
        let (Some(_), Some(Reply::Bulk(value))) = (setting.next(), setting.next()) else { return Ok(None) };
        Ok(std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()))
    }
}

/// Waits until home and witnesses say that a node's connection, which was named before, may be used.
async fn check_by_others(worker: &Worker, cluster: &Cluster, limit: Duration) -> Result<(), LinkError> {
    let since = Instant::now();
    let mut why = Arc::from(UNSETTLED);
    while since.elapsed() < limit / 2 {
        match cluster.lookout.clearance().await {
            Clearance::Fine => return Ok(()),
            Clearance::Unsettled(trouble) => {
                why = format!("too few nodes say which layout is in force: {trouble}").into();
            }
            Clearance::Later | Clearance::Waiting => {
                worker.membership.stirred.notify_one();
                if let Some(trouble) = worker.membership.refuses_for() {
                    return Err(LinkError::Unsettled(trouble));
                }
                why = UNSETTLED.into();
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Err(LinkError::Unsettled(why))
}

/// Connects to a host, by TLS where that is to be.
pub(super) async fn reach(worker: &Worker, host: &str, port: u16, tls: bool) -> Result<Socket, LinkError> {
    let addresses = worker.names.find(host, port).await?;
    let stream = connect_to_any(&addresses, worker.config.timeouts.connect).await?;
    // Where nobody listens on a local port, the system may connect a socket to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
    }
    let timeout = worker.config.timeouts.server;
    set_options(&stream, (!timeout.is_zero()).then_some(timeout / 2))?;
    if !tls {
        return Ok(Socket::Tcp(stream));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|_| LinkError::HostName(host.to_owned()))?;
    let stream = worker.connector()?.connect(name, stream).await.map_err(LinkError::Tls)?;
    Ok(Socket::Tls(Box::new(TlsStream::Client(stream))))
}

/// Whether HELLO was answered by a node of a cluster.
fn is_node(hello: &Reply<'_>) -> bool {
    let (Reply::Array(pairs) | Reply::Map(pairs)) = hello else { return false };
    let mut pairs = *pairs;
    while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
        if key.bytes() == Some(b"mode") {
            return value.bytes() == Some(b"cluster");
        }
    }
    false
}

/// The connection's number in a reply to HELLO, a map in RESP3 and a flat array in RESP2.
fn connection_number(hello: &Reply<'_>) -> Option<i64> {
    let (Reply::Array(pairs) | Reply::Map(pairs)) = hello else { return None };
    let mut pairs = *pairs;
    while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
        if let (Some(b"id"), Reply::Integer(number)) = (key.bytes(), value) {
            return Some(number);
        }
    }
    None
}

/// The system's errors without their numbers, which mean nothing to a client.
fn plain(error: &io::Error) -> String {
    if error.raw_os_error().is_some() { error.kind().to_string() } else { error.to_string() }
}

fn meant(error: &io::Error) -> String {
    let said = error.to_string();
    tls::meaning(&said).map_or(said, str::to_owned)
}

fn accepted(reply: &[u8]) -> Result<(), LinkError> {
    match Reply::parse(reply)? {
        Reply::Error(text) => Err(refused(text)),
        _ => Ok(()),
    }
}

fn refused(text: &[u8]) -> LinkError {
    LinkError::Refused(String::from_utf8_lossy(text).into_owned())
}

fn is_unknown_command(error: &[u8]) -> bool {
    error.starts_with(b"ERR unknown command")
}
