//! For a cluster: small families that share buckets.
//!
//! Each slot has one bucket at the least, so a family of fewer keys than some hundred thousand has few entries in each, and
//! saves little or nothing alone. Several such families as one namespace fill the same buckets. Which of them go together
//! is tried from all of them down: a family leaves where all take less without it, it being placed as it would be alone.
//!
//! Where the samples have all keys of the slots that were seen, they show how many keys of how many families meet in a slot.
//! Where one has less, all are made as thin as the thinnest, and slots go together so that each has as many keys as in the
//! cluster ([`merged`](super::merged)): keys without a hash tag meet by chance. Families with one then stay alone, because
//! a part of their keys doesn't show how many have the same tag.

use keyfold_core::placement::shared::MOST_TEMPLATES;
use keyfold_core::placement::{Count, Field, Placement, name};
use keyfold_core::slot::{Slot, tag_of};
use keyfold_core::template::{Part, Template};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::candidates::{self, Search, Way};
use super::fill::LEAST_ENTRIES;
use super::limits::{self, LengthLimits};
use super::members::{Member, members};
use super::read_time::ReadTimes;
use super::weigh::{Footprint, Scales};
use super::{Aims, Choice, LEAST_KEYS, LIMITS_AT_ENTRIES, Rule, Setting, Verdict, judge, report, saving};
use crate::population::{Blocks, Population};

/// One slot has no more keys of a family than this, or the family is none that chance spreads.
const MOST_IN_A_SLOT: usize = 64;
/// Sharing has to save so much of what the families would take alone: predictions are off by up to 2 %.
const LEAST_GAIN: f64 = 0.05;
/// Where a sample has so much of what was seen, it has all.
const NEARLY_ALL: f64 = 0.999;
/// Fewer keys of a part show by too little how full slots are.
const LEAST_SAMPLED: usize = 10_000;

/// A family with what was chosen for it alone.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'p> {
    /// Its keys.
    pub population: &'p Population<'p>,
    /// What was chosen for it alone.
    pub alone: &'p Choice,
}

/// Families that share buckets, and what it brings.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Which of the candidates, in the order of their templates.
    pub families: Vec<usize>,
    /// For each of them what it takes in the shared buckets. [`Choice::after`] of the first is that of all of them, because
    /// the buckets are, and the others' is nothing.
    pub choices: Vec<Choice>,
}

/// The candidates that are better off in shared buckets; none where fewer than two are.
pub fn share(candidates: &[Candidate<'_>], aims: &Aims) -> Option<Sharing> {
    if !aims.by_slot {
        return None;
    }
    let seen = candidates.iter().find(|one| is_small(one)).map(|one| one.population.slots_seen)?;
    let is_known =
        |one: &Population<'_>| is_whole(one) || one.sample.iter().all(|sampled| tag_of(&sampled.key).is_none());
    let fits = |one: &Candidate<'_>| {
        let population = one.population;
        is_small(one)
            && population.collection.is_none()
            && population.slots_seen == seen
            && is_spread(population)
            && is_known(population)
    };
    let mut families: Vec<usize> = (0..candidates.len()).filter(|index| fits(&candidates[*index])).collect();
    families.sort_by_key(|index| candidates[*index].population.keys);
    families.truncate(MOST_TEMPLATES);
    let of_all = Group::new(candidates, &families, aims)?;
    let lengths = of_all.lengths(aims);
    let mut best = of_all.weighed(lengths, aims);
    // The largest first: it needs the others the least.
    for leaving in families.iter().rev() {
        let fewer: Vec<usize> = best.families.iter().copied().filter(|index| index != leaving).collect();
        let Some(group) = Group::new(candidates, &fewer, aims) else { break };
        let without = group.weighed(lengths, aims);
        if without.score(candidates) < best.score(candidates) {
            best = without;
        }
    }
    let alone: u64 = best.families.iter().map(|index| candidates[*index].alone.bytes_after).sum();
    let together = best.way.weighed.footprint.total_bytes(&best.base);
    let now: u64 = best.families.iter().map(|index| candidates[*index].alone.bytes_now).sum();
    let is_worth_it = best.way.fits_today()
        && saving(now, together) >= aims.min_saving
        && saving(alone, together) >= LEAST_GAIN
        && best.score(candidates) < judged(candidates, &(0..candidates.len()).collect::<Vec<_>>(), None);
    let group = Group::new(candidates, &best.families, aims).filter(|_| is_worth_it)?;
    Some(group.sharing(candidates, best, lengths, aims, (now, alone, together)))
}

/// Whether a family would have few entries in each slot, and nothing but its keys' places is chosen for it.
fn is_small(Candidate { population, alone }: &Candidate<'_>) -> bool {
    let is_few = match &alone.verdict {
        Verdict::Fold => {
            let few = alone.fill.as_ref().is_some_and(|fill| fill.mean() < LEAST_ENTRIES as f64);
            few && judge::has_fewest_buckets(&alone.rule)
        }
        Verdict::Zip | Verdict::Leave(_) => population.keys < LEAST_ENTRIES * super::merged::SLOTS,
    };
    is_few && alone.codec.is_none() && population.keys >= LEAST_KEYS
}

