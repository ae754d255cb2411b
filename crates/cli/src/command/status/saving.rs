//! What folded keys take, and what they would take as plain ones: how many there are and what their buckets take by a
//! sample of the server's keys, what the keys and values in them would take by a sample of these, for which no plain value is
//! read, and none of a large set or hash whole.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZero;
use std::ops::ControlFlow;

use keyfold_core::collection::Collection;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::memory::{Model, ValueShape};
use keyfold_core::placement::name::ADMINISTRATION_PREFIX;
use keyfold_server::keyspace::Databases;
use keyfold_server::pace::Pace;
use keyfold_server::{Nodes, memory};
use keyfold_survey::folded::keys_at;
use keyfold_survey::in_parts::smaller_like;
use keyfold_survey::survey::{Folded, Survey};

use crate::records::in_parts::InParts;
use crate::records::inquiry::Wants;
use crate::records::walk::{Home, Manner, Sight, walk_all};
use crate::records::{Content, Record};
use crate::scan::{self, KeyScan};

/// Keys of the server that are looked at.
const SAMPLE: u64 = 20_000;
/// Logical keys whose values are read, of each namespace, in all databases together.
const RECORDS: u64 = 10_000;
/// The same of one database, at the least.
const FEWEST: u64 = 1000;
/// Of sets and hashes in parts that are about as large members of so many are drawn.
const DRAWN: u64 = 16;
/// Keys of the server among which they are looked for.
const NAMES: u64 = 400_000;

/// What folding saves.
#[derive(Debug)]
pub(crate) struct Savings {
    pub(crate) namespaces: Vec<Namespace>,
    /// How many keys there are, as the server counts them.
    pub(crate) keys: u64,
    /// How many of them were looked at.
    pub(crate) seen: u64,
    /// What folded keys take less than as plain ones, with the tables of keys; none where no value of them was met.
    pub(crate) saved_bytes: Option<f64>,
    /// Namespaces of which no value was met, so that it says nothing of them.
    pub(crate) unweighed: Vec<String>,
}

/// The folded keys of one namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) folded: Folded,
    /// What one of them would take as a plain key, with its share of the tables of keys.
    pub(crate) plain_bytes_per_key: Option<f64>,
}

/// What sampled records would take as plain keys, the tables of keys aside.
#[derive(Clone, Copy, Debug, Default)]
struct Plain {
    records: f64,
    expiring: f64,
    /// Those that lie in their buckets, or are spilled.
    small: f64,
    small_bytes: f64,
    /// What those in parts would take, and what they do. A few of them may be most of a namespace, and be met or not: how many bytes
    /// there are in parts is known better than how many keys.
    large_bytes: f64,
    large_stored_bytes: f64,
}

/// Sets and hashes in parts that are about as large.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    /// Members of all of them.
    members: f64,
    asked: u64,
    /// Those of which some were drawn: what they would take, and what they do.
    drawn_members: f64,
    bytes: f64,
    stored_bytes: f64,
}

impl Alike {
    /// Counts one; whether members of it are to be drawn.
    fn meet(&mut self, parts: InParts) -> bool {
        self.members += parts.members as f64;
        self.asked += 1;
        self.asked <= DRAWN
    }

    /// Adds what one takes of which these members are known.
    fn add(&mut self, model: &Model, key: &[u8], parts: InParts, known: &Collection) {
        let (smaller, times) = smaller_like(known, parts.members);
        let key_len = key.len() as u64;
        let Some(stored) = model.parts_cost(key_len, &smaller, parts.members) else { return };
        self.drawn_members += parts.members as f64;
        self.bytes += model.settled_collection_bytes(key_len, &smaller, parts.expires) as f64 * times;
        self.stored_bytes += stored.bytes as f64 * times;
    }
}

/// The folded keys of each namespace that were met, by database: what they hold may differ from one to the other.
type Met = BTreeMap<u32, BTreeMap<NamespaceIndex, u64>>;

