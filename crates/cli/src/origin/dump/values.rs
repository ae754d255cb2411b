//! Values of keys that were seen, read in one more pass over the dump.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use keyfold_core::collection::CollectionKind;
use keyfold_rdb::{Collection, KEPT_BYTES, Kind, Value};
use keyfold_report::progress::Progress;

use super::input;
use super::walk::Meant;
use crate::origin::place::DumpPlace;
use crate::scan::{Values, packed};

/// Keys between two looks at how far it is.
const SAID_EVERY: u64 = 4096;

/// Holds the values of the keys that are expected.
pub(super) struct DumpValues {
    place: DumpPlace,
    meant: Meant,
    held: HashMap<Box<[u8]>, Option<Vec<u8>>>,
}

impl DumpValues {
    pub(super) fn new(place: DumpPlace, meant: Meant) -> Self {
        Self { place, meant, held: HashMap::new() }
    }
}

impl Values for DumpValues {
    fn expect(&mut self, keys: Vec<&[u8]>) -> anyhow::Result<()> {
        self.held = keys.into_iter().map(|key| (key.into(), None)).collect();
        let mut missing = self.held.len();
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
            let Some(held @ None) = self.held.get_mut(key.key.as_slice()) else { continue };
            let mut texts = Vec::new();
            let mut bytes = 0;
            let value = dump.value(KEPT_BYTES, &mut |element| {
                if bytes <= KEPT_BYTES {
                    let parts = [Some(element.name), element.value].into_iter().flatten();
                    texts.extend(parts.map(|part| part.to_bytes()).inspect(|text| bytes += text.len()));
                }
            })?;
            *held = match value {
                Some(Value::String(text)) => text.whole().map(<[u8]>::to_vec),
                Some(Value::Collection(Collection { kind, .. })) if bytes <= KEPT_BYTES => {
                    let kind = match kind {
                        Kind::Set => CollectionKind::Set,
                        Kind::Hash => CollectionKind::Hash,
                        _ => continue,
                    };
                    packed(kind, texts)
                }
                _ => continue,
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
        keys: &[(&[u8], u64)],
        _collection: Option<CollectionKind>,
    ) -> anyhow::Result<Vec<Option<Vec<u8>>>> {
        Ok(keys.iter().map(|(key, _)| self.held.get(*key).cloned().flatten()).collect())
    }
}
