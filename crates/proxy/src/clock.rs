//! The server's clock, as a worker knows it.
//!
//! Expiry goes by the server's clock, never by this machine's. A sample asks the server for its `TIME` and
//! takes half the round trip off; the offset is held against the monotonic clock, so a step of this machine's
//! clock changes nothing. A sample counts only when it is surer than what is known, which ages: a slow round
//! trip says less than a quick one some seconds ago. Where a better sample puts time back by little, it stands still until
//! that has caught up, so that what has expired stays so. Where the server's clock itself was set, in either direction,
//! the next sample is followed at once: what the server holds for alive must not stay absent here.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use keyfold_core::resp::Reply;

/// How far two clocks drift apart at most: 200 parts in a million, twice what common quartz does.
const DRIFT: f64 = 200e-6;

/// Time stands still rather than going back by no more than this.
const STANDSTILL_MS: i64 = 1000;

/// A worker's idea of the server's time.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    known: Cell<Offset>,
    last_ms: Cell<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Offset {
    /// The server's time at the clock's start, in microseconds since 1970.
    at_start_us: i64,
    /// How wrong it may be.
    error: Duration,
    taken: Instant,
}

impl Clock {
    /// A clock that goes by this machine until the server was asked.
    pub(crate) fn new() -> Self {
        let start = Instant::now();
        let local = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let known = Offset { at_start_us: micros(local), error: Duration::MAX, taken: start };
        Self { start, known: Cell::new(known), last_ms: Cell::new(0) }
    }

    /// Milliseconds since 1970 by the server's clock. Reads the monotonic clock; ask once for a batch.
    pub(crate) fn now_ms(&self) -> i64 {
        self.at(Instant::now())
    }

    /// The same of a moment of the monotonic clock, which is now.
    pub(crate) fn at(&self, now: Instant) -> i64 {
        let now_ms = (self.known.get().at_start_us + micros(now.saturating_duration_since(self.start))) / 1000;
        let last_ms = self.last_ms.get();
        if now_ms < last_ms && last_ms - now_ms <= STANDSTILL_MS {
            return last_ms;
        }
        self.last_ms.set(now_ms);
        now_ms
    }

    /// Takes the reply to a TIME that was sent at `sent` and answered at `received`.
    /// False when it is no time, as where a user may not ask for it.
    pub(crate) fn handle_time(&self, reply: &[u8], sent: Instant, received: Instant) -> bool {
        let Some(server_us) = Reply::parse(reply).ok().and_then(Reply::time_us) else { return false };
        let round_trip = received.saturating_duration_since(sent);
        let middle = sent.saturating_duration_since(self.start) + round_trip / 2;
        let sample = Offset { at_start_us: server_us - micros(middle), error: round_trip / 2, taken: received };
        let known = self.known.get();
        let age = received.saturating_duration_since(known.taken);
        if sample.error <= known.error.saturating_add(age.mul_f64(DRIFT)) || !agree(&sample, &known, age) {
            self.known.set(sample);
        }
        true
    }
}

/// Whether two samples can both be right: if not, the server's clock was set, and the newer one counts.
fn agree(sample: &Offset, known: &Offset, age: Duration) -> bool {
    let apart = Duration::from_micros(sample.at_start_us.abs_diff(known.at_start_us));
    apart <= sample.error.saturating_add(known.error).saturating_add(age.mul_f64(DRIFT))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_reply(us: i64) -> Vec<u8> {
        let (seconds, micros) = ((us / 1_000_000).to_string(), (us % 1_000_000).to_string());
        format!("*2\r\n${}\r\n{seconds}\r\n${}\r\n{micros}\r\n", seconds.len(), micros.len()).into_bytes()
    }

    const SERVER_US: i64 = 2_000_000_000_000_000;

    fn after(clock: &Clock, ms: u64) -> Instant {
        clock.start + Duration::from_millis(ms)
    }

    #[test]
    fn half_the_round_trip_is_taken_off() {
        let clock = Clock::new();
        assert!(clock.handle_time(&time_reply(SERVER_US), after(&clock, 0), after(&clock, 100)));
        assert_eq!(clock.at(after(&clock, 50)), SERVER_US / 1000);
        assert_eq!(clock.at(after(&clock, 1050)), SERVER_US / 1000 + 1000);
    }

    #[test]
    fn a_slow_sample_does_not_spoil_a_quick_one() {
        let clock = Clock::new();
        clock.handle_time(&time_reply(SERVER_US), after(&clock, 0), after(&clock, 2));
        clock.handle_time(&time_reply(SERVER_US + 1_400_000), after(&clock, 1000), after(&clock, 2000));
        assert_eq!(clock.at(after(&clock, 2001)), SERVER_US / 1000 + 2000);
    }

    #[test]
    fn time_stands_still_where_it_would_go_back_by_little() {
        let clock = Clock::new();
        clock.handle_time(&time_reply(SERVER_US), after(&clock, 0), after(&clock, 0));
        assert_eq!(clock.at(after(&clock, 1000)), SERVER_US / 1000 + 1000);
        clock.handle_time(&time_reply(SERVER_US + 500_000), after(&clock, 1000), after(&clock, 1002));
        assert_eq!(clock.at(after(&clock, 1400)), SERVER_US / 1000 + 1000);
        assert_eq!(clock.at(after(&clock, 2001)), SERVER_US / 1000 + 1500);
    }

    #[test]
    fn a_clock_that_jumps_and_is_set_right_is_followed_both_ways() {
        let clock = Clock::new();
        let hour_us = 3_600_000_000;
        clock.handle_time(&time_reply(SERVER_US), after(&clock, 0), after(&clock, 0));
        clock.handle_time(&time_reply(SERVER_US + hour_us), after(&clock, 1000), after(&clock, 1002));
        assert_eq!(clock.at(after(&clock, 1501)), (SERVER_US + hour_us) / 1000 + 500);
        clock.handle_time(&time_reply(SERVER_US + 2_000_000), after(&clock, 2000), after(&clock, 2002));
        assert_eq!(clock.at(after(&clock, 2501)), SERVER_US / 1000 + 2500);
    }

    #[test]
    fn what_is_no_time_is_left_alone() {
        let clock = Clock::new();
        for reply in [&b"-NOPERM no\r\n"[..], b"*1\r\n$1\r\n1\r\n", b"*2\r\n$1\r\nx\r\n$1\r\ny\r\n"] {
            assert!(!clock.handle_time(reply, clock.start, clock.start));
        }
    }
}
