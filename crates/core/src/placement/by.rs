//! *by*: one bucket for each value of one part.
//!
//! ```text
//! post:{id:int}:{part}, by id        post:9000:title  ▶  ~hY3p:2LA   title
//!
//! bucket   the part: int base62, uuid and hex base64url, text as it is
//! field    the other parts in order (see `field.rs`)
//! ```
//! For keys that are read together. How full a bucket grows is up to the data.

use std::sync::Arc;

use super::Field;
use super::error::PlacementError;
use super::field::{self, Form};
use super::name::{self, Mark, Name, Origin};
use super::span::named_part;
use super::text_table::TextTable;
use super::zipped::{decode_part, encode_part};
use super::{other_kinds, others};
use crate::template::{Part, Parts, Template};

/// One bucket for each value of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    part: usize,
    pub(super) table: Option<Arc<TextTable>>,
}

impl By {
    /// Buckets by the placeholder of this name.
    pub fn new(template: &Template, name: &str) -> Result<Self, PlacementError> {
        let part = named_part(template, "by", name)?;
        if template.placeholders().len() < 2 {
            return Err(PlacementError::ByAlone { name: name.to_owned() });
        }
        Ok(Self { part, table: None })
    }

    /// Which placeholder names the bucket.
    pub fn part(&self) -> usize {
        self.part
    }

    pub(super) fn locate(&self, origin: Origin, parts: &[Part<'_>], name: &mut Name, field: &mut Field) -> bool {
        let Some(part) = parts.get(self.part) else { return false };
        name::encode_head(origin, Mark::Bucket, name);
        encode_part(part, name);
        field::encode(self.form(parts.len() - 1), others(parts, self.part), field);
        true
    }

    pub(super) fn decode<'a>(&self, template: &Template, bucket: &'a [u8], field: &'a [u8]) -> Option<Parts<'a>> {
        let placeholders = template.placeholders();
        let part = decode_part(placeholders.get(self.part)?.kind, bucket)?;
        let mut parts = field::decode(self.form(placeholders.len() - 1), other_kinds(template, self.part), field)?;
        parts.insert(self.part, part);
        Some(parts)
    }

    fn form(&self, len: usize) -> Form<'_> {
        Form { len, is_divided: false, table: self.table.as_deref() }
    }

    pub(super) fn names_bucket(&self, template: &Template, bucket: &[u8]) -> bool {
        let placeholder = template.placeholders().get(self.part);
        placeholder.and_then(|placeholder| decode_part(placeholder.kind, bucket)).is_some()
    }

    /// The value of `bucket` in a layout file.
    pub(super) fn table(&self, template: &Template) -> String {
        let name = template.placeholders().get(self.part).map_or("", |placeholder| &placeholder.name);
        format!("{{ by = {name:?} }}")
    }
}
