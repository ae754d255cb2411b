//! What belongs to a collection in parts to which nothing may point any more.
//!
//! A key that has gone, or that was given other parts, leaves all of them behind in one step. They stay for some seconds, as spilled
//! values do, for readers that were pointed to them just before.
//!
//! A key may be given away with its parts, and back again, while it is looked whether it has them. So parts are first said to be nobody's,
//! in one step with seeing that nothing points to them: from then on nothing ever will. The key that says so goes last, so that a
//! removal that was cut off is taken up again.

use crate::collection::parts::{Class, Directory};
use crate::exchange::CompareAndSet;
use crate::layout::{Layout, Place};
use crate::placement::name::{Head, Origin, PartName};
use crate::record::{NOBODY, part_name};
use crate::resp::{Reply, write_command};
use crate::sweep::retirement;

/// The names of one such collection that were come by.
#[derive(Clone, Debug)]
pub(super) struct OrphanParts {
    nonce: u64,
    origin: Origin,
    names: Vec<Vec<u8>>,
    /// The key that they are said to be of.
    owner: Vec<u8>,
    /// Where it was noted that they may be nobody's: how often it was looked since.
    looks: Option<u8>,
}

impl OrphanParts {
    pub(super) fn new(nonce: u64, origin: Origin, name: &[u8]) -> Self {
        Self { nonce, origin, names: vec![name.to_vec()], owner: Vec::new(), looks: None }
    }

    /// The same of which that was noted, and looked at so often before.
    pub(super) fn noted(mut self, looks: u8) -> Self {
        self.looks = Some(looks);
        self
    }

    pub(super) fn looks(&self) -> Option<u8> {
        self.looks
    }

    pub(super) fn nonce(&self) -> u64 {
        self.nonce
    }

    pub(super) fn is(&self, nonce: u64, origin: Origin) -> bool {
        self.nonce == nonce && self.origin == origin
    }

    pub(super) fn add(&mut self, name: &[u8]) {
        self.names.push(name.to_vec());
    }

    fn name(&self, name: PartName) -> Vec<u8> {
        part_name(self.origin, self.nonce, name)
    }

    /// The name that says whose they are.
    pub(super) fn owner_name(&self) -> Vec<u8> {
        self.name(PartName::Owner)
    }

    /// Asks whose they are.
    pub(super) fn ask_owner(&self, wire: &mut Vec<u8>) {
        write_command(wire, &[b"GET", &self.owner_name()]);
    }

    /// Says that they are nobody's, unless they are another key's by now, or this was written to the field that may point to them.
    pub(super) fn disown(&self, physical: &[u8], field: &[u8], seen: Option<&[u8]>) -> CompareAndSet {
        let (mut disown, owner) = (CompareAndSet::default(), self.owner_name());
        disown.check(&[b"GET", &owner], Some(&self.owner));
        disown.check(&[b"HGET", physical, field], seen);
        // A full server takes what is written behind a write that needs no memory.
        disown.write(&[b"PERSIST", &owner]);
        disown.write(&[b"SET", &owner, NOBODY]);
        disown
    }

    /// The place that points to them, where they are this key's.
    pub(super) fn take_owner(&mut self, key: &[u8], layout: &Layout) -> Option<Place> {
        key.clone_into(&mut self.owner);
        layout.places(key).find(|place| place.origin == self.origin && place.kind.is_bucket())
    }

    /// Asks which parts there are, and whether they are nobody's.
    pub(super) fn ask_directories(&self, wire: &mut Vec<u8>) {
        let names = Class::ALL.map(|class| self.name(PartName::Directory(class)));
        write_command(wire, &[b"MGET", &self.owner_name(), &names[0], &names[1], &names[2]]);
    }

    /// What removes them all, by the answer to that; nothing where they are somebody's.
    pub(super) fn removals(&self, reply: Reply<'_>) -> Removals {
        let (mut names, mut removals) = (Vec::new(), Removals::default());
        if let Reply::Array(mut directories) = reply {
            if directories.next().and_then(Reply::bytes) != Some(NOBODY) {
                return removals;
            }
            for (class, directory) in Class::ALL.into_iter().zip(directories) {
                let directory = directory.bytes().and_then(Directory::read);
                names.extend(
                    directory.iter().flat_map(Directory::parts).map(|part| self.name(PartName::Part(class, part))),
                );
            }
        }
        // A directory that can't be read leaves those that were come by.
        names.extend(self.names.iter().filter(|name| is_part(name)).cloned());
        names.push(self.name(PartName::Remainder));
        let owner = self.owner_name();
        let retirement = |name: &Vec<u8>| retirement(name, (b"GET", &[&owner]), Some(NOBODY));
        removals.parts = names.iter().map(retirement).collect();
        let directories = Class::ALL.map(|class| self.name(PartName::Directory(class)));
        removals.last = directories.iter().chain([&owner]).map(retirement).collect();
        removals
    }
}

/// What removes one such collection.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// Its parts.
    pub(super) parts: Vec<CompareAndSet>,
    /// What says that they are there: once all of these were carried out, so that what lies at another node, as its slot moves, is
    /// found again.
    pub(super) last: Vec<CompareAndSet>,
}

fn is_part(name: &[u8]) -> bool {
    let rest = Head::decode(name).map(|head| head.rest);
    matches!(rest.and_then(PartName::decode), Some((_, PartName::Part(..))))
}
