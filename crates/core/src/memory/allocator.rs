//! jemalloc's size classes: what an allocation really takes.
//!
//! `used_memory` counts an allocation by its usable size (`zmalloc.c`, `update_zmalloc_stat_alloc` with
//! `zmalloc_size`; with jemalloc there is no prefix of zmalloc's own), and that is the size class
//! (jemalloc 5.3, `include/jemalloc/internal/sc.h`): four classes to each doubling, and below 64 bytes the
//! multiples of the *quantum*.
//!
//! ```text
//! quantum 8    8 16 24 32 40 48 56 64 │ 80 96 112 128 │ 160 192 224 256 │ 320 … 3584 4096 │ 5120 …
//! quantum 16   8 16    32    48    64 │ 80 96 112 128 │ 160 192 224 256 │ 320 … 3584 4096 │ 5120 …
//! ```

/// Classes to each doubling (`SC_LG_NGROUP` = 2).
const LG_CLASSES_PER_DOUBLING: u32 = 2;
/// The smallest class (`SC_LG_TINY_MIN` = 3).
const SMALLEST: u64 = 8;
/// Up to here classes are a quantum apart. With quantum 16 the doubling from 64 to 128 has that distance too.
const QUANTUM_UP_TO: u64 = 64;

/// Which jemalloc a server is linked with. `MEMORY MALLOC-STATS` tells: see [`Allocator::from_malloc_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Allocator {
    /// The jemalloc in the server's own sources, quantum 8 (`deps/Makefile`: `--with-lg-quantum=3`). Official
    /// builds and container images have it.
    #[default]
    Bundled,
    /// The system's jemalloc, quantum 16. Packages of Debian, Ubuntu and Fedora have it.
    System,
}

impl Allocator {
    /// Reads what `MEMORY MALLOC-STATS` answers; none where it isn't jemalloc that answers.
    pub fn from_malloc_stats(stats: &str) -> Option<Self> {
        let quantum = stats.lines().find_map(|line| line.trim().strip_prefix("Quantum size:"))?;
        match quantum.trim() {
            "8" => Some(Self::Bundled),
            "16" => Some(Self::System),
            _ => None,
        }
    }

    /// The bytes that an allocation of `bytes` takes.
    pub fn usable_bytes(self, bytes: u64) -> u64 {
        if bytes <= SMALLEST {
            return SMALLEST;
        }
        let spacing = if bytes <= QUANTUM_UP_TO {
            self.quantum_bytes()
        } else {
            1 << ((bytes - 1).ilog2() - LG_CLASSES_PER_DOUBLING)
        };
        bytes.next_multiple_of(spacing)
    }

    fn quantum_bytes(self) -> u64 {
        match self {
            Self::Bundled => 8,
            Self::System => 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_classes_follow_the_quantum() {
        let classes = |allocator: Allocator| {
            let mut classes: Vec<u64> = (1..=64).map(|bytes| allocator.usable_bytes(bytes)).collect();
            classes.dedup();
            classes
        };
        assert_eq!(classes(Allocator::Bundled), [8, 16, 24, 32, 40, 48, 56, 64]);
        assert_eq!(classes(Allocator::System), [8, 16, 32, 48, 64]);
    }

    #[test]
    fn four_classes_to_each_doubling() {
        let mut classes: Vec<u64> = (65..=1 << 14).map(|bytes| Allocator::System.usable_bytes(bytes)).collect();
        classes.dedup();
        let expected = [
            80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048,
            2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384,
        ];
        assert_eq!(classes, expected);
        assert_eq!(Allocator::Bundled.usable_bytes(16_800), 20_480);
        assert_eq!(Allocator::Bundled.usable_bytes(4 << 20), 4 << 20);
    }

    #[test]
    fn the_quantum_is_in_the_allocators_own_words() {
        assert_eq!(Allocator::from_malloc_stats("Arenas: 8\nQuantum size: 16\nPage"), Some(Allocator::System));
        assert_eq!(Allocator::from_malloc_stats("  Quantum size: 8\n"), Some(Allocator::Bundled));
        assert_eq!(Allocator::from_malloc_stats("Stats not supported for the current allocator"), None);
    }
}
