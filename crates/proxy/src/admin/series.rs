//! Values of metrics, as they were gathered and before they are written.

use keyfold_core::stats::{Durations, Histogram, NativeDurations};

use super::catalog::Family;

/// What is known of one family at the moment.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) family: &'static Family,
    pub(super) samples: Vec<Sample>,
}

/// One value, and what it is told apart by: as many words as its family has labels.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) labels: Vec<String>,
    pub(super) value: Value,
}

/// A value.
#[derive(Debug)]
pub(super) enum Value {
    /// Of counters and gauges.
    Number(u64),
    /// Of gauges of seconds, and of what may be less than nothing.
    Level(f64),
    Durations(Box<Measured>),
    /// Of histograms by classic buckets alone.
    Buckets(Buckets),
    /// Of infos, whose labels say all.
    Nothing,
}

/// How many there are up to each bound and beyond the one before, and their sum.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    /// Infinity is the last bound.
    pub(super) counts: Vec<(f64, u64)>,
    pub(super) sum: f64,
}

/// How long things took, by classic buckets and by native ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) durations: Durations,
    pub(crate) native: NativeDurations,
}

impl Measured {
    /// Adds what a histogram holds now.
    pub(crate) fn add(&mut self, histogram: &Histogram) {
        self.durations.add(histogram);
        self.native.add(histogram);
    }
}
