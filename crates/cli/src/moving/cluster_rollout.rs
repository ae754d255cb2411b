//! Brings a layout's file to a cluster, or finds the layout that is there.

use anyhow::{Context, bail};
use keyfold_core::change::Register;
use keyfold_core::layout::{Former, Layout, LayoutFile, NAMES_PATTERN, NamespaceIndex};
use keyfold_core::placement::Placement;
use keyfold_core::walk::KeyWalk;
use keyfold_server::Nodes;
use keyfold_server::layout::activate::{activate, settle};
use keyfold_server::layout::stored::{self, Stored};

use super::{KeyCheck, recovery};
use crate::layout::keys;

/// Keys that a node looks at for one SCAN.
const SCAN_COUNT: u64 = 1000;

/// The layout of a cluster, with `file` brought to it if there is one.
///
/// A namespace that is new there must have no keys on any node, before its layout is in force and after: there is nobody
/// to move them.
///
/// # Errors
/// Nodes that are away, keys that are there, a layout that doesn't keep to slots. Nothing is written unless all is well, but
/// for keys that come in the very moment.
pub(crate) fn bring(nodes: &mut Nodes, file: Option<&LayoutFile>, check: KeyCheck) -> anyhow::Result<Layout> {
    // Whoever serves does so with what is in force; the keyfolds that serve put forward what only witnesses know.
    if let Err(reason) = settle(nodes.home()) {
        tracing::warn!("whether the layout was set back is looked at later: {reason:#}");
    }
    let before = find(nodes, check)?;
    let stored = before.as_ref().map(|stored| stored.layout.clone());
    let Some(file) = file else {
        let layout = stored.unwrap_or_default();
        check_slots(&layout)?;
        return Ok(layout);
    };
    let merged = Layout::merge(stored.as_ref(), file).context("the layout is refused by the cluster")?;
    check_slots(&merged.layout)?;
    if stored.as_ref() == Some(&merged.layout) {
        return Ok(merged.layout);
    }
    nodes.require_all()?;
    let is_folded = |index: &&NamespaceIndex| !merged.layout.namespace(**index).placement.is_plain();
    let folded: Vec<_> = merged.added.iter().filter(is_folded).copied().collect();
    let looks = check == KeyCheck::Look && !folded.is_empty();
    if looks {
        check_absent(nodes, &merged.layout, &folded)?;
    }
    let layout = activate(nodes.home(), before.as_ref(), &merged.layout)?;
    if looks {
        check_absent(nodes, &layout, &folded)
            .context("the layout is in force, and these keys were written in the moment before")?;
    }
    Ok(layout)
}

/// The layout in force. Where the home holds none, no node may hold data of one.
fn find(nodes: &mut Nodes, check: KeyCheck) -> anyhow::Result<Option<Stored>> {
    let is_nothing = stored::register(nodes.home())? == Register::default();
    if is_nothing {
        nodes.require_all()?;
    }
    if is_nothing && check == KeyCheck::Look {
        for server in nodes.servers() {
            let mut walk = KeyWalk::new(SCAN_COUNT).matching(NAMES_PATTERN);
            while let Some(names) = server.next_names(&mut walk)? {
                if let Some(name) = names.first() {
                    bail!(
                        "the node at {} holds \"{}\", which looks like data of a layout, and the cluster has none: a \
                         keyfold that served it puts it back; if that is not keyfold's data, say --skip-key-check",
                        server.address(),
                        name.escape_ascii()
                    );
                }
            }
        }
    }
    recovery::resolve(nodes.home(), None, check)
}

/// Refuses a layout by which one bucket would hold keys of several slots.
fn check_slots(layout: &Layout) -> anyhow::Result<()> {
    let keeps_to_slots = |placement: &Placement| placement.is_plain() || placement.is_by_slot();
    for (_, namespace) in layout.iter() {
        let former = namespace.former.as_ref().map(|Former { placement, .. }| placement);
        if ![Some(&namespace.placement), former].into_iter().flatten().all(keeps_to_slots) {
            bail!(
                "{} is folded without regard to slots, which a cluster doesn't allow: write `cluster = true` in the layout, \
                 with `count` where the hash tag doesn't fix the slot (docs/layout.md, \"In a cluster\")",
                namespace.template
            );
        }
    }
    Ok(())
}

fn check_absent(nodes: &mut Nodes, layout: &Layout, added: &[NamespaceIndex]) -> anyhow::Result<()> {
    for server in nodes.servers() {
        let at = server.address().to_string();
        keys::check_absent(server, layout, added).with_context(|| {
            format!(
                "on the node at {at} (on a cluster `keyfold fold` moves nothing yet: export these keys, remove them, start \
                 keyfold and import them, as docs/cluster.md says)"
            )
        })?;
    }
    Ok(())
}
