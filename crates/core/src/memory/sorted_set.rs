//! What a large sorted set takes: a skiplist, and a table that finds its members.
//!
//! ```text
//! Redis, Valkey 8.0   table ─▶ dictEntry ─▶ sds member ◀─ node: member, score, back, 1 … 32 levels
//! Valkey 8.1          table ─▶ node ─▶ sds member
//! Valkey 9.1 on       table ─▶ node: score, back, levels, member; and the list's first node is its head
//! ```
//! How many levels a node has is chance: each has one more than so many with one chance in four (`ZSKIPLIST_P`).

use super::Model;
use super::sds::{sds_8_bytes, sds_bytes};
use super::server::{DICT_ENTRY, TableKind};
use super::shape::ValueShape;
use super::table;

/// `sizeof(zset)` and `sizeof(zskiplist)` (`server.h`).
const SORTED_SET: u64 = 16;
const SKIPLIST: u64 = 32;
/// `sizeof(zskiplistNode)` without levels, and a level (`server.h`).
const NODE: u64 = 24;
const LEVEL: u64 = 16;
/// `ZSKIPLIST_MAXLEVEL`: what the head of the list has.
const MOST_LEVELS: u64 = 32;
/// Of the node that has its member within it, the pointer that is not there, and the byte that says where the member is.
const POINTER: u64 = 8;
const MEMBER_HEADER_SIZE: u64 = 1;
/// A skiplist that is its own first node (Valkey 9.1 `t_zset.c`, `zslGetAllocSize`).
pub(super) const SKIPLIST_WITH_HEAD: u64 = NODE - POINTER + MOST_LEVELS * LEVEL;
/// Levels that are told apart: one node in 65,536 has more.
const LEVELS_SUMMED: u32 = 8;

/// One sorted set that is a skiplist, as its members come, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SortedSetCost {
    members: u64,
    /// The nodes, and what hangs in the table besides.
    unpacked: f64,
}

impl SortedSetCost {
    /// Counts one more member.
    pub fn add(&mut self, model: &Model, member: ValueShape) {
        self.members += 1;
        self.unpacked += model.sorted_set_member_bytes(member.len());
    }
}

impl Model {
    /// A sorted set that is a skiplist under a key of so many bytes, without its share of the table of keys. On average: how
    /// high nodes are is chance.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a sum of sizes: positive, below 2^53")]
    pub fn sorted_set_bytes(&self, key_len: u64, set: &SortedSetCost, has_expiry: bool) -> u64 {
        let list = match self.structures.nodes_have_members {
            true => self.usable(SKIPLIST_WITH_HEAD),
            false => self.usable(SKIPLIST) + self.usable(NODE + MOST_LEVELS * LEVEL),
        };
        let head = self.usable(SORTED_SET) + list;
        let table = table::settled_bytes(self.sorted_set_table(), self.allocator, set.members);
        let table = self.usable(self.structures.set_table.head) + table;
        self.object_key_bytes(key_len, has_expiry) + head + table + set.unpacked.round() as u64
    }

    pub(super) fn sorted_set_table(&self) -> TableKind {
        match self.structures.hash_table.kind {
            TableKind::Buckets => TableKind::Buckets,
            TableKind::Entries | TableKind::BareKeys => TableKind::Entries,
        }
    }

    fn sorted_set_member_bytes(&self, len: u64) -> f64 {
        if self.structures.nodes_have_members {
            return self.mean_node_bytes(NODE - POINTER + MEMBER_HEADER_SIZE + sds_8_bytes(len));
        }
        let entry = match self.sorted_set_table() {
            TableKind::Buckets => 0,
            TableKind::Entries | TableKind::BareKeys => self.usable(DICT_ENTRY),
        };
        (entry + self.usable(sds_bytes(len))) as f64 + self.mean_node_bytes(NODE)
    }

    /// A node of so many bytes beside its levels.
    fn mean_node_bytes(&self, bytes: u64) -> f64 {
        let (mut mean, mut share) = (0.0, 1.0);
        for levels in 1..LEVELS_SUMMED {
            let higher = share / 4.0;
            mean += (share - higher) * self.usable(bytes + u64::from(levels) * LEVEL) as f64;
            share = higher;
        }
        mean + share * self.usable(bytes + u64::from(LEVELS_SUMMED) * LEVEL) as f64
    }
}
