//! Lets clients in.
//!
//! One thread accepts for all listeners and hands each connection to the worker with the fewest clients: a
//! port per worker would spread few connections unevenly, and a unix socket can't be shared that way.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use socket2::Socket;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc::UnboundedSender;
use tokio_rustls::rustls::ServerConfig;

use crate::address::ListenAddress;
use crate::arrival::{Accepted, Arrival, Room};
use crate::order::Order;
use crate::tls::Current;

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

/// Why `tls://` can't be listened on without a certificate.
pub(crate) fn no_certificate() -> io::Error {
    io::Error::other("TLS needs --tls-cert and --tls-key")
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
            let tls = tls.ok_or_else(no_certificate)?;
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

/// Listens on a socket that others have bound to this address.
pub(crate) fn listen_on(
    socket: Socket,
    address: &ListenAddress,
    tls: Option<&Arc<Current<ServerConfig>>>,
) -> io::Result<(Listener, ListenAddress)> {
    socket.set_nonblocking(true)?;
    let listener = match address {
        ListenAddress::Tcp(_) => Listener::Tcp(socket.into()),
        ListenAddress::Tls(_) => Listener::Tls(socket.into(), Arc::clone(tls.ok_or_else(no_certificate)?)),
        ListenAddress::Unix(_) => Listener::Unix(socket.into()),
    };
    Ok((listener, address.clone()))
}

impl Listener {
    /// The same socket once more.
    pub(crate) fn again(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener, _) => listener.as_fd().try_clone_to_owned(),
            Self::Unix(listener) => listener.as_fd().try_clone_to_owned(),
        }
    }
}

fn bind_tcp(address: std::net::SocketAddr) -> io::Result<StdTcpListener> {
    let socket = bound(address)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn bound(address: std::net::SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Whether an address could be listened on: nobody does, and it is one of this machine. Of a unix socket that isn't asked.
pub(crate) fn is_free(address: &ListenAddress) -> io::Result<()> {
    match address {
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) => bound(*address).map(drop),
        ListenAddress::Unix(_) => Ok(()),
    }
}

/// Removes a socket file that nobody answers; never any other file, and never one in use.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && StdUnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
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
