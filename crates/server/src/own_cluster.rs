//! A cluster of keyfold's own: primaries with a replica each, on this machine, for a demonstration.
//!
//! Nodes are asked over their unix sockets; clients and the nodes among themselves use ports of 127.0.0.1, without a
//! password: whoever has an account on this machine can reach them as long as they live.

use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use keyfold_core::cluster::{AddressMap, Endpoint};
use keyfold_core::slot::Slot;
use keyfold_proxy::address::{Route, ServerAddress};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster_nodes::ClusterNode;
use crate::connection::{Server, Target};
use crate::own::OwnServer;

/// Below the ports that systems give out by themselves, as are those for other nodes.
const PORTS: RangeInclusive<u16> = 14_000..=21_999;
/// As servers have it where nothing else is said: so far is a node's port for other nodes from the one for clients.
const BUS_PORT_OFFSET: u16 = 10_000;
/// Until a silent node is taken for gone. Where this is short, a busy machine has nodes fail over by themselves.
const NODE_TIMEOUT_MS: &str = "5000";
/// How long nodes may take to agree.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Keys in one MIGRATE, and how long it may take.
const BATCH: &str = "100";
const MIGRATE_MS: &str = "5000";

struct Node {
    server: OwnServer,
    port: u16,
    id: String,
    is_killed: bool,
}

/// A running cluster. It ends when this is dropped.
pub struct OwnCluster {
    nodes: Vec<Node>,
}

impl OwnCluster {
    /// Starts so many primaries with a replica each, by `program` or the first server on PATH, with these arguments, and
    /// waits until all agree. The replica of primary `n` is node `primaries + n`.
    ///
    /// # Errors
    /// A node doesn't start, or they don't agree in time.
    pub fn start(program: Option<&Path>, primaries: usize, args: &[&str]) -> anyhow::Result<Self> {
        let nodes = (0..primaries * 2).map(|_| Node::start(program, args));
        let cluster = Self { nodes: nodes.collect::<anyhow::Result<_>>()? };
        cluster.form(primaries)?;
        Ok(cluster)
    }

    /// The way to it, by any of its nodes.
    pub fn target(&self) -> Target {
        let seed = |node: &Node| Endpoint { host: "127.0.0.1".to_owned(), port: node.port };
        let seeds = self.nodes.iter().filter(|node| !node.is_killed).map(seed).collect();
        let route = Route::Cluster { seeds, tls: false };
        ServerAddress { route, user: None, password: None, database: 0 }.into()
    }

    /// How many nodes it began with.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Connects to one node.
    ///
    /// # Errors
    /// It is gone.
    pub fn connect(&self, node: usize) -> anyhow::Result<Server> {
        Server::connect_to_node(self.nodes[node].server.target())
    }

    /// The node that has a slot, as it says itself.
    ///
    /// # Errors
    /// Nobody says so.
    pub fn owner(&self, slot: Slot) -> anyhow::Result<usize> {
        for at in self.living() {
            let own = self.view(at)?.into_iter().find(|node| node.is_myself);
            if own.is_some_and(|own| own.is_primary && own.slots.iter().any(|range| range.contains(&slot.number()))) {
                return Ok(at);
            }
        }
        bail!("no node has slot {slot}")
    }

