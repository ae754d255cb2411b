//! One hash, field by field: what is longest in it, and what it takes as it is and otherwise.

use keyfold_core::memory::{BucketCost, Limits, Model, ValueShape};

use super::AIM_ENTRIES;

/// The name of an average bucket, and that of a spilled value beyond its field.
const BUCKET_NAME_BYTES: u64 = 6;
const SPILL_NAME_BYTES: u64 = 14;
/// The frame that points to a spilled value.
const SPILL_FRAME: ValueShape = ValueShape::Bytes(9);
/// A key's share of the table of keys: a pointer or two.
const TABLE_SHARE_BYTES: u64 = 12;
/// As much of a long field's bytes is kept for showing.
const SHOWN_BYTES: usize = 64;

/// The server's memory model, for hashes that are tables and hashes that are packed, whatever their size.
#[derive(Clone, Debug)]
pub struct Models {
    table: Model,
    packed: Model,
    value_bytes: u64,
}

impl Models {
    /// From the model of the server. `value_bytes` is `hash-max-listpack-value`: what is longer would be
    /// spilled from a good bucket.
    pub fn new(model: &Model, value_bytes: u64) -> Self {
        let limits = |entries, bytes| Limits { hash_entries: entries, hash_value_bytes: bytes, ..Limits::default() };
        Self {
            table: model.clone().with_limits(limits(0, 0)),
            packed: model.clone().with_limits(limits(u64::MAX, u64::MAX)),
            value_bytes,
        }
    }
}

/// The longest field or value of a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// How long it is.
    pub bytes: u64,
    /// The field it is, or is the value of, shortened.
    pub field: Vec<u8>,
}

impl Longest {
    fn offer(&mut self, bytes: usize, field: &[u8]) {
        if bytes as u64 > self.bytes {
            self.bytes = bytes as u64;
            self.field = field[..field.len().min(SHOWN_BYTES)].to_vec();
        }
    }
}

/// What is known of a hash's fields; it may be that not all were read.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Fields read.
    pub fields: u64,
    /// Bytes of them and their values.
    pub bytes: u64,
    /// The longest field.
    pub longest_field: Longest,
    /// The longest value.
    pub longest_value: Longest,
    /// Fields with a long field or value: over `hash-max-listpack-value`.
    pub long_fields: u64,
    /// Fields that are no integers, as those of hand-made buckets mostly are.
    pub text_fields: u64,
    table: BucketCost,
    packed: BucketCost,
    bucket: BucketCost,
    bucketed_bytes: u64,
}

impl Contents {
    /// Reads one more field.
    pub fn add(&mut self, models: &Models, field: &[u8], value: &[u8]) {
        self.fields += 1;
        self.bytes += (field.len() + value.len()) as u64;
        self.longest_field.offer(field.len(), field);
        self.longest_value.offer(value.len(), field);
        let longest = field.len().max(value.len()) as u64;
        self.long_fields += u64::from(longest > models.value_bytes);
        let (field_shape, shape) = (ValueShape::of(field), ValueShape::of(value));
        self.text_fields += u64::from(!matches!(field_shape, ValueShape::Integer(_)));
        self.table.add(&models.table, field_shape, shape);
        self.packed.add(&models.packed, field_shape, shape);
        self.add_to_bucket(models, field_shape, shape);
    }

    /// As keyfold would: what is too long gets a key of its own.
    fn add_to_bucket(&mut self, models: &Models, field: ValueShape, value: ValueShape) {
        let model = &models.packed;
        if field.len() > models.value_bytes {
            self.bucketed_bytes += model.string_bytes(field.len(), value, false) + TABLE_SHARE_BYTES;
            return;
        }
        let stored = if value.len() > models.value_bytes {
            let spilled = model.string_bytes(field.len() + SPILL_NAME_BYTES, value, false);
            self.bucketed_bytes += spilled + TABLE_SHARE_BYTES;
            SPILL_FRAME
        } else {
            value
        };
        self.bucket.add(model, field, stored);
        if self.bucket.fields() == AIM_ENTRIES {
            self.bucketed_bytes += model.hash_bytes(BUCKET_NAME_BYTES, &self.bucket, false) + TABLE_SHARE_BYTES;
            self.bucket = BucketCost::default();
        }
    }

