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
//! | *by* ([`by`]) | one part | the other parts |
//! | *handmade* ([`handmade`]) | as an application's own code named its hashes | as it named their fields |
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
pub mod name;
pub mod span;
mod spread;
#[cfg(test)]
mod tests;
pub mod zipped;

pub use by::By;
pub use count::Count;
pub use error::PlacementError;
pub use field::Field;
pub use handmade::Handmade;
pub use span::Span;

use crate::template::{Part, Parts, Template, Type};
use name::{Mark, Name};

/// The rule that gives the keys of one template their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
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
    /// Appends the physical name of the key with these parts to `name`, and its field to `field`.
    ///
    /// False where the key stays plain; the buffers then hold nothing of use. `parts` are what the
    /// placement's template made of a key.
    pub fn locate(&self, namespace: u32, parts: &[Part<'_>], name: &mut Name, field: &mut Field) -> bool {
        match self {
            Self::Plain => false,
            Self::Zipped | Self::Framed => {
                zipped::locate(namespace, parts, name);
                true
            }
            Self::Span(span) => span.locate(namespace, parts, name, field),
            Self::Count(count) => count.locate(namespace, parts, name, field),
            Self::By(by) => by.locate(namespace, parts, name, field),
            Self::Handmade(handmade) => handmade.locate(parts, name, field),
        }
    }

    /// The parts that lie at `field` of the bucket that `mark` and `bucket` name; no field where zipped.
    ///
    /// Every place gives its own parts. Bytes that are no place may give parts too: the caller locates
    /// these again, and compares.
    pub fn decode<'a>(&self, template: &Template, mark: Mark, bucket: &'a [u8], field: &'a [u8]) -> Option<Parts<'a>> {
        match (self, mark) {
            (Self::Zipped | Self::Framed, Mark::Zipped) => zipped::decode(template, bucket),
            (Self::Span(span), Mark::Bucket) => span.decode(template, bucket, field),
            (Self::Count(count), _) => count.decode(template, mark, bucket, field),
            (Self::By(by), Mark::Bucket) => by.decode(template, bucket, field),
            _ => None,
        }
    }

    /// Whether `mark` and `bucket` name a bucket that this placement could use.
    pub fn names_bucket(&self, template: &Template, mark: Mark, bucket: &[u8]) -> bool {
        match (self, mark) {
            (Self::Span(span), Mark::Bucket) => span.names_bucket(bucket),
            (Self::Count(count), Mark::Bucket | Mark::WholeBucket) => count.names_bucket(template, mark, bucket),
            (Self::By(by), Mark::Bucket) => by.names_bucket(template, bucket),
            _ => false,
        }
    }

    /// The line of a layout file that says this placement for `template`.
    pub fn line(&self, template: &Template) -> String {
        match self {
            Self::Plain => r#"placement = "plain""#.to_owned(),
            Self::Zipped => r#"placement = "zipped""#.to_owned(),
            Self::Framed => r#"placement = "framed""#.to_owned(),
            Self::Span(span) => format!("bucket = {}", span.table(template)),
            Self::Count(count) => format!("bucket = {}", count.table()),
            Self::By(by) => format!("bucket = {}", by.table(template)),
            Self::Handmade(handmade) => format!("handmade = {}", handmade.table(template)),
        }
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
