//! The walk over a dump: every key once, in the order of the file, in pages as a server's are.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{anyhow, bail};
use keyfold_core::layout::Layout;
use keyfold_rdb::Key;
use keyfold_survey::observation::{Observation, Sampled};

use super::input::{self, AnyDump, Opened};
use super::layout;
use super::observer::Observer;
use crate::origin::place::DumpPlace;
use crate::origin::seen::{OnSeen, Seen};
use crate::scan::{Databases, Page};

/// Keys of one page, and the bytes of what is kept of them.
const PAGE_KEYS: usize = 1000;
const PAGE_BYTES: usize = 1 << 20;

/// Which keys of a dump count.
#[derive(Clone)]
pub(super) struct Meant {
    pub(super) databases: Databases,
    /// What had expired by then is gone: when the dump was written.
    pub(super) written_at_ms: Option<i64>,
}

impl Meant {
    /// Whether this key counts.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.databases.contains(key.database) && !self.is_expired(key)
    }

    fn is_expired(&self, key: &Key) -> bool {
        key.expires_at_ms.zip(self.written_at_ms).is_some_and(|(expires_at, written_at)| expires_at <= written_at)
    }
}

/// A walk under way.
pub(super) struct DumpWalk<'w> {
    place: &'w DumpPlace,
    meant: &'w Meant,
    dump: AnyDump,
    /// The first key, where it was read already.
    first: Option<Key>,
    read_bytes: Arc<AtomicU64>,
    /// What of these has been said.
    said_bytes: u64,
    observer: Observer,
    /// How many keys of each database are to be seen, where that are not all.
    wanted: Option<BTreeMap<u32, u64>>,
    /// Whether the layout was looked for.
    knows_layout: bool,
    page: Vec<Observation>,
    page_bytes: usize,
    page_database: u32,
    /// How many keys of each database were seen.
    pub(super) seen: BTreeMap<u32, u64>,
    pub(super) expired: u64,
    pub(super) notes: Vec<String>,
}

impl<'w> DumpWalk<'w> {
    pub(super) fn new(
        place: &'w DumpPlace,
        meant: &'w Meant,
        (opened, first): (Opened, Option<Key>),
        observer: Observer,
        wanted: Option<BTreeMap<u32, u64>>,
    ) -> Self {
        let Opened { dump, read_bytes, .. } = opened;
        Self {
            place,
            meant,
            dump,
            first,
            read_bytes,
            said_bytes: 0,
            observer,
            wanted,
            knows_layout: false,
            page: Vec::new(),
            page_bytes: 0,
            page_database: 0,
            seen: BTreeMap::new(),
            expired: 0,
            notes: Vec::new(),
        }
    }

    /// How many keys the dump has told of, in the databases that are meant.
    pub(super) fn told(&self) -> u64 {
        let meant = self.dump.head().databases.iter().filter(|(number, _)| self.meant.databases.contains(*number));
        meant.map(|(_, keys)| keys).sum()
    }

    /// Up to the end of the dump, or until `on_seen` breaks.
    pub(super) fn run(&mut self, on_seen: OnSeen<'_>) -> anyhow::Result<ControlFlow<()>> {
        let result = self.keys(on_seen);
        // What was read before it went wrong counts.
        if !matches!(result, Ok(ControlFlow::Break(()))) && self.flush(on_seen).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        result
    }

