//! The shape of a family of keys: `session:{id:uuid}`.
//!
//! A template is literal text and named placeholders, each of one type:
//!
//! | placeholder | matches | its part |
//! | --- | --- | --- |
//! | `{id:int}` | canonical decimal, 0 to 2⁶³−1: no sign, no leading zeros | [`Part::Int`] |
//! | `{id:int(12)}` | exactly 12 digits, 1 to 18 allowed | [`Part::Int`] |
//! | `{id:uuid}` | 8-4-4-4-12 in lower case | [`Part::Uuid`] |
//! | `{id:hex}` | lower case, an even number of digits, at least 2 | [`Part::Hex`] |
//! | `{id}` | any bytes up to the *first* occurrence of the literal that follows; at the end, all | [`Part::Text`] |
//!
//! `{{` and `}}` stand for single braces. Matching never goes back: `int` and `hex` take the longest run,
//! text the shortest. What would make that ambiguous is refused when the template is parsed, so that
//! a key has at most one way to match, and its parts give back exactly that key.

mod automaton;
mod error;
mod hash_tag;
mod key;
mod parse;
mod templates;
#[cfg(test)]
pub(crate) mod tests;

pub use automaton::{Automaton, Relation};
pub use error::TemplateError;
pub use key::{Part, Parts};
pub(crate) use key::{hex_bytes, hex_digits, is_hex, parse_uuid, render_uuid};
pub use templates::Templates;

use std::fmt;

/// What a placeholder matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Canonical decimal, 0 to 2⁶³−1.
    Int,
    /// Decimal of exactly this many digits, 1 to 18.
    Padded(u8),
    /// A uuid in canonical lower case.
    Uuid,
    /// Lower-case hexadecimal, an even number of digits, at least 2.
    Hex,
    /// Any bytes.
    Text,
}

impl Type {
    /// Whether the part is a number that can be counted with.
    pub fn is_int(self) -> bool {
        matches!(self, Self::Int | Self::Padded(_))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int => f.write_str("int"),
            Self::Padded(width) => write!(f, "int({width})"),
            Self::Uuid => f.write_str("uuid"),
            Self::Hex => f.write_str("hex"),
            Self::Text => f.write_str("text"),
        }
    }
}

/// A named, typed hole in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// Its name, unique in the template.
    pub name: String,
    /// What it matches.
    pub kind: Type,
}

/// What a template is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(Vec<u8>),
    Placeholder(Type),
}

/// The shape of a family of keys. See the module's head for its language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    source: String,
    pieces: Vec<Piece>,
    placeholders: Vec<Placeholder>,
}

impl Template {
    /// Reads a template, and refuses one that would be ambiguous.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        Self::parse_located(source).map_err(|(_, error)| error)
    }

    /// The same; where it is wrong, with the byte of `source` at which that is.
    ///
    /// # Errors
    /// See [`Self::parse`].
    pub fn parse_located(source: &str) -> Result<Self, (usize, TemplateError)> {
        parse::parse(source)
    }

    /// The template as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What it is made of, in the order of the key.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The placeholders, in the order of the key. A match has one part for each.
    pub fn placeholders(&self) -> &[Placeholder] {
        &self.placeholders
    }

    /// Where the placeholder of this name stands in [`Self::placeholders`].
    pub fn position(&self, name: &str) -> Option<usize> {
        self.placeholders.iter().position(|placeholder| placeholder.name == name)
    }

    /// What all its keys begin with.
    pub fn literal_prefix(&self) -> &[u8] {
        match self.pieces.first() {
            Some(Piece::Literal(literal)) => literal,
            _ => &[],
        }
    }

    /// The template's text without its placeholders' names: the same for two templates exactly if [`Self::same_shape`].
    /// Physical names follow from it, so it never changes.
    pub(crate) fn canonical(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Literal(literal) => literal.escape_ascii().to_string().replace('{', "{{").replace('}', "}}"),
            Piece::Placeholder(kind) => format!("{{{kind}}}"),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// Whether both split every key into the same parts; placeholders may have other names.
    pub fn same_shape(&self, other: &Self) -> bool {
        self.pieces == other.pieces
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}
