//! The layout as text: TOML to namespaces, each mistake with its line.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::error::{LayoutError, Problem};
use super::overlap::{self, Clash};
use super::{DEFAULT_FIELD_LIMIT, DEFAULT_VALUE_LIMIT, Former, Namespace, NamespaceId};
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
    /// How values are compressed; none where they aren't.
    pub codec: Option<String>,
}

impl FileNamespace {
    /// The namespace, once it has its id.
    pub(super) fn with_id(&self, id: NamespaceId) -> Namespace {
        let Self { id: _, template, placement, value_limit, field_limit, codec } = self.clone();
        Namespace { id, template, placement, value_limit, field_limit, codec, former: None }
    }
}

impl LayoutFile {
    /// Reads a file, and refuses what can't be or makes no sense.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
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
        let namespaces = read_namespaces(text, file.namespace, MAX_WRITTEN_ID)?;
        Ok(Self { namespaces: namespaces.into_iter().map(|(namespace, _)| namespace).collect() })
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
    codec: Option<Spanned<String>>,
    from: Option<Spanned<From>>,
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

/// Reads every entry, with where its keys lay before, and then what they are to each other.
pub(super) fn read_namespaces(
    text: &str,
    entries: Vec<Entry>,
    max_id: u32,
) -> Result<Vec<(FileNamespace, Option<Former>)>, LayoutError> {
    let reader = Reader { text, max_id };
    let spans: Vec<_> = entries.iter().map(|entry| entry.keys.span()).collect();
    let mut namespaces: Vec<(FileNamespace, Option<Former>)> = Vec::with_capacity(entries.len());
    for mut entry in entries {
        let id = entry.id.as_ref().map(Spanned::span);
        let from = entry.from.take();
        let namespace = reader.namespace(entry)?;
        let same_id = |(other, _): &&(FileNamespace, Option<Former>)| other.id == namespace.id;
        if let (Some(span), Some(NamespaceId(id)), Some((other, _))) =
            (id, namespace.id, namespaces.iter().find(same_id))
        {
            return Err(reader.error(&span, Problem::SameId { id, other: other.template.to_string() }));
        }
        let former = from.map(|from| reader.former(&namespace.template, from.into_inner())).transpose()?;
        namespaces.push((namespace, former));
    }
    let templates: Vec<_> = namespaces.iter().map(|(namespace, _)| &namespace.template).collect();
    match overlap::first_clash(&templates) {
        Some(clash) => Err(reader.clash(&templates, &spans, clash)),
        None => Ok(namespaces),
    }
}

struct Reader<'t> {
    text: &'t str,
    max_id: u32,
}

impl Reader<'_> {
    fn error(&self, span: &Range<usize>, problem: Problem) -> LayoutError {
        LayoutError::at(self.text, span.start, problem)
    }

    fn namespace(&self, entry: Entry) -> Result<FileNamespace, LayoutError> {
        let keys = &entry.keys;
        let template =
            Template::parse(keys.get_ref()).map_err(|error| self.error(&keys.span(), Problem::Keys(error)))?;
        if overlap::is_reserved(&template) {
            return Err(self.error(&keys.span(), Problem::Reserved { keys: template.to_string() }));
        }
        if let Some(codec) = entry.codec.as_ref().filter(|codec| codec.get_ref() != "none") {
            return Err(self.error(&codec.span(), Problem::UnknownCodec { given: codec.get_ref().clone() }));
        }
        Ok(FileNamespace {
            id: entry.id.map(|id| self.id(&id)).transpose()?,
            placement: self.with_text_table(
                &template,
                self.placement(&template, entry.bucket, entry.placement)?,
                entry.text_table,
            )?,
            value_limit: self.limit("value_limit", entry.value_limit, DEFAULT_VALUE_LIMIT)?,
            field_limit: self.limit("field_limit", entry.field_limit, DEFAULT_FIELD_LIMIT)?,
            codec: None,
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