    /// The longest field or value, in bytes.
    pub fn longest_bytes(&self) -> u64 {
        self.longest_field.bytes.max(self.longest_value.bytes)
    }

    /// What a hash of `entries` fields like these takes as a hashtable under a key of so many bytes.
    pub fn table_bytes(&self, models: &Models, key_len: u64, entries: u64) -> u64 {
        self.scaled(models.table.hash_bytes(key_len, &self.table, false), entries)
    }

    /// The same as a listpack.
    pub fn packed_bytes(&self, models: &Models, key_len: u64, entries: u64) -> u64 {
        self.scaled(models.packed.hash_bytes(key_len, &self.packed, false), entries)
    }

    /// The same in buckets of [`AIM_ENTRIES`], what is too long spilled. The last bucket counts for its share:
    /// it is shared with other hashes.
    pub fn bucketed_bytes(&self, models: &Models, entries: u64) -> u64 {
        let begun = match self.bucket.fields() {
            0 => 0,
            fields => {
                let head = models.packed.hash_bytes(BUCKET_NAME_BYTES, &BucketCost::default(), false);
                let whole = models.packed.hash_bytes(BUCKET_NAME_BYTES, &self.bucket, false);
                whole.saturating_sub(head) + (head + TABLE_SHARE_BYTES) * fields / AIM_ENTRIES
            }
        };
        self.scaled(self.bucketed_bytes + begun, entries)
    }

    fn scaled(&self, bytes: u64, entries: u64) -> u64 {
        if self.fields == 0 || entries <= self.fields {
            return bytes;
        }
        let scaled = u128::from(bytes) * u128::from(entries) / u128::from(self.fields);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::memory::{Allocator, Server};

    use super::*;

    fn models() -> Models {
        Models::new(&Model::for_server(Server::redis(7, 0)).with_allocator(Allocator::SYSTEM), 64)
    }

    fn study(entries: u64, read: u64) -> (Models, Contents, u64) {
        let models = models();
        let mut contents = Contents::default();
        for id in 0..read {
            contents.add(&models, id.to_string().as_bytes(), b"1155315012");
        }
        (models, contents, entries)
    }

    #[test]
    fn a_table_costs_what_buckets_save() {
        let (models, contents, entries) = study(1000, 1000);
        let table = contents.table_bytes(&models, 9, entries);
        let bucketed = contents.bucketed_bytes(&models, entries);
        assert!((60_000..100_000).contains(&table), "{table}");
        assert!((9_500..12_000).contains(&bucketed), "{bucketed}");
        assert!(contents.packed_bytes(&models, 9, entries) < 13_000);
        assert_eq!(contents.text_fields, 0);
    }

    #[test]
    fn what_was_not_read_is_like_what_was() {
        let (models, contents, _) = study(0, 1000);
        let (whole, part) = (contents.table_bytes(&models, 9, 1000), contents.table_bytes(&models, 9, 4000));
        assert_eq!(part, whole * 4);
    }

    #[test]
    fn a_part_of_a_bucket_costs_its_part() {
        let (models, ten, _) = study(10, 10);
        let (_, hundred, _) = study(100, 100);
        let (ten, hundred) = (ten.bucketed_bytes(&models, 10), hundred.bucketed_bytes(&models, 100));
        assert!(ten * 10 > hundred * 8 / 10 && ten * 10 < hundred * 14 / 10, "{ten} {hundred}");
    }

    #[test]
    fn the_longest_are_named() {
        let models = models();
        let mut contents = Contents::default();
        contents.add(&models, b"a", b"short");
        contents.add(&models, b"b", &[b'x'; 70]);
        contents.add(&models, &[b'f'; 100], b"");
        assert_eq!((contents.longest_value.bytes, contents.longest_value.field.as_slice()), (70, &b"b"[..]));
        assert_eq!((contents.longest_field.bytes, contents.longest_field.field.len()), (100, 64));
        assert_eq!((contents.long_fields, contents.longest_bytes()), (2, 100));
        assert_eq!(contents.text_fields, 3);
    }
}
