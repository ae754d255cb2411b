//! One server, started for a test and gone after it.
//!
//! Each has a port, a unix socket and a directory of its own, so that any number run side by side. It
//! saves nothing, and is killed when dropped. The program's own servers (`keyfold_server::OwnServer`) are started another
//! way: they are on a socket alone, outlive no program that starts them, and need crates that tests of the core do without.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use keyfold_core::admin::{COPY_KEY, LAYOUT_KEY};
use keyfold_core::layout::Layout;

use crate::ports;
use crate::servers::{Binary, Flavor, Version};
use crate::wire::{Wire, WireError};

/// How long a server may take until it answers; generous, for loaded machines.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Between two tries to connect while it starts.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No directory, port or process to be had.
    #[error("{name} cannot be started: {source}")]
    System {
        /// The server.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it answered.
    #[error("{name} ended before it answered; its log:\n{log}")]
    Ended {
        /// The server.
        name: String,
        /// What it logged.
        log: String,
    },
    /// It runs and does not answer PING.
    #[error("{name} did not answer within {} s; its log:\n{log}", READY_WITHIN.as_secs())]
    Silent {
        /// The server.
        name: String,
        /// What it logged.
        log: String,
    },
}

impl StartError {
    /// Whether it ended because another process has one of its ports.
    pub fn is_taken_port(&self) -> bool {
        matches!(self, Self::Ended { log, .. } if log.contains("already in use"))
    }
}

impl Binary {
    /// Starts it with more arguments than the test's own, as in `["--maxmemory", "10mb"]`.
    ///
    /// # Errors
    /// See [`Server::start`].
    pub fn start(&self, args: &[&str]) -> Result<Server, StartError> {
        Server::start(self, args)
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    binary: Binary,
    child: Child,
    port: u16,
    unix_socket: PathBuf,
    dir: TempDir,
    args: Vec<String>,
}

impl Server {
    /// Starts a server and waits until it answers PING. `args` come last, so they win over the test's own.
    ///
    /// # Errors
    /// Where it does not start; the error carries the server's log.
    pub fn start(binary: &Binary, args: &[&str]) -> Result<Self, StartError> {
        let system = |source| StartError::System { name: binary.name(), source };
        let start = || Self::start_at(binary, free_port().map_err(system)?, args);
        ports::retried(start, StartError::is_taken_port)
    }

    /// The same at a port that the caller has chosen.
    ///
    /// # Errors
    /// Where it does not start, also because the port is taken: [`StartError::is_taken_port`].
    pub fn start_at(binary: &Binary, port: u16, args: &[&str]) -> Result<Self, StartError> {
        let system = |source| StartError::System { name: binary.name(), source };
        let dir = tempfile::Builder::new().prefix("keyfold-").tempdir().map_err(system)?;
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let child = Self::spawn(binary, dir.path(), port, &args).map_err(system)?;
        let unix_socket = dir.path().join("socket");
        let mut server = Self { binary: binary.clone(), child, port, unix_socket, dir, args };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn spawn(binary: &Binary, dir: &Path, port: u16, args: &[String]) -> io::Result<Child> {
        Command::new(binary.path())
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--unixsocket")
            .arg(dir.join("socket"))
            .arg("--dir")
            .arg(dir)
            .arg("--logfile")
            .arg(dir.join("log"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    /// Kills it with no time to save anything, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it where it is, as a machine that hangs would.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn hang(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::STOP)?)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn wake(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    /// Kills it, where it still runs, and starts it once more: the same port, directory and arguments, and what it had
    /// written there.
    ///
    /// # Errors
    /// Where it does not start; the error carries the server's log.
    pub fn restart(&mut self) -> Result<(), StartError> {
        let system = |source| StartError::System { name: self.binary.name(), source };
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.child = Self::spawn(&self.binary, self.dir.path(), self.port, &self.args).map_err(system)?;
        self.wait_until_ready()
    }

    /// Asks over the unix socket: nobody else can be behind it, as could be behind the port.
    fn wait_until_ready(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if self.answers_ping() {
                return Ok(());
            }
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return Err(StartError::Ended { name: self.name(), log: self.log() });
            }
            if Instant::now() > deadline {
                return Err(StartError::Silent { name: self.name(), log: self.log() });
            }
            thread::sleep(RETRY_AFTER);
        }
    }

    /// Whether it is ready. A server that wants a password first is.
    fn answers_ping(&self) -> bool {
        let reply = Wire::connect_unix(&self.unix_socket).and_then(|mut wire| wire.call(&[b"PING"]));
        reply.is_ok_and(|reply| reply == b"+PONG\r\n" || reply.starts_with(b"-NOAUTH"))
    }

    /// A new connection over TCP.
    ///
    /// # Errors
    /// Where the server is gone.
    pub fn connect(&self) -> Result<Wire, WireError> {
        Wire::connect((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Writes a layout to where keyfold keeps the one in force, as if a tool of keyfold's had put it there.
    ///
    /// # Errors
    /// Where the server is gone.
    pub fn put_in_force(&self, layout: &Layout) -> Result<(), WireError> {
        if !layout.is_empty() {
            let text = layout.to_stored().into_bytes();
            Wire::connect_unix(&self.unix_socket)?.call(&[b"MSET", LAYOUT_KEY, &text, COPY_KEY, &text])?;
        }
        Ok(())
    }

    /// The TCP port, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path of its unix socket.
    pub fn unix_socket(&self) -> &Path {
        &self.unix_socket
    }

    /// 127.0.0.1 and the port.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// `redis://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.binary.version()
    }

    /// Redis or Valkey.
    pub fn flavor(&self) -> Flavor {
        self.binary.flavor()
    }

    /// Both, for messages: `redis 7.0.15`.
    pub fn name(&self) -> String {
        self.binary.name()
    }

    /// The process, for tests that pause or kill it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        let log = fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only where it has ended already, and then there is nothing left to do.
        self.kill();
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
