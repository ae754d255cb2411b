//! Which node has which slot, as far as is known.
//!
//! What is known comes from two sides: a node's word about the whole cluster ([`SlotMap::adopt`]), asked for now and
//! then, and its word about one slot ([`SlotMap::note_moved`]), with which it refuses a command. The latter is newer than
//! whatever was asked before it and is answered later.

use std::collections::{BTreeMap, BTreeSet};

use super::{AddressMap, Endpoint, Topology, Whereto};
use crate::slot::Slot;

/// A node, as one [`SlotMap`] counts them. The same endpoint is the same node for the map's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u32);

impl Node {
    /// Its number in the map: small, and the same for the map's life.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Who has a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shard {
    primary: Option<Node>,
    replicas: Vec<Node>,
}

/// Which node has which slot.
#[derive(Clone, Debug)]
pub struct SlotMap {
    addresses: AddressMap,
    nodes: Vec<Endpoint>,
    /// The first one has nothing but slots of nobody.
    shards: Vec<Shard>,
    /// For each slot the position of its shard.
    owners: Box<[u32]>,
    epoch: u64,
    /// Grows with each word about one slot.
    clock: u64,
    /// When a node said so of a slot, since the last word about all.
    patches: BTreeMap<Slot, u64>,
    /// How often in a row nodes said less than is known.
    older: u32,
    /// The IDs of the nodes, where nodes say them.
    ids: BTreeSet<String>,
    /// How often in a row nodes spoke of others than these.
    foreign: u32,
    /// How often it came to be another.
    changes: u64,
}

/// When nodes were asked for the whole map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedAt(u64);

/// What came of a node's word about the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It is what is gone by; whether anything differs from before.
    Adopted {
        /// Some slot is another node's, or has other replicas.
        changed: bool,
    },
    /// The node doesn't take the cluster for whole: it may be cut off.
    Doubtful,
    /// It has heard of less than is known.
    Older,
    /// It knows none of the cluster's nodes: it is another cluster's by now.
    Foreign,
}

/// So often in a row nodes may say less than is known until they are believed: a cluster may be set up anew.
const BELIEVED_AFTER: u32 = 8;

impl SlotMap {
    /// A map of which nothing is known. Nodes are sought where `addresses` says.
    pub fn new(addresses: AddressMap) -> Self {
        Self {
            addresses,
            nodes: Vec::new(),
            shards: vec![Shard::default()],
            owners: Slot::all().map(|_| 0).collect(),
            epoch: 0,
            clock: 0,
            patches: BTreeMap::new(),
            older: 0,
            ids: BTreeSet::new(),
            foreign: 0,
            changes: 0,
        }
    }

    /// The node that writes this slot; none where nobody does, or nothing is known.
    #[inline]
    pub fn primary(&self, slot: Slot) -> Option<Node> {
        self.shard(slot).primary
    }

    /// The nodes that hold copies of this slot.
    pub fn replicas(&self, slot: Slot) -> &[Node] {
        &self.shard(slot).replicas
    }

