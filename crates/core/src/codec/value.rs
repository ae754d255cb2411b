//! What comes of a value that is to be stored.

use std::borrow::Cow;

/// What a value is stored as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored<'v> {
    /// These bytes, in the value's place.
    InPlace(Vec<u8>),
    /// These bytes in a key of their own, and a pointer in the value's place ([`crate::frame::encode_spill`]).
    Spilled {
        /// What the spill key holds.
        content: Cow<'v, [u8]>,
        /// The slot of the codec that wrote it; none for the value as it is.
        slot: Option<u8>,
    },
}
