//! The versioned set of namespaces: which keys are folded, and how.
//!
//! Two forms of one text. A person writes the *file* ([`LayoutFile`]); the server holds the *stored* form
//! ([`Layout::to_stored`]) under [`STORED_KEY`], with the ids and the epoch that keyfold gave:
//!
//! ```toml
//! version = 1                        # only in the stored form, as are epoch and next_id
//! epoch   = 3
//! next_id = 2
//!
//! [[namespace]]
//! id          = 0                    # in a file: optional, given once and never reused
//! keys        = "user:{id:int}"      # the template
//! bucket      = { span = 128 }       # or { span = 128, of = "id" }, { count = 16384 }, { by = "id" }
//! value_limit = 64                   # stored bytes over which a value is spilled
//! field_limit = 64                   # field bytes over which a key stays plain
//! codec       = "none"               # or "zstd", { name = "zstd", level = 12 }, "auto": see crate::codec
//!
//! [[namespace]]
//! id        = 1
//! keys      = "user:{name}"          # has the keys that the more specific one above doesn't match
//! placement = "plain"                # instead of bucket: "plain" stays as it is; "zipped", the default,
//! ```                                # is a key of its own with a short name; "framed" is the same with a codec
//!
//! The stored form also says by which codecs values are stored:
//!
//! ```toml
//! writes = 1                         # the slot that values are written by; absent: they are stored as they are
//! [[namespace.slot]]
//! number     = 1
//! codec      = "zstd"
//! dictionary = "9f86d081884c7d659a2feaa0c55ad015"   # in the server's keyfold:dictionaries
//! ```
//!
//! While a namespace is moved, the stored form also says where its keys lay before:
//!
//! ```toml
//! [namespace.from]                   # only in the stored form: reads look here too, writes take it away
//! id          = 0
//! placement   = "plain"
//! field_limit = 64
//!
//! [namespace.from]                   # the same, where an application folded the keys itself
//! id          = 0
//! handmade    = { keys = "u:{id/512:base62}", field = "{id%512:base62}", value = "zlib" }
//! field_limit = 64
//! ```
//!
//! The order of namespaces never matters: where the keys of one template all match another too, the more
//! specific one has them, and templates that overlap in any other way are refused.

mod codec;
mod error;
mod file;
mod handmade;
mod locate;
mod merge;
mod moving;
mod overlap;
mod stored;
#[cfg(test)]
mod tests;
mod warning;

pub use error::{LayoutError, Problem};
pub use file::{FileNamespace, LayoutFile};
pub use locate::{Located, Moving, Physical, Place, PlaceKind, spill_name};
pub use merge::{Conflict, LayoutConflict, Merged};
pub use moving::{Former, Move};
pub use warning::{Concern, Warning};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::codec::{CodecRule, Codecs, DictionaryId, Kinds};
use crate::placement::Placement;
use crate::template::Template;

/// The server's key, in database 0, that holds the stored form.
pub const STORED_KEY: &[u8] = b"keyfold:layout";
/// Stored bytes over which a value is spilled, where the file says nothing: what a listpack takes by
/// default (`hash-max-listpack-value`).
pub const DEFAULT_VALUE_LIMIT: usize = 64;
/// Field bytes over which a key stays plain, where the file says nothing.
pub const DEFAULT_FIELD_LIMIT: usize = 64;

/// The number of a layout's version: one more with each change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A namespace's number in physical names: given once, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceId(pub u32);

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a namespace stands in [`Layout::namespaces`]. Of use with that layout only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceIndex(pub usize);

/// One template with the way its keys are folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its number in physical names.
    pub id: NamespaceId,
    /// The shape of its keys.
    pub template: Template,
    /// The rule that gives them their places.
    pub placement: Placement,
    /// Stored bytes over which a value is spilled.
    pub value_limit: usize,
    /// Field bytes over which a key stays plain.
    pub field_limit: usize,
    /// The codec that its values are to have.
    pub codec: CodecRule,
    /// The codecs that its values are stored by.
    pub codecs: Codecs,
    /// Where its keys lay before, while they are moved.
    pub former: Option<Former>,
}

/// A versioned set of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    epoch: Epoch,
    next_id: NamespaceId,
    namespaces: Vec<Namespace>,
    /// The namespaces in the order in which a key tries them: the more specific first.
    order: Vec<NamespaceIndex>,
    /// The namespaces that are moved out of handmade hashes.
    handmade: Vec<NamespaceIndex>,
}

