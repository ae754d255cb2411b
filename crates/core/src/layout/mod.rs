//! The versioned set of namespaces: which keys are folded, and how.
//!
//! Two forms of one text. A person writes the *file* ([`LayoutFile`]); the server holds the *stored* form
//! ([`Layout::to_stored`]) under [`LAYOUT_KEY`](crate::admin::LAYOUT_KEY), with what keyfold adds to it:
//!
//! ```toml
//! version = 2                        # only in the stored form, as is all up to the first namespace
//! epoch   = 3
//! attempt = "8c2a9d3f01b7e645"       # drawn by who wrote it: tells two layouts of one epoch apart
//! used    = ["hY3p", "b0Qk1"]        # what names began with so far, with the highest generation of each hash
//! unused_from = 0                    # the first generation of a hash that isn't among them
//!
//! cluster = true                     # only in the file: what all its namespaces have that don't say
//!
//! [[namespace]]
//! names       = "~hY3p"              # only in the stored form: what the names of its keys begin with
//! keys        = "user:{id:int}"      # the template; several that share buckets are a list: ["user:{id:int}", "cart:{id}"]
//! bucket      = { span = 128 }       # or { span = 128, of = "id" }, { count = 16384 }, { by = "id" }
//! value_limit = 64                   # stored bytes over which a value is spilled
//! field_limit = 64                   # field bytes over which a key stays plain
//! cluster     = false                # whether all that is written for a key is in the key's slot; `count` is then of
//!                                    # the buckets in each slot
//! codec       = "none"               # or "zstd", { name = "zstd", level = 12 }, "auto": see crate::codec
//!
//! [[namespace]]
//! names     = "~b0Qk1"
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
//! dictionary = "9f86d081884c7d659a2feaa0c55ad015"   # in the server's keyfold:{home}:dictionaries
//! ```
//!
//! While a namespace is moved, the stored form also says where its keys lay before:
//!
//! ```toml
//! [namespace.from]                   # only in the stored form: reads look here too, writes take it away
//! placement   = "plain"
//! field_limit = 64
//!
//! [namespace.from]                   # the same, where an application folded the keys itself
//! handmade    = { keys = "u:{id/512:base62}", field = "{id%512:base62}", value = "zlib" }
//! field_limit = 64
//! ```
//!
//! The order of namespaces never matters: where the keys of one template all match another too, the more
//! specific one has them, and templates that overlap in any other way are refused.

mod cache;
mod codec;
mod conflict;
mod entry;
mod error;
mod file;
mod former;
mod handmade;
mod heads;
#[cfg(test)]
mod keyed;
mod listpack;
mod locate;
mod merge;
mod moving;
mod naming;
mod overlap;
mod reader;
mod recovery;
mod revision;
mod salvage;
#[cfg(test)]
mod shared;
mod stored;
#[cfg(test)]
mod tests;
mod value;
mod warning;

pub use cache::{CachePolicy, CacheRules, Evict, Evictable, MaxMemory};
pub use codec::{read_slots, slot_records, slots_field};
pub use conflict::{Conflict, LayoutConflict};
pub use error::{LayoutError, Problem};
pub use file::{FileNamespace, LayoutFile};
pub use former::Former;
pub use heads::{Found, Heads, NAMES_PATTERN};
pub use listpack::{LISTPACK_ENTRIES, LISTPACK_VALUE, ListpackNeed};
pub(crate) use locate::RESERVED_PREFIXES;
pub(crate) use locate::spill_head;
pub use locate::{Located, Moving, Physical, Place, spill_name};
pub use merge::Merged;
pub use moving::Move;
pub use revision::{Attempt, Epoch, Revision};
pub use stored::keys_line;
pub use warning::{Concern, Warning};

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::{CodecRule, Codecs, DictionaryId, Kinds};
use crate::placement::name::Stem;
use crate::placement::{Placement, Secrets};
use crate::template::{Template, Templates};
use naming::Generations;

/// Stored bytes over which a value is spilled, where the file says nothing: what a listpack takes by
/// default (`hash-max-listpack-value`).
pub const DEFAULT_VALUE_LIMIT: usize = 64;
/// Field bytes over which a key stays plain, where the file says nothing.
pub const DEFAULT_FIELD_LIMIT: usize = 64;

/// Where a namespace stands in [`Layout::namespaces`]. Of use with that layout only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceIndex(pub usize);

/// One template, or several together, with the way its keys are folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// What the names of its keys begin with. It follows from the rules below, all but the generation.
    pub stem: Stem,
    /// The shape of its keys, or the shapes where they share buckets.
    pub keys: Templates,
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
    /// Whether its keys leave a cache where memory is short.
    pub evictable: Evictable,
    /// Where its keys lay before, while they are moved.
    pub former: Option<Former>,
}

