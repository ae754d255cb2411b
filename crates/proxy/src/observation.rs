//! What the servers say of their memory and of the limits that keep buckets small, asked from time to time for operators.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use keyfold_core::admin::move_progress::{self, MoveProgress};
use keyfold_core::memory::Limits;
use keyfold_core::resp::{Reply, write_command};
use keyfold_core::server_info::{info_field, info_text};

use crate::order::Task;
use crate::upstream::Errand;

/// How often they are asked.
const EVERY: Duration = Duration::from_secs(15);

/// How often it is asked how far a move has come: as often as the tool says so.
const MOVES_EVERY: Duration = Duration::from_millis(move_progress::WRITE_EVERY_MS);

/// The settings that are asked for. Servers before Redis 7.0 answer to the older name beside it.
const LIMITS: &[u8] = b"hash-max-listpack-*";

/// What each server said last; one that is away, or may not be asked, says nothing. And how far a move has come.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    servers: Mutex<BTreeMap<String, Observed>>,
    /// With when that was heard.
    move_progress: Mutex<Option<(MoveProgress, Instant)>>,
}

/// What one server said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// `redis` or `valkey`.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) used_memory: Option<u64>,
    pub(crate) max_memory: Option<u64>,
    pub(crate) listpack_entries: Option<u64>,
    pub(crate) listpack_value: Option<u64>,
}

impl Observations {
    /// By where they are.
    pub(crate) fn all(&self) -> BTreeMap<String, Observed> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How far the move that is open has come; none where none is, or nobody says.
    pub(crate) fn move_progress(&self) -> Option<MoveProgress> {
        let (progress, heard) = (*self.move_progress.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(progress.after(u64::try_from(heard.elapsed().as_millis()).unwrap_or(u64::MAX)))
    }

    /// Up to where hashes stay packed on all of them, as far as they said so.
    pub(crate) fn limits(&self) -> Limits {
        let all = self.all();
        let (default, known) =
            (Limits::default(), |limit: fn(&Observed) -> Option<u64>| all.values().filter_map(limit).min());
        Limits {
            hash_entries: known(|one| one.listpack_entries).unwrap_or(default.hash_entries),
            hash_value_bytes: known(|one| one.listpack_value).unwrap_or(default.hash_value_bytes),
            ..default
        }
    }

    fn set(&self, all: BTreeMap<String, Observed>) {
        *self.servers.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }
}

/// The task that asks how far a move has come, while one is open.
pub(crate) fn observe_move(observations: Arc<Observations>) -> Task {
    Box::new(|errand| Box::pin(observe_moves(errand.in_database(0), observations)) as Pin<Box<dyn Future<Output = ()>>>)
}

async fn observe_moves(mut errand: Errand, observations: Arc<Observations>) {
    loop {
        tokio::time::sleep(MOVES_EVERY).await;
        let is_open = errand.with_env(|env| env.layout.moving().next().is_some());
        let heard = match is_open {
            true => errand.ask(move_progress::ask).await,
            false => Ok(Vec::new()),
        };
        // What was heard last stands where the server is away: it grows old.
        if let Ok(replies) = heard {
            let heard = move_progress::read(&replies).map(|progress| (progress, Instant::now()));
            *observations.move_progress.lock().unwrap_or_else(PoisonError::into_inner) = heard;
        }
    }
}

/// The task that asks, again and again.
pub(crate) fn observe(observations: Arc<Observations>) -> Task {
    Box::new(|errand| Box::pin(observe_for_ever(errand, observations)) as Pin<Box<dyn Future<Output = ()>>>)
}

async fn observe_for_ever(errand: Errand, observations: Arc<Observations>) {
    let asking = errand.unchecked();
    let mut errands = BTreeMap::new();
    loop {
        let nodes = asking.nodes();
        errands.retain(|node, _| nodes.contains(node));
        let mut all = BTreeMap::new();
        for node in nodes {
            let errand = errands.entry(node).or_insert_with(|| asking.another().at_node(node));
            match ask(errand).await {
                Some(observed) => drop(all.insert(errand.address(), observed)),
                // The next time on a new connection.
                None => drop(errands.remove(&node)),
            }
        }
        observations.set(all);
        tokio::time::sleep(EVERY).await;
    }
}

/// Asks one server; none where it is away.
async fn ask(errand: &mut Errand) -> Option<Observed> {
    let questions = |wire: &mut Vec<u8>| {
        write_command(wire, &[b"INFO", b"server"]);
        write_command(wire, &[b"INFO", b"memory"]);
        write_command(wire, &[b"CONFIG", b"GET", LIMITS]);
        3
    };
    let replies = errand.ask(questions).await.ok()?;
    let [server, memory, limits] = &replies[..] else { return None };
    Some(read(&info_text(server), &info_text(memory), limits))
}

fn read(server: &str, memory: &str, limits: &[u8]) -> Observed {
    let (name, version) = match info_field(server, "valkey_version") {
        Some(version) => ("valkey", version),
        None => ("redis", info_field(server, "redis_version").unwrap_or_default()),
    };
    let number = |name| info_field(memory, name)?.parse().ok();
    let mut observed = Observed {
        name: name.to_owned(),
        version: version.to_owned(),
        used_memory: number("used_memory"),
        max_memory: number("maxmemory"),
        ..Observed::default()
    };
    if let Ok(Reply::Array(mut pairs)) = Reply::parse(limits) {
        while let (Some(name), Some(value)) = (pairs.next().and_then(Reply::bytes), pairs.next().and_then(Reply::bytes))
        {
            let value = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            match name {
                b"hash-max-listpack-entries" => observed.listpack_entries = value,
                b"hash-max-listpack-value" => observed.listpack_value = value,
                _ => {}
            }
        }
    }
    observed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_what_they_are_and_take() {
        let server = "# Server\r\nserver_name:valkey\r\nredis_version:7.2.4\r\nvalkey_version:8.1.1\r\n";
        let memory = "# Memory\r\nused_memory:1234\r\nused_memory_human:1K\r\nmaxmemory:0\r\n";
        let limits =
            b"*4\r\n$23\r\nhash-max-listpack-value\r\n$3\r\n128\r\n$25\r\nhash-max-listpack-entries\r\n$3\r\n512\r\n";
        let observed = read(server, memory, limits);
        assert_eq!((observed.name.as_str(), observed.version.as_str()), ("valkey", "8.1.1"));
        assert_eq!((observed.used_memory, observed.max_memory), (Some(1234), Some(0)));
        assert_eq!((observed.listpack_entries, observed.listpack_value), (Some(512), Some(128)));
        let refused = read("redis_version:7.0.15\r\n", "", b"-NOPERM no\r\n");
        assert_eq!((refused.name.as_str(), refused.used_memory, refused.listpack_value), ("redis", None, None));
    }

    #[test]
    fn the_lowest_limits_hold() {
        let observations = Observations::default();
        assert_eq!(observations.limits(), Limits::default());
        let one = |entries| Observed { listpack_entries: Some(entries), ..Observed::default() };
        observations.set([("a:1".to_owned(), one(512)), ("b:2".to_owned(), one(128))].into());
        assert_eq!(observations.limits().hash_entries, 128);
    }
}
