//! Tells keyfolds how far a move has come, and hears it: [`keyfold_core::admin::move_progress`].
//!
//! A move that is over sooner says nothing. It goes over a connection of its own, and whatever becomes of it, the move goes on.

use std::time::{Duration, Instant};

use keyfold_core::admin::move_progress::{self, MoveProgress, WRITE_EVERY_MS};
use keyfold_report::number::{count, plural};
use keyfold_server::{Nodes, Server};

const EVERY: Duration = Duration::from_millis(WRITE_EVERY_MS);

/// Leaves a word from time to time.
pub(super) struct Announcer {
    /// None where it can't be told.
    nodes: Option<Nodes>,
    keys: u64,
    moved: u64,
    began: Instant,
    said: Option<Instant>,
}

impl Announcer {
    /// For a move of about so many keys; 0 where they were not counted.
    pub(super) fn new(nodes: &Nodes, keys: u64) -> Self {
        Self { nodes: nodes.again().ok(), keys, moved: 0, began: Instant::now(), said: None }
    }

    /// Of a task that is no move of keys.
    pub(super) fn silent() -> Self {
        Self { nodes: None, keys: 0, moved: 0, began: Instant::now(), said: None }
    }

    /// So many more are moved.
    pub(super) fn advance(&mut self, more: u64) {
        self.moved += more;
        if self.nodes.is_some() && self.said.unwrap_or(self.began).elapsed() >= EVERY {
            self.said = Some(Instant::now());
            let since_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let (moved, keys) = (self.moved, self.keys);
            self.say(|wire| move_progress::write(moved, keys, since_ms, wire));
        }
    }

    /// The move has come to its end.
    pub(super) fn end(mut self) {
        if self.said.is_some() {
            self.say(move_progress::clear);
        }
    }

    fn say(&mut self, word: impl FnOnce(&mut Vec<u8>)) {
        let Some(nodes) = &mut self.nodes else { return };
        let mut wire = Vec::new();
        word(&mut wire);
        let home = nodes.home();
        if let Err(error) = home.send(&wire, 1).and_then(|()| home.receive()) {
            tracing::debug!("keyfolds aren't told how far the move is: {error:#}");
            self.nodes = None;
        }
    }
}

/// How far the move on this server, the home, has come; none where nobody says.
pub(crate) fn hear(home: &mut Server) -> Option<MoveProgress> {
    let mut wire = Vec::new();
    let replies = move_progress::ask(&mut wire);
    home.send(&wire, replies as u64).ok()?;
    let replies = (0..replies).map(|_| home.receive()).collect::<anyhow::Result<Vec<_>>>().ok()?;
    move_progress::read(&replies)
}

/// The same in a line.
pub(crate) fn line(progress: &MoveProgress) -> String {
    let moved = match progress.percent() {
        Some(percent) => format!("{} of {} moved ({percent} %)", count(progress.moved), plural(progress.keys, "key")),
        None => format!("{} moved", plural(progress.moved, "key")),
    };
    if progress.stopped {
        let silent = progress.silent_ms / 1000;
        return format!("stopped: {moved}, and no word for {} s; run the same command again to go on", count(silent));
    }
    let left = progress.left_ms.map_or_else(String::new, |ms| format!(", about {} s left", count(ms.div_ceil(1000))));
    format!("{moved}, {} a second{left}", count(progress.keys_per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(word: &str, left_to_live: u64) -> String {
        let word = format!("${}\r\n{word}\r\n", word.len()).into_bytes();
        line(&move_progress::read(&[word, format!(":{left_to_live}\r\n").into_bytes()]).unwrap())
    }

    #[test]
    fn a_line_says_how_far_it_is_or_where_it_stopped() {
        let fresh = 3_600_000;
        assert_eq!(
            said("1 20000 100000 4000", fresh),
            "20,000 of 100,000 keys moved (20 %), 5,000 a second, about 16 s left"
        );
        assert_eq!(said("1 1 0 4000", fresh), "1 key moved, 0 a second");
        let stopped =
            "stopped: 20,000 of 100,000 keys moved (20 %), and no word for 60 s; run the same command again to go on";
        assert_eq!(said("1 20000 100000 4000", fresh - 60_000), stopped);
    }
}
