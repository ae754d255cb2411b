//! A server of keyfold's own: on a unix socket in a private directory, with no port, for nobody else.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use tempfile::TempDir;

use crate::connection::{Server, Target};

/// Looked for on PATH, in this order.
const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];
/// How long it may take until it answers, loading its data aside; generous, for loaded machines.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Between two tries to connect while it starts.
const RETRY_AFTER: Duration = Duration::from_millis(5);
/// A unix socket's path is shorter than this on every system.
const SOCKET_PATH_BYTES: usize = 100;

/// A server of keyfold's own. It ends when this is dropped.
pub struct OwnServer {
    target: Target,
    /// Open for as long as the server should run.
    pipe: Option<ChildStdin>,
    ended: Receiver<Ended>,
    /// Removed by the supervisor, too, which may outlive this process.
    _scratch: TempDir,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    status: io::Result<ExitStatus>,
    stderr: String,
}

impl OwnServer {
    /// The program that would be started: `program`, or the first server on PATH.
    ///
    /// # Errors
    /// There is none.
    pub fn program(program: Option<&Path>) -> anyhow::Result<PathBuf> {
        let Some(named) = program else { return find_program() };
        let is_path = named.components().count() > 1;
        let path = env::var_os("PATH").unwrap_or_default();
        let is_there =
            if is_path { named.is_file() } else { env::split_paths(&path).any(|dir| dir.join(named).is_file()) };
        is_there.then(|| named.to_owned()).with_context(|| format!("there is no program {}", named.display()))
    }

    /// Starts `program`, or the first server on PATH, and waits until it answers. With `data`, what it holds
    /// is kept there; without, it is gone at the end.
    pub fn start(program: Option<&Path>, data: Option<&Path>) -> anyhow::Result<Self> {
        Self::start_with(program, data, &[])
    }

    /// The same with arguments for the server, which win over keyfold's own.
    pub(crate) fn start_with(program: Option<&Path>, data: Option<&Path>, args: &[&str]) -> anyhow::Result<Self> {
        let program = program.map_or_else(find_program, |program| Ok(program.to_owned()))?;
        let scratch =
            tempfile::Builder::new().prefix("keyfold-").tempdir().context("can't make a private directory")?;
        let socket = scratch.path().join("server.sock");
        if socket.as_os_str().len() > SOCKET_PATH_BYTES {
            bail!("{} is too long for a unix socket; set TMPDIR to a shorter path", socket.display());
        }
        let data = data.map(make_directory).transpose()?;
        let data = data.as_deref();
        let log = data.unwrap_or(scratch.path()).join("server.log");
        let mut child = spawn(&program, scratch.path(), &socket, data, &log, args)?;
        let pipe = child.stdin.take();
        let mut server = Self { target: Target::on_socket(socket), pipe, ended: watch(child), _scratch: scratch };
        server.wait_until_ready(&log).with_context(|| format!("{} did not start", program.display()))?;
        Ok(server)
    }

    /// Where it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Connects to it.
    pub fn connect(&self) -> anyhow::Result<Server> {
        Server::connect(&self.target)
    }

    /// Runs `body` on another thread if the server ends by itself. Call once.
    pub fn on_end(&mut self, body: impl FnOnce(Ended) + Send + 'static) {
        let (sender, ended) = mpsc::channel();
        let first = std::mem::replace(&mut self.ended, ended);
        thread::spawn(move || {
            if let Ok(end) = first.recv() {
                // Whoever stops the server doesn't look at how it ended.
                let shown = Ended { status: Ok(ExitStatus::default()), stderr: String::new() };
                let _ = sender.send(shown);
                body(end);
            }
        });
    }

    /// Stops it, and waits until its data is on disk.
    pub fn stop(mut self) {
        self.close();
    }

    fn close(&mut self) {
        if self.pipe.take().is_some() {
            let _ = self.ended.recv();
        }
    }

    fn wait_until_ready(&mut self, log: &Path) -> anyhow::Result<()> {
        let mut deadline = Instant::now() + READY_WITHIN;
        loop {
            let connected = Server::connect_to_node(&self.target);
            // A node that is in no cluster yet holds nothing, and answers no question about keys.
            let is_ready = |mut server: Server| Ok(server.version().is_cluster() || server.is_ready()?);
            let refused = match connected.and_then(is_ready) {
                Ok(true) => return Ok(()),
                // However much data there is, it takes as long as it takes.
                Ok(false) => {
                    deadline = Instant::now() + READY_WITHIN;
                    None
                }
                Err(error) => Some(error),
            };
            if let Ok(ended) = self.ended.try_recv() {
                return Err(ended.explain(log));
            }
            if let Some(error) = refused.filter(|_| Instant::now() > deadline) {
                return Err(error.context(tail(log)));
            }
            thread::sleep(RETRY_AFTER);
        }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Ended {
    /// What it said last.
    fn explain(&self, log: &Path) -> anyhow::Error {
        match self.stderr.trim() {
            "" => anyhow!("{}\n{}", self.how(), tail(log)),
            said => anyhow!("{}", said.strip_prefix("error: ").unwrap_or(said)),
        }
    }

    /// In a few words.
    pub fn how(&self) -> String {
        match &self.status {
            Ok(status) => format!("it ended with {status}"),
            Err(error) => format!("it ended: {error}"),
        }
    }
}

fn find_program() -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<_> = env::split_paths(&path).collect();
    PROGRAMS
        .iter()
        .find_map(|program| directories.iter().map(|dir| dir.join(program)).find(|file| file.is_file()))
        .context("no valkey-server or redis-server is on PATH; install one, or name one with --server PROGRAM")
}

/// Makes a directory where there is none. Its whole path: the server goes into it before it opens what lies there.
fn make_directory(path: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(path)
        .and_then(|()| fs::canonicalize(path))
        .with_context(|| format!("can't make the directory {}", path.display()))
}

/// Starts the supervisor, which starts the server.
fn spawn(
    program: &Path,
    scratch: &Path,
    socket: &Path,
    data: Option<&Path>,
    log: &Path,
    args: &[&str],
) -> anyhow::Result<Child> {
    let keyfold = env::current_exe().context("can't find keyfold's own program")?;
    let mut command = Command::new(keyfold);
    command.arg("supervise").arg("--scratch").arg(scratch);
    if let Some(data) = data {
        command.arg("--lock").arg(data.join("keyfold.lock"));
    }
    command.arg("--").arg(program);
    command.args(["--port", "0", "--unixsocketperm", "700", "--unixsocket"]).arg(socket);
    command.args(["--daemonize", "no", "--supervised", "no", "--save", ""]);
    command.args(["--appendonly", if data.is_some() { "yes" } else { "no" }]);
    command.arg("--dir").arg(data.unwrap_or(scratch)).arg("--logfile").arg(log).args(args);
    command.process_group(0).env_remove("KEYFOLD_LOG").env("NO_COLOR", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().context("can't start a supervisor for the server")
}

/// Waits for the supervisor's end on a thread.
fn watch(mut child: Child) -> Receiver<Ended> {
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut stderr = String::new();
        if let Some(mut pipe) = child.stderr.take() {
            let _ = pipe.read_to_string(&mut stderr);
        }
        let _ = sender.send(Ended { status: child.wait(), stderr });
    });
    ended
}

/// The end of the server's log.
fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().rev().take(5).collect();
    let lines: Vec<_> = lines.into_iter().rev().map(|line| format!("  {line}")).collect();
    if lines.is_empty() { "its log is empty".to_owned() } else { format!("its log ends with\n{}", lines.join("\n")) }
}
