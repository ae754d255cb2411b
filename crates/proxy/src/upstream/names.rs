//! Finds addresses of servers by their names.
//!
//! A lookup can't be broken off: it holds a thread of the system's until it ends, and where the name server is stuck
//! that takes half a minute. So each worker has one of each name under way at most, whoever waits; and where it takes
//! long, the addresses that were found last are taken.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_local;

/// How long a lookup may take where older addresses are known.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a lookup found, or why it found nothing.
type Found = Result<Arc<[SocketAddr]>, Arc<str>>;

/// A worker's lookups, by host and port. There are as many as were ever sought: one server, or those that Sentinels
/// named.
#[derive(Debug, Default)]
pub(crate) struct Names {
    lookups: RefCell<HashMap<(String, u16), Rc<Lookups>>>,
}

/// The lookups of one name.
#[derive(Debug, Default)]
struct Lookups {
    /// Filled by the lookup that is under way.
    under_way: RefCell<Option<watch::Receiver<Option<Found>>>>,
    last: RefCell<Option<Arc<[SocketAddr]>>>,
}

impl Names {
    /// The addresses of a host.
    ///
    /// # Errors
    /// The name can't be found.
    pub(super) async fn find(&self, host: &str, port: u16) -> io::Result<Arc<[SocketAddr]>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok([SocketAddr::new(address, port)].into());
        }
        let key = (host.to_owned(), port);
        let lookups = Rc::clone(self.lookups.borrow_mut().entry(key.clone()).or_default());
        lookups.find_by(move || async move { Ok(tokio::net::lookup_host(key).await?.collect()) }).await
    }
}

impl Lookups {
    async fn find_by<F>(&self, lookup: impl FnOnce() -> F) -> io::Result<Arc<[SocketAddr]>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + 'static,
    {
        let mut found = self.join(lookup);
        let known = self.last.borrow().clone();
        let waited = match known {
            Some(known) => match tokio::time::timeout(PATIENCE, wait(&mut found)).await {
                Ok(waited) => waited,
                Err(_) => return Ok(known),
            },
            None => wait(&mut found).await,
        };
        match waited {
            Ok(addresses) => {
                self.last.replace(Some(Arc::clone(&addresses)));
                Ok(addresses)
            }
            Err(why) => Err(io::Error::other(why.to_string())),
        }
    }

    /// The lookup that is under way, or another.
    fn join<F>(&self, lookup: impl FnOnce() -> F) -> watch::Receiver<Option<Found>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + 'static,
    {
        let mut under_way = self.under_way.borrow_mut();
        if let Some(found) = under_way.as_ref().filter(|found| found.borrow().is_none() && found.has_changed().is_ok())
        {
            return found.clone();
        }
        let (sender, found) = watch::channel(None);
        let lookup = lookup();
        spawn_local(async move {
            let looked_up = lookup.await.map(Arc::from).map_err(|error| Arc::from(error.to_string()));
            sender.send_replace(Some(looked_up));
        });
        *under_way = Some(found.clone());
        found
    }
}

async fn wait(found: &mut watch::Receiver<Option<Found>>) -> Found {
    match found.wait_for(Option::is_some).await {
        Ok(found) => found.clone().unwrap_or_else(|| Err("its name was not looked up".into())),
        Err(_) => Err("its name was not looked up".into()),
    }
}

/// Connects to the first address that answers; each has its share of the time, so that one that swallows everything
/// doesn't keep the others from being tried.
pub(super) async fn connect_to_any(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => {
                let why = format!("no answer from {address} within {share:?}");
                failure = io::Error::new(io::ErrorKind::TimedOut, why);
            }
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::net::{TcpListener, TcpSocket};
    use tokio::task::{JoinSet, LocalSet};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn a_lookup_that_is_stuck_is_not_asked_twice_and_older_addresses_serve() {
        run(async {
            let names = Rc::new(Lookups::default());
            let first = names.find_by(|| async { Ok(vec![address(1)]) }).await.unwrap();
            let lookups = Rc::new(Cell::new(0));
            let mut waiting = JoinSet::new();
            for _ in 0..100 {
                let (names, lookups) = (Rc::clone(&names), Rc::clone(&lookups));
                waiting.spawn_local(async move {
                    names
                        .find_by(|| {
                            lookups.set(lookups.get() + 1);
                            std::future::pending()
                        })
                        .await
                        .unwrap()
                });
            }
            assert!(waiting.join_all().await.iter().all(|found| *found == first));
            assert_eq!(lookups.get(), 1);
        });
    }

    #[test]
    fn each_try_asks_anew() {
        run(async {
            let (names, lookups) = (Names::default(), Lookups::default());
            assert!(lookups.find_by(|| async { Err(io::Error::other("no such name")) }).await.is_err());
            for port in 1..3 {
                let found = lookups.find_by(|| async move { Ok(vec![address(port)]) }).await.unwrap();
                assert_eq!(*found, [address(port)]);
            }
            assert_eq!(*names.find("127.0.0.1", 7).await.unwrap(), [address(7)]);
        });
    }

    #[test]
    fn an_address_where_nobody_listens_does_not_hide_the_next() {
        run(async {
            let listener = TcpListener::bind(address(0)).await.unwrap();
            let there = listener.local_addr().unwrap();
            // Bound, so that nobody else gets it, and not listened to.
            let unused = TcpSocket::new_v4().unwrap();
            unused.bind(address(0)).unwrap();
            let gone = unused.local_addr().unwrap();
            let stream = connect_to_any(&[gone, there], Duration::from_secs(20)).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), there);
            assert!(connect_to_any(&[], Duration::from_secs(1)).await.is_err());
        });
    }
}
