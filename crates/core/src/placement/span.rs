//! *span*: neighbouring numbers share a bucket.
//!
//! ```text
//! user:{id:int}:logins, span 128        user:1000:logins  ▶  ~hY3p:7   104
//!
//! bucket   id / span, base62
//! field    id % span, then the other parts in order (see `field.rs`)
//! ```
//! For dense or growing ids. Ids with holes leave buckets with few entries.

use std::sync::Arc;

use super::Field;
use super::error::PlacementError;
use super::field::{self, Form};
use super::name::{self, Mark, Name, Origin};
use super::text_table::TextTable;
use super::{other_kinds, others};
use crate::base62;
use crate::template::{Part, Parts, Template, Type};

/// The most that a span or a count may be.
pub(in crate::placement) const MAX: u64 = 1 << 32;

/// Neighbouring numbers share a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    span: u64,
    part: usize,
    pub(super) table: Option<Arc<TextTable>>,
}

impl Span {
    /// `span` numbers to a bucket, of the only int or of the one named.
    pub fn new(template: &Template, span: i64, of: Option<&str>) -> Result<Self, PlacementError> {
        let span = checked("span", 2, span)?;
        let mut ints = template.placeholders().iter().filter(|placeholder| placeholder.kind.is_int());
        let (first, several) = (ints.next(), ints.next().is_some());
        let name = match (of, first) {
            (Some(name), _) => name,
            (None, None) => return Err(PlacementError::NoInt),
            (None, Some(first)) if several => {
                return Err(PlacementError::SeveralInts { first: first.name.clone() });
            }
            (None, Some(only)) => &only.name,
        };
        let part = named_part(template, "of", name)?;
        let kind = template.placeholders()[part].kind;
        if !kind.is_int() {
            return Err(PlacementError::NotInt { name: name.to_owned(), kind });
        }
        Ok(Self { span, part, table: None })
    }

    /// How many numbers share a bucket.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Which placeholder's number is divided.
    pub fn part(&self) -> usize {
        self.part
    }

    pub(super) fn locate(&self, origin: Origin, parts: &[Part<'_>], name: &mut Name, field: &mut Field) -> bool {
        let Some(&Part::Int(id)) = parts.get(self.part) else { return false };
        name::encode_head(origin, Mark::Bucket, name);
        base62::encode(id / self.span, name);
        let offset = Part::Int(id % self.span);
        field::encode(self.form(parts.len()), std::iter::once(&offset).chain(others(parts, self.part)), field);
        true
    }

    pub(super) fn decode<'a>(&self, template: &Template, bucket: &[u8], field: &'a [u8]) -> Option<Parts<'a>> {
        let kinds = std::iter::once(Type::Int).chain(other_kinds(template, self.part));
        let mut parts = field::decode(self.form(template.placeholders().len()), kinds, field)?;
        let Part::Int(offset) = parts.remove(0) else { return None };
        let id = base62::decode(bucket)?.checked_mul(self.span)?.checked_add(offset)?;
        parts.insert(self.part, Part::Int(id));
        Some(parts)
    }

    fn form(&self, len: usize) -> Form<'_> {
        Form { len, is_divided: true, table: self.table.as_deref() }
    }

    pub(super) fn names_bucket(&self, bucket: &[u8]) -> bool {
        base62::decode(bucket).is_some_and(|number| number <= i64::MAX.unsigned_abs() / self.span)
    }

    /// The value of `bucket` in a layout file.
    pub(super) fn table(&self, template: &Template) -> String {
        let placeholders = template.placeholders();
        let ints = placeholders.iter().filter(|placeholder| placeholder.kind.is_int()).count();
        match placeholders.get(self.part) {
            Some(part) if ints > 1 => format!("{{ span = {}, of = {:?} }}", self.span, part.name),
            _ => format!("{{ span = {} }}", self.span),
        }
    }
}

/// A span or a count in its range.
pub(super) fn checked(rule: &'static str, least: u64, given: i64) -> Result<u64, PlacementError> {
    u64::try_from(given)
        .ok()
        .filter(|number| (least..=MAX).contains(number))
        .ok_or(PlacementError::OutOfRange { rule, given })
}

/// Where the placeholder that a rule names stands.
pub(super) fn named_part(template: &Template, rule: &'static str, name: &str) -> Result<usize, PlacementError> {
    template.position(name).ok_or_else(|| PlacementError::UnknownPart {
        rule,
        name: name.to_owned(),
        have: template.placeholders().iter().map(|placeholder| placeholder.name.clone()).collect(),
    })
}
