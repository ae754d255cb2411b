//! How far a long piece of work is, with its rate and the time left: one line on a terminal, else nothing.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::number::{count, decimals};

/// What takes less needs no line.
const QUIET: Duration = Duration::from_secs(2);
const REDRAW: Duration = Duration::from_millis(200);

/// A long piece of work. Its line is gone once this is dropped.
pub struct Progress {
    what: String,
    total: usize,
    done: usize,
    /// What else is to be said.
    note: String,
    started: Instant,
    drawn: Option<Instant>,
    terminal: bool,
}

impl Progress {
    /// Work on so many things in all, called `what`; 0 where nobody knows how many.
    pub fn new(what: impl Into<String>, total: usize) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { what: what.into(), total, done: 0, note: String::new(), started: Instant::now(), drawn: None, terminal }
    }

    /// So many more are done.
    pub fn advance(&mut self, more: usize) {
        self.done += more;
        let due = self.drawn.is_none_or(|drawn| drawn.elapsed() > REDRAW);
        if self.terminal && due && self.started.elapsed() > QUIET {
            self.drawn = Some(Instant::now());
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", self.line());
        }
    }

    /// What is said behind the rate from now on.
    pub fn note(&mut self, note: impl Into<String>) {
        self.note = note.into();
    }

    fn line(&self) -> String {
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let per_second = self.done as f64 / seconds;
        let left = self.total.saturating_sub(self.done) as f64 / per_second.max(1.0);
        let (rate, left) = (decimals(per_second, 0), decimals(left, 0));
        let (done, total) = (count(self.done as u64), count(self.total as u64));
        if self.total == 0 {
            return format!("{}: {done}, {rate} a second{}", self.what, self.note);
        }
        format!("{}: {done} of {total}, {rate} a second, {left} s left{}", self.what, self.note)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
