//! A layout's namespaces as TOML has them, before they are made sense of.

use std::fmt;
use std::mem;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::cache::EvictEntry;
use super::codec::SlotEntry;
use super::error::{LayoutError, Problem};

/// All `[[namespace]]` of a file, in its order, each with where its head stands.
#[derive(Default)]
pub(super) struct Entries(pub(super) Vec<Spanned<Entry>>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[[namespace]], in double brackets and without a name, above each namespace")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Entries, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Entries)
            }
        }
        deserializer.deserialize_any(EntriesVisitor)
    }
}

/// One `[[namespace]]`, as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) names: Option<Spanned<String>>,
    pub(super) keys: Keys,
    #[serde(rename = "type")]
    pub(super) kind: Option<Spanned<String>>,
    pub(super) bucket: Option<Spanned<Bucket>>,
    pub(super) placement: Option<Spanned<String>>,
    pub(super) keyed: Option<Spanned<Keyed>>,
    pub(super) text_table: Option<Spanned<String>>,
    pub(super) cluster: Option<bool>,
    pub(super) value_limit: Option<Spanned<i64>>,
    pub(super) field_limit: Option<Spanned<i64>>,
    pub(super) codec: Option<Spanned<toml::Value>>,
    pub(super) evict: Option<Spanned<EvictEntry>>,
    pub(super) weight: Option<Spanned<f64>>,
    pub(super) from: Option<Spanned<From>>,
    pub(super) writes: Option<u8>,
    #[serde(default)]
    pub(super) slot: Vec<Spanned<SlotEntry>>,
    /// Whether something that stands in it could not be read, and was taken out.
    #[serde(skip)]
    pub(super) has_gaps: bool,
}

impl Entry {
    /// Takes out what only the server's own layout has, and says where it stood.
    pub(super) fn take_stored(&mut self, text: &str) -> Vec<LayoutError> {
        let from = self.from.take().map(|from| (from.span().start, Problem::FromInFile));
        let slot = mem::take(&mut self.slot).first().map(|slot| (slot.span().start, Problem::SlotInFile));
        let names = self.names.take().map(|names| (names.span().start, Problem::NamesInFile));
        let found = [from, slot, names].into_iter().flatten();
        found.map(|(offset, problem)| LayoutError::at(text, offset, problem)).collect()
    }
}

/// Where the keys of a namespace lay before, in the stored form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct From {
    pub(super) names: Option<Spanned<String>>,
    #[serde(rename = "type")]
    pub(super) kind: Option<Spanned<String>>,
    pub(super) bucket: Option<Spanned<Bucket>>,
    pub(super) placement: Option<Spanned<String>>,
    pub(super) keyed: Option<Spanned<Keyed>>,
    pub(super) text_table: Option<Spanned<String>>,
    pub(super) cluster: Option<bool>,
    pub(super) field_limit: Option<Spanned<i64>>,
    pub(super) handmade: Option<Spanned<HandmadeRule>>,
    #[serde(default)]
    pub(super) put_back: bool,
}

/// The hashes of an application's own that keys are moved out of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HandmadeRule {
    pub(super) keys: String,
    pub(super) field: String,
    pub(super) value: String,
}

/// `keys`: one template, or a list of them, each with where it stands.
pub(super) struct Keys(pub(super) Vec<Spanned<String>>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keys = Spanned::<OneOrMore>::deserialize(deserializer)?;
        let span = keys.span();
        Ok(Self(match keys.into_inner() {
            OneOrMore::One(template) => vec![Spanned::new(span, template)],
            OneOrMore::More(templates) => templates,
        }))
    }
}

enum OneOrMore {
    One(String),
    More(Vec<Spanned<String>>),
}

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TemplatesVisitor;
        impl<'de> Visitor<'de> for TemplatesVisitor {
            type Value = OneOrMore;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a template such as \"user:{id:int}\", or a list of templates that share buckets")
            }

            fn visit_str<E: de::Error>(self, template: &str) -> Result<OneOrMore, E> {
                Ok(OneOrMore::One(template.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMore, A::Error> {
                let templates = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                if templates.is_empty() {
                    return Err(de::Error::invalid_length(0, &self));
                }
                Ok(OneOrMore::More(templates))
            }
        }
        deserializer.deserialize_any(TemplatesVisitor)
    }
}

/// `keyed`: whether places follow from a secret, or the fingerprint of the secret from which they do.
#[derive(Deserialize)]
#[serde(untagged, expecting = "true, or the fingerprint of a secret")]
pub(super) enum Keyed {
    Any(bool),
    By(String),
}

/// `bucket`: one rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table: { span = 128 }, { count = 16384 } or { by = \"id\" }")]
pub(super) struct Bucket {
    pub(super) span: Option<i64>,
    pub(super) of: Option<String>,
    pub(super) count: Option<i64>,
    pub(super) by: Option<String>,
}
