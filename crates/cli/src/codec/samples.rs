//! Some values of each namespace of a live server. SCAN's order has nothing to do with keys, so a walk may end early.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_survey::codec::Samples;

use crate::interrupt::Interrupt;
use crate::print::progress::Progress;
use crate::records::Content;
use crate::records::ask::Wants;
use crate::records::walk::{Manner, Sight, walk};
use crate::scan::{self, Database};
use crate::server::Server;
use crate::server::pace::Pace;

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
    let databases = scan::databases(server)?;
    let keys: u64 = databases.iter().map(|database| database.keys).sum();
    let mut progress = Progress::new("sampled, keys of the server", usize::try_from(keys).unwrap_or(usize::MAX));
    for Database { number, .. } in databases {
        let around = walk(server, number, &manner, pace, &mut |sight| {
            match sight {
                Sight::Record(record, _) => {
                    if let Some(samples) = wanted.locate(&record.key).namespace().and_then(|index| all.get_mut(&index))
                        && let Content::String(value) = &record.content
                    {
                        samples.offer(&record.key, value);
                    }
                }
                Sight::Name => {
                    progress.advance(1);
                    enough.set(all.values().all(|samples| samples.seen() >= ENOUGH));
                }
                Sight::Finding(_) | Sight::Bucket(..) | Sight::Expired(_) => {}
            }
            Ok(())
        })?;
        if interrupt.wanted() {
            bail!("interrupted; nothing was changed");
        }
        if !around {
            break;
        }
    }
    Ok(all)
}
