//! For how long the server has said nothing on a connection.
//!
//! A connection is given up only where it was looked at twice, and read from in between: a process that was held up
//! itself finds the answers that came meanwhile.

use std::time::{Duration, Instant};

/// How long a connection has been silent, and whether that was noticed.
#[derive(Debug)]
pub(super) struct Silence {
    since: Instant,
    /// The limit that it was over when it was looked at last.
    over: Option<Duration>,
}

/// What is to be done about a silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// It is too long; read what there is, and look again.
    Suspect,
    /// It was too long before, and nothing has come since.
    Over,
}

impl Silence {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), over: None }
    }

    /// Something was said, or there is something to answer from now on.
    pub(super) fn broken(&mut self) {
        *self = Self::new();
    }

    /// Since when nothing was said.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    pub(super) fn lasts(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Looks whether it is too long.
    pub(super) fn judge(&mut self, now: Instant, limit: Option<Duration>) -> Verdict {
        let over = limit.filter(|limit| self.lasts(now) > *limit);
        match (std::mem::replace(&mut self.over, over), over) {
            (_, None) => Verdict::Fine,
            (None, Some(_)) => Verdict::Suspect,
            (Some(_), Some(_)) => Verdict::Over,
        }
    }

    /// The limit that it was over.
    pub(super) fn limit(&self) -> Duration {
        self.over.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_over_at_the_second_look() {
        let mut silence = Silence::new();
        let (limit, start) = (Some(Duration::from_secs(1)), silence.since);
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(silence.judge(at(900), limit), Verdict::Fine);
        assert_eq!(silence.judge(at(1100), limit), Verdict::Suspect);
        assert_eq!(silence.judge(at(1200), None), Verdict::Fine);
        assert_eq!(silence.judge(at(1300), limit), Verdict::Suspect);
        assert_eq!(silence.judge(at(1400), limit), Verdict::Over);
        silence.broken();
        assert_eq!(silence.judge(silence.since, limit), Verdict::Fine);
    }
}
