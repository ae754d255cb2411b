//! A cluster for as long as a test needs it: started, resharded, failed over, frozen, partitioned, and gone after it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `slots` | which slot a key lies in, and how slots are shared out |
//! | `view` | what a node says of all nodes it knows |
//! | `node` | one node: its process, its ports, its relays |
//! | `nodes_file` | what a node keeps of the cluster while it is down |
//! | `form` | from single nodes to a cluster |
//! | `agreement` | who is what, and waiting until all say the same |
//! | `reshard` | slots moved key by key, with stops half-way |
//! | `atomic` | slots moved by the server itself, where it can |
//! | `failover` | clean, forced, and by what kills |
//! | `partition` | nodes cut off from clients, from each other, or both |
//! | `client` | a plain client of clusters, to compare with |
//!
//! It is built without redis-cli, and asked over unix sockets, so that no partition comes between a test and what
//! it wants to know. Nodes have indices that stay: 0 to `primaries - 1` begin as primaries, those after as their
//! replicas in turn. What they are later is asked ([`Cluster::primaries`], [`Cluster::owner`]).
//!
//! Redis 7.0 and later, every Valkey. All waiting is bounded, and what was missing is told.

mod agreement;
mod atomic;
mod client;
mod error;
mod failover;
mod form;
mod node;
mod nodes_file;
mod partition;
mod reshard;
mod slots;
mod view;

use std::time::Duration;

use keyfold_core::admin::home;
use keyfold_core::layout::Layout;

use crate::servers::Binary;
use crate::tls::Certificates;

pub use atomic::AtomicMigration;
pub use client::{CallError, PlainClient};
pub use error::ClusterError;
pub use failover::Failover;
pub use node::{Condition, Cut, Node};
pub use reshard::Resharding;
pub use slots::{SLOTS, key_in, slot_of};
pub use view::{Seen, read};

/// How long nodes may take to agree, or to carry out what they were told; generous, for loaded machines.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How the nodes of a cluster are started.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a node may be silent until it is taken for gone. Where this is short, a machine under load makes
    /// nodes fail over by themselves.
    pub node_timeout: Duration,
    /// Whether clients and other nodes come through relays, whose ports the nodes announce. Needed for partitions;
    /// only on systems where all of 127.0.0.0/8 is the machine itself, as Linux.
    pub relays: bool,
    /// The password of the default user, which replicas know too.
    pub password: Option<String>,
    /// What each node announces as its hostname, in the nodes' order; those after have none.
    pub hostnames: Vec<String>,
    /// What nodes name in redirects and maps: `ip`, `hostname` or `unknown-endpoint`.
    pub endpoint: &'static str,
    /// The certificates of nodes that speak TLS alone, with clients and with each other. There are no relays then, and
    /// nodes are asked over unix sockets.
    pub tls: Option<Certificates>,
    /// More arguments for each node, which win over all others.
    pub args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_timeout: Duration::from_secs(5),
            relays: false,
            password: None,
            hostnames: Vec::new(),
            endpoint: "ip",
            tls: None,
            args: Vec::new(),
        }
    }
}

/// A running cluster. All its nodes are killed when it is dropped, and what they wrote is removed.
#[derive(Debug)]
pub struct Cluster {
    binary: Binary,
    options: Options,
    nodes: Vec<Node>,
}

impl Cluster {
    /// Starts a cluster of so many primaries, which share all slots evenly, each with so many replicas, and waits until
    /// all nodes say that it is whole.
    ///
    /// # Errors
    /// Where a node does not start, or they do not agree in time.
    pub fn start(
        binary: &Binary,
        primaries: usize,
        replicas_each: usize,
        options: &Options,
    ) -> Result<Self, ClusterError> {
        let binaries = vec![binary.clone(); primaries * (1 + replicas_each)];
        Self::start_mixed(&binaries, primaries, options)
    }

    /// The same of a server for each node, so many of them primaries and the rest replicas of those in turn.
    ///
    /// # Errors
    /// Where a node does not start, or they do not agree in time.
    ///
    /// # Panics
    /// Where there are no primaries, or fewer servers than primaries.
    pub fn start_mixed(binaries: &[Binary], primaries: usize, options: &Options) -> Result<Self, ClusterError> {
        assert!(primaries > 0 && primaries <= binaries.len(), "{primaries} primaries of {}", binaries.len());
        let started = binaries.iter().enumerate().map(|(index, binary)| Node::start(binary, index, options));
        let nodes = started.collect::<Result<_, _>>()?;
        let cluster = Self { binary: binaries[0].clone(), options: options.clone(), nodes };
        cluster.form(primaries)?;
        Ok(cluster)
    }

    /// Its nodes, by index.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    ///
    /// # Panics
    /// Where there is none of this index.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// The node of this name: `node-0` and so on.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name() == name)
    }

    /// The node with this ID.
    pub fn index_of(&self, id: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.id() == id)
    }

    /// Which server the first node is.
    pub fn binary(&self) -> &Binary {
        &self.binary
    }

    /// Writes a layout to where keyfold keeps the one in force, as if a tool of keyfold's had put it there.
    ///
    /// # Errors
    /// Where nobody owns the slot of keyfold's own keys, or its owner is away.
    pub fn put_in_force(&self, layout: &Layout) -> Result<(), ClusterError> {
        let node = &self.nodes[self.owner(home().number())?];
        let written = node.server().put_in_force(layout);
        written.map_err(|source| ClusterError::Wire {
            node: node.name().to_owned(),
            command: "MSET".to_owned(),
            source,
        })
    }

    /// A plain client of the cluster, which has the nodes that run now as its seeds.
    pub fn client(&self) -> PlainClient {
        let running = self.nodes.iter().filter(|node| node.condition() == Condition::Running);
        PlainClient::new(running.map(Node::address).collect(), self.options.password.clone())
    }

    /// The URL of one node, as keyfold takes it.
    pub fn url(&self, index: usize) -> String {
        let scheme = if self.options.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.nodes[index].address())
    }
}
