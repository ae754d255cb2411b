//! What one hash takes, counted field by field: as a bucket that stays packed, and as the table that it
//! becomes over the limits.

use super::Model;
use super::packed::{entry_bytes, frame_bytes};
use super::sds::{sds_8_bytes, sds_bytes, shortest_sds_bytes};
use super::server::{HASH_ENTRY_EMBEDS_UP_TO, OBJECT, Packing, TableKind};
use super::shape::ValueShape;
use super::table;

/// One hash, as its fields come, each once. Holds some tens of bytes however many they are.
///
/// Meant is a hash written by one HSET a field, the server's default way of filling a bucket. Written by one
/// HSET with many fields, a hash over the limits may miss an old table that is still being emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketCost {
    fields: u64,
    /// The entries of the list, while and if it is one.
    packed: u64,
    /// The last entry of the list.
    last_entry: u64,
    /// The entries of the table, if it becomes one.
    unpacked: u64,
    /// How many fields there were when it became one.
    table_since: Option<u64>,
}

impl BucketCost {
    /// Counts one more field.
    pub fn add(&mut self, model: &Model, field: ValueShape, value: ValueShape) {
        self.add_alike(model, field, value, 1);
    }

    /// Counts so many more that are alike.
    pub fn add_alike(&mut self, model: &Model, field: ValueShape, value: ValueShape, times: u64) {
        if times == 0 {
            return;
        }
        let (packing, before) = (model.structures.packing, self.fields);
        self.packed += self.add_entries(packing, field, value);
        if times > 1 {
            self.packed += self.add_entries(packing, field, value) * (times - 1);
        }
        self.unpacked += model.hash_entry_bytes(field.len(), value.len()) * times;
        self.fields += times;
        let limits = &model.limits;
        let fits = field.len().max(value.len()) <= limits.hash_value_bytes;
        let most = if fits { limits.hash_entries } else { 0 };
        if self.fields > most {
            self.table_since.get_or_insert(most.max(before) + 1);
        }
    }

    /// Has a field and its value come last in the list; what they take there.
    fn add_entries(&mut self, packing: Packing, field: ValueShape, value: ValueShape) -> u64 {
        let field_entry = entry_bytes(packing, field, self.last_entry);
        self.last_entry = entry_bytes(packing, value, field_entry);
        field_entry + self.last_entry
    }

    /// How many fields there are.
    pub fn fields(&self) -> u64 {
        self.fields
    }

    /// Whether it is over the limits, and so a hashtable.
    pub fn is_table(&self) -> bool {
        self.table_since.is_some()
    }
}

impl Model {
    /// A hash under a key of so many bytes, without its share of the table of keys.
    pub fn hash_bytes(&self, key_len: u64, hash: &BucketCost, has_expiry: bool) -> u64 {
        let shape = self.structures.hash_table;
        let buckets = |since| table::growing_bytes(shape, self.allocator, hash.fields, since);
        self.hash_with_buckets_bytes(key_len, hash, has_expiry, buckets)
    }

    /// What one field and its value take in a hash that stays packed, wherever they stand in it: of a ziplist, as if the
    /// entry before were short.
    pub fn packed_field_bytes(&self, field: ValueShape, value: ValueShape) -> u64 {
        let packing = self.structures.packing;
        let field = entry_bytes(packing, field, 1);
        field + entry_bytes(packing, value, field)
    }

    /// A hash that stays packed, whose fields take so many bytes together ([`Self::packed_field_bytes`]), under a key of so
    /// many bytes, without its share of the table of keys. For hashes whose fields come and go.
    pub fn packed_hash_bytes(&self, key_len: u64, fields_bytes: u64) -> u64 {
        self.object_key_bytes(key_len, false) + self.usable(frame_bytes(self.structures.packing) + fields_bytes)
    }

    /// The same once its fields have been read so often that its table, if it is one, holds no old half.
    pub fn settled_hash_bytes(&self, key_len: u64, hash: &BucketCost, has_expiry: bool) -> u64 {
        let kind = self.structures.hash_table.kind;
        let buckets = |_| table::settled_bytes(kind, self.allocator, hash.fields);
        self.hash_with_buckets_bytes(key_len, hash, has_expiry, buckets)
    }

    fn hash_with_buckets_bytes(
        &self,
        key_len: u64,
        hash: &BucketCost,
        has_expiry: bool,
        buckets: impl FnOnce(u64) -> u64,
    ) -> u64 {
        let content = match hash.table_since {
            None => self.usable(frame_bytes(self.structures.packing) + hash.packed),
            Some(since) => self.usable(self.structures.hash_table.head) + buckets(since) + hash.unpacked,
        };
        self.object_key_bytes(key_len, has_expiry) + content
    }

    /// One field of a hash that is a table.
    fn hash_entry_bytes(&self, field_len: u64, value_len: u64) -> u64 {
        match self.structures.hash_table.kind {
            TableKind::Buckets => self.embedding_hash_entry_bytes(field_len, value_len),
            kind @ (TableKind::Entries | TableKind::BareKeys) => {
                table::entry_bytes(kind, self.allocator)
                    + self.usable(sds_bytes(field_len))
                    + self.usable(sds_bytes(value_len))
            }
        }
    }

    /// Field and value in one allocation where they fit, or else the field with a pointer to the value
    /// (Valkey 8.1 `t_hash.c`, 9.0 `entry.c`, `entryReqSize`).
    fn embedding_hash_entry_bytes(&self, field_len: u64, value_len: u64) -> u64 {
        const POINTER: u64 = 8;
        let together = shortest_sds_bytes(field_len) + sds_8_bytes(value_len);
        if together <= HASH_ENTRY_EMBEDS_UP_TO {
            self.usable(together)
        } else {
            self.usable(POINTER + sds_8_bytes(field_len)) + self.usable(sds_bytes(value_len))
        }
    }

    /// The key and the object of anything but a string, without what the object points to.
    pub(super) fn object_key_bytes(&self, key_len: u64, has_expiry: bool) -> u64 {
        self.key_bytes(key_len, has_expiry) + self.usable_apart(OBJECT)
    }
}
