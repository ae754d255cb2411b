//! The studies: one file each, listed in [`super::study::all`].

pub(super) mod set_vs_hash;
