//! From a key of a dump to what a walk over a server would have learned of it.

use keyfold_core::collection::Collection;
use keyfold_core::memory::{Model, Server, ValueShape};
use keyfold_rdb::{Collection as DumpCollection, DumpError, Element, Form, Key, Kind as DumpKind, Text, Usage, Value};
use keyfold_survey::observation::{Content, Encoding, Kind, Observation, READ_WHOLE_BYTES, Sampled};

use super::input::AnyDump;

/// Enough of a string to know whether it is an integer.
const TELLING_BYTES: usize = 24;
/// How much of a long value is looked at.
const LOOKED_AT_BYTES: usize = 256;
/// Elements kept of a hash or set that is looked into.
const ELEMENTS_KEPT: usize = 64;
/// Bytes of elements that are kept while one is read: more than any has that is kept whole.
const KEPT_BYTES: usize = 64 << 10;
/// Of collections one in so many is looked into, as of a live server.
const LOOKED_INTO_EVERY: u8 = 8;

/// Makes observations.
pub(super) struct Observer {
    model: Model,
    usage: Usage,
    /// Of one in so many keys also the beginning of the value, or some elements; 0 for none.
    sample_every: u64,
    seen: u64,
}

/// Elements of a set or hash that are kept: names and values one after the other.
#[derive(Default)]
pub(super) struct Kept {
    texts: Vec<Vec<u8>>,
    bytes: usize,
    /// Whether there were more.
    is_cut: bool,
}

impl Kept {
    pub(super) fn offer(&mut self, element: &Element<'_>) {
        self.is_cut |= self.bytes > KEPT_BYTES;
        if !self.is_cut && matches!(element.kind, DumpKind::Hash | DumpKind::Set) {
            let texts = [Some(element.name), element.value].into_iter().flatten().map(|part| part.to_bytes());
            self.texts.extend(texts.inspect(|text| self.bytes += text.len()));
        }
    }

    /// What was kept of a hash or set, and whether that is all; of other types elements aren't looked at.
    pub(super) fn into_collection(self, kind: Kind) -> Option<(Collection, bool)> {
        let collection = Collection::of_texts(kind.collection()?, self.texts);
        (!collection.is_empty()).then_some((collection, !self.is_cut))
    }
}

impl Observer {
    pub(super) fn new(server: Server, model: &Model, sample_every: u64) -> Self {
        Self { model: model.clone(), usage: Usage::new(server, model), sample_every, seen: 0 }
    }

    /// Reads the value of the key that was read last.
    pub(super) fn observe(&mut self, dump: &mut AnyDump, key: Key) -> Result<Option<Observation>, DumpError> {
        self.seen += 1;
        let is_sampled = self.sample_every > 0 && self.seen.is_multiple_of(self.sample_every);
        let looks_into = is_sampled
            || self.sample_every > 0 && key.key.last().is_some_and(|byte| byte.is_multiple_of(LOOKED_INTO_EVERY));
        let (usage, mut kept) = (&mut self.usage, Kept::default());
        let kept_bytes = if is_sampled { LOOKED_AT_BYTES } else { TELLING_BYTES };
        let value = dump.value(kept_bytes, &mut |element| {
            usage.add(&element);
            kept.offer(&element);
        })?;
        let has_expiry = key.expires_at_ms.is_some();
        Ok(value.map(|value| match value {
            Value::String(text) => self.string(key.key, has_expiry, text, is_sampled),
            Value::Collection(value) => self.collection(key.key, has_expiry, &value, kept, looks_into),
        }))
    }

    fn string(&self, key: Vec<u8>, has_expiry: bool, text: Text, is_sampled: bool) -> Observation {
        let shape = text.shape();
        let encoding = match shape {
            ValueShape::Integer(_) => Encoding::Int,
            ValueShape::Bytes(len) if self.model.embeds_string(key.len() as u64, len, has_expiry) => Encoding::Embstr,
            ValueShape::Bytes(_) => Encoding::Raw,
        };
        Observation {
            key: key.into(),
            kind: Kind::String,
            encoding,
            content: Content::String(shape),
            usage_bytes: None,
            has_expiry,
            sample: is_sampled.then(|| Sampled::Value(text.head.into())),
            members: None,
        }
    }

    fn collection(
        &mut self,
        key: Vec<u8>,
        has_expiry: bool,
        value: &DumpCollection,
        kept: Kept,
        looks_into: bool,
    ) -> Observation {
        let kind = kind_of(value.kind);
        let usage_bytes = self.usage.take(key.len() as u64, value, has_expiry);
        let is_small = usage_bytes <= READ_WHOLE_BYTES;
        let kept = kept.into_collection(kind);
        // What a large one would take in parts is told by some of its elements.
        let sampled = kept.as_ref().filter(|_| looks_into || self.sample_every > 0 && !is_small);
        let sample = sampled.map(|(collection, _)| Sampled::of(collection, ELEMENTS_KEPT));
        let members = kept.filter(|(_, is_whole)| *is_whole && is_small).map(|(collection, _)| collection);
        Observation {
            key: key.into(),
            kind,
            encoding: self.encoding(value),
            content: if kind == Kind::Other { Content::Unknown } else { Content::Elements(value.elements) },
            usage_bytes: Some(usage_bytes),
            has_expiry,
            sample,
            members,
        }
    }

    fn encoding(&self, value: &DumpCollection) -> Encoding {
        match (value.form, value.kind) {
            (_, DumpKind::List) if value.form == Form::Pieces || !self.usage.packs_lists() => Encoding::Quicklist,
            (_, DumpKind::Stream) => Encoding::Stream,
            (Form::Listpack, _) => Encoding::Listpack,
            (Form::Ziplist, _) => Encoding::Ziplist,
            (Form::Intset, _) => Encoding::Intset,
            (Form::Table, DumpKind::SortedSet) => Encoding::Skiplist,
            (Form::Table, _) => Encoding::Hashtable,
            (Form::Pieces | Form::Unknown, _) => Encoding::Other,
        }
    }
}

/// A dump's type as a walk knows it.
pub(super) fn kind_of(kind: DumpKind) -> Kind {
    match kind {
        DumpKind::Hash => Kind::Hash,
        DumpKind::Set => Kind::Set,
        DumpKind::List => Kind::List,
        DumpKind::SortedSet => Kind::SortedSet,
        DumpKind::Stream => Kind::Stream,
        DumpKind::Module => Kind::Other,
    }
}
