//! How a server takes memory, and how much it has taken.

use std::iter::Sum;
use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::memory::{Allocator, Limits, Model, is_cluster_mode};
use keyfold_survey::eviction::Eviction;

use crate::connection::Server;
use crate::info::Info;
use crate::listpack;
use crate::nodes::Nodes;

/// What a model is of, and from whom that is known.
pub struct ServerModel {
    /// Which server it is.
    pub server: keyfold_core::memory::Server,
    /// Up to where its small collections are packed.
    pub limits: Limits,
    /// Of its memory.
    pub model: Model,
    /// What the server did not tell, and what was taken instead.
    pub guesses: Vec<String>,
}

/// What the server says of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// `used_memory`.
    pub used_bytes: u64,
    /// Of that, what keys take: without what the server had when it started, what clients, scripts, replication
    /// and the append-only file take by its own account, and the histograms of its commands' latencies.
    pub keys_bytes: u64,
}

impl Sum for Measured {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let none = Self { used_bytes: 0, keys_bytes: 0 };
        all.fold(none, |sum, one| Self {
            used_bytes: sum.used_bytes + one.used_bytes,
            keys_bytes: sum.keys_bytes + one.keys_bytes,
        })
    }
}

/// The histogram that a server keeps of each command's latencies, once it was sent (Redis 7.0 `server.c`,
/// `latencyRecord`: 3,072 counters of 8 bytes, their head, and the allocator's rounding).
const HISTOGRAM_BYTES: u64 = 24_688;
/// `used_memory` is settled where it is the same over so long.
const SETTLED_AFTER: Duration = Duration::from_millis(200);
const SETTLES_WITHIN: Duration = Duration::from_secs(20);
/// What INFO memory counts in `used_memory` and keys have no part in.
const NOT_KEYS: [&str; 10] = [
    "used_memory_startup",
    "mem_clients_normal",
    "mem_clients_slaves",
    "mem_replication_backlog",
    "mem_total_replication_buffers",
    "mem_aof_buffer",
    "mem_cluster_links",
    "used_memory_scripts",
    "used_memory_functions",
    "mem_overhead_db_hashtable_rehashing",
];

/// What `used` reads of a server, once it no longer changes: connections' buffers and tables that grow settle.
pub fn settled(mut used: impl FnMut() -> anyhow::Result<u64>) -> anyhow::Result<u64> {
    let deadline = Instant::now() + SETTLES_WITHIN;
    let mut before = None;
    loop {
        let now = used()?;
        if before == Some(now) || Instant::now() > deadline {
            return Ok(now);
        }
        before = Some(now);
        thread::sleep(SETTLED_AFTER);
    }
}

/// Asks the server all that its model depends on; `assumed` settings win.
pub fn model(server: &mut Server, assumed: &[(String, u64)]) -> anyhow::Result<ServerModel> {
    let info = server.info("server")?;
    let mut guesses = Vec::new();
    let which = keyfold_core::memory::Server::from_info(info.text()).unwrap_or_else(|| {
        guesses.push("the server's version can't be read; taken as Redis 7.0".to_owned());
        keyfold_core::memory::Server::redis(7, 0)
    });
    if !which.is_measured() {
        guesses
            .push(format!("the memory model was never measured against {which}; that of the nearest version is used"));
    }
    let stats = server.ask::<String>(&[b"MEMORY", b"MALLOC-STATS"]).ok();
    let told = stats.as_deref().and_then(Allocator::from_malloc_stats).or_else(|| assumed_allocator(assumed));
    let allocator = told.unwrap_or_else(|| {
        guesses.push(
            "the server doesn't tell its allocator (MEMORY MALLOC-STATS); taken as the bundled jemalloc".to_owned(),
        );
        Allocator::BUNDLED
    });
    let limits = limits(server, assumed, &mut guesses);
    let memory = server.info("memory")?;
    let policy = memory.field("maxmemory_policy").unwrap_or("noeviction");
    let evicts_by_use = memory.number("maxmemory") > 0 && (policy.contains("lru") || policy.contains("lfu"));
    let model = Model::for_server(which)
        .with_allocator(allocator)
        .with_limits(limits)
        .with_shared_integers(!evicts_by_use)
        .in_cluster_mode(is_cluster_mode(info.text()));
    Ok(ServerModel { server: which, limits, model, guesses })
}

/// The allocator that is assumed: `jemalloc-quantum`, which is no setting of a server.
pub fn assumed_allocator(assumed: &[(String, u64)]) -> Option<Allocator> {
    let (_, quantum_bytes) = assumed.iter().rev().find(|(name, _)| name == "jemalloc-quantum")?;
    Some(Allocator { quantum_bytes: *quantum_bytes, ..Allocator::BUNDLED })
}

