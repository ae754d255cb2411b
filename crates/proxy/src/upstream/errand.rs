//! Work inside a worker that talks to the server on its own account.

use std::rc::Rc;
use std::time::Duration;

use keyfold_core::admin::home;
use keyfold_core::cluster::{Endpoint, Node, Redirect, Topology, roster};
use keyfold_core::exchange::Env;
use keyfold_core::notify::Notices;
use keyfold_core::resp::{Protocol, Reply, write_command};
use keyfold_core::slot::Slot;

use super::{Link, LinkError};
use crate::worker::Worker;

/// A connection of its own for a task of the proxy: the clock, a sweep, a watch over the layout. It connects
/// when it is first used, and again after it was lost.
#[derive(Debug)]
pub struct Errand {
    worker: Rc<Worker>,
    database: u32,
    place: Place,
    /// Whether its connection looks whether the layout in use is in force.
    checked: bool,
    link: Option<Link>,
    /// How many connections it has had.
    connections: u64,
}

/// Where an errand goes, before a cluster.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// To whichever node has this slot.
    Slot(Slot),
    /// To this one.
    Node(Node),
}

/// Work by the layout in use is under way: that is not replaced before this is dropped.
#[derive(Debug)]
pub(crate) struct Busy {
    worker: Rc<Worker>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        let count = &self.worker.busy_errands;
        count.set(count.get() - 1);
    }
}

/// How often it is looked whether work may begin.
const POLL: Duration = Duration::from_millis(5);

impl Errand {
    /// An errand in the database that clients start in.
    pub(crate) fn new(worker: Rc<Worker>) -> Self {
        let database = worker.config.upstream.database;
        Self { worker, database, place: Place::Slot(home()), checked: true, link: None, connections: 0 }
    }

    /// The same for what doesn't go by the layout.
    #[must_use]
    pub(crate) fn unchecked(mut self) -> Self {
        self.checked = false;
        self
    }

    /// Waits until work by the layout in use may begin.
    pub(crate) async fn begin(&self) -> Busy {
        while self.worker.paused.get() || !self.worker.membership.is_serving() {
            tokio::time::sleep(POLL).await;
        }
        let count = &self.worker.busy_errands;
        count.set(count.get() + 1);
        Busy { worker: Rc::clone(&self.worker) }
    }

