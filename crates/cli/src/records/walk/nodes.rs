//! The walk over the nodes of a cluster, while slots move between them.
//!
//! Names come from each node's own SCAN, and each is asked about where a client would: at the node that has its slot, with
//! redirects followed. A slot may move behind the walk's back, so what nodes say of it before and after each pass decides
//! whether it was seen whole:
//!
//! | a slot that | takes |
//! | --- | --- |
//! | had one owner all the time, and still has | one pass |
//! | was on its way key by key all the time | two: keys only go from its source to its target, so the second sees at the target what the first missed |
//! | changed hands, or began or ended its way | as many more from there on |
//!
//! Later passes look only at names of slots that are not seen whole yet, and names that were seen are not asked about again.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use keyfold_core::layout::Layout;
use keyfold_core::slot::Slot;
use keyfold_core::walk::KeyWalk;
use keyfold_report::progress::Progress;
use keyfold_server::keyspace::keys_of;
use keyfold_server::nodes::SlotStates;
use keyfold_server::pace::Pace;
use keyfold_server::{Nodes, Server, ServerTime};

use super::way::Way;
use super::{Manner, NAMES_AT_ONCE, RecordWalk, Visit};
use crate::records::finding::{Finding, FindingKind};
use crate::records::fingerprints::Fingerprints;
use crate::records::inquiry::How;
use crate::scan::{self, Databases, Round};

/// Slots that move again and again end a walk.
const PASSES: usize = 20;
/// Names on nodes that don't have their slots, of which more than these are not told apart.
const MISPLACED: usize = 10_000;

/// What a walk over a cluster knows of its slots.
pub(super) struct Sights {
    states: SlotStates,
    /// Slots that are not seen whole yet, each with how many passes found it as it was.
    pending: BTreeMap<Slot, u8>,
    /// The ID and address of the node whose names are walked over.
    node: (String, String),
    /// Names that a node shows which has nothing to do with their slot, with that node.
    misplaced: BTreeMap<Vec<u8>, String>,
}

