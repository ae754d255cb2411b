//! What each key takes in a server: as a plain key, and as a record of a layout.

use keyfold_core::layout::Layout;
use keyfold_core::memory::{Model, ValueShape};
use keyfold_core::record::{Content, PhysicalWrite};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::requests::Requests;

/// Records of one bucket, on the mean, where that is for the cache to say.
pub(super) const ENTRIES: f64 = 64.0;
/// So that keys of one bucket have nothing in common with those that are in the sample together.
const BUCKET_SEED: u64 = 0x6275_636b_6574_7321;
/// Any nonce: nearly all are as long in base62 as this one.
const NONCE: u64 = u64::MAX;
/// When a key expires that does; all times of today are as long.
const SOME_DAY_MS: i64 = 1_900_000_000_000;
/// A table of keys is judged by its share for each, on the mean between two doublings.
const TABLE_KEYS: u64 = 1 << 17;
const TABLE_STEPS: u64 = 16;

/// What the keys of recorded requests take.
#[derive(Clone, Debug)]
pub struct Sizes {
    pub(super) model: Model,
    /// A plain key, with its share of the table.
    pub(super) plain: Vec<u32>,
    pub(super) records: Vec<Record>,
    /// What records take with their share of a bucket that is as full as is usual.
    folded: Vec<f64>,
    /// The namespaces that have buckets.
    pub(super) namespaces: Vec<Namespace>,
    /// A key's share of the table of keys, and that of one that expires.
    pub(super) table_bytes: [u64; 2],
}

/// What a key takes once it is folded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// Its field, with its value; 0 where it lies in no bucket.
    pub(super) field_bytes: u32,
    /// The keys of its own: where it stays plain, is zipped, or its value is spilled.
    pub(super) own_bytes: u32,
    /// Which of [`Sizes::namespaces`] it is of.
    pub(super) namespace: u32,
    /// By which its bucket is found.
    pub(super) hash: u32,
}

/// What has buckets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Namespace {
    /// How long their names are.
    pub(super) name_len: u64,
    /// How many keys of the sample it has.
    pub(super) keys: u64,
}

impl Sizes {
    /// By what the layout makes of each key. Values are letters: nothing is known of them but how long they are, so codecs
    /// and integers are left out of it.
    pub fn new(requests: &Requests, model: &Model, layout: &Layout) -> Self {
        let table_bytes = [share_of_table(model, 0), share_of_table(model, 1)];
        let mut sizes = Self {
            model: model.clone(),
            plain: Vec::with_capacity(requests.keys.len()),
            records: Vec::with_capacity(requests.keys.len()),
            folded: Vec::with_capacity(requests.keys.len()),
            namespaces: Vec::new(),
            table_bytes,
        };
        let longest = requests.keys.iter().filter_map(|asked| asked.value_bytes).max().unwrap_or(0);
        let letters = vec![b'x'; longest as usize];
        let mut known = Vec::new();
        for asked in &requests.keys {
            let value = &letters[..asked.value_bytes.unwrap_or(0) as usize];
            let (key, expiry) = (&*asked.key, asked.has_expiry.then_some(SOME_DAY_MS));
            let plain = sizes.string_bytes(key.len(), ValueShape::Bytes(value.len() as u64), asked.has_expiry);
            sizes.plain.push(narrow(plain));
            let record = sizes.record(layout, key, value, expiry, &mut known);
            sizes.folded.push(sizes.with_share(&record));
            sizes.records.push(record);
        }
        sizes
    }

    /// What all keys take as plain ones, those that are not in the sample included.
    pub fn all_plain_bytes(&self, requests: &Requests) -> f64 {
        self.plain.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / requests.rate
    }

    /// The same once all of them are folded.
    pub fn all_folded_bytes(&self, requests: &Requests) -> f64 {
        self.folded.iter().sum::<f64>() / requests.rate
    }

