//! What lies beside old places once they are empty: spilled values that nothing points to any more.
//!
//! A value that was moved out of a bucket leaves its spilled part behind for some seconds, for readers that were
//! told of it just before. Once the namespace is settled there are no such readers.

use keyfold_core::layout::{Layout, Physical};
use keyfold_core::walk::KeyWalk;

use keyfold_server::keyspace;
use keyfold_server::{Commands, Server};

/// Removes spilled values beside the old places of what moved under `moving`, which is in force no more, and whose
/// old places are empty.
pub(crate) fn remove(server: &mut Server, moving: &Layout) -> anyhow::Result<()> {
    let walk = KeyWalk::new(1000).matching(b"~*");
    keyspace::each_page(server, &walk, &mut |server, _, names| {
        let mut removals = Commands::default();
        let left_over = names.iter().filter(|name| is_left_over(moving, name));
        left_over.for_each(|name| removals.push(&[b"UNLINK", name]));
        server.ask_all(&removals).map(drop)
    })
}

fn is_left_over(moving: &Layout, name: &[u8]) -> bool {
    match moving.read_physical(name) {
        Physical::Spill { namespace, .. } | Physical::Part { namespace, .. } => moving.is_former_place(namespace, name),
        _ => false,
    }
}
