//! CLIENT PAUSE: until when no request begins, or none that may write.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// What a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PauseMode {
    /// Commands that may write.
    Writes,
    /// Every command.
    All,
}

/// The pause of all clients.
#[derive(Debug, Default)]
pub struct Pause {
    /// By the server's clock; 0 where there is none.
    until_ms: AtomicI64,
    everything: AtomicBool,
}

impl Pause {
    /// Begins a pause. One that lasts already is made no shorter and no weaker, as in Redis.
    pub(crate) fn begin(&self, mode: PauseMode, until_ms: i64, now_ms: i64) {
        let lasts = self.left_ms(now_ms).is_some();
        let everything = mode == PauseMode::All || (lasts && self.everything.load(Ordering::Relaxed));
        self.everything.store(everything, Ordering::Relaxed);
        let before_ms = if lasts { self.until_ms.load(Ordering::Relaxed) } else { 0 };
        self.until_ms.store(until_ms.max(before_ms), Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.until_ms.store(0, Ordering::Release);
    }

    /// How many milliseconds are left of it, where it lasts.
    pub fn left_ms(&self, now_ms: i64) -> Option<i64> {
        let until_ms = self.until_ms.load(Ordering::Acquire);
        (until_ms > now_ms).then(|| until_ms - now_ms)
    }

    /// Whether a command has to wait: every one, or only those that may write.
    pub(crate) fn holds(&self, now_ms: i64, may_write: impl FnOnce() -> bool) -> bool {
        self.left_ms(now_ms).is_some() && (self.everything.load(Ordering::Relaxed) || may_write())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_gets_no_shorter_and_no_weaker_while_it_lasts() {
        let pause = Pause::default();
        assert!(!pause.holds(10, || true));
        pause.begin(PauseMode::All, 100, 10);
        pause.begin(PauseMode::Writes, 50, 20);
        assert!(pause.holds(60, || false));
        assert_eq!(pause.left_ms(60), Some(40));
        assert!(!pause.holds(100, || true));
        pause.begin(PauseMode::Writes, 200, 150);
        assert!(pause.holds(160, || true) && !pause.holds(160, || false));
        pause.end();
        assert!(!pause.holds(160, || true));
    }
}
