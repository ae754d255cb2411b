//! How deep parts lie: for each end of a hash, how many bits of it tell its part.

/// No part is halved beyond this.
pub(super) const MOST_DEPTH: u8 = 24;

/// One byte for each end of a hash; their number is a power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(Vec<u8>);

impl Directory {
    /// One of these parts, each by its depth and the bits in which hashes end there.
    pub(super) fn of(parts: impl Iterator<Item = (u8, u32)> + Clone) -> Self {
        let depth = parts.clone().map(|(depth, _)| depth).max().unwrap_or(0);
        let mut bytes = vec![0; 1 << depth];
        for (depth, number) in parts {
            bytes.iter_mut().skip(number as usize).step_by(1 << depth).for_each(|byte| *byte = depth);
        }
        Self(bytes)
    }

    /// Reads one; none where it says what can't be.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let is_whole = bytes.len().is_power_of_two() && bytes.len() <= 1 << MOST_DEPTH;
        let is_right = |(index, depth): (usize, &u8)| {
            let size = 1_usize.checked_shl(u32::from(*depth)).filter(|size| *size <= bytes.len());
            size.is_some_and(|size| bytes[index % size] == *depth)
        };
        let directory = (is_whole && bytes.iter().enumerate().all(is_right)).then(|| Self(bytes.to_vec()))?;
        // Each end of a hash has one part: those that are named first and cover others would say otherwise.
        let own = directory.0.iter().enumerate().filter(|(index, depth)| *index < 1 << **depth);
        let covered: usize = own.map(|(_, depth)| directory.0.len() >> depth).sum();
        (covered == directory.0.len()).then_some(directory)
    }

    /// Its bytes, as they are stored.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Of how many bits it tells.
    pub fn depth(&self) -> u8 {
        u8::try_from(self.0.len().trailing_zeros()).unwrap_or(MOST_DEPTH)
    }

    /// The number of the part in which a hash lies.
    pub fn part_of(&self, hash: u32) -> u64 {
        let depth = self.0[hash as usize & (self.0.len() - 1)];
        (1 << depth) + u64::from(hash) % (1 << depth)
    }

    /// The numbers of all parts, those that have nothing included.
    pub fn parts(&self) -> impl Iterator<Item = u64> {
        let own = self.0.iter().enumerate().filter(|(index, depth)| *index < 1 << **depth);
        own.map(|(index, depth)| (1 << depth) + index as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_hashes_have_one_part_each() {
        let directory = Directory::of([(1, 0), (2, 1), (3, 3), (3, 7)].into_iter());
        assert_eq!(directory.bytes(), [1, 2, 1, 3, 1, 2, 1, 3]);
        assert_eq!(directory.parts().collect::<Vec<_>>(), [2, 5, 11, 15]);
        assert_eq!([0, 6, 5, 0xFFFF_FFF3, 7].map(|hash| directory.part_of(hash)), [2, 2, 5, 11, 15]);
        assert_eq!(Directory::read(directory.bytes()), Some(directory));
        for wrong in [&[][..], &[0, 0, 0], &[1, 0], &[2, 2], &[0, 1], &[25]] {
            assert_eq!(Directory::read(wrong), None, "{wrong:?}");
        }
        assert_eq!(Directory::read(&[0]).unwrap().parts().collect::<Vec<_>>(), [1]);
    }
}
