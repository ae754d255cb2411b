//! Brings a layout's file to a server, or finds the layout that is there.
//!
//! A namespace that is new there is folded like any other, though it has no keys yet: between the look that finds
//! none and the moment its layout is in force clients may write some, which are moved then.
//!
//! ```text
//! no keys of it? ─▶ in force, moving from plain ─▶ walk: what was written meanwhile is moved ─▶ settled
//! ```

use std::time::Duration;

use anyhow::Context;
use keyfold_core::change::Register;
use keyfold_core::layout::{Former, Layout, LayoutFile, Move, NamespaceIndex};
use keyfold_core::mover::Left;
use keyfold_proxy::address::Route;
use keyfold_report::number::{count, plural};
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::activate::activate;
use keyfold_server::layout::stored::{self, Stored};
use keyfold_server::pace::Pace;
use keyfold_server::{Nodes, Server, Target, is_not_ready, listpack};

use super::carry_out::{Done, carry_out};
use super::drive::explain;
use super::{KeyCheck, cluster_rollout, recovery};
use crate::layout::evidence::Given;
use crate::layout::keys;
use crate::layout::writer;

/// So many times it is begun anew where somebody else changes the layout meanwhile, as several keyfolds do that
/// start together with one file.
pub(super) const TRIES: u32 = 8;

/// So soon a cluster is asked again of which a node is not ready.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(200);

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
    pub(crate) left: Vec<(Vec<u8>, Left)>,
    /// Keys that somebody wrote past keyfold while the namespaces were settled, and that nobody looks for.
    pub(crate) stragglers: u64,
}

/// The layout of a server or a cluster, with `file` brought to it if there is one, and connections to all that are there.
/// Nothing is written unless all is well. A server that loads its data or runs a script is waited for.
pub(crate) fn bring(target: &Target, file: Option<&LayoutFile>, check: KeyCheck) -> anyhow::Result<(Nodes, Rollout)> {
    let is_cluster = match &target.address.route {
        Route::Cluster { .. } => true,
        // One that can't be asked is taken for a server, which then says why.
        _ => Server::connect_to_node(target).is_ok_and(|server| server.version().is_cluster()),
    };
    if is_cluster {
        return cluster_rollout::bring(target, file, check);
    }
    bring_to_one(target, file, check)
}

fn bring_to_one(target: &Target, file: Option<&LayoutFile>, check: KeyCheck) -> anyhow::Result<(Nodes, Rollout)> {
    let mut tries = 0;
    loop {
        let mut nodes = Nodes::of_one(Server::connect_when_ready(target)?);
        let mut register = None;
        match bring_once(&mut nodes, &mut register, file, check) {
            Ok(rollout) => return Ok((nodes, rollout)),
            Err(error) if is_not_ready(&error) => {}
            Err(error) if tries < TRIES && was_disturbed(nodes.first(), register.as_ref()) => {
                tries += 1;
                tracing::info!("beginning anew, as the layout was changed meanwhile: {error:#}");
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether somebody else changed the layout: it says something else, or they have had this connection closed for it.
fn was_disturbed(server: &mut Server, register: Option<&Register>) -> bool {
    register.is_some_and(|before| stored::register(server).map_or(true, |now| now != *before))
}

/// Tries once; `register` is what it set out from.
fn bring_once(
    nodes: &mut Nodes,
    register: &mut Option<Register>,
    file: Option<&LayoutFile>,
    check: KeyCheck,
) -> anyhow::Result<Rollout> {
    let server = nodes.first();
    *register = Some(stored::register(server)?);
    writer::enter(server)?;
    let given = file.cloned().map(Given::File);
    let before = recovery::resolve(server, given.as_ref(), check)?;
    bring_to(nodes, before, file, check)
}

fn bring_to(
    nodes: &mut Nodes,
    before: Option<Stored>,
    file: Option<&LayoutFile>,
    check: KeyCheck,
) -> anyhow::Result<Rollout> {
    let Some(file) = file else {
        let layout = before.map_or_else(Layout::default, |stored| stored.layout);
        return Ok(Rollout::found(layout));
    };
    let merged = Layout::merge(before.as_ref().map(|stored| &stored.layout), file)
        .with_context(|| format!("the layout is refused by the server at {}", nodes.first().address()))?;
    let is_folded = |index: &&NamespaceIndex| !merged.layout.namespace(**index).placement.is_plain();
    let folded: Vec<_> = merged.added.iter().filter(is_folded).copied().collect();
    let mut rollout = Rollout {
        layout: merged.layout,
        added: merged.added,
        changed: merged.changed,
        written: true,
        left: vec![],
        stragglers: 0,
    };
    if check == KeyCheck::Look && !folded.is_empty() {
        keys::check_absent(nodes.first(), &rollout.layout, &folded)?;
        let done = fold_empty(nodes, before.as_ref(), &rollout.layout, &folded)?;
        rollout = Rollout { layout: done.layout, left: done.driven.left.left, stragglers: done.stragglers, ..rollout };
    } else if before.as_ref().is_none_or(|stored| stored.layout != rollout.layout) {
        rollout.layout = activate(nodes.first(), before.as_ref(), &rollout.layout)?;
    } else {
        rollout.written = false;
    }
    Ok(rollout)
}

/// Puts `layout` in force, the namespaces `folded` of it by way of a move from plain.
pub(super) fn fold_empty(
    nodes: &mut Nodes,
    before: Option<&Stored>,
    layout: &Layout,
    folded: &[NamespaceIndex],
) -> anyhow::Result<Done> {
    let none = Layout::default();
    let planned = Move { layout: layout.clone(), moving: Vec::new() };
    let planned = planned.reopen(before.map_or(&none, |stored| &stored.layout), folded);
    carry_out(nodes, before, &planned, 0, &mut Pace::new(None), &Interrupt::never())
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
            format!("layout epoch {epoch} stored on the server: {namespaces}, {added} new, {changed} changed")
        } else {
            format!("layout epoch {epoch}, as the server has it: {namespaces}")
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
        let left = self
            .left
            .iter()
            .map(|(key, why)| format!("\"{}\" stays where it is: {}", key.escape_ascii(), explain(why)));
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

/// Each setting that falls short, of a cluster with its node.
pub(crate) fn shortfalls(nodes: &mut Nodes, layout: &Layout, assumed: &[(String, u64)]) -> Vec<String> {
    let is_cluster = nodes.are_cluster();
    let of_each = nodes.servers().iter_mut().flat_map(|server| {
        let found = listpack::shortfalls(server, layout, assumed);
        let at = if is_cluster { format!("{}: ", server.address()) } else { String::new() };
        found.into_iter().map(move |shortfall| format!("{at}{shortfall}"))
    });
    of_each.collect()
}
