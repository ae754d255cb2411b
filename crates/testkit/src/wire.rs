//! A blocking connection that adds nothing and hides nothing: arguments in, the reply's exact bytes out.
//!
//! Every read and write ends within a time limit; a test that waits for a reply that never comes fails
//! and says so.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use keyfold_core::resp::write_command;

use crate::reply::{Malformed, Scanner, Value};

/// How long one read or write may take, unless [`Wire::set_timeout`] says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 64 * 1024;

/// Why no reply came.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The connection failed.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// The server sent nothing, or not the whole reply, in time.
    #[error("no whole reply in time; so far: {}", .0.escape_ascii())]
    Timeout(Vec<u8>),
    /// The server closed the connection before the reply was whole.
    #[error("closed before the reply was whole; so far: {}", .0.escape_ascii())]
    Closed(Vec<u8>),
    /// What came is not RESP.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection to a server or to the proxy.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    /// Bytes that came and are not yet handed out.
    input: Vec<u8>,
}

impl Wire {
    /// Connects over TCP.
    ///
    /// # Errors
    /// Where nobody listens.
    pub fn connect(address: impl ToSocketAddrs) -> Result<Self, WireError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Self::over(Stream::Tcp(stream))
    }

    /// Connects over a unix socket.
    ///
    /// # Errors
    /// Where nobody listens.
    pub fn connect_unix(path: &Path) -> Result<Self, WireError> {
        Self::over(Stream::Unix(UnixStream::connect(path)?))
    }

    fn over(stream: Stream) -> Result<Self, WireError> {
        let wire = Self { stream, input: Vec::new() };
        wire.set_timeout(TIMEOUT)?;
        Ok(wire)
    }

    /// The same connection, authenticated where there is a password. What is answered is not looked at.
    ///
    /// # Errors
    /// Where no whole reply comes.
    pub fn authenticated(mut self, password: Option<&str>) -> Result<Self, WireError> {
        if let Some(password) = password {
            self.call(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(self)
    }

    /// Limits each read and write from now on.
    ///
    /// # Errors
    /// Where `timeout` is zero.
    pub fn set_timeout(&self, timeout: Duration) -> Result<(), WireError> {
        match &self.stream {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
            }
        }
        Ok(())
    }

    /// Sends one command and returns its reply's bytes.
    ///
    /// # Errors
    /// Where no whole reply comes.
    pub fn call(&mut self, args: &[&[u8]]) -> Result<Vec<u8>, WireError> {
        self.send(args)?;
        self.reply()
    }

    /// Sends one command and returns its reply, read.
    ///
    /// # Errors
    /// Where no whole reply comes.
    pub fn ask(&mut self, args: &[&[u8]]) -> Result<Value, WireError> {
        Ok(Value::parse(&self.call(args)?)?)
    }

    /// Sends these between MULTI and EXEC, all at once, and returns what EXEC is answered by; where that is only that
    /// something was refused before, what that was refused by.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn transact(&mut self, commands: &[&[&[u8]]]) -> Result<Value, WireError> {
        let mut request = Vec::new();
        write_command(&mut request, &[b"MULTI"]);
        commands.iter().for_each(|args| write_command(&mut request, args));
        write_command(&mut request, &[b"EXEC"]);
        self.send_bytes(&request)?;
        let mut refused = None;
        for _ in 0..=commands.len() {
            refused = refused.or(Some(Value::parse(&self.reply()?)?).filter(Value::is_error));
        }
        let executed = Value::parse(&self.reply()?)?;
        let is_aborted = matches!(&executed, Value::Error(text) if text.starts_with(b"EXECABORT"));
        Ok(refused.filter(|_| is_aborted).unwrap_or(executed))
    }

    /// Sends one command; its reply is for a later [`Wire::reply`]. So commands are pipelined.
    ///
    /// # Errors
    /// Where the connection is gone.
    pub fn send(&mut self, args: &[&[u8]]) -> Result<(), WireError> {
        let mut request = Vec::new();
        write_command(&mut request, args);
        self.send_bytes(&request)
    }

    /// Sends bytes as they are, be they a part of a command, many commands or nonsense.
    ///
    /// # Errors
    /// Where the connection is gone.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes)?,
            Stream::Unix(stream) => stream.write_all(bytes)?,
        }
        Ok(())
    }

    /// The next reply's bytes, no more and no less. A push (RESP3, `>`) comes as a reply of its own; an
    /// attribute (`|`) belongs to the reply it stands before.
    ///
    /// # Errors
    /// Where no whole reply comes. What came of it stays, and a later call goes on from there.
    pub fn reply(&mut self) -> Result<Vec<u8>, WireError> {
        let mut scanner = Scanner::default();
        loop {
            if let Some(len) = scanner.scan(&self.input)? {
                let rest = self.input.split_off(len);
                return Ok(std::mem::replace(&mut self.input, rest));
            }
            if !self.read_more()? {
                return Err(WireError::Closed(std::mem::take(&mut self.input)));
            }
        }
    }

    /// Whether the server has closed the connection, everything it sent having been read.
    ///
    /// # Errors
    /// Where it neither closes nor sends in time, or sends.
    pub fn is_closed(&mut self) -> Result<bool, WireError> {
        Ok(self.input.is_empty() && !self.read_more()?)
    }

    /// Reads once; false at the end of the stream.
    fn read_more(&mut self) -> Result<bool, WireError> {
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let result = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(&mut self.input[start..]),
            Stream::Unix(stream) => stream.read(&mut self.input[start..]),
        };
        self.input.truncate(start + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(len) => Ok(len > 0),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => Ok(true),
                io::ErrorKind::ConnectionReset => Ok(false),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Err(WireError::Timeout(self.input.clone())),
                _ => Err(error.into()),
            },
        }
    }
}
