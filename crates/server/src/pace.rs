//! How fast a tool may go: so many commands a second, or a share of the time. Both are kept by waiting.

use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

/// Waits shorter than this are put together.
const LEAST_WAIT: Duration = Duration::from_millis(2);
/// A wait is cut into naps of this length, so that it can be ended.
const NAP: Duration = Duration::from_millis(50);
/// Time that went by unused is not made up for later by a burst longer than this.
const BURST: Duration = Duration::from_millis(100);

/// Whoever only looks rests so many times as long as it has worked.
const RESTS: u32 = 3;
/// Work that took longer was no walk's: somebody was asked, or codecs were trained.
const LONGEST_WORK: Duration = Duration::from_millis(500);
/// Commands that go at once where time is what is limited.
const LOOKS_AT_ONCE: u32 = 256;

/// What limits a tool.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Nothing,
    PerSecond(NonZero<u32>),
    /// A quarter of the time.
    Time,
}

/// So fast, and no faster.
#[derive(Debug)]
pub struct Pace {
    limit: Limit,
    spent: u64,
    /// By commands: when the next one may go, had all earlier ones gone in their time. By time: when work began.
    due: Instant,
}

impl Pace {
    /// At most so many commands a second.
    pub fn new(per_second: Option<NonZero<u32>>) -> Self {
        Self::limited(per_second.map_or(Limit::Nothing, Limit::PerSecond))
    }

    /// For a look at all keys beside this work. Where that is limited the look takes a quarter of the time, however
    /// many commands it is: slow work begins soon.
    pub fn looking(&self) -> Self {
        Self::limited(match self.limit {
            Limit::Nothing => Limit::Nothing,
            Limit::PerSecond(_) | Limit::Time => Limit::Time,
        })
    }

    fn limited(limit: Limit) -> Self {
        Self { limit, spent: 0, due: Instant::now() }
    }

    /// Whether nothing limits it.
    pub fn is_free(&self) -> bool {
        matches!(self.limit, Limit::Nothing)
    }

    /// How many commands may go at once, so that no wait is long: a tenth of a second's.
    pub fn burst(&self) -> u32 {
        match self.limit {
            Limit::Nothing => u32::MAX,
            Limit::PerSecond(per_second) => (per_second.get() / 10).max(1),
            Limit::Time => LOOKS_AT_ONCE,
        }
    }

    /// Counts commands, and waits until their time is over.
    pub fn spend(&mut self, commands: u64) {
        self.spend_unless(commands, &|| false);
    }

    /// The same, but for a wait that ends once `is_stopped`.
    pub fn spend_unless(&mut self, commands: u64, is_stopped: &dyn Fn() -> bool) {
        self.spent += commands;
        let now = Instant::now();
        match self.limit {
            Limit::Nothing => {}
            Limit::PerSecond(per_second) => {
                self.due = self.due.max(now.checked_sub(BURST).unwrap_or(now));
                self.due += Duration::from_secs_f64(commands as f64 / f64::from(per_second.get()));
                if self.due.saturating_duration_since(now) >= LEAST_WAIT {
                    wait_until(self.due, is_stopped);
                }
            }
            Limit::Time => {
                let rest = now.saturating_duration_since(self.due).min(LONGEST_WORK) * RESTS;
                if rest >= LEAST_WAIT {
                    wait_until(now + rest, is_stopped);
                    self.due = Instant::now();
                }
            }
        }
    }

    /// How many there were.
    pub fn spent(&self) -> u64 {
        self.spent
    }
}

fn wait_until(due: Instant, is_stopped: &dyn Fn() -> bool) {
    while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if is_stopped() {
            return;
        }
        thread::sleep(left.min(NAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_rests_three_times_as_long_as_it_works() {
        let (started, mut pace) = (Instant::now(), Pace::new(NonZero::new(1)).looking());
        thread::sleep(Duration::from_millis(20));
        pace.spend(1_000_000);
        assert!(started.elapsed() >= Duration::from_millis(80), "{:?}", started.elapsed());
        assert!(started.elapsed() < Duration::from_secs(60));
        assert_eq!(Pace::new(None).looking().burst(), u32::MAX);
    }

    #[test]
    fn a_limit_is_kept() {
        let started = Instant::now();
        let mut pace = Pace::new(NonZero::new(10_000));
        for _ in 0..50 {
            pace.spend(10);
        }
        assert!(started.elapsed() >= Duration::from_millis(45), "{:?}", started.elapsed());
        assert_eq!((pace.spent(), pace.burst()), (500, 1000));
        Pace::new(None).spend(u64::MAX);
    }

    #[test]
    fn a_wait_can_be_ended() {
        let started = Instant::now();
        Pace::new(NonZero::new(1)).spend_unless(1_000_000, &|| true);
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