/// Walks over the databases that are meant, on one server or on all nodes. True where it came around, false where it was
/// stopped.
pub(crate) fn walk_all(
    nodes: &mut Nodes,
    wanted: &Databases,
    done: &str,
    manner: &Manner<'_>,
    pace: &mut Pace,
    visit: Visit<'_>,
) -> anyhow::Result<bool> {
    if !nodes.are_cluster() {
        let round = Round::new(scan::chosen(nodes.first(), wanted)?);
        return super::walk(nodes.first(), round, done, manner, pace, visit);
    }
    check_layout(manner.layout)?;
    let of_each = scan::chosen_of_each(nodes.servers(), wanted)?;
    let total = usize::try_from(keys_of(of_each.iter().flatten())).unwrap_or(usize::MAX);
    let mut progress = Progress::new(format!("{done}, keys of the cluster"), total);
    let databases: BTreeSet<u32> = of_each.iter().flatten().map(|database| database.number).collect();
    for database in databases {
        let mut own = nodes.again()?;
        let mut steps = own.steps(Box::new(Server::leave_untouched)).context("a cluster has nodes")?;
        steps.select(database)?;
        let has_pexpiretime = own.servers().iter().all(|server| server.version().has_pexpiretime());
        let walk = RecordWalk {
            time: ServerTime::ask(own.first())?,
            how: How { has_pexpiretime, by_script: false },
            server_info: own.first().version().info(),
            way: Way::Nodes(Box::new(steps)),
            manner,
            pace: &mut *pace,
            visit: &mut *visit,
            progress: &mut progress,
            database,
            names: None,
            waiting: std::collections::VecDeque::new(),
            has_enough: false,
            suspects: Vec::new(),
            seen: Fingerprints::new(),
            mean_bytes: 0,
            sights: Some(Sights::new(own.slot_states()?)),
        };
        if !walk.run_over(own)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Before a cluster, all physical keys of a logical key have to share its slot.
pub(crate) fn check_layout(layout: &Layout) -> anyhow::Result<()> {
    let stands_alone = |namespace: &&keyfold_core::layout::Namespace| {
        namespace.placement.has_buckets() && !namespace.placement.is_by_slot()
    };
    if let Some(namespace) = layout.namespaces().iter().find(stands_alone) {
        bail!(
            "the layout that the cluster holds is none for a cluster: buckets of {} lie in slots of their own; say \
             `cluster = true` in the layout file",
            namespace.keys
        );
    }
    Ok(())
}

impl Sights {
    fn new(states: SlotStates) -> Self {
        let pending = Slot::all().map(|slot| (slot, 0)).collect();
        Self { states, pending, node: (String::new(), String::new()), misplaced: BTreeMap::new() }
    }

    /// Whether a name is to be asked about in this pass.
    pub(super) fn wants(&mut self, name: &[u8]) -> bool {
        let slot = Slot::of(name);
        let state = self.states.of(slot);
        let (id, address) = &self.node;
        let is_here = state.owner.as_ref() == Some(id) || state.importers.contains(id);
        if !is_here && self.misplaced.len() < MISPLACED {
            self.misplaced.insert(name.to_vec(), address.clone());
        }
        self.pending.contains_key(&slot)
    }

    pub(super) fn is_on_its_way(&self, slot: Slot) -> bool {
        self.states.of(slot).is_on_its_way()
    }

    /// Where the owner of a name's slot is.
    pub(super) fn node_of(&self, name: &[u8]) -> Option<String> {
        self.states.of(Slot::of(name)).owner.as_ref().map(|id| self.states.address(id))
    }

    /// After a pass: which slots have to be looked at once more.
    fn take(&mut self, now: SlotStates) {
        let before = std::mem::replace(&mut self.states, now);
        let states = &self.states;
        self.misplaced.retain(|name, _| before.of(Slot::of(name)) == states.of(Slot::of(name)));
        self.pending.retain(|slot, passes| {
            let state = states.of(*slot);
            *passes = if before.of(*slot) == state { *passes + 1 } else { 0 };
            *passes < if state.is_on_its_way() { 2 } else { 1 }
        });
    }
}

impl RecordWalk<'_> {
    fn run_over(mut self, mut nodes: Nodes) -> anyhow::Result<bool> {
        for _ in 0..PASSES {
            if !self.pass(&mut nodes)? {
                return Ok(false);
            }
            nodes = nodes.again()?;
            let now = nodes.slot_states()?;
            let Some(sights) = &mut self.sights else { return Ok(true) };
            sights.take(now);
            if sights.pending.is_empty() {
                self.show_misplaced()?;
                return self.end();
            }
        }
        bail!("slots move from node to node all the time; run it again once the cluster is resharded")
    }

    /// All names that the nodes have, once.
    fn pass(&mut self, nodes: &mut Nodes) -> anyhow::Result<bool> {
        let idle = nodes.idle()?;
        let mut all: Vec<_> = nodes.servers().iter_mut().collect();
        let mut idle: Vec<_> = idle;
        all.extend(idle.iter_mut());
        for server in all {
            let id: String = server.ask(&[b"CLUSTER", b"MYID"])?;
            if let Some(sights) = &mut self.sights {
                let address = sights.states.address(&id);
                sights.node = (id, address);
            }
            server.select(self.database)?;
            let mut walk = KeyWalk::new(NAMES_AT_ONCE);
            while let Some(names) = server.next_names(&mut walk)? {
                self.pace.spend(1);
                self.take_page(names.iter().map(Vec::as_slice))?;
                if !self.answer_all(true)? {
                    return Ok(false);
                }
            }
        }
        self.answer_all(false)
    }

    fn show_misplaced(&mut self) -> anyhow::Result<()> {
        let Some(sights) = &mut self.sights else { return Ok(()) };
        for (physical, node) in std::mem::take(&mut sights.misplaced) {
            let slot = Slot::of(&physical);
            let owner = sights.node_of(&physical).unwrap_or_else(|| "nobody".to_owned());
            let detail = format!("slot {slot} is at {owner}");
            let kind = FindingKind::WrongNode;
            let database = self.database;
            let finding = Finding { kind, database, physical, field: None, key: None, detail, node: Some(node) };
            (self.visit)(super::Sight::Finding(finding))?;
        }
        Ok(())
    }
}
