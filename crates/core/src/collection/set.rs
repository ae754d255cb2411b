//! A set: members, each once, in the order of their coming.

use indexmap::IndexSet;

/// A set. Two are equal where they have the same members, in whatever order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set(IndexSet<Vec<u8>>);

impl Set {
    /// How many members it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is a member.
    pub fn contains(&self, member: &[u8]) -> bool {
        self.0.contains(member)
    }

    /// Adds a member; whether it is a new one.
    pub fn insert(&mut self, member: Vec<u8>) -> bool {
        self.0.insert(member)
    }

    /// Removes a member; whether it was one.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.0.swap_remove(member)
    }

    /// Removes the member at this place; the last one stands there then.
    pub fn take(&mut self, index: usize) -> Option<Vec<u8>> {
        self.0.swap_remove_index(index)
    }

    /// The member at this place.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.0.get_index(index).map(Vec::as_slice)
    }

    /// All members.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl FromIterator<Vec<u8>> for Set {
    fn from_iter<I: IntoIterator<Item = Vec<u8>>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}
