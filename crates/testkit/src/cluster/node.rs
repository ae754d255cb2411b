//! One node of a cluster: its process, its ports, and the relays before them.
//!
//! ```text
//! clients, replicas ──▶ clients' relay ──▶ port       the node announces the relays' ports where there are any,
//! other nodes ────────▶ bus relay ───────▶ bus port   and connects to others from an address of its own
//! ```

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::ports;
use crate::relay::Relay;
use crate::reply::Value;
use crate::server::{Server, StartError};
use crate::servers::Binary;
use crate::wire::{Wire, WireError};

use super::Options;
use super::error::ClusterError;
use super::nodes_file;
use super::view::{self, Seen};

/// How far above its port a node takes its bus, before Redis 7.0.
const OLD_BUS_PORTS: u16 = 10_000;

/// Whether a node's process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It runs.
    Running,
    /// It is stopped where it is (SIGSTOP); the system still accepts connections for it.
    Frozen,
    /// It was killed; its port refuses connections.
    Killed,
}

/// What a node is cut off from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Clients only.
    Clients,
    /// All other nodes only, their replication included.
    Nodes,
    /// Both.
    Both,
}

impl Cut {
    pub(super) fn is_from_clients(self) -> bool {
        matches!(self, Self::Clients | Self::Both)
    }

    pub(super) fn is_from_nodes(self) -> bool {
        matches!(self, Self::Nodes | Self::Both)
    }
}

/// The relays before a node.
#[derive(Debug)]
pub(super) struct Relays {
    pub(super) clients: Relay,
    pub(super) bus: Relay,
}

/// A node.
#[derive(Debug)]
pub struct Node {
    name: String,
    id: String,
    password: Option<String>,
    /// Whether it takes clients by TLS alone.
    has_tls: bool,
    server: Server,
    bus_port: u16,
    source: IpAddr,
    relays: Option<Relays>,
    condition: Condition,
    /// What it is cut off from.
    pub(super) cut: Option<Cut>,
    /// A slot that it owned when it was last frozen, killed or cut off.
    pub(super) last_slot: Option<u16>,
}

