//! From a key of a dump to what a walk over a server would have learned of it.

use keyfold_core::memory::{Model, Server, ValueShape};
use keyfold_rdb::{Collection, DumpError, Element, Form, Key, Kind as DumpKind, Text, Usage, Value};
use keyfold_survey::observation::{Content, Encoding, Field, Kind, Observation, Sampled};

use super::input::AnyDump;

/// Enough of a string to know whether it is an integer.
const TELLING_BYTES: usize = 24;
/// How much of a long value is looked at.
const LOOKED_AT_BYTES: usize = 256;
/// Elements kept of a hash or set that is looked into, and their bytes.
const ELEMENTS_KEPT: usize = 64;
const ELEMENTS_KEPT_BYTES: usize = 64 << 10;
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

/// Elements that are kept.
#[derive(Default)]
struct Kept {
    /// Fields with their values; members with an empty one.
    elements: Vec<Field>,
    bytes: usize,
}

impl Kept {
    fn offer(&mut self, element: &Element<'_>) {
        if self.elements.len() == ELEMENTS_KEPT || self.bytes > ELEMENTS_KEPT_BYTES {
            return;
        }
        let name: Box<[u8]> = element.name.to_bytes().into();
        let value: Box<[u8]> = element.value.map_or_else(Vec::new, |value| value.to_bytes()).into();
        self.bytes += name.len() + value.len();
        self.elements.push((name, value));
    }

    /// As a sample of a hash or set; of other types elements aren't looked at.
    fn into_sample(self, kind: Kind) -> Option<Sampled> {
        match kind {
            Kind::Hash => Some(Sampled::Fields(self.elements)),
            Kind::Set => Some(Sampled::Members(self.elements.into_iter().map(|(name, _)| name).collect())),
            _ => None,
        }
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
            if looks_into {
                kept.offer(&element);
            }
        })?;
        let has_expiry = key.expires_at_ms.is_some();
        Ok(value.map(|value| match value {
            Value::String(text) => self.string(key.key, has_expiry, text, is_sampled),
            Value::Collection(value) => self.collection(key.key, has_expiry, &value, kept),
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
        }
    }

    fn collection(&mut self, key: Vec<u8>, has_expiry: bool, value: &Collection, kept: Kept) -> Observation {
        let kind = match value.kind {
            DumpKind::Hash => Kind::Hash,
            DumpKind::Set => Kind::Set,
            DumpKind::List => Kind::List,
            DumpKind::SortedSet => Kind::SortedSet,
            DumpKind::Stream => Kind::Stream,
            DumpKind::Module => Kind::Other,
        };
        let usage_bytes = Some(self.usage.take(key.len() as u64, value, has_expiry));
        Observation {
            key: key.into(),
            kind,
            encoding: self.encoding(value),
            content: if kind == Kind::Other { Content::Unknown } else { Content::Elements(value.elements) },
            usage_bytes,
            has_expiry,
            sample: kept.into_sample(kind).filter(|sample| !is_empty(sample)),
        }
    }

    fn encoding(&self, value: &Collection) -> Encoding {
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

fn is_empty(sample: &Sampled) -> bool {
    match sample {
        Sampled::Value(value) => value.is_empty(),
        Sampled::Fields(fields) => fields.is_empty(),
        Sampled::Members(members) => members.is_empty(),
    }
}
