//! jemalloc's size classes: what an allocation really takes.
//!
//! `used_memory` counts an allocation by its usable size (`zmalloc.c`, `update_zmalloc_stat_alloc` with
//! `zmalloc_size`; with jemalloc there is no prefix of zmalloc's own), and that is the size class
//! (jemalloc 5.3, `include/jemalloc/internal/sc.h`): four classes to each doubling, and below 64 bytes the
//! multiples of the *quantum*. From jemalloc 5.3.1 on, what is over 32 KiB takes whole pages instead.
//!
//! ```text
//! quantum 8    8 16 24 32 40 48 56 64 │ 80 96 112 128 │ 160 192 224 256 │ 320 … 28672 32768 │ 40960 …
//! quantum 16   8 16    32    48    64 │ 80 96 112 128 │ 160 192 224 256 │ 320 … 28672 32768 │ 40960 …
//! 5.3.1                                                                     … 28672 32768 │ 36864 40960 …
//! ```

/// Classes to each doubling (`SC_LG_NGROUP` = 2).
const LG_CLASSES_PER_DOUBLING: u32 = 2;
/// The smallest class (`SC_LG_TINY_MIN` = 3).
const SMALLEST: u64 = 8;
/// Up to here classes are a quantum apart. With quantum 16 the doubling from 64 to 128 has that distance too.
const QUANTUM_UP_TO: u64 = 64;
/// Over this, jemalloc 5.3.1 rounds to pages (jemalloc#2646, `USIZE_GROW_SLOW_THRESHOLD`).
const CLASSES_UP_TO: u64 = 32 * 1024;
/// A page, on x86-64 and on most of ARM.
const PAGE: u64 = 4096;

/// Which jemalloc a server is linked with. Its own `MEMORY MALLOC-STATS` tells: see
/// [`Allocator::from_malloc_stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allocator {
    /// The distance between small classes: 8 or 16.
    pub quantum_bytes: u64,
    /// Whether large allocations take whole pages instead of classes.
    pub large_in_pages: bool,
}

/// Official builds and container images have the bundled one.
impl Default for Allocator {
    fn default() -> Self {
        Self::BUNDLED
    }
}

impl Allocator {
    /// The jemalloc in the sources of Redis to 8.0 and Valkey to 9.1: 5.2 or 5.3.0, quantum 8
    /// (`deps/Makefile`: `--with-lg-quantum=3`).
    pub const BUNDLED: Self = Self { quantum_bytes: 8, large_in_pages: false };
    /// The jemalloc 5.3.0 of Debian, Ubuntu and others: quantum 16.
    pub const SYSTEM: Self = Self { quantum_bytes: 16, large_in_pages: false };

    /// Reads what `MEMORY MALLOC-STATS` answers; none where it isn't jemalloc that answers.
    pub fn from_malloc_stats(stats: &str) -> Option<Self> {
        let field = |name: &str| stats.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
        let quantum_bytes = field("Quantum size:")?.parse().ok()?;
        Some(Self { quantum_bytes, large_in_pages: field("opt.disable_large_size_classes:") == Some("true") })
    }

    /// The bytes that an allocation of `bytes` takes.
    pub fn usable_bytes(self, bytes: u64) -> u64 {
        if bytes <= SMALLEST {
            return SMALLEST;
        }
        let spacing = if bytes <= QUANTUM_UP_TO {
            self.quantum_bytes
        } else if bytes > CLASSES_UP_TO && self.large_in_pages {
            PAGE
        } else {
            1 << ((bytes - 1).ilog2() - LG_CLASSES_PER_DOUBLING)
        };
        bytes.next_multiple_of(spacing)
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
        assert_eq!(classes(Allocator::BUNDLED), [8, 16, 24, 32, 40, 48, 56, 64]);
        assert_eq!(classes(Allocator::SYSTEM), [8, 16, 32, 48, 64]);
    }

    #[test]
    fn four_classes_to_each_doubling() {
        let mut classes: Vec<u64> = (65..=1 << 14).map(|bytes| Allocator::SYSTEM.usable_bytes(bytes)).collect();
        classes.dedup();
        let expected = [
            80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048,
            2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384,
        ];
        assert_eq!(classes, expected);
        assert_eq!(Allocator::BUNDLED.usable_bytes(16_800), 20_480);
        assert_eq!(Allocator::BUNDLED.usable_bytes(4 << 20), 4 << 20);
    }

    #[test]
    fn large_allocations_take_classes_or_pages() {
        let pages = Allocator { large_in_pages: true, ..Allocator::SYSTEM };
        assert_eq!([16_500, 32_768, 33_000, 100_000].map(|n| pages.usable_bytes(n)), [20_480, 32_768, 36_864, 102_400]);
        assert_eq!([33_000, 100_000].map(|n| Allocator::SYSTEM.usable_bytes(n)), [40_960, 114_688]);
    }

    #[test]
    fn the_allocator_says_what_it_is() {
        assert_eq!(Allocator::from_malloc_stats("Arenas: 8\nQuantum size: 16\nPage"), Some(Allocator::SYSTEM));
        assert_eq!(Allocator::from_malloc_stats("  Quantum size: 8\n"), Some(Allocator::BUNDLED));
        let pages = Allocator::from_malloc_stats("  opt.disable_large_size_classes: true\nQuantum size: 16\n");
        assert_eq!(pages, Some(Allocator { quantum_bytes: 16, large_in_pages: true }));
        assert_eq!(Allocator::from_malloc_stats("Stats not supported for the current allocator"), None);
    }
}
