//! The forms of a record, and what the model expects of each.

use std::collections::BTreeMap;

use anyhow::Context;
use keyfold_core::layout::{Layout, Place};
use keyfold_core::memory::{BucketCost, Model, ValueShape};
use keyfold_core::placement::name::Name;

use crate::writer::Writer;
use keyfold_survey::random::Random;

/// Lengths of the hashes' names that the original tried.
const CHARACTERS: std::ops::RangeInclusive<u32> = 3..=7;
const UUID_LEN: u64 = 36;
/// Entries to a bucket of keyfold's, on the mean.
const PER_BUCKET: u64 = 100;
/// Records by which keyfold's own placement is modelled: the number of buckets grows with the records, so that how they
/// are filled doesn't depend on how many there are.
const SAMPLE: u64 = 100_000;
/// What less of all hashes than this share has is left out.
const RARE: f64 = 1e-12;
/// Values: integers of seven digits, which are kept as numbers of three bytes in packed hashes.
const VALUES: std::ops::Range<u64> = 1_000_000..8_000_000;

/// A way to keep a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Strings,
    /// In hashes named by so many characters of the uuid.
    Hashes(u32),
    /// As keyfold's placement `count` does.
    Count,
}

/// What the model expects of many records.
pub(super) struct Expected {
    pub(super) keys: u64,
    /// Without the table of keys.
    pub(super) content_bytes: u64,
}

/// Any value.
pub(super) fn value(random: &mut Random) -> u64 {
    VALUES.start + random.below(VALUES.end - VALUES.start)
}

impl Form {
    pub(super) fn all() -> Vec<Self> {
        std::iter::once(Self::Strings).chain(CHARACTERS.map(Self::Hashes)).chain([Self::Count]).collect()
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Strings => "strings".to_owned(),
            Self::Hashes(characters) => format!("hashes by {characters} characters"),
            Self::Count => "keyfold, count".to_owned(),
        }
    }

    /// How many fields a hash has on the mean.
    pub(super) fn mean_fields(self, records: u64) -> u64 {
        match self {
            Self::Strings => 0,
            Self::Hashes(characters) => records >> (4 * characters),
            Self::Count => PER_BUCKET,
        }
    }

    /// The layout of so many records; one without namespaces where keyfold has no part.
    pub(super) fn layout(self, records: u64) -> anyhow::Result<Layout> {
        let text = match self {
            Self::Count => {
                let buckets = (records / PER_BUCKET).max(2);
                format!("[[namespace]]\nkeys = \"{{id:uuid}}\"\nbucket = {{ count = {buckets} }}\n")
            }
            Self::Strings | Self::Hashes(_) => return Ok(Layout::default()),
        };
        Layout::parse_file(&text).context("the study's layout")
    }

    pub(super) fn placed(self, layout: &Layout) -> anyhow::Result<Placed<'_>> {
        Ok(Placed { form: self, layout })
    }

    pub(super) fn expect(self, model: &Model, records: u64, prefix_len: u64, seed: u64) -> anyhow::Result<Expected> {
        let value = ValueShape::Integer(i64::try_from(VALUES.start)?);
        match self {
            Self::Strings => {
                let content_bytes = records * model.string_bytes(prefix_len + UUID_LEN, value, false);
                Ok(Expected { keys: records, content_bytes })
            }
            Self::Hashes(characters) => Ok(expect_hashes(model, records, characters, prefix_len)),
            Self::Count => self.expect_placed(model, records, prefix_len, seed),
        }
    }

    /// Places a sample, and takes as much for each record of all. It fills fewer buckets as all records fill all of
    /// them; its names and fields are those of all, as a field is the shorter the more buckets there are.
    fn expect_placed(self, model: &Model, records: u64, prefix_len: u64, seed: u64) -> anyhow::Result<Expected> {
        let sample = records.min(SAMPLE);
        let (all, sampled) = (self.layout(records)?, self.layout(sample)?);
        let mut buckets = BTreeMap::<Name, (u64, BucketCost)>::new();
        super::each(sample, seed, |uuid, value| {
            let [place, bucket] = [place_of(&all, uuid)?, place_of(&sampled, uuid)?];
            let (name_len, cost) = buckets.entry(bucket.physical).or_default();
            *name_len = place.physical.len() as u64;
            cost.add(model, ValueShape::of(&place.field), ValueShape::of(value));
            Ok(())
        })?;
        let bytes: u64 = buckets.values().map(|(len, cost)| model.hash_bytes(prefix_len + len, cost, false)).sum();
        let buckets = buckets.len() as u64;
        Ok(Expected { keys: scaled(buckets, records, sample), content_bytes: scaled(bytes, records, sample) })
    }
}