/// The same of all servers that hold a keyspace: their memory together, up to where collections are packed on each.
pub fn model_of_all(nodes: &mut Nodes, assumed: &[(String, u64)]) -> anyhow::Result<ServerModel> {
    let mut facts = model(nodes.first(), assumed)?;
    let first = facts.limits;
    let servers = nodes.servers();
    for server in &mut servers[1..] {
        let limits = limits(server, assumed, &mut Vec::new());
        if limits != first {
            let address = server.address();
            facts.guesses.push(format!(
                "{address} packs hashes and sets up to other limits than the first node; what is planned goes by the \
                 least of all"
            ));
        }
        facts.limits = least(facts.limits, limits);
    }
    facts.model = facts.model.with_limits(facts.limits).over_nodes(servers.len());
    Ok(facts)
}

fn least(one: Limits, other: Limits) -> Limits {
    Limits {
        hash_entries: one.hash_entries.min(other.hash_entries),
        hash_value_bytes: one.hash_value_bytes.min(other.hash_value_bytes),
        set_entries: one.set_entries.min(other.set_entries),
        set_value_bytes: one.set_value_bytes.min(other.set_value_bytes),
        intset_entries: one.intset_entries.min(other.intset_entries),
    }
}

fn limits(server: &mut Server, assumed: &[(String, u64)], guesses: &mut Vec<String>) -> Limits {
    let mut limits = Limits::default();
    let settings: [(&str, &mut u64); 5] = [
        ("hash-max-listpack-entries", &mut limits.hash_entries),
        ("hash-max-listpack-value", &mut limits.hash_value_bytes),
        ("set-max-listpack-entries", &mut limits.set_entries),
        ("set-max-listpack-value", &mut limits.set_value_bytes),
        ("set-max-intset-entries", &mut limits.intset_entries),
    ];
    let mut untold = Vec::new();
    for (name, limit) in settings {
        if let Some((_, value)) = assumed.iter().rev().find(|(assumed, _)| assumed == name) {
            *limit = *value;
        } else if let Some(value) = listpack::read(server, name).1 {
            *limit = value;
        } else if name.starts_with("hash") {
            untold.push(format!("{name} = {limit}"));
        }
    }
    if !untold.is_empty() {
        guesses.push(format!(
            "the server doesn't tell its settings; taken as {}; say --assume otherwise",
            untold.join(", ")
        ));
    }
    limits
}

/// Asks what the server has taken.
pub fn measured(server: &mut Server) -> anyhow::Result<Measured> {
    let memory = server.info("memory")?;
    // A section that Redis before 7.0 doesn't have.
    let latencies: String = server.ask(&[b"INFO", b"latencystats"]).unwrap_or_default();
    let histograms = latencies.lines().filter(|line| line.starts_with("latency_percentiles_usec_")).count();
    Ok(measure(&memory, histograms as u64))
}

/// How many bytes of keys may come to the server by its `maxmemory` and, to be on the safe side, up to three quarters
/// of its machine; none where it tells neither.
pub fn room_bytes(server: &mut Server) -> anyhow::Result<Option<u64>> {
    let memory = server.info("memory")?;
    let used = memory.number("used_memory");
    let limits = [memory.number("maxmemory"), memory.number("total_system_memory") / 4 * 3];
    let least = limits.into_iter().filter(|limit| *limit > 0).min();
    Ok(least.map(|limit| limit.saturating_sub(used)))
}

/// How the server makes room, if it does, and how many keys it has evicted since it started.
pub fn eviction(server: &mut Server) -> anyhow::Result<Option<(Eviction, u64)>> {
    let memory = server.info("memory")?;
    let policy = memory.field("maxmemory_policy").unwrap_or("noeviction");
    let Some(eviction) = Eviction::of(memory.number("maxmemory"), policy) else { return Ok(None) };
    Ok(Some((eviction, server.info("stats")?.number("evicted_keys"))))
}

fn measure(memory: &Info, histograms: u64) -> Measured {
    let used_bytes = memory.number("used_memory");
    let mut apart: u64 = NOT_KEYS.iter().map(|name| memory.number(name)).sum();
    apart += histograms * HISTOGRAM_BYTES;
    // The backlog is part of the replication buffers where there are both.
    apart -= memory.number("mem_replication_backlog").min(memory.number("mem_total_replication_buffers"));
    Measured { used_bytes, keys_bytes: used_bytes.saturating_sub(apart) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keys_take_is_without_the_rest() {
        let info = "# Memory\r\nused_memory:5000000\r\nused_memory_startup:900000\r\nmem_clients_normal:20000\r\n\
                    mem_replication_backlog:1000\r\nmem_total_replication_buffers:1500\r\n";
        let measured = measure(&Info(info.to_owned()), 2);
        assert_eq!(measured, Measured { used_bytes: 5_000_000, keys_bytes: 4_078_500 - 2 * HISTOGRAM_BYTES });
        assert_eq!(measure(&Info(String::new()), 0).keys_bytes, 0);
    }
}
