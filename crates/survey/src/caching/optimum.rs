//! What nobody can do better: what is asked for last of all leaves (Belady, 1966), by who knows what comes.
//!
//! Where all take the same it is the optimum. Where they don't nobody knows one that can be worked out, and this is near.

use std::collections::BinaryHeap;

use super::requests::{Action, Requests};
use super::room::Room;

/// Never read again, or written anew before it is.
const NEVER: u32 = u32::MAX;

/// A cache that knows what comes.
pub(super) struct Optimum<'r> {
    room: Room<'r>,
    limit: u64,
    /// For each request, when its key is read next.
    next: Vec<u32>,
    /// For each key that is there, when it is read next.
    present: Vec<Option<u32>>,
    /// Keys that are there, the one that is read last on top; what it says of a key may be what was said before.
    last: BinaryHeap<(u32, u32)>,
    now: usize,
}

impl<'r> Optimum<'r> {
    pub(super) fn new(requests: &Requests, room: Room<'r>, limit: u64) -> Self {
        let keys = requests.keys.len();
        let (next, present) = (next_reads(requests), vec![None; keys]);
        Self { room, limit, next, present, last: BinaryHeap::new(), now: 0 }
    }

    /// The request of this number comes.
    pub(super) fn tick(&mut self, number: usize) {
        self.now = number;
    }

    pub(super) fn has(&self, key: u32) -> bool {
        self.present[key as usize].is_some()
    }

    /// A key is read or written. It may be the one that leaves.
    pub(super) fn put(&mut self, key: u32) {
        let next = self.next[self.now];
        if self.present[key as usize].replace(next).is_none() {
            self.room.put(key);
        }
        self.last.push((next, key));
        while self.room.used() > self.limit {
            let Some((next, key)) = self.last.pop() else { return };
            if self.present[key as usize] == Some(next) {
                self.remove(key);
            }
        }
    }

    /// One that is there leaves.
    pub(super) fn remove(&mut self, key: u32) {
        self.present[key as usize] = None;
        self.room.take(key);
    }
}

/// For each request, which one is the next to read its key; a key that is written or removed before is not read again.
fn next_reads(requests: &Requests) -> Vec<u32> {
    let mut next = vec![NEVER; requests.steps.len()];
    let mut of_key = vec![NEVER; requests.keys.len()];
    for (number, step) in requests.steps.iter().enumerate().rev() {
        let of_key = &mut of_key[step.key() as usize];
        next[number] = *of_key;
        *of_key = match step.action() {
            Action::Read => u32::try_from(number).unwrap_or(NEVER),
            Action::Write | Action::Delete => NEVER,
        };
    }
    next
}
