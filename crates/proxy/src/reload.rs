//! What of a running proxy may be replaced: its users, the operators' token, and the certificates of connections that begin
//! later; and some limits.

use std::sync::Arc;
use std::time::Duration;

use keyfold_core::access::{OpenToAll, Users};
use keyfold_core::clients::Clients;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use crate::arrival::Room;
use crate::config::Config;
use crate::descriptors;
use crate::tls::{self, Current, TlsError};
use crate::token::{AdminToken, TokenError};

/// Replaces parts of a running proxy, from any thread. No connection is closed by it but those of users who are no more.
#[derive(Clone, Debug)]
pub struct Reloader {
    pub(crate) config: Arc<Config>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) room: Arc<Room>,
    /// None where no listener speaks TLS.
    pub(crate) client_tls: Option<Arc<Current<ServerConfig>>>,
    /// None where operators don't come in by TLS.
    pub(crate) admin_tls: Option<Arc<Current<ServerConfig>>>,
    /// None where the server is spoken to without TLS.
    pub(crate) server_tls: Option<Arc<Current<ClientConfig>>>,
}

impl Reloader {
    /// Puts other users in the place of those there are. Clients of a user who is among both go on by the new rules.
    ///
    /// # Errors
    /// They let anyone in, where [`start`](crate::start) would refuse it. Nothing has changed then.
    pub fn replace_users(&self, users: &Users) -> Result<(), OpenToAll> {
        self.config.users.replace_by(users)?;
        self.clients.wake_all();
        Ok(())
    }

    /// Gives the user `default` this password in place of its own.
    pub fn replace_password(&self, password: &[u8]) {
        self.config.users.replace_password(password);
        self.clients.wake_all();
    }

    /// How many clients there may be at one time. Those that are connected stay.
    pub fn set_max_clients(&self, max: usize) {
        self.room.set_max(descriptors::clients_within_limit(max));
    }

    /// How many keys are remembered for clients that cache them.
    pub fn set_max_tracked_keys(&self, max: usize) {
        self.clients.tracking().set_most_keys(max);
    }

    /// Keeps for SLOWLOG what takes so long; none: nothing any more.
    pub fn set_slow_kept_from(&self, bound: Option<Duration>) {
        self.clients.slow().keep_from(bound);
    }

    /// How many slow requests are kept.
    pub fn set_most_slow_kept(&self, entries: usize) {
        self.clients.slow().keep_most(entries);
    }

    /// Writes to the log what takes so long; none: nothing any more.
    pub fn set_slow_logged_from(&self, bound: Option<Duration>) {
        self.clients.slow().tell_from(bound);
    }

    /// Whether operators have to show a token.
    pub fn has_admin_token(&self) -> bool {
        self.admin_token().is_some()
    }

    /// Reads the operators' token again; the one there is stays where the file is of no use.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn reload_admin_token(&self) -> Result<(), TokenError> {
        self.admin_token().map_or(Ok(()), AdminToken::reload)
    }

    fn admin_token(&self) -> Option<&AdminToken> {
        self.config.admin.as_ref()?.token.as_ref()
    }

    /// Whether there is any certificate to read.
    pub fn has_certificates(&self) -> bool {
        self.client_tls.is_some() || self.admin_tls.is_some() || self.server_tls.is_some()
    }

    /// Reads all certificates again, of clients, operators and the server; those there are stay where one can't be used.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn reload_certificates(&self) -> Result<(), TlsError> {
        let for_clients = self.config.client_tls.as_ref().map(tls::client_side).transpose()?;
        let of_operators = self.config.admin.as_ref().and_then(|admin| admin.tls.as_ref());
        let for_operators = of_operators.filter(|_| self.admin_tls.is_some()).map(tls::client_side).transpose()?;
        let for_server = self.server_tls.is_some().then(|| tls::server_side(&self.config.server_tls)).transpose()?;
        if let (Some(current), Some(next)) = (&self.client_tls, for_clients) {
            current.set(next);
        }
        if let (Some(current), Some(next)) = (&self.admin_tls, for_operators) {
            current.set(next);
        }
        if let (Some(current), Some(next)) = (&self.server_tls, for_server) {
            current.set(next);
        }
        Ok(())
    }
}
