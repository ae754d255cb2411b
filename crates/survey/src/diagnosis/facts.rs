//! What INFO says of memory.

/// What a server says of its memory, in bytes; 0 where it doesn't say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// `used_memory`: what it asked its allocator for, as that rounded it.
    pub used_bytes: u64,
    /// `used_memory_rss`: what the system gave the process.
    pub rss_bytes: u64,
    /// `used_memory_dataset`.
    pub dataset_bytes: u64,
    /// `mem_clients_normal` and `mem_clients_slaves`.
    pub clients_bytes: u64,
    /// `mem_replication_backlog`.
    pub backlog_bytes: u64,
    /// `mem_aof_buffer`.
    pub aof_buffer_bytes: u64,
    /// `used_memory_scripts` or `used_memory_scripts_eval`.
    pub scripts_bytes: u64,
    /// `allocator_frag_bytes`: holes within the allocator's slabs.
    pub holes_bytes: u64,
    /// `allocator_rss_bytes`: pages that the allocator keeps for later.
    pub kept_pages_bytes: u64,
    /// `mem_allocator`.
    pub allocator: String,
    /// `active_defrag_running`: whether it is mending by itself now.
    pub defrag_running: bool,
}

impl MemoryFacts {
    /// Reads the answer to `INFO memory`. Differences may be negative there; they are 0 here.
    pub fn from_info(info: &str) -> Self {
        let text = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default()
        };
        let bytes = |name: &str| text(name).parse().unwrap_or(0);
        Self {
            used_bytes: bytes("used_memory"),
            rss_bytes: bytes("used_memory_rss"),
            dataset_bytes: bytes("used_memory_dataset"),
            clients_bytes: bytes("mem_clients_normal") + bytes("mem_clients_slaves"),
            backlog_bytes: bytes("mem_replication_backlog"),
            aof_buffer_bytes: bytes("mem_aof_buffer"),
            scripts_bytes: bytes("used_memory_scripts").max(bytes("used_memory_scripts_eval")),
            holes_bytes: bytes("allocator_frag_bytes"),
            kept_pages_bytes: bytes("allocator_rss_bytes"),
            allocator: text("mem_allocator").to_owned(),
            defrag_running: bytes("active_defrag_running") > 0,
        }
    }

    /// What the process has beyond what the server uses.
    pub fn beyond_bytes(&self) -> u64 {
        self.rss_bytes.saturating_sub(self.used_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_by_whole_names() {
        let info = "# Memory\r\nused_memory:1000\r\nused_memory_rss:1500\r\nallocator_rss_bytes:-5\r\n\
                    mem_allocator:jemalloc-5.3.0\r\nmem_clients_normal:7\r\nmem_clients_slaves:3\r\n";
        let facts = MemoryFacts::from_info(info);
        assert_eq!((facts.used_bytes, facts.beyond_bytes(), facts.kept_pages_bytes), (1000, 500, 0));
        assert_eq!((facts.clients_bytes, facts.allocator.as_str()), (10, "jemalloc-5.3.0"));
    }
}
