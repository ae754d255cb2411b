//! Three nodes of a cluster as far as two slots go: strings, MULTI, redirects, and slots that move key by key.

use std::collections::{BTreeMap, VecDeque};

use keyfold_core::cluster::{Endpoint, Range, Topology};
use keyfold_core::resp::{Read, RequestReader};
use keyfold_core::slot::Slot;

/// A step of bringing a slot to another node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    /// SETSLOT MIGRATING and IMPORTING.
    Begin { slot: usize, to: u16 },
    /// MIGRATE of one key.
    OneKey { slot: usize, which: u8 },
    /// The rest of the keys, and SETSLOT NODE.
    End { slot: usize },
    /// All in one step, as newer servers do.
    AtOnce { slot: usize, to: u16 },
}

#[derive(Default)]
struct Peer {
    held: BTreeMap<String, String>,
    /// Commands that came and are not carried out yet.
    received: VecDeque<Vec<String>>,
    asking: bool,
    /// The queue of a MULTI, and whether it is spoilt.
    multi: Option<(Vec<Vec<String>>, bool)>,
    loads: bool,
}

/// Nodes at the ports 1 to 3.
pub(crate) struct Cluster {
    peers: BTreeMap<u16, Peer>,
    slots: [(Slot, u16, Option<u16>); 2],
    epoch: u64,
}

impl Cluster {
    /// Both slots, by keys in them, are at the first node.
    pub(crate) fn new(slots: [&str; 2]) -> Self {
        let slots = slots.map(|key| (Slot::of(key.as_bytes()), 1, None));
        Self { peers: (1..4).map(|port| (port, Peer::default())).collect(), slots, epoch: 1 }
    }

    pub(crate) fn endpoint(port: u16) -> Endpoint {
        Endpoint { host: "node".to_owned(), port }
    }

    pub(crate) fn topology(&self) -> Topology {
        let range = |(slot, owner, _): &(Slot, u16, Option<u16>)| Range {
            first: *slot,
            last: *slot,
            primary: Self::endpoint(*owner),
            replicas: Vec::new(),
        };
        Topology {
            ranges: self.slots.iter().map(range).collect(),
            epoch: self.epoch,
            is_ok: true,
            named: BTreeMap::new(),
        }
    }

    /// What the node at this port says: the third one is always behind.
    pub(crate) fn topology_of(&self, port: u16) -> Topology {
        let mut topology = self.topology();
        if port == 3 {
            topology.epoch = topology.epoch.saturating_sub(1);
            topology.ranges.iter_mut().for_each(|range| range.primary = Self::endpoint(1));
        }
        topology
    }

    /// Takes commands; how many they are.
    pub(crate) fn receive(&mut self, port: u16, wire: &[u8]) -> u32 {
        let mut reader = RequestReader::default();
        let (mut rest, mut count) = (wire, 0);
        while let Ok(Read::Request(len)) = reader.read(rest) {
            let args = reader.args(rest).iter().map(|arg| String::from_utf8(arg.to_vec()).unwrap()).collect();
            self.peers.get_mut(&port).unwrap().received.push_back(args);
            rest = &rest[len..];
            count += 1;
        }
        count
    }

    pub(crate) fn forget_connection(&mut self, port: u16) {
        let peer = self.peers.get_mut(&port).unwrap();
        (peer.received, peer.asking, peer.multi) = (VecDeque::new(), false, None);
    }

    pub(crate) fn load(&mut self, port: u16, loads: bool) {
        self.peers.get_mut(&port).unwrap().loads = loads;
    }

    pub(crate) fn held(&self, key: &str) -> String {
        let mut holding = self.peers.values().filter_map(|peer| peer.held.get(key));
        let held = holding.next().cloned().unwrap_or_default();
        assert_eq!(holding.next(), None, "{key} is at two nodes");
        held
    }

    pub(crate) fn move_slot(&mut self, step: Move) {
        let at = match step {
            Move::Begin { slot, .. } | Move::OneKey { slot, .. } | Move::End { slot } | Move::AtOnce { slot, .. } => {
                slot
            }
        };
        let (slot, owner, target) = self.slots[at];
        match (step, target) {
            (Move::Begin { to, .. }, None) if to != owner => self.slots[at].2 = Some(to),
            (Move::OneKey { which, .. }, Some(to)) => {
                let keys = self.keys_in(owner, slot);
                if !keys.is_empty() {
                    self.bring(&keys[usize::from(which) % keys.len()], owner, to);
                }
            }
            (Move::End { .. }, Some(to)) => self.settle(at, owner, to),
            (Move::AtOnce { to, .. }, None) if to != owner => self.settle(at, owner, to),
            _ => {}
        }
    }

