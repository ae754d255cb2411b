//! A dump of Redis or Valkey, looked at as a live server is: keys go by once, in the order of the file.
//!
//! ```text
//! file ──▶ input: unpacked ──▶ keyfold-rdb ──▶ walk: keys that count ──▶ observer: observations
//!            └── once more where keys are folded: layout    └── once more for codecs: values
//! ```
//! Memory stays bounded whatever the file's size is: nothing is kept but a page of observations, and the values that were
//! asked for. What the server drops when it reads the dump is left out: keys that had expired when it was written.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `input.rs` | the bytes: a file or standard input, and what else a file may be |
//! | `facts.rs` | what is known of the server, and what is guessed |
//! | `walk.rs` | which keys count, and pages of them |
//! | `observer.rs` | from a key to an observation |
//! | `layout.rs` | the layout that the dump's own keys are folded by |
//! | `values.rs` | values, read in one more pass |

mod facts;
mod input;
mod layout;
mod observer;
mod values;
mod walk;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::ControlFlow;

use anyhow::{Context, bail};
use keyfold_core::layout::Layout;
use keyfold_rdb::{DumpError, Key};
use keyfold_report::number::plural;
use keyfold_server::memory::Measured;

use super::place::{ClusterMode, DumpPlace};
use super::seen::{Known, OnSeen, Origin};
use crate::scan::{Databases, Denied, End, KeyScan, Values, Walked};
use input::Opened;
use observer::Observer;
use values::DumpValues;
use walk::{DumpWalk, Meant};

/// A dump that is looked at.
pub(super) struct DumpOrigin {
    place: DumpPlace,
    /// With its first key; none once a walk has begun.
    opened: Option<(Opened, Option<Key>)>,
    meant: Meant,
    /// How many keys of each database are to be seen, where that are not all.
    wanted: Option<BTreeMap<u32, u64>>,
    /// Why it can't be read to its end, where a walk that sees a sample won't come there.
    broken: Option<anyhow::Error>,
    known: Known,
}

impl DumpOrigin {
    pub(super) fn open(
        place: &DumpPlace,
        databases: &Databases,
        scan: &KeyScan,
        assumed: &[(String, u64)],
        cluster: ClusterMode,
    ) -> anyhow::Result<Self> {
        let mut opened = input::open(place)?;
        // Whether the server evicts by use is said of the first key.
        let first = opened.dump.next_key().with_context(|| format!("can't read {place}"))?;
        let head = opened.dump.head();
        let written_at_ms = head.written_at.map(|seconds| seconds.saturating_mul(1000));
        let meant = Meant { databases: databases.clone(), written_at_ms };
        let mut known = facts::known(place, head, opened.file_bytes, assumed, cluster);
        let (mut wanted, mut broken) = (None, None);
        if let Some(sample) = scan.sample {
            let count = walk::count(place, &meant)?;
            known.total = count.keys.values().sum();
            (wanted, broken) = (Some(shares(sample.get(), count.keys)), count.broken);
        }
        Ok(Self { place: place.clone(), opened: Some((opened, first)), meant, wanted, broken, known })
    }
}

/// What can't be read may be newer than this keyfold.
fn explain(error: anyhow::Error, known: &Known) -> anyhow::Error {
    let format = known.dump.map_or(0, |dump| dump.format);
    match error.downcast_ref() {
        Some(DumpError::UnknownType { .. }) => error.context(format!(
            "{} wrote the dump, in format {format}; known are the formats of Redis to 12 and of Valkey to 80",
            known.server
        )),
        _ => error,
    }
}

/// As large a part of each database, `sample` keys in all.
fn shares(sample: u64, counts: BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let total: u64 = counts.values().sum();
    let share = |keys: u64| {
        let share = u128::from(sample) * u128::from(keys) / u128::from(total.max(1));
        u64::try_from(share).unwrap_or(u64::MAX).max(1)
    };
    counts.into_iter().map(|(number, keys)| (number, share(keys).min(keys))).collect()
}

impl Origin for DumpOrigin {
    fn known(&self) -> &Known {
        &self.known
    }

    fn stored(&mut self) -> anyhow::Result<Option<Layout>> {
        Ok(None)
    }

    fn walk(&mut self, scan: &KeyScan, on_seen: OnSeen<'_>) -> Walked {
        let facts = &self.known.facts;
        let observer = Observer::new(facts.server, &facts.model, scan.sample_every);
        let denied = Denied::default();
        let Some(opened) = self.opened.take() else {
            return Walked { end: End::Complete, keys: 0, commands: 0, denied };
        };
        let mut walk = DumpWalk::new(&self.place, &self.meant, opened, observer, self.wanted.clone());
        let end = match walk.run(on_seen) {
            Ok(ControlFlow::Continue(())) => match self.broken.take() {
                Some(error) => End::Lost(explain(error, &self.known)),
                None => End::Complete,
            },
            Ok(ControlFlow::Break(())) => End::Stopped,
            Err(error) => End::Lost(explain(error, &self.known)),
        };
        let keys = walk.seen.values().sum();
        let (told, expired, mut notes) = (walk.told(), walk.expired, std::mem::take(&mut walk.notes));
        self.known.databases = walk.seen.len();
        if self.wanted.is_none() {
            self.known.total = if matches!(end, End::Complete) { keys } else { told.saturating_sub(expired).max(keys) };
        }
        if expired > 0 {
            let left_out = if expired == 1 { "it is left out" } else { "they are left out" };
            notes.push(format!("{} had expired when the dump was written: {left_out}", plural(expired, "key")));
        }
        if let Some(dump) = &mut self.known.dump {
            dump.expired = expired;
        }
        self.known.notes.append(&mut notes);
        Walked { end, keys, commands: 0, denied }
    }

    fn measured(&mut self, _walked: &Walked) -> Vec<Measured> {
        Vec::new()
    }

    fn values(&self, _max_ops: Option<NonZero<u32>>) -> anyhow::Result<Box<dyn Values>> {
        if !self.place.can_be_read_again() {
            bail!("values are not read, and codecs not weighed: {} goes by once; name a file for that", self.place);
        }
        Ok(Box::new(DumpValues::new(self.place.clone(), self.meant.clone())))
    }
}