impl Savings {
    /// Of what `layout` has folded.
    pub(crate) fn of(
        nodes: &mut Nodes,
        layout: Option<&Layout>,
        max_ops: Option<NonZero<u32>>,
    ) -> anyhow::Result<Self> {
        let model = memory::model_of_all(nodes, &[])?.model;
        let all = Databases { only: Vec::new() };
        let databases = scan::chosen_of_each(nodes.servers(), &all)?;
        let keys = scan::keys_of(databases.iter().flatten());
        let Some(layout) = layout else {
            return Ok(Self { namespaces: Vec::new(), keys, seen: 0, saved_bytes: Some(0.0), unweighed: Vec::new() });
        };
        let mut survey = Survey::new(model.clone()).over(Some(layout.clone()));
        let walk = KeyScan { max_ops, sample: NonZero::new(SAMPLE), sample_every: 0 };
        // A server shows some names twice while its table of keys shrinks, as it does once most keys lie in buckets.
        let (mut met, mut met_in) = (HashSet::new(), Met::new());
        let walked = walk.run(nodes.servers(), &databases, &mut |page| {
            let keys = page.keys.iter().filter(|one| !one.key.starts_with(ADMINISTRATION_PREFIX));
            let new = keys.filter(|one| met.insert((page.database, one.key.clone())));
            new.for_each(|one| {
                if let Some((namespace, keys)) =
                    keys_at(&layout.read_physical(&one.key), one).filter(|(_, keys)| *keys > 0)
                {
                    *met_in.entry(page.database).or_default().entry(namespace).or_default() += keys;
                }
                survey.observe(page.database, one);
            });
            ControlFlow::Continue(())
        });
        if let scan::End::Lost(error) = walked.end {
            return Err(error);
        }
        let seen = survey.seen();
        // A walk over all comes by each key, and by those that came meanwhile.
        let findings = survey.finish(if walked.keys >= keys { seen } else { keys });
        let index_of = |folded: &Folded| {
            layout.iter().find(|(_, namespace)| namespace.keys.to_string() == folded.name).map(|(index, _)| index)
        };
        let plain = weigh_each(nodes, layout, &met_in, &model, max_ops)?;
        let by_name = |folded: Folded| {
            (index_of(&folded).and_then(|index| plain.get(&index)).copied().unwrap_or_default(), folded)
        };
        let weighed: Vec<_> = findings.folded.into_iter().map(by_name).collect();
        Ok(Self::weighed(weighed, &model, (findings.keys, findings.expiring), seen))
    }

