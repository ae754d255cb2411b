//! The servers that hold a keyspace: one, or the primaries of a cluster.

use anyhow::{Context, anyhow, bail};
use keyfold_core::cluster::{Endpoint, Topology};
use keyfold_core::slot::Slot;
use keyfold_proxy::address::{Route, ServerAddress};

use crate::connection::{Server, Target};

/// The servers that hold a keyspace.
pub struct Nodes {
    servers: Vec<Server>,
    /// For each slot which of them has it; none of one server that has all.
    owners: Option<Box<[usize]>>,
}

impl Nodes {
    /// Connects to the server at `target`, and where that is a node of a cluster to all primaries.
    ///
    /// # Errors
    /// One of them can't be reached; slots that nobody has, so that not all keys would be seen.
    pub fn connect(target: &Target) -> anyhow::Result<Self> {
        let mut server = Server::connect_to_node(target)?;
        if !server.version().is_cluster() {
            return Ok(Self { servers: vec![server], owners: None });
        }
        let topology = ask(&mut server, target)?;
        let mut endpoints: Vec<&Endpoint> = topology.ranges.iter().map(|range| &range.primary).collect();
        endpoints.sort_unstable();
        endpoints.dedup();
        let connect = |endpoint: &&Endpoint| {
            let target = Target { address: at(&target.address, endpoint), ..target.clone() };
            let named = || format!("of the cluster of {}, the node {endpoint}", server.address());
            Server::connect_to_node(&target).with_context(named)
        };
        let servers = endpoints.iter().map(connect).collect::<anyhow::Result<Vec<_>>>()?;
        let mut owners = vec![usize::MAX; Slot::all().count()].into_boxed_slice();
        for range in &topology.ranges {
            let owner = endpoints.iter().position(|endpoint| **endpoint == range.primary).unwrap_or_default();
            owners[usize::from(range.first.number())..=usize::from(range.last.number())].fill(owner);
        }
        if let Some(slot) = owners.iter().position(|owner| *owner == usize::MAX) {
            let missing = owners.iter().filter(|owner| **owner == usize::MAX).count();
            bail!(
                "of the cluster of {}, nobody has {missing} slots, such as {slot}; `redis-cli --cluster fix` gives them \
                 to somebody",
                server.address()
            );
        }
        Ok(Self { servers, owners: Some(owners) })
    }

    /// Whether they are a cluster.
    pub fn are_cluster(&self) -> bool {
        self.owners.is_some()
    }

    /// All of them; at least one.
    pub fn servers(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// The first of them.
    pub fn first(&mut self) -> &mut Server {
        &mut self.servers[0]
    }

    /// Which of them has this key.
    pub fn owner_of(&self, key: &[u8]) -> usize {
        self.owners.as_ref().map_or(0, |owners| owners[usize::from(Slot::of(key).number())])
    }

    /// How many slots each of them has; nothing of one server.
    pub fn slots(&self) -> Vec<usize> {
        let Some(owners) = &self.owners else { return Vec::new() };
        (0..self.servers.len()).map(|at| owners.iter().filter(|owner| **owner == at).count()).collect()
    }

    /// Where they are, without passwords.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.address().to_string()).collect()
    }

    /// Those among them that are of another release than the first: what is said of memory is of that one.
    pub fn other_releases(&self) -> Option<String> {
        let first = self.servers[0].version();
        let others = self.servers.iter().filter(|server| server.version() != first);
        let others: Vec<_> = others.map(|server| format!("{} is {}", server.address(), server.version())).collect();
        (!others.is_empty()).then(|| format!("not all nodes are {first}: {}", others.join(", ")))
    }
}

fn ask(server: &mut Server, target: &Target) -> anyhow::Result<Topology> {
    let mut wire = Vec::new();
    let replies = Topology::ask(&mut wire);
    let replies = server.exchange(&wire, replies)?;
    let asked = match &server.address().route {
        Route::Tcp { host, port, .. } => Endpoint { host: host.clone(), port: *port },
        // A server's own address is none of Sentinels.
        Route::Unix(_) | Route::Sentinel { .. } => Endpoint { host: "127.0.0.1".to_owned(), port: 0 },
    };
    let topology = Topology::read(&replies, &asked, &target.addresses);
    let topology = topology.map_err(|error| anyhow!("the cluster node at {}: {error}", server.address()))?;
    if !topology.is_ok {
        bail!(
            "the node at {} says that its cluster is down; `redis-cli --cluster check` says what is wrong with it",
            server.address()
        );
    }
    Ok(topology)
}

/// The same way in to another node.
fn at(address: &ServerAddress, endpoint: &Endpoint) -> ServerAddress {
    let tls = matches!(address.route, Route::Tcp { tls: true, .. });
    let route = Route::Tcp { host: endpoint.host.clone(), port: endpoint.port, tls };
    ServerAddress { route, ..address.clone() }
}
