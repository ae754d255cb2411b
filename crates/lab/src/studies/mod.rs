//! The studies: one file each, listed in [`all`].

mod bucket_sweep;
mod bundles;
mod codecs;
mod collections;
mod eviction;
mod hit_ratio;
mod int_buckets;
mod key_length;
mod latency;
mod set_vs_hash;

use super::study::Study;

/// Every study, in the order in which they are run.
pub(crate) fn all() -> Vec<Box<dyn Study>> {
    vec![
        Box::new(set_vs_hash::SetVsHash),
        Box::new(collections::Collections),
        Box::new(key_length::KeyLength),
        Box::new(int_buckets::IntBuckets),
        Box::new(codecs::Codecs),
        Box::new(bucket_sweep::BucketSweep),
        Box::new(bundles::Bundles),
        Box::new(latency::Latency),
        Box::new(hit_ratio::HitRatio),
        Box::new(eviction::Eviction),
    ]
}