/// A versioned set of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    revision: Revision,
    generations: Generations,
    namespaces: Vec<Namespace>,
    /// The templates in the order in which a key tries them, the more specific first: whose each is, and its number there.
    order: Vec<(NamespaceIndex, usize)>,
    /// The namespaces that are moved out of handmade hashes.
    handmade: Vec<NamespaceIndex>,
    /// Whether clients are refused writes under it.
    refuses_writes: bool,
    /// How a cache is kept within its memory; none where nothing leaves.
    cache: Option<CacheRules>,
}

/// No namespaces: every key stays as it is.
impl Default for Layout {
    fn default() -> Self {
        Self::new(Revision::default(), Generations::default(), Vec::new())
    }
}

impl Layout {
    fn new(revision: Revision, generations: Generations, mut namespaces: Vec<Namespace>) -> Self {
        let kinds = Kinds::default();
        namespaces.iter_mut().for_each(|namespace| namespace.codecs.open(&kinds, &BTreeMap::new()));
        let order = overlap::specific_first(namespaces.iter().map(|namespace| &namespace.keys));
        let handmade = namespaces.iter().enumerate().filter(|(_, namespace)| namespace.handmade().is_some());
        let handmade = handmade.map(|(index, _)| NamespaceIndex(index)).collect();
        Self { revision, generations, namespaces, order, handmade, refuses_writes: false, cache: None }
    }

    /// A layout of its own from the text of a file: epoch 1.
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

    /// The dictionaries that its open codecs were trained to.
    pub fn open_dictionaries(&self) -> BTreeMap<DictionaryId, &[u8]> {
        self.namespaces.iter().flat_map(|namespace| namespace.codecs.dictionaries()).collect()
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
        self.followed_by(self.generations.clone(), namespaces)
    }

    /// The same layout in the next epoch, where a namespace's values are written by a codec that was trained to this
    /// dictionary; none where all slots of the namespace are taken. What is written already stays readable.
    #[must_use]
    pub fn written_by(&self, index: NamespaceIndex, rule: &CodecRule, dictionary: Option<&[u8]>) -> Option<Self> {
        let mut codecs = self.namespace(index).codecs.clone();
        codecs.write_trained(rule, dictionary)?;
        Some(self.with_codecs([(index, codecs)].into()))
    }

    /// The same layout in the next epoch, where a namespace is to have another codec. What is written stays as it is.
    #[must_use]
    pub fn with_codec_rule(&self, index: NamespaceIndex, rule: CodecRule) -> Self {
        let mut namespaces = self.namespaces.clone();
        namespaces[index.0].codec = rule;
        self.followed_by(self.generations.clone(), namespaces)
    }

    /// What comes after it: of the next epoch where any namespace differs, and otherwise the same.
    fn followed_by(&self, generations: Generations, namespaces: Vec<Namespace>) -> Self {
        let revision = if namespaces == self.namespaces { self.revision } else { self.revision.next() };
        Self::new(revision, generations, namespaces).with_cache(self.cache)
    }

    /// The same layout with a cache that is kept so.
    #[must_use]
    pub(super) fn with_cache(self, cache: Option<CacheRules>) -> Self {
        Self { cache, ..self }
    }

    /// The same layout with a cache that is kept so, which comes after `before`: whoever goes by that has to learn of it.
    #[must_use]
    pub(super) fn with_cache_after(self, cache: Option<CacheRules>, before: &Self) -> Self {
        let is_new = cache != before.cache && self.revision == before.revision;
        let revision = if is_new { before.revision.next() } else { self.revision };
        Self { revision, cache, ..self }
    }

    /// How a cache is kept within its memory; none where nothing leaves.
    pub fn cache(&self) -> Option<CacheRules> {
        self.cache
    }

    /// The secrets that places in it follow from.
    pub fn secrets(&self) -> Secrets {
        let rules = self.namespaces.iter().flat_map(Namespace::rules);
        rules.filter_map(|(placement, _)| placement.secret().cloned()).collect()
    }

    /// Its version.
    pub fn epoch(&self) -> Epoch {
        self.revision.epoch
    }

    /// What tells it from every other layout of the server.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The same layout, as written by who drew this number.
    #[must_use]
    pub fn with_attempt(mut self, attempt: Attempt) -> Self {
        self.revision.attempt = attempt;
        self
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
        self.namespaces.iter().flat_map(|namespace| namespace.keys.iter()).any(|template| {
            let literal = template.literal_prefix();
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

    /// The namespace of the keys of this template, alone or with others'.
    pub fn with_template(&self, template: &Template) -> Option<NamespaceIndex> {
        let has = |namespace: &Namespace| namespace.keys.iter().any(|one| one.same_shape(template));
        self.namespaces.iter().position(has).map(NamespaceIndex)
    }

    /// The namespace of the keys of these templates, and no others, whatever their placeholders are called.
    pub fn find(&self, templates: &[Template]) -> Option<NamespaceIndex> {
        self.namespaces.iter().position(|namespace| namespace.keys.same_shape(templates)).map(NamespaceIndex)
    }
}
