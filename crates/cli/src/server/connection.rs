//! The tools' connection to a server, and errors that say what to do.
//!
//! A question is asked and answered in one call, or by a [`Pipelined`](super::Pipelined), which borrows the connection until every reply
//! is read. A connection that broke off in the middle of a reply (a timeout, a signal, bytes that are no reply) is
//! given up: whoever asks on it again is told so, and never gets the answer to an earlier question.

use std::path::Path;
use std::time::Duration;
use std::{fmt, fs, thread};

use anyhow::{Context, anyhow};
use keyfold_proxy::address::{Route, ServerAddress};
use keyfold_proxy::config::ServerTls;
use redis::{
    Client, ClientTlsConfig, Cmd, Connection, ConnectionAddr, ConnectionLike, ErrorKind, FromRedisValue,
    IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisError, ServerError, ServerErrorKind, TlsCertificates,
    Value,
};

use super::version::Version;
use keyfold_core::admin::LAYOUT_KEY;

/// The name of a tool's connection.
const TOOL: &str = "keyfold-tool";

/// To connect.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// For one answer. A long one: SCAN and SAVE on a loaded server take a while, and a dead one is noticed.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// So soon a server is asked again that is not ready.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The server loads its data or runs a script, and answers nothing else until it is done.
#[derive(Debug)]
struct NotReady(String);

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotReady {}

/// Whether an error is the server's that it loads its data or runs a script: it is well, and the same may be done again.
pub(crate) fn is_not_ready(error: &anyhow::Error) -> bool {
    error.is::<NotReady>()
}

/// Where a server is, and how it is checked.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: ServerAddress,
    pub(crate) tls: ServerTls,
}

/// A connection to a server that keyfold can stand before.
pub(crate) struct Server {
    target: Target,
    connection: Connection,
    /// What went wrong where the connection was given up.
    lost: Option<RedisError>,
    version: Version,
}

impl Server {
    /// Connects, and asks which server it is.
    pub(crate) fn connect(target: &Target) -> anyhow::Result<Self> {
        let address = &target.address;
        let mut connection = open(target)?;
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query(&mut connection)
            .map_err(|error| explain(&error, address))
            .with_context(|| format!("can't ask the server at {address} for its version"))?;
        let version =
            Version::parse(&info).with_context(|| format!("what answers at {address} is no Redis or Valkey"))?;
        version.check()?;
        let mut server = Self { target: target.clone(), connection, lost: None, version };
        server.set_name(TOOL);
        Ok(server)
    }

