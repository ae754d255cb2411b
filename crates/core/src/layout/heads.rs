//! What the names in a server begin with: which data of keyfold's is there, whatever the layout says.
//!
//! Names say whose data they are ([`Stem`]), so a walk over them finds what a lost layout had in use.

use std::collections::BTreeMap;

use super::Layout;
use crate::placement::name::{DATA_PREFIX, Generation, Head, Mark, NameHash, Stem};

/// The glob that all names of keyfold's data match.
pub const NAMES_PATTERN: &[u8] = &[DATA_PREFIX, b'*'];

/// The data of one stem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How many names there are: of buckets, and of keys of their own. Spilled values don't count.
    pub names: u64,
    /// One of them.
    pub example: Vec<u8>,
    /// The database that it was found in.
    pub database: u32,
}

/// The stems that were found, each with how many names begin with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heads(BTreeMap<Stem, Found>);

impl Heads {
    /// The type of what has this name, where it is one of keyfold's that holds keys. A spilled value holds none by
    /// itself: what points to it lies in a bucket.
    pub fn expected_type(name: &[u8]) -> Option<&'static str> {
        match Head::decode(name)?.mark {
            Mark::Bucket | Mark::WholeBucket => Some("hash"),
            Mark::Zipped => Some("string"),
            Mark::Spill | Mark::Part => None,
        }
    }

    /// Notes a name, which is of the type that is expected.
    pub fn note(&mut self, name: &[u8], database: u32) {
        let Some(head) = Head::decode(name) else { return };
        let found = Found { names: 0, example: name.to_vec(), database };
        self.0.entry(head.origin.stem).or_insert(found).names += 1;
    }

    /// The stems, with what was found of each.
    pub fn iter(&self) -> impl Iterator<Item = (Stem, &Found)> {
        self.0.iter().map(|(stem, found)| (*stem, found))
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The highest generation that was found of a hash.
    pub fn highest(&self, hash: NameHash) -> Option<Generation> {
        self.0.keys().filter(|stem| stem.hash == hash).map(|stem| stem.generation).max()
    }

    /// What `layout` has no namespace for: data that no client would find.
    pub fn unaccounted(&self, layout: &Layout) -> Vec<(Stem, &Found)> {
        self.iter().filter(|(stem, _)| !layout.has_in_use(*stem)).collect()
    }
}

/// Such as `~a0Zz: 3 names, such as "~a0Zz:7"`.
impl Found {
    /// What was found of this stem, in a line.
    pub fn line(&self, stem: Stem) -> String {
        let names = if self.names == 1 { "1 name".to_owned() } else { format!("{} names", self.names) };
        let (prefix, example) = (char::from(DATA_PREFIX), self.example.escape_ascii());
        format!("{prefix}{stem}: {names}, such as \"{example}\" in database {}", self.database)
    }
}

impl Layout {
    /// Whether keys lie, or lay before, under names that begin with this stem.
    pub fn has_in_use(&self, stem: Stem) -> bool {
        self.namespaces
            .iter()
            .flat_map(|namespace| namespace.rules())
            .any(|(placement, own)| placement.has_names() && own == stem)
    }
}