    fn weighed(weighed: Vec<(Plain, Folded)>, model: &Model, (keys, expiring): (u64, u64), seen: u64) -> Self {
        let tables_now = model.table_bytes(keys, expiring) as f64;
        let (mut logical, mut logical_expiring) = (keys as f64, expiring as f64);
        for (plain, folded) in weighed.iter().filter(|(plain, _)| plain.is_known()) {
            let share = plain.expiring / plain.records;
            logical += folded.keys.value - folded.physical();
            logical_expiring += folded.keys.value * share - folded.expiring();
        }
        let tables_plain = model.table_bytes(rounded(logical), rounded(logical_expiring)) as f64;
        let of_all = model.table_bytes(rounded(logical), 0) as f64;
        let of_expiring = (tables_plain - of_all) / logical_expiring.max(1.0);
        let table_bytes_per_key =
            |plain: &Plain| of_all / logical.max(1.0) + of_expiring * plain.expiring / plain.records;
        let (mut saved, mut unweighed) = (tables_plain - tables_now, Vec::new());
        let is_weighed = weighed.is_empty() || weighed.iter().any(|(plain, _)| plain.is_known());
        let namespaces = weighed.into_iter().map(|(plain, folded)| {
            let scale = folded.physical() / folded.held.physical.max(1) as f64;
            let content = plain.is_known().then(|| plain.content_bytes(&folded, scale));
            match content {
                Some(content) => saved += content - folded.held.bytes as f64 * scale,
                None if folded.keys.value < 0.5 => {}
                None => unweighed.push(folded.name.clone()),
            }
            let each = content.map(|content| content / folded.keys.value.max(1.0));
            Namespace { plain_bytes_per_key: each.map(|each| each + table_bytes_per_key(&plain)), folded }
        });
        let namespaces = namespaces.collect();
        Self { namespaces, keys, seen, saved_bytes: is_weighed.then_some(saved), unweighed }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys, made not negative")]
fn rounded(keys: f64) -> u64 {
    keys.max(0.0).round() as u64
}

/// Reads some of what is folded in each database, and says what it would take as plain keys, by namespace: as many records count for
/// each database as keys were met there.
fn weigh_each(
    nodes: &mut Nodes,
    layout: &Layout,
    met: &Met,
    model: &Model,
    max_ops: Option<NonZero<u32>>,
) -> anyhow::Result<BTreeMap<NamespaceIndex, Plain>> {
    let mut all: BTreeMap<NamespaceIndex, Plain> = BTreeMap::new();
    let most = (RECORDS / met.len().max(1) as u64).max(FEWEST);
    for (database, keys) in met {
        let wanted: BTreeSet<NamespaceIndex> = keys.keys().copied().collect();
        for (namespace, plain) in weigh(nodes, layout, *database, (&wanted, most), model, max_ops)? {
            let keys = keys.get(&namespace).copied().unwrap_or_default();
            all.entry(namespace).or_default().count_for(&plain, keys as f64);
        }
    }
    Ok(all)
}

/// The same of one database; `wanted` are the namespaces that have keys there, of each of which so much is read.
fn weigh(
    nodes: &mut Nodes,
    layout: &Layout,
    database: u32,
    (wanted, most): (&BTreeSet<NamespaceIndex>, u64),
    model: &Model,
    max_ops: Option<NonZero<u32>>,
) -> anyhow::Result<BTreeMap<NamespaceIndex, Plain>> {
    let plain: RefCell<BTreeMap<NamespaceIndex, Plain>> = RefCell::default();
    let sizes: RefCell<BTreeMap<(NamespaceIndex, u32), Alike>> = RefCell::default();
    let names = Cell::new(0);
    let is_known = |index: &NamespaceIndex| plain.borrow().get(index).is_some_and(|plain| plain.records >= most as f64);
    let manner = Manner {
        layout,
        folded: true,
        wants: Wants::default(),
        draws: Some(&|namespace, parts| {
            plain.borrow_mut().entry(namespace).or_default().count(parts.expires);
            sizes.borrow_mut().entry((namespace, size_of(parts))).or_default().meet(parts)
        }),
        forgetful: true,
        listpack_limits: (None, None),
        reads: &|_, namespace| {
            names.set(names.get() + 1);
            namespace.is_some_and(|index| !is_known(&index))
        },
        stopped: &|| false,
        has_enough: &|| names.get() >= NAMES || wanted.iter().all(is_known),
    };
    let only = Databases { only: vec![database] };
    walk_all(nodes, &only, "sampled", &manner, &mut Pace::new(max_ops), &mut |sight| {
        match sight {
            Sight::Record(record, home) => {
                if let Some(namespace) = namespace_of(home) {
                    plain.borrow_mut().entry(namespace).or_default().add(model, record);
                }
            }
            Sight::Drawn { namespace, key, parts, known } => {
                sizes.borrow_mut().entry((namespace, size_of(parts))).or_default().add(model, key, parts, &known);
            }
            Sight::Finding(_) | Sight::Bucket(..) | Sight::Expired(_) => {}
        }
        Ok(())
    })?;
    let mut plain = plain.into_inner();
    for ((namespace, _), alike) in sizes.into_inner() {
        plain.entry(namespace).or_default().add_alike(&alike);
    }
    Ok(plain)
}

/// By what sets and hashes in parts are alike: by how many members they have.
fn size_of(parts: InParts) -> u32 {
    let members = parts.members.max(1);
    let half = 1_u64 << members.ilog2() >> 1;
    2 * members.ilog2() + u32::from(members & half > 0)
}

fn namespace_of(home: Home) -> Option<NamespaceIndex> {
    match home {
        Home::Plain => None,
        Home::Zipped(namespace) | Home::Bucket(namespace) | Home::Spilled(namespace) | Home::InParts(namespace) => {
            Some(namespace)
        }
    }
}

impl Plain {
    fn add(&mut self, model: &Model, record: &Record) {
        let (key, has_expiry) = (record.key.len() as u64, record.expires_at_ms.is_some());
        let bytes = match &record.content {
            Content::String(value) => model.string_bytes(key, ValueShape::of(value), has_expiry),
            Content::Packed(packed) => match Collection::unpack(&packed.value) {
                Ok(collection) => model.collection_bytes(key, &collection, has_expiry),
                Err(_) => return,
            },
            Content::Other(_) => return,
        };
        self.small += 1.0;
        self.small_bytes += bytes as f64;
        self.count(has_expiry);
    }

    fn count(&mut self, has_expiry: bool) {
        self.records += 1.0;
        self.expiring += f64::from(u8::from(has_expiry));
    }

    /// Adds what those come to that are alike.
    fn add_alike(&mut self, alike: &Alike) {
        if alike.drawn_members > 0.0 {
            let times = alike.members / alike.drawn_members;
            self.large_bytes += alike.bytes * times;
            self.large_stored_bytes += alike.stored_bytes * times;
        }
    }

    /// Adds records that stand for so many keys.
    fn count_for(&mut self, of_some: &Self, keys: f64) {
        if of_some.is_known() {
            let each = keys / of_some.records;
            self.records += keys;
            self.expiring += of_some.expiring * each;
            self.small += of_some.small * each;
            self.small_bytes += of_some.small_bytes * each;
            self.large_bytes += of_some.large_bytes * each;
            self.large_stored_bytes += of_some.large_stored_bytes * each;
        }
    }

    /// What all that is folded would take; `scale` is how many there are for each that was met. What lies in parts is taken to save
    /// nothing where none of it was read.
    fn content_bytes(&self, folded: &Folded, scale: f64) -> f64 {
        let small_keys = (folded.keys.value - folded.held.in_parts as f64 * scale).max(0.0);
        let small = if self.small > 0.0 { self.small_bytes / self.small * small_keys } else { 0.0 };
        let times = if self.large_stored_bytes > 0.0 { self.large_bytes / self.large_stored_bytes } else { 1.0 };
        small + times * folded.held.in_parts_bytes as f64 * scale
    }

    fn is_known(&self) -> bool {
        self.records > 0.0
    }
}
