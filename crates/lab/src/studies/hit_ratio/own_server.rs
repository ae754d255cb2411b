//! What is asked of a server that is there for one cache alone.

use keyfold_server::{Commands, Server};

use super::cache::BATCH;

/// Looks at the memory of a server that is asked.
const BUSY_ROUNDS: usize = 100;

/// What the server takes while it is asked for what it doesn't have: its connections take more then than at rest.
pub(super) fn busy_bytes(client: &mut Server, gauge: &mut Server) -> anyhow::Result<u64> {
    let mut asked = Commands::default();
    (0..BATCH).for_each(|_| asked.push(&[b"GET", b"none"]));
    let mut most = 0;
    for _ in 0..BUSY_ROUNDS {
        client.query_all::<Option<String>>(&asked)?;
        most = most.max(gauge.used_memory()?);
    }
    Ok(most)
}

/// Sets what it is configured with, by the name that it knows.
pub(super) fn set(server: &mut Server, name: &str, value: &str) -> anyhow::Result<()> {
    let old_name = name.replace("listpack", "ziplist");
    let mut set = |name: &str| server.ask::<()>(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]);
    set(name).or_else(|error| if old_name == name { Err(error) } else { set(&old_name) })
}

/// Has the server run each command once, as it allocates at each first call.
pub(super) fn warm_up(server: &mut Server) -> anyhow::Result<()> {
    let mut once = Commands::default();
    once.push(&[b"SET", b"s", b"1"]);
    once.push(&[b"GET", b"s"]);
    once.push(&[b"HSET", b"h", b"f", b"1"]);
    once.push(&[b"HGET", b"h", b"f"]);
    once.push(&[b"DEL", b"s", b"h"]);
    once.push(&[b"INFO", b"memory"]);
    server.query_all::<()>(&once).map(drop)
}
