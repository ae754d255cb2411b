//! The settings that keep buckets small, and whether they suffice for a layout.
//!
//! One field or value over `hash-max-listpack-value`, or one entry over `hash-max-listpack-entries`, makes a
//! bucket a hashtable for good, and it saves nothing then. Before Redis 7.0 both were named `ziplist`.
//! keyfold never changes them on a server that it was pointed to.

use std::fmt;

use keyfold_core::layout::{LISTPACK_ENTRIES as ENTRIES, LISTPACK_VALUE as VALUE, Layout, ListpackNeed};

use crate::connection::Server;
use crate::nodes::Nodes;
use crate::replicas;

/// What servers have them at by themselves: Redis 6.2 to 8 and Valkey to 9.1 (`config.c`).
const DEFAULT_VALUE: u64 = 64;
const DEFAULT_ENTRIES: u64 = 512;

/// A need that the server's setting doesn't meet, or that nobody can tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    need: ListpackNeed,
    /// The name that this server knows the setting by.
    name: String,
    /// None where CONFIG is blocked.
    has: Option<u64>,
}

/// The needs that the server's settings don't meet. `assumed` stands in where CONFIG is blocked, and wins
/// where it isn't.
pub fn shortfalls(server: &mut Server, layout: &Layout, assumed: &[(String, u64)]) -> Vec<Shortfall> {
    let check = |need: ListpackNeed| {
        let assumed = assumed.iter().rev().find(|(name, _)| name == need.setting);
        let (name, has) = match assumed {
            Some((name, value)) => (name.clone(), Some(*value)),
            None => read(server, need.setting),
        };
        let is_short = has.map_or(!need.is_met_by_default(), |has| has < need.least);
        is_short.then_some(Shortfall { need, name, has })
    };
    layout.listpack_needs().into_iter().filter_map(check).collect()
}

/// What falls short at replicas that tell, with the replica: each may be a primary at any moment, and has its own memory
/// until then. Those that can't be reached from here are left out.
///
/// # Errors
/// A server doesn't say which replicas it has.
pub fn shortfalls_at_replicas(
    nodes: &mut Nodes,
    layout: &Layout,
    assumed: &[(String, u64)],
) -> anyhow::Result<Vec<String>> {
    if layout.listpack_needs().is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for replica in replicas::connect(nodes)? {
        let address = &replica.target.address;
        match replica.server {
            Ok(mut server) => {
                let told = shortfalls(&mut server, layout, assumed).into_iter().filter(|short| short.has.is_some());
                found.extend(told.map(|short| format!("the replica {address}: {short}")));
            }
            Err(error) => tracing::debug!("the replica {address} can't be asked for its limits: {error:#}"),
        }
    }
    Ok(found)
}

/// What `layout` needs of hash-max-listpack-entries and -value; 0 where it needs nothing.
pub fn least(layout: &Layout) -> (u64, u64) {
    let needs = layout.listpack_needs();
    let of = |setting| needs.iter().filter(|need| need.setting == setting).map(|need| need.least).max().unwrap_or(0);
    (of(ENTRIES), of(VALUE))
}

/// The server's hash-max-listpack-entries and -value, where it tells.
pub fn limits(server: &mut Server) -> (Option<u64>, Option<u64>) {
    (read(server, ENTRIES).1, read(server, VALUE).1)
}

/// The server's hash-max-listpack-entries, where it tells; `assumed` wins.
pub fn entries_limit(server: &mut Server, assumed: &[(String, u64)]) -> Option<u64> {
    let assumed = assumed.iter().rev().find(|(name, _)| name == ENTRIES);
    assumed.map(|(_, value)| *value).or_else(|| read(server, ENTRIES).1)
}

/// The settings that are higher than a server has them by itself, such as `hash-max-listpack-value 2048`, each with the
/// command that puts it back.
pub fn above_default(server: &mut Server) -> Vec<(String, String)> {
    let above = [(ENTRIES, DEFAULT_ENTRIES), (VALUE, DEFAULT_VALUE)].into_iter().filter_map(|(setting, default)| {
        let (name, has) = read(server, setting);
        let has = has.filter(|has| *has > default)?;
        Some((format!("{name} {has}"), format!("CONFIG SET {name} {default}")))
    });
    above.collect()
}

/// The setting's name on this server, and its value where the server tells.
pub(crate) fn read(server: &mut Server, setting: &str) -> (String, Option<u64>) {
    match server.setting(setting) {
        Ok(Some((name, value))) => (name, value.parse().ok()),
        _ => (setting.to_owned(), None),
    }
}

/// Raises what falls short, on a server of keyfold's own; what was set.
pub fn raise(server: &mut Server, layout: &Layout) -> anyhow::Result<Vec<String>> {
    let mut raised = Vec::new();
    for short in shortfalls(server, layout, &[]) {
        let least = short.need.least.to_string();
        server.ask::<()>(&[b"CONFIG", b"SET", short.name.as_bytes(), least.as_bytes()])?;
        raised.push(format!("{} {}", short.name, short.need.least));
    }
    Ok(raised)
}

impl Shortfall {
    /// Whether the server told what it has, so that it may be raised there.
    pub fn is_told(&self) -> bool {
        self.has.is_some()
    }

    /// Whether the other is of the same setting.
    pub fn is_of_setting(&self, other: &Self) -> bool {
        self.need.setting == other.need.setting
    }

    /// `hash-max-listpack-value from 64 to 2048`; what the server has is left out where it didn't tell.
    pub fn change(&self) -> String {
        let from = self.has.map_or_else(String::new, |has| format!(" from {has}"));
        format!("{}{from} to {}", self.name, self.need.least)
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { need, name, has } = self;
        let ListpackNeed { setting, least, keys, because } = need;
        match has {
            Some(has) => write!(f, "{}. On the server: {}", need.unmet(name, *has), need.mend(name)),
            None => write!(
                f,
                "the server doesn't tell its {setting}, and `{keys}` needs {least} ({because}); check it where the \
                 server is managed, and say --assume {setting}={least}"
            ),
        }
    }
}
