//! What is known of the server that wrote a dump: what the dump says, and the defaults of that version for what it doesn't.

use keyfold_core::memory::{Allocator, Limits, Model, Server};
use keyfold_rdb::{EvictsBy, Head};
use keyfold_report::number::bytes;
use keyfold_server::memory::{ServerModel, assumed_allocator};
use keyfold_survey::uses::Uses;

use crate::origin::place::{ClusterMode, DumpPlace};
use crate::origin::seen::{DumpHead, Known};

/// What is known before a walk.
pub(super) fn known(
    place: &DumpPlace,
    head: &Head,
    file_bytes: u64,
    assumed: &[(String, u64)],
    cluster: ClusterMode,
) -> Known {
    let mut guesses = Vec::new();
    let (server, number) = server(head, &mut guesses);
    let limits = limits(server, assumed, &mut guesses);
    let allocator = allocator(assumed, &mut guesses);
    let in_cluster = match cluster {
        ClusterMode::Auto => head.has_slots,
        ClusterMode::Yes => true,
        ClusterMode::No => false,
    };
    let model = Model::for_server(server)
        .with_allocator(allocator)
        .with_limits(limits)
        .with_shared_integers(head.evicts_by.is_none())
        .in_cluster_mode(in_cluster);
    let flavor = if head.is_valkey { "Valkey" } else { "Redis" };
    Known {
        server: format!("{flavor} {number}"),
        flavor,
        address: place.to_string(),
        facts: ServerModel { server, limits, model, guesses },
        total: 0,
        databases: 0,
        nodes: Vec::new(),
        eviction: None,
        uses: Uses::default(),
        notes: notes(head, in_cluster),
        dump: Some(DumpHead {
            format: head.format,
            written_at: head.written_at,
            used_bytes: head.used_memory,
            file_bytes,
            expired: 0,
        }),
    }
}

/// What is to be known of the dump.
fn notes(head: &Head, in_cluster: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let by_use = head.evicts_by.map(|by| match by {
        EvictsBy::Time => "when keys were used last, so its maxmemory-policy is an lru one",
        EvictsBy::Frequency => "how often keys are used, so its maxmemory-policy is an lfu one",
    });
    notes.extend(by_use.map(|by| format!("the dump says {by}; whether there is a maxmemory it doesn't say")));
    notes.extend(head.used_memory.map(|used| {
        format!("the server's used_memory was {} when it wrote the dump, whatever else it is for", bytes(used as f64))
    }));
    if head.is_of_append_only_file {
        notes.push(
            "the dump is the beginning of an append-only file: what was written since is not in it, and not counted"
                .to_owned(),
        );
    }
    if in_cluster {
        notes.push("the dump is of one node of a cluster: what is said is of its keys alone".to_owned());
    }
    notes
}

/// Which server wrote it, and its version in full.
fn server(head: &Head, guesses: &mut Vec<String>) -> (Server, String) {
    let number = head.server.clone().unwrap_or_default();
    let name = if head.is_valkey { "valkey" } else { "redis" };
    let server = Server::from_info(&format!("{name}_version:{number}")).unwrap_or_else(|| {
        let taken = if head.is_valkey { Server::valkey(9, 1) } else { Server::redis(7, 0) };
        guesses.push(format!("the dump doesn't say which version wrote it; taken as {taken}"));
        taken
    });
    if !server.is_measured() {
        guesses
            .push(format!("the memory model was never measured against {server}; that of the nearest version is used"));
    }
    (server, number)
}

fn limits(server: Server, assumed: &[(String, u64)], guesses: &mut Vec<String>) -> Limits {
    let mut limits = Limits::default();
    let settings = [
        ("hash-max-listpack-entries", &mut limits.hash_entries),
        ("hash-max-listpack-value", &mut limits.hash_value_bytes),
    ];
    let mut untold = Vec::new();
    for (name, limit) in settings {
        match assumed.iter().rev().find(|(assumed, _)| assumed == name) {
            Some((_, value)) => *limit = *value,
            None => untold.push(format!("{name} = {limit}")),
        }
    }
    if !untold.is_empty() {
        guesses.push(format!(
            "a dump doesn't tell the server's settings, how it evicts, or who connects; taken as {server} has it by \
             default, {}; say --assume otherwise",
            untold.join(", ")
        ));
    }
    limits
}

fn allocator(assumed: &[(String, u64)], guesses: &mut Vec<String>) -> Allocator {
    assumed_allocator(assumed).unwrap_or_else(|| {
        guesses.push(
            "a dump doesn't tell the allocator; taken as the bundled jemalloc, and for a server of Debian's or Ubuntu's \
             packages say --assume jemalloc-quantum=16"
                .to_owned(),
        );
        Allocator::BUNDLED
    })
}
