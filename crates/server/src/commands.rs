//! Commands that travel together.

use keyfold_core::resp::write_command;
use keyfold_core::walk::{BucketWalk, KeyWalk};

/// Commands as they will be sent.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    wire: Vec<u8>,
    count: usize,
}

impl Commands {
    /// One command: its name and arguments.
    pub fn push(&mut self, args: &[&[u8]]) {
        write_command(&mut self.wire, args);
        self.count += 1;
    }

    /// The next request of a walk; none once it is over.
    pub fn walk(&mut self, walk: &KeyWalk) {
        self.count += walk.send(&mut self.wire).unwrap_or(0);
    }

    /// The next step of a walk over a bucket.
    pub fn walk_bucket(&mut self, walk: &BucketWalk) {
        walk.send(&mut self.wire);
        self.count += 1;
    }

    /// Others behind these.
    pub fn append(&mut self, others: &Self) {
        self.wire.extend_from_slice(&others.wire);
        self.count += others.count;
    }

    /// How many there are; each has one reply.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their bytes, as they are sent.
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.wire.clear();
        self.count = 0;
    }
}
