//! Which server it is, and how that one builds its keys, hashes and sets.
//!
//! Sizes are those of 64-bit builds.

use std::fmt;

use crate::server_info::info_field;

/// Redis or Valkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

/// A server's own version, not the one that Valkey names for compatibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// 8 of 8.1.
    pub major: u32,
    /// 1 of 8.1.
    pub minor: u32,
}

/// A family and a version: what the shape of memory depends on. No patch release has changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    /// Redis or Valkey.
    pub family: Family,
    /// Its version.
    pub version: Version,
}

impl Server {
    /// A Redis of this version.
    pub fn redis(major: u32, minor: u32) -> Self {
        Self { family: Family::Redis, version: Version { major, minor } }
    }

    /// A Valkey of this version.
    pub fn valkey(major: u32, minor: u32) -> Self {
        Self { family: Family::Valkey, version: Version { major, minor } }
    }

    /// Reads the answer to `INFO server`; none where it names neither.
    pub fn from_info(info: &str) -> Option<Self> {
        let (family, text) = match info_field(info, "valkey_version") {
            Some(text) => (Family::Valkey, text),
            None => (Family::Redis, info_field(info, "redis_version")?),
        };
        let mut numbers = text.split('.').map(str::parse);
        let version = Version { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()? };
        Some(Self { family, version })
    }

    /// Whether the model has been measured against this version. Where not, it takes the nearest older one
    /// that it knows, or the oldest.
    pub fn is_measured(self) -> bool {
        [Self::redis(7, 0), Self::redis(8, 0), Self::valkey(8, 0), Self::valkey(8, 1), Self::valkey(9, 1)]
            .contains(&self)
    }

    pub(super) fn structures(self) -> &'static Structures {
        let Version { major, minor } = self.version;
        match (self.family, major, minor) {
            (Family::Redis, ..=6, _) => &REDIS_6_2,
            (Family::Redis, 7, 0..=1) => &REDIS_7_0,
            (Family::Redis, 7, 2..=3) => &REDIS_7_2,
            (Family::Redis, 7, _) => &REDIS_7_4,
            (Family::Redis, ..) => &REDIS_8_0,
            (Family::Valkey, ..=7, _) => &REDIS_7_2,
            (Family::Valkey, 8, 0) => &VALKEY_8_0,
            (Family::Valkey, 8, _) => &VALKEY_8_1,
            (Family::Valkey, 9, 0) => &VALKEY_9_0,
            (Family::Valkey, ..) => &VALKEY_9_1,
        }
    }
}

/// Whether the answer to `INFO server` is of a node of a cluster: what [`Model::in_cluster_mode`](super::Model::in_cluster_mode)
/// wants to know. Valkey calls it `server_mode`, and `redis_mode` too unless it is told not to.
pub fn is_cluster_mode(info: &str) -> bool {
    ["redis_mode", "server_mode"].into_iter().any(|name| info_field(info, name) == Some("cluster"))
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Family::Redis => "Redis",
            Family::Valkey => "Valkey",
        };
        write!(f, "{family} {}.{}", self.version.major, self.version.minor)
    }
}

/// How a server builds what it holds.
#[derive(Debug)]
pub(super) struct Structures {
    /// Where the key's own bytes are, and what the main table points to.
    pub(super) key: KeyShape,
    /// What small hashes are packed in.
    pub(super) packing: Packing,
    /// Whether small sets of other than integers are packed as well.
    pub(super) packs_sets: bool,
    /// The table of one large hash.
    pub(super) hash_table: TableShape,
    /// The table of one large set.
    pub(super) set_table: TableShape,
    /// What cluster mode makes of the tables of keys and of expiries.
    pub(super) in_cluster: ClusterTables,
    /// Whether a node of a sorted set's skiplist has the member within it, and the list its first node.
    pub(super) nodes_have_members: bool,
    /// Whether `MEMORY USAGE` leaves out a key that lies in the object.
    pub(super) usage_leaves_out_key: bool,
}

/// How a server in cluster mode finds keys, and which of them are in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterTables {
    /// One table for all slots, as without a cluster. The keys of a slot are linked with each other, and this is what
    /// that adds to the entry of each key, in bytes.
    Linked(u64),
    /// A table for each slot, made with the slot's first key and freed with its last: the bytes of its head, with what
    /// the store of tables keeps beside it.
    BySlot {
        /// Of the table of keys.
        keys: u64,
        /// Of the table of expiries.
        expiries: u64,
    },
}

/// Where a key's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyShape {
    /// A dictEntry, the key as an sds of its own, the value as an object of its own.
    Apart,
    /// The key within the dictEntry, the value as an object of its own.
    InEntry,
    /// All in the object: key, expiry, and a string value where it fits.
    InObject(ObjectShape),
}

