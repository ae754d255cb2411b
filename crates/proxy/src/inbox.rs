//! Bytes that came in and aren't understood yet.
//!
//! Sockets are read into one scratch buffer that all connections of a worker share, and what is whole is
//! consumed right there. Only an incomplete rest is copied to the connection's inbox, so an idle connection
//! owns no buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::socket::Socket;

/// A worker's scratch buffer: what one read takes at most.
pub(crate) const SCRATCH_BYTES: usize = 64 * 1024;

/// An empty inbox that holds more than this is given back.
const KEPT_BYTES: usize = 16 * 1024;

/// The bytes of a connection that were read and not consumed.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// The first so many bytes are consumed already.
    start: usize,
}

impl Inbox {
    /// How many bytes wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// What waits.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Adds bytes behind those that wait.
    pub(crate) fn push(&mut self, fresh: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(fresh);
    }

    /// Drops the first `len` bytes that wait.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
        }
    }
}

/// Reads once into `scratch`: how many bytes came, 0 at the end.
pub(crate) fn poll_read(socket: &mut Socket, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(scratch);
    ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().len()))
}
