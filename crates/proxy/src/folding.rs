//! The layout that the workers serve, and what is counted under it.

use keyfold_core::layout::Layout;
use keyfold_core::stats::Stats;

/// A layout in use. Shared by all workers, and replaced as a whole.
#[derive(Debug)]
pub(crate) struct Folding {
    pub(crate) layout: Layout,
    pub(crate) stats: Stats,
}

impl Folding {
    /// A layout with all its counters at zero.
    pub(crate) fn new(layout: Layout) -> Self {
        let stats = Stats::new(layout.namespaces().len());
        Self { layout, stats }
    }
}
