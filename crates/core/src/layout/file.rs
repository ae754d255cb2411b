//! The layout as text: TOML to namespaces, each mistake with its line.

use std::mem;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::codec::SlotEntry;
use super::error::{LayoutError, Problem};
use super::overlap::{self, Clash};
use super::{DEFAULT_FIELD_LIMIT, DEFAULT_VALUE_LIMIT, Former, Namespace, NamespaceId};
use crate::codec::{CodecRule, Codecs, Kinds};
use crate::placement::handmade::{Handmade, Packing};
use crate::placement::{By, Count, Placement, PlacementError, Span, TextTable};
use crate::template::Template;

/// A string can't be longer in the server (`proto-max-bulk-len`'s default).
const MAX_LIMIT: i64 = 512 * 1024 * 1024;

/// The largest id that a file may give: names stay short, and the ids after it never run out.
const MAX_WRITTEN_ID: u32 = 999_999;

/// What a person wrote: namespaces, most of them without an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutFile {
    /// The namespaces, in the file's order.
    pub namespaces: Vec<FileNamespace>,
}

/// A namespace as a file says it. See [`Namespace`] for what the fields mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNamespace {
    /// The id, where the file gives one.
    pub id: Option<NamespaceId>,
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
    /// Whether that has to be trained, or chosen, before it is of use.
    pub codec_waits: bool,
}

impl FileNamespace {
    /// The namespace, once it has its id. `known` is what it was so far: what its values are stored by stays
    /// readable, and what they will be stored by changes where the file says something else than before.
    pub(super) fn with_id(&self, id: NamespaceId, known: Option<&Namespace>) -> Namespace {
        let Self { id: _, template, placement, value_limit, field_limit, codec, codec_waits } = self.clone();
        let mut codecs = known.map(|known| known.codecs.clone()).unwrap_or_default();
        if known.is_none_or(|known| known.codec != codec) {
            let same_kind = codecs.written().filter(|slot| slot.rule.name == codec.name);
            let dictionary = same_kind.and_then(|slot| slot.dictionary);
            if codec.is_none() {
                codecs.write_raw();
            } else if !codec_waits || dictionary.is_some() {
                codecs.write_by(&codec, dictionary);
            }
        }
        Namespace { id, template, placement, value_limit, field_limit, codec, codecs, former: None }
    }
}

impl LayoutFile {
    /// Reads a file, and refuses what can't be or makes no sense. Codecs are keyfold's own.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        Self::parse_with(text, &Kinds::default())
    }

    /// The same, with other codecs.
    pub fn parse_with(text: &str, kinds: &Kinds) -> Result<Self, LayoutError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            namespace: Vec<Entry>,
        }
        let file: File = parse_toml(text)?;
        if let Some(from) = file.namespace.iter().find_map(|entry| entry.from.as_ref()) {
            return Err(LayoutError::at(text, from.span().start, Problem::FromInFile));
        }
        if let Some(slot) = file.namespace.iter().find_map(|entry| entry.slot.first()) {
            return Err(LayoutError::at(text, slot.span().start, Problem::SlotInFile));
        }
        let namespaces = read_namespaces(text, file.namespace, MAX_WRITTEN_ID, Some(kinds))?;
        Ok(Self { namespaces: namespaces.into_iter().map(|read| read.namespace).collect() })
    }
}

/// One `[[namespace]]`, as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    keys: Spanned<String>,
    bucket: Option<Spanned<Bucket>>,
    placement: Option<Spanned<String>>,
    text_table: Option<Spanned<String>>,
    id: Option<Spanned<i64>>,
    value_limit: Option<Spanned<i64>>,
    field_limit: Option<Spanned<i64>>,
    codec: Option<Spanned<toml::Value>>,
    from: Option<Spanned<From>>,
    writes: Option<u8>,
    #[serde(default)]
    slot: Vec<Spanned<SlotEntry>>,
}

/// What was read of one namespace.
pub(super) struct Read {
    pub(super) namespace: FileNamespace,
    pub(super) former: Option<Former>,
    pub(super) codecs: Codecs,
}

/// Where the keys of a namespace lay before, in the stored form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct From {
    id: Spanned<i64>,
    bucket: Option<Spanned<Bucket>>,
    placement: Option<Spanned<String>>,
    text_table: Option<Spanned<String>>,
    field_limit: Option<Spanned<i64>>,
    handmade: Option<Spanned<HandmadeRule>>,
}