    fn keys(&mut self, on_seen: OnSeen<'_>) -> anyhow::Result<ControlFlow<()>> {
        loop {
            let next = if self.first.is_some() { self.first.take() } else { self.dump.next_key()? };
            let Some(key) = next else { return Ok(ControlFlow::Continue(())) };
            if !self.meant.has(&key) {
                self.expired += u64::from(self.meant.is_expired(&key));
                continue;
            }
            if !self.knows_layout
                && layout::is_folded(&key.key)
                && let Some(layout) = self.look_for_layout()?
            {
                self.begin_again()?;
                if on_seen(Seen::Again(Box::new(layout))).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            }
            match self.is_wanted(key.database) {
                Wanted::Yes => {}
                Wanted::NoMore => return Ok(ControlFlow::Continue(())),
                Wanted::No => continue,
            }
            if self.take(key, on_seen)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    fn take(&mut self, key: Key, on_seen: OnSeen<'_>) -> anyhow::Result<ControlFlow<()>> {
        let database = key.database;
        let is_full = self.page.len() >= PAGE_KEYS || self.page_bytes >= PAGE_BYTES;
        if (is_full || database != self.page_database) && self.flush(on_seen).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.page_database = database;
        if let Some(observation) = self.observer.observe(&mut self.dump, key)? {
            self.page_bytes += kept_bytes(&observation);
            self.page.push(observation);
            *self.seen.entry(database).or_default() += 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Hands on what was gathered.
    fn flush(&mut self, on_seen: OnSeen<'_>) -> ControlFlow<()> {
        let now = self.read_bytes.load(Ordering::Relaxed);
        let more = usize::try_from(now - self.said_bytes).unwrap_or(0);
        self.said_bytes = now;
        let keys = std::mem::replace(&mut self.page, Vec::with_capacity(PAGE_KEYS));
        self.page_bytes = 0;
        on_seen(Seen::Page(Page { database: self.page_database, keys }, more))
    }

    /// The layout may lie anywhere, also behind the keys that it has folded.
    fn look_for_layout(&mut self) -> anyhow::Result<Option<Layout>> {
        self.knows_layout = true;
        if !self.place.can_be_read_again() {
            bail!(
                "keys of it were folded by keyfold, and their layout may lie behind them: {} goes by once, so save the dump \
                 to a file, and name that",
                self.place
            );
        }
        let why = match layout::find(self.place)? {
            Ok(Some(layout)) => return Ok(Some(layout)),
            Ok(None) => "some keys look like keyfold's own, but there is no layout in the dump".to_owned(),
            Err(why) => format!("the layout in the dump can't be used, and folded keys are as they lie: {why}"),
        };
        self.notes.push(why);
        Ok(None)
    }

    fn begin_again(&mut self) -> anyhow::Result<()> {
        let Opened { dump, read_bytes, .. } = input::open(self.place)?;
        (self.dump, self.read_bytes, self.said_bytes) = (dump, read_bytes, 0);
        self.page.clear();
        (self.page_bytes, self.expired) = (0, 0);
        self.seen.clear();
        Ok(())
    }

    /// Whether one more key of this database is to be seen.
    fn is_wanted(&self, database: u32) -> Wanted {
        let Some(wanted) = &self.wanted else { return Wanted::Yes };
        let seen = |database: &u32| self.seen.get(database).copied().unwrap_or(0);
        if wanted.get(&database).is_some_and(|most| seen(&database) < *most) {
            Wanted::Yes
        } else if wanted.iter().all(|(database, most)| seen(database) >= *most) {
            Wanted::NoMore
        } else {
            Wanted::No
        }
    }
}

enum Wanted {
    Yes,
    No,
    /// Nor is any other.
    NoMore,
}

/// How many keys there are to draw a sample from.
pub(super) struct Count {
    /// Those of each database that count.
    pub(super) keys: BTreeMap<u32, u64>,
    /// Why the dump can't be read on behind them.
    pub(super) broken: Option<anyhow::Error>,
}

/// A pass that reads no values.
pub(super) fn count(place: &DumpPlace, meant: &Meant) -> anyhow::Result<Count> {
    if !place.can_be_read_again() {
        return Err(anyhow!(
            "--sample has to know how many keys there are, and {place} goes by once: save it to a file"
        ));
    }
    let (mut dump, mut keys) = (input::open(place)?.dump, BTreeMap::new());
    let broken = loop {
        match dump.next_key() {
            Ok(Some(key)) if meant.has(&key) => *keys.entry(key.database).or_default() += 1,
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error.into()),
        }
    };
    Ok(Count { keys, broken })
}

fn kept_bytes(observation: &Observation) -> usize {
    let sample = match &observation.sample {
        None => 0,
        Some(Sampled::Value(value)) => value.len(),
        Some(Sampled::Fields(fields)) => fields.iter().map(|(field, value)| field.len() + value.len() + 32).sum(),
        Some(Sampled::Members(members)) => members.iter().map(|member| member.len() + 16).sum(),
    };
    observation.key.len() + sample
}
