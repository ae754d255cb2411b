//! Where the keys of a namespace lay before.

use super::naming::name_hash;
use crate::placement::Placement;
use crate::placement::name::{Generation, Stem};
use crate::template::Templates;

/// Where the keys of a namespace lay before, while they are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// What the physical names there begin with; of no use where they are plain, or an application's own hashes.
    pub stem: Stem,
    /// The rule that gave them their places.
    pub placement: Placement,
    /// Field bytes over which a key stayed plain.
    pub field_limit: usize,
    /// Whether the layout was lost and put back, so that nobody knows whether any key lies there.
    pub put_back: bool,
}

impl Former {
    /// Keys under their own names.
    pub(super) fn plain(templates: &Templates, field_limit: usize) -> Self {
        Self::nameless(templates, Placement::plain(), field_limit)
    }

    /// A rule without names of keyfold's.
    pub(super) fn nameless(templates: &Templates, placement: Placement, field_limit: usize) -> Self {
        let hash = name_hash(templates, &placement, field_limit);
        Self { stem: Stem { hash, generation: Generation(0) }, placement, field_limit, put_back: false }
    }
}
