//! What stands between keyfold and a server of its own, so that the server never outlives keyfold.
//!
//! ```text
//! keyfold serve ──pipe──▶ keyfold supervise ──▶ valkey-server
//! ```
//! keyfold runs itself once more, with a pipe as standard input. However keyfold ends, by SIGKILL too, the
//! system closes the pipe; then the server is asked to stop by SIGTERM, which writes to disk what it keeps,
//! and the scratch directory is removed. Both are a process group of their own: Ctrl-C in a terminal goes to
//! keyfold alone, which lets every accepted request be answered first.
//!
//! A lock on the data directory is held here for as long as the server runs, whatever becomes of keyfold.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long the server may take to write its data and end; then it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(60);

/// Runs `server`, a program with its arguments, until standard input is closed, with `lock_file` locked meanwhile; then
/// removes the directory `scratch`.
///
/// # Errors
/// The server can't be started or stopped, or ended by itself other than well.
pub fn run(server: &[OsString], lock_file: Option<&Path>, scratch: &Path) -> anyhow::Result<()> {
    let ended = run_locked(server, lock_file);
    let _ = std::fs::remove_dir_all(scratch);
    let status = ended?;
    if status.success() { Ok(()) } else { Err(anyhow!("the server ended with {status}")) }
}

fn run_locked(server: &[OsString], lock_file: Option<&Path>) -> anyhow::Result<ExitStatus> {
    // Dropped, and with it the lock, once the server has ended.
    let _lock = lock_file.map(lock).transpose()?;
    let (program, args) = server.split_first().context("no server is named")?;
    let mut server = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("can't start {}", program.display()))?;
    wait(&mut server)
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("can't write {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another keyfold uses this directory (its server holds {}); stop that one first", path.display());
    }
    Ok(file)
}

enum Event {
    /// keyfold has closed the pipe, or is gone.
    Closed,
    /// The server has ended.
    Ended(io::Result<ExitStatus>),
}

fn wait(server: &mut Child) -> anyhow::Result<ExitStatus> {
    let pid = Pid::from_child(server);
    let (sender, events) = mpsc::channel();
    let closed = sender.clone();
    thread::spawn(move || {
        // Nothing is ever written: the read returns when the pipe is closed.
        let _ = io::stdin().read(&mut [0]);
        let _ = closed.send(Event::Closed);
    });
    thread::scope(|scope| {
        scope.spawn(move || sender.send(Event::Ended(server.wait())));
        match events.recv()? {
            Event::Ended(status) => return Ok(status?),
            Event::Closed => kill_process(pid, Signal::TERM).context("can't stop the server")?,
        }
        match events.recv_timeout(STOP_WITHIN) {
            Ok(Event::Ended(status)) => Ok(stopped(status?)),
            Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => bail!("the server is lost from sight"),
            Err(RecvTimeoutError::Timeout) => {
                kill_process(pid, Signal::KILL)?;
                bail!("the server did not stop within {} s and was killed", STOP_WITHIN.as_secs())
            }
        }
    })
}

/// A server that ends by the SIGTERM it was sent, before it handles it, ended well.
fn stopped(status: ExitStatus) -> ExitStatus {
    if status.signal() == Some(Signal::TERM.as_raw()) { ExitStatus::default() } else { status }
}
