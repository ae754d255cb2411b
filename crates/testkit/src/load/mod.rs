//! A load of clients, each of which knows what every answer to it must be.
//!
//! A client has keys of its own, so that what they hold follows from its commands alone; and all of them count up
//! the same counters. Where an answer is lost, with the connection or to an error, both may be: the command was
//! carried out, or it was not. Such a key is left alone until everything stands still ([`Client::check`]), because
//! a command whose answer is lost may still be carried out after the next one.

mod answer;
mod cache;
mod client;
mod collection;
mod latency;
mod members;
mod oracle;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use cache::CacheClient;
pub use client::{Client, Counters, Report};
pub use latency::Latencies;
pub use members::{MemberOp, Members};
pub use oracle::{Content, Held, Op, State};

/// Clients at work.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Client>>,
}

impl Load {
    /// Sets clients to work, each at one of the addresses first and at the next where that one fails. With `every`
    /// each sends a command at these times, and late ones at once; latencies count from when it should have been.
    pub fn start(clients: Vec<Client>, addresses: &[SocketAddr], every: Option<Duration>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = clients.into_iter().enumerate().map(|(index, mut client)| {
            let (stop, mut addresses) = (Arc::clone(&stop), addresses.to_vec());
            let first = index % addresses.len().max(1);
            addresses.rotate_left(first);
            thread::spawn(move || {
                client.work(&addresses, every, &stop);
                client
            })
        });
        Self { threads: threads.collect(), stop }
    }

    /// Lets each finish its command, and gives them back.
    ///
    /// # Panics
    /// Where a client did.
    pub fn stop(self) -> Vec<Client> {
        self.stop.store(true, Ordering::Release);
        let join = |thread: JoinHandle<Client>| match thread.join() {
            Ok(client) => client,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        self.threads.into_iter().map(join).collect()
    }
}
