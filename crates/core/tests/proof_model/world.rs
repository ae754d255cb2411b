//! The nodes, the key, and the tool that moves it.

use std::collections::BTreeMap;

use keyfold_core::cluster::{History, Picture, PictureNode, Walked, proof};

/// The first shard's primary and its replica; the second shard's primary.
const NODES: usize = 3;
const REPLICA: usize = 1;
/// The slot of the key; the second shard has another one besides.
const SLOT: u16 = 0;
const OTHER_SLOT: u16 = 1;

/// How often things happen in one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) failovers: u8,
    /// Of a primary, to what it held at any moment before; none once the tool has looked at all for the last time, because
    /// nothing tells of those.
    pub(crate) restarts: u8,
    /// Of the key's slot, key by key.
    pub(crate) slot_moves: u8,
    /// Of the replica: it stands still, and is taken for gone.
    pub(crate) losses: u8,
    pub(crate) broken: Option<Rule>,
}

/// A part of the rule, to be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Replicas have all that their primary has.
    Replicas,
    /// They have all that it had when the walk ended, and not only when it began.
    ReplicasAfterWalks,
    /// Who is a primary, and the epoch.
    Failovers,
    /// A slot that came back raised the epoch.
    Epoch,
    /// One connection for each walk.
    Connections,
    /// No slot is on its way.
    SlotsOnTheirWay,
    /// What is taken for gone may come back.
    Gone,
}

impl Rule {
    pub(crate) const ALL: [Self; 7] = [
        Self::Replicas,
        Self::ReplicasAfterWalks,
        Self::Failovers,
        Self::Epoch,
        Self::Connections,
        Self::SlotsOnTheirWay,
        Self::Gone,
    ];
}

/// Where a node has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Nowhere,
    Old,
    New,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    follows: Option<usize>,
    /// Which replication stream it carries out.
    stream: u8,
    /// Where the key was after each write of it, from the beginning; the last is where it is.
    log: Vec<Place>,
    is_gone: bool,
}

impl Node {
    fn key(&self) -> Place {
        self.log.last().copied().unwrap_or(Place::Nowhere)
    }

    fn history(&self) -> History {
        History { id: self.stream.to_string(), offset: self.log.len() as u64 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    ClientWrites,
    Replicate,
    FailOver,
    Lose,
    Restart { node: usize, to: usize },
    OpenSlot,
    MoveKey,
    CloseSlot,
    Begin,
    Walk(usize),
    NoteEnds,
    NoteReplica,
    NoteAfter,
    Settle,
}

/// The tool, in the order of its steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pass {
    before: Picture<usize>,
    /// Nodes whose connection has lived since the beginning.
    alive: [bool; NODES],
    led_elsewhere: BTreeMap<usize, u64>,
    /// How far primaries were when the pass began, and when the walks had ended.
    begun: BTreeMap<usize, History>,
    ends: Option<BTreeMap<usize, History>>,
    replica: Option<BTreeMap<usize, History>>,
    after: Option<(Picture<usize>, [bool; NODES])>,
    has_found: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    nodes: Vec<Node>,
    /// Who has the key's slot, and to whom it is on its way.
    owner: usize,
    to: Option<usize>,
    epoch: u64,
    next_stream: u8,
    left: [u8; 4],
    /// How often the tool may still walk over all.
    passes: u8,
    pass: Option<Pass>,
    pub(crate) is_settled: bool,
}

const FAILOVERS: usize = 0;
const RESTARTS: usize = 1;
const SLOT_MOVES: usize = 2;
const LOSSES: usize = 3;

impl World {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let node = |follows, stream, key| Node { follows, stream, log: vec![key], is_gone: false };
        let nodes = vec![node(None, 0, Place::Old), node(Some(0), 0, Place::Old), node(None, 1, Place::Nowhere)];
        let left = [bounds.failovers, bounds.restarts, bounds.slot_moves, bounds.losses];
        Self { nodes, owner: 0, to: None, epoch: 3, next_stream: 2, left, passes: 2, pass: None, is_settled: false }
    }

    /// What lies on a node that hasn't the slot is not served, with keyfold or without.
    pub(crate) fn is_out_of_old_places(&self) -> bool {
        std::iter::once(self.owner).chain(self.to).all(|node| self.nodes[node].key() != Place::Old)
    }

