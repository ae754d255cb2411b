//! Which families of keys there are, found from the keys alone, in bounded memory.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `segment.rs` | keys taken into segments, and what kind of text each is |
//! | `column.rs` | what has been seen of one placeholder |
//! | `trie.rs` | the tree that keys go into as they come |
//! | `path.rs` | its branches at the end, and how they become templates |
//! | `resolve.rs` | which branches are one family after all |
//!
//! Keys may come in any order. A family that is frequent among its siblings is found even if many other keys came
//! before it, less those that were taken for something else until then.

pub(crate) mod column;
mod path;
mod resolve;
mod segment;
mod trie;

use keyfold_core::template::Template;

use crate::population::Blocks;
use crate::sample::Block;
use segment::{Class, Segments};
use trie::Trie;

/// What is counted of the keys of one family. Keys that turn out to belong together have theirs merged.
pub trait Tally: Default {
    /// Takes in the tally of more keys.
    fn merge(&mut self, other: Self);

    /// Whether these could be keys of one family, by what they hold.
    fn resembles(&self, other: &Self) -> bool;
}

/// Finds families in a stream of keys, and keeps a tally of each.
#[derive(Debug)]
pub struct Families<L> {
    trie: Trie<L>,
}

/// One family of keys.
#[derive(Debug)]
pub struct Family<L> {
    /// Its shape; none for a key that is like no other.
    pub template: Option<Template>,
    /// The template's text, or the key itself, escaped.
    pub name: String,
    /// How many keys it has.
    pub keys: u64,
    /// What was counted of them.
    pub tally: L,
    /// Where its placeholders stand in keys that are split.
    holes: Vec<Hole>,
}

/// Where a placeholder stands: in which segment, and which hole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hole {
    segment: u8,
    hole: u8,
}

impl<L: Tally> Default for Families<L> {
    fn default() -> Self {
        Self { trie: Trie::new() }
    }
}

impl<L: Tally> Families<L> {
    /// None seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a key, and gives the tally of those that are like it so far.
    pub fn tally(&mut self, key: &Split<'_>) -> &mut L {
        self.trie.leaf(&key.0)
    }

    /// All tallies so far.
    pub fn tallies_mut(&mut self) -> Vec<&mut L> {
        self.trie.root.leaves_mut()
    }

    /// How many branches are tracked: bounded, whatever the keys.
    pub fn tracked(&self) -> usize {
        self.trie.branches()
    }

    /// The families, the largest first.
    pub fn finish(self) -> Vec<Family<L>> {
        let mut families = resolve::resolve(self.trie.root);
        families.sort_by(|a, b| b.keys.cmp(&a.keys).then_with(|| a.name.cmp(&b.name)));
        families
    }
}

impl<L> Family<L> {
    /// What blocks made by `hole` are made of, in terms of the template.
    pub fn blocks(&self, hole: Option<Hole>) -> Blocks {
        let Some(position) = hole.and_then(|hole| self.holes.iter().position(|mine| *mine == hole)) else {
            return Blocks::Keys;
        };
        match self.template.as_ref().map(Template::placeholders) {
            Some(placeholders) if placeholders[position].kind.is_int() => Blocks::Ids(position),
            // Its only part is all of the key.
            Some([_]) | None => Blocks::Keys,
            Some(_) => Blocks::Parts(position),
        }
    }
}

/// A key, split.
#[derive(Debug)]
pub struct Split<'k>(Segments<'k>);

impl<'k> Split<'k> {
    /// Splits a key.
    pub fn of(key: &'k [u8]) -> Self {
        Self(segment::split(key))
    }

    /// Where the key has ids: numbers, uuids, hexadecimal. Words are none.
    pub fn holes(&self) -> impl Iterator<Item = (Hole, &'k [u8])> {
        self.0.iter().zip(0..).flat_map(|(segment, at)| {
            let parts = match segment::classify(segment.bytes) {
                Class::Typed(_) => segment::Holes::from_iter([segment.bytes]),
                Class::Word => segment::shape(segment.bytes).map(|(_, holes)| holes).unwrap_or_default(),
                Class::Text => segment::Holes::new(),
            };
            parts.into_iter().zip(0..).map(move |(part, hole)| (Hole { segment: at, hole }, part))
        })
    }

    /// The block of this key, where blocks are made by that hole. A key that has no such hole is a block by itself.
    pub fn block(&self, hole: Option<Hole>, key: &[u8]) -> Block {
        let part = hole.and_then(|hole| self.holes().find(|(mine, _)| *mine == hole));
        match part {
            Some((_, part)) if part.iter().all(u8::is_ascii_digit) => {
                segment::int(part).map_or_else(|| Block::of_bytes(part), Block::of_id)
            }
            Some((_, part)) => Block::of_bytes(part),
            None => Block::of_bytes(key),
        }
    }
}

#[cfg(test)]
mod tests;
