//! `keyfold lab` as a process, before real servers.

mod counted;
mod left;
mod refused;
mod results;
mod served;

use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use keyfold_testkit::{Binary, Server, Wire, found};
use tempfile::TempDir;

/// What `bundles` changes, and what these tests' servers have there.
const VALUE: &str = "hash-max-listpack-value";
const VALUE_ARGS: [&str; 2] = ["--hash-max-listpack-value", "100"];

/// A server, and a folder for results.
struct Stage {
    server: Server,
    out: TempDir,
}

/// How keyfold ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Stage {
    /// The oldest server at hand, with these arguments; none where there is no server.
    fn start(args: &[&str]) -> Option<Self> {
        let binary = oldest()?;
        Some(Self { server: binary.start(args).unwrap(), out: TempDir::new().unwrap() })
    }

    /// A lab on the server, whose results go to this stage's folder.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = keyfold(args);
        command.args(["--server", &self.server.url(), "--out"]).arg(self.out.path().join("lab"));
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        ended(self.command(args).output().unwrap())
    }

    fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    fn connect(&self) -> Wire {
        self.server.connect().unwrap()
    }

    /// A reply as it came, with its bytes escaped.
    fn said(&self, command: &str) -> String {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.connect().call(&args).unwrap().escape_ascii().to_string()
    }

    fn setting(&self) -> String {
        self.said(&format!("CONFIG GET {VALUE}"))
    }

    /// Returns once a study has changed the setting. Asks over one connection: a lab that reads memory waits until
    /// nobody comes and goes.
    fn wait_until_changed(&self) {
        let mut wire = self.connect();
        let mut setting = || wire.call(&[b"CONFIG", b"GET", VALUE.as_bytes()]).unwrap();
        let before = setting();
        while setting() == before {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Ran {
    #[track_caller]
    fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    fn assert_says(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text) || self.stderr.contains(text), "no \"{text}\" in {self:#?}");
        self
    }
}

fn oldest() -> Option<Binary> {
    found().into_iter().next()
}

fn keyfold(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_PASSWORD", "KEYFOLD_LOG"] {
        command.env_remove(variable);
    }
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ended(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn finish(child: Child) -> Ran {
    ended(child.wait_with_output().unwrap())
}