    /// The primary of the first shard, and its replica.
    fn pair(&self) -> (usize, usize) {
        if self.nodes[REPLICA].follows.is_some() { (0, REPLICA) } else { (REPLICA, 0) }
    }

    fn picture(&self) -> Picture<usize> {
        let mut nodes = BTreeMap::new();
        for (id, node) in self.nodes.iter().enumerate() {
            let own = [(self.owner == id).then_some(SLOT), (id == NODES - 1).then_some(OTHER_SLOT)];
            let slots = own.into_iter().flatten().map(|slot| slot..=slot).collect();
            nodes.insert(id, PictureNode { follows: node.follows, slots, is_gone: node.is_gone });
        }
        Picture { epoch: self.epoch, nodes, has_slots_on_their_way: self.to.is_some() }
    }

    pub(crate) fn actions(&self, actions: &mut Vec<Action>) {
        let (primary, replica) = self.pair();
        let holder = self.to.filter(|to| self.nodes[*to].key() != Place::Nowhere).unwrap_or(self.owner);
        if self.nodes[holder].key() == Place::Old && !self.is_settled {
            actions.push(Action::ClientWrites);
        }
        let lags = self.nodes[replica].history() != self.nodes[primary].history();
        if lags && !self.nodes[replica].is_gone {
            actions.push(Action::Replicate);
        }
        if self.left[FAILOVERS] > 0 && self.to.is_none() {
            actions.push(Action::FailOver);
        }
        if self.left[LOSSES] > 0 {
            actions.push(Action::Lose);
        }
        let is_looked_at = self.is_settled || self.pass.as_ref().is_some_and(|pass| pass.after.is_some());
        if self.left[RESTARTS] > 0 && !is_looked_at {
            let primaries = self.nodes.iter().enumerate().filter(|(_, node)| node.follows.is_none());
            actions.extend(
                primaries.flat_map(|(node, held)| (1..=held.log.len()).map(move |to| Action::Restart { node, to })),
            );
        }
        match self.to {
            None if self.left[SLOT_MOVES] > 0 => actions.push(Action::OpenSlot),
            None => {}
            Some(_) if self.nodes[self.owner].key() != Place::Nowhere => actions.push(Action::MoveKey),
            Some(_) => actions.push(Action::CloseSlot),
        }
        if !self.is_settled {
            self.tool_actions(actions);
        }
    }

    fn tool_actions(&self, actions: &mut Vec<Action>) {
        let Some(pass) = &self.pass else {
            if self.passes > 0 {
                actions.push(Action::Begin);
            }
            return;
        };
        let to_walk = pass.before.owners().find(|id| !pass.led_elsewhere.contains_key(*id));
        actions.push(match (to_walk, &pass.ends, &pass.replica, &pass.after) {
            (Some(node), ..) => Action::Walk(*node),
            (None, None, ..) => Action::NoteEnds,
            (None, Some(_), None, _) => Action::NoteReplica,
            (None, Some(_), Some(_), None) => Action::NoteAfter,
            _ => Action::Settle,
        });
    }

