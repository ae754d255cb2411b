//! What large sets and hashes take in parts, beside the field that points there.

use super::{Model, ValueShape};
use crate::collection::Collection;
use crate::collection::parts::Header;
use crate::placement::name::{Origin, PartName, Stem};
use crate::record::{Content, FEWEST_IN_PARTS, PhysicalWrite, part_name, parts_of};
use crate::slot::Slot;

/// The keys of one set or hash in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartsCost {
    /// How many there are.
    pub keys: u64,
    /// What they take, without their share of the table of keys.
    pub bytes: u64,
}

impl Model {
    /// What a set or hash takes in parts, whose key has so many bytes; none where it is kept as one value, as small ones
    /// are. The nonce, which is the seed of its hashes too, has a say in where it is cut.
    pub fn parts_cost(&self, key_len: u64, collection: &Collection, nonce: u64) -> Option<PartsCost> {
        if collection.len() <= FEWEST_IN_PARTS {
            return None;
        }
        let slot = self.is_in_cluster_mode().then(|| Slot::of(b""));
        let origin = Origin { slot, stem: Stem::ANY };
        let empty = Header::new(self.sets_as().form_of(collection.kind()), nonce);
        let (_, parts) = parts_of(origin, collection, nonce, empty)?;
        let owner_len = part_name(origin, nonce, PartName::Owner).len() as u64;
        let mut cost = PartsCost { keys: 1, bytes: self.string_bytes(owner_len, ValueShape::Bytes(key_len), false) };
        for PhysicalWrite { key, content } in &parts {
            let name_len = key.len() as u64;
            cost.keys += 1;
            cost.bytes += match content {
                Content::Members(members) => self.collection_bytes(name_len, members, false),
                Content::String { value, .. } => self.string_bytes(name_len, ValueShape::of(value), false),
                Content::Field { .. } => 0,
            };
        }
        Some(cost)
    }
}
