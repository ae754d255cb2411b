//! The layout as text: TOML to namespaces, each mistake with its line.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::cache::{CacheEntry, CacheRules, Evictable};
use super::entry::{Bucket, Entries, Entry, From, HandmadeRule, Keyed, Keys};
use super::error::{LayoutError, Problem};
use super::naming::{hashes_of, name_hash, same_names};
use super::overlap::{self, Clash};
use super::reader::Reader;
use super::salvage::{Salvage, Taken};
use super::{DEFAULT_FIELD_LIMIT, DEFAULT_VALUE_LIMIT, Former, Namespace};
use crate::codec::{CodecRule, Codecs, Kinds};
use crate::collection::CollectionKind;
use crate::placement::handmade::{Handmade, Packing};
use crate::placement::name::{DATA_PREFIX, Generation, NameHash, Stem};
use crate::placement::{By, Count, Placement, PlacementError, Secrets, Span, TextTable};
use crate::template::{Template, Templates};

/// A string can't be longer in the server (`proto-max-bulk-len`'s default).
const MAX_LIMIT: i64 = 512 * 1024 * 1024;

/// The type of the keys of a namespace that doesn't say it.
const STRING: &str = "string";

/// What a person wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutFile {
    /// The namespaces, in the file's order.
    pub namespaces: Vec<FileNamespace>,
    /// How a cache is kept within its memory; none where nothing leaves.
    pub cache: Option<CacheRules>,
}

/// A namespace as a file says it. See [`Namespace`] for what the fields mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNamespace {
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
    /// Whether that has to be trained, or chosen, before it is of use.
    pub codec_waits: bool,
    /// Whether its keys leave a cache where memory is short.
    pub evictable: Evictable,
}

impl FileNamespace {
    /// The namespace, once it has its names. `known` is what it was so far: what its values are stored by stays
    /// readable, and what they will be stored by changes where the file says something else than before.
    pub(super) fn with_stem(&self, stem: Stem, known: Option<&Namespace>) -> Namespace {
        let Self { keys, placement, value_limit, field_limit, codec, codec_waits, evictable } = self.clone();
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
        Namespace { stem, keys, placement, value_limit, field_limit, codec, codecs, evictable, former: None }
    }

    /// The line of a layout file that says where its keys lie, for people.
    pub fn line(&self) -> String {
        self.placement.line(self.keys.first())
    }
}

impl LayoutFile {
    /// Reads a file, and refuses what can't be or makes no sense. Codecs are keyfold's own, and there are no secrets.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        Self::parse_with(text, &Kinds::default(), &Secrets::default())
    }

    /// The same, with other codecs, and the secrets that namespaces may be keyed by.
    pub fn parse_with(text: &str, kinds: &Kinds, secrets: &Secrets) -> Result<Self, LayoutError> {
        Self::check_with(text, kinds, secrets).map_err(|mut errors| errors.swap_remove(0))
    }

    /// The same with all that is wrong, in the order of the lines: at least one mistake. What isn't TOML is told alone:
    /// what it would say is not known.
    pub fn check_with(text: &str, kinds: &Kinds, secrets: &Secrets) -> Result<Self, Vec<LayoutError>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            cluster: bool,
            cache: Option<CacheEntry>,
            #[serde(default)]
            namespace: Entries,
        }
        let Salvage { read, mut errors, taken } = Salvage::<File>::of(text);
        let in_order = |mut errors: Vec<LayoutError>| {
            errors.sort_by_key(|error| (error.line, error.column));
            errors
        };
        errors.iter_mut().for_each(LayoutError::leave_out_stored);
        let Some(file) = read else { return Err(in_order(errors)) };
        let mut entries = entries(file.namespace, &taken);
        for entry in &mut entries {
            errors.extend(entry.take_stored(text));
        }
        let reader = Reader { text, kinds: Some(kinds), secrets, cluster: file.cluster };
        let cache = noted(file.cache.map(|cache| reader.cache(cache)).transpose(), &mut errors).flatten();
        match read_namespaces(&reader, entries) {
            Ok(namespaces) if errors.is_empty() => {
                let namespaces = namespaces.into_iter().map(|read| read.namespace).collect();
                Ok(Self { namespaces, cache })
            }
            read => {
                errors.extend(read.err().into_iter().flatten());
                Err(in_order(errors))
            }
        }
    }
}

/// The entries, each with whether something in it was taken out.
fn entries(Entries(entries): Entries, taken: &[Taken]) -> Vec<Entry> {
    let heads: Vec<_> = entries.iter().map(|entry| entry.span().start).collect();
    let ends = heads.iter().skip(1).copied().chain([usize::MAX]);
    let mut entries: Vec<_> = entries.into_iter().map(Spanned::into_inner).collect();
    for ((entry, head), end) in entries.iter_mut().zip(&heads).zip(ends) {
        entry.has_gaps = taken.iter().any(|taken| (*head..end).contains(&taken.at.start));
    }
    entries
}

