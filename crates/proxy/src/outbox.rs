//! Bytes on their way out of a socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use crate::socket::Socket;

/// An empty buffer larger than this is given back at once; a smaller one when its connection falls idle.
const KEPT_BYTES: usize = 1 << 20;

/// What waits to be written, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// The first so many bytes are written already.
    sent: usize,
}

impl Outbox {
    /// Where to append.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// How many bytes wait.
    pub(crate) fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Gives the buffer back, where nothing waits: an idle connection owns almost nothing.
    pub(crate) fn trim(&mut self) {
        if self.unsent() == 0 {
            self.clear();
        }
    }

    /// Writes as much as the socket takes; ready once nothing waits.
    pub(crate) fn poll_flush(&mut self, socket: &mut Socket, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unsent() > 0 {
            match Pin::new(&mut *socket).poll_write(cx, &self.bytes[self.sent..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.sent += written,
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
        Poll::Ready(Ok(()))
    }

    /// Each byte moves at most once for each time the buffer doubles.
    fn compact(&mut self) {
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}
