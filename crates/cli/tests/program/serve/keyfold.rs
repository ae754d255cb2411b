//! The program, run as a person would run it.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use keyfold_testkit::Wire;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) const COUNTERS: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n";

/// A command that finds nothing in the environment but servers.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_PASSWORD", "KEYFOLD_LOG"] {
        command.env_remove(variable);
    }
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs a command to its end: its code, and what it printed.
pub(crate) fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = command(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A layout's file in `dir`.
pub(crate) fn write_layout(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("layout.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Reads on in a log until a line holds this text, and returns what was read.
pub(crate) fn read_until(log: &mut impl BufRead, text: &str) -> String {
    let mut read = String::new();
    while !read.contains(text) {
        let more = log.read_line(&mut read).unwrap();
        assert!(more > 0, "it ended without saying {text:?}: {read}");
    }
    read
}

/// A keyfold that serves.
pub(crate) struct Keyfold {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// None where nobody reads the log any more.
    stderr: Option<BufReader<ChildStderr>>,
    address: SocketAddr,
}

impl Keyfold {
    /// Starts it on a free port, and waits for the line that says it listens.
    pub(crate) fn serve(args: &[&str]) -> Self {
        Self::serve_after(args, |_| ())
    }

    /// The same before a server that `make_ready` makes ready, with the log in its hands.
    pub(crate) fn serve_after(args: &[&str], make_ready: impl FnOnce(&mut BufReader<ChildStderr>)) -> Self {
        Self::start(command(&[]).current_dir("."), args, make_ready)
    }

    /// Starts it in a directory, from which relative paths are meant.
    pub(crate) fn serve_in(directory: &Path, args: &[&str]) -> Self {
        Self::start(command(&[]).current_dir(directory), args, |_| ())
    }

    /// Starts it as a service manager does that is told by this socket, and wants to be told so often that it runs.
    pub(crate) fn serve_under_manager(socket: &Path, watchdog_us: &str, args: &[&str]) -> Self {
        Self::start(command(&[]).env("NOTIFY_SOCKET", socket).env("WATCHDOG_USEC", watchdog_us), args, |_| ())
    }

    /// Starts it where it may open no more than so many files.
    pub(crate) fn serve_with_files(limit: usize, args: &[&str]) -> Self {
        let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
        let program = command(&[]);
        let mut limited = Command::new("sh");
        limited.args(["-c", &script]).arg(program.get_program()).stdin(Stdio::null()).env("NO_COLOR", "1");
        Self::start(&mut limited, args, |_| ())
    }

    fn start(command: &mut Command, args: &[&str], make_ready: impl FnOnce(&mut BufReader<ChildStderr>)) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        make_ready(&mut stderr);
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|address| address.trim_end().parse().ok());
        let Some(address) = address else {
            let mut log = String::new();
            stderr.read_to_string(&mut log).unwrap();
            panic!("no address in {line:?}; {log}");
        };
        Self { child, stdout, stderr: Some(stderr), address }
    }

    /// As tools take it.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(self.address).unwrap()
    }

    /// The next line that it prints, behind what it begins with.
    pub(crate) fn said(&mut self, start: &str) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().strip_prefix(start).unwrap_or_else(|| panic!("{line:?}")).to_owned()
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Reads on in its log until a line holds this text, and returns what was read.
    pub(crate) fn log_until(&mut self, text: &str) -> String {
        read_until(self.stderr.as_mut().expect("somebody reads the log"), text)
    }

    /// Whoever reads its log ends.
    pub(crate) fn lose_log(&mut self) {
        self.stderr = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends a signal, and waits for the end.
    pub(crate) fn end_by(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "nothing but addresses is printed");
        status
    }
}

impl Drop for Keyfold {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
