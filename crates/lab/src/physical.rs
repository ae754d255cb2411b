//! Records as a server holds them: strings, and fields of hashes; to be written, and to be modelled.

use std::collections::BTreeMap;

use keyfold_core::layout::Layout;
use keyfold_core::memory::{BucketCost, Keyspace, Model, ValueShape};
use keyfold_core::record::{Content, PhysicalWrite, SetsAs};

use super::writer::Writer;

/// One string, or one field.
struct Entry {
    /// None where it is a string.
    hash: Option<Vec<u8>>,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Everything that a server is to hold.
#[derive(Default)]
pub(crate) struct Physical {
    entries: Vec<Entry>,
    spills: u64,
}

impl Physical {
    /// A string under a key of its own.
    pub(crate) fn string(&mut self, key: &[u8], value: &[u8]) {
        self.entries.push(Entry { hash: None, name: key.to_vec(), value: value.to_vec() });
    }

    /// A field of a hash.
    pub(crate) fn field(&mut self, hash: &[u8], field: &[u8], value: &[u8]) {
        self.entries.push(Entry { hash: Some(hash.to_vec()), name: field.to_vec(), value: value.to_vec() });
    }

    /// A record where the layout places it, as keyfold stores it.
    pub(crate) fn place(&mut self, layout: &Layout, key: &[u8], value: &[u8]) {
        let place = layout.locate(key).place();
        // As long as nearly all nonces are.
        let writes = layout.physical_writes(SetsAs::Sets, place.as_ref(), key, value, None, || u64::MAX - self.spills);
        self.spills += u64::from(writes.is_spilled());
        for PhysicalWrite { key, content } in writes.iter() {
            match content {
                Content::Field { name, stored } => self.field(key, name, stored),
                Content::String { value, .. } => self.string(key, value),
                Content::Members(_) => unreachable!("the lab's records are strings"),
            }
        }
    }

    /// How many commands [`Self::write`] sends.
    pub(crate) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// How many values are too long for their buckets.
    pub(crate) fn spills(&self) -> u64 {
        self.spills
    }

    pub(crate) fn write(&self, writer: &mut Writer<'_>) -> anyhow::Result<()> {
        self.entries.iter().try_for_each(|entry| match &entry.hash {
            Some(hash) => writer.hset(hash, &entry.name, &entry.value),
            None => writer.set(&entry.name, &entry.value),
        })
    }

    /// What the model expects of it, where every name is longer by a prefix.
    pub(crate) fn predict<'m>(&self, model: &'m Model, prefix_len: u64) -> Keyspace<'m> {
        let mut keyspace = Keyspace::new(model);
        let mut hashes: BTreeMap<&[u8], BucketCost> = BTreeMap::new();
        for Entry { hash, name, value } in &self.entries {
            match hash {
                Some(hash) => hashes.entry(hash).or_default().add(model, ValueShape::of(name), ValueShape::of(value)),
                None => keyspace.add_string(prefix_len + name.len() as u64, ValueShape::of(value), false),
            }
        }
        for (name, hash) in hashes {
            keyspace.add(model.settled_hash_bytes(prefix_len + name.len() as u64, &hash, false), false);
        }
        keyspace
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::memory::{Allocator, Server};

    use super::*;

    const LAYOUT: &str = "[[namespace]]\nkeys = \"n:{id:int}\"\nbucket = { span = 10 }\nvalue_limit = 8\n";

    #[test]
    fn records_lie_as_the_layout_places_them() {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let mut physical = Physical::default();
        for id in 0..25 {
            physical.place(&layout, format!("n:{id}").as_bytes(), b"5");
        }
        let model = Model::for_server(Server::redis(7, 0)).with_allocator(Allocator::SYSTEM);
        assert_eq!((physical.len(), physical.spills(), physical.predict(&model, 0).keys()), (25, 0, 3));
        physical.place(&layout, b"n:30", b"too long for it");
        physical.place(&layout, b"elsewhere", b"5");
        assert_eq!((physical.len(), physical.spills(), physical.predict(&model, 0).keys()), (28, 1, 6));
    }
}
