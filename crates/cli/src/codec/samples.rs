//! Some values of each namespace of a live server. SCAN's order has nothing to do with keys, so a walk may end early.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_server::Server;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::pace::Pace;
use keyfold_survey::codec::Samples;

use crate::records::inquiry::Wants;
use crate::records::walk::{Manner, Sight, walk};
use crate::records::{Content, Record};
use crate::scan::Round;

/// A walk ends once it has seen so many values of each namespace.
const ENOUGH: u64 = 400_000;

/// Samples the values of these namespaces of `wanted`, wherever they lie under the server's own layout.
pub(crate) fn gather(
    server: &mut Server,
    now: Option<&Layout>,
    wanted: &Layout,
    namespaces: &BTreeSet<NamespaceIndex>,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<BTreeMap<NamespaceIndex, Samples>> {
    let empty = Layout::default();
    let enough = Cell::new(false);
    let manner = Manner {
        layout: now.unwrap_or(&empty),
        folded: now.is_some(),
        wants: Wants::default(),
        forgetful: true,
        listpack_limits: (None, None),
        stopped: &|| interrupt.wanted() || enough.get(),
    };
    let mut all: BTreeMap<NamespaceIndex, Samples> =
        namespaces.iter().map(|index| (*index, Samples::default())).collect();
    let round = Round::all(server)?;
    walk(server, round, "sampled", &manner, pace, &mut |sight| {
        if let Sight::Record(Record { key, content: Content::String(value), .. }, _) = sight
            && let Some(samples) = wanted.locate(key).namespace().and_then(|index| all.get_mut(&index))
        {
            samples.offer(key, value);
            enough.set(samples.seen() >= ENOUGH && all.values().all(|samples| samples.seen() >= ENOUGH));
        }
        Ok(())
    })?;
    anyhow::ensure!(!interrupt.wanted(), "interrupted; nothing was changed");
    Ok(all)
}