/// Whether the sample has all keys of the slots that were seen.
fn is_whole(population: &Population<'_>) -> bool {
    share_of(population) >= population.slots_seen * NEARLY_ALL
}

/// The share of the keys that the sample has.
fn share_of(population: &Population<'_>) -> f64 {
    population.sample.len() as f64 / population.keys.max(1) as f64
}

/// Whether no slot has far more keys of a family than others, as where they share a hash tag.
fn is_spread(population: &Population<'_>) -> bool {
    let mut slots = vec![0_usize; usize::try_from(super::merged::SLOTS).unwrap_or(0)];
    population.sample.iter().for_each(|sampled| slots[usize::from(Slot::of(&sampled.key).number())] += 1);
    slots.into_iter().all(|keys| keys <= MOST_IN_A_SLOT)
}

/// Some of the candidates as one namespace.
struct Group<'p> {
    families: Vec<usize>,
    population: Population<'p>,
    members: Vec<Member<'p>>,
    placement: Placement,
    times: ReadTimes,
    /// How many keys the largest of its families has, and how many of them expire.
    largest: (u64, u64),
}

/// What came of weighing it.
struct Weighed {
    families: Vec<usize>,
    base: keyfold_core::memory::Model,
    way: Way,
}

impl<'p> Group<'p> {
    /// None where there are fewer than two.
    fn new(candidates: &[Candidate<'p>], families: &[usize], aims: &Aims) -> Option<Self> {
        let of = |index: &usize| candidates[*index].population;
        let first = families.first().filter(|_| families.len() > 1).map(of)?;
        let templates: Vec<Template> = families.iter().map(|index| of(index).template.clone()).collect();
        let keys = families.iter().map(|index| of(index).keys).sum();
        let count = candidates::count_of(keys, LIMITS_AT_ENTRIES, true);
        let placement = Placement::from(Count::of_all(&templates, i64::try_from(count).ok()?).ok()?).by_slot(true);
        let are_whole = families.iter().map(of).all(is_whole);
        let thinnest = families.iter().map(|index| share_of(of(index))).fold(1.0, f64::min);
        let numbered = families.iter().zip(0..).flat_map(|(index, number)| {
            let taken = if are_whole { 1.0 } else { thinnest / share_of(of(index)) };
            members(of(index), None).into_iter().filter(move |member| takes(member, taken)).map(move |mut member| {
                member.parts.insert(0, Part::Int(number));
                member
            })
        });
        let numbered: Vec<Member<'_>> = numbered.collect();
        if !are_whole && numbered.len() < LEAST_SAMPLED {
            return None;
        }
        let population = Population { keys, sample: &[], blocks: Blocks::Keys, kept: 1.0, within: 1.0, ..*first };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys")]
        let expiring = |one: &Population<'_>| {
            let sampled = one.sample.iter().filter(|sampled| sampled.has_expiry).count();
            (sampled as f64 * one.weight()).round() as u64
        };
        let largest = families.iter().map(of).max_by_key(|one| one.keys).map(|one| (one.keys, expiring(one)));
        Some(Self {
            families: families.to_vec(),
            population,
            members: numbered,
            placement,
            times: ReadTimes::of(aims.server),
            largest: largest.unwrap_or_default(),
        })
    }

    fn scales(&self) -> Scales<'_, 'p> {
        Scales { population: &self.population, members: &self.members, times: &self.times, coding: None }
    }

    /// The server beside all keys but those of the largest family: what the families take alone is what each adds to
    /// the tables of slots that others have already, and what they take together is to be comparable to that.
    fn base(&self, aims: &Aims) -> keyfold_core::memory::Model {
        let (keys, expiring) = aims.all_keys;
        let others = (keys.saturating_sub(self.largest.0), expiring.saturating_sub(self.largest.1));
        aims.model.clone().beside(others.0, others.1).with_limits(aims.limits)
    }

    fn lengths(&self, aims: &Aims) -> LengthLimits {
        let (base, scales) = (self.base(aims), self.scales());
        let now = scales.weigh_plain(&base).0.smooth_bytes();
        limits::choose(&scales, &base, aims, &self.placement, now)
    }

    fn weighed(&self, lengths: LengthLimits, aims: &Aims) -> Weighed {
        let base = self.base(aims);
        let rule = lengths.rule(self.placement.clone());
        let weighed = self.scales().weigh(&limits::sufficient(&base, aims.limits, lengths), &rule);
        let growth = aims.growth.clamp(1.0, judge::MOST_GROWTH);
        let fit = judge::check(&rule, &weighed.fill, growth, false, false);
        Weighed { families: self.families.clone(), base, way: Way { rule, weighed, fit } }
    }

