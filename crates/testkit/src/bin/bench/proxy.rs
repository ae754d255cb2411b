//! A keyfold proxy in a process of its own, so that its memory and its time are its alone.
//!
//! The measuring program starts itself once more as `bench serve`. The child prints its address, and ends
//! when its standard input does: when the parent drops it, however the parent ends.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context;
use clap::ValueEnum;
use keyfold_core::layout::{CachePolicy, CacheRules, Layout, MaxMemory};
use keyfold_proxy::Config;
use keyfold_proxy::address::{ListenAddress, ServerAddress};
use keyfold_proxy::config::Admin;
use keyfold_server::Server as Connection;
use keyfold_server::layout::stored;
use keyfold_testkit::{Server, Wire};

use crate::options::Watched;
use crate::redis_benchmark::Target;

/// The child's part: a proxy by the layout that the server holds, until standard input ends.
pub(crate) fn serve(upstream: &str, watched: Watched, max_memory: Option<u64>) -> anyhow::Result<()> {
    let address = upstream.parse::<ServerAddress>()?;
    let held =
        stored::read(&mut Connection::connect_to_node(&address.clone().into())?)?.context("it holds no layout")?;
    let mut config = Config::new(address, held.layout);
    config.listen.push("127.0.0.1:0".parse()?);
    if watched == Watched::Bare {
        config.slow.kept_from = None;
    }
    if watched == Watched::All {
        config.admin = Some(Admin::at("127.0.0.1:0".parse()?));
    }
    config.cache.rules = max_memory.map(|bytes| CacheRules {
        policy: CachePolicy::default(),
        max_memory: MaxMemory::Bytes(bytes),
        plain_keys: false,
    });
    let handle = keyfold_proxy::start(config)?;
    let port = |address: &ListenAddress| match address {
        ListenAddress::Tcp(address) => Ok(address.port()),
        _ => Err(anyhow::anyhow!("it listens on TCP")),
    };
    let admin = handle.admin_address().map(port).transpose()?;
    println!("{} {}", port(&handle.addresses()[0])?, admin.unwrap_or_default());
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The parent's part: a running proxy.
pub(crate) struct Proxy {
    child: Child,
    stdin: Option<ChildStdin>,
    port: u16,
    admin_port: Option<u16>,
}

impl Proxy {
    /// Puts a layout in force on a server without keys of it, so that nothing is looked for where it was before, and
    /// starts a proxy there.
    pub(crate) fn start(server: &Server, layout: &str) -> anyhow::Result<Self> {
        server.put_in_force(&Layout::parse_file(layout)?)?;
        Self::beside(server)
    }

    /// Starts a proxy by the layout that the server holds already, and waits until it answers.
    pub(crate) fn beside(server: &Server) -> anyhow::Result<Self> {
        Self::watched(server, Watched::SlowLog)
    }

    /// The same, of which so much is watched.
    pub(crate) fn watched(server: &Server, watched: Watched) -> anyhow::Result<Self> {
        Self::spawn(server, watched, None)
    }

    /// The same, that keeps the server's keys within so many bytes.
    pub(crate) fn keeping(server: &Server, max_memory: u64) -> anyhow::Result<Self> {
        Self::spawn(server, Watched::SlowLog, Some(max_memory))
    }

    fn spawn(server: &Server, watched: Watched, max_memory: Option<u64>) -> anyhow::Result<Self> {
        let name = watched.to_possible_value().context("none is hidden")?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", &server.url(), name.get_name()])
            .args(max_memory.map(|bytes| format!("--max-memory={bytes}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the proxy")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it has an output")?).read_line(&mut line)?;
        let (port, admin_port) = line.trim().split_once(' ').context("the proxy said no ports; its error is above")?;
        let (port, admin_port) = (port.parse()?, Some(admin_port.parse()?).filter(|port| *port != 0));
        let stdin = child.stdin.take();
        let proxy = Self { child, stdin, port, admin_port };
        let pong = proxy.connect()?.call(&[b"PING"])?;
        anyhow::ensure!(pong == b"+PONG\r\n", "the proxy answers PING with {}", pong.escape_ascii());
        Ok(proxy)
    }

    /// It as one that requests are sent to.
    pub(crate) fn target(&self) -> Target {
        Target { port: self.port, pid: self.pid() }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The port at which it is asked for metrics, where it has any.
    pub(crate) fn admin_port(&self) -> Option<u16> {
        self.admin_port
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection to it.
    pub(crate) fn connect(&self) -> anyhow::Result<Wire> {
        Ok(Wire::connect(("127.0.0.1", self.port))?)
    }

    /// The memory it holds, in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kib * 1024)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Fails only where it has ended already.
        let _ = self.child.wait();
    }
}
