//! How keyfold chooses what leaves: the core's own counters and chooser, driven as the evictor drives them.
//!
//! A hand goes over the buckets. Of the records that it comes by those leave that are worth the least, as far as what was
//! shown lately tells, until the rest fits.

use keyfold_core::cache::{KeyHash, Popularity, Use};
use keyfold_core::eviction::{Chooser, USUAL_SHARE, Worth};

use super::room::{FoldedRoom, Members, Room};
use super::sizes::Sizes;
use crate::random::Random;

/// The most that counters may take: as much as they want.
const MOST_COUNTER_BYTES: u64 = 1 << 30;
/// Counters go by the number of keys, which is told them after so many requests.
const FOLLOWS_EVERY: u64 = 1024;

/// A cache of records that keyfold evicts from.
pub(super) struct KeyEviction<'s> {
    sizes: &'s Sizes,
    hashes: Vec<KeyHash>,
    popularity: Popularity,
    chooser: Chooser,
    chance: Random,
    room: Room<'s>,
    members: Members,
    /// How many records are there.
    present: u64,
    limit: u64,
    /// What counters take that have counted nothing.
    least_counter_bytes: usize,
    /// The bucket that is looked at next.
    hand: usize,
    requests: u64,
}

impl<'s> KeyEviction<'s> {
    /// A cache of so many bytes for keys of these hashes, what counters take included.
    pub(super) fn new(hashes: Vec<KeyHash>, sizes: &'s Sizes, room: FoldedRoom<'s>, limit: u64) -> Self {
        let (members, popularity) = (Members::new(&room, hashes.len()), Popularity::of_sample(MOST_COUNTER_BYTES));
        Self {
            sizes,
            hashes,
            chooser: Chooser::default(),
            chance: Random::new(1),
            room: Room::Folded(room),
            members,
            present: 0,
            limit,
            least_counter_bytes: popularity.bytes(),
            popularity,
            hand: 0,
            requests: 0,
        }
    }

    /// A key is asked for, whether it is there or not.
    pub(super) fn note(&mut self, key: u32) {
        self.popularity.note(self.hashes[key as usize], Use::Read);
        self.requests += 1;
        if self.requests.is_multiple_of(FOLLOWS_EVERY) {
            self.popularity.follow_keys(self.present);
        }
    }

    pub(super) fn has(&self, key: u32) -> bool {
        self.members.has(key)
    }

    /// A key that wasn't there comes.
    pub(super) fn put(&mut self, key: u32) {
        while self.is_full() && self.present > 0 {
            self.look();
        }
        self.popularity.note(self.hashes[key as usize], Use::Write);
        self.members.put(key);
        self.room.put(key);
        self.present += 1;
    }

    /// One that is there is removed.
    pub(super) fn remove(&mut self, key: u32) {
        self.members.take(key);
        self.room.take(key);
        self.present -= 1;
    }

    fn is_full(&self) -> bool {
        let counters = self.popularity.bytes().saturating_sub(self.least_counter_bytes);
        self.room.used() + counters as u64 > self.limit
    }

    /// At the next bucket.
    fn look(&mut self) {
        let records = self.members.records(self.hand).to_vec();
        self.hand = (self.hand + 1) % self.members.buckets();
        let border = self.chooser.border(USUAL_SHARE);
        for record in records {
            let standing = self.popularity.standing(self.hashes[record as usize]);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a record")]
            let bytes = self.sizes.folded_bytes(record) as usize;
            let worth = Worth::of(standing, bytes, 1.0);
            self.chooser.show(worth);
            #[expect(clippy::cast_possible_truncation, reason = "a chance")]
            let draw = self.chance.unit() as f32;
            if border.leaves(worth, draw) {
                self.popularity.leave(self.hashes[record as usize], standing);
                self.remove(record);
                if !self.is_full() {
                    return;
                }
            }
        }
    }
}
