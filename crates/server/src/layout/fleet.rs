//! All nodes of a cluster, for what concerns each of them: who is connected, and what home and witnesses hold.
//!
//! A node without slots counts as well, primary or replica: it may be given some again, and what was connected to it
//! before is connected still. Only who the cluster itself takes for gone is left out.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use keyfold_core::admin::home;
use keyfold_core::change::Look;
use keyfold_core::cluster::{Endpoint, Redirect, SlotMap, Topology, roster};
use keyfold_core::resp::write_command;
use keyfold_core::slot::Slot;

use crate::connection::Server;
use crate::node;

/// So long a node that is away is waited for before a change begins.
const AWAY_FOR: Duration = Duration::from_secs(10);
/// How often it is looked whether it is back, or another has its slots.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long a node may take to answer: clients wait meanwhile.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// So many nodes in a row may send a command on.
const REDIRECTS: u32 = 4;

/// All nodes of a cluster.
pub(super) struct Fleet {
    /// The way in, of which connections to other nodes are made.
    seed: Server,
    map: SlotMap,
    nodes: Vec<FleetNode>,
}

/// One of them. Its position never changes.
struct FleetNode {
    endpoint: Endpoint,
    server: Server,
    /// How often it was connected to anew.
    reconnects: u32,
    /// The cluster counts it among its nodes.
    is_there: bool,
}

impl Fleet {
    /// Connects to all nodes of the cluster of a server. One that is away is waited for, for a while.
    ///
    /// # Errors
    /// Which node is away, or that nobody has some slots.
    pub(super) fn of(server: &Server) -> anyhow::Result<Self> {
        let seed = server.another()?;
        let map = SlotMap::new((*server.target().addresses).clone());
        let mut fleet = Self { seed, map, nodes: Vec::new() };
        let since = Instant::now();
        loop {
            match fleet.refresh() {
                Err(_) if since.elapsed() < AWAY_FOR => thread::sleep(LOOK_AGAIN),
                refreshed => return refreshed.map(|()| fleet).context("the layout can't be changed now"),
            }
        }
    }

    /// Asks who there is, and connects to whoever is new.
    ///
    /// # Errors
    /// Which node is away, or that nobody has some slots.
    pub(super) fn refresh(&mut self) -> anyhow::Result<()> {
        let (topology, all) = self.ask()?;
        self.map.adopt(&topology, self.map.ask());
        if let Some(slot) = self.map.unserved() {
            return Err(anyhow!("of the cluster of {}, nobody has slot {slot}", self.seed.address()));
        }
        self.nodes.iter_mut().for_each(|node| node.is_there = false);
        for endpoint in all {
            self.connect(endpoint)?;
        }
        Ok(())
    }

