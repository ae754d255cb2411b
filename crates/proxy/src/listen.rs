//! Lets clients in.
//!
//! One thread accepts for all listeners and hands each connection to the worker with the fewest clients: a
//! port per worker would spread few connections unevenly, and a unix socket can't be shared that way.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use keyfold_core::session::Peer;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::address::ListenAddress;
use crate::config::Config;
use crate::socket::{Socket, set_options};
use crate::tls::Current;
use crate::worker::Order;

/// What a client reads that is one too many, as a server would say it.
const FULL: &[u8] = b"-ERR max number of clients reached\r\n";

/// How long accepting rests after the system refused it, as when descriptors have run out.
const REST: Duration = Duration::from_millis(100);

/// Connections that the system keeps until they are accepted.
const BACKLOG: i32 = 1024;

/// A bound listener.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(StdTcpListener),
    Tls(StdTcpListener, Arc<Current<ServerConfig>>),
    Unix(StdUnixListener),
}

/// Binds an address; what it became, with the port that port 0 got.
pub(crate) fn bind(
    address: &ListenAddress,
    tls: Option<&Arc<Current<ServerConfig>>>,
) -> io::Result<(Listener, ListenAddress)> {
    match address {
        ListenAddress::Tcp(wanted) => {
            let listener = bind_tcp(*wanted)?;
            let bound = ListenAddress::Tcp(listener.local_addr()?);
            Ok((Listener::Tcp(listener), bound))
        }
        ListenAddress::Tls(wanted) => {
            let tls = tls.ok_or_else(|| io::Error::other("TLS needs --tls-cert and --tls-key"))?;
            let listener = bind_tcp(*wanted)?;
            let bound = ListenAddress::Tls(listener.local_addr()?);
            Ok((Listener::Tls(listener, Arc::clone(tls)), bound))
        }
        ListenAddress::Unix(path) => {
            remove_stale(path)?;
            let listener = StdUnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok((Listener::Unix(listener), address.clone()))
        }
    }
}

fn bind_tcp(address: std::net::SocketAddr) -> io::Result<StdTcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Removes a socket file that nobody answers; never any other file, and never one in use.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && StdUnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

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
    worker: usize,
    /// Counted from 1, as a server numbers its clients.
    id: u64,
}

/// How many clients each worker has.
#[derive(Debug)]
pub(crate) struct Room {
    taken: Box<[AtomicUsize]>,
    max: usize,
    admitted: AtomicU64,
    refused: AtomicU64,
}

impl Room {
    pub(crate) fn new(workers: usize, max: usize) -> Arc<Self> {
        let taken = (0..workers).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self { taken, max, admitted: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.iter().map(|taken| taken.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A seat at the worker with the fewest clients. Only the accepting thread takes seats, so the bound
    /// holds although looking and taking are two steps.
    fn take(self: &Arc<Self>) -> Option<Seat> {
        if self.taken() >= self.max {
            return None;
        }
        let worker = (0..self.taken.len()).min_by_key(|worker| self.taken[*worker].load(Ordering::Relaxed))?;
        self.taken[worker].fetch_add(1, Ordering::Relaxed);
        let id = self.admitted.fetch_add(1, Ordering::Relaxed) + 1;
        Some(Seat { room: Arc::clone(self), worker, id })
    }

    /// Counts a client that was refused; logs the first and then every thousandth.
    fn refuse(&self) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if refused % 1000 == 1 {
            tracing::warn!(max = self.max, refused, "client refused: as many as --max-clients are connected");
        }
    }
}

impl Seat {
    /// The client's number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.taken[self.worker].fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts for ever on one listener.
pub(crate) async fn accept_all(listener: Listener, room: Arc<Room>, workers: Vec<UnboundedSender<Order>>) {
    let error = match listener {
        Listener::Tcp(listener) => accept_tcp(listener, None, &room, &workers).await,
        Listener::Tls(listener, tls) => accept_tcp(listener, Some(tls), &room, &workers).await,
        Listener::Unix(listener) => accept_unix(listener, &room, &workers).await,
    };
    if let Err(error) = error {
        tracing::error!(%error, "can't accept clients");
    }
}

async fn accept_tcp(
    listener: StdTcpListener,
    tls: Option<Arc<Current<ServerConfig>>>,
    room: &Arc<Room>,
    workers: &[UnboundedSender<Order>],
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let Some((stream, _)) = rest_on_error(listener.accept().await).await else { continue };
        match room.take() {
            Some(seat) => {
                let stream = stream.into_std()?;
                let stream = match &tls {
                    None => Accepted::Tcp(stream),
                    Some(tls) => Accepted::Tls(stream, tls.now()),
                };
                hand_over(Arrival { stream, seat }, workers);
            }
            None => {
                room.refuse();
                if tls.is_none() {
                    let _ = stream.try_write(FULL);
                }
            }
        }
    }
}

async fn accept_unix(
    listener: StdUnixListener,
    room: &Arc<Room>,
    workers: &[UnboundedSender<Order>],
) -> io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    loop {
        let Some((stream, _)) = rest_on_error(listener.accept().await).await else { continue };
        match room.take() {
            Some(seat) => hand_over(Arrival { stream: Accepted::Unix(stream.into_std()?), seat }, workers),
            None => {
                room.refuse();
                let _ = stream.try_write(FULL);
            }
        }
    }
}

async fn rest_on_error<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(%error, "can't accept a client");
            tokio::time::sleep(REST).await;
            None
        }
    }
}

fn hand_over(arrival: Arrival, workers: &[UnboundedSender<Order>]) {
    // A worker that has ended takes no more; the connection closes.
    let _ = workers[arrival.seat.worker].send(Order::Serve(arrival));
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
