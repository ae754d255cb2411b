//! What came of bringing a layout, and what both ways of it share.

use keyfold_core::layout::{Former, Layout, NamespaceIndex};
use keyfold_report::number::{count, plural};

use crate::moving::stays::Stays;

/// So many times it is begun anew where somebody else changes the layout meanwhile, as several keyfolds do that
/// start together with one file.
pub(super) const TRIES: u32 = 8;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Rollout {
    /// The layout that the server holds now.
    pub(crate) layout: Layout,
    pub(crate) added: Vec<NamespaceIndex>,
    pub(crate) changed: Vec<NamespaceIndex>,
    /// Whether the server was given a new one.
    pub(crate) written: bool,
    /// Keys that stay under their own names though their namespace is new, the first of them, and why.
    pub(crate) left: Vec<Stays>,
    /// Keys that somebody wrote past keyfold while the namespaces were settled, and that nobody looks for.
    pub(crate) stragglers: u64,
}

impl Rollout {
    /// What was there already.
    pub(super) fn found(layout: Layout) -> Self {
        Self { layout, added: vec![], changed: vec![], written: false, left: vec![], stragglers: 0 }
    }

    /// What came of it, in a line.
    pub(crate) fn summary(&self) -> String {
        let namespaces = plural(self.layout.namespaces().len() as u64, "namespace");
        let epoch = self.layout.epoch();
        if self.written {
            let (added, changed) = (count(self.added.len() as u64), count(self.changed.len() as u64));
            format!(
                "change number {epoch} of the layout stored on the server: {namespaces}, {added} new, {changed} changed"
            )
        } else {
            format!("change number {epoch} of the layout, as the server has it: {namespaces}")
        }
    }

    /// What should be known of namespaces whose keys lie in two places, and be done about it.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let moving = self.layout.moving().map(|namespace| {
            let keys = &namespace.keys;
            let from = namespace.former.as_ref().map(|Former { placement, .. }| placement.line(keys.first()));
            format!(
                "keys of {keys} are being moved from {} to {}; unless a `keyfold fold` is at it, finish that with \
                 one: until then each of them is looked for in two places",
                from.unwrap_or_default(),
                namespace.line()
            )
        });
        let left =
            self.left.iter().map(|stays| format!("{} stays where it is: {}", stays.name(), stays.why(&self.layout)));
        let hidden = (self.stragglers > 0).then(|| {
            format!(
                "{} written past keyfold while this was done, and clients of keyfold don't see them. Point those \
                 clients to keyfold, and fetch the keys with `keyfold fold`",
                if self.stragglers == 1 {
                    "1 key was".to_owned()
                } else {
                    format!("{} keys were", count(self.stragglers))
                }
            )
        });
        moving.chain(left).chain(hidden).collect()
    }
}