impl Node {
    /// Starts a node that knows no other.
    pub(super) fn start(binary: &Binary, index: usize, options: &Options) -> Result<Self, ClusterError> {
        ports::retried(
            || Self::try_start(binary, index, options),
            |error| match error {
                ClusterError::Start { source, .. } => source.is_taken_port(),
                ClusterError::System { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
                _ => false,
            },
        )
    }

    fn try_start(binary: &Binary, index: usize, options: &Options) -> Result<Self, ClusterError> {
        let name = format!("node-{index}");
        let system = |source| ClusterError::System { node: name.clone(), source };
        let port = ports::free().map_err(system)?;
        let bus_port = match binary.has_redis_7() {
            true => ports::free().map_err(system)?,
            false => port + OLD_BUS_PORTS,
        };
        let relay = |target| Relay::start(ports::free()?, target);
        let relays = match options.relays {
            true => Some(Relays { clients: relay(port).map_err(system)?, bus: relay(bus_port).map_err(system)? }),
            false => None,
        };
        // 127.0.0.1 is the clients'.
        let source =
            IpAddr::from(Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + 1 + u32::try_from(index).unwrap_or(0)));
        let bus_setting = binary.has_redis_7().then_some(bus_port);
        let mut args = arguments(index, bus_setting, relays.as_ref().map(|relays| (relays, source)), options);
        if let Some(certificates) = &options.tls {
            args.extend(certificates.server_args(port));
            args.extend(["--tls-cluster", "yes"].map(str::to_owned));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let start = |source: StartError| ClusterError::Start { node: name.clone(), source };
        let server = Server::start_at(binary, port, &args).map_err(start)?;
        let mut node = Self {
            name,
            id: String::new(),
            password: options.password.clone(),
            has_tls: options.tls.is_some(),
            server,
            bus_port,
            source,
            relays,
            condition: Condition::Running,
            cut: None,
            last_slot: None,
        };
        node.id = node.text(&["CLUSTER", "MYID"])?;
        Ok(node)
    }

    /// `node-` and its index.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its ID in the cluster.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The server itself, past any relay.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where clients reach it: what it announces, but for a hostname.
    pub fn address(&self) -> SocketAddr {
        let port = self.relays.as_ref().map_or(self.server.port(), |relays| relays.clients.port());
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// Where other nodes reach it.
    pub fn bus_port(&self) -> u16 {
        self.relays.as_ref().map_or(self.bus_port, |relays| relays.bus.port())
    }

    /// Whether it runs.
    pub fn condition(&self) -> Condition {
        self.condition
    }

    /// Whether it runs and other nodes can reach it.
    pub fn is_reachable(&self) -> bool {
        self.condition == Condition::Running && !self.cut.is_some_and(Cut::is_from_nodes)
    }

    /// The address that it connects to other nodes from, where there are relays.
    pub(super) fn source(&self) -> IpAddr {
        self.source
    }

    pub(super) fn relays(&self) -> Option<&Relays> {
        self.relays.as_ref()
    }

    pub(super) fn relays_mut(&mut self) -> Option<&mut Relays> {
        self.relays.as_mut()
    }

    /// A connection as clients have it, authenticated where the cluster has a password; over the unix socket where it
    /// speaks TLS alone.
    ///
    /// # Errors
    /// Where nobody listens, or the password is wrong.
    pub fn connect(&self) -> Result<Wire, WireError> {
        if self.has_tls {
            return self.control();
        }
        Wire::connect(self.address())?.authenticated(self.password.as_deref())
    }

    /// A connection that no partition cuts, authenticated likewise.
    ///
    /// # Errors
    /// Where it was killed.
    pub fn control(&self) -> Result<Wire, WireError> {
        Wire::connect_unix(self.server.unix_socket())?.authenticated(self.password.as_deref())
    }

    /// Tells it something, past any relay.
    ///
    /// # Errors
    /// Where it is away, does not answer, or answers by an error.
    pub fn call(&self, args: &[&str]) -> Result<Value, ClusterError> {
        let bytes: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        self.call_bytes(&bytes)
    }

    /// The same for arguments that are no text.
    ///
    /// # Errors
    /// Where it is away, does not answer, or answers by an error.
    pub fn call_bytes(&self, args: &[&[u8]]) -> Result<Value, ClusterError> {
        let (node, command) = (self.name.clone(), args.join(&b' ').escape_ascii().to_string());
        if self.condition != Condition::Running {
            return Err(ClusterError::Away { node, command });
        }
        match self.control().and_then(|mut wire| wire.ask(args)) {
            Ok(Value::Error(error)) => {
                let error = String::from_utf8_lossy(&error).into_owned();
                Err(ClusterError::Refused { node, command, error })
            }
            Ok(reply) => Ok(reply),
            Err(source) => Err(ClusterError::Wire { node, command, source }),
        }
    }

    /// The same where the answer is a text.
    ///
    /// # Errors
    /// As [`Node::call`], and where the answer is anything else.
    pub fn text(&self, args: &[&str]) -> Result<String, ClusterError> {
        let reply = self.call(args)?;
        match reply.bytes() {
            Some(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            None => Err(self.strange(args, &reply)),
        }
    }

    /// The error for an answer that is none.
    pub(super) fn strange(&self, args: &[&str], reply: &Value) -> ClusterError {
        ClusterError::Strange { node: self.name.clone(), command: args.join(" "), reply: format!("{reply:?}") }
    }

    /// What it says of all nodes that it knows.
    ///
    /// # Errors
    /// Where it is away or does not answer.
    pub fn view(&self) -> Result<Vec<Seen>, ClusterError> {
        let command = ["CLUSTER", "NODES"];
        let reply = self.text(&command)?;
        view::read(&reply).ok_or_else(|| self.strange(&command, &Value::Bulk(reply.into_bytes())))
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// Where it is away or does not answer.
    pub fn myself(&self) -> Result<Seen, ClusterError> {
        let view = self.view()?;
        let seen = view.iter().find(|seen| seen.is("myself")).cloned();
        seen.ok_or_else(|| self.strange(&["CLUSTER", "NODES"], &Value::Bulk(format!("{view:?}").into_bytes())))
    }

    /// Kills it; its relays refuse connections from now on, as its ports do.
    pub(super) fn kill(&mut self) {
        self.server.kill();
        self.condition = Condition::Killed;
        if let Some(relays) = &mut self.relays {
            relays.clients.go_away();
            relays.bus.go_away();
        }
    }

    /// Starts it once more, with the ports and the files that it had.
    pub(super) fn restart(&mut self) -> Result<(), ClusterError> {
        let start = |source| ClusterError::Start { node: self.name.clone(), source };
        let system = |source| ClusterError::System { node: self.name.clone(), source };
        self.server.kill();
        if let Some(folder) = self.server.unix_socket().parent() {
            let file = folder.join(nodes_file::FILE);
            let text = fs::read_to_string(&file).map_err(system)?;
            fs::write(&file, nodes_file::mend(&text)).map_err(system)?;
        }
        self.server.restart().map_err(start)?;
        self.condition = Condition::Running;
        if let Some(relays) = &mut self.relays {
            relays.clients.come_back().map_err(system)?;
            relays.bus.come_back().map_err(system)?;
        }
        Ok(())
    }

    /// Stops it where it is.
    pub(super) fn freeze(&mut self) -> Result<(), ClusterError> {
        self.must_live("SIGSTOP")?;
        self.server.hang().map_err(|source| ClusterError::System { node: self.name.clone(), source })?;
        self.condition = Condition::Frozen;
        Ok(())
    }

    /// Lets it go on.
    pub(super) fn wake(&mut self) -> Result<(), ClusterError> {
        self.must_live("SIGCONT")?;
        self.server.wake().map_err(|source| ClusterError::System { node: self.name.clone(), source })?;
        self.condition = Condition::Running;
        Ok(())
    }

    /// The process of a node that was killed may be another's by now.
    fn must_live(&self, command: &str) -> Result<(), ClusterError> {
        if self.condition != Condition::Killed {
            return Ok(());
        }
        Err(ClusterError::Away { node: self.name.clone(), command: command.to_owned() })
    }
}

/// The arguments that a node is started with; before Redis 7.0 without a port for the bus.
fn arguments(index: usize, bus_port: Option<u16>, relays: Option<(&Relays, IpAddr)>, options: &Options) -> Vec<String> {
    let mut args = Vec::new();
    let mut set = |name: &str, value: &str| args.extend([format!("--{name}"), value.to_owned()]);
    set("cluster-enabled", "yes");
    set("cluster-config-file", nodes_file::FILE);
    if let Some(port) = bus_port {
        set("cluster-port", &port.to_string());
        set("cluster-preferred-endpoint-type", options.endpoint);
    }
    set("cluster-node-timeout", &options.node_timeout.as_millis().to_string());
    set("cluster-announce-ip", "127.0.0.1");
    // A test says who replicates whom.
    set("cluster-allow-replica-migration", "no");
    // A replica that comes alone needs not wait for others that might come.
    set("repl-diskless-sync-delay", "0");
    // Maps name replicas that have received something; so they do within a second, also where nobody writes.
    set("repl-ping-replica-period", "1");
    if let Some(hostname) = options.hostnames.get(index) {
        set("cluster-announce-hostname", hostname);
    }
    if let Some(password) = &options.password {
        set("requirepass", password);
        set("masterauth", password);
    }
    if let Some((relays, source)) = relays {
        set("cluster-announce-port", &relays.clients.port().to_string());
        set("cluster-announce-bus-port", &relays.bus.port().to_string());
        set("bind-source-addr", &source.to_string());
    }
    args.extend(options.args.iter().cloned());
    args
}
