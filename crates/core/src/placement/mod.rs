//! The rule that gives a key its place.
//!
//! A placement takes the parts of a key and writes a physical name, and for placements with buckets a
//! field; from these it gives back exactly the parts. It knows nothing of the server: the same key has
//! the same place whatever the settings are.
//!
//! | placement | physical key | field |
//! | --- | --- | --- |
//! | *plain* | the logical key | |
//! | *zipped* ([`zipped`]) | the parts, short | |
//! | *framed* | the same; its value is a frame | |
//! | *span* ([`span`]) | id / span | id % span, other parts |
//! | *count* ([`count`]) | one of `count`, evenly | what the bucket doesn't say |
//! | *count*, of several templates ([`shared`]) | one of `count`, by a hash | which template, all parts |
//! | *by* ([`by`]) | one part | the other parts |
//! | *handmade* ([`handmade`]) | as an application's own code named its hashes | as it named their fields |
//!
//! In a cluster each of them, but for plain and handmade, is *by slot*: names carry the tag of their key's slot, and
//! `count` is of the buckets in each slot.
//!
//! A placement with buckets may be *of sets* or *of hashes*: each whole collection is then the value of its field
//! ([`crate::collection::packed`]).
//!
//! What is text in the key and lies in a field may be packed by a table ([`text_table`]).
//!
//! Always true, and tested over all of them: a place decodes to the key it came from, two keys never
//! share a place, and every physical name begins with [`name::DATA_PREFIX`]; only the handmade ones, out of which keys
//! are moved and never into, don't.

mod base64;
pub mod by;
pub mod count;
mod error;
mod field;
pub mod handmade;
mod kind;
pub mod name;
mod secret;
pub mod shared;
pub mod span;
mod spread;
#[cfg(test)]
mod tests;
pub mod text_table;
pub mod zipped;

pub use by::By;
pub use count::Count;
pub use error::PlacementError;
pub use handmade::Handmade;
pub use kind::PlaceKind;
pub use secret::{Fingerprint, NoFingerprint, Secret, Secrets, ShortSecret};
pub use span::Span;
pub use text_table::TextTable;

use std::sync::Arc;

use smallvec::SmallVec;

use crate::collection::CollectionKind;
use crate::slot::Slot;
use crate::template::{Part, Parts, Template, Templates, Type};
use name::{Mark, Name, Origin, Stem};
use text_table::TextTableError;

/// A field of a bucket. Up to 64 bytes take no allocation.
pub type Field = SmallVec<[u8; 64]>;

/// The rule that gives the keys of one template, or of several together, their places. Others ask its methods what they
/// have to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    rule: Rule,
    /// Every place is in the cluster's slot of its key.
    by_slot: bool,
    /// What keys hold, where that isn't strings.
    collection: Option<CollectionKind>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// Keys stay as they are.
    Plain,
    /// Keys of their own, with short names.
    Zipped,
    /// The same, and their values are frames, as those in buckets are.
    Framed,
    /// Neighbouring numbers share a bucket.
    Span(Span),
    /// Spread evenly over a number of buckets.
    Count(Count),
    /// One bucket for each value of one part.
    By(By),
    /// In an application's own hashes: only where keys are moved from.
    Handmade(Box<Handmade>),
}

