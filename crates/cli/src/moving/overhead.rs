//! What a move makes the server hold beside the data: since Redis 7.0 each command has a histogram of latencies
//! from its first use on.

use keyfold_core::collection::CollectionKind;
use keyfold_server::Server;

/// What one histogram takes. Measured: `used_memory` before and after a command's first use, on Redis 7.0.15 and
/// Valkey 9.1.2. (`server.c`: `hdr_init(1ns, 1s, 2 digits)` on `latency-tracking yes`, the default.)
const HISTOGRAM_BYTES: u64 = 24_688;

/// The commands that a move uses, by their names in INFO commandstats.
const COMMANDS: [&str; 20] = [
    "scan",
    "type",
    "get",
    "pexpiretime",
    "hget",
    "hmget",
    "hset",
    "hdel",
    "hkeys",
    "hlen",
    "set",
    "unlink",
    "exists",
    "evalsha",
    "eval",
    "script|load",
    "multi",
    "exec",
    "time",
    "del",
];

/// Those that it uses besides where sets or hashes are moved in steps.
const IN_STEPS: [&str; 6] = ["rename", "persist", "hgetall", "getrange", "setrange", "strlen"];
const OF_SETS: [&str; 5] = ["sadd", "srem", "scard", "smembers", "srandmember"];
const OF_HASHES: [&str; 1] = ["hrandfield"];

/// What the first uses of commands will add to `used_memory`, where collections of these types are moved in steps.
pub(crate) fn first_uses_bytes(server: &mut Server, in_steps: &[CollectionKind]) -> anyhow::Result<u64> {
    if !matches!(server.setting("latency-tracking"), Ok(Some((_, value))) if value == "yes") {
        return Ok(0);
    }
    let info: String = server.ask(&[b"INFO", b"commandstats"])?;
    let used = |name: &&&str| {
        let line = format!("cmdstat_{name}:");
        info.lines().any(|known| known.to_ascii_lowercase().starts_with(&line))
    };
    let of_kinds = in_steps.iter().flat_map(|kind| match kind {
        CollectionKind::Set => &OF_SETS[..],
        CollectionKind::Hash => &OF_HASHES,
    });
    let besides = IN_STEPS.iter().filter(|_| !in_steps.is_empty()).chain(of_kinds);
    let unused = COMMANDS.iter().chain(besides).filter(|name| !used(name)).count() as u64;
    Ok(unused * HISTOGRAM_BYTES)
}