    pub(crate) fn act(&mut self, action: Action, broken: Option<Rule>) {
        let (primary, replica) = self.pair();
        match action {
            Action::ClientWrites => {
                let holder = self.to.filter(|to| self.nodes[*to].key() != Place::Nowhere).unwrap_or(self.owner);
                self.nodes[holder].log.push(Place::New);
            }
            Action::Replicate => {
                let from = self.nodes[primary].clone();
                let to = &mut self.nodes[replica];
                if to.stream == from.stream && to.log.len() < from.log.len() {
                    to.log.push(from.log[to.log.len()]);
                } else {
                    (to.stream, to.log) = (from.stream, from.log);
                }
            }
            Action::FailOver => {
                self.left[FAILOVERS] -= 1;
                self.epoch += 1;
                self.nodes[replica].follows = None;
                self.nodes[replica].is_gone = false;
                self.nodes[replica].stream = self.next_stream;
                self.next_stream += 1;
                self.nodes[primary].follows = Some(replica);
                if self.owner == primary {
                    self.owner = replica;
                }
            }
            Action::Lose => {
                self.left[LOSSES] -= 1;
                self.nodes[replica].is_gone = true;
            }
            Action::Restart { node, to } => {
                self.left[RESTARTS] -= 1;
                self.nodes[node].log.truncate(to);
                // Keys of slots that another node has are not served from there: servers delete them, or take the slot for
                // one on its way.
                if self.owner != node && self.to != Some(node) {
                    self.nodes[node].log.push(Place::Nowhere);
                }
                self.nodes[node].stream = self.next_stream;
                self.next_stream += 1;
                if let Some(pass) = &mut self.pass {
                    pass.alive[node] = false;
                }
            }
            Action::OpenSlot => {
                self.left[SLOT_MOVES] -= 1;
                self.to = Some(if self.owner == NODES - 1 { primary } else { NODES - 1 });
            }
            Action::MoveKey => {
                let key = self.nodes[self.owner].key();
                self.nodes[self.owner].log.push(Place::Nowhere);
                if let Some(to) = self.to {
                    self.nodes[to].log.push(key);
                }
            }
            Action::CloseSlot => {
                self.epoch += 1;
                self.owner = self.to.take().unwrap_or(self.owner);
            }
            _ => self.act_tool(action, broken),
        }
    }

    fn act_tool(&mut self, action: Action, broken: Option<Rule>) {
        let ends: BTreeMap<usize, History> =
            self.nodes.iter().enumerate().map(|(id, node)| (id, node.history())).collect();
        let picture = self.picture();
        if action == Action::Begin {
            self.passes -= 1;
            self.pass = Some(Pass {
                before: picture,
                alive: [true; NODES],
                led_elsewhere: BTreeMap::new(),
                begun: ends,
                ends: None,
                replica: None,
                after: None,
                has_found: false,
            });
            return;
        }
        let Some(pass) = &mut self.pass else { return };
        match action {
            Action::Walk(id) => {
                let node = &mut self.nodes[id];
                // A key of a slot that another node has, or that comes from one, is led there.
                let is_elsewhere = self.owner != id && node.key() == Place::Old;
                if self.owner == id && node.key() == Place::Old && node.follows.is_none() {
                    node.log.push(Place::New);
                    pass.has_found = true;
                }
                pass.led_elsewhere.insert(id, u64::from(is_elsewhere && broken != Some(Rule::SlotsOnTheirWay)));
            }
            Action::NoteEnds => pass.ends = Some(ends),
            Action::NoteReplica => pass.replica = Some(ends),
            Action::NoteAfter => pass.after = Some((picture, pass.alive)),
            _ => {
                let is_proof = pass.proves(broken);
                self.is_settled = is_proof && !pass.has_found;
                self.pass = None;
            }
        }
    }
}

impl Pass {
    /// What the core says of it, but for what is left out.
    fn proves(&self, broken: Option<Rule>) -> bool {
        let Self { before, led_elsewhere, begun, ends, replica, after, .. } = self.clone();
        let (Some(mut ends), Some(mut replicas), Some((mut after, mut alive))) = (ends, replica, after) else {
            return false;
        };
        let mut before = before;
        match broken {
            Some(Rule::Replicas) => replicas.clone_from(&ends),
            Some(Rule::ReplicasAfterWalks) => ends = begun,
            Some(Rule::Failovers) => before = after.clone(),
            Some(Rule::Epoch) => before.epoch = after.epoch,
            Some(Rule::Connections) => alive = [true; NODES],
            Some(Rule::SlotsOnTheirWay) => {
                (before.has_slots_on_their_way, after.has_slots_on_their_way) = (false, false);
            }
            Some(Rule::Gone) => {
                for picture in [&mut before, &mut after] {
                    picture.nodes.retain(|_, node| !node.is_gone);
                }
            }
            None => {}
        }
        if broken == Some(Rule::Replicas) {
            for (id, primary) in after.replicas() {
                if let Some(end) = ends.get(primary) {
                    replicas.insert(*id, end.clone());
                }
            }
        }
        let walks = led_elsewhere.into_iter().filter_map(|(id, led_elsewhere)| {
            Some((id, Walked { is_unbroken: alive[id], led_elsewhere, end: ends.get(&id)?.clone() }))
        });
        proof(&before, &walks.collect(), &replicas, &after).is_ok()
    }
}
