//! A keyfold proxy in a process of its own, so that its memory and its time are its alone.
//!
//! The measuring program starts itself once more as `bench serve`. The child prints its address, and ends
//! when its standard input does: when the parent drops it, however the parent ends.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_proxy::Config;
use keyfold_proxy::address::{ListenAddress, ServerAddress};
use keyfold_server::Server as Connection;
use keyfold_server::layout::stored;
use keyfold_testkit::{Server, Wire};

/// The child's part: a proxy by the layout that the server holds, until standard input ends.
pub(crate) fn serve(upstream: &str) -> anyhow::Result<()> {
    let address = upstream.parse::<ServerAddress>()?;
    let held =
        stored::read(&mut Connection::connect_to_node(&address.clone().into())?)?.context("it holds no layout")?;
    let mut config = Config::new(address, held.layout);
    config.listen.push("127.0.0.1:0".parse()?);
    let handle = keyfold_proxy::start(config)?;
    let ListenAddress::Tcp(address) = handle.addresses()[0] else { anyhow::bail!("it listens on TCP") };
    println!("{}", address.port());
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The parent's part: a running proxy.
pub(crate) struct Proxy {
    child: Child,
    stdin: Option<ChildStdin>,
    port: u16,
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
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", &server.url()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the proxy")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it has an output")?).read_line(&mut line)?;
        let port = line.trim().parse().context("the proxy said no port; its error is above")?;
        let stdin = child.stdin.take();
        let proxy = Self { child, stdin, port };
        let pong = proxy.connect()?.call(&[b"PING"])?;
        anyhow::ensure!(pong == b"+PONG\r\n", "the proxy answers PING with {}", pong.escape_ascii());
        Ok(proxy)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
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
