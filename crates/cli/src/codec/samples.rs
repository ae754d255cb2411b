//! Some values of each namespace that are as good as any others: those whose keys have the smallest hashes.
//!
//! So the sample doesn't depend on the order in which the server gives its keys, nor on where a walk began; and as
//! SCAN's order has nothing to do with keys, a walk may end early.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use anyhow::bail;
use keyfold_core::codec::{Owner, Sample};
use keyfold_core::layout::{Layout, Located, NamespaceIndex};
use keyfold_core::template::Template;

use crate::command::interrupt::Interrupt;
use crate::print::progress::Progress;
use crate::records::ask::Wants;
use crate::records::walk::{Manner, Sight, walk};
use crate::records::{Content, digest};
use crate::scan::{self, Database};
use crate::server::Server;
use crate::server::pace::Pace;

/// Values of one namespace that are kept.
const VALUES: usize = 40_000;
/// What they may come to, in bytes.
const BYTES: usize = 16 << 20;
/// Longer values are left out: they are compressed by themselves.
const LONGEST: usize = 64 << 10;
/// A walk ends once it has seen so many values of each namespace.
const ENOUGH: u64 = 400_000;

/// A hash of the key, the key, its value.
type Kept = (u128, Vec<u8>, Vec<u8>);

/// Values of one namespace with their keys.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    kept: BinaryHeap<Kept>,
    kept_bytes: usize,
    /// Values that the walk came by.
    pub(crate) seen: u64,
    /// Their bytes.
    pub(crate) seen_bytes: u64,
}

impl Samples {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.seen += 1;
        self.seen_bytes += value.len() as u64;
        let order = digest::name(key);
        if value.len() > LONGEST || (self.is_full() && self.kept.peek().is_some_and(|(most, ..)| order > *most)) {
            return;
        }
        self.kept_bytes += value.len();
        self.kept.push((order, key.to_vec(), value.to_vec()));
        while self.kept.len() > VALUES || self.kept_bytes > BYTES {
            let Some((.., value)) = self.kept.pop() else { break };
            self.kept_bytes -= value.len();
        }
    }

    fn is_full(&self) -> bool {
        self.kept.len() == VALUES || self.kept_bytes + LONGEST > BYTES
    }

    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Those to learn from, and those to judge by: a quarter, in no order that has to do with keys.
    pub(crate) fn split<'s>(&'s self, template: &'s Template) -> (Vec<Sample<'s>>, Vec<Sample<'s>>) {
        let mut all: Vec<&Kept> = self.kept.iter().collect();
        all.sort_unstable_by_key(|(order, ..)| *order);
        let (mut learn, mut judge) = (Vec::new(), Vec::new());
        for (at, (_, key, value)) in all.into_iter().enumerate() {
            let sample = Sample { owner: Owner::new(template, key), value };
            if at % 4 == 0 { judge.push(sample) } else { learn.push(sample) }
        }
        (learn, judge)
    }
}

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
                    if let Some(samples) = namespace_of(wanted, &record.key).and_then(|index| all.get_mut(&index))
                        && let Content::String(value) = &record.content
                    {
                        samples.add(&record.key, value);
                    }
                }
                Sight::Name => {
                    progress.advance(1);
                    enough.set(all.values().all(|samples| samples.seen >= ENOUGH));
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

fn namespace_of(layout: &Layout, key: &[u8]) -> Option<NamespaceIndex> {
    match layout.locate(key) {
        Located::Placed(place) => Some(place.namespace),
        Located::Moving(moving) => Some(moving.namespace),
        Located::Plain | Located::Reserved => None,
    }
}
