//! *handmade*: hashes that an application folded keys into by its own code.
//!
//! ```text
//! media:{id:int}     handmade = { keys = "mediabucket:{id/1000}", field = "{id}", value = "raw" }
//!                    media:1155315  ▶  mediabucket:1155   1155315
//!
//! user:{id:int}      handmade = { keys = "u:{id/64:base62}", field = "{id%64:base62}", value = "zlib" }
//!                    user:100       ▶  u:1   A            the value deflated, as the gem me-redis does
//! ```
//! Only where keys come *from*: a namespace may be moved out of such hashes, never into them. Their names have no
//! prefix of keyfold's, and their values are no frames: any byte may come first (see [`Packing`]).
//!
//! As with every placement a place gives back exactly its key, and two keys never share one: the two patterns
//! must say each part of the key, and where one number ends, or the rule is refused.

mod digits;
mod error;
mod me_redis;
mod packing;
mod pattern;
#[cfg(test)]
mod tests;

pub use error::HandmadeError;
pub use me_redis::MeRedis;
pub use packing::{Packing, TooLarge};

use super::Field;
use super::name::{ADMINISTRATION_PREFIX, DATA_PREFIX, Name};
use crate::template::{Automaton, Part, Parts, Template};
use pattern::{Found, Pattern};

/// The most bytes of one number in a field of keyfold's own: decimal, or a varint.
pub(crate) const NUMBER_BYTES: usize = 20;

/// A rule by which an application folded keys itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handmade {
    keys: Pattern,
    field: Pattern,
    packing: Packing,
    /// What the hashes' names look like; it matches all of them, and perhaps others.
    shape: Template,
}

impl Handmade {
    /// The rule for keys of `template` by the patterns of the hashes' names and of their fields.
    ///
    /// # Errors
    /// A pattern that can't be read, or from which keys could not be told again.
    pub fn new(template: &Template, keys: &str, field: &str, packing: Packing) -> Result<Self, HandmadeError> {
        Self::of(template, Pattern::parse(template, keys)?, Pattern::parse(template, field)?, packing)
    }

    fn of(template: &Template, keys: Pattern, field: Pattern, packing: Packing) -> Result<Self, HandmadeError> {
        if let Some(other) = template.placeholders().iter().find(|placeholder| !placeholder.kind.is_int()) {
            return Err(HandmadeError::NotInts { name: other.name.clone(), kind: other.kind });
        }
        for pattern in [&keys, &field] {
            pattern.check_ends(template)?;
        }
        pattern::check_parts(template, &keys, &field)?;
        let shape = keys.shape()?;
        let reserved = Automaton::of_prefixes(&[&[DATA_PREFIX], ADMINISTRATION_PREFIX]);
        if let Some(example) = Automaton::of(&shape).shared(&reserved) {
            return Err(HandmadeError::Reserved { keys: keys.show(template), example });
        }
        Ok(Self { keys, field, packing, shape })
    }

    /// How values are stored.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// What the hashes' names look like, numbers in base62 as any text: to be compared with other templates.
    pub fn shape(&self) -> &Template {
        &self.shape
    }

    /// Whether a hash of this name could hold keys.
    pub fn names_hash(&self, name: &[u8]) -> bool {
        self.shape.begins(name) && self.keys.read(name, &mut Found::default()).is_some()
    }

    pub(super) fn locate(&self, parts: &[Part<'_>], name: &mut Name, field: &mut Field) -> bool {
        self.keys.write(parts, name).is_some() && self.field.write(parts, field).is_some()
    }

    /// The parts of the key at `field` of the hash `name`. As with [`super::Placement::decode`], who asks locates
    /// them again.
    pub(crate) fn decode<'a>(&self, template: &Template, name: &'a [u8], field: &'a [u8]) -> Option<Parts<'a>> {
        let mut found = Found::default();
        self.keys.read(name, &mut found)?;
        self.field.read(field, &mut found)?;
        (0..template.placeholders().len()).map(|part| found.part(part).map(Part::Int)).collect()
    }

    /// The value of `handmade` in a stored layout.
    pub(super) fn table(&self, template: &Template) -> String {
        let text = |pattern: &Pattern| toml::Value::from(pattern.show(template));
        format!("{{ keys = {}, field = {}, value = \"{}\" }}", text(&self.keys), text(&self.field), self.packing.name())
    }
}
