//! What `MEMORY USAGE` says of hashes, sets and sorted sets, and what they take besides.
//!
//! It adds up what lies in the key, and for some parts takes their size as they are declared, not what the allocator gives for
//! them, or counts what isn't there.

use super::Model;
use super::server::{DICT_ENTRY, KeyShape, OBJECT, TableKind};
use super::sorted_set::SKIPLIST_WITH_HEAD;
use super::table;

/// What is a table once it is large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tabled {
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
}

impl Model {
    /// What it leaves out of the key and the object of anything but a string: what the allocator rounds an entry of the table of
    /// keys up to (Redis `object.c`, `memoryCommand`: `sizeof(dictEntry)`), and in Valkey 8.1 the key that lies in the object
    /// (`objectComputeSize`: `sizeof(*o)`).
    pub fn unsaid_key_bytes(&self, key_len: u64, has_expiry: bool) -> u64 {
        if self.structures.usage_leaves_out_key {
            return self.object_key_bytes(key_len, has_expiry) - OBJECT;
        }
        self.unsaid_entry_bytes()
    }

    /// What it leaves out of a table of so many elements, and of a skiplist's head in Valkey 9.1 (`zslGetAllocSize`); below 0 where it counts more than there is: an entry for each member of
    /// a set, where most have none (Redis 7.2 and later `object.c`, `dictEntryMemUsage`).
    pub fn unsaid_table_bytes(&self, of: Tabled, elements: u64) -> i64 {
        let kind = match of {
            Tabled::Hash => self.structures.hash_table.kind,
            Tabled::Set => self.structures.set_table.kind,
            Tabled::SortedSet => self.sorted_set_table(),
        };
        let bytes = |kind| table::settled_bytes(kind, self.allocator, elements);
        let (said, is) = match kind {
            TableKind::Entries => (elements * DICT_ENTRY, elements * self.usable(DICT_ENTRY)),
            // What bare keys have more than a table of entries, which aren't counted there, is what links them.
            TableKind::BareKeys if self.structures.key == KeyShape::Apart => {
                (elements * DICT_ENTRY, bytes(TableKind::BareKeys) - bytes(TableKind::Entries))
            }
            TableKind::BareKeys | TableKind::Buckets => (0, 0),
        };
        let head = match of {
            Tabled::SortedSet if self.structures.nodes_have_members => {
                self.usable(SKIPLIST_WITH_HEAD) - SKIPLIST_WITH_HEAD
            }
            Tabled::Hash | Tabled::Set | Tabled::SortedSet => 0,
        };
        (is + head).cast_signed() - said.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Allocator, Server};
    use super::*;

    #[test]
    fn what_is_rounded_up_or_not_there_is_known() {
        let model = |server| Model::for_server(server).with_allocator(Allocator::SYSTEM);
        let redis = model(Server::redis(8, 0));
        assert_eq!((redis.unsaid_key_bytes(9, false), redis.unsaid_table_bytes(Tabled::Hash, 1000)), (8, 8000));
        // 1,000 in 1,024 buckets: 361 of them are not the first in theirs, and have an entry of 16 bytes.
        let set = redis.unsaid_table_bytes(Tabled::Set, 1000);
        assert!((-18_300..-18_100).contains(&set), "{set}");
        let valkey = model(Server::valkey(8, 1));
        assert_eq!((valkey.unsaid_key_bytes(9, false), valkey.unsaid_table_bytes(Tabled::Set, 1000)), (16, 0));
        let valkey = model(Server::valkey(9, 1));
        assert_eq!((valkey.unsaid_key_bytes(9, false), valkey.unsaid_table_bytes(Tabled::SortedSet, 9)), (0, 112));
        assert_eq!(Model::for_server(Server::redis(7, 0)).unsaid_key_bytes(9, false), 0);
    }
}
