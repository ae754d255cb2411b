//! A packed collection that is looked at where it lies: for a question about some members, none is copied.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::CollectionKind;
use super::packed::{HASH, INTEGERS, Reader, SET, packed_text, plain_text, written_out};
use crate::number::parse_integer;

/// So many texts are compared each with each other.
const FEW: usize = 32;

/// A set, or a hash of which no field expires, as it is packed.
#[derive(Debug)]
pub(crate) struct PackedView<'a> {
    kind: CollectionKind,
    members: Members<'a>,
}

/// In their order.
#[derive(Debug)]
enum Members<'a> {
    /// A set's members, or names of fields each before its value, all as they stand.
    Texts(SmallVec<[&'a [u8]; 24]>),
    /// Those of a set that has nothing else, from the smallest on.
    Integers(SmallVec<[i64; 24]>),
}

impl<'a> PackedView<'a> {
    /// Looks at packed bytes; none where fields expire, where there are many texts, and where nothing was packed so.
    pub(crate) fn of(packed: &'a [u8]) -> Option<Self> {
        let (head, rest) = packed.split_first()?;
        let mut reader = Reader(rest);
        let (kind, members) = match *head {
            SET => (CollectionKind::Set, Members::Texts(reader.packed_texts().ok()?)),
            INTEGERS => (CollectionKind::Set, Members::Integers(reader.integers().ok()?)),
            HASH => (CollectionKind::Hash, Members::Texts(reader.packed_texts().ok()?)),
            _ => return None,
        };
        let view = Self { kind, members };
        (view.texts().len().is_multiple_of(kind.texts_each()) && view.has_each_once()).then_some(view)
    }

    /// Whether no member is there twice; not where to see that takes longer than to take all of it apart.
    fn has_each_once(&self) -> bool {
        let names = || self.texts().iter().step_by(self.kind.texts_each());
        names().len() <= FEW && names().enumerate().all(|(at, name)| !names().take(at).any(|before| before == name))
    }

    pub(crate) fn kind(&self) -> CollectionKind {
        self.kind
    }

    /// How many members or fields it has.
    pub(crate) fn len(&self) -> usize {
        match &self.members {
            Members::Texts(texts) => texts.len() / self.kind.texts_each(),
            Members::Integers(integers) => integers.len(),
        }
    }

    /// Whether it has this member or field.
    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        match &self.members {
            Members::Texts(_) => self.place_of(member).is_some(),
            Members::Integers(integers) => parse_integer(member).is_some_and(|it| integers.binary_search(&it).is_ok()),
        }
    }

    /// A hash's value under this name.
    pub(crate) fn value(&self, name: &[u8]) -> Option<Cow<'a, [u8]>> {
        self.place_of(name).and_then(|at| self.texts().get(at + 1)).map(|value| plain_text(value))
    }

    /// All members of a set; all names of a hash, each before its value.
    pub(crate) fn all(&self) -> impl Iterator<Item = Cow<'a, [u8]>> {
        let integers = match &self.members {
            Members::Integers(integers) => &integers[..],
            Members::Texts(_) => &[],
        };
        let integers = integers.iter().map(|it| Cow::Owned(written_out(*it)));
        self.texts().iter().map(|text| plain_text(text)).chain(integers)
    }

    fn texts(&self) -> &[&'a [u8]] {
        match &self.members {
            Members::Texts(texts) => texts,
            Members::Integers(_) => &[],
        }
    }

    /// Where a member, or the name of a field, is among the texts. Each text has one packed form.
    fn place_of(&self, member: &[u8]) -> Option<usize> {
        let packed = packed_text(member);
        let step = self.kind.texts_each();
        self.texts().iter().step_by(step).position(|text| *text == packed).map(|at| at * step)
    }
}
