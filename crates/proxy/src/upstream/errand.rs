//! Work inside a worker that talks to the server on its own account.

use std::rc::Rc;

use keyfold_core::exchange::Env;
use keyfold_core::resp::Protocol;

use super::{Link, LinkError};
use crate::worker::Worker;

/// A connection of its own for a task of the proxy: the clock, a sweep, a watch over the layout. It connects
/// when it is first used, and again after it was lost.
#[derive(Debug)]
pub struct Errand {
    worker: Rc<Worker>,
    database: u32,
    link: Option<Link>,
}

impl Errand {
    /// An errand in the database that clients start in.
    pub(crate) fn new(worker: Rc<Worker>) -> Self {
        let database = worker.config.upstream.database;
        Self { worker, database, link: None }
    }

    /// Another one in the same worker.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { worker: Rc::clone(&self.worker), database: self.database, link: None }
    }

    /// The same in another database.
    #[must_use]
    pub fn in_database(mut self, database: u32) -> Self {
        self.database = database;
        self.link = None;
        self
    }

    /// Sends commands, encoded one behind the other, and waits for as many replies, in RESP2.
    ///
    /// # Errors
    /// There is no connection, or it was lost: the commands may or may not have been carried out. A server
    /// that doesn't answer within the server timeout counts as lost.
    pub async fn request(&mut self, commands: &[u8], replies: usize) -> Result<Vec<Vec<u8>>, LinkError> {
        let mut link = self.take_link().await?;
        let answered = within(&self.worker, link.ask(commands, replies)).await?;
        self.link = Some(link);
        Ok(answered)
    }

    /// What the core takes from outside, as this worker knows it.
    pub fn with_env<R>(&self, body: impl FnOnce(&mut Env<'_>) -> R) -> R {
        self.worker.with_env(body)
    }

    /// Asks for the server's time, and for how long an argument it takes.
    pub(crate) async fn sample_clock(&mut self) -> Result<(), LinkError> {
        let mut link = self.take_link().await?;
        within(&self.worker, link.sample_clock(&self.worker)).await?;
        within(&self.worker, link.learn_limits(&self.worker)).await?;
        self.link = Some(link);
        Ok(())
    }

    /// The link is taken while it is used: one that an error or a dropped future left halfway is gone.
    async fn take_link(&mut self) -> Result<Link, LinkError> {
        match self.link.take() {
            Some(link) => Ok(link),
            // RESP2 reaches every server, and the clock needs no more.
            None => Link::open(&self.worker, self.database, Protocol::Resp2).await,
        }
    }
}

async fn within<T>(worker: &Worker, work: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    match worker.config.timeouts.server {
        limit if limit.is_zero() => work.await,
        limit => tokio::time::timeout(limit, work).await.unwrap_or(Err(LinkError::TimedOut(limit))),
    }
}
