//! A primary with replicas, and Sentinels that watch them, for as long as a test needs them.
//!
//! Servers and Sentinels have indices that stay; server 0 begins as the primary. Who is primary later is asked, of the
//! servers ([`Sentinels::primary`]) or of a Sentinel ([`Sentinels::named_by`]), which need not say the same.
//!
//! A killed server comes back as it was started: a replica at first of the one that was the primary then, or a primary
//! of nothing. The Sentinels make it a replica of who is primary now; that takes them some 10 s.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::patience::{Impatient, wait_for};
use crate::ports;
use crate::reply::Value;
use crate::server::{Server, StartError};
use crate::servers::Binary;
use crate::tls::Certificates;
use crate::wire::{Wire, WireError};

/// The name by which the Sentinels know the primary.
pub const NAME: &str = "main";
/// How long servers and Sentinels may take to agree; generous, for loaded machines.
const PATIENCE: Duration = Duration::from_secs(120);
/// The name of a Sentinel's unix socket, in its folder.
const SOCKET: &str = "socket";
/// A failover by command is refused while another is under way, or no replica is fit; then it is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Why they do not do what they were told.
#[derive(Debug, thiserror::Error)]
pub enum SentinelError {
    /// A server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No port, process or file to be had.
    #[error("a Sentinel cannot be started: {0}")]
    System(#[from] io::Error),
    /// A Sentinel does not come to answer.
    #[error("a Sentinel did not answer; its log:\n{0}")]
    Silent(String),
    /// Somebody does not answer.
    #[error("no answer to {command}: {source}")]
    Wire {
        /// What was asked.
        command: String,
        /// What came instead.
        source: WireError,
    },
    /// Somebody answers by an error, or by what nobody understands.
    #[error("the answer to {command} is {reply:?}")]
    Refused {
        /// What was asked.
        command: String,
        /// The answer.
        reply: Value,
    },
    /// They did not come to agree in time.
    #[error(transparent)]
    Impatient(#[from] Impatient),
}

/// How servers and Sentinels are started.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many servers follow the primary.
    pub replicas: usize,
    /// How many Sentinels must take the primary for gone.
    pub quorum: usize,
    /// How long the primary may be silent until a Sentinel takes it for gone.
    pub down_after: Duration,
    /// What servers and Sentinels call the machine: a name only where their own lines have Sentinels look names up.
    pub host: &'static str,
    /// The password that Sentinels ask of clients, and of each other.
    pub sentinel_password: Option<String>,
    /// The password of the servers, which replicas and Sentinels know.
    pub password: Option<String>,
    /// The certificates of servers that speak TLS alone, with clients and with each other, and of Sentinels. All are
    /// asked over unix sockets then.
    pub tls: Option<Certificates>,
    /// Whether the Sentinels take clients in the clear though their servers speak TLS.
    pub clear_sentinels: bool,
    /// More arguments for each server.
    pub args: Vec<String>,
    /// More lines for the configuration of each Sentinel.
    pub lines: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            replicas: 2,
            quorum: 2,
            down_after: Duration::from_secs(1),
            host: "127.0.0.1",
            sentinel_password: None,
            password: None,
            tls: None,
            clear_sentinels: false,
            args: Vec::new(),
            lines: Vec::new(),
        }
    }
}

/// Sentinels and what they watch. All of them are killed when this is dropped, and what they wrote is removed.
#[derive(Debug)]
pub struct Sentinels {
    // The Sentinels first: they are to be gone when their servers go.
    sentinels: Vec<Sentinel>,
    servers: Vec<Watched>,
    options: Options,
}

/// A server of theirs.
#[derive(Debug)]
struct Watched {
    server: Server,
    /// Whether it was killed or frozen.
    is_away: bool,
    is_frozen: bool,
}

/// A Sentinel's process, its port and its configuration, which it rewrites as it learns.
#[derive(Debug)]
struct Sentinel {
    binary: Binary,
    child: Child,
    port: u16,
    dir: TempDir,
    is_away: bool,
}

