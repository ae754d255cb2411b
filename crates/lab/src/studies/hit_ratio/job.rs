//! One cache to be measured: what it is given, what keeps it, and what came of it.

use keyfold_core::named;

use super::cache::{Tally, Trial};
use crate::objects::Form;

named! {
    /// What keeps a cache.
    pub(super) enum Keepers {
        One = "one keyfold",
        /// A client asks them in turn; one of them evicts.
        Two = "two keyfolds",
        Four = "four keyfolds",
        /// One, started anew in the middle, with the counters that it had saved.
        Mindful = "started anew, counters saved",
        /// The same, without them.
        Forgetful = "started anew, counters lost",
    }
}

impl Keepers {
    /// How many run at a time.
    pub(super) fn count(self) -> usize {
        match self {
            Self::One | Self::Mindful | Self::Forgetful => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}

/// What one cache was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Given {
    pub(super) objects: u64,
    pub(super) policy: &'static str,
    /// None of a trace.
    pub(super) skew: Option<f64>,
    pub(super) value_bytes: u64,
    pub(super) percent: u64,
    pub(super) form: Form,
    /// Whether requests came as fast as they could.
    pub(super) full_speed: bool,
    /// What keeps it, where keyfold does.
    pub(super) keepers: Keepers,
}

/// One cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) given: Given,
    /// `maxmemory`, less what the server has without objects.
    pub(super) room_bytes: u64,
    pub(super) tally: Tally,
}

/// A cache to be measured.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) given: Given,
    pub(super) trial: Trial<'a>,
    /// For objects, besides what the server has without any.
    pub(super) room_bytes: u64,
    /// How many objects that is, folded, about.
    pub(super) fit: f64,
}

impl Job<'_> {
    /// The same cache, kept by others.
    pub(super) fn kept_by(self, keepers: Keepers) -> Self {
        Self { given: Given { keepers, ..self.given }, ..self }
    }

    /// What came of it.
    pub(super) fn row(&self, tally: Tally) -> Row {
        Row { given: self.given, room_bytes: self.room_bytes, tally }
    }

    /// Whether keyfold keeps it.
    pub(super) fn is_by_key(&self) -> bool {
        self.given.form == Form::ByKey
    }
}
