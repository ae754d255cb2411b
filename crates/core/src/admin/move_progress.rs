//! How far a move has come, by the word of the tool that carries it out.
//!
//! The tool leaves it in the server from time to time, where every keyfold finds it. Nothing depends on it: it is gone by itself
//! when nobody writes it any more, and harmless where it is lost. How long ago it was written is told by how long it still has to
//! live, which takes no clock.
//!
//! ```text
//! 1 12345 100000 37500      the form, keys moved, keys to move (0: not known), milliseconds since the tool began
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MOVE_KEY;
use crate::resp::{Reply, write_command};

/// How long the word lives, in milliseconds: whoever comes to look after a tool that died finds how far it came.
const LIVES_MS: u64 = 3_600_000;

/// How often the tool leaves it, in milliseconds.
pub const WRITE_EVERY_MS: u64 = 2000;

/// A tool that says nothing for so long, in milliseconds, has ended before it was done. Between two passes over a cluster it
/// waits for replicas.
const STOPPED_AFTER_MS: u64 = 30_000;

/// How far a move has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MoveProgress {
    /// Keys that this run of the tool has moved.
    pub moved: u64,
    /// Keys that there were to move when it began, about; 0 where they were not counted.
    pub keys: u64,
    /// Keys that it moved a second, since it began.
    pub keys_per_second: u64,
    /// What is left takes about so long, in milliseconds.
    pub left_ms: Option<u64>,
    /// How long ago it said so, in milliseconds.
    pub silent_ms: u64,
    /// It has said nothing for so long that it has ended before it was done. The same command again goes on.
    pub stopped: bool,
}

impl MoveProgress {
    /// The same, heard so many milliseconds ago.
    #[must_use]
    pub fn after(self, ms: u64) -> Self {
        let silent_ms = self.silent_ms.saturating_add(ms);
        let stopped = silent_ms > STOPPED_AFTER_MS;
        Self { silent_ms, stopped, left_ms: self.left_ms.filter(|_| !stopped), ..self }
    }

    /// Of 100 keys, so many are moved; none where it is not known how many there are.
    pub fn percent(&self) -> Option<u64> {
        let of_hundred = u128::from(self.moved.min(self.keys)) * 100;
        of_hundred.checked_div(u128::from(self.keys)).and_then(|percent| u64::try_from(percent).ok())
    }
}

/// Leaves the word; one reply, which says nothing.
pub fn write(moved: u64, keys: u64, since_ms: u64, wire: &mut Vec<u8>) {
    let word = format!("1 {moved} {keys} {since_ms}");
    write_command(wire, &[b"SET", MOVE_KEY, word.as_bytes(), b"PX", LIVES_MS.to_string().as_bytes()]);
}

/// Takes it away: the move has come to its end. One reply, which says nothing.
pub fn clear(wire: &mut Vec<u8>) {
    write_command(wire, &[b"DEL", MOVE_KEY]);
}

/// Asks for it; how many replies that has.
pub fn ask(wire: &mut Vec<u8>) -> usize {
    write_command(wire, &[b"GET", MOVE_KEY]);
    write_command(wire, &[b"PTTL", MOVE_KEY]);
    2
}

/// What those replies say; nothing where no tool has left a word, or one that isn't understood.
pub fn read(replies: &[Vec<u8>]) -> Option<MoveProgress> {
    let [word, left_to_live] = replies else { return None };
    let Ok(Reply::Bulk(word)) = Reply::parse(word) else { return None };
    let Ok(Reply::Integer(left_to_live)) = Reply::parse(left_to_live) else { return None };
    let mut parts = str::from_utf8(word).ok()?.split(' ');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (1, moved, keys, since_ms) = (number()?, number()?, number()?, number()?) else { return None };
    if number().is_some() {
        return None;
    }
    let per_second = u128::from(moved) * 1000 / u128::from(since_ms.max(1));
    let keys_per_second = u64::try_from(per_second).unwrap_or(u64::MAX);
    let left = keys.checked_sub(moved).filter(|_| keys_per_second > 0 && keys > 0);
    let left_ms = left.map(|left| left.saturating_mul(1000) / keys_per_second);
    // A word without an end, or with one that is too far off, is nobody's of us: it is as old as can be.
    let silent_ms = u64::try_from(left_to_live).map_or(LIVES_MS, |left| LIVES_MS.saturating_sub(left));
    Some(MoveProgress { moved, keys, keys_per_second, left_ms, silent_ms: 0, stopped: false }.after(silent_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(word: &str, left_to_live: i64) -> Option<MoveProgress> {
        read(&[format!("${}\r\n{word}\r\n", word.len()).into_bytes(), format!(":{left_to_live}\r\n").into_bytes()])
    }

    #[test]
    fn what_is_left_follows_from_what_was_done() {
        let mut wire = Vec::new();
        write(2000, 10_000, 4000, &mut wire);
        assert!(wire.windows(16).any(|bytes| bytes == b"1 2000 10000 400"), "{}", wire.escape_ascii());
        let progress = said("1 2000 10000 4000", 3_599_000).unwrap();
        assert_eq!((progress.keys_per_second, progress.left_ms), (500, Some(16_000)));
        assert_eq!((progress.percent(), progress.silent_ms, progress.stopped), (Some(20), 1000, false));
        let later = progress.after(29_001);
        assert_eq!((later.stopped, later.left_ms, later.silent_ms), (true, None, 30_001));
        // More came than were counted, and none were.
        assert_eq!(said("1 20 10 1000", 3_600_000).map(|more| (more.left_ms, more.percent())), Some((None, Some(100))));
        assert_eq!(said("1 20 0 1000", 3_600_000).map(|more| (more.left_ms, more.percent())), Some((None, None)));
    }

    #[test]
    fn what_no_tool_has_written_is_nothing() {
        for word in
            ["", "1", "1 2 3", "1 2 3 4 5", "2 2 3 4", "1 -2 3 4", "1 x 3 4", "1 2 3 99999999999999999999", "\0"]
        {
            assert_eq!(said(word, 1000), None, "{word:?}");
        }
        let most = u64::MAX;
        let huge = said(&format!("1 {most} {most} 1"), i64::MAX).unwrap();
        assert_eq!((huge.percent(), huge.silent_ms), (Some(100), 0));
        assert!(said(&format!("1 1 {most} {most}"), -1).unwrap().stopped, "one that lives for ever is none of ours");
        assert_eq!(read(&[b"$-1\r\n".to_vec(), b":-2\r\n".to_vec()]), None);
        assert_eq!(read(&[b"-WRONGTYPE x\r\n".to_vec(), b":5\r\n".to_vec()]), None);
        assert_eq!(read(&[]), None);
    }
}