    /// Connects once the server answers questions, however long it loads its data or runs a script; the log says once
    /// what is waited for.
    pub(crate) fn connect_when_ready(target: &Target) -> anyhow::Result<Self> {
        let mut is_told = false;
        loop {
            let ready = Self::connect(target).and_then(|mut server| server.look().map(|()| server));
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

    /// Another connection to the same server.
    pub(crate) fn another(&self) -> anyhow::Result<Self> {
        Self::connect(&self.target)
    }

    /// Names the connection, for CLIENT LIST. A user who may not goes without.
    pub(crate) fn set_name(&mut self, name: &str) {
        let _: Result<(), _> = self.query(redis::cmd("CLIENT").arg("SETNAME").arg(name));
    }

    /// Whether the server answers questions.
    pub(crate) fn is_ready(&mut self) -> anyhow::Result<bool> {
        match self.look() {
            Err(error) if is_not_ready(&error) => Ok(false),
            looked => looked.map(|()| true),
        }
    }

    /// Asks what only a server that is ready answers, or refuses to this user. One that loads its data answers INFO; one
    /// that can't save refuses PING, and answers reads.
    fn look(&mut self) -> anyhow::Result<()> {
        match self.query::<u64>(redis::cmd("EXISTS").arg(LAYOUT_KEY)) {
            Err(error) if error.kind() != ErrorKind::Server(ServerErrorKind::NoPerm) => Err(self.explain(&error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Lets an answer take this long, on this connection.
    pub(crate) fn set_patience(&mut self, patience: Duration) -> anyhow::Result<()> {
        Ok(self.connection.set_read_timeout(Some(patience))?)
    }

    /// Which server it is.
    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// Where it is, without a password.
    pub(crate) fn address(&self) -> &ServerAddress {
        &self.target.address
    }

    /// Sends one command.
    pub(crate) fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> anyhow::Result<T> {
        self.query(command).map_err(|error| {
            let name = command.args_iter().next().map_or_else(String::new, |arg| match arg {
                redis::Arg::Simple(name) => String::from_utf8_lossy(name).into_owned(),
                _ => String::new(),
            });
            explain(&error, &self.target.address).context(format!("{name} failed on the server at {}", self.address()))
        })
    }

    /// Sends one command; its error as the server, or the connection, gave it.
    pub(crate) fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, RedisError> {
        self.on_connection(|connection| command.query(connection))
    }

    /// Sends several commands at once; the first error that the server gave, where it gave one.
    pub(crate) fn query_all<T: FromRedisValue>(&mut self, commands: &Pipeline) -> Result<T, RedisError> {
        self.on_connection(|connection| commands.query(connection))
    }

    /// Sends several commands at once. What the server refuses comes back as an error in its place.
    pub(crate) fn ask_all(&mut self, commands: &Pipeline) -> anyhow::Result<Vec<Value>> {
        let packed = commands.get_packed_pipeline();
        let replies = self.on_connection(|connection| connection.req_packed_commands(&packed, 0, commands.len()));
        replies.map_err(|error| explain(&error, &self.target.address))
    }

    /// What went wrong on the connection itself, and what to do where that is known.
    pub(crate) fn explain(&self, error: &RedisError) -> anyhow::Error {
        explain(error, &self.target.address)
    }

    /// Sends commands that are written already, and reads so many replies.
    pub(crate) fn exchange_values(&mut self, commands: &[u8], replies: usize) -> anyhow::Result<Vec<Value>> {
        let mut pipelined = self.pipelined();
        pipelined.send(commands, replies as u64)?;
        (0..replies).map(|_| pipelined.receive()).collect()
    }

    /// The same, with the replies as they came.
    pub(crate) fn exchange(&mut self, commands: &[u8], replies: usize) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut pipelined = self.pipelined();
        pipelined.send(commands, replies as u64)?;
        (0..replies)
            .map(|_| {
                let mut reply = Vec::new();
                super::reply::encode(&pipelined.receive()?, &mut reply);
                Ok(reply)
            })
            .collect()
    }

    /// For [`Pipelined`](super::Pipelined) alone, which reads as many replies as it sends for.
    pub(super) fn put(&mut self, commands: &[u8]) -> anyhow::Result<()> {
        self.on_connection(|connection| connection.send_packed_command(commands)).map_err(|error| self.broken(&error))
    }

    /// For [`Pipelined`](super::Pipelined) alone: the next reply.
    pub(super) fn take(&mut self) -> anyhow::Result<Value> {
        loop {
            match self.on_connection(Connection::recv_response).map_err(|error| self.broken(&error))? {
                Value::Push { .. } => {}
                reply => return Ok(reply),
            }
        }
    }

    /// Everything that is sent or read goes through here: a connection that breaks off is not used again.
    fn on_connection<T>(
        &mut self,
        ask: impl FnOnce(&mut Connection) -> Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        let answer = ask(&mut self.connection);
        if let Err(error) = &answer
            && matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse)
        {
            self.lost = Some(error.clone());
        }
        answer
    }

    /// The server's `used_memory`, in bytes.
    pub(crate) fn used_memory(&mut self) -> anyhow::Result<u64> {
        let info: String = self.ask(redis::cmd("INFO").arg("memory"))?;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.context("the server says no used_memory in INFO")?.trim_end().parse().context("used_memory is no number")
    }

    /// The error of a command that the server refused, with what to do about it.
    pub(crate) fn refused(&self, error: &ServerError) -> anyhow::Error {
        explain(&error.clone().into(), &self.target.address)
    }

    fn broken(&self, error: &RedisError) -> anyhow::Error {
        explain(error, &self.target.address).context(format!("lost the server at {}", self.address()))
    }

    /// Goes on in another database.
    pub(crate) fn select(&mut self, database: u32) -> anyhow::Result<()> {
        self.ask(redis::cmd("SELECT").arg(database))
    }
}

/// Opens a connection, authenticated and in the address's database.
fn open(target: &Target) -> anyhow::Result<Connection> {
    let address = &target.address;
    let connection = client(target)?
        .get_connection_with_timeout(CONNECT_WITHIN)
        .map_err(|error| explain(&error, address))
        .with_context(|| format!("can't connect to the server at {address}"))?;
    connection.set_read_timeout(Some(ANSWER_WITHIN))?;
    connection.set_write_timeout(Some(ANSWER_WITHIN))?;
    Ok(connection)
}

fn client(target: &Target) -> anyhow::Result<Client> {
    let address = &target.address;
    let mut login = RedisConnectionInfo::default()
        .set_db(i64::from(address.database))
        .set_lib_name("keyfold", env!("CARGO_PKG_VERSION"));
    if let Some(user) = &address.user {
        login = login.set_username(user);
    }
    if let Some(password) = &address.password {
        login = login.set_password(password);
    }
    let (route, tls) = match &address.route {
        Route::Unix(path) => (ConnectionAddr::Unix(path.clone()), false),
        Route::Tcp { host, port, tls: false } => (ConnectionAddr::Tcp(host.clone(), *port), false),
        Route::Tcp { host, port, tls: true } => {
            let (host, port, insecure) = (host.clone(), *port, target.tls.insecure);
            (ConnectionAddr::TcpTls { host, port, insecure, tls_params: None }, true)
        }
    };
    let info = route.into_connection_info()?.set_redis_settings(login);
    let client = if tls { Client::build_with_tls(info, certificates(&target.tls)?) } else { Client::open(info) };
    client.map_err(|error| explain(&error, address))
}

fn certificates(tls: &ServerTls) -> anyhow::Result<TlsCertificates> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("can't read {}", path.display()));
    let client_tls = match &tls.identity {
        None => None,
        Some((cert, key)) => Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? }),
    };
    let root_cert = tls.ca.as_deref().map(read).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}

