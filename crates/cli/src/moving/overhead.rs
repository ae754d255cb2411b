//! What a move makes the server hold beside the data: since Redis 7.0 each command has a histogram of latencies
//! from its first use on.

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

/// What the first uses of commands will add to `used_memory`.
pub(crate) fn first_uses_bytes(server: &mut Server) -> anyhow::Result<u64> {
    if !matches!(server.setting("latency-tracking"), Ok(Some((_, value))) if value == "yes") {
        return Ok(0);
    }
    let info: String = server.ask(&[b"INFO", b"commandstats"])?;
    let used = |name: &&&str| {
        let line = format!("cmdstat_{name}:");
        info.lines().any(|known| known.to_ascii_lowercase().starts_with(&line))
    };
    let unused = COMMANDS.iter().filter(|name| !used(name)).count() as u64;
    Ok(unused * HISTOGRAM_BYTES)
}
