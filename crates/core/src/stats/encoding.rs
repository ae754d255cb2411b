//! How much effort encoding a value is worth: all that its codec is told to, until clients wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::codec::Effort;

/// Values that are encoded with all effort in one millisecond: a twentieth of its time, at some 6 µs for each.
const FULL_IN_A_MS: u64 = 8;

/// Values of more bytes than this hold up whoever waits behind them by milliseconds.
const LONG_BYTES: usize = 256 * 1024;

/// Bits of the count; the millisecond is above them.
const COUNT_BITS: u32 = 20;

/// Values encoded in the present millisecond, by all that drive the core in one process.
#[derive(Debug, Default)]
pub struct Encoding {
    adapts: AtomicBool,
    /// The millisecond, and how many there were in it.
    now: AtomicU64,
}

impl Encoding {
    /// From now on effort is less where many values are encoded at a time, and for long ones: where clients wait for that.
    pub fn adapt(&self) {
        self.adapts.store(true, Ordering::Relaxed);
    }

    /// The effort for a value of so many bytes that is encoded now, which is counted.
    pub(crate) fn effort(&self, now_ms: i64, bytes: usize) -> Effort<'static> {
        if !self.adapts.load(Ordering::Relaxed) {
            return Effort::Full;
        }
        if bytes > LONG_BYTES {
            return Effort::Quick;
        }
        let this = now_ms.cast_unsigned() << COUNT_BITS;
        // Threads that count at once may lose each other's count, which is no harm.
        let known = self.now.load(Ordering::Relaxed);
        let count =
            if known >> COUNT_BITS << COUNT_BITS == this { (known - this).min((1 << COUNT_BITS) - 2) } else { 0 };
        self.now.store(this + count + 1, Ordering::Relaxed);
        if count < FULL_IN_A_MS { Effort::Full } else { Effort::Quick }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_is_less_for_what_comes_behind_many_in_one_millisecond() {
        let encoding = Encoding::default();
        let quick = |now_ms| (0..100).filter(|_| encoding.effort(now_ms, 100) == Effort::Quick).count();
        assert_eq!(quick(1_800_000_000_000), 0, "tools have the time");
        encoding.adapt();
        assert_eq!(quick(1_800_000_000_000), 92);
        assert_eq!(quick(1_800_000_000_000), 100);
        assert_eq!(quick(1_800_000_000_001), 92);
        assert_eq!(encoding.effort(1_800_000_000_002, LONG_BYTES), Effort::Full);
        assert_eq!(encoding.effort(1_800_000_000_003, LONG_BYTES + 1), Effort::Quick);
        // The clock may be set back.
        assert_eq!(quick(1_700_000_000_000), 92);
    }
}
