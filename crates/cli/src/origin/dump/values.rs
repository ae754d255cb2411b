//! Values of keys that were seen, read in one more pass over the dump.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use keyfold_core::collection::CollectionKind;
use keyfold_rdb::{KEPT_BYTES, Value};
use keyfold_report::progress::Progress;

use super::input;
use super::observer::{Kept, kind_of};
use super::walk::Meant;
use crate::origin::place::DumpPlace;
use crate::scan::{Values, Wanted};

/// Keys between two looks at how far it is.
const SAID_EVERY: u64 = 4096;

/// Keys that are expected, each with its value once it was come by.
type Held = HashMap<Box<[u8]>, Option<Vec<u8>>>;

/// Holds the values of the keys that are expected.
pub(super) struct DumpValues {
    place: DumpPlace,
    meant: Meant,
    /// By database.
    held: HashMap<u32, Held>,
}

impl DumpValues {
    pub(super) fn new(place: DumpPlace, meant: Meant) -> Self {
        Self { place, meant, held: HashMap::new() }
    }
}

impl Values for DumpValues {
    fn expect(&mut self, keys: Vec<Wanted<'_>>) -> anyhow::Result<()> {
        self.held.clear();
        for Wanted { database, key, .. } in keys {
            self.held.entry(database).or_default().insert(key.into(), None);
        }
        let mut missing: usize = self.held.values().map(HashMap::len).sum();
        if missing == 0 {
            return Ok(());
        }
        let input::Opened { mut dump, read_bytes, file_bytes } = input::open(&self.place)?;
        let mut progress = Progress::new("values: bytes of the dump", usize::try_from(file_bytes)?);
        let (mut said, mut seen) = (0, 0_u64);
        while missing > 0
            && let Some(key) = dump.next_key()?
        {
            seen += 1;
            if seen.is_multiple_of(SAID_EVERY) {
                let now = read_bytes.load(Ordering::Relaxed);
                progress.advance(usize::try_from(now - said)?);
                said = now;
            }
            if !self.meant.has(&key) {
                continue;
            }
            let of_database = self.held.get_mut(&key.database);
            let Some(held @ None) = of_database.and_then(|held| held.get_mut(key.key.as_slice())) else { continue };
            let mut kept = Kept::default();
            let value = dump.value(KEPT_BYTES, &mut |element| kept.offer(&element))?;
            *held = match value {
                Some(Value::String(text)) => text.whole().map(<[u8]>::to_vec),
                Some(Value::Collection(value)) => match kept.into_collection(kind_of(value.kind)) {
                    Some((collection, true)) => Some(collection.packed()),
                    _ => continue,
                },
                None => continue,
            };
            missing -= 1;
        }
        Ok(())
    }

    fn commands(&self) -> u64 {
        0
    }

    fn read(
        &mut self,
        keys: &[Wanted<'_>],
        _collection: Option<CollectionKind>,
    ) -> anyhow::Result<Vec<Option<Vec<u8>>>> {
        let held = |wanted: &Wanted<'_>| self.held.get(&wanted.database)?.get(wanted.key)?.clone();
        Ok(keys.iter().map(held).collect())
    }
}