fn is_loading(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::BusyLoading)
}

fn is_busy(error: &RedisError) -> bool {
    error.code() == Some("BUSY")
}

/// What went wrong, and what to do where that is known.
fn explain(error: &RedisError, address: &ServerAddress) -> anyhow::Error {
    let text = error.to_string();
    if is_loading(error) {
        return NotReady(format!("{text}; try again once it has")).into();
    }
    if is_busy(error) {
        return NotReady(format!("{text}; try again once the script is over, or end it with SCRIPT KILL")).into();
    }
    let advice = if error.is_connection_refusal() {
        "is a server running there?"
    } else if text.contains("NOAUTH") || text.contains("WRONGPASS") || error.kind() == ErrorKind::AuthenticationFailed {
        "name the user and the password in the URL: redis://user:password@host:port"
    } else if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) {
        "the server's user may not do this; keyfold needs a user who may do everything (+@all ~* &*)"
    } else if error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly) {
        "this server is a replica; name its primary"
    } else if error.is_timeout() {
        "nothing answered in time; is the address right, and the server well?"
    } else if text.contains("ertificate") && !text.contains("PEM") {
        "name the authority that signed the server's certificate with --upstream-ca"
    } else if matches!(&address.route, Route::Tcp { tls: true, .. }) && error.is_io_error() {
        "does the server speak TLS at this port? redis:// is without"
    } else if matches!(&address.route, Route::Tcp { tls: false, .. }) && error.is_connection_dropped() {
        "if the server speaks TLS at this port, write rediss://"
    } else {
        return anyhow!("{text}");
    };
    anyhow!("{text}; {advice}")
}
