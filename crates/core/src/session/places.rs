//! Where the keys of a request lie: found once, when it is planned.

use smallvec::SmallVec;

use crate::cache::{Cache, KeyHash};
use crate::command::Keys;
use crate::layout::{Layout, Located, NamespaceIndex, Place};
use crate::session::refusal::printable;

/// The keys that a request asks for, as the counters of a cache know them.
pub(crate) type Asked = SmallVec<[KeyHash; 1]>;

/// Where the keys of a request lie, each with its position among the arguments and in the order in which the command
/// names them. Empty where all are plain, as most are that don't concern keyfold.
#[derive(Debug)]
pub(crate) struct Places(SmallVec<[(usize, Located); 1]>);

impl Places {
    pub(crate) fn locate(layout: &Layout, keys: &Keys, args: &[&[u8]]) -> Result<Self, String> {
        let mut found = SmallVec::new();
        for (nth, key) in keys.iter().enumerate() {
            let located = layout.locate(args[key.index]);
            match located {
                Located::Plain if found.is_empty() => continue,
                Located::Plain | Located::Placed(_) | Located::Moving(_) => {}
                Located::Reserved if layout.packing_in(args[key.index]).is_some() => {
                    return Err(format!(
                        "ERR keyfold: keys are being moved out of the hash '{}', and clients can't use it any more; use the keys that it holds",
                        printable(args[key.index])
                    ));
                }
                Located::Reserved => {
                    return Err(format!(
                        "ERR keyfold: '{}' starts with a prefix that keyfold keeps for itself ('~' and 'keyfold:'); use another name",
                        printable(args[key.index])
                    ));
                }
            }
            if found.is_empty() {
                found.extend(keys.iter().take(nth).map(|plain| (plain.index, Located::Plain)));
            }
            found.push((key.index, located));
        }
        Ok(Self(found))
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The places alone.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Located> {
        self.0.iter().map(|(_, located)| located)
    }

    /// The place of each key, where it has one and no two.
    pub(crate) fn placed(&self) -> impl Iterator<Item = Option<&Place>> {
        self.iter().map(|located| if let Located::Placed(place) = located { Some(place) } else { None })
    }

    /// Takes out the place of a key that is the only one, and the first argument.
    pub(crate) fn take_only(&mut self) -> Option<Place> {
        matches!(self.0[..], [(1, Located::Placed(_))]).then(|| self.0.pop()?.1.place()).flatten()
    }

    /// The keys with their places.
    pub(crate) fn of<'a>(&self, args: &[&'a [u8]]) -> impl Iterator<Item = (&'a [u8], Located)> {
        self.0.iter().map(|(index, located)| (args[*index], located.clone()))
    }

    /// The same without the plain ones.
    pub(crate) fn folded_of<'a>(&self, args: &[&'a [u8]]) -> impl Iterator<Item = (&'a [u8], Located)> {
        self.of(args).filter(|(_, located)| *located != Located::Plain)
    }

    /// The arguments with the physical names of zipped keys.
    pub(crate) fn renamed<'a>(&'a self, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let mut renamed = args.to_vec();
        for (index, located) in &self.0 {
            if let Located::Placed(place) = located {
                renamed[*index] = &place.physical;
            }
        }
        renamed
    }

    /// The positions and the namespaces of the keys that have one.
    pub(crate) fn folded(&self) -> impl Iterator<Item = (usize, NamespaceIndex)> {
        self.0.iter().filter_map(|(index, located)| Some((*index, located.namespace()?)))
    }

    /// The keys as the counters of a cache know them: by where they lie, and while they are moved by both places.
    pub(crate) fn note_asked(&self, keys: &Keys, args: &[&[u8]], cache: &Cache, asked: &mut Asked) {
        let of_plain = |index: usize| cache.has_plain_keys().then(|| KeyHash::of(args[index]));
        if self.is_empty() {
            asked.extend(keys.iter().filter_map(|key| of_plain(key.index)));
            return;
        }
        for (index, located) in &self.0 {
            match located {
                Located::Placed(place) => asked.push(KeyHash::at(place)),
                Located::Moving(moving) => {
                    asked.extend(moving.new.iter().chain(&moving.old).map(KeyHash::at));
                    if moving.new.is_none() || moving.old.is_none() {
                        asked.extend(of_plain(*index));
                    }
                }
                Located::Plain | Located::Reserved => asked.extend(of_plain(*index)),
            }
        }
    }

    /// Whether one of the keys holds a set or hash.
    pub(crate) fn hold_collections(&self) -> bool {
        let is_packed = |place: &Place| !place.kind.is_string();
        self.iter().any(|located| match located {
            Located::Placed(place) => is_packed(place),
            Located::Moving(moving) => moving.new.iter().chain(&moving.old).any(is_packed),
            Located::Plain | Located::Reserved => false,
        })
    }

    /// Whether one of the keys lies in one of two places.
    pub(crate) fn are_moving(&self) -> bool {
        self.iter().any(|located| matches!(located, Located::Moving(_)))
    }
}
