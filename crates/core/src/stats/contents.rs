//! What a namespace holds, as a walk over all of it found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a namespace's buckets hold and take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Contents {
    /// Keys in buckets, expired ones left out.
    pub keys: u64,
    /// Buckets.
    pub buckets: u64,
    /// What these take, by the memory model, with the parts of large sets and hashes.
    pub stored_bytes: u64,
    /// What the keys would take as plain ones, by the memory model.
    pub plain_bytes: u64,
}

impl Contents {
    /// What folding saves; less than nothing where it takes more.
    pub fn saved_bytes(&self) -> i64 {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        signed(self.plain_bytes).saturating_sub(signed(self.stored_bytes))
    }
}
