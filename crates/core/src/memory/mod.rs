//! The memory model: what keys will take in a server, before they are there.
//!
//! It predicts `used_memory` with a set of keys less `used_memory` without them: keys, values, hashes and
//! sets, the tables that find them, and the allocator's rounding, for each family and version of server.
//! What servers take besides (buffers of clients, scripts, replication) is not part of it.
//!
//! ```
//! use keyfold_core::memory::{Allocator, BucketCost, Keyspace, Model, Server, ValueShape};
//!
//! let model = Model::for_server(Server::redis(7, 0)).with_allocator(Allocator::SYSTEM);
//! let mut plain = Keyspace::new(&model);
//! let mut bucket = BucketCost::default();
//! for id in 0..100_i64 {
//!     plain.add_string(12_u64, ValueShape::Integer(1 << 30), false);
//!     bucket.add(&model, ValueShape::Integer(id), ValueShape::Integer(1 << 30));
//! }
//! assert_eq!(plain.total_bytes(), 100 * (32 + 16 + 16) + 128 * 8);
//! assert_eq!(model.hash_bytes(4, &bucket, false), 32 + 8 + 16 + 896);
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `server.rs` | the sizes of each version's structures, with their sources |
//! | `allocator.rs` | jemalloc's size classes |
//! | `sds.rs`, `packed.rs` | strings; listpacks and ziplists, byte for byte |
//! | `table.rs` | dicts and hashtables, also while they grow |
//! | `key.rs`, `hash.rs`, `set.rs`, `sorted_set.rs` | what one key takes |
//! | `collection.rs` | the same of sets and hashes whose members are at hand |
//! | `usage.rs` | what `MEMORY USAGE` says of it, and what it leaves out |
//! | `keyspace.rs`, `placed.rs` | sums over many keys: as they are, and as a layout places them |
//! | `slots.rs` | in cluster mode: how many keys the slots have, and so how large the slots' tables are |
//!
//! # In cluster mode
//!
//! A server in cluster mode also has to find the keys of a slot. Redis 7.0 and 7.2 link them: 16 bytes more in the entry
//! of each key. Redis from 7.4 on and Valkey from 8.0 on have a table for each slot that has keys, and one for each slot
//! that has expiring keys: a head each, and buckets that grow by powers of two for each slot apart. So it counts how many
//! keys lie in which slot. Where keys are given by their names, their slots are counted; where only a number of keys is
//! given, they are taken to spread over the 16,384 slots by chance; and what a caller knows of how full slots are it can say
//! ([`SlotFill`]). Random ids spread by chance. Keys that share a hash tag share a slot, and neighbouring numbers spread less
//! evenly than chance has it (CRC-16 is linear): of 40,000 `user:1000000` and on, 30 % of the slots have none, not 9 %, of
//! 100,000 1.6 %, not 0.2 %. Meant is a node that owns all slots, or several that share them ([`Model::over_nodes`]), which
//! makes no difference where tables are by slot. The tables of slots that an empty node has are not the keys'.
//!
//! Every number was compared with servers (`docs/memory-model.md`, written by `make memory-model`).

mod allocator;
mod collection;
mod hash;
mod in_parts;
mod key;
mod keyspace;
mod packed;
mod placed;
mod sds;
mod server;
mod set;
mod shape;
mod slots;
mod sorted_set;
mod table;
#[cfg(test)]
mod tests;
mod usage;

pub use allocator::Allocator;
pub use hash::BucketCost;
pub use in_parts::PartsCost;
pub use keyspace::{KeyName, Keyspace};
pub use placed::Placed;
pub use server::{Family, Server, Version, is_cluster_mode};
pub use set::SetCost;
pub use shape::ValueShape;
pub use slots::SlotFill;
pub use sorted_set::SortedSetCost;
pub use usage::Tabled;

use crate::record::SetsAs;
use server::Structures;

/// Up to where hashes and sets stay packed: the server's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `hash-max-listpack-entries` (`hash-max-ziplist-entries` before 7.0).
    pub hash_entries: u64,
    /// `hash-max-listpack-value`, in bytes.
    pub hash_value_bytes: u64,
    /// `set-max-listpack-entries`.
    pub set_entries: u64,
    /// `set-max-listpack-value`, in bytes.
    pub set_value_bytes: u64,
    /// `set-max-intset-entries`.
    pub intset_entries: u64,
}

/// The servers' defaults (`config.c`; the same in all of them).
impl Default for Limits {
    fn default() -> Self {
        Self { hash_entries: 512, hash_value_bytes: 64, set_entries: 128, set_value_bytes: 64, intset_entries: 512 }
    }
}

/// How one server takes memory.
#[derive(Clone, Debug)]
pub struct Model {
    structures: &'static Structures,
    allocator: Allocator,
    limits: Limits,
    shares_integers: bool,
    in_cluster_mode: bool,
    nodes: u64,
    /// Other keys that are there, and how many of them expire.
    beside: (u64, u64),
}

impl Model {
    /// The model of a server with its default settings and the allocator of official builds.
    pub fn for_server(server: Server) -> Self {
        Self {
            structures: server.structures(),
            allocator: Allocator::default(),
            limits: Limits::default(),
            shares_integers: true,
            in_cluster_mode: false,
            nodes: 1,
            beside: (0, 0),
        }
    }

    /// How it packs small sets.
    pub fn sets_as(&self) -> SetsAs {
        if self.structures.packs_sets { SetsAs::Sets } else { SetsAs::Hashes }
    }

    /// With this allocator.
    #[must_use]
    pub fn with_allocator(self, allocator: Allocator) -> Self {
        Self { allocator, ..self }
    }

    /// With these limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Whether values from 0 to 9999 are shared, as they are unless there is a `maxmemory` with an LRU or LFU
    /// policy (`object.c`, `MAXMEMORY_FLAG_NO_SHARED_INTEGERS`). Valkey from 8.1 on never shares them.
    #[must_use]
    pub fn with_shared_integers(self, shares_integers: bool) -> Self {
        Self { shares_integers, ..self }
    }

    /// Whether the server is a node of a cluster (`cluster-enabled`), which finds keys by slot.
    #[must_use]
    pub fn in_cluster_mode(self, in_cluster_mode: bool) -> Self {
        Self { in_cluster_mode, ..self }
    }

    /// With the keys spread evenly over the primaries of a cluster, so many: what all of them take together. Where a table
    /// is of all slots, each of them has one.
    #[must_use]
    pub fn over_nodes(self, nodes: usize) -> Self {
        Self { nodes: nodes.max(1) as u64, ..self }
    }

    /// With so many other keys on the server, `expiring` of which expire: where tables are by slot, those of the keys cost
    /// what they add to those of the others, whose slots chance has.
    #[must_use]
    pub fn beside(self, keys: u64, expiring: u64) -> Self {
        Self { beside: (keys, expiring), ..self }
    }

    /// Whether the server is a node of a cluster.
    pub fn is_in_cluster_mode(&self) -> bool {
        self.in_cluster_mode
    }

    /// The allocator that it is of.
    pub fn allocator(&self) -> Allocator {
        self.allocator
    }

    fn usable(&self, bytes: u64) -> u64 {
        self.allocator.usable_bytes(bytes)
    }
}
