//! A sample of keys by blocks, within a bound of memory, so that the fill of buckets can be told from it.
//!
//! An even sample of ids can't tell a dense run from the same number of ids with holes between them. So a whole
//! *block* of neighbouring ids is kept or left out, by the hash of its number: a block stays while its hash has at
//! least as many leading zeros as the sample asks for, and it asks for one more (which halves it) whenever the
//! kept keys are over the bound. The order in which keys come doesn't matter, and samples of one family that were
//! taken apart can be merged.

use std::num::NonZero;

use keyfold_core::memory::{PartsCost, ValueShape};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::population::SampledKey;

/// How many neighbouring ids are in one block.
pub const BLOCK_IDS: u64 = 4096;
/// What a kept key takes besides its bytes: the entry, and the allocator's share. Of large sets and hashes there are few.
const ENTRY_BYTES: usize = size_of::<Kept>() + 16;

/// Which block a key belongs to, as a hash: all bits are needed, and even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(u64);

impl Block {
    /// The block of an id: it has [`BLOCK_IDS`] neighbours in it.
    pub fn of_id(id: u64) -> Self {
        Self(xxh3_64(&(id / BLOCK_IDS).to_le_bytes()))
    }

    /// The block of all keys with this part, or of one whole key.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(xxh3_64_with_seed(bytes, 1))
    }
}

/// What a set or hash takes.
#[derive(Clone, Copy, Debug)]
pub struct PlainAndPacked {
    /// As it is, without its share of the table of keys.
    pub plain: u64,
    /// As one packed value.
    pub packed: u64,
    /// In parts, where it may lie so.
    pub in_parts: Option<PartsCost>,
}

#[derive(Clone, Debug)]
struct Kept {
    block: Block,
    sampled: SampledKey,
}

/// The sample. See the module's head.
#[derive(Clone, Debug)]
pub struct BlockSample {
    kept: Vec<Kept>,
    bytes: usize,
    max_bytes: usize,
    /// Blocks whose hash begins with so many zeros are kept.
    zeros: u32,
    /// Of a kept block, keys whose hash begins with so many zeros are kept: 0 until one block alone is too large.
    zeros_within: u32,
}

impl BlockSample {
    /// An empty sample of at most `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self { kept: Vec::new(), bytes: 0, max_bytes, zeros: 0, zeros_within: 0 }
    }

    /// Keeps the key if its block is among the chosen ones. A key that comes twice is kept twice until
    /// [`Self::into_keys`].
    pub fn offer(&mut self, block: Block, (database, key): (u32, &[u8]), value: ValueShape, has_expiry: bool) {
        let sampled = || SampledKey { database, key: key.into(), value, has_expiry, plain_bytes: None, in_parts: None };
        self.offer_any(block, key, sampled);
    }

    /// The same of a set or hash, which takes so many bytes as it is and so many packed.
    pub fn offer_collection(
        &mut self,
        block: Block,
        (database, key): (u32, &[u8]),
        bytes: PlainAndPacked,
        has_expiry: bool,
    ) {
        let plain = u32::try_from(bytes.plain).unwrap_or(u32::MAX).max(1);
        let value = ValueShape::Bytes(bytes.packed);
        let (plain_bytes, in_parts) = (NonZero::new(plain), bytes.in_parts.map(Box::new));
        self.offer_any(block, key, || SampledKey {
            database,
            key: key.into(),
            value,
            has_expiry,
            plain_bytes,
            in_parts,
        });
    }

    fn offer_any(&mut self, block: Block, key: &[u8], sampled: impl FnOnce() -> SampledKey) {
        if self.wants(block, key) {
            self.push(Kept { block, sampled: sampled() });
        }
    }

    fn wants(&self, block: Block, key: &[u8]) -> bool {
        block.0.leading_zeros() >= self.zeros
            && (self.zeros_within == 0 || within_hash(key).leading_zeros() >= self.zeros_within)
    }

    fn push(&mut self, kept: Kept) {
        self.bytes += kept_bytes(&kept);
        self.kept.push(kept);
        while self.bytes > self.max_bytes && self.kept.len() > 1 {
            self.thin();
        }
    }

    /// Halves the blocks; where there is but one of them left, its keys.
    fn thin(&mut self) {
        let first = self.kept.first().map(|kept| kept.block);
        if self.kept.iter().any(|kept| Some(kept.block) != first) {
            // A step that would leave nothing is taken as far as the block that stays longest.
            let most = self.kept.iter().map(|kept| kept.block.0.leading_zeros()).max().unwrap_or(0);
            if most > self.zeros {
                self.zeros += 1;
            } else {
                self.zeros_within += 1;
            }
        } else {
            self.zeros_within += 1;
        }
        self.sift();
    }

    fn sift(&mut self) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain(|kept| self.wants(kept.block, &kept.sampled.key));
        kept.shrink_to(kept.len() * 2);
        self.bytes = kept.iter().map(kept_bytes).sum();
        self.kept = kept;
    }

    /// Takes in another sample of the same family, whose blocks are made of the same.
    pub fn merge(&mut self, other: Self) {
        // A small sample is merged into a large one again and again, and seldom asks for more than that.
        if other.zeros > self.zeros || other.zeros_within > self.zeros_within {
            self.zeros = self.zeros.max(other.zeros);
            self.zeros_within = self.zeros_within.max(other.zeros_within);
            self.sift();
        }
        for kept in other.kept {
            if self.wants(kept.block, &kept.sampled.key) {
                self.push(kept);
            }
        }
    }

    /// Gives every kept key another block: for a family whose blocks turn out to be made of something else. Exact
    /// while all blocks are kept.
    pub fn regroup(&mut self, block_of: impl Fn(&[u8]) -> Block) {
        for kept in &mut self.kept {
            kept.block = block_of(&kept.sampled.key);
        }
        self.sift();
    }

    /// From now on at most `max_bytes`.
    pub fn limit(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
        while self.bytes > self.max_bytes && self.kept.len() > 1 {
            self.thin();
        }
    }

    /// The share of blocks that are kept.
    pub fn kept_blocks(&self) -> f64 {
        0.5_f64.powi(self.zeros.cast_signed())
    }

    /// The share of keys that are kept of a kept block.
    pub fn kept_within(&self) -> f64 {
        0.5_f64.powi(self.zeros_within.cast_signed())
    }

    /// How much it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many keys it holds, repeated ones included.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The keys, in the order of their coming, repeated ones included.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &SampledKey> {
        self.kept.iter().map(|kept| &kept.sampled)
    }

    /// The keys, each once in its database, in the order of their bytes.
    pub fn into_keys(self) -> Vec<SampledKey> {
        let mut keys: Vec<_> = self.kept.into_iter().map(|kept| kept.sampled).collect();
        keys.sort_unstable_by(|a, b| (&a.key, a.database).cmp(&(&b.key, b.database)));
        keys.dedup_by(|a, b| a.key == b.key && a.database == b.database);
        keys
    }
}

