//! One template, or several whose keys share buckets.
//!
//! Of several, a key's parts begin with the number of the template that it matches, as if that were a part of the key:
//! so whoever goes from keys to places and back handles one list of parts, and needs no second way for several.
//!
//! ```text
//! user:{id:int}                               user:7           ▶  [7]
//! user:{id:int} | cart:{id:uuid}:{item}       user:7           ▶  [0, 7]
//!                                             cart:9f1c…:shoe  ▶  [1, 9f1c…, shoe]
//! ```

use std::fmt;
use std::ops::Deref;

use smallvec::{SmallVec, smallvec};

use super::{Part, Parts, Template};

/// What stands between templates where several are shown in one line.
const BETWEEN: &str = " | ";

/// The templates of one namespace, in the order in which they are numbered; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Templates {
    all: SmallVec<[Template; 1]>,
    source: String,
}

impl Templates {
    /// These templates, in this order; none where there are none.
    pub fn new(all: Vec<Template>) -> Option<Self> {
        let source = all.iter().map(Template::source).collect::<Vec<_>>().join(BETWEEN);
        (!all.is_empty()).then(|| Self { all: all.into(), source })
    }

    /// The only template, or the first of several. Placements that ask for a placeholder by its name have but one.
    pub fn first(&self) -> &Template {
        &self.all[0]
    }

    /// Whether there is more than one.
    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// The template as it was written; several in one line, ` | ` between them.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether a person who writes `name` means these: all in one line, or any of them.
    pub fn are_called(&self, name: &str) -> bool {
        self.source == name || self.iter().any(|template| template.source() == name)
    }

    /// Takes `key` apart by the template of this number into `parts`, which is empty before; false where it doesn't
    /// match canonically, and `parts` then holds nothing of use.
    #[inline]
    pub fn parse_key<'k>(&self, number: usize, key: &'k [u8], parts: &mut Parts<'k>) -> bool {
        if self.are_several() {
            parts.push(Part::Int(number as u64));
        }
        self.all[number].parse_key(key, parts)
    }

    /// The key of these parts; none where they begin with no template's number.
    pub fn render(&self, parts: &[Part<'_>]) -> Option<Vec<u8>> {
        let Some((Part::Int(number), rest)) = parts.split_first().filter(|_| self.are_several()) else {
            return (!self.are_several()).then(|| self.first().render(parts));
        };
        Some(self.get(usize::try_from(*number).ok()?)?.render(rest))
    }

    /// What the keys of all of them begin with.
    pub fn literal_prefix(&self) -> &[u8] {
        let same = |one: &[u8], other: &[u8]| one.iter().zip(other).take_while(|(one, other)| one == other).count();
        let first = self.first().literal_prefix();
        let len = self.iter().map(|template| same(first, template.literal_prefix())).min();
        &first[..len.unwrap_or(0)]
    }

    /// The text that physical names follow from, so it never changes: each template's, in a line of its own.
    pub(crate) fn canonical(&self) -> String {
        self.iter().map(Template::canonical).collect::<Vec<_>>().join("\n")
    }

    /// Whether both are of the same shapes in the same order; placeholders may have other names.
    pub fn same_shape(&self, other: &[Template]) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(one, other)| one.same_shape(other))
    }
}

impl From<Template> for Templates {
    fn from(template: Template) -> Self {
        let source = template.source().to_owned();
        Self { all: smallvec![template], source }
    }
}

impl Deref for Templates {
    type Target = [Template];

    fn deref(&self) -> &[Template] {
        &self.all
    }
}

impl fmt::Display for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates(sources: &[&str]) -> Templates {
        Templates::new(sources.iter().map(|source| Template::parse(source).unwrap()).collect()).unwrap()
    }

    #[test]
    fn parts_of_several_begin_with_the_number_of_theirs() {
        let several = templates(&["user:{id:int}", "cart:{id:int}:{item}"]);
        let mut parts = Parts::new();
        assert!(several.parse_key(1, b"cart:7:shoe", &mut parts));
        assert_eq!(parts[..2], [Part::Int(1), Part::Int(7)]);
        assert_eq!(several.render(&parts).as_deref(), Some(b"cart:7:shoe".as_slice()));
        assert!(!several.parse_key(0, b"cart:7:shoe", &mut Parts::new()));
        assert_eq!(several.render(&[]), None);
        assert_eq!(several.render(&[Part::Int(2), Part::Int(7)]), None);
        let one = templates(&["user:{id:int}"]);
        let mut parts = Parts::new();
        assert!(one.parse_key(0, b"user:7", &mut parts));
        assert_eq!(parts.as_slice(), [Part::Int(7)]);
        assert_eq!(one.render(&parts).as_deref(), Some(b"user:7".as_slice()));
    }

    #[test]
    fn names_and_prefixes() {
        let several = templates(&["user:{id:int}:a", "user:{id:int}:b", "us{x:hex}"]);
        assert_eq!(several.to_string(), "user:{id:int}:a | user:{id:int}:b | us{x:hex}");
        assert_eq!(several.literal_prefix(), b"us");
        assert!(several.are_called("user:{id:int}:b") && several.are_called(several.source()));
        assert!(!several.are_called("user:{id:int}"));
        let looks_alike = [templates(&["a:{x}", "b:{y}"]), templates(&["a:{x} | b:{y}"])];
        assert_eq!(looks_alike[0].source(), looks_alike[1].source());
        assert_ne!(looks_alike[0].canonical(), looks_alike[1].canonical());
        let other_order = templates(&["user:{id:int}:b", "user:{id:int}:a", "us{x:hex}"]);
        assert!(several.same_shape(&several) && !several.same_shape(&other_order));
        assert!(Templates::new(Vec::new()).is_none());
    }
}
