//! Leaves nothing of keyfold's on a server where nothing is folded any more.

use std::io::Write;

use anyhow::bail;
use keyfold_core::admin::{COPY_KEY, LASTING, LAYOUT_KEY, witness};
use keyfold_core::layout::Layout;
use keyfold_report::paper::Paper;
use keyfold_report::room::Room;
use keyfold_server::{Nodes, listpack};

use crate::config::fold::{Direction, Fold};
use crate::layout::evidence::count_keyfolds;

/// Removes what keyfold keeps on the server, where nothing is folded any more and the user wants it.
pub(super) fn clean(config: &Fold, nodes: &mut Nodes, layout: &Layout, out: &mut Paper) -> anyhow::Result<()> {
    if !matches!(config.direction, Direction::Unfold { clean: true }) || config.flags.dry_run {
        return Ok(());
    }
    if layout.namespaces().iter().any(|namespace| !namespace.placement.is_plain() || namespace.is_moving()) {
        bail!("keys are still folded, so the layout stays; unfold them too, without --namespace");
    }
    let keyfolds: usize = nodes.servers().iter_mut().map(count_keyfolds).sum();
    let is_served = keyfolds > 0;
    if !is_served {
        remove_witnesses(nodes)?;
    }
    let server = nodes.home();
    server.select(0)?;
    let own = LASTING.iter().filter(|key| !is_served || (**key != LAYOUT_KEY && **key != COPY_KEY));
    let mut removed = 0;
    for key in own {
        removed += server.ask::<i64>(&[b"DEL", key])?;
    }
    let what = match (is_served, removed) {
        (true, _) => {
            "removed what keyfold keeps on the server, but the layout, which names nothing any more: keyfolds that run go \
             by it. Once clients use the server itself and no keyfold runs, say this once more to remove it"
        }
        (false, 0) => "keyfold keeps nothing on the server",
        (false, _) => "removed the layout from the server",
    };
    let mut said = vec![what.to_owned()];
    for server in nodes.servers() {
        let address = server.address().to_string();
        said.extend(listpack::above_default(server).into_iter().map(|(setting, back)| {
            format!(
                "{setting} stays on the server at {address}; if it was raised for keyfold alone, put it back: {back}"
            )
        }));
    }
    // Standard output is a program's where JSON is wanted.
    let mut err = Paper::new(anstream::stderr(), Room::of_errors());
    let out = if config.flags.json { &mut err } else { out };
    Ok(said.iter().try_for_each(|line| writeln!(out, "{line}"))?)
}

/// Before the home: without witnesses a layout is in force all the same, and whoever comes writes them again. A witness that
/// knows more than the home says that this was set back.
fn remove_witnesses(nodes: &mut Nodes) -> anyhow::Result<()> {
    if !nodes.are_cluster() {
        return Ok(());
    }
    for slot in witness::slots() {
        let owner = nodes.owner_of_slot(slot);
        let server = &mut nodes.servers()[owner];
        server.select(0)?;
        server.ask::<()>(&[b"DEL", &witness::key(slot)])?;
    }
    Ok(())
}