    /// Whether a node has an ASKING before it, or just behind it.
    pub(crate) fn is_asked(&self) -> bool {
        self.peers.values().any(|peer| peer.asking || peer.received.iter().any(|args| args[0] == "ASKING"))
    }

    fn settle(&mut self, at: usize, owner: u16, to: u16) {
        for key in self.keys_in(owner, self.slots[at].0) {
            self.bring(&key, owner, to);
        }
        (self.slots[at].1, self.slots[at].2) = (to, None);
        self.epoch += 1;
    }

    fn keys_in(&self, port: u16, slot: Slot) -> Vec<String> {
        self.peers[&port].held.keys().filter(|key| Slot::of(key.as_bytes()) == slot).cloned().collect()
    }

    fn bring(&mut self, key: &str, from: u16, to: u16) {
        let value = self.peers.get_mut(&from).unwrap().held.remove(key).unwrap();
        self.peers.get_mut(&to).unwrap().held.insert(key.to_owned(), value);
    }

    /// Carries out the next command that the node has received; its reply.
    pub(crate) fn carry_out(&mut self, port: u16) -> Option<Vec<u8>> {
        let args = self.peers.get_mut(&port)?.received.pop_front()?;
        let asking = self.peers[&port].asking;
        let reply = self.reply(port, &args, asking);
        let peer = self.peers.get_mut(&port)?;
        peer.asking = (asking && peer.multi.is_some()) || args[0] == "ASKING";
        Some(reply.into_bytes())
    }

    fn reply(&mut self, port: u16, args: &[String], asking: bool) -> String {
        let refusal = args.get(1).and_then(|key| self.refusal(port, key, asking));
        let peer = self.peers.get_mut(&port).unwrap();
        match (args[0].as_str(), &mut peer.multi) {
            ("ASKING", _) => "+OK\r\n".to_owned(),
            ("MULTI", _) => {
                peer.multi = Some((Vec::new(), false));
                "+OK\r\n".to_owned()
            }
            ("EXEC", None) => "-ERR EXEC without MULTI\r\n".to_owned(),
            ("EXEC", Some((queue, spoilt))) => {
                let (queue, spoilt) = (std::mem::take(queue), *spoilt);
                peer.multi = None;
                if spoilt {
                    return "-EXECABORT x\r\n".to_owned();
                }
                // Slots may have moved since the commands were queued.
                if let Some(refusal) = queue.iter().find_map(|args| self.refusal(port, &args[1], asking)) {
                    return refusal;
                }
                let replies: String = queue.iter().map(|args| self.run(port, args)).collect();
                format!("*{}\r\n{replies}", queue.len())
            }
            (_, Some((queue, spoilt))) => match refusal {
                Some(refusal) => {
                    *spoilt = true;
                    refusal
                }
                None => {
                    queue.push(args.to_vec());
                    "+QUEUED\r\n".to_owned()
                }
            },
            (_, None) => refusal.unwrap_or_else(|| self.run(port, args)),
        }
    }

    /// What a node says to a command on a key that it doesn't serve.
    fn refusal(&self, port: u16, key: &str, asking: bool) -> Option<String> {
        if self.peers[&port].loads {
            return Some("-LOADING x\r\n".to_owned());
        }
        let slot = Slot::of(key.as_bytes());
        let (_, owner, target) = self.slots.iter().find(|(own, ..)| *own == slot)?;
        let holds = self.peers[&port].held.contains_key(key);
        match target {
            Some(target) if port == *owner && !holds => Some(format!("-ASK {slot} node:{target}\r\n")),
            Some(target) if port == *target && asking => None,
            _ if port == *owner => None,
            _ => Some(format!("-MOVED {slot} node:{owner}\r\n")),
        }
    }

    fn run(&mut self, port: u16, args: &[String]) -> String {
        let held = &mut self.peers.get_mut(&port).unwrap().held;
        match args[0].as_str() {
            "GET" => {
                held.get(&args[1]).map_or("$-1\r\n".to_owned(), |value| format!("${}\r\n{value}\r\n", value.len()))
            }
            _ => {
                let value = held.entry(args[1].clone()).or_default();
                value.push_str(&args[2]);
                format!(":{}\r\n", value.len())
            }
        }
    }
}
