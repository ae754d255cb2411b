//! *count*: keys spread evenly over a number of buckets, and no bit stored twice.
//!
//! One part of the template spreads the keys: the first uuid, or else the first hex, or else the first
//! int. As a number x (see `spread.rs`) it is divided:
//!
//! ```text
//! q = x / count      r = x mod count      h = xxh3_64(field)
//!
//! bucket   (r + h) mod count, base62
//! field    q, then the other parts in order (see `field.rs`)
//!
//! back:    r = (bucket − h) mod count      x = q · count + r
//! ```
//! Numbers with the same q and other parts fall in different buckets, so that dense ids spread exactly
//! evenly; every other q turns the whole circle by another amount, so that strides, sparse ids and
//! timestamps spread as a hash would. The field tells q, h follows from the field, and so the bucket says
//! the rest.
//!
//! *Whole* form, where the spreading part can't be divided (a hex of less than 8 bytes) or there is none: r = 0, the
//! field holds all parts, and the bucket's name has `;` for `:`, so that the two forms never meet.
//!
//! Of several templates: see `shared.rs`.
//!
//! Where strangers choose keys, *keyed* by a secret: h is then the secret's hash of the field (see `secret.rs`), so that
//! nobody else knows which keys share a bucket.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::Field;
use super::error::PlacementError;
use super::field::{self, Form};
use super::name::{self, Mark, Name, Origin};
use super::secret::Secret;
use super::shared::Shared;
use super::span::checked;
use super::spread::{self, Divided};
use super::text_table::TextTable;
use super::{other_kinds, others};
use crate::base62;
use crate::template::{Part, Parts, Template, Type};

/// Keys spread evenly over a number of buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    count: u64,
    /// The part that spreads the keys.
    spreading: Option<usize>,
    /// How fields tell several templates apart, where there are several.
    shared: Option<Shared>,
    pub(super) table: Option<Arc<TextTable>>,
    secret: Option<Arc<Secret>>,
}

impl Count {
    /// Spreads over `count` buckets; 1 is of use in a cluster alone, where it is of each slot.
    pub fn new(template: &Template, count: i64) -> Result<Self, PlacementError> {
        let count = checked("count", 1, count)?;
        let first =
            |wanted: fn(Type) -> bool| template.placeholders().iter().position(|placeholder| wanted(placeholder.kind));
        let spreading = first(|kind| kind == Type::Uuid).or(first(|kind| kind == Type::Hex)).or(first(Type::is_int));
        Ok(Self { count, spreading, shared: None, table: None, secret: None })
    }

    /// The same for the keys of all of `templates` together, where they are several.
    ///
    /// # Errors
    /// As [`Self::new`]; more templates than fields can tell apart.
    pub fn of_all(templates: &[Template], count: i64) -> Result<Self, PlacementError> {
        match templates {
            [template] => Self::new(template, count),
            _ => Ok(Self {
                count: checked("count", 1, count)?,
                spreading: None,
                shared: Some(Shared::new(templates)?),
                table: None,
                secret: None,
            }),
        }
    }

    /// The same, keyed by a secret.
    #[must_use]
    pub fn keyed_by(self, secret: Arc<Secret>) -> Self {
        Self { secret: Some(secret), ..self }
    }

    /// The secret that it is keyed by, where it is.
    pub fn secret(&self) -> Option<&Arc<Secret>> {
        self.secret.as_ref()
    }

    /// How many buckets there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn locate(&self, origin: Origin, parts: &[Part<'_>], name: &mut Name, field: &mut Field) -> bool {
        let mut buffer = Field::new();
        let divided = self.spreading.and_then(|part| {
            let Divided { quotient, remainder } = spread::divide(parts.get(part)?, self.count, &mut buffer)?;
            field::encode(self.form(parts.len(), true), std::iter::once(&quotient).chain(others(parts, part)), field);
            Some(remainder)
        });
        let (mark, remainder) = if let Some(remainder) = divided {
            (Mark::Bucket, remainder)
        } else {
            match &self.shared {
                Some(shared) => shared.encode(|len| self.form(len, false), parts, field),
                None => field::encode(self.form(parts.len(), false), parts.iter(), field),
            }
            (Mark::WholeBucket, 0)
        };
        name::encode_head(origin, mark, name);
        // Both are below the count, so one subtraction does for a division.
        let bucket = remainder + self.turn(field);
        base62::encode(if bucket < self.count { bucket } else { bucket - self.count }, name);
        true
    }

    pub(super) fn decode<'a>(
        &self,
        templates: &[Template],
        mark: Mark,
        bucket: &[u8],
        field: &'a [u8],
    ) -> Option<Parts<'a>> {
        if let Some(shared) = self.shared.as_ref().filter(|_| mark == Mark::WholeBucket) {
            return shared.decode(|len| self.form(len, false), templates, field);
        }
        let placeholders = templates.first()?.placeholders();
        match (mark, self.spreading) {
            (Mark::WholeBucket, _) => field::decode(
                self.form(placeholders.len(), false),
                placeholders.iter().map(|placeholder| placeholder.kind),
                field,
            ),
            (Mark::Bucket, Some(part)) => {
                let kind = placeholders.get(part)?.kind;
                let bucket = base62::decode(bucket).filter(|bucket| *bucket < self.count)?;
                let remainder = (bucket + self.count - self.turn(field)) % self.count;
                let kinds = std::iter::once(spread::quotient_kind(kind)).chain(other_kinds(templates.first()?, part));
                let mut parts = field::decode(self.form(placeholders.len(), true), kinds, field)?;
                let quotient = parts.remove(0);
                parts.insert(part, spread::restore(kind, &quotient, remainder, self.count)?);
                Some(parts)
            }
            _ => None,
        }
    }

    fn form(&self, len: usize, is_divided: bool) -> Form<'_> {
        Form { len, is_divided, table: self.table.as_deref() }
    }

    pub(super) fn names_bucket(&self, template: &Template, mark: Mark, bucket: &[u8]) -> bool {
        // Of several templates nothing is divided.
        let kind = self.spreading.and_then(|part| template.placeholders().get(part)).map(|part| part.kind);
        let form_occurs = match mark {
            Mark::Bucket => kind.is_some(),
            // Every int and every uuid can be divided.
            _ => !kind.is_some_and(|kind| kind.is_int() || kind == Type::Uuid),
        };
        form_occurs && base62::decode(bucket).is_some_and(|number| number < self.count)
    }

    /// The value of `bucket` in a layout file.
    pub(super) fn table(&self) -> String {
        format!("{{ count = {} }}", self.count)
    }

    /// How far the circle of buckets is turned for this field.
    fn turn(&self, field: &[u8]) -> u64 {
        self.secret.as_ref().map_or_else(|| xxh3_64(field), |secret| secret.hash(field)) % self.count
    }
}
