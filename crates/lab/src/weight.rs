//! What a set of data weighs.

use keyfold_core::memory::Keyspace;

/// What was measured of one set of data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    /// `used_memory` with the data less without.
    pub(crate) bytes: u64,
    /// Keys of others that were there before, the lab's mark included.
    pub(super) before: u64,
}

impl Weight {
    /// What the model says of these keys, where they come to others.
    pub(crate) fn predicted(&self, keys: &Keyspace<'_>) -> u64 {
        let model = keys.model();
        keys.content_bytes() + model.table_bytes(self.before + keys.keys(), keys.expiring())
            - model.table_bytes(self.before, 0)
    }
}