    /// Moves slots to a node, key by key, as `redis-cli --cluster reshard` does.
    ///
    /// # Errors
    /// A node doesn't do what it is told.
    pub fn move_slots(&self, slots: RangeInclusive<u16>, target: usize) -> anyhow::Result<()> {
        let (mut there, port) = (self.connect(target)?, self.nodes[target].port.to_string());
        for slot in slots.filter_map(Slot::new) {
            let source = self.owner(slot)?;
            let mut here = self.connect(source)?;
            let slot = slot.number().to_string();
            let (source_id, target_id) = (&self.nodes[source].id, &self.nodes[target].id);
            set_slot(&mut there, &slot, &["IMPORTING", source_id])?;
            set_slot(&mut here, &slot, &["MIGRATING", target_id])?;
            loop {
                let question: [&[u8]; 4] = [b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), BATCH.as_bytes()];
                let keys: Vec<Vec<u8>> = here.ask(&question)?;
                if keys.is_empty() {
                    break;
                }
                let head = [&b"MIGRATE"[..], b"127.0.0.1", port.as_bytes(), b"", b"0", MIGRATE_MS.as_bytes(), b"KEYS"];
                let command: Vec<&[u8]> = head.into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
                here.ask::<()>(&command)?;
            }
            set_slot(&mut there, &slot, &["NODE", target_id])?;
            set_slot(&mut here, &slot, &["NODE", target_id])?;
        }
        Ok(())
    }

    /// Kills a node, with no time to say goodbye.
    ///
    /// # Errors
    /// It doesn't say which process it is.
    pub fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        let pid: i32 = self.connect(node)?.info("server")?.needed("process_id")?;
        let pid = Pid::from_raw(pid).context("a node has no process")?;
        kill_process(pid, Signal::KILL).context("can't kill a node")?;
        self.nodes[node].is_killed = true;
        Ok(())
    }

    /// Waits until all nodes that live say that every slot is served.
    ///
    /// # Errors
    /// They don't in time.
    pub fn wait_until_whole(&self) -> anyhow::Result<()> {
        wait_until("the cluster isn't whole", || {
            for at in self.living() {
                let info: String = self.connect(at)?.ask(&[b"CLUSTER", b"INFO"])?;
                let says = |line: &str| info.lines().any(|said| said == line);
                if !says("cluster_state:ok") || !says("cluster_slots_ok:16384") {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|at| !self.nodes[*at].is_killed)
    }

    fn view(&self, at: usize) -> anyhow::Result<Vec<ClusterNode>> {
        let asked = Endpoint { host: "127.0.0.1".to_owned(), port: self.nodes[at].port };
        let said: String = self.connect(at)?.ask(&[b"CLUSTER", b"NODES"])?;
        ClusterNode::read_all(&said, &asked, &AddressMap::default()).context("a node doesn't say who there is")
    }

    /// Slots, epochs, introductions, replicas.
    fn form(&self, primaries: usize) -> anyhow::Result<()> {
        let slots = usize::from(Slot::LAST.number()) + 1;
        for at in 0..self.nodes.len() {
            let mut server = self.connect(at)?;
            server.ask::<()>(&[b"CLUSTER", b"SET-CONFIG-EPOCH", (at + 1).to_string().as_bytes()])?;
            if at < primaries {
                let own = (at * slots / primaries..(at + 1) * slots / primaries).map(|slot| slot.to_string());
                let own: Vec<String> = own.collect();
                let command: Vec<&[u8]> =
                    [&b"CLUSTER"[..], b"ADDSLOTS"].into_iter().chain(own.iter().map(String::as_bytes)).collect();
                server.ask::<()>(&command)?;
            }
        }
        // Who knows one node hears of the others by it.
        let mut first = self.connect(0)?;
        for other in &self.nodes[1..] {
            first.ask::<()>(&[b"CLUSTER", b"MEET", b"127.0.0.1", other.port.to_string().as_bytes()])?;
        }
        wait_until("the nodes don't come to know each other", || {
            let knows_all = |at| Ok(self.view(at)?.iter().filter(|node| !node.is_failing).count() == self.nodes.len());
            self.living().map(knows_all).try_fold(true, |all, one: anyhow::Result<bool>| Ok(all && one?))
        })?;
        for at in primaries..self.nodes.len() {
            let primary = &self.nodes[at - primaries].id;
            self.connect(at)?.ask::<()>(&[b"CLUSTER", b"REPLICATE", primary.as_bytes()])?;
        }
        wait_until("a replica doesn't follow its primary", || {
            let follows = |at| Ok(self.connect(at)?.info("replication")?.field("master_link_status") == Some("up"));
            (primaries..self.nodes.len()).map(follows).try_fold(true, |all, one: anyhow::Result<bool>| Ok(all && one?))
        })?;
        self.wait_until_whole()
    }
}

impl Node {
    fn start(program: Option<&Path>, args: &[&str]) -> anyhow::Result<Self> {
        let port = free_port().context("there are no two ports to be had for a node")?;
        let number = port.to_string();
        let own = ["--bind", "127.0.0.1", "--port", &number, "--cluster-enabled", "yes"];
        let own = own.into_iter().chain(["--cluster-node-timeout", NODE_TIMEOUT_MS]);
        let server = OwnServer::start_with(program, None, &own.chain(args.iter().copied()).collect::<Vec<_>>())?;
        let id = Server::connect_to_node(server.target())?.ask(&[b"CLUSTER", b"MYID"])?;
        Ok(Self { server, port, id, is_killed: false })
    }
}

/// A port for clients such that the one for other nodes is free as well.
fn free_port() -> Option<u16> {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Where to begin differs between programs that start at once.
    let (first, count) = (*PORTS.start(), PORTS.end() - PORTS.start() + 1);
    let offset = u16::try_from(std::process::id() % u32::from(count)).unwrap_or(0);
    let mut ports = (0..count).map(|at| first + (offset + at) % count);
    ports.find(|port| is_free(*port) && is_free(port + BUS_PORT_OFFSET))
}

fn set_slot(server: &mut Server, slot: &str, what: &[&str]) -> anyhow::Result<()> {
    let words = ["CLUSTER", "SETSLOT", slot].into_iter().chain(what.iter().copied()).map(str::as_bytes);
    server.ask(&words.collect::<Vec<_>>())
}

fn wait_until(trouble: &str, mut is_so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > deadline {
            bail!("{trouble} within {} s", PATIENCE.as_secs());
        }
        thread::sleep(AGAIN_AFTER);
    }
    Ok(())
}