fn place_of(layout: &Layout, uuid: &str) -> anyhow::Result<Place> {
    let place = layout.locate(uuid.as_bytes()).place();
    place.filter(|place| place.kind.is_bucket()).context("a uuid without a bucket")
}

fn scaled(number: u64, records: u64, sample: u64) -> u64 {
    u64::try_from(u128::from(number) * u128::from(records) / u128::from(sample)).unwrap_or(u64::MAX)
}

/// Hashes that uuids fill by chance: how many have so many fields is a Poisson distribution.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sums of sizes: positive, below 2^53")]
fn expect_hashes(model: &Model, records: u64, characters: u32, prefix_len: u64) -> Expected {
    let names = 16_f64.powf(f64::from(characters));
    let mean = records as f64 / names;
    let field = ValueShape::Bytes(UUID_LEN - u64::from(characters));
    let value = ValueShape::Integer(VALUES.start.cast_signed());
    let key_len = prefix_len + u64::from(characters);
    let (mut hash, mut bytes, mut hashes) = (BucketCost::default(), 0.0, 0.0);
    let mut fields = 0.0;
    // By logarithms: e to the power of minus the mean is no float for a mean of thousands.
    let mut ln_share = -mean;
    loop {
        fields += 1.0;
        hash.add(model, field, value);
        ln_share += mean.ln() - f64::ln(fields);
        let share = ln_share.exp();
        hashes += share * names;
        bytes += share * names * model.settled_hash_bytes(key_len, &hash, false) as f64;
        if fields > mean && share < RARE {
            return Expected { keys: hashes.round() as u64, content_bytes: bytes.round() as u64 };
        }
    }
}

/// Writes records in their places.
pub(super) struct Placed<'l> {
    form: Form,
    layout: &'l Layout,
}

impl Placed<'_> {
    pub(super) fn write(&self, writer: &mut Writer<'_>, uuid: &str, value: &[u8]) -> anyhow::Result<()> {
        match self.form {
            Form::Strings => writer.set(uuid.as_bytes(), value),
            Form::Hashes(characters) => {
                let (name, field) = uuid.split_at(characters as usize);
                writer.hset(name.as_bytes(), field.as_bytes(), value)
            }
            // A decimal number is stored as it is: it is no frame.
            Form::Count => {
                let place = place_of(self.layout, uuid)?;
                writer.hset(place.physical.as_slice(), place.field.as_slice(), value)
            }
        }
    }

    /// Looks for a record where it is in a hash.
    pub(super) fn look(&self, writer: &mut Writer<'_>, uuid: &str) -> anyhow::Result<()> {
        let Form::Hashes(characters) = self.form else { return Ok(()) };
        let (name, field) = uuid.split_at(characters as usize);
        writer.read(b"HGET", name.as_bytes(), &[field.as_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::memory::{Allocator, Server};

    use super::*;

    #[test]
    fn hashes_by_chance_are_as_many_as_there_can_be() {
        let model = Model::for_server(Server::redis(7, 0)).with_allocator(Allocator::SYSTEM);
        let few = expect_hashes(&model, 1000, 7, 0);
        assert_eq!(few.keys, 1000);
        let many = expect_hashes(&model, 80_000_000, 3, 0);
        assert_eq!(many.keys, 4096);
        // All are tables of some 19,500 fields.
        assert!((80_000_000 * 100..80_000_000 * 130).contains(&many.content_bytes), "{}", many.content_bytes);
    }

    /// As measured on Redis 7.0.15 with 80,000,000, 22.9 bytes each: a field is shorter in more buckets.
    #[test]
    fn a_sample_stands_for_as_many_buckets_as_there_are() {
        let model = Model::for_server(Server::redis(7, 0));
        let bytes_each =
            |records: u64| Form::Count.expect(&model, records, 0, 1).unwrap().content_bytes as f64 / records as f64;
        assert!((22.7..23.0).contains(&bytes_each(80_000_000)), "{}", bytes_each(80_000_000));
        assert!((23.9..24.3).contains(&bytes_each(1_000_000)), "{}", bytes_each(1_000_000));
    }
}
