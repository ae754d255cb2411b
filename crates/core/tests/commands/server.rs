//! A plain server of its own for a test, and a connection that sends many commands at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use keyfold_core::resp::{Reply, ReplyScanner, write_command};
use keyfold_core::string;

/// A server on a free port; it is stopped when this is dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
    /// Kept open, so that the server can go on writing its log.
    _log: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server and waits until it accepts connections. Where none is installed, says so, past the
    /// test harness, and returns none.
    pub(crate) fn start() -> Option<Self> {
        Self::start_program(Path::new("redis-server"))
    }

    /// The same of another program than the first on PATH.
    pub(crate) fn start_program(program: &Path) -> Option<Self> {
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let spawned = Command::new(program)
                .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()])
                .stdout(Stdio::piped())
                .spawn();
            let Ok(mut child) = spawned else {
                std::io::stderr().write_all(b"SKIPPED: no redis-server on PATH to compare with\n").unwrap();
                return None;
            };
            let mut log = BufReader::new(child.stdout.take().unwrap());
            if log.by_ref().lines().map_while(Result::ok).any(|line| line.contains("Ready to accept connections")) {
                return Some(Self { child, port, _log: log });
            }
            // Another process took the port in between.
            child.wait().unwrap();
        }
        panic!("redis-server did not start on five free ports");
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, input: Vec::new() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left to stop where these fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to the server.
pub(crate) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Connection {
    /// Sends the commands in one go; their replies, byte for byte, in order.
    pub(crate) fn run<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for command in commands {
            write_command(&mut out, &command.iter().map(AsRef::as_ref).collect::<Vec<_>>());
        }
        self.stream.write_all(&out).unwrap();
        commands.iter().map(|_| self.read_reply()).collect()
    }

    /// Sends one command.
    pub(crate) fn one(&mut self, command: &[&str]) -> Vec<u8> {
        self.run(&[command.to_vec()]).remove(0)
    }

    /// The next reply, or the next message.
    pub(crate) fn read_reply(&mut self) -> Vec<u8> {
        let mut scanner = ReplyScanner::default();
        loop {
            if let Some(end) = scanner.scan(&self.input).unwrap() {
                return self.input.drain(..end).collect();
            }
            let mut chunk = [0; 1 << 16];
            let len = self.stream.read(&mut chunk).unwrap();
            assert!(len > 0, "the server closed the connection");
            self.input.extend_from_slice(&chunk[..len]);
        }
    }
}

/// A reply as the functions of commands take it that have asked for it.
pub(crate) fn help_of(reply: Reply<'_>) -> string::Reply {
    match reply {
        Reply::Nil => string::Reply::Nil,
        Reply::Integer(value) => string::Reply::Integer(value),
        Reply::Error(error) => string::Reply::Error(String::from_utf8(error.to_vec()).unwrap()),
        Reply::Bulk(bytes) | Reply::Simple(bytes) => string::Reply::Bytes(bytes.to_vec()),
        Reply::Array(parts) | Reply::Map(parts) => string::Reply::List(parts.map(help_of).collect()),
    }
}
