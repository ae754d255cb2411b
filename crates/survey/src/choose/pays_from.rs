//! For a cluster: from how many keys on it pays to fold a family whose slots have one bucket each.
//!
//! There can't be fewer buckets than slots, so few keys fill them too little. What a bucket of so many entries takes is
//! found from the sampled keys; how many entries buckets have, where there are more keys, is chance.

use keyfold_core::memory::{BucketCost, Keyspace, Model, SlotFill, ValueShape};
use keyfold_core::placement::Field;
use keyfold_core::placement::name::{Name, Stem};

use super::Aims;
use super::candidates::Search;
use super::merged::SLOTS;
use super::weigh::{Footprint, Rule, Scales};

/// Entries to a bucket up to which it is tried: where so many don't pay, more hardly do.
const MOST_MEAN: u64 = 64;
/// Buckets of a size that are costed, each of other keys.
const TRIED: usize = 8;
/// Sampled keys that buckets are made of.
const SAMPLED: usize = 4096;

/// What there is instead of buckets, for all keys there are.
pub(super) struct Otherwise<'f> {
    /// As plain keys.
    pub(super) now: &'f Footprint,
    /// As keys with short names, if these save enough to be taken.
    pub(super) zipped: Option<&'f Footprint>,
}

/// The number of keys, of two digits, from which on buckets of this rule save what they have to; none where there is no
/// such number of use to anybody.
pub(super) fn pays_from(search: &Search<'_, '_>, aims: &Aims, rule: &Rule, otherwise: &Otherwise<'_>) -> Option<u64> {
    let buckets = Buckets::of(search.scales, search.model, rule)?;
    let pays = |keys: u64| buckets.pays(keys, search.scales.population.keys, aims, otherwise);
    let (mut fails, mut holds) = (search.scales.population.keys, search.scales.population.keys.saturating_mul(2));
    while !pays(holds) {
        (fails, holds) = (holds, holds.saturating_mul(2));
        if holds > 2 * MOST_MEAN * SLOTS {
            return None;
        }
    }
    while holds - fails > holds / 50 {
        let middle = fails.midpoint(holds);
        if pays(middle) { holds = middle } else { fails = middle }
    }
    let unit = 10_u64.pow(holds.max(1).ilog10().saturating_sub(1));
    Some(holds.div_ceil(unit) * unit)
}

/// Buckets of a family by their number of entries.
struct Buckets<'m> {
    model: &'m Model,
    /// The mean of what a bucket of so many entries takes.
    bytes: Vec<f64>,
}

impl<'m> Buckets<'m> {
    /// None where not all keys go into buckets, and all of their values.
    fn of(scales: &Scales<'_, '_>, model: &'m Model, rule: &Rule) -> Option<Self> {
        let members = &scales.members[..scales.members.len().min(SAMPLED)];
        let mut name_bytes = 0;
        let mut entries = Vec::with_capacity(members.len());
        for member in members {
            let (mut name, mut field) = (Name::new(), Field::new());
            let origin = rule.placement.origin(Stem::ANY, member.key);
            let placed = rule.placement.locate(origin, &member.parts, &mut name, &mut field);
            if !placed || field.len() as u64 > rule.field_limit || member.stored.len() > rule.value_limit {
                return None;
            }
            name_bytes = name.len() as u64;
            entries.push((ValueShape::of(&field), member.stored));
        }
        let most = usize::try_from(MOST_MEAN * 3).unwrap_or(usize::MAX);
        let mut bytes = vec![0.0; most + 1];
        for tried in 0..TRIED {
            let mut cost = BucketCost::default();
            let from = tried * entries.len() / TRIED;
            for (sum, (field, stored)) in bytes[1..].iter_mut().zip(entries.iter().cycle().skip(from)) {
                cost.add(model, *field, *stored);
                *sum += model.hash_bytes(name_bytes, &cost, false) as f64 / TRIED as f64;
            }
        }
        (!entries.is_empty()).then_some(Self { model, bytes })
    }

    fn pays(&self, keys: u64, of: u64, aims: &Aims, otherwise: &Otherwise<'_>) -> bool {
        let now = grown(otherwise.now, keys as f64 / of.max(1) as f64).total_bytes(self.model) as f64;
        let zipped = otherwise.zipped.map(|zipped| grown(zipped, keys as f64 / of.max(1) as f64));
        let most = zipped.map_or(f64::INFINITY, |zipped| zipped.total_bytes(self.model) as f64);
        (self.bytes_with(keys) as f64) <= (now * (1.0 - aims.min_saving)).min(most)
    }

    /// What so many keys take in buckets, chance having their slots.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "shares of some thousand slots, and bytes"
    )]
    fn bytes_with(&self, keys: u64) -> u64 {
        let fill = SlotFill::by_chance(keys as f64);
        let slots = SLOTS as f64;
        let of = |entries: u64| usize::try_from(entries).ok().and_then(|at| self.bytes.get(at)).or(self.bytes.last());
        let content_bytes = slots * fill.mean_of(|entries| of(entries).copied().unwrap_or_default());
        let used = (slots * (1.0 - fill.empty_share())).round() as u64;
        let mut keyspace = Keyspace::new(self.model);
        let buckets = SlotFill::of_slots((0..SLOTS).map(|slot| u64::from(slot < used)));
        keyspace.add_filling(&buckets, &SlotFill::default(), content_bytes as u64);
        keyspace.total_bytes()
    }
}

/// So many times as many of such keys, chance having their slots.
fn grown(footprint: &Footprint, times: f64) -> Footprint {
    Footprint { slots: None, ..footprint.clone() }.scaled(times)
}
