//! What a server says of its memory.

use crate::server_info::info_field;

/// What a server counts when it decides whether to evict, and what it has evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerMemory {
    /// What is compared with its `maxmemory`: `used_memory` without what isn't counted for that (`mem_not_counted_for_evict`).
    pub counted: u64,
    /// Its `maxmemory`; 0 for none.
    pub max: u64,
}

impl ServerMemory {
    /// The question.
    pub const ASK: [&[u8]; 2] = [b"INFO", b"memory"];

    /// Reads the answer; none where it says nothing of memory.
    pub fn read(info: &str) -> Option<Self> {
        let number = |name: &str| info_field(info, name)?.parse::<u64>().ok();
        let uncounted = number("mem_not_counted_for_evict").unwrap_or(0);
        Some(Self { counted: number("used_memory")?.saturating_sub(uncounted), max: number("maxmemory").unwrap_or(0) })
    }
}

/// How many keys a server has evicted since it was started, by `INFO stats`.
pub fn evicted_by_server(info: &str) -> Option<u64> {
    info_field(info, "evicted_keys")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_what_the_server_compares() {
        let info = "# Memory\r\nused_memory:1000\r\nused_memory_human:1K\r\nmaxmemory:5000\r\nmem_not_counted_for_evict:40\r\n";
        assert_eq!(ServerMemory::read(info), Some(ServerMemory { counted: 960, max: 5000 }));
        assert_eq!(ServerMemory::read("used_memory:7\r\n"), Some(ServerMemory { counted: 7, max: 0 }));
        assert_eq!(ServerMemory::read("# Server\r\n"), None);
        assert_eq!(evicted_by_server("# Stats\r\nexpired_keys:1\r\nevicted_keys:12\r\n"), Some(12));
    }
}
