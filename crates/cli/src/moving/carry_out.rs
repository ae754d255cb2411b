//! A move from the first change of the layout to the last.
//!
//! ```text
//! layout that moves in force ─▶ passes of the mover ─▶ nothing left? ─▶ settled layout in force ─▶ one more look
//! ```
//! It may be broken off anywhere: what has been moved stays moved, every key is found where it lies, and the next
//! run goes on.

use keyfold_core::layout::{Layout, Move, NamespaceIndex};
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::activate::activate;
use keyfold_server::layout::dictionaries;
use keyfold_server::layout::stored::{self, Stored};
use keyfold_server::layout::unneeded;
use keyfold_server::pace::Pace;
use keyfold_server::priority::while_giving_way;
use keyfold_server::{Nodes, Server};

use super::drive::{self, Driven};
use super::{leftovers, survey};
use crate::layout::writer;

/// What has been done.
pub(crate) struct Done {
    /// What the mover did.
    pub(crate) driven: Driven,
    /// The layout in force at the end.
    pub(crate) layout: Layout,
    /// Whether all that was to move has, so that each key has one place again.
    pub(crate) settled: bool,
    /// Keys that somebody wrote to old places after the last walk over them, past keyfold.
    pub(crate) stragglers: u64,
    /// `used_memory` at the end.
    pub(crate) used_bytes: u64,
    /// `used_memory_rss` at the end.
    pub(crate) rss_bytes: u64,
}

/// From the first change of the layout to the last. `keys` is how many there are to be moved, about.
pub(crate) fn carry_out(
    nodes: &mut Nodes,
    before: Option<&Stored>,
    planned: &Move,
    keys: u64,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Done> {
    let moving = match differs(before, &planned.layout) {
        true => {
            let layout = activate(nodes.home(), before, &planned.layout)?;
            // Whoever removes dictionaries that no layout named may have met these before it was in force.
            dictionaries::write(nodes.home(), &planned.layout)?;
            layout
        }
        false => planned.layout.clone(),
    };
    let driven = while_giving_way(|| drive::drive(nodes, &moving, keys, pace, interrupt))?;
    let settled = planned.moving.is_empty();
    let mut done = Done { driven, layout: moving.clone(), settled, stragglers: 0, used_bytes: 0, rss_bytes: 0 };
    connect_anew(nodes)?;
    // What stays of one namespace keeps no other between its places.
    let through: Vec<_> = planned.moving.iter().copied().filter(|index| done.driven.is_proof_of(*index)).collect();
    if !through.is_empty() {
        let is_collection = |index: &NamespaceIndex| moving.namespace(*index).collection().is_some();
        if through.iter().any(is_collection) {
            for server in nodes.servers() {
                leftovers::retire_parts(server, &moving, &through)?;
            }
        }
        let settled = moving.settled(&through);
        let moving = Stored { text: moving.to_stored(), layout: moving };
        let settled = activate(nodes.home(), Some(&moving), &settled)?;
        unneeded::forget_slots(nodes.home(), &settled)?;
        // Whoever wrote past keyfold in this moment wrote where nobody looks any more.
        let late = while_giving_way(|| survey::survey(nodes, &moving.layout, &mut pace.looking(), interrupt))?;
        done.stragglers = late.found_in(&through);
        if done.stragglers == 0 {
            for at in 0..nodes.servers().len() {
                ensure_in_force(nodes, &settled)?;
                leftovers::remove(&mut nodes.servers()[at], &moving.layout, &through)?;
            }
        }
        (done.layout, done.settled) = (settled, through.len() == planned.moving.len());
    }
    done.used_bytes = used_memory(nodes)?;
    for server in nodes.servers() {
        done.rss_bytes += server.info("memory")?.number("used_memory_rss");
    }
    Ok(done)
}

/// That no other tool has brought another layout into force.
fn ensure_in_force(nodes: &mut Nodes, layout: &Layout) -> anyhow::Result<()> {
    let stored = stored::read(nodes.home())?;
    let is_in_force = stored.is_some_and(|stored| stored.layout == *layout);
    anyhow::ensure!(is_in_force, "another layout has come into force meanwhile; run the same command again");
    Ok(())
}

/// To the nodes of a cluster as they are by now: it may have failed over.
pub(crate) fn connect_anew(nodes: &mut Nodes) -> anyhow::Result<()> {
    if nodes.are_cluster() {
        *nodes = nodes.again()?;
        writer::enter(nodes.home())?;
    }
    Ok(())
}

/// Of all servers together.
pub(crate) fn used_memory(nodes: &mut Nodes) -> anyhow::Result<u64> {
    nodes.servers().iter_mut().map(Server::used_memory).sum()
}

/// Whether a layout says anything else than the one that the server holds.
pub(crate) fn differs(before: Option<&Stored>, layout: &Layout) -> bool {
    before.is_none_or(|stored| stored.layout != *layout) && !layout.is_empty()
}