    /// How often it came to be another map: as long as that is the same, each slot is where it was.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    fn shard(&self, slot: Slot) -> &Shard {
        &self.shards[self.owners[usize::from(slot.number())] as usize]
    }

    /// Where a node takes clients.
    pub fn endpoint(&self, node: Node) -> &Endpoint {
        &self.nodes[node.0 as usize]
    }

    /// The node at this endpoint.
    pub fn node(&mut self, endpoint: &Endpoint) -> Node {
        let known = self.nodes.iter().position(|known| known == endpoint);
        let at = known.unwrap_or_else(|| {
            self.nodes.push(endpoint.clone());
            self.nodes.len() - 1
        });
        Node(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// The nodes that write slots, each with how many.
    pub fn primaries(&self) -> BTreeMap<Node, usize> {
        let mut primaries = BTreeMap::new();
        for primary in Slot::all().filter_map(|slot| self.primary(slot)) {
            *primaries.entry(primary).or_default() += 1;
        }
        primaries
    }

    /// The first slot of nobody.
    pub fn unserved(&self) -> Option<Slot> {
        Slot::all().find(|slot| self.primary(*slot).is_none())
    }

    /// Nodes are asked now for what [`Self::adopt`] will be told.
    pub fn ask(&self) -> AskedAt {
        AskedAt(self.clock)
    }

    /// Takes a node's word about the cluster, for which it was asked at this moment.
    pub fn adopt(&mut self, topology: &Topology, asked: AskedAt) -> Adoption {
        if !topology.is_ok {
            return Adoption::Doubtful;
        }
        // Where all nodes say so, it was set up anew.
        if self.knows_none_of(topology) && self.foreign < BELIEVED_AFTER {
            self.foreign += 1;
            return Adoption::Foreign;
        }
        self.foreign = 0;
        if topology.epoch < self.epoch && self.older < BELIEVED_AFTER {
            self.older += 1;
            return Adoption::Older;
        }
        self.older = 0;
        self.epoch = topology.epoch;
        self.ids = topology.named.keys().cloned().collect();
        let before = self.clone();
        self.shards.truncate(1);
        self.owners.fill(0);
        for range in &topology.ranges {
            let primary = Some(self.node(&range.primary));
            let replicas = range.replicas.iter().map(|replica| self.node(replica)).collect();
            let shard = self.shard_of(Shard { primary, replicas });
            self.owners[usize::from(range.first.number())..=usize::from(range.last.number())].fill(shard);
        }
        self.patches.retain(|_, at| *at > asked.0);
        for slot in self.patches.keys().copied().collect::<Vec<_>>() {
            if before.primary(slot) != self.primary(slot) {
                let shard = self.shard_of(before.shard(slot).clone());
                self.owners[usize::from(slot.number())] = shard;
            }
        }
        let changed = Slot::all().any(|slot| before.shard(slot) != self.shard(slot));
        self.changes += u64::from(changed);
        Adoption::Adopted { changed }
    }

    fn knows_none_of(&self, topology: &Topology) -> bool {
        let known = || topology.named.keys().any(|id| self.ids.contains(id));
        !(self.ids.is_empty() || topology.named.is_empty() || known())
    }

    /// Whether a node is known where `from` leads.
    pub fn knows(&self, to: Whereto<'_>, from: Node) -> bool {
        self.nodes.contains(&self.endpoint_led_to(to, from))
    }

    /// Takes the word of `from` that another node has a slot: which one.
    pub fn note_moved(&mut self, slot: Slot, to: Whereto<'_>, from: Node) -> Node {
        let node = self.led_to(to, from);
        self.clock += 1;
        self.patches.insert(slot, self.clock);
        if self.primary(slot) != Some(node) {
            self.changes += 1;
            let known = self.shards.iter().find(|shard| shard.primary == Some(node)).cloned();
            let shard = self.shard_of(known.unwrap_or(Shard { primary: Some(node), replicas: Vec::new() }));
            self.owners[usize::from(slot.number())] = shard;
        }
        node
    }

    /// The node that `from` leads to.
    pub fn led_to(&mut self, to: Whereto<'_>, from: Node) -> Node {
        self.node(&self.endpoint_led_to(to, from))
    }

    fn endpoint_led_to(&self, to: Whereto<'_>, from: Node) -> Endpoint {
        let host = to.host.unwrap_or(&self.endpoint(from).host).to_owned();
        self.addresses.find(Endpoint { host, port: to.port })
    }

    fn shard_of(&mut self, wanted: Shard) -> u32 {
        let known = self.shards.iter().position(|shard| *shard == wanted);
        let at = known.unwrap_or_else(|| {
            self.shards.push(wanted);
            self.shards.len() - 1
        });
        u32::try_from(at).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::tests::endpoint;
    use super::super::{Range, Topology};
    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    /// Slots from the given ones on, each with its primary and replicas by their ports.
    fn topology(epoch: u64, shards: &[(u16, u16, &[u16])]) -> Topology {
        let at = |port: u16| endpoint(&format!("a:{port}"));
        let lasts = shards.iter().skip(1).map(|(first, ..)| first - 1).chain([16_383]);
        let ranges = shards.iter().zip(lasts).map(|((first, primary, replicas), last)| Range {
            first: slot(*first),
            last: slot(last),
            primary: at(*primary),
            replicas: replicas.iter().map(|port| at(*port)).collect(),
        });
        Topology { ranges: ranges.collect(), epoch, is_ok: true, named: [].into() }
    }

    fn whereto(port: u16) -> Whereto<'static> {
        Whereto { host: Some("a"), port }
    }

    fn port(map: &SlotMap, number: u16) -> Option<u16> {
        map.primary(slot(number)).map(|node| map.endpoint(node).port)
    }

    fn map() -> SlotMap {
        let mut map = SlotMap::new(AddressMap::default());
        assert_eq!(map.unserved(), Some(slot(0)));
        let told = topology(5, &[(0, 1, &[4]), (5000, 2, &[5, 6]), (10_000, 3, &[])]);
        assert_eq!(map.adopt(&told, map.ask()), Adoption::Adopted { changed: true });
        map
    }

    #[test]
    fn a_node_of_another_cluster_is_not_gone_by_until_all_are() {
        let of = |ids: &[&str], epoch, port| Topology {
            named: ids.iter().map(|id| ((*id).to_owned(), endpoint("a:1"))).collect(),
            ..topology(epoch, &[(0, port, &[])])
        };
        let mut map = SlotMap::new(AddressMap::default());
        assert_eq!(map.adopt(&of(&["x", "y"], 1, 1), map.ask()), Adoption::Adopted { changed: true });
        for _ in 0..3 {
            for _ in 0..BELIEVED_AFTER {
                assert_eq!(map.adopt(&of(&["p", "q"], 9, 2), map.ask()), Adoption::Foreign);
            }
            // One node that stays, and one that is new.
            assert_eq!(map.adopt(&of(&["y", "z"], 1, 1), map.ask()), Adoption::Adopted { changed: false });
        }
        assert_eq!(map.adopt(&of(&["x"], 2, 1), map.ask()), Adoption::Foreign);
        assert_eq!(map.adopt(&of(&["z"], 2, 1), map.ask()), Adoption::Adopted { changed: false });
        assert_eq!(port(&map, 0), Some(1));
        for _ in 0..BELIEVED_AFTER {
            assert_eq!(map.adopt(&of(&["p", "q"], 9, 2), map.ask()), Adoption::Foreign);
        }
        assert_eq!(map.adopt(&of(&["p", "q"], 9, 2), map.ask()), Adoption::Adopted { changed: true });
        assert_eq!(port(&map, 0), Some(2));
    }

    #[test]
    fn slots_have_their_nodes() {
        let mut map = map();
        assert_eq!([0, 4999, 5000, 16_383].map(|number| port(&map, number)), [Some(1), Some(1), Some(2), Some(3)]);
        assert_eq!(map.replicas(slot(5000)).iter().map(|node| map.endpoint(*node).port).collect::<Vec<_>>(), [5, 6]);
        assert_eq!(map.primaries().values().copied().collect::<Vec<_>>(), [5000, 5000, 6384]);
        assert_eq!(map.unserved(), None);
        let told = topology(5, &[(0, 1, &[4]), (5000, 2, &[5, 6]), (10_000, 3, &[])]);
        assert_eq!(map.adopt(&told, map.ask()), Adoption::Adopted { changed: false });
        let holed = Topology { ranges: told.ranges[1..].to_vec(), ..told };
        assert_eq!(map.adopt(&holed, map.ask()), Adoption::Adopted { changed: true });
        assert_eq!((map.unserved(), port(&map, 0)), (Some(slot(0)), None));
    }

    #[test]
    fn a_word_about_one_slot_outlasts_what_was_asked_before_it() {
        let mut map = map();
        let asked = map.ask();
        let from = map.primary(slot(7)).unwrap();
        map.note_moved(slot(7), whereto(2), from);
        assert_eq!((port(&map, 7), port(&map, 8)), (Some(2), Some(1)));
        assert_eq!(map.replicas(slot(7)), map.replicas(slot(5000)), "a known node has its replicas");
        let old = topology(5, &[(0, 1, &[4]), (5000, 2, &[5, 6]), (10_000, 3, &[])]);
        map.adopt(&old, asked);
        assert_eq!(port(&map, 7), Some(2));
        map.adopt(&old, map.ask());
        assert_eq!(port(&map, 7), Some(1), "what was asked after it is newer");
    }

    #[test]
    fn a_node_nobody_knew_may_have_a_slot() {
        let mut map = map();
        let from = map.primary(slot(7)).unwrap();
        let node = map.note_moved(slot(7), Whereto { host: None, port: 9 }, from);
        assert_eq!((map.endpoint(node), map.replicas(slot(7))), (&endpoint("a:9"), &[][..]));
        assert_eq!(map.node(&endpoint("a:9")), node);
    }

    #[test]
    fn who_is_cut_off_or_behind_is_not_believed() {
        let mut map = map();
        let cut_off = Topology { is_ok: false, ..topology(9, &[(0, 3, &[])]) };
        assert_eq!(map.adopt(&cut_off, map.ask()), Adoption::Doubtful);
        let behind = topology(4, &[(0, 3, &[])]);
        for _ in 0..BELIEVED_AFTER {
            assert_eq!(map.adopt(&behind, map.ask()), Adoption::Older);
        }
        assert_eq!(port(&map, 0), Some(1));
        assert_eq!(map.adopt(&behind, map.ask()), Adoption::Adopted { changed: true }, "it was set up anew");
        assert_eq!(port(&map, 0), Some(3));
    }

    #[test]
    fn ranges_that_overlap_or_repeat_do_no_harm() {
        let mut told = topology(1, &[(0, 1, &[]), (100, 2, &[])]);
        told.ranges.push(Range { first: slot(50), last: slot(150), ..told.ranges[0].clone() });
        let mut map = SlotMap::new(AddressMap::default());
        map.adopt(&told, map.ask());
        assert_eq!([0, 100, 151].map(|number| port(&map, number)), [Some(1), Some(1), Some(2)]);
        assert_eq!(map.shards.len(), 3);
    }
}
