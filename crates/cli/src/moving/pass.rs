//! One pass of a mover over all primaries of a cluster, and whether it proves that nothing lies in old places any more
//! ([`keyfold_core::cluster::proof`]).
//!
//! ```text
//! connections named and cleared ─▶ picture ─▶ walk over each primary ─▶ how far replicas are ─▶ picture
//! ```
//! One primary after the other: so `--max-ops` holds for all together, and each node is under load for a part of the time
//! only. Whatever a node does meanwhile costs a pass, and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use keyfold_core::change::Clearance;
use keyfold_core::cluster::{Doubt, History, Picture, Walked, proof};
use keyfold_core::layout::Layout;
use keyfold_report::number::plural;
use keyfold_server::Nodes;
use keyfold_server::census::Census;
use keyfold_server::layout::{clear, stored};

use crate::layout::writer;

/// How long replicas have to come as far as their primary.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(10);

/// Why a pass came to no end.
pub(super) enum Hindrance {
    /// It may be tried again.
    ForNow(anyhow::Error),
    /// It won't do: such as an interruption, or another layout.
    ForGood(anyhow::Error),
}

impl Hindrance {
    /// Whatever it is.
    pub(super) fn into_error(self) -> anyhow::Error {
        match self {
            Self::ForNow(error) | Self::ForGood(error) => error,
        }
    }
}

impl From<anyhow::Error> for Hindrance {
    /// What a node or a connection says is mostly over soon.
    fn from(error: anyhow::Error) -> Self {
        Self::ForNow(error)
    }
}

/// The connections of one pass, and what was seen at its beginning.
pub(super) struct Pass {
    nodes: Nodes,
    census: Census,
    before: Picture<String>,
    led_elsewhere: BTreeMap<usize, u64>,
}

impl Pass {
    /// Connects to all primaries. Whoever replaces `layout`, which is in force, closes these connections.
    pub(super) fn begin(nodes: &Nodes, layout: &Layout) -> Result<Self, Hindrance> {
        let mut nodes = nodes.again()?;
        nodes.servers().iter_mut().try_for_each(writer::name)?;
        writer::wait_while_held(nodes.home())?;
        match clear::look(&mut nodes, layout)? {
            Clearance::Fine => {}
            Clearance::Unsettled(why) => return Err(anyhow::anyhow!(why).into()),
            Clearance::Waiting | Clearance::Later => return Err(not_in_force(&mut nodes, layout)),
        }
        let mut census = Census::default();
        let before = census.picture(&mut nodes)?;
        Ok(Self { nodes, census, before, led_elsewhere: BTreeMap::new() })
    }

    /// What stands against a proof from the beginning.
    pub(super) fn doubt_before(&self) -> Option<String> {
        self.before.doubt().map(|doubt| explain(&self.census, &doubt))
    }

    /// The primaries.
    pub(super) fn nodes(&mut self) -> &mut Nodes {
        &mut self.nodes
    }

    /// Notes what the walk over a primary found that another has.
    pub(super) fn note(&mut self, node: usize, led_elsewhere: u64) {
        *self.led_elsewhere.entry(node).or_default() += led_elsewhere;
    }

    /// What stands against any proof by now: something else than the walk has gone on.
    pub(super) fn doubt(mut self) -> anyhow::Result<Option<String>> {
        let after = self.census.picture(&mut self.nodes)?;
        let changed = (self.before != after).then_some(Doubt::Changed);
        Ok(self.before.doubt().or_else(|| after.doubt()).or(changed).map(|doubt| explain(&self.census, &doubt)))
    }

    /// What stands against a proof, once all primaries were walked over: none where it is one.
    pub(super) fn end(mut self) -> anyhow::Result<Option<String>> {
        let ends = Census::primaries(&mut self.nodes)?;
        let replicas = self.census.replicas(&self.before, &ends, CONFIRMED_WITHIN)?;
        let after = self.census.picture(&mut self.nodes)?;
        let walks = self.walks(&ends)?;
        Ok(proof(&self.before, &walks, &replicas, &after).err().map(|doubt| explain(&self.census, &doubt)))
    }

    /// An answer of each primary on its connection says that this has lived all the time: none is made anew.
    fn walks(&mut self, ends: &BTreeMap<String, History>) -> anyhow::Result<BTreeMap<String, Walked>> {
        let mut walks = BTreeMap::new();
        for (node, server) in self.nodes.servers().iter_mut().enumerate() {
            let id: String = server.ask(&[b"CLUSTER", b"MYID"])?;
            let led_elsewhere = self.led_elsewhere.get(&node).copied();
            if let Some((end, led_elsewhere)) = ends.get(&id).cloned().zip(led_elsewhere) {
                walks.insert(id, Walked { is_unbroken: true, led_elsewhere, end });
            }
        }
        Ok(walks)
    }
}

/// What stands against any proof as things are now; none where nothing does.
pub(super) fn doubt_now(nodes: &mut Nodes) -> anyhow::Result<Option<String>> {
    let mut census = Census::default();
    let picture = census.picture(nodes)?;
    Ok(picture.doubt().map(|doubt| explain(&census, &doubt)))
}

/// In words, with what to do.
fn explain(census: &Census, doubt: &Doubt<String>) -> String {
    let named = |id: &String| census.address(id);
    match doubt {
        Doubt::SlotsOnTheirWay => {
            "slots are on their way from node to node; let that end, or end it (CLUSTER SETSLOT … STABLE)".to_owned()
        }
        Doubt::LedElsewhere(keys) => format!(
            "{} on a node that doesn't have their slot; `keyfold verify` names them",
            if *keys == 1 { "1 key is".to_owned() } else { format!("{} are", plural(*keys, "key")) }
        ),
        Doubt::Changed => {
            "a failover happened, slots changed hands, or nodes came or went, while keys were looked at".to_owned()
        }
        Doubt::Broken(id) => format!("the primary {} was not looked at from beginning to end", named(id)),
        Doubt::Gone(id) => format!(
            "the node {} is taken for gone, and could bring keys back to old places; start it, or have all nodes \
                 forget it (CLUSTER FORGET {id})",
            named(id)
        ),
        Doubt::Behind(id) => format!(
            "the replica {} doesn't have yet what was moved; a failover to it would bring keys back to old places. \
                 See to its link to the primary (INFO replication)",
            named(id)
        ),
    }
}

/// Another layout is in force, or nobody can tell yet.
fn not_in_force(nodes: &mut Nodes, layout: &Layout) -> Hindrance {
    match stored::read(nodes.home()) {
        Ok(Some(now)) if now.layout.revision() > layout.revision() => Hindrance::ForGood(anyhow::anyhow!(
            "the layout was changed by somebody else meanwhile; what has been moved stays moved, and all keys are \
             reachable. Look at it with `keyfold layout show`, and run it again to go on"
        )),
        Ok(_) => Hindrance::ForNow(anyhow::anyhow!(
            "the nodes don't agree which layout is in force; a keyfold that serves mends that"
        )),
        Err(error) => Hindrance::ForNow(error),
    }
}
