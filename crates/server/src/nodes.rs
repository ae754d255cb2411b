//! The servers that hold a keyspace: one, or the primaries of a cluster.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail};
use keyfold_core::admin::{LAYOUT_KEY, home};
use keyfold_core::cluster::{AddressMap, Node, SlotMap, Topology, endpoints};
use keyfold_core::slot::Slot;

use crate::cluster_nodes::ClusterNode;
use crate::connection::{Server, Target};
use crate::node::{ask, at, own_endpoint};
use crate::steps::{Prepare, Steps};

/// The servers that hold a keyspace.
pub struct Nodes {
    target: Target,
    servers: Vec<Server>,
    /// Who has which slot; none of one server that has all.
    cluster: Option<Owners>,
    /// Why those that were left out can't be reached.
    away: Vec<anyhow::Error>,
}

struct Owners {
    map: SlotMap,
    /// The nodes that the servers are, in their order.
    nodes: Vec<Node>,
}

/// Who has a slot at a moment, and where its keys are on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotState {
    /// The ID of the node that has it; none where nobody says so.
    pub owner: Option<String>,
    /// The owner's, which grows when slots come to it.
    pub epoch: u64,
    /// The ID of the node that its keys go to.
    pub to: Option<String>,
    /// The IDs of the nodes that keys of it come to.
    pub importers: Vec<String>,
}

impl SlotState {
    /// Whether some of its keys may lie on another node than its owner.
    pub fn is_on_its_way(&self) -> bool {
        self.to.is_some() || !self.importers.is_empty()
    }
}

/// What all primaries say of slots, and of each other.
#[derive(Clone, Debug)]
pub struct SlotStates {
    slots: Vec<SlotState>,
    addresses: BTreeMap<String, String>,
}

impl SlotStates {
    /// Of one slot.
    pub fn of(&self, slot: Slot) -> &SlotState {
        &self.slots[usize::from(slot.number())]
    }

    /// Where the node with this ID is.
    pub fn address(&self, id: &str) -> String {
        self.addresses.get(id).cloned().unwrap_or_else(|| format!("an unknown node ({id})"))
    }
}

impl Nodes {
    /// Connects to the server at `target`, and where that is a node of a cluster to all primaries.
    ///
    /// # Errors
    /// A keyfold answers there; one of them can't be reached; slots that nobody has, so that not all keys would be seen.
    pub fn connect(target: &Target) -> anyhow::Result<Self> {
        let mut nodes = Self::connect_to_those_there(target)?;
        nodes.require_all()?;
        Ok(nodes)
    }

    /// The same for who can do without some primaries for a while: those that can't be reached are left out, but not the
    /// one that holds keyfold's own keys.
    ///
    /// # Errors
    /// A keyfold answers there; the first one or the home can't be reached; slots that nobody has.
    pub fn connect_to_those_there(target: &Target) -> anyhow::Result<Self> {
        let mut server = Server::connect_to_node(target)?;
        server.refuse_keyfold()?;
        if !server.version().is_cluster() {
            return Ok(Self { target: target.clone(), servers: vec![server], cluster: None, away: Vec::new() });
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
            Server::connect_to_node(&target).with_context(|| {
                format!(
                    "of the cluster of {}, the node {endpoint} can't be used; where it has just failed, run this again \
                     once a replica has taken its place; all nodes are to take the same user and password, and to be \
                     reached from here (--map-address, where they announce other addresses)",
                    server.address()
                )
            })
        };
        let (mut servers, mut reached, mut away) = (Vec::new(), Vec::new(), Vec::new());
        for node in nodes {
            match connect(&node) {
                Ok(server) => {
                    servers.push(server);
                    reached.push(node);
                }
                Err(error) if map.primary(home()) == Some(node) => return Err(error),
                Err(error) => away.push(error),
            }
        }
        Ok(Self { target: target.clone(), servers, cluster: Some(Owners { map, nodes: reached }), away })
    }

    /// One server that was connected to already.
    pub fn of_one(server: Server) -> Self {
        Self { target: server.target().clone(), servers: vec![server], cluster: None, away: Vec::new() }
    }

    /// The way to them.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Why those that were left out can't be reached.
    pub fn away(&self) -> &[anyhow::Error] {
        &self.away
    }

    /// Makes sure that none was left out: for who has to see all keys, or know whose a key is.
    ///
    /// # Errors
    /// One was, and why.
    pub fn require_all(&mut self) -> anyhow::Result<()> {
        self.away.pop().map_or(Ok(()), Err)
    }