/// How an object with its key in it is laid out (Valkey 8.1 and later, `object.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectShape {
    /// The object up to which a value is embedded, in bytes.
    pub(super) embed_up_to: u64,
    /// The object's own bytes where the value is embedded; else [`OBJECT`].
    pub(super) embedding: u64,
}

/// What a small hash is packed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// `ziplist.c`, before Redis 7.0.
    Ziplist,
    /// `listpack.c`.
    Listpack,
}

/// The table of one hash or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableShape {
    /// The table's head, in bytes.
    pub(super) head: u64,
    pub(super) kind: TableKind,
    /// How many buckets move to the grown table with each new entry.
    pub(super) steps_per_insert: u32,
}

/// What hangs in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableKind {
    /// A dictEntry each.
    Entries,
    /// The members themselves, and an entry only where several share a bucket.
    BareKeys,
    /// Valkey's own hashtable: up to seven members in a bucket of 64 bytes.
    Buckets,
}

/// `sizeof(robj)` (`server.h`; Redis 6.2 to 8.0, and Valkey where no value is embedded).
pub(super) const OBJECT: u64 = 16;
/// `sizeof(dictEntry)`: key, value, next (`dict.h` in Redis 6.2 and 7.0, `dict.c` later).
pub(super) const DICT_ENTRY: u64 = 24;
/// `sizeof(dictEntryNoValue)`: key, next (Redis 7.2 `dict.c`).
pub(super) const DICT_ENTRY_WITHOUT_VALUE: u64 = 16;
/// `offsetof(embeddedDictEntry, key_buf)`: value, next, a byte for the header's size (Valkey 8.0 `dict.c`).
pub(super) const DICT_ENTRY_EMBEDDING: u64 = 17;
/// The expiry in an object (Valkey 8.1 `object.c`, `createObjectWithKeyAndExpire`).
pub(super) const OBJECT_EXPIRY: u64 = 8;
/// Keys from this length on have room for an expiry, with one or without (Valkey 8.1 `object.c`,
/// `KEY_SIZE_TO_INCLUDE_EXPIRE_THRESHOLD`).
pub(super) const EXPIRY_ROOM_FROM_KEY: u64 = 128;
/// Hash entries up to this size have their value in them (Valkey 8.1 `t_hash.c`, 9.0 `entry.h`,
/// `EMBED_VALUE_MAX_ALLOC_SIZE`).
pub(super) const HASH_ENTRY_EMBEDS_UP_TO: u64 = 128;

/// `sizeof(dict)`: two `dictht` (Redis 6.2 `dict.h`).
const DICT_6_2: u64 = 96;
/// `sizeof(dict)` (Redis 7.0 `dict.h`).
const DICT: u64 = 56;
/// `sizeof(hashtable)` (Valkey 8.1 `hashtable.c`).
const HASHTABLE_8_1: u64 = 72;
/// `sizeof(hashtable)`, with the list of safe iterators (Valkey 9.0 `hashtable.c`).
const HASHTABLE: u64 = 80;
/// What a hash's table has besides: its fields with an expiry (Valkey 9.0 `t_hash.c`, `vset`).
const VOLATILE_SET: u64 = 8;

/// `sizeof(clusterDictEntryMetadata)`: the slot's keys before and after (Redis 7.0 and 7.2 `cluster.h`).
const SLOT_LINKS: u64 = 16;
/// `sizeof(kvstoreDictMetaBase)`: the dict's place among those that grow (Redis 7.4 and 8.0 `kvstore.c`).
const DICT_METADATA: u64 = 8;
/// `sizeof(kvstoreDictMetadata)`: 60 counters of 8 bytes for each of five types of values, only in the tables of keys
/// (Redis 8.0 `kvstore.h`, `keysizes_hist`).
const KEY_SIZES: u64 = 5 * 60 * 8;
/// What Valkey keeps beside the table of a slot: its place among those that grow, and the store it is of (Valkey 8.0
/// `kvstore.c`, `kvstoreDictMetadata`; 8.1, `kvstoreHashtableMetadata`).
const TABLE_METADATA: u64 = 16;

/// Heads of one size for both tables.
const fn by_slot(head: u64) -> ClusterTables {
    ClusterTables::BySlot { keys: head, expiries: head }
}

const fn dict(head: u64, kind: TableKind, steps_per_insert: u32) -> TableShape {
    TableShape { head, kind, steps_per_insert }
}

/// A hashtable moves one bucket with the look-up before each insert (`hashtable.c`, `rehashStepOnReadIfNeeded`).
const fn hashtable(head: u64) -> TableShape {
    TableShape { head, kind: TableKind::Buckets, steps_per_insert: 1 }
}

