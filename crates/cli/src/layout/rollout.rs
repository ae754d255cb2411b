//! Brings a layout to a server, or finds the one that is there.

use anyhow::Context;
use keyfold_core::layout::{Layout, LayoutFile, Namespace, NamespaceId};
use keyfold_core::placement::Placement;

use super::activate::activate;
use super::{keys, stored};
use crate::print::number::{count, plural};
use crate::server::{Server, listpack};

/// Whether to look for keys of new namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCheck {
    /// Refuse where there are any.
    Look,
    /// Don't look.
    Skip,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Rollout {
    /// The layout that the server holds now.
    pub(crate) layout: Layout,
    pub(crate) added: Vec<NamespaceId>,
    pub(crate) changed: Vec<NamespaceId>,
    /// Whether the server was given a new one.
    pub(crate) written: bool,
}

/// The server's layout, with `file` brought to it if there is one. Nothing is written unless all is well.
pub(crate) fn bring(server: &mut Server, file: Option<&LayoutFile>, check: KeyCheck) -> anyhow::Result<Rollout> {
    let before = stored::read(server)?;
    let Some(file) = file else {
        let layout = before.map_or_else(Layout::default, |stored| stored.layout);
        return Ok(Rollout { layout, added: vec![], changed: vec![], written: false });
    };
    let merged = Layout::merge(before.as_ref().map(|stored| &stored.layout), file)
        .with_context(|| format!("the layout is refused by the server at {}", server.address()))?;
    let elsewhere = |id: &&NamespaceId| {
        let namespace = merged.layout.find(**id).map(|index| merged.layout.namespace(index));
        namespace.is_some_and(|Namespace { placement, .. }| *placement != Placement::Plain)
    };
    let moving: Vec<_> = merged.added.iter().filter(elsewhere).copied().collect();
    if check == KeyCheck::Look && !moving.is_empty() {
        keys::check_absent(server, &merged.layout, &moving)?;
    }
    let written = before.as_ref().is_none_or(|stored| stored.layout != merged.layout);
    if written {
        activate(server, before.as_ref(), &merged.layout)?;
    }
    Ok(Rollout { layout: merged.layout, added: merged.added, changed: merged.changed, written })
}

impl Rollout {
    /// What came of it, in a line.
    pub(crate) fn summary(&self) -> String {
        let namespaces = plural(self.layout.namespaces().len() as u64, "namespace");
        let epoch = self.layout.epoch();
        if self.written {
            let (added, changed) = (count(self.added.len() as u64), count(self.changed.len() as u64));
            format!("layout epoch {epoch} stored on the server: {namespaces}, {added} new, {changed} changed")
        } else {
            format!("layout epoch {epoch}, as the server has it: {namespaces}")
        }
    }
}

/// Warns of each setting of the server that falls short.
pub(crate) fn shortfalls(server: &mut Server, layout: &Layout, assumed: &[(String, u64)]) -> Vec<String> {
    listpack::shortfalls(server, layout, assumed).iter().map(ToString::to_string).collect()
}