/// The hashes of an application's own that keys are moved out of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandmadeRule {
    keys: String,
    field: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table: { span = 128 }, { count = 16384 } or { by = \"id\" }")]
struct Bucket {
    span: Option<i64>,
    of: Option<String>,
    count: Option<i64>,
    by: Option<String>,
}

/// TOML to fields; its own errors already name the field.
pub(super) fn parse_toml<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, LayoutError> {
    toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        LayoutError::at(text, offset, Problem::Toml(error.message().to_owned()))
    })
}

/// Reads every entry, and then what they are to each other. Codecs are checked against `kinds`, where they come from a
/// person; in the server there may be some that only another program knows.
pub(super) fn read_namespaces(
    text: &str,
    entries: Vec<Entry>,
    max_id: u32,
    kinds: Option<&Kinds>,
) -> Result<Vec<Read>, LayoutError> {
    let reader = Reader { text, max_id, kinds };
    let spans: Vec<_> = entries.iter().map(|entry| entry.keys.span()).collect();
    let mut all: Vec<Read> = Vec::with_capacity(entries.len());
    for mut entry in entries {
        let id = entry.id.as_ref().map(Spanned::span);
        let from = entry.from.take();
        let codecs = reader.codecs(mem::take(&mut entry.slot), entry.writes)?;
        let namespace = reader.namespace(entry)?;
        let same_id = |other: &&Read| other.namespace.id == namespace.id;
        if let (Some(span), Some(NamespaceId(id)), Some(other)) = (id, namespace.id, all.iter().find(same_id)) {
            return Err(reader.error(&span, Problem::SameId { id, other: other.namespace.template.to_string() }));
        }
        let former = from.map(|from| reader.former(&namespace.template, from.into_inner())).transpose()?;
        all.push(Read { namespace, former, codecs });
    }
    let templates: Vec<_> = all.iter().map(|read| &read.namespace.template).collect();
    match overlap::first_clash(&templates) {
        Some(clash) => Err(reader.clash(&templates, &spans, clash)),
        None => Ok(all),
    }
}

pub(super) struct Reader<'t> {
    text: &'t str,
    max_id: u32,
    pub(super) kinds: Option<&'t Kinds>,
}