/// What was read of one namespace.
pub(super) struct Read {
    pub(super) namespace: FileNamespace,
    pub(super) stem: Stem,
    pub(super) former: Option<Former>,
    pub(super) codecs: Codecs,
}

impl Read {
    fn hashes(&self) -> Vec<NameHash> {
        let own = (&self.namespace.placement, self.stem);
        hashes_of(std::iter::once(own).chain(self.former.as_ref().map(|former| (&former.placement, former.stem))))
    }
}

/// Reads every entry, and refuses entries that don't go together; with all that is wrong, in no order.
pub(super) fn read_namespaces(reader: &Reader<'_>, entries: Vec<Entry>) -> Result<Vec<Read>, Vec<LayoutError>> {
    let (mut all, mut spans, mut errors) = (Vec::with_capacity(entries.len()), Vec::new(), Vec::new());
    for entry in entries {
        let entry_spans: Vec<_> = entry.keys.0.iter().map(Spanned::span).collect();
        let (has_gaps, mut of_entry) = (entry.has_gaps, Vec::new());
        if let Some(read) = reader.entry(entry, &mut of_entry) {
            all.push(read);
            spans.push(entry_spans);
        }
        // What seems to be missing may be what was taken out.
        errors.extend(of_entry.into_iter().filter(|error| !(has_gaps && error.problem.may_be_of_a_gap())));
    }
    let templates: Vec<_> = all.iter().flat_map(|read: &Read| read.namespace.keys.iter()).collect();
    let template_spans = spans.concat();
    errors.extend(overlap::clashes(&templates).map(|clash| reader.clash(&templates, &template_spans, clash)));
    let hashes: Vec<_> = all.iter().map(Read::hashes).collect();
    if errors.is_empty()
        && let Some((later, earlier)) = same_names(&hashes)
    {
        let [later, earlier] = [later, earlier].map(|index| (&all[index].namespace.keys, &spans[index][0]));
        errors.push(reader.same_names(later, earlier));
    }
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

/// What was read; a mistake is noted, and what stands beside it is read all the same.
fn noted<T>(read: Result<T, LayoutError>, errors: &mut Vec<LayoutError>) -> Option<T> {
    read.map_err(|error| errors.push(error)).ok()
}

impl Reader<'_> {
    /// One entry whole; none where anything in it is wrong.
    fn entry(&self, mut entry: Entry, errors: &mut Vec<LayoutError>) -> Option<Read> {
        let (names, from, span) = (entry.names.take(), entry.from.take(), entry.keys.0[0].span());
        let codecs = noted(self.codecs(mem::take(&mut entry.slot), entry.writes), errors);
        let namespace = self.namespace(entry, errors)?;
        let FileNamespace { keys, placement, field_limit, .. } = &namespace;
        let stem = noted(self.stem(names, &span, keys, placement, *field_limit), errors)?;
        let former = noted(from.map(|from| self.former(keys, from)).transpose(), errors)?;
        Some(Read { stem, former, codecs: codecs?, namespace })
    }

    fn namespace(&self, entry: Entry, errors: &mut Vec<LayoutError>) -> Option<FileNamespace> {
        let (keys_span, codec_span) = (entry.keys.0[0].span(), entry.codec.as_ref().map(Spanned::span));
        let keys = noted(self.templates(&entry.keys), errors);
        let codec = noted(entry.codec.map(|codec| self.codec(&codec)).transpose(), errors);
        let value_limit = noted(self.limit("value_limit", entry.value_limit, DEFAULT_VALUE_LIMIT), errors);
        let field_limit = noted(self.limit("field_limit", entry.field_limit, DEFAULT_FIELD_LIMIT), errors);
        let evictable = noted(self.evictable(entry.evict, entry.weight), errors);
        // What the placement may be depends on the keys.
        let (keys, codec) = (keys?, codec?.unwrap_or_else(CodecRule::none));
        let placement = self.placement(&keys, &keys_span, entry.bucket, entry.placement, entry.cluster);
        let placement = placement.and_then(|placement| self.keyed(placement, entry.keyed));
        let placement = placement.and_then(|placement| self.with_type(placement, entry.kind));
        let mut placement = noted(placement, errors)?;
        if !codec.is_none() {
            // In the stored form values are still decoded on their way to being plain.
            if placement.is_plain() && self.kinds.is_some() {
                errors.push(self.error(&codec_span.unwrap_or_default(), Problem::CodecOfPlain));
                return None;
            }
            placement = placement.with_codec();
        }
        let kind = self.kinds.and_then(|kinds| kinds.find(&codec.name));
        if kind.is_some_and(|kind| !kind.is_for(placement.collection())) {
            let of = placement.collection().map_or("string", CollectionKind::name).to_owned();
            let problem = Problem::CodecOfType { codec: codec.name, of };
            errors.push(self.error(&codec_span.unwrap_or_default(), problem));
            return None;
        }
        Some(FileNamespace {
            placement: noted(self.with_text_table(&keys, placement, entry.text_table), errors)?,
            value_limit: value_limit?,
            field_limit: field_limit?,
            codec_waits: kind.is_none_or(|kind| kind.needs_training()),
            evictable: evictable?,
            codec,
            keys,
        })
    }

    fn templates(&self, keys: &Keys) -> Result<Templates, LayoutError> {
        let parsed = keys.0.iter().map(|keys| {
            let template = Template::parse_located(keys.get_ref())
                .map_err(|(at, error)| LayoutError::at(self.text, self.offset_in(keys, at), Problem::Keys(error)))?;
            if overlap::is_reserved(&template) {
                return Err(self.error(&keys.span(), Problem::Reserved { keys: template.to_string() }));
            }
            Ok(template)
        });
        let templates = Templates::new(parsed.collect::<Result<_, _>>()?);
        Ok(templates.unwrap_or_else(|| unreachable!("an empty list is refused when it is read")))
    }

    fn former(&self, keys: &Templates, from: Spanned<From>) -> Result<Former, LayoutError> {
        let span = from.span();
        let from = from.into_inner();
        let put_back = from.put_back;
        let placement = match from.handmade {
            Some(rule) if keys.are_several() => {
                return Err(self.error(&rule.span(), Problem::SeveralHandmade { keys: keys.to_string() }));
            }
            Some(rule) if from.bucket.is_none() && from.placement.is_none() => self.handmade(keys.first(), rule)?,
            Some(rule) => return Err(self.error(&rule.span(), Problem::BucketAndHandmade)),
            None => self.placement(keys, &span, from.bucket, from.placement, from.cluster)?,
        };
        let placement = self.keyed(placement, from.keyed)?;
        let placement = self.with_type(placement, from.kind)?;
        let placement = self.with_text_table(keys, placement, from.text_table)?;
        let field_limit = self.limit("field_limit", from.field_limit, DEFAULT_FIELD_LIMIT)?;
        let stem = self.stem(from.names, &span, keys, &placement, field_limit)?;
        Ok(Former { stem, placement, field_limit, put_back })
    }

    fn handmade(&self, template: &Template, rule: Spanned<HandmadeRule>) -> Result<Placement, LayoutError> {
        let span = rule.span();
        let HandmadeRule { keys, field, value } = rule.into_inner();
        let Some(packing) = Packing::named(&value) else {
            return Err(self.error(&span, Problem::UnknownPacking { given: value }));
        };
        let handmade = Handmade::new(template, &keys, &field, packing);
        let handmade = handmade.map_err(|error| self.error(&span, Problem::Handmade(error)))?;
        Ok(handmade.into())
    }

    /// The placement of the keys, whose first template stands at `span`.
    fn placement(
        &self,
        keys: &Templates,
        span: &Range<usize>,
        bucket: Option<Spanned<Bucket>>,
        placement: Option<Spanned<String>>,
        cluster: Option<bool>,
    ) -> Result<Placement, LayoutError> {
        let cluster = cluster.unwrap_or(self.cluster);
        let placement = match (bucket, placement) {
            (None, None) => Placement::zipped(),
            (Some(bucket), None) => {
                let span = bucket.span();
                let rule = bucket_rule(keys, bucket.into_inner(), cluster);
                return rule.map_err(|problem| self.error(&span, problem));
            }
            (Some(_), Some(placement)) => return Err(self.error(&placement.span(), Problem::BucketAndPlacement)),
            (None, Some(placement)) => Placement::named(placement.get_ref()).ok_or_else(|| {
                let given = placement.get_ref().clone();
                self.error(&placement.span(), Problem::UnknownPlacement { given })
            })?,
        };
        if keys.are_several() && !placement.suits_several() {
            return Err(self.error(span, Problem::SeveralWithoutCount));
        }
        Ok(placement.by_slot(cluster))
    }

    /// The placement, keyed by the secret that `keyed` means.
    fn keyed(&self, placement: Placement, keyed: Option<Spanned<Keyed>>) -> Result<Placement, LayoutError> {
        let Some(keyed) = keyed else { return Ok(placement) };
        let span = keyed.span();
        let secret = match keyed.into_inner() {
            Keyed::Any(false) => return Ok(placement),
            Keyed::Any(true) => self.secrets.first().ok_or(Problem::NoSecret),
            Keyed::By(name) => {
                let known = name.parse().map(|fingerprint| self.secrets.find(fingerprint));
                let known = known.map_err(|_| self.error(&span, Problem::BadFingerprint { given: name.clone() }))?;
                known.ok_or(Problem::OtherSecret { fingerprint: name })
            }
        };
        let keyed = secret.and_then(|secret| placement.keyed_by(Arc::clone(secret)).ok_or(Problem::KeyedWithoutCount));
        keyed.map_err(|problem| self.error(&span, problem))
    }

    /// The placement for keys of the type that `type` says, which are strings where it says nothing.
    fn with_type(&self, placement: Placement, kind: Option<Spanned<String>>) -> Result<Placement, LayoutError> {
        let Some(kind) = kind else { return Ok(placement) };
        let given = kind.get_ref();
        if given == STRING {
            return Ok(placement);
        }
        let of_collections = match CollectionKind::of_name(given.as_bytes()) {
            Some(known) => placement.of_collections(known).ok_or(Problem::TypeWithoutBucket { given: given.clone() }),
            None => Err(Problem::UnknownType { given: given.clone() }),
        };
        of_collections.map_err(|problem| self.error(&kind.span(), problem))
    }

    fn with_text_table(
        &self,
        keys: &Templates,
        placement: Placement,
        table: Option<Spanned<String>>,
    ) -> Result<Placement, LayoutError> {
        let Some(text) = table else { return Ok(placement) };
        let packed = TextTable::from_text(text.get_ref()).and_then(|table| placement.with_text_table(keys, table));
        packed.map_err(|error| self.error(&text.span(), Problem::TextTable(error)))
    }

    /// The stem of a namespace. The stored form says it; in a file it follows from the rules, with generation 0.
    fn stem(
        &self,
        names: Option<Spanned<String>>,
        span: &Range<usize>,
        keys: &Templates,
        placement: &Placement,
        field_limit: usize,
    ) -> Result<Stem, LayoutError> {
        let hash = name_hash(keys, placement, field_limit);
        let Some(names) = names else {
            let is_left_out = self.kinds.is_none() && placement.has_names();
            let stem = Stem { hash, generation: Generation(0) };
            return if is_left_out { Err(self.error(span, Problem::NoNames)) } else { Ok(stem) };
        };
        let stem = names.get_ref().strip_prefix(char::from(DATA_PREFIX)).and_then(|stem| stem.parse().ok());
        stem.filter(|stem: &Stem| stem.hash == hash && placement.has_names()).ok_or_else(|| {
            let given = names.get_ref().clone();
            self.error(&names.span(), Problem::WrongNames { given, hash })
        })
    }

    fn limit(&self, field: &'static str, limit: Option<Spanned<i64>>, default: usize) -> Result<usize, LayoutError> {
        let Some(limit) = limit else { return Ok(default) };
        let given = *limit.get_ref();
        let bytes = usize::try_from(given).ok().filter(|_| (1..=MAX_LIMIT).contains(&given));
        bytes.ok_or_else(|| self.error(&limit.span(), Problem::Limit { field, given }))
    }

    fn same_names(&self, later: (&Templates, &Range<usize>), earlier: (&Templates, &Range<usize>)) -> LayoutError {
        let line = self.error(earlier.1, Problem::OneRule).line;
        let [keys, other] = [later.0, earlier.0].map(ToString::to_string);
        self.error(later.1, Problem::SameNames { keys, other, line })
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

fn bucket_rule(keys: &Templates, bucket: Bucket, cluster: bool) -> Result<Placement, Problem> {
    if keys.are_several() && bucket.count.is_none() {
        return Err(Problem::SeveralWithoutCount);
    }
    let template = keys.first();
    let rule: Result<Placement, PlacementError> = match bucket {
        Bucket { span: Some(span), of, count: None, by: None } => {
            Span::new(template, span, of.as_deref()).map(Placement::from)
        }
        Bucket { span: None, of: None, count: Some(1), by: None } if !cluster => Err(PlacementError::OneBucket),
        Bucket { span: None, of: None, count: Some(count), by: None } => {
            Count::of_all(keys, count).map(Placement::from)
        }
        Bucket { span: None, of: None, count: None, by: Some(by) } => By::new(template, &by).map(Placement::from),
        _ => return Err(Problem::OneRule),
    };
    let placement = rule.map_err(Problem::Bucket)?.by_slot(cluster);
    if cluster && !placement.suits_slots(template) {
        return Err(Problem::SlotsApart { keys: template.to_string() });
    }
    Ok(placement)
}
