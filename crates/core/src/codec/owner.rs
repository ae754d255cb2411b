//! A value's key, as codecs see it, and the two together, as they learn from them.

use smallvec::SmallVec;

use crate::template::Template;

/// A key and the template that it matches.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'k> {
    template: &'k Template,
    key: &'k [u8],
}

/// A value to learn from, or to judge by, with its key.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'s> {
    /// The key.
    pub owner: Owner<'s>,
    /// The value.
    pub value: &'s [u8],
}

impl<'k> Owner<'k> {
    /// The owner of a value. `key` matches `template`.
    pub fn new(template: &'k Template, key: &'k [u8]) -> Self {
        Self { template, key }
    }

    /// The key.
    pub fn key(&self) -> &'k [u8] {
        self.key
    }

    /// What stands in the key for each placeholder of its template; nothing where it doesn't match.
    pub fn texts(&self) -> SmallVec<[&'k [u8]; 4]> {
        self.template.texts(self.key).unwrap_or_default()
    }
}
