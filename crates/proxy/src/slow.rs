//! Slow requests in keyfold's own log (`--log-slow`), one line each.
//!
//! A line names the command, the namespace and the client, and never a key, a value or another argument: keys are often secrets
//! themselves, and logs go to more places than data does. SLOWLOG shows them to whoever may ask it. So that a bad hour fills no
//! disk, a worker writes [`LINES`] lines in [`WINDOW`] and then says how many it left out.

use std::mem;
use std::time::{Duration, Instant};

use keyfold_core::layout::{Layout, Located};
use keyfold_core::slot::Slot;
use keyfold_core::slowlog::{SlowReport, SlowRequest};

/// So many lines are written in one window.
const LINES: u32 = 10;

/// How long a window is.
const WINDOW: Duration = Duration::from_secs(10);

/// Of a client's name so many letters are shown.
const NAME_LETTERS: usize = 64;

/// What one worker has written, and left out.
#[derive(Debug, Default)]
pub(crate) struct SlowLines {
    /// When the window began; none where nothing was slow for long enough.
    began: Option<Instant>,
    written: u32,
    left_out: u64,
    longest_left_out_us: u64,
}

impl SlowLines {
    /// Writes of what was slow as much as may be written now. `node_of` says which node of a cluster has a slot. To be called
    /// from time to time.
    pub(crate) fn write(
        &mut self,
        report: &SlowReport,
        now: Instant,
        layout: &Layout,
        node_of: impl Fn(Slot) -> Option<String>,
    ) {
        if self.began.is_some_and(|began| now.saturating_duration_since(began) >= WINDOW) {
            self.end_window();
        }
        for request in &report.told {
            if self.count(request.took_us, now) {
                write(request, layout, &node_of);
            }
        }
        self.leave_out(report.left_out, report.longest_left_out_us);
    }

    /// Counts one that took so long; whether it may be written.
    fn count(&mut self, took_us: u64, now: Instant) -> bool {
        self.began.get_or_insert(now);
        let may = self.written < LINES;
        if may {
            self.written += 1;
        } else {
            self.leave_out(1, took_us);
        }
        may
    }

    fn leave_out(&mut self, count: u64, longest_us: u64) {
        self.left_out += count;
        self.longest_left_out_us = self.longest_left_out_us.max(longest_us);
    }

    /// Says what was left out.
    pub(crate) fn end_window(&mut self) {
        let Self { left_out, longest_left_out_us, .. } = mem::take(self);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                longest_ms = milliseconds(longest_left_out_us),
                "more requests were slow than are written here; SLOWLOG GET has the latest"
            );
        }
    }
}

fn write(request: &SlowRequest, layout: &Layout, node_of: impl Fn(Slot) -> Option<String>) {
    let (namespace, node) = match request.first_key() {
        Some(key) => (namespace_of(key, layout), node_of(Slot::of(key))),
        None => (None, None),
    };
    let name: String = String::from_utf8_lossy(&request.client_name).chars().take(NAME_LETTERS).collect();
    tracing::warn!(
        command = request.command,
        took_ms = milliseconds(request.took_us),
        client = request.client,
        name = Some(name).filter(|name| !name.is_empty()),
        namespace,
        way = request.way.name(),
        outcome = request.end.name(),
        node,
        "slow request"
    );
}

/// The template of the namespace that a key is of.
fn namespace_of(key: &[u8], layout: &Layout) -> Option<String> {
    let namespace = match layout.locate(key) {
        Located::Placed(place) => place.namespace,
        Located::Moving(moving) => moving.namespace,
        Located::Plain | Located::Reserved => return None,
    };
    Some(layout.namespace(namespace).keys.to_string())
}

#[expect(clippy::cast_precision_loss, reason = "whoever reads it rounds it")]
fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_so_many_lines_and_counts_the_others() {
        let mut lines = SlowLines::default();
        let start = Instant::now();
        for number in 0..25 {
            assert_eq!(lines.count(100 + number, start), number < u64::from(LINES));
        }
        assert_eq!((lines.left_out, lines.longest_left_out_us), (15, 124));
        lines.leave_out(5, 7);
        assert_eq!((lines.left_out, lines.longest_left_out_us), (20, 124));
        lines.end_window();
        assert!(lines.count(1, start));
        assert_eq!(lines.left_out, 0);
    }
}
