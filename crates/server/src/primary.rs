//! Finds the primary that Sentinels name.
//!
//! The core's search says whom to ask; here are the sockets. The connection on which a server says that it is the primary
//! is the one that goes on.

use std::sync::Arc;
use std::time::Duration;

use keyfold_core::cluster::{AddressMap, Endpoint};
use keyfold_core::sentinel::{Course, NoPrimary, Role, Search, Sentinels};
use keyfold_proxy::address::{Route, ServerAddress};
use rustls::ClientConfig;

use crate::error::LinkError;
use crate::link::Link;

/// For each step of the way to a Sentinel, and for each of its answers. Those that are frozen are asked one after the
/// other.
const SENTINEL_WITHIN: Duration = Duration::from_secs(2);

/// Whom to ask, and how to get there.
pub(crate) struct Way<'a> {
    pub(crate) sentinels: &'a Arc<Sentinels>,
    /// Whether TLS is spoken with the servers.
    pub(crate) tls: bool,
    /// Whether TLS is spoken with the Sentinels.
    pub(crate) sentinel_tls: bool,
    /// Who logs in to the servers.
    pub(crate) address: &'a ServerAddress,
    /// How, where TLS is spoken.
    pub(crate) config: Option<Arc<ClientConfig>>,
    /// Where servers are to be sought.
    pub(crate) addresses: &'a Arc<AddressMap>,
}

impl Way<'_> {
    /// The primary's own address, and a connection to it. `explain` says what to do about a server's error.
    pub(crate) fn find(
        &self,
        explain: impl Fn(&LinkError, &ServerAddress) -> String,
    ) -> Result<(ServerAddress, Link), NoPrimary> {
        let mut search = Search::new(Arc::clone(self.sentinels), &[], Arc::clone(self.addresses), None);
        let mut reached = None;
        loop {
            match search.course() {
                Course::Over(Err(nobody)) => return Err(nobody),
                Course::Over(Ok(_)) => match reached.take() {
                    Some(reached) => return Ok(reached),
                    // Nothing is trusted here, so whoever is found was asked on a connection.
                    None => return Err(NoPrimary { name: self.sentinels.name.clone(), troubles: Vec::new() }),
                },
                Course::Ask(sentinel) => {
                    let mut questions = Vec::new();
                    let replies = search.ask(&mut questions);
                    match self.ask(&sentinel, &questions, replies) {
                        Ok(answers) => search.handle_answers(&sentinel, &answers),
                        Err(error) => search.handle_silence(&sentinel, &error.to_string()),
                    }
                }
                // One is asked at a time, so nobody is waited for.
                Course::Wait => {}
                Course::Check(server) => {
                    let address = ServerAddress { route: route(server, self.tls), ..self.address.clone() };
                    match self.ask_role(&address) {
                        Ok((link, role)) => {
                            reached = Some((address, link));
                            search.handle_role(&role);
                        }
                        Err(error) => search.handle_failure(&explain(&error, &address)),
                    }
                }
            }
        }
    }

    fn ask(&self, sentinel: &Endpoint, questions: &[u8], replies: usize) -> Result<Vec<Vec<u8>>, LinkError> {
        let route = route(sentinel.clone(), self.sentinel_tls);
        let address = ServerAddress { route, user: None, password: None, database: 0 };
        let mut link = Link::open_within(&address, self.config_for(&address), SENTINEL_WITHIN)?;
        link.set_patience(SENTINEL_WITHIN)?;
        link.send(questions, replies as u64)?;
        (0..replies).map(|_| link.receive()).collect()
    }

    fn ask_role(&self, server: &ServerAddress) -> Result<(Link, Vec<u8>), LinkError> {
        let mut link = self.open(server)?;
        let mut question = Vec::new();
        Role::ask(&mut question);
        link.send(&question, 1)?;
        let role = link.receive()?;
        Ok((link, role))
    }

    fn open(&self, address: &ServerAddress) -> Result<Link, LinkError> {
        Link::open(address, self.config_for(address))
    }

    fn config_for(&self, address: &ServerAddress) -> Option<Arc<ClientConfig>> {
        self.config.clone().filter(|_| address.speaks_tls())
    }
}

fn route(at: Endpoint, tls: bool) -> Route {
    Route::Tcp { host: at.host, port: at.port, tls }
}
