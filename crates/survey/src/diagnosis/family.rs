//! Sums over the hashes of one family: how they are encoded, what made tables of them, how full they are.

use super::contents::{Contents, Models};
use super::fill::Fill;
use super::finding::Example;
use super::settings::Settings;

/// Examples kept of everything.
const EXAMPLES: usize = 3;
/// Lengths are counted by powers of two up to this one.
const LENGTHS: usize = 32;

/// How a server holds a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A listpack, or a ziplist before Redis 7.0.
    Packed,
    /// A hashtable: for good, until it is written anew.
    Table,
}

/// Why a hash is a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// It has more entries than the limit.
    Entries,
    /// A field in it is longer than the limit.
    LongField,
    /// A value in it is longer than the limit.
    LongValue,
    /// A field in it has an expiry of the server's own, and this server makes a table of such hashes.
    FieldExpiry,
    /// Nothing in it is over any limit now; something was, or the limits were lower.
    Past,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Entries, Self::LongField, Self::LongValue, Self::FieldExpiry, Self::Past];
}

/// What was seen of one hash.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The database it is in.
    pub database: u32,
    /// Its name.
    pub key: &'a [u8],
    /// How it is held.
    pub encoding: Encoding,
    /// How many fields it has.
    pub entries: u64,
    /// What MEMORY USAGE says it takes; none where that isn't allowed.
    pub bytes: Option<u64>,
    /// What is in it, where it was read.
    pub contents: Option<&'a Contents>,
    /// Whether a field in it has an expiry of the server's own.
    pub expiring_fields: bool,
}

/// Sums over hashes that are tables for one cause.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many there are.
    pub hashes: u64,
    /// Their entries together.
    pub entries: u64,
    /// What they take.
    pub now_bytes: u64,
    /// What they would take as listpacks.
    pub packed_bytes: u64,
    /// What they would take in good buckets.
    pub bucketed_bytes: u64,
    /// The entries of the fullest.
    pub most_entries: u64,
    /// The longest field or value.
    pub longest_bytes: u64,
    /// Fields with a long field or value.
    pub long_fields: u64,
    /// Hashes by how long their longest is: below 1, 2, 4, 8, … bytes.
    pub by_length: [Hashes; LENGTHS],
    /// The costliest.
    pub examples: Vec<Example>,
}

/// Some of a tally's hashes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashes {
    /// How many.
    pub hashes: u64,
    /// The longest field or value in them.
    pub longest_bytes: u64,
    /// What packing them saves.
    pub saves_bytes: u64,
}

/// Sums over all hashes of one family.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// How full they are, the tables included.
    pub fill: Fill,
    /// How many are packed.
    pub packed_hashes: u64,
    /// What the packed ones take.
    pub packed_bytes: u64,
    /// How many were read, field by field.
    pub read_hashes: u64,
    /// Fields read.
    pub read_entries: u64,
    /// What those hashes that were read take now, and what they would in good buckets.
    pub read_bytes: u64,
    /// See [`Self::read_bytes`].
    pub read_bucketed_bytes: u64,
    /// Fields read that were no integers.
    pub text_fields: u64,
    tables: [Tally; Cause::ALL.len()],
}

impl Family {
    /// Counts a hash.
    pub fn add(&mut self, seen: &Seen<'_>, settings: &Settings, models: &Models) {
        self.fill.add(seen.entries);
        let key_len = seen.key.len() as u64;
        let modelled = seen.contents.map(|contents| match seen.encoding {
            Encoding::Packed => contents.packed_bytes(models, key_len, seen.entries),
            Encoding::Table => contents.table_bytes(models, key_len, seen.entries),
        });
        let now_bytes = modelled.or(seen.bytes).unwrap_or(0);
        if let Some(contents) = seen.contents {
            self.read_hashes += 1;
            self.read_entries += seen.entries;
            self.read_bytes += now_bytes;
            self.read_bucketed_bytes += contents.bucketed_bytes(models, seen.entries);
            self.text_fields += contents.text_fields;
        }
        match seen.encoding {
            Encoding::Packed => {
                self.packed_hashes += 1;
                self.packed_bytes += now_bytes;
            }
            Encoding::Table => {
                let cause = cause_of(seen, settings);
                self.tables[cause as usize].add(seen, cause, now_bytes, models);
            }
        }
    }

    /// Counts all that another family counted.
    pub fn merge(&mut self, other: &Self) {
        self.fill.merge(&other.fill);
        self.packed_hashes += other.packed_hashes;
        self.packed_bytes += other.packed_bytes;
        self.read_hashes += other.read_hashes;
        self.read_entries += other.read_entries;
        self.read_bytes += other.read_bytes;
        self.read_bucketed_bytes += other.read_bucketed_bytes;
        self.text_fields += other.text_fields;
        for (tally, more) in self.tables.iter_mut().zip(&other.tables) {
            tally.merge(more);
        }
    }

