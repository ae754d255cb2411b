//! Puts in force what a layout's file comes to on a server or a cluster.

use anyhow::Context;
use keyfold_core::layout::{Layout, Merged, Move, NamespaceIndex};
use keyfold_server::Nodes;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::activate::activate;
use keyfold_server::layout::stored::Stored;
use keyfold_server::pace::Pace;

use super::outcome::Rollout;
use crate::layout::{keys, writer};
use crate::moving::KeyCheck;
use crate::moving::carry_out::{Done, carry_out};

/// Puts a merged layout in force, unless it is the one that was there `before`. New namespaces that are folded must have
/// no keys yet. The connection to a single server is a writer's already.
///
/// # Errors
/// A node is away, or keys are there: nothing is written then.
pub(super) fn write(
    nodes: &mut Nodes,
    before: Option<&Stored>,
    merged: Merged,
    check: KeyCheck,
) -> anyhow::Result<Rollout> {
    let Merged { layout, added, changed, .. } = merged;
    if before.is_some_and(|stored| stored.layout == layout) {
        return Ok(Rollout::found(layout));
    }
    nodes.require_all()?;
    let is_folded = |index: &&NamespaceIndex| !layout.namespace(**index).placement.is_plain();
    let folded: Vec<_> = added.iter().filter(is_folded).copied().collect();
    let rollout = Rollout { added, changed, written: true, ..Rollout::found(layout) };
    if check == KeyCheck::Skip || folded.is_empty() {
        let layout = activate(nodes.home(), before, &rollout.layout)?;
        return Ok(Rollout { layout, ..rollout });
    }
    check_absent(nodes, &rollout.layout, &folded)?;
    if nodes.are_cluster() {
        writer::enter(nodes.home())?;
    }
    let done = fold_empty(nodes, before, &rollout.layout, &folded)?;
    Ok(Rollout { layout: done.layout, left: done.driven.stays, stragglers: done.stragglers, ..rollout })
}

fn check_absent(nodes: &mut Nodes, layout: &Layout, added: &[NamespaceIndex]) -> anyhow::Result<()> {
    if !nodes.are_cluster() {
        return keys::check_absent(nodes.first(), layout, added);
    }
    for server in nodes.servers() {
        let at = server.address().to_string();
        keys::check_absent(server, layout, added).with_context(|| format!("on the node at {at}"))?;
    }
    Ok(())
}

/// Puts `layout` in force, the namespaces `folded` of it by way of a move from plain.
fn fold_empty(
    nodes: &mut Nodes,
    before: Option<&Stored>,
    layout: &Layout,
    folded: &[NamespaceIndex],
) -> anyhow::Result<Done> {
    let none = Layout::default();
    let planned = Move { layout: layout.clone(), moving: Vec::new() };
    let planned = planned.reopen(before.map_or(&none, |stored| &stored.layout), folded);
    carry_out(nodes, before, &planned, 0, &mut Pace::new(None), &Interrupt::never())
}