    /// What a node that answers says of the cluster, and where all nodes are.
    fn ask(&mut self) -> anyhow::Result<(Topology, Vec<Endpoint>)> {
        let target = self.seed.target().clone();
        let others = self.nodes.iter_mut().map(|node| &mut node.server);
        let mut refused = None;
        for server in std::iter::once(&mut self.seed).chain(others) {
            let told = node::ask(server, &target)
                .and_then(|topology| Ok((topology, server.ask::<String>(&[b"CLUSTER", b"NODES"])?)));
            match told {
                Ok((topology, list)) => {
                    let all = roster(&topology, &list, &node::own_endpoint(server), &target.addresses);
                    let unread = || format!("what {} answers to CLUSTER NODES can't be read", server.address());
                    return Ok((topology, all.with_context(unread)?));
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| anyhow!("no node of the cluster answers")))
    }

    fn connect(&mut self, endpoint: Endpoint) -> anyhow::Result<()> {
        let known = self.nodes.iter_mut().find(|node| node.endpoint == endpoint);
        let is_alive = |node: &mut &mut FleetNode| node.server.ask::<String>(&[b"PING"]).is_ok();
        let is_away = || format!("of the cluster of {}, the node {endpoint} is away", self.seed.address());
        if let Some(mut node) = known {
            if !is_alive(&mut node) {
                node.server = self.seed.to_node(&endpoint).with_context(is_away)?;
                node.server.set_patience(ANSWER_WITHIN)?;
                node.reconnects += 1;
            }
            node.is_there = true;
            return Ok(());
        }
        let mut server = self.seed.to_node(&endpoint).with_context(is_away)?;
        server.set_patience(ANSWER_WITHIN)?;
        self.nodes.push(FleetNode { endpoint, server, reconnects: 0, is_there: true });
        Ok(())
    }

    /// The node of this number, as [`Self::each`] counts them.
    pub(super) fn node(&mut self, node: usize) -> Option<&mut Server> {
        self.nodes.get_mut(node).map(|node| &mut node.server)
    }

    /// All that there are, with their numbers.
    pub(super) fn each(&mut self) -> impl Iterator<Item = (usize, &mut Server)> {
        let nodes = self.nodes.iter_mut().enumerate().filter(|(_, node)| node.is_there);
        nodes.map(|(number, node)| (number, &mut node.server))
    }

    /// The primaries, each with its slots.
    pub(super) fn primaries(&self) -> BTreeMap<usize, Vec<Slot>> {
        let mut found: BTreeMap<usize, Vec<Slot>> = BTreeMap::new();
        for slot in Slot::all() {
            if let Ok(owner) = self.owner(slot) {
                found.entry(owner).or_default().push(slot);
            }
        }
        found
    }

    /// Whether one primary has home and witnesses, and there are others.
    pub(super) fn are_together(&self) -> bool {
        let mut owners: Vec<_> = Look::<usize>::slots().map(|slot| self.owner(slot).ok()).collect();
        owners.dedup();
        owners.len() == 1 && self.map.primaries().len() > 1
    }

    /// The node that has the home.
    pub(super) fn home(&mut self) -> anyhow::Result<&mut Server> {
        let owner = self.owner(home())?;
        Ok(&mut self.nodes[owner].server)
    }

    /// What tells the connection to the home from every other.
    pub(super) fn home_connection(&self) -> anyhow::Result<(usize, u32)> {
        let owner = self.owner(home())?;
        Ok((owner, self.nodes[owner].reconnects))
    }

    fn owner(&self, slot: Slot) -> anyhow::Result<usize> {
        let endpoint = self.map.primary(slot).map(|node| self.map.endpoint(node));
        let owner = self.nodes.iter().position(|node| Some(&node.endpoint) == endpoint);
        owner.with_context(|| format!("of the cluster of {}, nobody has slot {slot}", self.seed.address()))
    }

    /// Sends one command about one key of a slot to who has it, wherever that leads; its reply.
    ///
    /// # Errors
    /// The node is away. What the command has done, if anything, is not known.
    pub(super) fn exchange_at(&mut self, slot: Slot, command: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut reply = Vec::new();
        for _ in 0..REDIRECTS {
            let owner = self.owner(slot)?;
            reply = self.nodes[owner].server.exchange_one(command)?;
            match Redirect::read(&reply) {
                Some(Redirect::Moved(..)) => self.refresh()?,
                Some(Redirect::Ask(_, to)) => {
                    let host = to.host.unwrap_or(&self.nodes[owner].endpoint.host).to_owned();
                    let endpoint = self.seed.target().addresses.find(Endpoint { host, port: to.port });
                    return self.exchange_asking(&endpoint, command);
                }
                _ => break,
            }
        }
        Ok(reply)
    }

    fn exchange_asking(&mut self, endpoint: &Endpoint, command: &[u8]) -> anyhow::Result<Vec<u8>> {
        self.connect(endpoint.clone())?;
        let node = self.nodes.iter_mut().find(|node| node.endpoint == *endpoint).context("it was connected to")?;
        let mut wire = Vec::new();
        write_command(&mut wire, &[b"ASKING"]);
        wire.extend_from_slice(command);
        Ok(node.server.exchange(&wire, 2)?.pop().unwrap_or_default())
    }
}