    /// Whether all fields that were read are integers, as they are where ids were folded by hand.
    pub fn has_integer_fields(&self) -> bool {
        self.read_hashes > 0 && self.text_fields == 0
    }

    /// The hashes that are tables for this cause.
    pub fn tables(&self, cause: Cause) -> &Tally {
        &self.tables[cause as usize]
    }

    /// How many are tables.
    pub fn table_hashes(&self) -> u64 {
        self.tables.iter().map(|tally| tally.hashes).sum()
    }

    /// What all of them take, by the memory model where they were read, else by MEMORY USAGE.
    pub fn bytes(&self) -> u64 {
        self.packed_bytes + self.tables.iter().map(|tally| tally.now_bytes).sum::<u64>()
    }

    /// What all of them would take in good buckets, as far as those that were read tell.
    pub fn bucketed_bytes(&self) -> Option<u64> {
        let all = u128::from(self.read_bucketed_bytes) * u128::from(self.fill.entries());
        u64::try_from(all.checked_div(u128::from(self.read_entries))?).ok()
    }
}

/// What made a table of a hash. Too many entries come first: no other limit helps those.
fn cause_of(seen: &Seen<'_>, settings: &Settings) -> Cause {
    let value_limit = settings.hash_value_bytes.value;
    let (field, value) =
        seen.contents.map_or((0, 0), |contents| (contents.longest_field.bytes, contents.longest_value.bytes));
    if seen.entries > settings.hash_entries.value {
        Cause::Entries
    } else if value > value_limit && value >= field {
        Cause::LongValue
    } else if field > value_limit {
        Cause::LongField
    } else if seen.expiring_fields {
        Cause::FieldExpiry
    } else {
        Cause::Past
    }
}

impl Tally {
    fn add(&mut self, seen: &Seen<'_>, cause: Cause, now_bytes: u64, models: &Models) {
        let key_len = seen.key.len() as u64;
        let otherwise = |bytes: &dyn Fn(&Contents) -> u64| seen.contents.map_or(now_bytes, bytes);
        let packed_bytes = otherwise(&|contents| contents.packed_bytes(models, key_len, seen.entries));
        let longest_bytes = seen.contents.map_or(0, Contents::longest_bytes);
        self.hashes += 1;
        self.entries += seen.entries;
        self.now_bytes += now_bytes;
        self.packed_bytes += packed_bytes;
        self.bucketed_bytes += otherwise(&|contents| contents.bucketed_bytes(models, seen.entries));
        self.most_entries = self.most_entries.max(seen.entries);
        self.longest_bytes = self.longest_bytes.max(longest_bytes);
        self.long_fields += seen.contents.map_or(0, |contents| contents.long_fields);
        let class = (u64::BITS - longest_bytes.leading_zeros()) as usize;
        let class = &mut self.by_length[class.min(LENGTHS - 1)];
        class.hashes += 1;
        class.longest_bytes = class.longest_bytes.max(longest_bytes);
        class.saves_bytes += now_bytes.saturating_sub(packed_bytes);
        self.offer(example(seen, cause, now_bytes));
    }

    fn merge(&mut self, other: &Self) {
        self.hashes += other.hashes;
        self.entries += other.entries;
        self.now_bytes += other.now_bytes;
        self.packed_bytes += other.packed_bytes;
        self.bucketed_bytes += other.bucketed_bytes;
        self.most_entries = self.most_entries.max(other.most_entries);
        self.longest_bytes = self.longest_bytes.max(other.longest_bytes);
        self.long_fields += other.long_fields;
        for (class, more) in self.by_length.iter_mut().zip(&other.by_length) {
            class.hashes += more.hashes;
            class.longest_bytes = class.longest_bytes.max(more.longest_bytes);
            class.saves_bytes += more.saves_bytes;
        }
        for example in &other.examples {
            self.offer(example.clone());
        }
    }

    fn offer(&mut self, example: Example) {
        offer(&mut self.examples, example);
    }
}

/// Keeps the costliest examples.
pub(super) fn offer(examples: &mut Vec<Example>, example: Example) {
    let place = examples.partition_point(|other| other.bytes >= example.bytes);
    if place < EXAMPLES {
        examples.insert(place, example);
        examples.truncate(EXAMPLES);
    }
}

fn example(seen: &Seen<'_>, cause: Cause, bytes: u64) -> Example {
    let mut example = Example::new(seen.database, seen.key, bytes);
    example.entries = Some(seen.entries);
    let longest = seen.contents.and_then(|contents| match cause {
        Cause::LongField => Some((&contents.longest_field, "field")),
        Cause::LongValue => Some((&contents.longest_value, "value")),
        Cause::Entries | Cause::FieldExpiry | Cause::Past => None,
    });
    if let Some((longest, what)) = longest {
        example.field = Some(longest.field.clone());
        example.long = Some((what, longest.bytes));
    }
    example
}
