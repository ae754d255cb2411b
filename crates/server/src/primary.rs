//! Finds the primary that Sentinels name.
//!
//! The core's search says whom to ask; here are the sockets. The connection on which a server says that it is the primary
//! is the one that goes on.

use std::sync::Arc;

use keyfold_core::cluster::{AddressMap, Endpoint};
use keyfold_core::sentinel::{Course, NoPrimary, Role, Search, Sentinels};
use keyfold_proxy::address::{Route, ServerAddress};
use rustls::ClientConfig;

use crate::error::LinkError;
use crate::link::Link;

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
        let mut search = Search::new(Arc::clone(self.sentinels), Arc::clone(self.addresses), None);
        let mut reached = None;
        loop {
            let step = match search.course() {
                Course::Over(Err(nobody)) => return Err(nobody),
                Course::Over(Ok(_)) => match reached.take() {
                    Some(reached) => return Ok(reached),
                    // Nothing is trusted here, so whoever is found was asked on a connection.
                    None => Err("it was not asked".to_owned()),
                },
                Course::Ask(sentinel) => {
                    let mut questions = Vec::new();
                    let replies = search.ask(&mut questions);
                    let answers = self.ask(sentinel, &questions, replies);
                    answers.map(|answers| search.handle_answers(&answers)).map_err(|error| error.to_string())
                }
                Course::Check(server) => {
                    let address = ServerAddress { route: route(server, self.tls), ..self.address.clone() };
                    self.ask_role(&address).map_err(|error| explain(&error, &address)).map(|(link, role)| {
                        reached = Some((address, link));
                        search.handle_role(&role);
                    })
                }
            };
            if let Err(why) = step {
                search.handle_failure(&why);
            }
        }
    }

    fn ask(&self, sentinel: Endpoint, questions: &[u8], replies: usize) -> Result<Vec<Vec<u8>>, LinkError> {
        let route = route(sentinel, self.sentinel_tls);
        let mut link = self.open(&ServerAddress { route, user: None, password: None, database: 0 })?;
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
        Link::open(address, self.config.clone().filter(|_| address.speaks_tls()))
    }
}

fn route(at: Endpoint, tls: bool) -> Route {
    Route::Tcp { host: at.host, port: at.port, tls }
}
