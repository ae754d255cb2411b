//! The `keyfold` program, started in front of a server for as long as a test needs it.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::ports;
use crate::server::Server;

/// How long it may take until it listens; generous, for loaded machines.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// What it prints once it listens; the address follows.
const READY_LINE: &str = "listening on ";

/// Why the program does not serve.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// The program is not built.
    #[error("no program at {}; build it (cargo build -p keyfold), or say by KEYFOLD_BIN where it is", .0.display())]
    Missing(PathBuf),
    /// No process or file to be had.
    #[error("keyfold cannot be started: {0}")]
    System(#[from] io::Error),
    /// It ended, or did not say in time where it listens.
    #[error("keyfold did not say where it listens; what it printed:\n{0}")]
    Silent(String),
}

/// A running proxy.
#[derive(Debug)]
pub struct Subject {
    child: Child,
    address: SocketAddr,
    dir: TempDir,
}

impl Subject {
    /// Starts `keyfold serve` in front of a server with a layout in the file's form, and waits until it
    /// listens. The program is the one that KEYFOLD_BIN names, or the workspace's own of this profile.
    ///
    /// # Errors
    /// Where it does not come to listen.
    pub fn start(server: &Server, layout: &str) -> Result<Self, SubjectError> {
        Self::launch(&server.url(), Some(layout), "127.0.0.1:0", &[])
    }

    /// The same with the layout that the server holds, or none.
    ///
    /// # Errors
    /// Where it does not come to listen.
    pub fn beside(server: &Server) -> Result<Self, SubjectError> {
        Self::launch(&server.url(), None, "127.0.0.1:0", &[])
    }

    /// The same with more options of `keyfold serve`.
    ///
    /// # Errors
    /// Where it does not come to listen.
    pub fn beside_with(server: &Server, options: &[&str]) -> Result<Self, SubjectError> {
        Self::launch(&server.url(), None, "127.0.0.1:0", options)
    }

    /// The same at an address that another one had, so that its clients find it.
    ///
    /// # Errors
    /// Where it does not come to listen.
    pub fn beside_at(server: &Server, address: SocketAddr) -> Result<Self, SubjectError> {
        Self::launch(&server.url(), None, &address.to_string(), &[])
    }

    /// The same before a cluster, with the layout that this holds, or none.
    ///
    /// # Errors
    /// Where it does not come to listen.
    pub fn before_cluster(cluster: &Cluster) -> Result<Self, SubjectError> {
        Self::launch(&cluster.url(0), None, "127.0.0.1:0", &[])
    }

    /// Starts so many before a cluster, by the layout that is in force there. Each announces all, so that to clients
    /// they are a cluster's nodes.
    ///
    /// # Errors
    /// Where one does not come to listen.
    pub fn announced(cluster: &Cluster, count: usize) -> Result<Vec<Self>, SubjectError> {
        let addresses = (0..count).map(|_| ports::free().map(|port| format!("127.0.0.1:{port}")));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        let start = |own: &String| {
            // Its own comes first.
            let others = addresses.iter().filter(|address| *address != own);
            let all = [own].into_iter().chain(others).flat_map(|address| ["--announce", address]);
            Self::launch(&cluster.url(0), None, own, &all.collect::<Vec<_>>())
        };
        addresses.iter().map(start).collect()
    }

    /// Starts `keyfold serve` before a cluster, by the layout that is in force there, and with its own time limits, but for
    /// scripts: those of tests are short.
    /// `upstream` names nodes as keyfold takes them, `cluster://host:port,host:port`; without `listen` the port is a
    /// free one.
    ///
    /// # Errors
    /// Where it does not come to listen.
    pub fn before_cluster_at(upstream: &str, listen: Option<SocketAddr>) -> Result<Self, SubjectError> {
        let listen = listen.map_or_else(|| "127.0.0.1:0".to_owned(), |address| address.to_string());
        Self::launch_with(&["--listen", &listen, "--upstream", upstream, "--slow-timeout", "5s"], None)
    }

    fn launch(upstream: &str, layout: Option<&str>, listen: &str, options: &[&str]) -> Result<Self, SubjectError> {
        // A busy machine is no frozen server.
        let own = ["--listen", listen, "--upstream", upstream, "--server-timeout", "1m", "--connect-timeout", "20s"];
        Self::launch_with(&[&own, options].concat(), layout)
    }

    fn launch_with(options: &[&str], layout: Option<&str>) -> Result<Self, SubjectError> {
        let program = program();
        if !program.is_file() {
            return Err(SubjectError::Missing(program));
        }
        let dir = tempfile::Builder::new().prefix("keyfold-").tempdir()?;
        let mut command = Command::new(&program);
        command.arg("serve").args(options);
        if let Some(layout) = layout {
            let layout_file = dir.path().join("layout.toml");
            fs::write(&layout_file, layout)?;
            command.arg("--layout").arg(&layout_file);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(dir.path().join("log"))?)
            .spawn()?;
        let address = match child.stdout.take() {
            Some(stdout) => ready_address(stdout),
            None => Err(String::new()),
        };
        match address {
            Ok(address) => Ok(Self { child, address, dir }),
            Err(printed) => {
                let _ = child.kill();
                let _ = child.wait();
                let log = fs::read(dir.path().join("log")).unwrap_or_default();
                Err(SubjectError::Silent(printed + &String::from_utf8_lossy(&log)))
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process, for tests that pause or kill it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with no time to say goodbye, and waits until it is gone.
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

    /// What it wrote to stderr so far.
    pub fn log(&self) -> String {
        let log = fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // Fails only where it has ended already, and then there is nothing left to do.
        self.kill();
    }
}

/// The address in the line that says it listens, or all that it printed until it ended or the time was up.
fn ready_address(stdout: impl Read + Send + 'static) -> Result<SocketAddr, String> {
    let (lines, received) = mpsc::channel();
    // Goes on reading for as long as the program runs, so that it never waits for its reader.
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
    });
    let mut printed = String::new();
    while let Ok(line) = received.recv_timeout(READY_WITHIN) {
        let address = line.split_once(READY_LINE).and_then(|(_, address)| address.split_whitespace().next());
        if let Some(address) = address.and_then(|address| address.parse().ok()) {
            return Ok(address);
        }
        printed.push_str(&line);
        printed.push('\n');
    }
    Err(printed)
}

/// The program: the one that KEYFOLD_BIN names, or `keyfold` beside the directory that tests run from.
pub fn program() -> PathBuf {
    if let Some(program) = env::var_os("KEYFOLD_BIN") {
        return PathBuf::from(program);
    }
    let mut dir = env::current_exe().unwrap_or_default();
    dir.pop();
    if dir.ends_with("deps") || dir.ends_with("examples") {
        dir.pop();
    }
    dir.join(format!("keyfold{}", env::consts::EXE_SUFFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_found_among_others() {
        let printed: &[u8] = b"reading layout\n12:00 INFO listening on 127.0.0.1:4711 (6 namespaces)\n";
        assert_eq!(ready_address(printed), Ok("127.0.0.1:4711".parse().unwrap()));
    }

    #[test]
    fn without_it_all_that_was_printed_is_told() {
        assert_eq!(ready_address(b"no such file\n".as_slice()), Err("no such file\n".to_owned()));
    }
}