    /// The share of keys that lie in buckets.
    pub fn folded_share(&self) -> f64 {
        let folded = self.records.iter().filter(|record| record.field_bytes > 0).count();
        folded as f64 / self.records.len().max(1) as f64
    }

    /// What a key takes once it is folded, with its share of a bucket that is as full as is usual.
    pub(super) fn folded_bytes(&self, key: u32) -> f64 {
        self.folded[key as usize]
    }

    fn with_share(&self, record: &Record) -> f64 {
        if record.field_bytes == 0 {
            return f64::from(record.own_bytes);
        }
        let name_len = self.namespaces[record.namespace as usize].name_len;
        let fields = ENTRIES * f64::from(record.field_bytes);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a bucket")]
        let bucket = self.bucket_bytes(name_len, fields as u64);
        f64::from(record.own_bytes) + bucket as f64 / ENTRIES
    }

    /// A bucket whose fields take so many bytes, with its share of the table of keys.
    pub(super) fn bucket_bytes(&self, name_len: u64, fields_bytes: u64) -> u64 {
        self.model.packed_hash_bytes(name_len, fields_bytes) + self.table_bytes[0]
    }

    fn string_bytes(&self, key_len: usize, value: ValueShape, has_expiry: bool) -> u64 {
        let tables = if has_expiry { self.table_bytes.iter().sum() } else { self.table_bytes[0] };
        self.model.string_bytes(key_len as u64, value, has_expiry) + tables
    }

    fn record(
        &mut self,
        layout: &Layout,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<i64>,
        known: &mut Vec<(usize, u32)>,
    ) -> Record {
        let place = layout.locate(key).place();
        let writes = layout.physical_writes(self.model.sets_as(), place.as_ref(), key, value, expires_at_ms, || NONCE);
        let mut record = Record::default();
        for PhysicalWrite { key: physical, content } in writes.iter() {
            match content {
                Content::String { value, expires_at_ms } => {
                    let value = ValueShape::of(value);
                    record.own_bytes += narrow(self.string_bytes(physical.len(), value, expires_at_ms.is_some()));
                }
                Content::Members(members) => {
                    record.own_bytes += narrow(self.model.collection_bytes(physical.len() as u64, members, false));
                }
                Content::Field { name, stored } => {
                    let namespace = place.as_ref().map_or(0, |place| place.namespace.0);
                    record.namespace = self.namespace(namespace, physical.len() as u64, known);
                    let (name, stored) = (ValueShape::of(name), ValueShape::of(stored));
                    record.field_bytes = narrow(self.model.packed_field_bytes(name, stored));
                    record.hash = (xxh3_64_with_seed(key, BUCKET_SEED) >> 32) as u32;
                }
            }
        }
        record
    }

    /// One more key of a layout's namespace.
    fn namespace(&mut self, of_layout: usize, name_len: u64, known: &mut Vec<(usize, u32)>) -> u32 {
        let found = known.iter().find(|(namespace, _)| *namespace == of_layout).map(|(_, index)| *index);
        let index = found.unwrap_or_else(|| {
            let index = narrow(self.namespaces.len() as u64);
            self.namespaces.push(Namespace { name_len, keys: 0 });
            known.push((of_layout, index));
            index
        });
        self.namespaces[index as usize].keys += 1;
        index
    }
}

/// What a key adds to the tables, `expiring` or not, on the mean.
fn share_of_table(model: &Model, expiring: u64) -> u64 {
    let shares = (0..TABLE_STEPS).map(|step| {
        let keys = TABLE_KEYS + TABLE_KEYS * step / TABLE_STEPS;
        let both = model.table_bytes(keys, keys * expiring);
        let alone = model.table_bytes(keys, 0);
        let bytes = if expiring > 0 { both - alone } else { alone };
        bytes as f64 / keys as f64
    });
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some bytes a key")]
    let share = (shares.sum::<f64>() / TABLE_STEPS as f64).round() as u64;
    share
}

/// Bytes of one key: far below 4 GB.
fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