impl Placement {
    /// The placement that layout files call so, where it needs no more than its name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "plain" => Some(Self::plain()),
            "zipped" => Some(Self::zipped()),
            "framed" => Some(Rule::Framed.into()),
            _ => None,
        }
    }

    /// Keys stay as they are.
    pub fn plain() -> Self {
        Rule::Plain.into()
    }

    /// Keys of their own, with short names.
    pub fn zipped() -> Self {
        Rule::Zipped.into()
    }

    /// The placement for values that a codec writes: keys of their own then hold frames.
    #[must_use]
    pub fn with_codec(self) -> Self {
        let rule = if self.rule == Rule::Zipped { Rule::Framed } else { self.rule };
        Self { rule, ..self }
    }

    /// The same rule within each slot of a cluster: whatever keyfold writes for a key is in the key's own slot. A count
    /// is then of the buckets in each slot. Keys without names of keyfold's are where they were.
    #[must_use]
    pub fn by_slot(self, by_slot: bool) -> Self {
        Self { by_slot: by_slot && self.has_names(), ..self }
    }

    /// Whether every place is in the cluster's slot of its key.
    pub fn is_by_slot(&self) -> bool {
        self.by_slot
    }

    /// The same rule for keys that hold sets or hashes; none where there are no buckets.
    pub fn of_collections(self, kind: CollectionKind) -> Option<Self> {
        self.has_buckets().then_some(Self { collection: Some(kind), ..self })
    }

    /// Which collections its keys hold, where it isn't strings.
    pub fn collection(&self) -> Option<CollectionKind> {
        self.collection
    }

    /// Whether the buckets of the keys of `template` are as full within slots as they would be without. Keys that share
    /// a bucket must share a slot, and which slot a key is in follows from its hash tag, or from all of it.
    pub fn suits_slots(&self, template: &Template) -> bool {
        match &self.rule {
            Rule::Plain | Rule::Zipped | Rule::Framed | Rule::Count(_) | Rule::Handmade(_) => true,
            Rule::Span(span) => template.hash_tag_parts().is_some_and(|parts| !parts.contains(&span.part())),
            Rule::By(by) => template.hash_tag_parts().is_some_and(|parts| parts.iter().all(|part| *part == by.part())),
        }
    }

    /// What kind of place it gives a key; none where keys stay as they are.
    #[inline]
    pub fn kind(&self) -> Option<PlaceKind> {
        match &self.rule {
            Rule::Plain => None,
            Rule::Zipped => Some(PlaceKind::Zipped),
            Rule::Framed => Some(PlaceKind::Framed),
            Rule::Span(_) | Rule::Count(_) | Rule::By(_) => {
                Some(self.collection.map_or(PlaceKind::Bucket, PlaceKind::Packed))
            }
            Rule::Handmade(handmade) => Some(PlaceKind::Handmade(handmade.packing())),
        }
    }

    /// Whether keys stay as they are.
    pub fn is_plain(&self) -> bool {
        self.kind().is_none()
    }

    /// Whether keys lie in fields of keyfold's own buckets.
    pub fn has_buckets(&self) -> bool {
        self.kind().is_some_and(PlaceKind::is_bucket)
    }

    /// Whether the keys of several templates may share its buckets, or have none.
    pub fn suits_several(&self) -> bool {
        self.is_plain() || self.as_count().is_some()
    }

    /// Whether keys get physical names of keyfold's.
    pub fn has_names(&self) -> bool {
        self.kind().is_some_and(|kind| kind.packing().is_none())
    }

    /// Whether values are stored as frames, so that a codec may have written them.
    pub fn holds_frames(&self) -> bool {
        self.kind().is_some_and(|kind| kind.is_bucket() || kind.is_framed())
    }

    /// How many neighbouring numbers share a bucket, where that is the rule.
    pub fn span(&self) -> Option<u64> {
        self.as_span().map(Span::span)
    }

    /// How neighbouring numbers share buckets, where that is the rule.
    pub fn as_span(&self) -> Option<&Span> {
        match &self.rule {
            Rule::Span(span) => Some(span),
            _ => None,
        }
    }

    /// Over how many buckets keys are spread, where that is the rule.
    pub fn as_count(&self) -> Option<&Count> {
        match &self.rule {
            Rule::Count(count) => Some(count),
            _ => None,
        }
    }

    /// Which part names the bucket, where that is the rule.
    pub fn as_by(&self) -> Option<&By> {
        match &self.rule {
            Rule::By(by) => Some(by),
            _ => None,
        }
    }

    /// The rule of an application's own hashes, where keys lie in these.
    pub fn handmade(&self) -> Option<&Handmade> {
        match &self.rule {
            Rule::Handmade(handmade) => Some(handmade),
            _ => None,
        }
    }

    /// What the physical names of all keys of these templates begin with.
    pub fn literal_prefix<'p>(&'p self, keys: &'p Templates) -> &'p [u8] {
        if self.has_names() {
            return &[name::DATA_PREFIX];
        }
        self.handmade().map_or_else(|| keys.literal_prefix(), |handmade| handmade.shape().literal_prefix())
    }

    /// What the names of what is written for `key` begin with.
    pub fn origin(&self, stem: Stem, key: &[u8]) -> Origin {
        Origin { slot: self.by_slot.then(|| Slot::of(key)), stem }
    }

    /// Appends the physical name of the key with these parts and this origin to `name`, and its field to `field`.
    ///
    /// False where the key stays plain; the buffers then hold nothing of use. `parts` are what the
    /// placement's template made of the key.
    pub fn locate(&self, origin: Origin, parts: &[Part<'_>], name: &mut Name, field: &mut Field) -> bool {
        match &self.rule {
            Rule::Plain => false,
            Rule::Zipped | Rule::Framed => {
                zipped::locate(origin, parts, name);
                true
            }
            Rule::Span(span) => span.locate(origin, parts, name, field),
            Rule::Count(count) => count.locate(origin, parts, name, field),
            Rule::By(by) => by.locate(origin, parts, name, field),
            Rule::Handmade(handmade) => handmade.locate(parts, name, field),
        }
    }

    /// The parts that lie at `field` of the bucket that `mark` and `bucket` name; no field where zipped.
    ///
    /// Every place gives its own parts. Bytes that are no place may give parts too: the caller locates
    /// these again, and compares.
    pub fn decode<'a>(
        &self,
        templates: &[Template],
        mark: Mark,
        bucket: &'a [u8],
        field: &'a [u8],
    ) -> Option<Parts<'a>> {
        let template = templates.first()?;
        match (&self.rule, mark) {
            (Rule::Zipped | Rule::Framed, Mark::Zipped) => zipped::decode(template, bucket),
            (Rule::Span(span), Mark::Bucket) => span.decode(template, bucket, field),
            (Rule::Count(count), _) => count.decode(templates, mark, bucket, field),
            (Rule::By(by), Mark::Bucket) => by.decode(template, bucket, field),
            _ => None,
        }
    }

    /// Whether `mark` and `bucket` name a bucket that this placement could use.
    pub fn names_bucket(&self, templates: &[Template], mark: Mark, bucket: &[u8]) -> bool {
        let Some(template) = templates.first() else { return false };
        match (&self.rule, mark) {
            (Rule::Span(span), Mark::Bucket) => span.names_bucket(bucket),
            (Rule::Count(count), Mark::Bucket | Mark::WholeBucket) => count.names_bucket(template, mark, bucket),
            (Rule::By(by), Mark::Bucket) => by.names_bucket(template, bucket),
            _ => false,
        }
    }

    /// The secret that places follow from, where they follow from one.
    pub fn secret(&self) -> Option<&Arc<Secret>> {
        match &self.rule {
            Rule::Count(count) => count.secret(),
            Rule::Plain | Rule::Zipped | Rule::Framed | Rule::Span(_) | Rule::By(_) | Rule::Handmade(_) => None,
        }
    }

    /// The same placement, keyed by a secret; none where no hash decides on buckets.
    pub fn keyed_by(self, secret: Arc<Secret>) -> Option<Self> {
        match self.rule {
            Rule::Count(count) => Some(Self { rule: Rule::Count(count.keyed_by(secret)), ..self }),
            _ => None,
        }
    }

    /// The same placement with this table for the texts that keys leave in fields.
    ///
    /// # Errors
    /// A placement without fields of keyfold's own, or one that leaves no text there.
    pub fn with_text_table(mut self, templates: &[Template], table: TextTable) -> Result<Self, TextTableError> {
        let leaves_text = |template: &Template| {
            let mut placeholders = template.placeholders().iter().enumerate();
            placeholders.any(|(at, placeholder)| placeholder.kind == Type::Text && self.leaves(at))
        };
        if !templates.iter().any(leaves_text) {
            return Err(TextTableError::NoText);
        }
        let (Rule::Span(Span { table: of, .. })
        | Rule::Count(Count { table: of, .. })
        | Rule::By(By { table: of, .. })) = &mut self.rule
        else {
            return Err(TextTableError::NoText);
        };
        *of = Some(Arc::new(table));
        Ok(self)
    }

    /// The table for the texts in fields, where there is one.
    pub fn text_table(&self) -> Option<&TextTable> {
        match &self.rule {
            Rule::Span(Span { table, .. }) | Rule::Count(Count { table, .. }) | Rule::By(By { table, .. }) => {
                table.as_deref()
            }
            Rule::Plain | Rule::Zipped | Rule::Framed | Rule::Handmade(_) => None,
        }
    }

    /// The text that the key with these parts leaves in its field, as a table packs it; none where it leaves none.
    pub fn text_left(&self, parts: &[Part<'_>]) -> Option<Vec<u8>> {
        let texts: Vec<&[u8]> = parts
            .iter()
            .enumerate()
            .filter_map(|(at, part)| match part {
                Part::Text(text) if self.leaves(at) => Some(text.as_ref()),
                _ => None,
            })
            .collect();
        (!texts.is_empty()).then(|| field::join_texts(&texts))
    }

    /// Whether a part of type text at this position would lie in the field.
    fn leaves(&self, at: usize) -> bool {
        match &self.rule {
            Rule::Span(_) | Rule::Count(_) => true,
            Rule::By(by) => by.part() != at,
            Rule::Plain | Rule::Zipped | Rule::Framed | Rule::Handmade(_) => false,
        }
    }

    /// The line of a layout file that says this placement for `template`, for people: a text table is named, not
    /// written out. For files see [`Self::lines`].
    pub fn line(&self, template: &Template) -> String {
        let line = match self.secret() {
            Some(secret) => format!("{}, keyed by {}", self.rule_line(template), secret.fingerprint()),
            None => self.rule_line(template),
        };
        let line = if self.by_slot { line + ", in each slot" } else { line };
        let line = match self.collection {
            Some(kind) => format!("{line}, type = \"{kind}\""),
            None => line,
        };
        match self.text_table() {
            Some(table) => format!("{line}, text_table of {} symbols ({})", table.symbols().len(), table.fingerprint()),
            None => line,
        }
    }

    /// The lines of a layout file that say this placement for `template`, without a line break at the end.
    pub fn lines(&self, template: &Template) -> String {
        let mut lines = self.rule_line(template);
        if let Some(secret) = self.secret() {
            lines += &format!("\nkeyed = \"{}\"", secret.fingerprint());
        }
        if let Some(table) = self.text_table() {
            lines += &format!("\ntext_table = \"{}\"", table.to_text());
        }
        if self.by_slot {
            lines += "\ncluster = true";
        }
        if let Some(kind) = self.collection {
            lines += &format!("\ntype = \"{kind}\"");
        }
        lines
    }

    /// The rule in one line, whatever placeholders are called: two placements with physical names place the keys of a
    /// template alike, and read what lies there alike, exactly if their lines are equal and both or neither go by slots.
    /// Names follow from it, so it never changes.
    pub(crate) fn canonical(&self) -> String {
        let rule = match &self.rule {
            Rule::Plain => "plain".to_owned(),
            Rule::Zipped => "zipped".to_owned(),
            Rule::Framed => "framed".to_owned(),
            Rule::Span(span) => format!("span {} of {}", span.span(), span.part()),
            Rule::Count(count) => format!("count {}", count.count()),
            Rule::By(by) => format!("by {}", by.part()),
            Rule::Handmade(_) => "handmade".to_owned(),
        };
        let secret = self.secret().map(|secret| format!(", keyed by {}", secret.fingerprint()));
        let table = self.text_table().map(|table| format!(", text table {:016x}", table.sum()));
        let collection = self.collection.map(|kind| format!(", type {kind}"));
        [Some(rule), secret, table, collection].into_iter().flatten().collect()
    }

    /// The same without a secret, a text table, slots and a type.
    pub fn rule_line(&self, template: &Template) -> String {
        match &self.rule {
            Rule::Plain => r#"placement = "plain""#.to_owned(),
            Rule::Zipped => r#"placement = "zipped""#.to_owned(),
            Rule::Framed => r#"placement = "framed""#.to_owned(),
            Rule::Span(span) => format!("bucket = {}", span.table(template)),
            Rule::Count(count) => format!("bucket = {}", count.table()),
            Rule::By(by) => format!("bucket = {}", by.table(template)),
            Rule::Handmade(handmade) => format!("handmade = {}", handmade.table(template)),
        }
    }
}

impl From<Rule> for Placement {
    fn from(rule: Rule) -> Self {
        Self { rule, by_slot: false, collection: None }
    }
}

impl From<Span> for Placement {
    fn from(span: Span) -> Self {
        Rule::Span(span).into()
    }
}

impl From<Count> for Placement {
    fn from(count: Count) -> Self {
        Rule::Count(count).into()
    }
}

impl From<By> for Placement {
    fn from(by: By) -> Self {
        Rule::By(by).into()
    }
}

impl From<Handmade> for Placement {
    fn from(handmade: Handmade) -> Self {
        Rule::Handmade(Box::new(handmade)).into()
    }
}

/// All parts but one, in order.
fn others<'p, 'k>(parts: &'p [Part<'k>], without: usize) -> impl Iterator<Item = &'p Part<'k>> {
    let (before, after) = parts.split_at(without);
    before.iter().chain(after.iter().skip(1))
}

/// The types of all parts but one, in order.
fn other_kinds(template: &Template, without: usize) -> impl Iterator<Item = Type> {
    let (before, after) = template.placeholders().split_at(without);
    before.iter().chain(after.iter().skip(1)).map(|placeholder| placeholder.kind)
}
