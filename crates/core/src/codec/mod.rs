//! Codecs: values in fewer bytes than they have.
//!
//! A namespace names the codec it wants; what has come of that, perhaps with a dictionary trained from its values,
//! stands in numbered *slots*. Each value that a codec shortened names its slot in its frame
//! ([`crate::frame`]), so that values of several slots live side by side, and a codec or a dictionary can be
//! replaced while clients go on. A value that no codec makes shorter is stored as it is, and an integer always is.
//!
//! | codec | for | dictionary |
//! | --- | --- | --- |
//! | [`zstd`] | text and records that repeat each other | trained, or none for large values |
//! | [`fsst`] | short text, where microseconds matter more | trained: a table of symbols |
//! | [`fields`] | hashes that have the same fields | trained: their names, and values that come again and again |
//! | [`hex`] | lower-case hexadecimal text | none |
//! | [`uuid`] | uuids as text | none |
//!
//! One of your own is a [`Codec`] and the [`CodecKind`] that opens it; `examples/own_codec.rs` of this crate has one.

mod dictionary;
mod error;
pub mod fields;
pub mod fsst;
pub mod hex;
mod large;
mod owner;
mod payload;
mod references;
mod rule;
mod slots;
#[cfg(test)]
mod tests;
mod train;
pub mod uuid;
mod value;
pub mod zstd;

pub use dictionary::{DictionaryId, pack, unpack};
pub use error::CodecError;
pub use large::LARGE_SLOT;
pub use owner::{Owner, Sample};
pub use payload::Payload;
pub use rule::{CodecRule, Options};
pub use slots::{Codecs, MAX_SLOT, Slot, Slots};
pub use train::{Candidate, candidates, stored_bytes};
pub use value::Stored;

use std::fmt::Debug;
use std::sync::Arc;

use crate::collection::{CollectionKind, Vocabulary};

/// Shortens values, and gives back exactly those. Shared by all threads.
pub trait Codec: Debug + Send + Sync {
    /// Appends the value's payload to `out`; false where it has none, and whatever was appended is dropped then.
    ///
    /// The payload need not be shorter than the value: whoever asked compares.
    fn encode(&self, value: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) -> bool;

    /// The same in less time, where it can be done so, for a payload that may be longer. [`Self::decode`] reads both.
    fn encode_quickly(&self, value: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        self.encode(value, owner, out)
    }

    /// Appends the value that has this payload, of the same key, to `out`. Payloads are not to be trusted.
    ///
    /// # Errors
    /// Bytes that [`Self::encode`] never wrote; more than [`Self::max_decoded_len`] bytes of value.
    fn decode(&self, payload: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// The longest value that it takes, in bytes. Longer ones are left to plain zstd.
    fn max_len(&self) -> usize;

    /// The longest value that a payload of so many bytes may stand for. Where values are changed as they lie, they may have grown past
    /// [`Self::max_len`].
    fn max_decoded_len(&self, _payload_len: usize) -> usize {
        self.max_len()
    }

    /// The vocabulary that hashes are written by, where that is all it does: their fields can be changed then as they lie.
    fn vocabulary(&self) -> Option<&Vocabulary> {
        None
    }
}

/// How much time encoding a value may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort<'p> {
    /// As much as the codec's options say.
    #[default]
    Full,
    /// Little: it is what clients wait for.
    Quick,
    /// None any more: the value was encoded before, to this.
    Spent(&'p Payload),
}

/// Opens codecs of one name.
pub trait CodecKind: Debug + Send + Sync {
    /// The name in layouts.
    fn name(&self) -> &'static str;

    /// The options that it knows, each with its least and greatest value.
    fn options(&self) -> &'static [(&'static str, i64, i64)] {
        &[]
    }

    /// The codec, by what [`Self::train`] made of samples where it has been trained.
    ///
    /// # Errors
    /// A dictionary that this kind never made, or one that is missing.
    fn open(&self, options: &Options, dictionary: Option<&[u8]>) -> Result<Arc<dyn Codec>, CodecError>;

    /// Dictionaries of different sizes or kinds from these samples, for whoever judges them to choose from; none
    /// where it has nothing to learn, or too little to learn from.
    fn train(&self, _samples: &[Sample<'_>], _options: &Options) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Whether it is of use only once it has been trained.
    fn needs_training(&self) -> bool {
        false
    }

    /// Whether it is for values of such keys; none are strings.
    fn is_for(&self, _collection: Option<CollectionKind>) -> bool {
        true
    }

    /// Whether training makes it better, or of use at all.
    fn learns(&self, _options: &Options) -> bool {
        self.needs_training()
    }
}

/// The kinds of codecs that a program knows.
#[derive(Clone, Debug)]
pub struct Kinds(Vec<Arc<dyn CodecKind>>);

impl Default for Kinds {
    fn default() -> Self {
        Self(vec![
            Arc::new(zstd::Zstd),
            Arc::new(fsst::Fsst),
            Arc::new(fields::Fields),
            Arc::new(hex::Hex),
            Arc::new(uuid::Uuid),
        ])
    }
}

impl Kinds {
    /// The same with one more, instead of one of the same name.
    #[must_use]
    pub fn with(mut self, kind: Arc<dyn CodecKind>) -> Self {
        self.0.retain(|known| known.name() != kind.name());
        self.0.push(kind);
        self
    }

    /// Those for values of such keys; none are strings.
    #[must_use]
    pub fn for_values_of(mut self, collection: Option<CollectionKind>) -> Self {
        self.0.retain(|kind| kind.is_for(collection));
        self
    }

    /// The kind of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn CodecKind>> {
        self.0.iter().find(|kind| kind.name() == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn CodecKind>> {
        self.0.iter()
    }
}
