//! The layout in use.

use std::sync::Arc;

use keyfold_core::layout::{Attempt, Layout};
use keyfold_core::stats::{LayoutCounts, Stats as NamespaceStats};

/// A layout in use, and what is counted under it. Replaced as a whole.
#[derive(Debug)]
pub(crate) struct Folding {
    pub(crate) layout: Arc<Layout>,
    /// Its stored form, which the server's is compared with at every look.
    pub(crate) text: String,
    pub(crate) namespaces: NamespaceStats,
    /// Whether clients are refused writes while a layout is in doubt.
    read_only_in_doubt: bool,
}

impl Folding {
    /// A layout with all its counters at zero.
    pub(crate) fn new(mut layout: Layout, read_only_in_doubt: bool) -> Self {
        if read_only_in_doubt {
            layout.refuse_writes_in_doubt();
        }
        let namespaces = NamespaceStats::new(layout.namespaces().len());
        namespaces.encoding().adapt();
        Self { text: layout.to_stored(), layout: Arc::new(layout), namespaces, read_only_in_doubt }
    }

    /// Whether a register with these halves says that this layout is in force. One half is enough; a process that was
    /// started without a layout, and has met none, wants none.
    pub(crate) fn is_in_force(&self, layout: Option<&[u8]>, copy: Option<&[u8]>) -> bool {
        let own = self.text.as_bytes();
        match (layout, copy) {
            (None, None) => self.layout.is_empty() && self.layout.revision().attempt == Attempt::default(),
            (layout, copy) => [layout, copy].into_iter().flatten().all(|half| half == own),
        }
    }

    /// Tells the operator, once for each, of namespaces most of whose values don't fit.
    pub(crate) fn warn_of_spills(&self) {
        for (index, namespace) in self.layout.iter() {
            let stats = self.namespaces.namespace(index);
            if stats.counts().spills_much() && stats.warn_once() {
                let advice = if namespace.is_untrained() {
                    "its codec has learned nothing yet: run `keyfold train`, and then `keyfold recode`"
                } else {
                    "raise value_limit in the layout, and hash-max-listpack-value on the server with it"
                };
                tracing::warn!(
                    namespace = %namespace.keys,
                    value_limit = namespace.value_limit,
                    "more than a tenth of the values written are over value_limit, and each takes a key of its own: {advice}"
                );
            }
        }
    }

    /// The next layout, with the counts so far.
    pub(crate) fn followed_by(&self, layout: Layout) -> Self {
        let mut next = Self::new(layout, self.read_only_in_doubt);
        next.namespaces = next.namespaces.following(&self.namespaces);
        for (index, namespace) in self.layout.iter() {
            if let Some(kept) = next.layout.find(&namespace.keys) {
                next.namespaces.namespace(kept).add(self.namespaces.namespace(index).counts());
                next.namespaces.namespace(kept).set_contents(self.namespaces.namespace(index).contents());
                if self.namespaces.namespace(index).has_spilled() {
                    next.namespaces.namespace(kept).note_spilled();
                }
            }
        }
        // What the mover spills this process doesn't see.
        let moving = next.layout.iter().filter(|(_, namespace)| namespace.is_moving());
        moving.for_each(|(index, _)| next.namespaces.namespace(index).note_spilled());
        next.namespaces.sweep().add(self.namespaces.sweep().total());
        next.namespaces.layouts().add(self.namespaces.layouts().counts());
        let changes = u64::from(next.layout.revision() != self.layout.revision());
        next.namespaces.layouts().add(LayoutCounts { changes, ..LayoutCounts::default() });
        next
    }
}
