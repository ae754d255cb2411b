//! A value's key, as codecs see it, and the two together, as they learn from them.

use smallvec::SmallVec;

use crate::template::Template;

/// A key, and the templates of which it matches one.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'k> {
    templates: &'k [Template],
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
    /// The owner of a value. `key` matches one of `templates`.
    pub fn new(templates: &'k [Template], key: &'k [u8]) -> Self {
        Self { templates, key }
    }

    /// The key.
    pub fn key(&self) -> &'k [u8] {
        self.key
    }

    /// What stands in the key for each placeholder of the first template that it matches; nothing where it matches none.
    pub fn texts(&self) -> SmallVec<[&'k [u8]; 4]> {
        self.templates.iter().find_map(|template| template.texts(self.key)).unwrap_or_default()
    }
}