fn kept_bytes(kept: &Kept) -> usize {
    ENTRY_BYTES + kept.sampled.key.len()
}

/// Independent of the block's hash, which may be of the same bytes.
fn within_hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn offer_ids(sample: &mut BlockSample, ids: impl Iterator<Item = u64>) {
        for id in ids {
            sample.offer(Block::of_id(id), (0, id.to_string().as_bytes()), ValueShape::Integer(1), false);
        }
    }

    fn ids(sample: BlockSample) -> Vec<u64> {
        let mut ids: Vec<u64> =
            sample.into_keys().iter().map(|key| std::str::from_utf8(&key.key).unwrap().parse().unwrap()).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn whole_blocks_stay_within_the_bound() {
        let mut sample = BlockSample::new(4 << 20);
        offer_ids(&mut sample, 0..2_000_000);
        assert!(sample.bytes() <= 4 << 20);
        let kept = sample.kept_blocks();
        assert!(kept < 0.1 && sample.kept_within() >= 1.0, "{kept}");
        let mut blocks: BTreeMap<u64, u64> = BTreeMap::new();
        let ids = ids(sample);
        for id in &ids {
            *blocks.entry(id / BLOCK_IDS).or_default() += 1;
        }
        let last = 1_999_999 / BLOCK_IDS;
        assert!(blocks.iter().all(|(block, keys)| *keys == BLOCK_IDS || *block == last), "{blocks:?}");
        let estimate = ids.len() as f64 / kept;
        assert!((0.5..2.0).contains(&(estimate / 2e6)), "{estimate}");
    }

    #[test]
    fn order_and_parts_make_no_difference() {
        let mut forward = BlockSample::new(1 << 20);
        offer_ids(&mut forward, 0..300_000);
        let mut backward = BlockSample::new(1 << 20);
        offer_ids(&mut backward, (0..300_000).rev());
        let mut merged = BlockSample::new(1 << 20);
        offer_ids(&mut merged, (0..300_000).filter(|id| id % 3 == 0));
        let mut rest = BlockSample::new(1 << 20);
        offer_ids(&mut rest, (0..300_000).filter(|id| id % 3 != 0));
        merged.merge(rest);
        let forward = ids(forward);
        assert!(!forward.is_empty());
        assert_eq!(forward, ids(backward));
        assert_eq!(forward, ids(merged));
    }

    #[test]
    fn one_block_that_is_too_large_is_thinned_itself() {
        let mut sample = BlockSample::new(100_000);
        let block = Block::of_id(7);
        for n in 0..50_000_u32 {
            sample.offer(block, (0, format!("7:{n}").as_bytes()), ValueShape::Bytes(3), false);
        }
        assert!(sample.kept_within() < 0.1, "{}", sample.kept_within());
        let estimate = sample.len() as f64 / sample.kept_within();
        assert!((0.8..1.2).contains(&(estimate / 50_000.0)), "{estimate}");
    }
}