/// No namespaces: every key stays as it is.
impl Default for Layout {
    fn default() -> Self {
        Self::new(Epoch(0), NamespaceId(0), Vec::new())
    }
}

impl Layout {
    fn new(epoch: Epoch, next_id: NamespaceId, mut namespaces: Vec<Namespace>) -> Self {
        let kinds = Kinds::default();
        namespaces.iter_mut().for_each(|namespace| namespace.codecs.open(&kinds, &BTreeMap::new()));
        let templates: Vec<_> = namespaces.iter().map(|namespace| &namespace.template).collect();
        let order = overlap::specific_first(&templates);
        let handmade = namespaces.iter().enumerate().filter(|(_, namespace)| namespace.handmade().is_some());
        let handmade = handmade.map(|(index, _)| NamespaceIndex(index)).collect();
        Self { epoch, next_id, namespaces, order, handmade }
    }

    /// A layout of its own from the text of a file: epoch 1, ids from 0.
    ///
    /// For a server that has a layout already, see [`Self::merge`].
    pub fn parse_file(text: &str) -> Result<Self, LayoutError> {
        Ok(LayoutFile::parse(text)?.into_layout())
    }

    /// The dictionaries that it names and has not got yet.
    pub fn missing_dictionaries(&self) -> BTreeSet<DictionaryId> {
        self.namespaces.iter().flat_map(|namespace| namespace.codecs.missing_dictionaries()).collect()
    }

    /// All dictionaries that it names.
    pub fn dictionaries(&self) -> BTreeSet<DictionaryId> {
        let slots = self.namespaces.iter().flat_map(|namespace| namespace.codecs.iter());
        slots.filter_map(|slot| slot.dictionary).collect()
    }

    /// Takes over the codecs that are open in `before`.
    pub fn adopt_codecs(&mut self, before: &Self) {
        for namespace in &mut self.namespaces {
            before.namespaces.iter().for_each(|known| namespace.codecs.adopt(&known.codecs));
        }
    }

    /// Opens the codecs that are not open yet, with the dictionaries that were found in the server. One that stays
    /// closed costs its values, which are refused, and nothing else.
    pub fn open(&mut self, kinds: &Kinds, dictionaries: &BTreeMap<DictionaryId, Vec<u8>>) {
        self.namespaces.iter_mut().for_each(|namespace| namespace.codecs.open(kinds, dictionaries));
    }

    /// The same layout in the next epoch, with other codecs in some namespaces; the same where nothing differs.
    #[must_use]
    pub fn with_codecs(&self, codecs: BTreeMap<NamespaceIndex, Codecs>) -> Self {
        let mut namespaces = self.namespaces.clone();
        for (index, codecs) in codecs {
            namespaces[index.0].codecs = codecs;
        }
        let epoch = if namespaces == self.namespaces { self.epoch } else { self.epoch.next() };
        Self::new(epoch, self.next_id, namespaces)
    }

    /// The same layout in the next epoch, where a namespace is to have another codec. What is written stays as it is.
    #[must_use]
    pub fn with_codec_rule(&self, index: NamespaceIndex, rule: CodecRule) -> Self {
        let mut namespaces = self.namespaces.clone();
        namespaces[index.0].codec = rule;
        let epoch = if namespaces == self.namespaces { self.epoch } else { self.epoch.next() };
        Self::new(epoch, self.next_id, namespaces)
    }

    /// Its version.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The id that the next new namespace gets.
    pub fn next_id(&self) -> NamespaceId {
        self.next_id
    }

    /// The namespaces, in the order of their coming.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// Whether there is no namespace.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// Whether keys that begin with `prefix` may belong to a namespace.
    pub fn may_hold_prefix(&self, prefix: &[u8]) -> bool {
        self.namespaces.iter().any(|namespace| {
            let literal = namespace.template.literal_prefix();
            literal.starts_with(prefix) || prefix.starts_with(literal)
        })
    }

    /// The namespaces with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (NamespaceIndex, &Namespace)> {
        self.namespaces.iter().enumerate().map(|(index, namespace)| (NamespaceIndex(index), namespace))
    }

    /// The namespace at `index`, which this layout gave.
    pub fn namespace(&self, index: NamespaceIndex) -> &Namespace {
        &self.namespaces[index.0]
    }

    /// The namespace with this id.
    pub fn find(&self, id: NamespaceId) -> Option<NamespaceIndex> {
        self.namespaces.iter().position(|namespace| namespace.id == id).map(NamespaceIndex)
    }
}