impl Reader<'_> {
    pub(super) fn error(&self, span: &Range<usize>, problem: Problem) -> LayoutError {
        LayoutError::at(self.text, span.start, problem)
    }

    fn namespace(&self, entry: Entry) -> Result<FileNamespace, LayoutError> {
        let keys = &entry.keys;
        let template =
            Template::parse(keys.get_ref()).map_err(|error| self.error(&keys.span(), Problem::Keys(error)))?;
        if overlap::is_reserved(&template) {
            return Err(self.error(&keys.span(), Problem::Reserved { keys: template.to_string() }));
        }
        let span = entry.codec.as_ref().map(Spanned::span);
        let codec = entry.codec.map(|codec| self.codec(&codec)).transpose()?.unwrap_or_else(CodecRule::none);
        let placement = match self.placement(&template, entry.bucket, entry.placement)? {
            Placement::Zipped if !codec.is_none() => Placement::Framed,
            // In the stored form values are still decoded on their way to being plain.
            Placement::Plain if !codec.is_none() && self.kinds.is_some() => {
                return Err(self.error(&span.unwrap_or_default(), Problem::CodecOfPlain));
            }
            placement => placement,
        };
        let kind = self.kinds.and_then(|kinds| kinds.find(&codec.name));
        Ok(FileNamespace {
            id: entry.id.map(|id| self.id(&id)).transpose()?,
            placement: self.with_text_table(&template, placement, entry.text_table)?,
            value_limit: self.limit("value_limit", entry.value_limit, DEFAULT_VALUE_LIMIT)?,
            field_limit: self.limit("field_limit", entry.field_limit, DEFAULT_FIELD_LIMIT)?,
            codec_waits: kind.is_none_or(|kind| kind.needs_training()),
            codec,
            template,
        })
    }

    fn former(&self, template: &Template, from: From) -> Result<Former, LayoutError> {
        let placement = match from.handmade {
            Some(rule) if from.bucket.is_none() && from.placement.is_none() => self.handmade(template, rule)?,
            Some(rule) => return Err(self.error(&rule.span(), Problem::BucketAndHandmade)),
            None => self.placement(template, from.bucket, from.placement)?,
        };
        Ok(Former {
            id: self.id(&from.id)?,
            placement: self.with_text_table(template, placement, from.text_table)?,
            field_limit: self.limit("field_limit", from.field_limit, DEFAULT_FIELD_LIMIT)?,
        })
    }

    fn handmade(&self, template: &Template, rule: Spanned<HandmadeRule>) -> Result<Placement, LayoutError> {
        let span = rule.span();
        let HandmadeRule { keys, field, value } = rule.into_inner();
        let Some(packing) = Packing::named(&value) else {
            return Err(self.error(&span, Problem::UnknownPacking { given: value }));
        };
        let handmade = Handmade::new(template, &keys, &field, packing);
        let handmade = handmade.map_err(|error| self.error(&span, Problem::Handmade(error)))?;
        Ok(Placement::Handmade(Box::new(handmade)))
    }

    fn placement(
        &self,
        template: &Template,
        bucket: Option<Spanned<Bucket>>,
        placement: Option<Spanned<String>>,
    ) -> Result<Placement, LayoutError> {
        match (bucket, placement) {
            (None, None) => Ok(Placement::Zipped),
            (Some(bucket), None) => {
                let span = bucket.span();
                bucket_rule(template, bucket.into_inner()).map_err(|problem| self.error(&span, problem))
            }
            (Some(_), Some(placement)) => Err(self.error(&placement.span(), Problem::BucketAndPlacement)),
            (None, Some(placement)) => match placement.get_ref().as_str() {
                "plain" => Ok(Placement::Plain),
                "zipped" => Ok(Placement::Zipped),
                "framed" => Ok(Placement::Framed),
                given => Err(self.error(&placement.span(), Problem::UnknownPlacement { given: given.to_owned() })),
            },
        }
    }

    fn with_text_table(
        &self,
        template: &Template,
        placement: Placement,
        table: Option<Spanned<String>>,
    ) -> Result<Placement, LayoutError> {
        let Some(text) = table else { return Ok(placement) };
        let packed = TextTable::from_text(text.get_ref()).and_then(|table| placement.with_text_table(template, table));
        packed.map_err(|error| self.error(&text.span(), Problem::TextTable(error)))
    }

    fn id(&self, id: &Spanned<i64>) -> Result<NamespaceId, LayoutError> {
        let (given, max) = (*id.get_ref(), self.max_id);
        let number = u32::try_from(given).ok().filter(|number| *number <= max);
        number.map(NamespaceId).ok_or_else(|| self.error(&id.span(), Problem::BadId { given, max }))
    }

    fn limit(&self, field: &'static str, limit: Option<Spanned<i64>>, default: usize) -> Result<usize, LayoutError> {
        let Some(limit) = limit else { return Ok(default) };
        let given = *limit.get_ref();
        let bytes = usize::try_from(given).ok().filter(|_| (1..=MAX_LIMIT).contains(&given));
        bytes.ok_or_else(|| self.error(&limit.span(), Problem::Limit { field, given }))
    }

    fn clash(&self, templates: &[&Template], spans: &[Range<usize>], clash: Clash) -> LayoutError {
        let Clash { earlier, later, example } = clash;
        let keys = templates[later].to_string();
        let other = templates[earlier].to_string();
        let line = self.error(&spans[earlier], Problem::OneRule).line;
        let problem = match example {
            Some(example) => Problem::Crossing { keys, other, line, example },
            None => Problem::SameKeys { keys, other, line },
        };
        self.error(&spans[later], problem)
    }
}

fn bucket_rule(template: &Template, bucket: Bucket) -> Result<Placement, Problem> {
    let rule: Result<Placement, PlacementError> = match bucket {
        Bucket { span: Some(span), of, count: None, by: None } => {
            Span::new(template, span, of.as_deref()).map(Placement::Span)
        }
        Bucket { span: None, of: None, count: Some(count), by: None } => {
            Count::new(template, count).map(Placement::Count)
        }
        Bucket { span: None, of: None, count: None, by: Some(by) } => By::new(template, &by).map(Placement::By),
        _ => return Err(Problem::OneRule),
    };
    rule.map_err(Problem::Bucket)
}