    /// Other connections to them, as they are now. Of a cluster any node that was there may lead to them.
    ///
    /// # Errors
    /// See [`Self::connect`].
    pub fn again(&self) -> anyhow::Result<Self> {
        let first = match Self::connect(&self.target) {
            Err(first) if self.cluster.is_some() => first,
            connected => return connected,
        };
        let others = self.servers.iter().filter_map(|server| Self::connect(server.target()).ok());
        others.map(|nodes| Self { target: self.target.clone(), ..nodes }).next().ok_or(first)
    }

    /// Steps to the nodes, each over a connection of its own that `prepare` has seen first; none of one server.
    pub fn steps<W>(&self, prepare: Prepare) -> Option<Steps<W>> {
        let Owners { map, .. } = self.cluster.as_ref()?;
        Some(Steps::new(map.clone(), self.target.clone(), prepare))
    }

    /// What the nodes say of slots and of their ways.
    ///
    /// # Errors
    /// A node doesn't say.
    pub fn slot_states(&mut self) -> anyhow::Result<SlotStates> {
        let mut states =
            SlotStates { slots: vec![SlotState::default(); Slot::all().count()], addresses: BTreeMap::new() };
        for server in &mut self.servers {
            for node in read_nodes(server, &self.target)? {
                states.addresses.insert(node.id.clone(), node.endpoint.to_string());
                if node.is_myself {
                    note(&mut states.slots, &node);
                }
            }
        }
        // Nodes without slots import them, too.
        for server in &mut self.idle()? {
            let all = read_nodes(server, &self.target)?;
            all.iter().filter(|node| node.is_myself).for_each(|node| note(&mut states.slots, node));
        }
        Ok(states)
    }

    /// The primaries of the cluster that have no slot: new ones, and such as slots are on their way to. Those that nobody
    /// reaches are left out.
    ///
    /// # Errors
    /// A node doesn't say who there is, or one can't be connected to.
    pub fn idle(&mut self) -> anyhow::Result<Vec<Server>> {
        if self.cluster.is_none() {
            return Ok(Vec::new());
        }
        let target = self.target.clone();
        let nodes = read_nodes(self.first(), &target)?;
        let idle = nodes.into_iter().filter(|node| node.is_primary && !node.is_failing && node.slots.is_empty());
        let connect = |node: ClusterNode| {
            let target = Target { address: at(&target.address, &node.endpoint), ..target.clone() };
            Server::connect_to_node(&target).with_context(|| format!("the node {}, which has no slots", node.endpoint))
        };
        idle.map(connect).collect()
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
        self.owner_of_slot(Slot::of(key))
    }

    /// Which of them has this slot.
    pub fn owner_of_slot(&self, slot: Slot) -> usize {
        let Some(Owners { map, nodes }) = &self.cluster else { return 0 };
        nodes.iter().position(|node| map.primary(slot) == Some(*node)).unwrap_or_default()
    }

    /// The connections themselves.
    pub fn into_servers(self) -> Vec<Server> {
        self.servers
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

fn note(slots: &mut [SlotState], node: &ClusterNode) {
    for range in &node.slots {
        for number in range.clone() {
            if let Some(state) = slots.get_mut(usize::from(number)) {
                (state.owner, state.epoch) = (Some(node.id.clone()), node.epoch);
            }
        }
    }
    for (slot, to) in &node.migrating {
        slots[usize::from(slot.number())].to = Some(to.clone());
    }
    for (slot, _) in &node.importing {
        slots[usize::from(slot.number())].importers.push(node.id.clone());
    }
}

/// What a node says of all, each where CLUSTER SLOTS says that it is, or others are.
pub(crate) fn read_nodes(server: &mut Server, target: &Target) -> anyhow::Result<Vec<ClusterNode>> {
    let (mut wire, asked) = (Vec::new(), own_endpoint(server));
    let questions = Topology::ask(&mut wire);
    let replies = server.exchange(&wire, questions)?;
    let answer: String = server.ask(&[b"CLUSTER", b"NODES"])?;
    let topology = Topology::read(&replies, &asked, &target.addresses)
        .map_err(|error| anyhow!("the cluster node at {}: {error}", server.address()))?;
    let found = endpoints(&topology, &answer, &asked, &target.addresses).and_then(|mut endpoints| {
        let mut nodes = ClusterNode::read_all(&answer, &asked, &target.addresses)?;
        nodes.iter_mut().for_each(|node| node.endpoint = endpoints.remove(&node.id).unwrap_or(asked.clone()));
        Some(nodes)
    });
    found.with_context(|| format!("what {} answers to CLUSTER NODES can't be read", server.address()))
}
