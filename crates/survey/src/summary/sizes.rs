//! How large many things are: exact while they are few, then a sketch with quantiles right within 1%.

use std::fmt;

use sketches_ddsketch::{Config, DDSketch};

/// So many are kept as they are.
const EXACT: usize = 16;
/// Quantiles are this near to the true ones.
const ACCURACY: f64 = 0.01;
/// Enough for sizes from 1 byte to 512 MB at that accuracy.
const MAX_BINS: u32 = 1100;
/// What is less counts as nothing.
const LEAST: f64 = 0.5;

/// Sizes, for their quantiles.
#[derive(Clone, Default)]
pub struct Sizes {
    few: Vec<u64>,
    sketch: Option<Box<DDSketch>>,
    count: u64,
    sum: u64,
    max: u64,
}

/// The sketch itself shows nothing.
impl fmt::Debug for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sizes");
        shown.field("count", &self.count).field("median", &self.quantile(0.5)).field("max", &self.max);
        shown.finish_non_exhaustive()
    }
}

impl Sizes {
    /// Counts one.
    pub fn add(&mut self, size: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(size);
        self.max = self.max.max(size);
        match &mut self.sketch {
            Some(sketch) => sketch.add(size as f64),
            None => {
                self.few.push(size);
                if self.few.len() > EXACT {
                    self.make_sketch();
                }
            }
        }
    }

    fn make_sketch(&mut self) {
        let mut sketch = DDSketch::new(Config::new(ACCURACY, MAX_BINS, LEAST));
        for size in std::mem::take(&mut self.few) {
            sketch.add(size as f64);
        }
        self.sketch = Some(Box::new(sketch));
    }

    /// Takes in others.
    pub fn merge(&mut self, mut other: Self) {
        if self.sketch.is_none() && self.few.len() + other.few.len() > EXACT || other.sketch.is_some() {
            for sizes in [&mut *self, &mut other] {
                if sizes.sketch.is_none() {
                    sizes.make_sketch();
                }
            }
        }
        match (&mut self.sketch, &other.sketch) {
            (Some(mine), Some(other)) => {
                // All sketches here have one configuration, and only another one could not be merged.
                let merged = mine.merge(other);
                debug_assert!(merged.is_ok(), "{merged:?}");
            }
            (Some(mine), None) => other.few.iter().for_each(|size| mine.add(*size as f64)),
            (None, _) => self.few.append(&mut other.few),
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// The size that this share is not over; none where there are none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        if let Some(sketch) = &self.sketch {
            return sketch.quantile(share).ok().flatten().map(f64::round);
        }
        let mut few = self.few.clone();
        few.sort_unstable();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the length")]
        let at = (share * few.len() as f64) as usize;
        few.get(at.min(few.len().saturating_sub(1))).map(|size| *size as f64)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; none where there are none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The largest.
    pub fn max(&self) -> u64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_and_merge() {
        let (mut all, mut odd, mut even) = (Sizes::default(), Sizes::default(), Sizes::default());
        for size in 0..100_000 {
            all.add(size);
            if size % 2 == 0 {
                even.add(size);
            } else {
                odd.add(size);
            };
        }
        odd.merge(even);
        for sizes in [&all, &odd] {
            let median = sizes.quantile(0.5).unwrap();
            assert!((49_000.0..51_000.0).contains(&median), "{median}");
            assert_eq!((sizes.count(), sizes.max()), (100_000, 99_999));
        }
        assert_eq!(all.quantile(0.99), odd.quantile(0.99));
    }

    #[test]
    fn few_are_exact() {
        let mut few = Sizes::default();
        assert_eq!(few.quantile(0.5), None);
        [7, 1, 9].into_iter().for_each(|size| few.add(size));
        let mut one = Sizes::default();
        one.add(100);
        few.merge(one);
        assert_eq!((few.quantile(0.5), few.quantile(0.99), few.mean()), (Some(9.0), Some(100.0), Some(29.25)));
    }
}
