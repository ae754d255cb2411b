//! The studies: one file each, listed in [`super::study::all`].

pub(super) mod bucket_sweep;
pub(super) mod bundles;
pub(super) mod codecs;
pub(super) mod hit_ratio;
pub(super) mod int_buckets;
pub(super) mod key_length;
pub(super) mod latency;
pub(super) mod set_vs_hash;
