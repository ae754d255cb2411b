//! What time it is for the conversations of one thread, and what of theirs was slow since the thread last asked.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use super::SlowRequest;
use crate::stats::Counter;

/// So many slow requests are told from one question to the next; of others how many they were.
const MOST_TOLD: usize = 10;

/// The clock of one thread, as it says it once for all that has come together; and what it is to be told of.
#[derive(Debug, Default)]
pub struct Timekeeper {
    now_us: Counter,
    /// The server's time, in milliseconds since 1970.
    server_ms: Counter,
    report: Mutex<SlowReport>,
}

/// What was slow since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowReport {
    /// The first of them.
    pub told: Vec<Arc<SlowRequest>>,
    /// How many there were besides.
    pub left_out: u64,
    /// How long the longest of those took, in microseconds.
    pub longest_left_out_us: u64,
}

impl Timekeeper {
    /// Says what time it is: in microseconds since whenever, never going back, and the server's, in milliseconds since 1970.
    /// Durations are counted from one such word to another.
    #[inline]
    pub fn set_now(&self, now_us: u64, server_ms: i64) {
        self.now_us.set(now_us);
        self.server_ms.set(server_ms.unsigned_abs());
    }

    /// The time that was said last, in microseconds.
    #[inline]
    pub fn now_us(&self) -> u64 {
        self.now_us.read()
    }

    /// The server's time that was said last.
    pub(crate) fn server_ms(&self) -> i64 {
        i64::try_from(self.server_ms.read()).unwrap_or(i64::MAX)
    }

    /// Notes a slow request, to be told at the next question.
    pub(super) fn tell(&self, request: &Arc<SlowRequest>) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        if report.told.len() < MOST_TOLD {
            report.told.push(Arc::clone(request));
        } else {
            report.left_out += 1;
            report.longest_left_out_us = report.longest_left_out_us.max(request.took_us);
        }
    }

    /// What was slow since this was last asked.
    pub fn take(&self) -> SlowReport {
        mem::take(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
