//! All hashes, by family: a bounded number of them, however many names there are.

use std::collections::{BTreeMap, BTreeSet};

use keyfold_core::layout::NamespaceIndex;

use super::contents::Models;
use super::family::{Family, Seen};
use super::pattern::{coarser, pattern_of};
use super::settings::Settings;

/// More families that differ in their last word only are one.
const SIBLINGS: usize = 16;
/// More patterns than this and what comes is counted together.
const PATTERNS: usize = 512;
/// Hashes of a family that nobody folded by keyfold are read while there are fewer than this: to see what
/// buckets of such fields would take.
const READ_OF_EACH: u64 = 8;

/// What hashes have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FamilyName {
    /// They are the buckets of this namespace.
    Namespace(NamespaceIndex),
    /// Their names look like this, ids replaced by `*`.
    Pattern(Vec<u8>),
}

/// All hashes of a server.
#[derive(Clone, Debug, Default)]
pub struct Families {
    families: BTreeMap<FamilyName, Family>,
    /// Patterns, by what they are without their last word.
    siblings: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// Those whose last words don't matter any more.
    joined: BTreeSet<Vec<u8>>,
}

impl Families {
    /// The family of a key of this name that belongs to no namespace.
    pub fn name_of(&self, key: &[u8]) -> FamilyName {
        let pattern = pattern_of(key);
        let coarse = coarser(&pattern).filter(|coarse| self.joined.contains(coarse));
        FamilyName::Pattern(coarse.unwrap_or(pattern))
    }

    /// Whether it is worth while to read the fields of one more hash of this family that is packed.
    pub fn wants_contents(&self, name: &FamilyName) -> bool {
        self.families.get(name).is_none_or(|family| family.read_hashes < READ_OF_EACH)
    }

    /// Counts a hash.
    pub fn add(&mut self, name: FamilyName, seen: &Seen<'_>, settings: &Settings, models: &Models) {
        let name = self.place_for(name);
        self.families.entry(name).or_default().add(seen, settings, models);
    }

    /// The families, namespaces first.
    pub fn iter(&self) -> impl Iterator<Item = (&FamilyName, &Family)> {
        self.families.iter()
    }

    /// Where a hash is counted: in its family, or, where there are too many, in one of several together.
    fn place_for(&mut self, name: FamilyName) -> FamilyName {
        let FamilyName::Pattern(pattern) = &name else { return name };
        if self.families.contains_key(&name) {
            return name;
        }
        let Some(coarse) = coarser(pattern) else { return self.within_bounds(name) };
        if self.joined.contains(&coarse) {
            return FamilyName::Pattern(coarse);
        }
        if self.joined.len() + self.siblings.len() >= PATTERNS && !self.siblings.contains_key(&coarse) {
            return self.within_bounds(name);
        }
        let siblings = self.siblings.entry(coarse.clone()).or_default();
        siblings.insert(pattern.clone());
        if siblings.len() <= SIBLINGS {
            return self.within_bounds(name);
        }
        self.join(coarse)
    }

    fn within_bounds(&mut self, name: FamilyName) -> FamilyName {
        if self.families.len() < PATTERNS || self.families.contains_key(&name) {
            name
        } else {
            FamilyName::Pattern(b"*".to_vec())
        }
    }

    /// Makes one family of all that differ in their last word only.
    fn join(&mut self, coarse: Vec<u8>) -> FamilyName {
        let siblings = self.siblings.remove(&coarse).unwrap_or_default();
        let mut joined = Family::default();
        for sibling in siblings {
            if let Some(family) = self.families.remove(&FamilyName::Pattern(sibling)) {
                joined.merge(&family);
            }
        }
        self.joined.insert(coarse.clone());
        let name = self.within_bounds(FamilyName::Pattern(coarse));
        self.families.entry(name.clone()).or_default().merge(&joined);
        name
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::memory::{Model, Server};

    use super::*;
    use crate::diagnosis::{Encoding, Settings};

    fn add(families: &mut Families, key: &str) {
        let models = Models::new(&Model::for_server(Server::redis(7, 0)), 64);
        let seen = Seen {
            database: 0,
            key: key.as_bytes(),
            encoding: Encoding::Packed,
            entries: 3,
            bytes: Some(100),
            contents: None,
            expiring_fields: false,
        };
        let name = families.name_of(key.as_bytes());
        families.add(name, &seen, &Settings::default(), &models);
    }

    fn shown(families: &Families) -> Vec<(String, u64)> {
        let name = |name: &FamilyName| match name {
            FamilyName::Namespace(index) => format!("{index:?}"),
            FamilyName::Pattern(pattern) => String::from_utf8(pattern.clone()).unwrap(),
        };
        families.iter().map(|(key, family)| (name(key), family.fill.hashes())).collect()
    }

    #[test]
    fn words_that_vary_become_one_family() {
        let mut families = Families::default();
        let letters = |i: u8| format!("profile:{}", char::from(b'a' + i));
        (0..4).for_each(|i| add(&mut families, &letters(i)));
        assert_eq!(shown(&families).len(), 4);
        (0..26).for_each(|i| add(&mut families, &letters(i)));
        assert_eq!(shown(&families), [("profile:*".to_owned(), 30)]);
    }

    #[test]
    fn there_are_never_too_many() {
        // Letters only, and words that vary.
        let word = |i: u32| -> String { i.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect() };
        let names: [&dyn Fn(u32) -> String; 3] = [
            &|i| format!("{}:{}:{}", word(i), word(i), word(i)),
            &|i| format!("{}:{}", word(i % 1000), word(i)),
            &|i| format!("a:{}", word(i)),
        ];
        for name in names {
            let mut families = Families::default();
            (0..20_000).for_each(|i| add(&mut families, &name(i)));
            let shown = shown(&families);
            assert!(shown.len() <= PATTERNS + 1, "{}", shown.len());
            assert!(families.joined.len() + families.siblings.len() <= PATTERNS + 1);
            assert_eq!(shown.iter().map(|(_, hashes)| hashes).sum::<u64>(), 20_000);
        }
    }
}