    /// Another one in the same worker.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            worker: Rc::clone(&self.worker),
            database: self.database,
            place: self.place,
            checked: self.checked,
            link: None,
            connections: 0,
        }
    }

    /// The same in another database.
    #[must_use]
    pub fn in_database(mut self, database: u32) -> Self {
        self.database = database;
        self.link = None;
        self
    }

    /// The same to the node of a cluster that has this slot, in database 0.
    #[must_use]
    pub(crate) fn at_slot(mut self, slot: Slot) -> Self {
        self.place = Place::Slot(slot);
        self.in_database(0)
    }

    /// The same to one node of a cluster, whatever slots it has: it says itself what is not there.
    #[must_use]
    pub(crate) fn at_node(mut self, node: Option<Node>) -> Self {
        if let Some(node) = node {
            self.place = Place::Node(node);
            self.link = None;
        }
        self
    }

    /// All servers that requests may travel to, now or later: the one, or all nodes that a cluster doesn't take for gone, by
    /// what the node says that this errand goes to.
    ///
    /// # Errors
    /// That node is away, or doesn't take its cluster for whole.
    pub(crate) async fn all_nodes(&mut self) -> Result<Vec<Option<Node>>, LinkError> {
        let Some(cluster) = self.worker.cluster.get().map(Rc::clone) else { return Ok(vec![None]) };
        let mut questions = Vec::new();
        let count = Topology::ask(&mut questions);
        write_command(&mut questions, &[b"CLUSTER", b"NODES"]);
        let mut replies = self.request(&questions, count + 1).await?;
        let asked = self.link.as_ref().and_then(|link| link.node).map(|node| cluster.endpoint(node));
        let (asked, list) = (asked.ok_or(LinkError::Homeless)?, replies.pop().unwrap_or_default());
        let addresses = &self.worker.config.addresses;
        let topology = Topology::read(&replies, &asked, addresses);
        let topology = topology.map_err(|error| LinkError::Refused(error.to_string()))?;
        if !topology.is_whole() {
            return Err(LinkError::Refused(format!("the node at {asked} doesn't take its cluster for whole")));
        }
        let list = Reply::parse(&list)?.bytes().map(String::from_utf8_lossy);
        let all = list.and_then(|list| roster(&topology, &list, &asked, addresses)).ok_or(LinkError::Unexpected)?;
        Ok(all.iter().map(|endpoint| Some(cluster.node_at(endpoint))).collect())
    }

    /// The servers that hold the keyspace: the one, or the primaries of a cluster.
    pub(crate) fn nodes(&self) -> Vec<Option<Node>> {
        match self.worker.cluster.get() {
            None => vec![None],
            Some(cluster) => cluster.shards().into_iter().map(|(node, _)| Some(node)).collect(),
        }
    }

    /// Where the server is that it has a connection to, or would have.
    pub(crate) fn address(&self) -> String {
        let at = self.link.as_ref().and_then(|link| match (link.node, self.worker.cluster.get()) {
            (Some(node), Some(cluster)) => Some(cluster.endpoint(node)),
            _ => link.at.clone(),
        });
        at.map_or_else(|| self.worker.config.upstream.place(), |endpoint| endpoint.to_string())
    }

    /// Whether it is before a cluster.
    pub(crate) fn is_before_cluster(&self) -> bool {
        self.worker.cluster.get().is_some()
    }

    /// The primary at this endpoint; none where that is none.
    pub(crate) fn primary_at(&self, endpoint: &Endpoint) -> Option<Node> {
        let cluster = self.worker.cluster.get()?;
        let node = cluster.node_at(endpoint);
        cluster.shards().iter().any(|(primary, _)| *primary == node).then_some(node)
    }

    /// Which of them has a physical key; none in a cluster where nobody is known to have its slot.
    pub(crate) fn node_of(&self, name: &[u8]) -> Option<Option<Node>> {
        self.node_with(Slot::of(name))
    }

    /// Which of them has a slot; none in a cluster where nobody is known to have it.
    pub(crate) fn node_with(&self, slot: Slot) -> Option<Option<Node>> {
        match self.worker.cluster.get() {
            None => Some(None),
            Some(cluster) => cluster.node_of(slot).map(Some),
        }
    }

    /// Connects where there is no connection yet.
    pub(crate) async fn connect(&mut self) -> Result<(), LinkError> {
        let link = self.take_link().await?;
        self.link = Some(link);
        Ok(())
    }

    /// Sends commands, encoded one behind the other, and waits for as many replies, in RESP2.
    ///
    /// # Errors
    /// There is no connection, or it was lost: the commands may or may not have been carried out. A server
    /// that doesn't answer within the server timeout counts as lost.
    pub async fn request(&mut self, commands: &[u8], replies: usize) -> Result<Vec<Vec<u8>>, LinkError> {
        let mut link = self.take_link().await?;
        let at = link.at.clone();
        let answered = within(&self.worker, at.as_ref(), link.ask(commands, replies)).await?;
        if let (Place::Slot(_), Some(cluster)) = (self.place, self.worker.cluster.get())
            && let Some(led) = answered.iter().find(|reply| Redirect::read(reply).is_some())
        {
            cluster.doubt_map();
            return Err(LinkError::Elsewhere(String::from_utf8_lossy(led).trim_end().to_owned()));
        }
        self.link = Some(link);
        Ok(answered)
    }

    /// The same of what `write` writes, which says how many replies it has.
    pub(crate) async fn ask(&mut self, write: impl FnOnce(&mut Vec<u8>) -> usize) -> Result<Vec<Vec<u8>>, LinkError> {
        let mut commands = Vec::new();
        let replies = write(&mut commands);
        self.request(&commands, replies).await
    }

    /// The same of one command.
    pub(crate) async fn ask_one(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, LinkError> {
        let mut commands = Vec::new();
        write(&mut commands);
        Ok(self.request(&commands, 1).await?.pop().unwrap_or_default())
    }

    /// Sends a question to a node of a cluster: which one has answered, and what.
    pub(super) async fn ask_node(&mut self, question: &[u8]) -> Result<(Node, Vec<u8>), LinkError> {
        let reply = self.request(question, 1).await?.pop().unwrap_or_default();
        let node = self.link.as_ref().and_then(|link| link.node);
        Ok((node.ok_or(LinkError::Homeless)?, reply))
    }

    /// What the core takes from outside, as this worker knows it.
    pub fn with_env<R>(&self, body: impl FnOnce(&mut Env<'_>) -> R) -> R {
        self.worker.with_env(body)
    }

    /// What is to be published of keys in its database.
    pub(crate) fn notices(&self) -> Option<Notices> {
        self.worker.everybody.notifications().in_database(self.database)
    }

    /// The databases that have keys.
    pub(crate) async fn databases(&mut self) -> Result<Vec<u32>, LinkError> {
        let reply = self.ask_one(|wire| write_command(wire, &[b"INFO", b"keyspace"])).await?;
        let Reply::Bulk(text) = Reply::parse(&reply)? else {
            return Err(LinkError::Refused("INFO keyspace".to_owned()));
        };
        // db0:keys=7,expires=0,avg_ttl=0
        let number = |line: &str| line.strip_prefix("db")?.split(':').next()?.parse().ok();
        Ok(String::from_utf8_lossy(text).lines().filter_map(number).collect())
    }

    /// Asks for the server's time, for how long an argument it takes, and for what it publishes of its keys.
    pub(crate) async fn sample_clock(&mut self) -> Result<(), LinkError> {
        let mut link = self.take_link().await?;
        let at = link.at.clone();
        within(&self.worker, at.as_ref(), link.sample_clock(&self.worker)).await?;
        within(&self.worker, at.as_ref(), link.learn_limits(&self.worker)).await?;
        within(&self.worker, at.as_ref(), link.learn_notifications(&self.worker)).await?;
        self.link = Some(link);
        Ok(())
    }

    /// The same as [`Self::ask_one`], only on the connection that it has: what was seen there may not be so on another.
    pub(crate) async fn ask_one_here(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, LinkError> {
        let is_here = self.link.as_ref().is_some_and(|link| self.worker.check_place(link.at.as_ref()).is_ok());
        if is_here { self.ask_one(write).await } else { Err(LinkError::Closed) }
    }

    /// The link is taken while it is used: one that an error or a dropped future left halfway is gone.
    async fn take_link(&mut self) -> Result<Link, LinkError> {
        if let Some(link) = self.link.take()
            && self.worker.check_place(link.at.as_ref()).is_ok()
        {
            return Ok(link);
        }
        self.connections += 1;
        // RESP2 reaches every server, and the clock needs no more.
        let node = self.node().await?;
        match self.checked {
            true => Link::open(&self.worker, node, self.database, Protocol::Resp2).await,
            false => Link::open_unchecked(&self.worker, node, self.database, Protocol::Resp2).await,
        }
    }

    /// The node of a cluster that it goes to.
    async fn node(&self) -> Result<Option<Node>, LinkError> {
        let Some(cluster) = self.worker.cluster.get() else { return Ok(None) };
        let slot = match self.place {
            Place::Slot(slot) => slot,
            Place::Node(node) => return Ok(Some(node)),
        };
        let known = tokio::time::timeout(self.worker.config.timeouts.connect, cluster.until_known()).await;
        let node = known.ok().and_then(|()| cluster.node_of(slot));
        node.map(Some).ok_or(LinkError::Homeless)
    }

    /// How many connections it has had: as long as that is the same, the server has closed none.
    pub(crate) fn connections(&self) -> u64 {
        self.connections
    }
}

/// Work on a connection to the server at `at`, where it is Sentinels who say where.
async fn within<T>(
    worker: &Worker,
    at: Option<&Endpoint>,
    work: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let in_time = async {
        match worker.config.timeouts.server {
            limit if limit.is_zero() => work.await,
            limit => tokio::time::timeout(limit, work).await.unwrap_or(Err(LinkError::TimedOut(limit))),
        }
    };
    let done = tokio::select! {
        biased;
        done = in_time => done,
        why = worker.until_left(at) => Err(why),
    };
    done.inspect_err(|_| worker.doubt_place())
}
