//! Keys that are being moved, each once: a walk may come by one in both of its places.

use keyfold_core::layout::Layout;

use super::fingerprints::Fingerprints;
use super::{Record, digest};

/// Those that were seen.
pub(crate) struct Once<'l> {
    layout: &'l Layout,
    is_any_moving: bool,
    seen: Fingerprints,
}

impl<'l> Once<'l> {
    pub(crate) fn of(layout: &'l Layout) -> Self {
        Self { layout, is_any_moving: layout.moving().next().is_some(), seen: Fingerprints::new() }
    }

    /// Whether this record's key wasn't seen before; of keys that lie in one place always.
    pub(crate) fn is_first(&mut self, record: &Record) -> anyhow::Result<bool> {
        let may_come_twice = self.is_any_moving && is_moving(self.layout, &record.key);
        Ok(!may_come_twice || self.seen.insert(digest::key(record.database, &record.key), 0)?)
    }
}

/// Whether a key lies in one of two places.
pub(crate) fn is_moving(layout: &Layout, key: &[u8]) -> bool {
    layout.namespace_of(key).is_some_and(|index| layout.namespace(index).is_moving())
}
