//! What a key takes beside its content, and what a whole string takes.
//!
//! ```text
//! Redis         dictEntry ─▶ sds key          Valkey 8.0   dictEntry, key
//!                    │                                          │
//!                    ▼                                          ▼
//!               robj ─▶ sds value                          robj ─▶ sds value
//!               robj, value      up to 44 bytes            robj, value
//!               shared robj      integers 0–9999           shared robj
//!               robj             other integers            robj
//!
//! Valkey 8.1 on   robj, expiry?, key ─▶ sds value
//!                 robj, expiry?, key, value      up to 64 bytes in all, 128 from 9.1 on
//!                 robj, expiry?, key             integers
//! ```

use super::Model;
use super::sds::{sds_8_bytes, sds_bytes, shortest_sds_bytes};
use super::server::{
    ClusterTables, DICT_ENTRY, DICT_ENTRY_EMBEDDING, EXPIRY_ROOM_FROM_KEY, KeyShape, OBJECT, OBJECT_EXPIRY, ObjectShape,
};
use super::shape::ValueShape;

/// `OBJ_ENCODING_EMBSTR_SIZE_LIMIT` (`object.c`).
const EMBEDDED_STRING_MAX: u64 = 44;
/// `OBJ_SHARED_INTEGERS` (`server.h`).
const SHARED_INTEGERS: i64 = 10_000;
/// The byte before a key in an object: the size of its header (Valkey 8.1 `object.c`).
const KEY_HEADER_SIZE: u64 = 1;

impl Model {
    /// A string under a key of so many bytes, without its share of the table of keys.
    pub fn string_bytes(&self, key_len: u64, value: ValueShape, has_expiry: bool) -> u64 {
        match self.structures.key {
            KeyShape::InObject(shape) => self.string_in_object_bytes(shape, key_len, value, has_expiry),
            KeyShape::Apart | KeyShape::InEntry => {
                self.key_bytes(key_len, has_expiry) + self.string_object_bytes(value)
            }
        }
    }

    /// Whether the server has a string that is no integer, of so many bytes, within its object (`embstr`).
    pub fn embeds_string(&self, key_len: u64, len: u64, has_expiry: bool) -> bool {
        match self.structures.key {
            KeyShape::InObject(shape) => embedding_bytes(shape, key_len, len, has_expiry) <= shape.embed_up_to,
            KeyShape::Apart | KeyShape::InEntry => len <= EMBEDDED_STRING_MAX,
        }
    }

    /// Whether a key's expiry is an entry of its own beside the key (before Valkey 8.1).
    pub fn keeps_expiry_apart(&self) -> bool {
        !matches!(self.structures.key, KeyShape::InObject(_))
    }

    /// The key of anything, and its expiry.
    pub(super) fn key_bytes(&self, key_len: u64, has_expiry: bool) -> u64 {
        let expires_entry = if has_expiry { self.usable(DICT_ENTRY) } else { 0 };
        match self.structures.key {
            KeyShape::Apart => {
                self.usable(DICT_ENTRY + self.slot_links()) + self.usable(sds_bytes(key_len)) + expires_entry
            }
            // The header comes with the argument's, which has at least 8 bits (`sdscopytobuffer`).
            KeyShape::InEntry => self.usable(DICT_ENTRY_EMBEDDING + sds_8_bytes(key_len)) + expires_entry,
            KeyShape::InObject(_) => self.usable(object_with_key(key_len, has_expiry)),
        }
    }

    /// What the allocator adds to the entry of a key where that has nothing within it.
    pub(super) fn unsaid_entry_bytes(&self) -> u64 {
        let entry = DICT_ENTRY + self.slot_links();
        match self.structures.key {
            KeyShape::Apart => self.usable(entry) - entry,
            KeyShape::InEntry | KeyShape::InObject(_) => 0,
        }
    }

    /// What the entry of a key has besides, in cluster mode, to find the others of its slot.
    fn slot_links(&self) -> u64 {
        match self.structures.in_cluster {
            ClusterTables::Linked(links) if self.in_cluster_mode => links,
            ClusterTables::Linked(_) | ClusterTables::BySlot { .. } => 0,
        }
    }

    /// An object, where the key isn't in it.
    pub(super) fn usable_apart(&self, object: u64) -> u64 {
        match self.structures.key {
            KeyShape::Apart | KeyShape::InEntry => self.usable(object),
            KeyShape::InObject(_) => 0,
        }
    }

    /// `tryObjectEncoding` and `createStringObject` of `object.c`.
    fn string_object_bytes(&self, value: ValueShape) -> u64 {
        match value {
            ValueShape::Integer(0..SHARED_INTEGERS) if self.shares_integers => 0,
            ValueShape::Integer(_) => self.usable(OBJECT),
            ValueShape::Bytes(len @ ..=EMBEDDED_STRING_MAX) => self.usable(OBJECT + sds_8_bytes(len)),
            ValueShape::Bytes(len) => self.usable(OBJECT) + self.usable(sds_bytes(len)),
        }
    }

    /// `createStringObjectWithKeyAndExpire` of `object.c` (Valkey 8.1 and later).
    fn string_in_object_bytes(&self, shape: ObjectShape, key_len: u64, value: ValueShape, has_expiry: bool) -> u64 {
        let with_pointer = object_with_key(key_len, has_expiry);
        let ValueShape::Bytes(len) = value else {
            return self.usable(with_pointer);
        };
        let embedding = embedding_bytes(shape, key_len, len, has_expiry);
        if embedding <= shape.embed_up_to {
            // Room for the pointer stays, should the value grow.
            self.usable(embedding.max(with_pointer))
        } else {
            self.usable(with_pointer) + self.usable(sds_bytes(len))
        }
    }
}

/// An object that has its key and its value, of so many bytes, within it.
fn embedding_bytes(shape: ObjectShape, key_len: u64, len: u64, has_expiry: bool) -> u64 {
    let expiry = if has_expiry { OBJECT_EXPIRY } else { 0 };
    shape.embedding + expiry + embedded_key(key_len) + sds_8_bytes(len)
}

/// `createObjectWithKeyAndExpire` of `object.c` (Valkey 8.1 and later).
fn object_with_key(key_len: u64, has_expiry: bool) -> u64 {
    let expiry = if has_expiry || key_len >= EXPIRY_ROOM_FROM_KEY { OBJECT_EXPIRY } else { 0 };
    OBJECT + expiry + embedded_key(key_len)
}

fn embedded_key(key_len: u64) -> u64 {
    KEY_HEADER_SIZE + shortest_sds_bytes(key_len)
}
