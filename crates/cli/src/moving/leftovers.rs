//! What lies beside old places once they are empty: spilled values that nothing points to any more.
//!
//! A value that was moved out of a bucket leaves its spilled part behind for some seconds, for readers that were
//! told of it just before. Once the namespace is settled there are no such readers.

use keyfold_core::layout::{Layout, Physical};
use keyfold_core::resp::{Reply, write_command};

use crate::scan::{self, Database};
use crate::server::Server;

/// Removes spilled values beside the old places of what moved under `moving`, which is in force no more, and whose
/// old places are empty.
pub(crate) fn remove(server: &mut Server, moving: &Layout) -> anyhow::Result<()> {
    for Database { number: database, .. } in scan::databases(server)? {
        server.select(database)?;
        let mut cursor: Vec<u8> = b"0".to_vec();
        loop {
            let mut wire = Vec::new();
            write_command(&mut wire, &[b"SCAN", &cursor, b"MATCH", b"~*", b"COUNT", b"1000"]);
            let reply = server.exchange(&wire, 1)?.pop().unwrap_or_default();
            let Ok(Reply::Array(mut parts)) = Reply::parse(&reply) else {
                anyhow::bail!("SCAN was refused: {}", String::from_utf8_lossy(&reply).trim_end());
            };
            cursor = parts.next().and_then(Reply::bytes).unwrap_or(b"0").to_vec();
            let (mut removals, mut count) = (Vec::new(), 0);
            if let Some(Reply::Array(names)) = parts.next() {
                for name in names.filter_map(Reply::bytes).filter(|name| is_left_over(moving, name)) {
                    write_command(&mut removals, &[b"UNLINK", name]);
                    count += 1;
                }
            }
            server.exchange(&removals, count)?;
            if cursor == b"0" {
                break;
            }
        }
    }
    server.select(0)
}

fn is_left_over(moving: &Layout, name: &[u8]) -> bool {
    match moving.read_physical(name) {
        Physical::Spill { namespace, .. } => moving.is_former_place(namespace, name),
        _ => false,
    }
}
