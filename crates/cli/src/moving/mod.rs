//! A namespace's move over a live server.
//!
//! ```text
//! survey ─▶ checks ─▶ layout that moves in force ─▶ passes of the mover ─▶ nothing left? ─▶ settled layout in force
//! ```
//! Everything up to the first change of the layout only looks. From there on each step may be broken off and done
//! again: what has been moved stays moved, and every key is found where it lies.

pub(crate) mod announce;
pub(crate) mod both;
pub(crate) mod carry_out;
pub(crate) mod checks;
pub(crate) mod drive;
mod filling;
mod gain;
mod hashes;
mod leftovers;
mod others;
mod overhead;
mod pass;
mod permissions;
pub(crate) mod recovery;
pub(crate) mod rollout;
mod sample;
pub(crate) mod stays;
pub(crate) mod survey;

use keyfold_survey::summary::Sizes;

use filling::Filling;
use hashes::Hashes;

/// Whether to look for keys of new namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCheck {
    /// Refuse where there are any.
    Look,
    /// Don't look.
    Skip,
}

/// What a survey finds of one moving namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Family {
    /// Keys in their old places; in buckets, fields that have expired are among them.
    pub(crate) keys: u64,
    /// Keys of other types that stay, the first of them.
    pub(crate) others: Vec<(u32, Vec<u8>, String)>,
    pub(crate) other_keys: u64,
    /// Sets and hashes that have so many members that they are moved in steps.
    pub(crate) in_steps: u64,
    /// Hashes of so many fields that they can't be moved as a whole, and stay, as some of these may expire.
    pub(crate) may_expire: u64,
    /// Of those that were sampled, how long each is packed.
    pub(crate) packed: Sizes,
    /// What is amiss with handmade hashes.
    pub(crate) hashes: Hashes,
    /// How full new buckets will be, as far as they were sampled whole.
    pub(crate) filling: Filling,
    /// What the keys take in their old places and in their new ones, tables aside.
    pub(crate) old_bytes: f64,
    pub(crate) new_bytes: f64,
}

impl Family {
    /// All that lies in old places, whether it could be moved or not.
    pub(crate) fn found(&self) -> u64 {
        self.keys + self.other_keys + self.may_expire
    }
}