    fn sharing(
        &self,
        candidates: &[Candidate<'_>],
        best: Weighed,
        lengths: LengthLimits,
        aims: &Aims,
        (now, alone, together): (u64, u64, u64),
    ) -> Sharing {
        let Weighed { families, base, way } = best;
        let scales = self.scales();
        let model = limits::sufficient(&base, aims.limits, lengths);
        let growth = aims.growth.clamp(1.0, judge::MOST_GROWTH);
        let search = Search {
            scales: &scales,
            quick: &scales,
            model: &model,
            limits: lengths,
            growth,
            table: None,
            by_slot: true,
            are_large: false,
        };
        let relies_on = report::settings(aims, &search, &way);
        let percent = |bytes: u64| saving(now, bytes) * 100.0;
        let mut notes = vec![format!(
            "{} families share buckets, {:.0} keys to a bucket together; each alone they would save {:.0} %, together {:.0} %",
            families.len(),
            way.weighed.fill.mean(),
            percent(alone),
            percent(together),
        )];
        notes.extend(report::notes(&way, growth));
        let parts = self.parts_of(&way.rule, together);
        let choices = families.iter().zip(parts).enumerate().map(|(at, (index, bytes))| {
            let after = if at == 0 { way.weighed.footprint.clone() } else { Footprint::default() };
            of_one(candidates[*index], &way, (after, bytes), &relies_on, &notes)
        });
        Sharing { choices: choices.collect(), families }
    }

    /// What each family takes of all the bytes: its fields and values, and for each key the same part of the rest.
    fn parts_of(&self, rule: &Rule, together: u64) -> Vec<u64> {
        let mut own = vec![(0.0, 0.0); self.families.len()];
        for member in &self.members {
            let Some(Part::Int(number)) = member.parts.first() else { continue };
            let (mut name, mut field) = (name::Name::new(), Field::new());
            let origin = rule.placement.origin(name::Stem::ANY, member.key);
            rule.placement.locate(origin, &member.parts, &mut name, &mut field);
            if let Some((keys, bytes)) = usize::try_from(*number).ok().and_then(|number| own.get_mut(number)) {
                *keys += 1.0;
                *bytes += (field.len() as u64 + member.stored.len()) as f64;
            }
        }
        let seen: f64 = own.iter().map(|(keys, _)| keys).sum::<f64>().max(1.0);
        let bytes: f64 = own.iter().map(|(_, bytes)| bytes).sum();
        let times = self.population.keys as f64 / seen;
        let rest = (together as f64 - bytes * times) / seen;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bytes")]
        let part = |(keys, bytes): (f64, f64)| (bytes * times + keys * rest).round().max(0.0) as u64;
        own.into_iter().map(part).collect()
    }
}

/// Whether a key is of this share of them. Independent of what keys are sampled by, and of how slots go together.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a whole number")]
fn takes(member: &Member<'_>, share: f64) -> bool {
    share >= 1.0 || xxh3_64_with_seed(member.key, 5) < (share * u64::MAX as f64) as u64
}

impl Weighed {
    /// The score of all candidates, where these share buckets: the lower the better.
    fn score(&self, candidates: &[Candidate<'_>]) -> f64 {
        let others: Vec<usize> = (0..candidates.len()).filter(|index| !self.families.contains(index)).collect();
        let keys: u64 = self.families.iter().map(|index| candidates[*index].population.keys).sum();
        let own = (self.way.weighed.footprint.smooth_bytes(), self.way.weighed.read_us, keys as f64);
        judged(candidates, &others, Some(own))
    }
}

/// The score of these candidates each alone, and of a group beside them: its bytes, the time of a read, and its keys.
fn judged(candidates: &[Candidate<'_>], alone: &[usize], group: Option<(f64, f64, f64)>) -> f64 {
    let each = alone.iter().map(|index| {
        let Candidate { population, alone } = candidates[*index];
        (alone.after.smooth_bytes(), alone.read_us_after, population.keys as f64)
    });
    let (bytes, us, keys) = each.chain(group).fold((0.0, 0.0, 0.0), |sum, (bytes, us, keys): (f64, f64, f64)| {
        (sum.0 + bytes, sum.1 + us * keys, sum.2 + keys)
    });
    judge::score(bytes, us / keys.max(1.0))
}

/// What becomes of one of the families.
fn of_one(
    Candidate { population, alone }: Candidate<'_>,
    way: &Way,
    (after, bytes): (Footprint, u64),
    settings: &[Setting],
    notes: &[String],
) -> Choice {
    let mut choice = Choice {
        verdict: Verdict::Fold,
        rule: way.rule.clone(),
        fill: Some(way.weighed.fill.clone()),
        chosen: None,
        alternatives: Vec::new(),
        after,
        bytes_after: bytes,
        read_us_after: way.weighed.read_us,
        relies_on: settings.to_vec(),
        pays_from_keys: None,
        notes: notes.to_vec(),
        ..alone.clone()
    };
    choice.alternatives.push(report::plain(&choice));
    if !matches!(alone.verdict, Verdict::Leave(_)) {
        choice.alternatives.push(report::alone(&choice, alone, population.template));
    }
    choice
}

#[cfg(test)]
mod tests;
