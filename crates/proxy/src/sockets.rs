//! Listening sockets that this proxy didn't bind: systemd's, or those of the keyfold that ran before.
//!
//! Such a socket lives on when the process that listened on it ends, and so do the connections that wait there: nobody is
//! refused between two keyfolds. Which address is whose is told by the socket itself, so that it is all the same in which order
//! they come and by what names.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Socket, Type};

use crate::address::ListenAddress;

/// Listening sockets, to be used where the configuration names their addresses.
#[derive(Debug, Default)]
pub struct Sockets {
    given: Vec<Given>,
    /// The numbers of those of the keyfold before that are used on.
    kept: Vec<usize>,
}

/// One of them.
#[derive(Debug)]
struct Given {
    socket: Socket,
    place: Place,
    giver: Giver,
}

/// A socket that is used on.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) socket: Socket,
    /// The file of a unix socket goes with this proxy.
    pub(crate) removes_file: bool,
}

/// Who had it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giver {
    /// Who started this process, and keeps a socket of its own.
    Manager,
    /// The keyfold before, by whose number for it.
    Keyfold { number: usize, removes_file: bool },
}

/// Where a socket listens, whatever is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Inet(SocketAddr),
    Unix(PathBuf),
}

impl Sockets {
    /// Adds one that this process was started with.
    ///
    /// # Errors
    /// It is none that clients come in by.
    pub fn add(&mut self, socket: impl Into<OwnedFd>) -> io::Result<()> {
        let socket = Socket::from(socket.into());
        let place = place_of(&socket)?;
        self.given.push(Given { socket, place, giver: Giver::Manager });
        Ok(())
    }

    /// Adds one of the keyfold before; `place` where it is not to be told by its own word.
    pub(crate) fn add_taken(
        &mut self,
        socket: OwnedFd,
        place: Option<Place>,
        number: usize,
        removes_file: bool,
    ) -> io::Result<()> {
        fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        let socket = Socket::from(socket);
        let own = place_of(&socket)?;
        self.given.push(Given { socket, place: place.unwrap_or(own), giver: Giver::Keyfold { number, removes_file } });
        Ok(())
    }

    /// Whether there is one of this address.
    pub(crate) fn has(&self, address: &ListenAddress) -> bool {
        let place = Place::of(address);
        self.given.iter().any(|given| given.place == place)
    }

    /// The socket of an address, where there is one.
    pub(crate) fn claim(&mut self, address: &ListenAddress) -> Option<Claimed> {
        let place = Place::of(address);
        let at = self.given.iter().position(|given| given.place == place)?;
        let Given { socket, giver, .. } = self.given.remove(at);
        Some(match giver {
            Giver::Manager => Claimed { socket, removes_file: false },
            Giver::Keyfold { number, removes_file } => {
                self.kept.push(number);
                Claimed { socket, removes_file }
            }
        })
    }

    /// One that this process was started with and that no address claimed: clients would wait there for ever.
    pub(crate) fn unclaimed(&self) -> Option<&Place> {
        self.given.iter().find(|given| given.giver == Giver::Manager).map(|given| &given.place)
    }

    /// The numbers of those of the keyfold before that were claimed. The others are closed here.
    pub(crate) fn into_kept(self) -> Vec<usize> {
        self.kept
    }
}

impl Place {
    pub(crate) fn of(address: &ListenAddress) -> Self {
        match address {
            ListenAddress::Tcp(address) | ListenAddress::Tls(address) => Self::Inet(*address),
            ListenAddress::Unix(path) => Self::Unix(path.clone()),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inet(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where it listens, and that it does.
fn place_of(socket: &Socket) -> io::Result<Place> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
    if socket.r#type()? != Type::STREAM {
        return refused("it is no stream socket (ListenStream=)");
    }
    if socket.peer_addr().is_ok() {
        return refused("it is a client's connection and no listening socket (Accept=no)");
    }
    let address = socket.local_addr()?;
    match (address.as_socket(), address.as_pathname()) {
        (Some(address), _) => Ok(Place::Inet(address)),
        (None, Some(path)) => Ok(Place::Unix(path.to_owned())),
        (None, None) => refused("it has neither a port nor a path"),
    }
}

/// The files of unix sockets that go with this proxy: closing a socket leaves its file behind.
#[derive(Debug, Default)]
pub(crate) struct SocketFiles(Mutex<HashSet<PathBuf>>);

impl SocketFiles {
    fn paths(&self) -> std::sync::MutexGuard<'_, HashSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, path: &Path) {
        self.paths().insert(path.to_owned());
    }

    /// Whether it goes with this proxy.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.paths().contains(path)
    }

    /// It is another keyfold's from now on.
    pub(crate) fn hand_over(&self, path: &Path) {
        self.paths().remove(path);
    }

    fn remove(&self, path: &Path) {
        if self.paths().remove(path) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes files when it is dropped, as far as they are this proxy's still.
pub(crate) struct RemoveOnDrop {
    pub(crate) files: Arc<SocketFiles>,
    pub(crate) paths: Vec<PathBuf>,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        self.paths.iter().for_each(|path| self.files.remove(path));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_socket_is_claimed_by_its_own_address_whatever_is_spoken_there() {
        let mut sockets = Sockets::default();
        let listeners = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()];
        let [first, second] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        listeners.into_iter().for_each(|listener| sockets.add(listener).unwrap());
        assert!(sockets.claim(&ListenAddress::Tls(second)).is_some_and(|claimed| !claimed.removes_file));
        assert!(sockets.claim(&ListenAddress::Tcp(second)).is_none(), "it is taken already");
        assert_eq!(sockets.unclaimed(), Some(&Place::Inet(first)));
        assert_eq!(sockets.into_kept(), [0; 0]);
    }

    #[test]
    fn what_is_no_listening_socket_is_refused_with_the_setting_that_makes_it_one() {
        let mut sockets = Sockets::default();
        let refused = sockets.add(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap_err();
        assert!(refused.to_string().contains("ListenStream="), "{refused}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let refused = sockets.add(client).unwrap_err();
        assert!(refused.to_string().contains("Accept=no"), "{refused}");
    }
}
