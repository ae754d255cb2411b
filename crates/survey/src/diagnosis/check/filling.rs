//! How full buckets are: too few entries save little, and one too many unpacks the bucket.

use keyfold_core::layout::Namespace;
use keyfold_core::placement::Count;

use super::super::family::Family;
use super::super::fill::Fill;
use super::super::finding::{Finding, Trouble};
use super::super::mend::Mend;
use super::super::{AIM_ENTRIES, FamilyName, Observation};
use super::{namespace_of, other_buckets, place_of};
use crate::number::grouped;

/// Fewer buckets than this tell nothing: a namespace begins empty.
const BUCKETS: u64 = 64;
/// Below this mean a namespace's buckets are sparse.
const SPARSE: f64 = 32.0;
/// The same for hashes that somebody folded by hand, which may be meant as they are.
const SPARSE_BY_HAND: f64 = 16.0;
/// What saves less, in percent, isn't worth a word.
const WORTH_PERCENT: u64 = 10;
/// Over this share of the limit, in percent, one bucket in a hundred will soon be over it.
const NEARLY_FULL_PERCENT: u64 = 80;

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    let is_moving = |name: &FamilyName| namespace_of(name, seen).is_some_and(Namespace::is_moving);
    for (name, family) in seen.families.iter().filter(|(_, family)| family.fill.hashes() >= BUCKETS) {
        // Its buckets fill, or empty.
        if is_moving(name) {
            continue;
        }
        findings.extend(sparse(seen, name, family));
        findings.extend(nearly_full(seen, name, family));
    }
}

fn sparse(seen: &Observation, name: &FamilyName, family: &Family) -> Option<Finding> {
    let namespace = namespace_of(name, seen);
    let is_sparse = match namespace {
        Some(_) => family.fill.mean() < SPARSE,
        None => family.has_integer_fields() && family.fill.mean() < SPARSE_BY_HAND,
    };
    let after = family.bucketed_bytes().filter(|_| is_sparse)?;
    // No slot can have fewer.
    if namespace.and_then(count_of_slot) == Some(1) {
        return None;
    }
    let now = family.bytes();
    let saves = now.saturating_sub(after);
    if saves.saturating_mul(100) < now.saturating_mul(WORTH_PERCENT) {
        return None;
    }
    let fill = &family.fill;
    let what = format!("{} buckets hold {:.1} entries on average", grouped(fill.hashes()), fill.mean());
    // What an application makes itself may be meant as it is: each hash a thing of its own.
    let find = if namespace.is_some() { Finding::problem } else { Finding::note };
    let mut finding = find(Trouble::SparseBuckets, place_of(name, seen), what);
    finding.why.push(distribution(family));
    let mend = match namespace {
        Some(namespace) => {
            other_buckets(seen, "fewer buckets, whatever the holes in the ids", better_count(namespace, fill, 1))
        }
        None => Mend::advice(format!(
            "if they are buckets of entries by id: put about {AIM_ENTRIES} entries in a hash, spread by a hash of the id, or write each \
             entry as a key of its own that keyfold folds"
        )),
    };
    // A slot has few keys, and what they save follows from how many it has: the plan says it.
    if namespace.is_some_and(|namespace| namespace.placement.is_by_slot()) {
        finding.mends.push(mend);
    } else {
        finding.cost_bytes = Some(saves);
        finding.mends.push(mend.saving(now, after));
    }
    if namespace.is_none() {
        finding.mends.push(folded_by_keyfold(seen));
    }
    Some(finding)
}

/// Instead of hashes that somebody fills by hand.
fn folded_by_keyfold(seen: &Observation) -> Mend {
    let url = &seen.names.url;
    Mend::advice("if each hash is a thing of its own, such as a cart or a set kept as a hash: have keyfold fold the hashes whole, as they are")
        .with_line("shell", format!("keyfold plan {url} --out layout.toml"))
        .with_line("shell", format!("keyfold fold {url} --layout layout.toml"))
}

fn nearly_full(seen: &Observation, name: &FamilyName, family: &Family) -> Option<Finding> {
    let namespace = namespace_of(name, seen)?;
    let limit = seen.settings.hash_entries.value;
    let has_end = namespace.placement.span().is_some_and(|span| span <= limit);
    let nearly = family.fill.percentile(99) * 100 >= limit * NEARLY_FULL_PERCENT;
    (nearly && !has_end && family.table_hashes() == 0).then(|| {
        let what = format!(
            "the fullest of {} buckets hold {} entries, and {} make a hashtable",
            grouped(family.fill.hashes()),
            grouped(family.fill.most()),
            grouped(limit + 1)
        );
        let mut finding = Finding::note(Trouble::FullBuckets, place_of(name, seen), what);
        finding.why.push(distribution(family));
        finding.mends.push(more_buckets(seen, namespace, &family.fill));
        finding
    })
}

/// The buckets that a slot has, where they are counted by slot, as for a cluster.
fn count_of_slot(namespace: &Namespace) -> Option<u64> {
    let placement = &namespace.placement;
    placement.as_count().filter(|_| placement.is_by_slot()).map(Count::count)
}

/// More of them than there are.
pub(super) fn more_buckets(seen: &Observation, namespace: &Namespace, fill: &Fill) -> Mend {
    let least = count_of_slot(namespace).map_or(1, |count| count + 1);
    other_buckets(seen, "more buckets", better_count(namespace, fill, least))
}

/// The line of a layout by which buckets have about as many entries as they should; for a cluster it says how many a slot has, so many at
/// least. None where it isn't known how many entries a slot has.
fn better_count(namespace: &Namespace, fill: &Fill, least: u64) -> Option<String> {
    let count = if namespace.placement.is_by_slot() {
        let entries_of_slot = fill.entries().saturating_mul(count_of_slot(namespace)?).div_ceil(fill.hashes().max(1));
        entries_of_slot.div_ceil(AIM_ENTRIES).max(least)
    } else {
        fill.entries().div_ceil(AIM_ENTRIES).max(2)
    };
    Some(format!("bucket = {{ count = {count} }}"))
}

fn distribution(family: &Family) -> String {
    let fill = &family.fill;
    let share = |percent| grouped(fill.percentile(percent));
    format!(
        "entries: {} at least, {} in half of them at most, {} in 99 of 100, {} at most",
        grouped(fill.fewest()),
        share(50),
        share(99),
        grouped(fill.most())
    )
}