/// HSET looks the field up and then adds it, and each moves a bucket (`t_hash.c`, `hashTypeSet`: `dictFind`,
/// `dictAdd`). SADD only adds (`t_set.c`, `setTypeAdd`).
const REDIS_6_2: Structures = Structures {
    key: KeyShape::Apart,
    packing: Packing::Ziplist,
    packs_sets: false,
    hash_table: dict(DICT_6_2, TableKind::Entries, 2),
    set_table: dict(DICT_6_2, TableKind::Entries, 1),
    // The radix tree that has every key once more, behind its slot (`slots_to_keys`), was never measured and is left out.
    in_cluster: ClusterTables::Linked(0),
    nodes_have_members: false,
    usage_leaves_out_key: false,
};

const REDIS_7_0: Structures = Structures {
    key: KeyShape::Apart,
    packing: Packing::Listpack,
    packs_sets: false,
    hash_table: dict(DICT, TableKind::Entries, 2),
    set_table: dict(DICT, TableKind::Entries, 1),
    in_cluster: ClusterTables::Linked(SLOT_LINKS),
    nodes_have_members: false,
    usage_leaves_out_key: false,
};

const REDIS_7_2: Structures = Structures {
    key: KeyShape::Apart,
    packing: Packing::Listpack,
    packs_sets: true,
    hash_table: dict(DICT, TableKind::Entries, 2),
    set_table: dict(DICT, TableKind::BareKeys, 1),
    in_cluster: ClusterTables::Linked(SLOT_LINKS),
    nodes_have_members: false,
    usage_leaves_out_key: false,
};

/// Fields are `mstr`s (`mstr.h`), whose headers are as long as an sds's.
const REDIS_7_4: Structures = Structures { in_cluster: by_slot(DICT + DICT_METADATA), ..REDIS_7_2 };

const REDIS_8_0: Structures = Structures {
    in_cluster: ClusterTables::BySlot { keys: DICT + DICT_METADATA + KEY_SIZES, expiries: DICT + DICT_METADATA },
    ..REDIS_7_4
};

const VALKEY_8_0: Structures = Structures {
    key: KeyShape::InEntry,
    packing: Packing::Listpack,
    packs_sets: true,
    hash_table: dict(DICT, TableKind::Entries, 1),
    set_table: dict(DICT, TableKind::BareKeys, 1),
    in_cluster: by_slot(DICT + TABLE_METADATA),
    nodes_have_members: false,
    usage_leaves_out_key: false,
};

const VALKEY_8_1: Structures = Structures {
    key: KeyShape::InObject(ObjectShape { embed_up_to: 64, embedding: OBJECT }),
    packing: Packing::Listpack,
    packs_sets: true,
    hash_table: hashtable(HASHTABLE_8_1),
    set_table: hashtable(HASHTABLE_8_1),
    in_cluster: by_slot(HASHTABLE_8_1 + TABLE_METADATA),
    nodes_have_members: false,
    usage_leaves_out_key: true,
};

const VALKEY_9_0: Structures = Structures {
    hash_table: hashtable(HASHTABLE + VOLATILE_SET),
    set_table: hashtable(HASHTABLE),
    in_cluster: by_slot(HASHTABLE + TABLE_METADATA),
    usage_leaves_out_key: false,
    ..VALKEY_8_1
};

/// The pointer to the value gives way to the value (valkey#2516), up to 128 bytes (valkey#3397).
///
/// Nodes of skiplists have their members within them (valkey#2508), and the list its head (valkey#2867).
const VALKEY_9_1: Structures = Structures {
    key: KeyShape::InObject(ObjectShape { embed_up_to: 128, embedding: 8 }),
    nodes_have_members: true,
    ..VALKEY_9_0
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_tells_valkey_from_redis() {
        let valkey = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(Server::from_info(valkey), Some(Server::valkey(9, 1)));
        assert_eq!(Server::from_info("# Server\r\nredis_version:7.0.15\r\n"), Some(Server::redis(7, 0)));
        assert_eq!(Server::from_info("ok"), None);
    }

    #[test]
    fn info_tells_a_node_of_a_cluster() {
        assert!(is_cluster_mode("# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\nos:Linux\r\n"));
        assert!(is_cluster_mode("valkey_version:9.1.2\nserver_mode:cluster\n"));
        assert!(!is_cluster_mode("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"));
        assert!(!is_cluster_mode(""));
    }

    #[test]
    fn a_version_without_a_measurement_says_so() {
        assert!(Server::redis(8, 0).is_measured());
        assert!(!Server::redis(6, 2).is_measured());
        assert!(!Server::valkey(10, 0).is_measured());
        assert_eq!(Server::valkey(10, 0).to_string(), "Valkey 10.0");
    }
}
