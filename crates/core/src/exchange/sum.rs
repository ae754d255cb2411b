//! What a key holds, in a few bytes.

use sha2::{Digest, Sha256};

/// What a key holds, as a sum: half of SHA-256, so that whoever chooses values can't make two that look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum([u8; 16]);

impl Sum {
    /// The sum of these parts, each told from the next by its length.
    pub(crate) fn of<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Self {
        let mut sum = Sha256::new();
        for part in parts {
            sum.update((part.len() as u64).to_le_bytes());
            sum.update(part);
        }
        let mut half = [0; 16];
        half.copy_from_slice(&sum.finalize()[..16]);
        Self(half)
    }
}
