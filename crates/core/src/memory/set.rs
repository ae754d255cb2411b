//! What one set takes: integers in an intset, a packed list, or a table.

use super::Model;
use super::packed::{entry_bytes, frame_bytes};
use super::sds::sds_bytes;
use super::shape::ValueShape;
use super::table;

/// `sizeof(intset)`: encoding and length (`intset.h`).
const INTSET_HEAD: u64 = 8;

/// One set, as its members come, each once, by one SADD a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCost {
    members: u64,
    /// The entries of the list, if it is one.
    packed: u64,
    /// The entries of the table, if it becomes one.
    unpacked: u64,
    /// Whether it has other than integers.
    has_text: bool,
    /// The bytes of the widest integer: 2, 4 or 8.
    integer_bytes: u64,
    /// How many members there were when it became a table.
    table_since: Option<u64>,
}

impl SetCost {
    /// Counts one more member.
    pub fn add(&mut self, model: &Model, member: ValueShape) {
        self.add_alike(model, member, 1);
    }

    /// Counts so many more that are alike.
    pub fn add_alike(&mut self, model: &Model, member: ValueShape, times: u64) {
        if times == 0 {
            return;
        }
        let structures = model.structures;
        let before = self.members;
        self.members += times;
        self.packed += entry_bytes(structures.packing, member, 0) * times;
        let entry = table::entry_bytes(structures.set_table.kind, model.allocator);
        self.unpacked += (entry + model.usable(sds_bytes(member.len()))) * times;
        match member {
            ValueShape::Integer(value) => self.integer_bytes = self.integer_bytes.max(integer_bytes(value)),
            ValueShape::Bytes(_) => self.has_text = true,
        }
        let limits = &model.limits;
        let most = match self.has_text {
            true if structures.packs_sets && member.len() <= limits.set_value_bytes => limits.set_entries,
            true => 0,
            false => limits.intset_entries,
        };
        if self.members > most {
            self.table_since.get_or_insert(most.max(before) + 1);
        }
    }

    /// How many members there are.
    pub fn members(&self) -> u64 {
        self.members
    }

    /// Whether it is over the limits, and so a hashtable.
    pub fn is_table(&self) -> bool {
        self.table_since.is_some()
    }
}

impl Model {
    /// A set under a key of so many bytes, without its share of the table of keys.
    pub fn set_bytes(&self, key_len: u64, set: &SetCost, has_expiry: bool) -> u64 {
        let shape = self.structures.set_table;
        let buckets = |since| table::growing_bytes(shape, self.allocator, set.members, since);
        self.set_with_buckets_bytes(key_len, set, has_expiry, buckets)
    }

    /// The same once its members have been looked for so often that its table, if it is one, holds no old half.
    pub fn settled_set_bytes(&self, key_len: u64, set: &SetCost, has_expiry: bool) -> u64 {
        let kind = self.structures.set_table.kind;
        let buckets = |_| table::settled_bytes(kind, self.allocator, set.members);
        self.set_with_buckets_bytes(key_len, set, has_expiry, buckets)
    }

    fn set_with_buckets_bytes(
        &self,
        key_len: u64,
        set: &SetCost,
        has_expiry: bool,
        buckets: impl FnOnce(u64) -> u64,
    ) -> u64 {
        let content = match set.table_since {
            Some(since) => self.usable(self.structures.set_table.head) + buckets(since) + set.unpacked,
            None if set.has_text => self.usable(frame_bytes(self.structures.packing) + set.packed),
            None => self.usable(INTSET_HEAD + set.members * set.integer_bytes),
        };
        self.object_key_bytes(key_len, has_expiry) + content
    }
}

/// `_intsetValueEncoding` of `intset.c`.
fn integer_bytes(value: i64) -> u64 {
    match value {
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    }
}
