//! The forms in which members are kept, and what the model says of each.

use keyfold_core::memory::{BucketCost, Model, SetCost, ValueShape};

use crate::folding::{INTERPRETER_BYTES, Words};

/// The original's limits.
pub(super) const LIMITS: [u64; 3] = [512, 1028, 32_768];

pub(super) const ENTRIES: &str = "hash-max-listpack-entries";
pub(super) const VALUE: &str = "hash-max-listpack-value";
pub(super) const KEY: &[u8] = b"members";

/// A way of keeping members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collection {
    Set,
    /// With this limit of entries.
    Hash(u64),
    /// As a set that keyfold keeps.
    Folded,
}

impl Collection {
    pub(super) fn name(self) -> String {
        match self {
            Self::Set => "set".to_owned(),
            Self::Hash(limit) => format!("hash, limit {limit}"),
            Self::Folded => "folded".to_owned(),
        }
    }

    /// The command that adds a member.
    pub(super) fn add(self, key: &[u8], member: &[u8]) -> Words {
        let words: &[&[u8]] = match self {
            Self::Set | Self::Folded => &[b"SADD", key, member],
            Self::Hash(_) => &[b"HSET", key, member, b"1"],
        };
        words.iter().map(|word| word.to_vec()).collect()
    }

    /// The command that says whether a member is there.
    pub(super) fn look_up(self, key: &[u8], member: &[u8]) -> Words {
        let command: &[u8] = match self {
            Self::Set | Self::Folded => b"SISMEMBER",
            Self::Hash(_) => b"HEXISTS",
        };
        [command, key, member].map(<[u8]>::to_vec).to_vec()
    }

    pub(super) fn limit(self) -> Option<u64> {
        match self {
            Self::Set | Self::Folded => None,
            Self::Hash(limit) => Some(limit),
        }
    }
}

/// What the model says of a set or hash of the server's own.
pub(super) enum Cost {
    Set(SetCost),
    Hash(BucketCost),
}

impl Cost {
    pub(super) fn new(kind: Collection) -> Self {
        match kind {
            Collection::Set | Collection::Folded => Self::Set(SetCost::default()),
            Collection::Hash(_) => Self::Hash(BucketCost::default()),
        }
    }

    pub(super) fn add(&mut self, model: &Model, member: &[u8]) {
        let member = ValueShape::of(member);
        match self {
            Self::Set(set) => set.add(model, member),
            Self::Hash(hash) => hash.add(model, member, ValueShape::Integer(1)),
        }
    }

    pub(super) fn bytes(&self, model: &Model, key_len: u64) -> u64 {
        match self {
            Self::Set(set) => model.settled_set_bytes(key_len, set, false),
            Self::Hash(hash) => model.settled_hash_bytes(key_len, hash, false),
        }
    }
}

/// What a table may differ by from the mean of all hash seeds, which newer servers draw at each start: three standard
/// deviations of how many of its places overflow into another 64 bytes. That is one for twenty entries or fewer.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousand bytes")]
pub(super) fn chance_bytes(kind: Collection, members: u64) -> u64 {
    let packed_up_to = match kind {
        Collection::Set => 128,
        // All that it lies in is packed.
        Collection::Folded => return INTERPRETER_BYTES,
        Collection::Hash(limit) => limit,
    };
    if members <= packed_up_to { 0 } else { (3.0 * 64.0 * (members as f64 / 20.0).sqrt()) as u64 }
}
