//! The forms of the keys, how each is written and read, and what the model expects.

use anyhow::Context;
use keyfold_core::frame;
use keyfold_core::layout::Layout;
use keyfold_core::memory::{self, BucketCost, Keyspace, Model, ValueShape};
use keyfold_core::resp::write_command;

use crate::writer::Writer;
use keyfold_survey::random::Random;

/// Fields of a hash, in the original.
pub(super) const FIELDS: u64 = 1000;
/// The original's layout of keys, as keyfold folds it.
const LAYOUT: &str = "[[namespace]]\nkeys = \"key:{id:int}\"\nbucket = { span = 126 }\n";
/// Values are integers of seven digits.
const VALUES: std::ops::Range<u64> = 1_000_000..8_000_000;

/// A way to keep the keys, and to read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Strings,
    /// So many times fewer keys than the others have.
    Fewer(u64),
    /// Hashes of [`FIELDS`] fields, with this limit of entries.
    Hashes(u64),
    /// In keyfold's buckets, read directly.
    Folded,
    /// The same keys, read through a keyfold in this process.
    Through,
}

impl Form {
    pub(super) fn name(self) -> String {
        match self {
            Self::Strings => "strings".to_owned(),
            Self::Fewer(times) => format!("strings, 1/{times} of the keys"),
            Self::Hashes(limit) => format!("hashes of {FIELDS}, limit {limit}"),
            Self::Folded => "folded, read directly".to_owned(),
            Self::Through => "folded, through keyfold".to_owned(),
        }
    }

    /// How many records there are.
    pub(super) fn records(self, records: u64) -> u64 {
        match self {
            Self::Fewer(times) => (records / times).max(1),
            _ => records,
        }
    }
}

/// All that is known of one form of so many records.
pub(super) struct Shape {
    pub(super) form: Form,
    pub(super) records: u64,
    layout: Layout,
}

impl Shape {
    pub(super) fn new(form: Form, records: u64) -> anyhow::Result<Self> {
        let layout = Layout::parse_file(LAYOUT).context("the study's layout")?;
        Ok(Self { form, records: form.records(records), layout })
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The key of a record, and its field where it is one.
    fn place(&self, id: u64) -> anyhow::Result<(Vec<u8>, Option<Vec<u8>>)> {
        let key = format!("key:{id}").into_bytes();
        match self.form {
            Form::Strings | Form::Fewer(_) | Form::Through => Ok((key, None)),
            Form::Hashes(_) => {
                let (hash, field) = (id / FIELDS, id % FIELDS);
                Ok((format!("key:{hash}").into_bytes(), Some(field.to_string().into_bytes())))
            }
            Form::Folded => {
                let place = self.layout.locate(&key).place().filter(|place| place.kind.is_bucket());
                let place = place.context("the study's layout places every key")?;
                Ok((place.physical.to_vec(), Some(place.field.to_vec())))
            }
        }
    }

    fn each(&self, seed: u64, mut with: impl FnMut(u64, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let (mut random, mut digits) = (Random::new(seed), itoa::Buffer::new());
        (0..self.records).try_for_each(|id| {
            let value = VALUES.start + random.below(VALUES.end - VALUES.start);
            with(id, digits.format(value).as_bytes())
        })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>, seed: u64) -> anyhow::Result<()> {
        let mut stored = Vec::new();
        self.each(seed, |id, value| match self.place(id)? {
            (key, None) => writer.set(&key, value),
            (key, Some(field)) => {
                stored.clear();
                if self.form == Form::Folded {
                    frame::encode(value, None, &mut stored);
                } else {
                    stored.extend(value);
                }
                writer.hset(&key, &field, &stored)
            }
        })
    }

    /// Looks for each field, which moves tables of hashes on until no old half is left.
    pub(super) fn settle(&self, writer: &mut Writer<'_>) -> anyhow::Result<()> {
        (0..self.records).try_for_each(|id| match self.place(id)? {
            (key, Some(field)) => writer.read(b"HGET", &key, &[&field]),
            (..) => Ok(()),
        })
    }

    /// The command that reads a record.
    pub(super) fn read(&self, id: u64, prefix: &[u8], wire: &mut Vec<u8>) -> anyhow::Result<()> {
        let (key, field) = self.place(id)?;
        let key = [prefix, &key].concat();
        match field {
            Some(field) => write_command(wire, &[b"HGET", &key, &field]),
            None => write_command(wire, &[b"GET", &key]),
        }
        Ok(())
    }

    /// What the model expects. Not of [`Form::Through`], whose keys are [`Form::Folded`]'s.
    pub(super) fn expect<'m>(&self, model: &'m Model, prefix_len: u64, seed: u64) -> anyhow::Result<Keyspace<'m>> {
        let mut keyspace = Keyspace::new(model);
        let mut placed = memory::Placed::new(model, &self.layout);
        let (mut hash, mut name_len) = (BucketCost::default(), 0);
        self.each(seed, |id, value| {
            let (key, field) = self.place(id)?;
            match (self.form, field) {
                (Form::Hashes(_), Some(field)) => {
                    hash.add(model, ValueShape::of(&field), ValueShape::of(value));
                    name_len = prefix_len + key.len() as u64;
                    if (id + 1) % FIELDS == 0 || id + 1 == self.records {
                        let whole = std::mem::take(&mut hash);
                        keyspace.add(model.settled_hash_bytes(name_len, &whole, false), false);
                    }
                }
                (_, Some(_)) => placed.add(format!("key:{id}").as_bytes(), value, None),
                (_, None) => keyspace.add_string(prefix_len + key.len() as u64, ValueShape::of(value), false),
            }
            Ok(())
        })?;
        for (name, bucket) in placed.buckets() {
            keyspace.add_hash(prefix_len + name.len() as u64, bucket, false);
        }
        Ok(keyspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(form: Form, id: u64) -> String {
        let mut wire = Vec::new();
        Shape::new(form, 10_000).unwrap().read(id, b"lab:", &mut wire).unwrap();
        wire.escape_ascii().to_string()
    }

    #[test]
    fn each_form_is_read_by_its_command() {
        assert_eq!(command(Form::Strings, 1234), "*2\\r\\n$3\\r\\nGET\\r\\n$12\\r\\nlab:key:1234\\r\\n");
        let hash = command(Form::Hashes(512), 1234);
        assert_eq!(hash, "*3\\r\\n$4\\r\\nHGET\\r\\n$9\\r\\nlab:key:1\\r\\n$3\\r\\n234\\r\\n");
        assert!(command(Form::Folded, 1234).contains("HGET\\r\\n$11\\r\\nlab:~"));
        assert!(command(Form::Through, 1234).contains("GET\\r\\n$12\\r\\nlab:key:1234"));
    }

    #[test]
    fn fewer_keys_are_fewer_records() {
        assert_eq!(Shape::new(Form::Fewer(1000), 1_000_000).unwrap().records, 1000);
        assert_eq!(Shape::new(Form::Fewer(1000), 10).unwrap().records, 1);
    }
}
