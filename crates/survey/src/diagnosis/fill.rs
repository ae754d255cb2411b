//! How full hashes are: a histogram, exact to an eighth.

/// Classes to each doubling: the upper end of a class is at most an eighth over its lower one.
const CLASSES: u64 = 8;

/// How many entries hashes have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Hashes by class of entries.
    counts: Vec<u64>,
    hashes: u64,
    entries: u64,
    fewest: Option<u64>,
    most: u64,
}

impl Fill {
    /// Counts a hash of so many entries.
    pub fn add(&mut self, entries: u64) {
        let class = class_of(entries);
        if self.counts.len() <= class {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] += 1;
        self.hashes += 1;
        self.entries += entries;
        self.fewest = Some(self.fewest.map_or(entries, |fewest| fewest.min(entries)));
        self.most = self.most.max(entries);
    }

    /// Counts all that another one counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.hashes += other.hashes;
        self.entries += other.entries;
        self.fewest = [self.fewest, other.fewest].into_iter().flatten().min();
        self.most = self.most.max(other.most);
    }

    /// How many hashes there are.
    pub fn hashes(&self) -> u64 {
        self.hashes
    }

    /// How many entries they have together.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The entries of the emptiest.
    pub fn fewest(&self) -> u64 {
        self.fewest.unwrap_or(0)
    }

    /// The entries of the fullest.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Entries to a hash.
    pub fn mean(&self) -> f64 {
        if self.hashes == 0 { 0.0 } else { self.entries as f64 / self.hashes as f64 }
    }

    /// The entries that so many percent of the hashes don't exceed, to an eighth.
    pub fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.hashes * percent).div_ceil(100).max(1);
        let mut below = 0;
        for (class, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return largest_of(class as u64).clamp(self.fewest(), self.most);
            }
        }
        self.most
    }
}

/// Up to 15 each number has its own class; from there on eight share a doubling.
fn class_of(entries: u64) -> usize {
    let class = if entries < 2 * CLASSES {
        entries
    } else {
        let doubling = u64::from(entries.ilog2());
        (doubling - 2) * CLASSES + (entries >> (doubling - 3)) - CLASSES
    };
    usize::try_from(class).unwrap_or(usize::MAX)
}

/// The largest number in a class.
fn largest_of(class: u64) -> u64 {
    if class < 2 * CLASSES {
        return class;
    }
    let shift = class / CLASSES - 1;
    ((CLASSES + class % CLASSES + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_its_class() {
        for entries in (0..5000).chain([1 << 20, (1 << 20) - 1, 1 << 40, u64::MAX / 2]) {
            let class = class_of(entries) as u64;
            assert!(largest_of(class) >= entries, "{entries}");
            assert!(class == 0 || largest_of(class - 1) < entries, "{entries}");
            assert!(largest_of(class) as f64 <= entries as f64 * 1.13 + 1.0, "{entries}");
        }
    }

    #[test]
    fn percentiles_are_exact_to_an_eighth() {
        let mut fill = Fill::default();
        (1..=1000).for_each(|entries| fill.add(entries));
        assert_eq!((fill.fewest(), fill.most(), fill.entries()), (1, 1000, 500_500));
        let median = fill.percentile(50);
        assert!((500..=563).contains(&median), "{median}");
        assert_eq!(fill.percentile(100), 1000);
        assert_eq!(Fill::default().percentile(50), 0);
    }

    #[test]
    fn merging_counts_as_adding_does() {
        let (mut all, mut one, mut other) = (Fill::default(), Fill::default(), Fill::default());
        for entries in [3, 900, 17, 64] {
            all.add(entries);
            if entries > 20 { one.add(entries) } else { other.add(entries) }
        }
        other.merge(&one);
        assert_eq!(other, all);
    }
}
