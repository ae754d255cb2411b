//! Connections between being accepted and being a worker's clients, and how many there may be.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use keyfold_core::clients::Peer;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::config::Config;
use crate::socket::{Socket, set_options};

/// A connection on its way to a worker.
pub(crate) struct Arrival {
    pub(crate) stream: Accepted,
    pub(crate) seat: Seat,
}

/// An accepted connection, bound to no runtime yet.
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream),
    Tls(std::net::TcpStream, Arc<ServerConfig>),
    Unix(StdUnixStream),
}

/// One client's place among those that may be connected; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    pub(crate) worker: usize,
    /// The client's number: counted from 1, as a server numbers its clients.
    pub(crate) id: u64,
}

/// How many clients each worker has.
#[derive(Debug)]
pub(crate) struct Room {
    taken: Box<[AtomicUsize]>,
    max: AtomicUsize,
    admitted: AtomicU64,
    refused: AtomicU64,
}

impl Room {
    pub(crate) fn new(workers: usize, max: usize) -> Arc<Self> {
        let taken = (0..workers).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self { taken, max: max.into(), admitted: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }

    /// How many there may be.
    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Who is here stays, where more are than there may be from now on.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.iter().map(|taken| taken.load(Ordering::Relaxed)).sum()
    }

    /// How many ever got a seat.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A seat at the worker with the fewest clients. Only the accepting thread takes seats, so the bound
    /// holds although looking and taking are two steps.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Seat> {
        if self.taken() >= self.max() {
            return None;
        }
        let worker = (0..self.taken.len()).min_by_key(|worker| self.taken[*worker].load(Ordering::Relaxed))?;
        self.taken[worker].fetch_add(1, Ordering::Relaxed);
        let id = self.admitted.fetch_add(1, Ordering::Relaxed) + 1;
        Some(Seat { room: Arc::clone(self), worker, id })
    }

    /// Counts a client that was refused; logs the first and then every thousandth.
    pub(crate) fn refuse(&self) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if refused % 1000 == 1 {
            tracing::warn!(max = self.max(), refused, "client refused: as many as --max-clients are connected");
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.taken[self.worker].fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes an accepted connection a client's socket, in the worker that will serve it.
pub(crate) async fn greet(stream: Accepted, id: u64, config: &Config) -> Option<(Socket, Peer)> {
    let (address, local_address) = stream.addresses();
    let descriptor = stream.descriptor();
    let socket = match stream {
        Accepted::Tcp(stream) => tcp(stream).map(Socket::Tcp),
        Accepted::Unix(stream) => UnixStream::from_std(stream).map(Socket::Unix),
        Accepted::Tls(stream, tls) => Box::pin(greet_tls(stream, tls, config.timeouts.handshake)).await,
    };
    match socket {
        Ok(socket) => {
            Some((socket, Peer { id, address, local_address, descriptor, database: config.upstream.database }))
        }
        Err(error) => {
            tracing::debug!(%error, address, "a client did not get as far as its first request");
            None
        }
    }
}

impl Accepted {
    fn descriptor(&self) -> i32 {
        match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// The client's address and ours, as CLIENT INFO shows them.
    fn addresses(&self) -> (String, String) {
        match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => {
                let show = |address: io::Result<std::net::SocketAddr>| address.map_or(String::new(), |a| a.to_string());
                (show(stream.peer_addr()), show(stream.local_addr()))
            }
            Self::Unix(stream) => {
                let path = stream.local_addr().ok().and_then(|address| address.as_pathname().map(Path::to_path_buf));
                // A client of a unix socket has no address; a server shows the socket's path for both.
                let shown = format!("{}:0", path.unwrap_or_default().display());
                (shown.clone(), shown)
            }
        }
    }
}

async fn greet_tls(stream: std::net::TcpStream, tls: Arc<ServerConfig>, limit: Duration) -> io::Result<Socket> {
    let accepted = tokio::time::timeout(limit, TlsAcceptor::from(tls).accept(tcp(stream)?));
    let stream = accepted.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(Socket::Tls(Box::new(TlsStream::Server(stream))))
}

fn tcp(stream: std::net::TcpStream) -> io::Result<TcpStream> {
    let stream = TcpStream::from_std(stream)?;
    set_options(&stream, None)?;
    Ok(stream)
}
