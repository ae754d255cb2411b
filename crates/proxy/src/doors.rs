//! Where clients, operators and the next keyfold come in: their listening sockets, bound here or had from others.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;
use tokio_rustls::rustls::ServerConfig;

use crate::address::ListenAddress;
use crate::config::{Admin, Config};
use crate::listen::{self, Listener};
use crate::sockets::{SocketFiles, Sockets};
use crate::start_error::StartError;
use crate::takeover::{self, Giver, Predecessor, Role, Shared};
use crate::tls::{self, Current};

/// A listening socket at its address, with the port that port 0 got.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) listener: Listener,
    pub(crate) address: ListenAddress,
}

/// Where operators come in.
#[derive(Debug)]
pub(crate) struct AdminDoor {
    pub(crate) door: Door,
    pub(crate) tls: Option<Arc<Current<ServerConfig>>>,
    pub(crate) config: Admin,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) clients: Vec<Door>,
    pub(crate) admin: Option<AdminDoor>,
    /// What the next keyfold is given.
    pub(crate) giver: Option<Giver>,
    /// True once operators come in elsewhere. It never is where nothing can be taken over.
    pub(crate) operators_left: watch::Receiver<bool>,
    pub(crate) files: Arc<SocketFiles>,
    /// The keyfold that lets clients in until it hears that this one does; and the numbers of its sockets that are used on.
    pub(crate) predecessor: Option<(Predecessor, Vec<usize>)>,
}

impl Doors {
    /// Opens all, with the sockets that there are and others for the rest.
    pub(crate) fn open(
        config: &Config,
        tls: Option<&Arc<Current<ServerConfig>>>,
        mut sockets: Sockets,
    ) -> Result<Self, StartError> {
        refuse_open(config)?;
        if !config.allow_open && config.listen.iter().any(ListenAddress::is_open) {
            config.users.stay_guarded();
        }
        config.admin.as_ref().map_or(Ok(()), refuse_open_to_operators)?;
        let predecessor = match &config.takeover {
            Some(path) => takeover::ask(path, &mut sockets)?,
            None => None,
        };
        let mut opening = Opening { sockets, files: Arc::default() };
        let clients = config.listen.iter().map(|address| opening.open_to_clients(address, tls));
        let clients = clients.collect::<Result<Vec<_>, _>>()?;
        let admin = config.admin.as_ref().map(|admin| opening.open_to_operators(admin)).transpose()?;
        let (left, operators_left) = watch::channel(false);
        let giver = match &config.takeover {
            Some(path) => Some(opening.giver(path, &clients, admin.as_ref(), left)?),
            None => None,
        };
        if let Some(place) = opening.sockets.unclaimed() {
            return Err(StartError::Unclaimed(place.to_string()));
        }
        let kept = opening.sockets.into_kept();
        let predecessor = predecessor.map(|predecessor| (predecessor, kept));
        Ok(Self { clients, admin, giver, operators_left, files: opening.files, predecessor })
    }

    /// Where clients come in.
    pub(crate) fn addresses(&self) -> Vec<ListenAddress> {
        self.clients.iter().map(|door| door.address.clone()).collect()
    }
}

struct Opening {
    sockets: Sockets,
    files: Arc<SocketFiles>,
}

impl Opening {
    fn open(&mut self, address: &ListenAddress, tls: Option<&Arc<Current<ServerConfig>>>) -> io::Result<Door> {
        let claimed = self.sockets.claim(address);
        let removes_file = claimed.as_ref().is_none_or(|claimed| claimed.removes_file);
        let (listener, address) = match claimed {
            Some(claimed) => listen::listen_on(claimed.socket, address, tls)?,
            None => listen::bind(address, tls)?,
        };
        if let Some(path) = unix_path(&address).filter(|_| removes_file) {
            self.files.add(&path);
        }
        Ok(Door { listener, address })
    }

    fn open_to_clients(
        &mut self,
        address: &ListenAddress,
        tls: Option<&Arc<Current<ServerConfig>>>,
    ) -> Result<Door, StartError> {
        self.open(address, tls).map_err(|source| StartError::Bind { address: address.clone(), source })
    }

    fn open_to_operators(&mut self, admin: &Admin) -> Result<AdminDoor, StartError> {
        let speaks_tls = matches!(admin.listen, ListenAddress::Tls(_));
        if admin.listen.is_open() && !speaks_tls {
            tracing::warn!(
                address = %admin.listen,
                "the operators' token crosses the network in clear text; use tls:// where others may listen in"
            );
        }
        let tls = admin.tls.as_ref().filter(|_| speaks_tls).map(tls::client_side).transpose()?.map(Current::new);
        let door = self.open(&admin.listen, tls.as_ref());
        let door = door.map_err(|source| StartError::BindAdmin { address: admin.listen.clone(), source })?;
        Ok(AdminDoor { door, tls, config: admin.clone() })
    }

    /// Listens for the next keyfold at `path`, which nobody but this user may open.
    fn giver(
        &mut self,
        path: &Path,
        clients: &[Door],
        admin: Option<&AdminDoor>,
        operators_left: watch::Sender<bool>,
    ) -> Result<Giver, StartError> {
        let failed = |source| StartError::BindTakeover { path: path.to_owned(), source };
        let door = self.open(&ListenAddress::Unix(path.to_owned()), None).map_err(failed)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        let doors = clients.iter().map(|door| (door, Role::Clients));
        let doors = doors.chain(admin.map(|admin| (&admin.door, Role::Operators)));
        let shared = doors.chain([(&door, Role::Keyfolds)]).map(|(door, role)| self.shared(door, role));
        let shared = shared.collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let Listener::Unix(listener) = door.listener else { unreachable!("a unix address is listened on so") };
        Ok(Giver { listener, shared, files: Arc::clone(&self.files), operators_left })
    }

    fn shared(&self, door: &Door, role: Role) -> io::Result<Shared> {
        let file = unix_path(&door.address).filter(|path| self.files.has(path));
        Ok(Shared { socket: door.listener.again()?, file, role })
    }
}

/// Where anyone could come in.
pub(crate) fn refuse_open(config: &Config) -> Result<(), StartError> {
    if config.listen.is_empty() {
        return Err(StartError::NoListener);
    }
    let guarded = config.users.initial().is_none() || config.allow_open;
    match config.listen.iter().find(|address| address.is_open() && !guarded) {
        Some(open) => Err(StartError::Open(open.clone())),
        None => Ok(()),
    }
}

/// Where anyone could look in.
pub(crate) fn refuse_open_to_operators(admin: &Admin) -> Result<(), StartError> {
    let speaks_tls = matches!(admin.listen, ListenAddress::Tls(_));
    let asks_for_certificates = speaks_tls && admin.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    match admin.listen.is_open() && admin.token.is_none() && !asks_for_certificates {
        true => Err(StartError::OpenToOperators(admin.listen.clone())),
        false => Ok(()),
    }
}

/// The file of a unix socket.
pub(crate) fn unix_path(address: &ListenAddress) -> Option<PathBuf> {
    match address {
        ListenAddress::Unix(path) => Some(path.clone()),
        ListenAddress::Tcp(_) | ListenAddress::Tls(_) => None,
    }
}
