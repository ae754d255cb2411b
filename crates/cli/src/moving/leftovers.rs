//! What lies beside old places once they are empty: spilled values, and parts of sets and hashes, that nothing points to any more.
//!
//! A value that was moved out of a bucket leaves its spilled part behind for some seconds, for readers that were
//! told of it just before. Once the namespace is settled there are no such readers. The parts of a collection have no such time until
//! the sweep comes by them, which knows no old places once the namespace is settled: so they are given one before.

use keyfold_core::exchange::RETIRE_MS;
use keyfold_core::layout::{Layout, NAMES_PATTERN, Physical};
use keyfold_core::walk::KeyWalk;

use keyfold_server::keyspace;
use keyfold_server::{Commands, Server};

/// Has parts go in some seconds that lie beside the old places of what moves under `moving`, which are empty.
pub(crate) fn retire_parts(server: &mut Server, moving: &Layout) -> anyhow::Result<()> {
    let is_part =
        |name: &[u8]| matches!(moving.read_physical(name), Physical::Part { .. }) && is_left_over(moving, name);
    each_left_over(server, is_part, |removals, name| removals.push(&[b"PEXPIRE", name, RETIRE_MS]))
}

/// Removes spilled values and parts beside the old places of what moved under `moving`, which is in force no more, and whose
/// old places are empty.
pub(crate) fn remove(server: &mut Server, moving: &Layout) -> anyhow::Result<()> {
    each_left_over(server, |name| is_left_over(moving, name), |removals, name| removals.push(&[b"UNLINK", name]))
}

fn each_left_over(
    server: &mut Server,
    is_such: impl Fn(&[u8]) -> bool,
    remove: impl Fn(&mut Commands, &[u8]),
) -> anyhow::Result<()> {
    let walk = KeyWalk::new(1000).matching(NAMES_PATTERN);
    keyspace::each_page(server, &walk, &mut |server, _, names| {
        let mut removals = Commands::default();
        names.iter().filter(|name| is_such(name)).for_each(|name| remove(&mut removals, name));
        server.ask_all(&removals).map(drop)
    })
}

fn is_left_over(moving: &Layout, name: &[u8]) -> bool {
    match moving.read_physical(name) {
        Physical::Spill { namespace, .. } | Physical::Part { namespace, .. } => moving.is_former_place(namespace, name),
        _ => false,
    }
}
