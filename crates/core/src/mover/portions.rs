//! How much of its work a mover has the server do at a time.
//!
//! A server answers nobody else while it carries out a command, or several that came together. Where nobody else is there,
//! batches are large. Else none takes longer than some tenths of a millisecond: on a server that is slower than most, or
//! where values are large, batches become smaller by what the last ones took.

use std::time::Duration;

/// Where the quickest of several batches took longer, the next ones are half as large, and twice as large where it took less
/// than the other.
const LONG: Duration = Duration::from_micros(600);
const BRIEF: Duration = Duration::from_micros(200);

/// Of so many batches the quickest counts: any other may have waited for a processor, or for others' requests.
const BATCHES: u32 = 8;

/// Halves of what is short already are short enough for anybody; where they still take long, it is processors that are wanting, and
/// smaller ones would only make a move take for ever.
const MOST_HALVINGS: u32 = 1;

/// The size of batches.
#[derive(Debug, Default)]
pub(super) struct Portions {
    /// Others use the server too.
    is_short: bool,
    halvings: u32,
    /// How many batches were timed, and how long the quickest took.
    timed: (u32, Duration),
}

impl Portions {
    /// Whether batches are to be short, as others wait meanwhile.
    pub(super) fn keep_short(&mut self, short: bool) {
        self.is_short = short;
    }

    /// Notes for how long a batch has had the server at work.
    pub(super) fn note_took(&mut self, took: Duration) {
        let (count, quickest) = self.timed;
        let quickest = if count == 0 { took } else { quickest.min(took) };
        self.timed = (count + 1, quickest);
        if self.timed.0 < BATCHES {
            return;
        }
        self.timed = (0, Duration::ZERO);
        if quickest > LONG {
            self.halvings = (self.halvings + 1).min(MOST_HALVINGS);
        } else if quickest < BRIEF {
            self.halvings = self.halvings.saturating_sub(1);
        }
    }

    /// Slots of the server's table of keys that one SCAN looks at.
    pub(super) fn names(&self) -> usize {
        self.of(512, 128)
    }

    /// Buckets that are opened.
    pub(super) fn buckets(&self) -> usize {
        self.of(8, 2)
    }

    /// Keys that are read, one by one.
    pub(super) fn read_keys(&self) -> usize {
        self.of(512, 64)
    }

    /// Keys that one call writes whose values were read before.
    pub(super) fn written_keys(&self) -> usize {
        self.of(32, 16)
    }

    /// Keys that one call moves by itself.
    pub(super) fn direct_keys(&self) -> usize {
        self.of(128, 32)
    }

    fn of(&self, whole: usize, short: usize) -> usize {
        if self.is_short { (short >> self.halvings).max(1) } else { whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_short_where_others_are_and_shorter_where_they_take_long() {
        let mut portions = Portions::default();
        let long = Duration::from_millis(5);
        let take = |portions: &mut Portions, times: u32, took| (0..times).for_each(|_| portions.note_took(took));
        assert_eq!((portions.names(), portions.direct_keys()), (512, 128));
        portions.keep_short(true);
        assert_eq!((portions.names(), portions.direct_keys(), portions.buckets()), (128, 32, 2));
        take(&mut portions, BATCHES, long);
        assert_eq!((portions.names(), portions.direct_keys(), portions.buckets()), (64, 16, 1));
        take(&mut portions, 10 * BATCHES, long);
        assert_eq!((portions.names(), portions.direct_keys(), portions.buckets()), (64, 16, 1));
        // One that was quick shows that the others only waited.
        take(&mut portions, BATCHES - 1, long);
        portions.note_took(Duration::from_micros(100));
        assert_eq!(portions.direct_keys(), 32);
        take(&mut portions, 10 * BATCHES, Duration::from_micros(100));
        assert_eq!(portions.direct_keys(), 32);
        portions.keep_short(false);
        assert_eq!(portions.direct_keys(), 128);
    }
}
