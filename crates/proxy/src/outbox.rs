//! Bytes on their way out of a socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use keyfold_core::drive::Written;
use tokio::io::AsyncWrite;

use crate::socket::Socket;

/// An empty buffer larger than this is given back at once; a smaller one when its connection falls idle.
const KEPT_BYTES: usize = 1 << 20;

/// So many bytes are written before others get their turn.
const BYTES_PER_TURN: usize = 1 << 20;

/// What is left behind a large part that is written moves up only where that is less than this, or little of the whole.
const MOVED_BYTES: usize = 1 << 20;

/// What waits to be written, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// The first so many bytes are written already.
    sent: usize,
    /// How many bytes were ever written.
    written: u64,
    /// Some of them may still be in the socket's own buffer, as TLS has one.
    unflushed: bool,
}

impl Outbox {
    /// Where to append.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What waits, with the command that begins at `command`, of all bytes ever written, as the last.
    pub(crate) fn with_last(&mut self, command: u64) -> Written<'_> {
        let base = self.written - self.sent as u64;
        Written { bytes: &mut self.bytes, base, sent: self.written, command }
    }

    /// How many bytes wait.
    pub(crate) fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether nothing waits, here or in the socket's own buffer.
    pub(crate) fn is_flushed(&self) -> bool {
        self.unsent() == 0 && !self.unflushed
    }

    /// How many bytes were ever written to the socket.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// How many bytes that will be once nothing waits.
    pub(crate) fn appended(&self) -> u64 {
        self.written + self.unsent() as u64
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.sent = 0;
    }

    /// Gives the buffer back, where nothing waits: an idle connection owns almost nothing.
    pub(crate) fn trim(&mut self) {
        if self.unsent() == 0 {
            self.clear();
        }
    }

    /// Writes as much as the socket takes; ready once nothing waits.
    pub(crate) fn poll_flush(&mut self, socket: &mut Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let turn = self.written + BYTES_PER_TURN as u64;
        while self.unsent() > 0 {
            let Some(room) = turn.checked_sub(self.written).filter(|room| *room > 0) else {
                cx.waker().wake_by_ref();
                self.compact();
                return Poll::Pending;
            };
            let end = self.bytes.len().min(self.sent + usize::try_from(room).unwrap_or(BYTES_PER_TURN));
            match Pin::new(&mut *socket).poll_write(cx, &self.bytes[self.sent..end]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => {
                    self.sent += written;
                    self.written += written as u64;
                    self.unflushed = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.compact();
                    return Poll::Pending;
                }
            }
        }
        self.sent = 0;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        ready!(Pin::new(socket).poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Each byte moves at most once for each time the buffer doubles, and few at one time.
    fn compact(&mut self) {
        let few = self.unsent() < MOVED_BYTES.max(self.bytes.len() / 16);
        if self.sent > self.bytes.len() / 2 && few {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}
