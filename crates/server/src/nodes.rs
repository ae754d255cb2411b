//! The servers that hold a keyspace: one, or the primaries of a cluster.

use anyhow::{Context, anyhow, bail};
use keyfold_core::admin::LAYOUT_KEY;
use keyfold_core::cluster::{AddressMap, Endpoint, Node, SlotMap, Topology};
use keyfold_core::slot::Slot;
use keyfold_proxy::address::{Route, ServerAddress};

use crate::connection::{Server, Target};

/// The servers that hold a keyspace.
pub struct Nodes {
    servers: Vec<Server>,
    /// Who has which slot; none of one server that has all.
    cluster: Option<Owners>,
}

struct Owners {
    map: SlotMap,
    /// The nodes that the servers are, in their order.
    nodes: Vec<Node>,
}

impl Nodes {
    /// Connects to the server at `target`, and where that is a node of a cluster to all primaries.
    ///
    /// # Errors
    /// One of them can't be reached; slots that nobody has, so that not all keys would be seen.
    pub fn connect(target: &Target) -> anyhow::Result<Self> {
        let mut server = Server::connect_to_node(target)?;
        if !server.version().is_cluster() {
            return Ok(Self { servers: vec![server], cluster: None });
        }
        let topology = ask(&mut server, target)?;
        let mut map = SlotMap::new(AddressMap::clone(&target.addresses));
        map.adopt(&topology, map.ask());
        if let Some(slot) = map.unserved() {
            let missing = Slot::all().filter(|slot| map.primary(*slot).is_none()).count();
            bail!(
                "of the cluster of {}, nobody has {missing} slots, such as {slot}; `redis-cli --cluster fix` gives them \
                 to somebody",
                server.address()
            );
        }
        let mut nodes: Vec<Node> = map.primaries().into_keys().collect();
        nodes.sort_unstable_by_key(|node| map.endpoint(*node));
        let connect = |node: &Node| {
            let endpoint = map.endpoint(*node);
            let target = Target { address: at(&target.address, endpoint), ..target.clone() };
            let named = || format!("of the cluster of {}, the node {endpoint}", server.address());
            Server::connect_to_node(&target).with_context(named)
        };
        let servers = nodes.iter().map(connect).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self { servers, cluster: Some(Owners { map, nodes }) })
    }

    /// Whether they are a cluster.
    pub fn are_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// All of them; at least one.
    pub fn servers(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// The first of them.
    pub fn first(&mut self) -> &mut Server {
        &mut self.servers[0]
    }

    /// The one that holds keyfold's own keys.
    pub fn home(&mut self) -> &mut Server {
        let home = self.owner_of(LAYOUT_KEY);
        &mut self.servers[home]
    }

    /// Which of them has this key.
    pub fn owner_of(&self, key: &[u8]) -> usize {
        let Some(Owners { map, nodes }) = &self.cluster else { return 0 };
        nodes.iter().position(|node| map.primary(Slot::of(key)) == Some(*node)).unwrap_or_default()
    }

    /// How many slots each of them has; nothing of one server.
    pub fn slots(&self) -> Vec<usize> {
        let Some(Owners { map, nodes }) = &self.cluster else { return Vec::new() };
        let slots = map.primaries();
        nodes.iter().map(|node| slots[node]).collect()
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

/// What a node says of its cluster.
///
/// # Errors
/// It is none of a cluster, or takes its cluster to be down.
pub(crate) fn ask(server: &mut Server, target: &Target) -> anyhow::Result<Topology> {
    let mut wire = Vec::new();
    let replies = Topology::ask(&mut wire);
    let replies = server.exchange(&wire, replies)?;
    let asked = match &server.address().route {
        Route::Tcp { host, port, .. } => Endpoint { host: host.clone(), port: *port },
        // A server's own address is none of Sentinels, and none of several nodes.
        Route::Unix(_) | Route::Sentinel { .. } | Route::Cluster { .. } => {
            Endpoint { host: "127.0.0.1".to_owned(), port: 0 }
        }
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
    let route = Route::Tcp { host: endpoint.host.clone(), port: endpoint.port, tls: address.speaks_tls() };
    ServerAddress { route, ..address.clone() }
}
