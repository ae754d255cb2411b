//! Brings a layout's file to a cluster, or finds the layout that is there.

use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use keyfold_core::change::Register;
use keyfold_core::layout::{Former, Layout, LayoutFile};
use keyfold_core::placement::Placement;
use keyfold_server::layout::activate::settle;
use keyfold_server::layout::stored::{self, Stored};
use keyfold_server::layout::witnesses::{self, Witness};
use keyfold_server::{Nodes, Target, is_not_ready};

use super::outcome::{Rollout, TRIES};
use super::write::write;
use crate::layout::evidence::Given;
use crate::moving::{KeyCheck, recovery};

/// So soon a cluster is asked again of which a node is not ready.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The layout of a cluster, with `file` brought to it if there is one, and connections to its primaries.
///
/// A namespace that is new there must have no keys on any node: `keyfold fold` moves them. What clients write in the moment
/// before the layout is in force is moved with it. Primaries that are away are left out where nothing is to be changed, but
/// not the one that has the home. A node that loads its data or runs a script is waited for.
///
/// # Errors
/// Nodes that are away, keys that are there, a layout that doesn't keep to slots. Nothing is written unless all is well.
pub(super) fn bring(target: &Target, file: Option<&LayoutFile>, check: KeyCheck) -> anyhow::Result<(Nodes, Rollout)> {
    let mut tries = 0;
    loop {
        let mut register = None;
        let brought = Nodes::connect_to_those_there(target)
            .and_then(|mut nodes| bring_once(&mut nodes, &mut register, file, check).map(|rollout| (nodes, rollout)));
        match brought {
            Err(error) if is_not_ready(&error) => {
                tracing::info!("waiting for the cluster: {error:#}");
                thread::sleep(AGAIN_AFTER);
            }
            Err(error) if tries < TRIES && was_disturbed(target, register.as_ref()) => {
                tries += 1;
                tracing::info!("beginning anew, as the layout was changed meanwhile: {error:#}");
            }
            brought => return brought,
        }
    }
}

/// Whether somebody else changed the layout.
fn was_disturbed(target: &Target, register: Option<&Register>) -> bool {
    let now = || stored::register(Nodes::connect_to_those_there(target)?.home());
    register.is_some_and(|before| now().is_ok_and(|now| now != *before))
}

/// Tries once; `register` is what it set out from.
fn bring_once(
    nodes: &mut Nodes,
    register: &mut Option<Register>,
    file: Option<&LayoutFile>,
    check: KeyCheck,
) -> anyhow::Result<Rollout> {
    // Whoever serves does so with what is in force; the keyfolds that serve put forward what only witnesses know.
    if let Err(reason) = settle(nodes.home()) {
        tracing::warn!("whether the layout was set back is looked at later: {reason:#}");
    }
    *register = Some(stored::register(nodes.home())?);
    let given = file.cloned().map(Given::File);
    let before = recovery::resolve_all(nodes, given.as_ref(), check)?;
    let Some(file) = file else {
        let layout = before.map_or_else(Layout::default, |stored| stored.layout);
        check_slots(&layout)?;
        return Ok(Rollout::found(layout));
    };
    let merged = Layout::merge(before.as_ref().map(|stored| &stored.layout), file)
        .context("the layout is refused by the cluster")?;
    check_slots(&merged.layout)?;
    write(nodes, before.as_ref(), merged, check)
}

/// The layout in force, put there first where it was lost, or set back.
///
/// # Errors
/// A node is away, or data of a layout that is gone.
pub(crate) fn resolve(nodes: &mut Nodes, check: KeyCheck) -> anyhow::Result<Option<Stored>> {
    let is_known = stored::register(nodes.home())? != Register::default();
    if is_known || witnesses::ask(nodes)?.iter().any(Witness::knows) {
        settle(nodes.home())?;
    }
    recovery::resolve_all(nodes, None, check)
}

/// Refuses a layout by which one bucket would hold keys of several slots.
pub(crate) fn check_slots(layout: &Layout) -> anyhow::Result<()> {
    let keeps_to_slots = |placement: &Placement| placement.is_plain() || placement.is_by_slot();
    for (_, namespace) in layout.iter() {
        let former = namespace.former.as_ref().map(|Former { placement, .. }| placement);
        if ![Some(&namespace.placement), former].into_iter().flatten().all(keeps_to_slots) {
            bail!(
                "{} is folded without regard to slots, which a cluster doesn't allow: write `cluster = true` in the layout, \
                 with `count` where the hash tag doesn't fix the slot (docs/layout.md, \"In a cluster\")",
                namespace.keys
            );
        }
    }
    Ok(())
}
