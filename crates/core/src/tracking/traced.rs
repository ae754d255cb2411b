//! What one request that is under way reads and writes, as far as somebody is told of it.

use smallvec::SmallVec;

use super::mailbox::{Key, Stale};

/// A key and the places in the server where it may lie.
pub(crate) type Located = (SmallVec<[Box<[u8]>; 1]>, Key);

/// One request.
///
/// A key is remembered before the request that reads it is sent, so that whatever changes it from then on is told. What
/// is told while the request is under way may be older than its answer is to the client, which gets the answer later: so
/// it is told once more, right behind it.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    /// What its client is to be told of from now on.
    pub(crate) reads: SmallVec<[Key; 1]>,
    /// What it writes and somebody has read.
    pub(crate) writes: Vec<Located>,
    /// It stores new values whatever was there.
    pub(crate) overwrites: bool,
    /// It was answered by OK.
    pub(crate) succeeded: bool,
    /// Its answer tells of no change: it may have written nothing.
    pub(crate) is_idle: bool,
    /// What is to be told behind its answer.
    pub(crate) again: Stale,
    /// The same, to clients in BCAST mode.
    pub(crate) broadcast_again: Vec<Key>,
    /// What is to be told behind its answer unless that shows that its client has written it itself, and wants not to be
    /// told of that.
    pub(crate) held: Stale,
}

impl Traced {
    /// Whether there is nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.again.is_empty() && self.broadcast_again.is_empty()
    }

    /// Whether it reads a key for its client.
    pub(crate) fn reads(&self, key: &[u8]) -> bool {
        self.reads.iter().any(|known| **known == *key)
    }

    /// Whether its client stores a new value of this key by it.
    pub(crate) fn overwrites(&self, key: &[u8]) -> bool {
        self.overwrites && self.writes.iter().any(|(_, known)| **known == *key)
    }

    /// Its client was told this while it was under way.
    pub(crate) fn note_told(&mut self, stale: &Stale) {
        if stale.is_all() && !self.reads.is_empty() {
            self.again.add_all();
        }
        for key in stale.keys() {
            if self.reads(key) {
                self.again.add(key);
            }
        }
    }

    /// It is answered so.
    pub(crate) fn note_answer(&mut self, answer: &[u8]) {
        self.succeeded = answer == b"+OK\r\n";
        self.is_idle = matches!(answer, b":0\r\n" | b"$-1\r\n" | b"_\r\n") || answer.starts_with(b"-");
    }
}
