//! What a codec made of a value before it is written.

use super::{Codecs, Effort, Owner};

/// What came of encoding a value, whoever did it and wherever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The slot of the codec.
    slot: u8,
    /// None where the codec has nothing for the value.
    bytes: Option<Vec<u8>>,
}

impl Payload {
    /// Appends it to `out`, where it is of this slot and there is any.
    pub(super) fn append(&self, slot: u8, out: &mut Vec<u8>) -> bool {
        let bytes = self.bytes.as_deref().filter(|_| self.slot == slot);
        out.extend_from_slice(bytes.unwrap_or_default());
        bytes.is_some()
    }
}

impl Codecs {
    /// Encodes a value by the codec that is written now; none where values are stored as they are.
    pub(crate) fn payload(&self, value: &[u8], owner: &Owner<'_>, effort: Effort<'_>) -> Option<Payload> {
        let slot = self.writer(value.len())?;
        let mut bytes = Vec::new();
        let is_encoded = self.encode(slot, value, owner, effort, &mut bytes);
        Some(Payload { slot, bytes: is_encoded.then_some(bytes) })
    }
}
