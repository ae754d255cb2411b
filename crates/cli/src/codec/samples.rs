//! Some values of each namespace of a live server. SCAN's order has nothing to do with keys, so a walk may end early.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use keyfold_core::collection::CollectionKind;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_server::Nodes;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::pace::Pace;
use keyfold_survey::codec::Samples;

use crate::records::inquiry::Wants;
use crate::records::walk::{Manner, Sight, Visit, walk_all};
use crate::records::{Content, Packed, Record};
use crate::scan::Databases;

/// A walk ends once it has seen so many values of each namespace.
const ENOUGH: u64 = 400_000;

/// Samples of each namespace's values.
pub(crate) type SamplesOfEach = BTreeMap<NamespaceIndex, Samples>;

/// Samples the values of these namespaces of `wanted`, wherever they lie under the server's own layout: on the one server,
/// or over all nodes of a cluster.
pub(crate) fn gather_of_all(
    nodes: &mut Nodes,
    now: Option<&Layout>,
    wanted: &Layout,
    namespaces: &BTreeSet<NamespaceIndex>,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<SamplesOfEach> {
    gather_by(
        now,
        wanted,
        namespaces,
        interrupt,
        Box::new(|manner, visit| {
            walk_all(nodes, &Databases { only: Vec::new() }, "sampled", manner, pace, visit).map(|_| ())
        }),
    )
}

/// How a walk is made.
type Walk<'w> = dyn FnOnce(&Manner<'_>, Visit<'_>) -> anyhow::Result<()> + 'w;

fn gather_by(
    now: Option<&Layout>,
    wanted: &Layout,
    namespaces: &BTreeSet<NamespaceIndex>,
    interrupt: &Interrupt,
    walk: Box<Walk<'_>>,
) -> anyhow::Result<SamplesOfEach> {
    let empty = Layout::default();
    let enough = Cell::new(false);
    let manner = Manner {
        layout: now.unwrap_or(&empty),
        folded: now.is_some(),
        draws: None,
        wants: Wants { packed: true, ..Wants::default() },
        forgetful: true,
        listpack_limits: (None, None),
        // What lies plain is of interest where it is of these; what is folded may be so by another layout.
        reads: &|name, folded| {
            folded.is_some() || wanted.locate(name).namespace().is_some_and(|index| namespaces.contains(&index))
        },
        stopped: &|| interrupt.wanted(),
        has_enough: &|| enough.get(),
    };
    let mut all: SamplesOfEach = namespaces.iter().map(|index| (*index, Samples::default())).collect();
    walk(&manner, &mut |sight| {
        if let Sight::Record(Record { key, content, .. }, _) = sight
            && let Content::String(value) | Content::Packed(Packed { value, .. }) = content
            && let Some(index) = wanted.locate(key).namespace()
            && wanted.namespace(index).collection().map_or("string", CollectionKind::name) == content.kind()
            && let Some(samples) = all.get_mut(&index)
        {
            samples.offer(key, value);
            enough.set(samples.seen() >= ENOUGH && all.values().all(|samples| samples.seen() >= ENOUGH));
        }
        Ok(())
    })?;
    anyhow::ensure!(!interrupt.wanted(), "interrupted; nothing was changed");
    Ok(all)
}
