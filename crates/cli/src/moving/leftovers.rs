//! What lies beside old places once they are empty: spilled values, and parts of sets and hashes, that nothing points to any more.
//!
//! A value that was moved out of a bucket leaves its spilled part behind for some seconds, for readers that were
//! told of it just before. Once the namespace is settled there are no such readers. The parts of a collection have no such time until
//! the sweep comes by them, which knows no old places once the namespace is settled: so they are given one before.

use anyhow::anyhow;
use keyfold_core::drive::Context;
use keyfold_core::layout::{Layout, NAMES_PATTERN, NamespaceIndex, Physical};
use keyfold_core::sweep::Sweep;
use keyfold_core::walk::KeyWalk;
use keyfold_server::{Commands, Server, ServerTime, keyspace};

/// Has parts go in some seconds that lie beside the old places of `through`, which move under `moving`, and are nobody's any more: so
/// says the server as it has them go, as by now somebody may have turned the move round, and make parts there.
pub(crate) fn retire_parts(server: &mut Server, moving: &Layout, through: &[NamespaceIndex]) -> anyhow::Result<()> {
    let is_part = |name: &[u8]| {
        matches!(moving.read_physical(name), Physical::Part { .. }) && is_left_over(moving, through, name)
    };
    let (context, time) = (Context::new(moving, server.version().info()), ServerTime::ask(server)?);
    each_page(server, |server, names| {
        let mut sweep = Sweep::of_part_names(names.iter().map(Vec::as_slice).filter(|name| is_part(name)));
        if server.version().is_cluster() {
            sweep = sweep.on_node();
        }
        let mut wire = Vec::new();
        while let Some(count) = sweep.next(&mut wire) {
            let replies = server.exchange(&wire, count)?;
            wire.clear();
            // Nothing is written for which a number would have to be drawn.
            let mut nonces = || 0;
            let env = context.env(time.now_ms(), &mut nonces);
            sweep.handle_replies(&replies, &env).map_err(|error| {
                anyhow!("the server at {} refuses to look at what was left over: {error}", server.address())
            })?;
        }
        Ok(())
    })
}

/// Removes spilled values and parts beside the old places of `through`, which moved under `moving` and do so no more, and whose
/// old places are empty.
pub(crate) fn remove(server: &mut Server, moving: &Layout, through: &[NamespaceIndex]) -> anyhow::Result<()> {
    each_page(server, |server, names| {
        let mut removals = Commands::default();
        let left_over = names.iter().filter(|name| is_left_over(moving, through, name));
        left_over.for_each(|name| removals.push(&[b"UNLINK", name]));
        server.ask_all(&removals).map(drop)
    })
}

fn each_page(
    server: &mut Server,
    mut on_page: impl FnMut(&mut Server, Vec<Vec<u8>>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let walk = KeyWalk::new(1000).matching(NAMES_PATTERN);
    keyspace::each_page(server, &walk, &mut |server, _, names| on_page(server, names))
}

fn is_left_over(moving: &Layout, through: &[NamespaceIndex], name: &[u8]) -> bool {
    match moving.read_physical(name) {
        Physical::Spill { namespace, .. } | Physical::Part { namespace, .. } => {
            through.contains(&namespace) && moving.is_former_place(namespace, name)
        }
        _ => false,
    }
}
