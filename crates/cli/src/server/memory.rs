//! How a server takes memory: its version, its allocator and its settings, as the memory model wants them.

use anyhow::Context;
use keyfold_core::memory::{self, Allocator, Limits, Model};

use super::{Server, listpack};

/// What a prediction for a server needs to know of it.
#[derive(Clone, Debug)]
pub(crate) struct MemoryFacts {
    pub(crate) server: memory::Server,
    /// With the server's allocator and settings.
    pub(crate) model: Model,
    pub(crate) limits: Limits,
    /// What the server didn't tell, and what was taken instead.
    pub(crate) taken: Vec<String>,
}

/// Asks the server. `assumed` stands in for settings where CONFIG is blocked, and wins where it isn't.
pub(crate) fn ask(server: &mut Server, assumed: &[(String, u64)]) -> anyhow::Result<MemoryFacts> {
    let mut taken = Vec::new();
    let info: String = server.ask(redis::cmd("INFO").arg("server"))?;
    let which = memory::Server::from_info(&info).context("the server doesn't say which version it is")?;
    if !which.is_measured() {
        taken.push(format!("the memory model was not measured against {which}; that of the nearest version is taken"));
    }
    let stats: anyhow::Result<String> = server.ask(redis::cmd("MEMORY").arg("MALLOC-STATS"));
    let allocator = stats.ok().and_then(|stats| Allocator::from_malloc_stats(&stats)).unwrap_or_else(|| {
        taken.push("the server doesn't tell its allocator; the jemalloc of official builds is taken".to_owned());
        Allocator::default()
    });
    let default = Limits::default();
    let mut setting = |name: &str, default: u64| {
        listpack::setting(server, name, assumed).unwrap_or_else(|| {
            taken.push(format!("the server doesn't tell its {name}; the default, {default}, is taken (--assume)"));
            default
        })
    };
    let limits = Limits {
        hash_entries: setting(listpack::ENTRIES, default.hash_entries),
        hash_value_bytes: setting(listpack::VALUE, default.hash_value_bytes),
        ..default
    };
    let model = Model::for_server(which)
        .with_allocator(allocator)
        .with_limits(limits)
        .with_shared_integers(!evicts_by_use(server)?);
    Ok(MemoryFacts { server: which, model, limits, taken })
}

/// Whether the server evicts by LRU or LFU: then it doesn't share small integers.
fn evicts_by_use(server: &mut Server) -> anyhow::Result<bool> {
    let info: String = server.ask(redis::cmd("INFO").arg("memory"))?;
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end);
    let limited = field("maxmemory").is_some_and(|bytes| bytes != "0");
    let policy = field("maxmemory_policy").unwrap_or("noeviction");
    Ok(limited && (policy.ends_with("lru") || policy.ends_with("lfu")))
}