impl Sentinels {
    /// Starts so many Sentinels over a primary with two replicas, and waits until they know all of it and each other.
    ///
    /// # Errors
    /// Where one does not start, or they do not find each other in time.
    pub fn start(binary: &Binary, count: usize) -> Result<Self, SentinelError> {
        Self::start_with(binary, count, &Options::default())
    }

    /// The same in another way.
    ///
    /// # Errors
    /// Where one does not start, or they do not find each other in time.
    pub fn start_with(binary: &Binary, count: usize, options: &Options) -> Result<Self, SentinelError> {
        let mut all = Self { sentinels: Vec::new(), servers: Vec::new(), options: options.clone() };
        for _ in 0..=options.replicas {
            let primary = all.servers.first().map(|watched| watched.server.port());
            let server = start_server(binary, primary, options)?;
            all.servers.push(Watched { server, is_away: false, is_frozen: false });
        }
        all.wait_for_replicas()?;
        for _ in 0..count {
            all.sentinels.push(Sentinel::start(binary, all.servers[0].server.port(), options)?);
        }
        all.wait_until_settled()?;
        Ok(all)
    }

    /// Where each Sentinel listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(|sentinel| (Ipv4Addr::LOCALHOST, sentinel.port).into()).collect()
    }

    /// `sentinel://` and the addresses of all Sentinels, then the name.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        format!("sentinel://{}/{NAME}", addresses.join(","))
    }

    /// One of the servers.
    ///
    /// # Panics
    /// Where there is none of this index.
    pub fn server(&self, index: usize) -> &Server {
        &self.servers[index].server
    }

    /// A connection to a Sentinel, authenticated where it has a password.
    ///
    /// # Errors
    /// Where it is away.
    pub fn connect(&self, sentinel: usize) -> Result<Wire, WireError> {
        let Sentinel { port, dir, .. } = &self.sentinels[sentinel];
        let wire = match self.options.tls {
            Some(_) => Wire::connect_unix(&dir.path().join(SOCKET))?,
            None => Wire::connect((Ipv4Addr::LOCALHOST, *port))?,
        };
        wire.authenticated(self.options.sentinel_password.as_deref())
    }

    /// A connection to a server, authenticated where it has a password.
    ///
    /// # Errors
    /// Where it is away.
    pub fn connect_server(&self, server: usize) -> Result<Wire, WireError> {
        let server = &self.servers[server].server;
        let wire = match self.options.tls {
            Some(_) => Wire::connect_unix(server.unix_socket())?,
            None => server.connect()?,
        };
        wire.authenticated(self.options.password.as_deref())
    }

    /// Asks a Sentinel.
    ///
    /// # Errors
    /// Where it is away, or answers by an error.
    pub fn ask(&self, sentinel: usize, args: &[&str]) -> Result<Value, SentinelError> {
        ask(self.connect(sentinel), args)
    }

    /// The server that says of itself that it is the primary; of several the one that has replicas.
    ///
    /// # Errors
    /// Where none does.
    pub fn primary(&self) -> Result<usize, SentinelError> {
        let mut primaries = Vec::new();
        for index in self.present() {
            let role = ask(self.connect_server(index), &["ROLE"])?;
            if let Some([role, _, replicas, ..]) = role.elements()
                && role.bytes() == Some(b"master")
            {
                primaries.push((replicas.elements().unwrap_or_default().len(), index));
            }
        }
        let refused = || SentinelError::Refused { command: "ROLE".to_owned(), reply: Value::Nil };
        primaries.into_iter().max().map(|(_, index)| index).ok_or_else(refused)
    }

    /// The server that a Sentinel names; none where it knows no such name, or names none of these servers.
    ///
    /// # Errors
    /// Where it is away.
    pub fn named_by(&self, sentinel: usize) -> Result<Option<usize>, SentinelError> {
        let reply = self.ask(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        let port = reply.elements().and_then(|address| address.get(1)?.integer());
        let is_at = |watched: &Watched| Some(i64::from(watched.server.port())) == port;
        Ok(self.servers.iter().position(is_at))
    }

    /// Has the Sentinels replace the primary, though it is well, and waits until they and all servers agree. Says which
    /// server follows.
    ///
    /// # Errors
    /// Where it does not come to that in time.
    pub fn fail_over(&self) -> Result<usize, SentinelError> {
        let before = self.primary()?;
        let sentinel = self.watching().next().unwrap_or_default();
        let mut asked: Option<Instant> = None;
        wait_for("a failover to be begun", PATIENCE, || {
            if asked.is_some_and(|asked| asked.elapsed() < ASK_AGAIN_AFTER) {
                return Err("it was refused a moment ago".to_owned());
            }
            asked = Some(Instant::now());
            let begun = self.ask(sentinel, &["SENTINEL", "FAILOVER", NAME]);
            begun.map_err(|error| error.to_string())
        })?;
        self.wait_for_successor(before)
    }

    /// Waits until all Sentinels that run name another server than this one and all servers that run follow it. Says
    /// which it is.
    ///
    /// # Errors
    /// Where it does not come to that in time.
    pub fn wait_for_successor(&self, server: usize) -> Result<usize, SentinelError> {
        let successor = wait_for(&format!("a successor of server {server}"), PATIENCE, || match self.primary() {
            Ok(primary) if primary != server => Ok(primary),
            Ok(_) => Err("it is primary still".to_owned()),
            Err(error) => Err(error.to_string()),
        })?;
        self.wait_until_settled()?;
        Ok(successor)
    }

    /// Waits until all Sentinels that run know each other and name the one server that is primary, and all servers that
    /// run follow it.
    ///
    /// # Errors
    /// Where it does not come to that in time.
    pub fn wait_until_settled(&self) -> Result<(), SentinelError> {
        self.wait_for_replicas()?;
        wait_for("the Sentinels to agree", PATIENCE, || {
            let primary = self.primary().map_err(|error| error.to_string())?;
            self.watching().try_for_each(|sentinel| self.is_settled(sentinel, primary))
        })?;
        Ok(())
    }

    fn is_settled(&self, sentinel: usize, primary: usize) -> Result<(), String> {
        let named = self.named_by(sentinel).map_err(|error| error.to_string())?;
        if named != Some(primary) {
            return Err(format!("Sentinel {sentinel} names {named:?} while {primary} is primary"));
        }
        let known = self.ask(sentinel, &["SENTINEL", "MASTER", NAME]).map_err(|error| error.to_string())?;
        let others = (self.sentinels.len() - 1, self.servers.len() - 1);
        let found = (number(&known, b"num-other-sentinels"), number(&known, b"num-slaves"));
        if found != (Some(others.0), Some(others.1)) {
            return Err(format!("Sentinel {sentinel} knows {found:?} other Sentinels and replicas of {others:?}"));
        }
        Ok(())
    }

    /// Until every server that runs, but one, follows that one.
    fn wait_for_replicas(&self) -> Result<(), SentinelError> {
        wait_for("all servers to follow one", PATIENCE, || {
            let primary = self.primary().map_err(|error| error.to_string())?;
            let port = i64::from(self.servers[primary].server.port());
            for index in self.present().filter(|index| *index != primary) {
                let role = ask(self.connect_server(index), &["ROLE"]).map_err(|error| error.to_string())?;
                let follows = match role.elements() {
                    Some([_, _, of, state, ..]) => of.integer() == Some(port) && state.bytes() == Some(b"connected"),
                    _ => false,
                };
                if !follows {
                    return Err(format!("server {index} says {role:?}"));
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Kills a server (SIGKILL).
    pub fn kill_server(&mut self, index: usize) {
        let watched = &mut self.servers[index];
        watched.server.kill();
        (watched.is_away, watched.is_frozen) = (true, false);
    }

    /// Starts a killed server once more. It begins as it began at first; the Sentinels see to the rest.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn restart_server(&mut self, index: usize) -> Result<(), SentinelError> {
        let watched = &mut self.servers[index];
        watched.server.restart()?;
        (watched.is_away, watched.is_frozen) = (false, false);
        Ok(())
    }

    /// Stops a server where it is (SIGSTOP), where it runs.
    ///
    /// # Errors
    /// Where it has ended by itself.
    pub fn freeze_server(&mut self, index: usize) -> Result<(), SentinelError> {
        let watched = &mut self.servers[index];
        if !watched.is_away {
            watched.server.hang()?;
            watched.is_away = true;
            watched.is_frozen = true;
        }
        Ok(())
    }

    /// Lets a server go on that is frozen. It takes itself for what it was until a Sentinel tells it otherwise.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn wake_server(&mut self, index: usize) -> Result<(), SentinelError> {
        let watched = &mut self.servers[index];
        if watched.is_frozen {
            watched.server.wake()?;
            watched.is_away = false;
            watched.is_frozen = false;
        }
        Ok(())
    }

    /// Kills a Sentinel (SIGKILL).
    pub fn kill_sentinel(&mut self, index: usize) {
        self.sentinels[index].kill();
    }

    /// Stops a Sentinel where it is (SIGSTOP): connections to it are made, and nothing is answered.
    ///
    /// # Errors
    /// Where it has ended by itself.
    pub fn freeze_sentinel(&mut self, index: usize) -> Result<(), SentinelError> {
        let sentinel = &mut self.sentinels[index];
        kill_process(Pid::from_child(&sentinel.child), Signal::STOP).map_err(io::Error::from)?;
        sentinel.is_away = true;
        Ok(())
    }

    /// Starts a killed Sentinel once more, at its port and with what it knew.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn restart_sentinel(&mut self, index: usize) -> Result<(), SentinelError> {
        self.sentinels[index].restart()
    }

    /// Has a Sentinel watch another server under the same name, by itself alone, as one does that missed a failover or
    /// was set up wrongly. The other Sentinels tell it the truth within seconds where it hears of them: where the server
    /// is one that they watch too, or its replica.
    ///
    /// # Errors
    /// Where it is away, or refuses.
    pub fn mislead(&self, sentinel: usize, to: SocketAddr) -> Result<(), SentinelError> {
        self.forget(sentinel)?;
        let (host, port) = (to.ip().to_string(), to.port().to_string());
        // A quorum that is never reached: it is to be wrong, and to do nothing about it.
        self.ask(sentinel, &["SENTINEL", "MONITOR", NAME, &host, &port, "100"])?;
        Ok(())
    }

    /// Has a Sentinel forget the name.
    ///
    /// # Errors
    /// Where it is away, or refuses.
    pub fn forget(&self, sentinel: usize) -> Result<(), SentinelError> {
        self.ask(sentinel, &["SENTINEL", "REMOVE", NAME])?;
        Ok(())
    }

    /// The Sentinels that run.
    pub fn watching(&self) -> impl Iterator<Item = usize> {
        (0..self.sentinels.len()).filter(|index| !self.sentinels[*index].is_away)
    }

    /// The servers that run.
    fn present(&self) -> impl Iterator<Item = usize> {
        (0..self.servers.len()).filter(|index| !self.servers[*index].is_away)
    }
}

impl Sentinel {
    fn start(binary: &Binary, primary: u16, options: &Options) -> Result<Self, SentinelError> {
        let is_taken =
            |error: &SentinelError| matches!(error, SentinelError::Silent(log) if log.contains("already in use"));
        ports::retried(|| Self::try_start(binary, primary, options), is_taken)
    }

    fn try_start(binary: &Binary, primary: u16, options: &Options) -> Result<Self, SentinelError> {
        let dir = tempfile::Builder::new().prefix("keyfold-").tempdir()?;
        let port = ports::free()?;
        fs::write(dir.path().join("sentinel.conf"), configuration(port, dir.path(), primary, options))?;
        let child = Self::spawn(binary, dir.path())?;
        let mut sentinel = Self { binary: binary.clone(), child, port, dir, is_away: false };
        sentinel.wait_until_ready()?;
        Ok(sentinel)
    }

    fn spawn(binary: &Binary, dir: &Path) -> io::Result<Child> {
        Command::new(binary.path())
            .arg(dir.join("sentinel.conf"))
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    /// Asks over the unix socket: nobody else can be behind it, as could be behind the port.
    fn wait_until_ready(&mut self) -> Result<(), SentinelError> {
        let socket = self.dir.path().join(SOCKET);
        let ready = wait_for("a Sentinel to answer", PATIENCE, || {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return Ok(false);
            }
            let reply = Wire::connect_unix(&socket).and_then(|mut wire| wire.call(&[b"PING"]));
            reply.map(|_| true).map_err(|error| error.to_string())
        });
        match ready {
            Ok(true) => Ok(()),
            _ => {
                let log = fs::read(self.dir.path().join("log")).unwrap_or_default();
                Err(SentinelError::Silent(String::from_utf8_lossy(&log).into_owned()))
            }
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.is_away = true;
    }

    fn restart(&mut self) -> Result<(), SentinelError> {
        self.kill();
        self.child = Self::spawn(&self.binary, self.dir.path())?;
        self.is_away = false;
        self.wait_until_ready()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // Fails only where it has ended already, and then there is nothing left to do.
        self.kill();
    }
}

/// Starts a server that follows the one at this port, where there is one.
fn start_server(binary: &Binary, primary: Option<u16>, options: &Options) -> Result<Server, SentinelError> {
    let mut args = vec!["--repl-diskless-sync-delay".to_owned(), "0".to_owned()];
    if let Some(primary) = primary {
        args.extend(["--replicaof", options.host, &primary.to_string()].map(str::to_owned));
    }
    if let Some(password) = &options.password {
        args.extend(["--requirepass", password, "--masterauth", password].map(str::to_owned));
    }
    let start = || {
        let (port, mut args) = (ports::free()?, args.clone());
        args.extend(options.tls.iter().flat_map(|certificates| certificates.server_args(port)));
        args.extend(options.args.iter().cloned());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Ok(Server::start_at(binary, port, &args)?)
    };
    let is_taken = |error: &SentinelError| matches!(error, SentinelError::Start(error) if error.is_taken_port());
    ports::retried(start, is_taken)
}

/// What a Sentinel reads at its start.
fn configuration(port: u16, dir: &Path, primary: u16, options: &Options) -> String {
    let Options { quorum, down_after, sentinel_password, password, tls, clear_sentinels, host, lines, .. } = options;
    let clients = match tls {
        Some(_) if !clear_sentinels => format!("port 0\ntls-port {port}"),
        _ => format!("port {port}"),
    };
    let (folder, down_after) = (dir.display(), down_after.as_millis());
    let mut all = vec![
        clients,
        "bind 127.0.0.1".to_owned(),
        format!("dir {folder}"),
        format!("logfile {folder}/log"),
        format!("unixsocket {folder}/{SOCKET}"),
        format!("sentinel monitor {NAME} {host} {primary} {quorum}"),
        format!("sentinel down-after-milliseconds {NAME} {down_after}"),
        // After one failover the next waits for twice as long.
        format!("sentinel failover-timeout {NAME} 5000"),
    ];
    let settings = tls.iter().flat_map(Certificates::settings);
    all.extend(settings.map(|(name, value)| format!("{name} {value}")));
    if let Some(password) = password {
        all.push(format!("sentinel auth-pass {NAME} {password}"));
    }
    if let Some(password) = sentinel_password {
        all.push(format!("requirepass {password}"));
        all.push(format!("sentinel sentinel-pass {password}"));
    }
    all.extend(lines.iter().cloned());
    all.join("\n") + "\n"
}

fn ask(wire: Result<Wire, WireError>, args: &[&str]) -> Result<Value, SentinelError> {
    let bytes: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    match wire.and_then(|mut wire| wire.ask(&bytes)) {
        Ok(reply) if reply.is_error() => Err(SentinelError::Refused { command: args.join(" "), reply }),
        Ok(reply) => Ok(reply),
        Err(source) => Err(SentinelError::Wire { command: args.join(" "), source }),
    }
}

/// The number under a name, in a map as RESP2 has it: names and values in turn.
fn number(map: &Value, name: &[u8]) -> Option<usize> {
    let pair = map.elements()?.chunks_exact(2).find(|pair| pair[0].bytes() == Some(name))?;
    usize::try_from(pair[1].integer()?).ok()
}
