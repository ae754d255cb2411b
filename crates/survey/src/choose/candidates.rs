//! The ways of folding a family that are worth weighing, and the best of each kind.
//!
//! Sizes are searched, not computed: bytes as a function of entries have steps where a bucket passes one of the
//! allocator's size classes, so that 126 to a bucket can take a sixth less than 128 do.

use std::cmp::Ordering;
use std::slice;

use keyfold_core::memory::Model;
use keyfold_core::placement::{Placement, TextTable};
use keyfold_core::template::Template;

use super::folding::Folding;
use super::judge::{self, MOST_ENTRIES, Unfit};
use super::limits::LengthLimits;
use super::merged::SLOTS;
use super::weigh::{Rule, Scales, Weighed};

/// Entries to a bucket that a *count* is tried with: under the first, chance leaves some buckets too few; over the
/// last, growth or time forbid it.
const COUNT_MEANS: [u64; 14] = [50, 54, 60, 66, 72, 80, 88, 96, 104, 112, 128, 160, 192, 256];
/// Spans are tried at these distances first, and then one by one beside the best.
const SPAN_STEP: u64 = 8;
/// Shorter spans would be too empty as soon as some keys are deleted.
const LEAST_SPAN: u64 = 48;
/// Counts are tried so many steps to either side of the best: a mean bucket just under a size class takes less.
const COUNT_STEPS: u64 = 2;
/// Spans and counts are tried one by one beside so many of the best.
const PEAKS: usize = 2;
/// So many of the best are weighed again, with all keys of the sample.
const CLOSE_LOOKS: usize = 6;

/// A way of folding with what came of it.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) rule: Rule,
    pub(super) weighed: Weighed,
    /// Whether it can be taken.
    pub(super) fit: Result<(), Unfit>,
}

impl Way {
    /// The lower the better.
    pub(super) fn rank(&self) -> f64 {
        judge::rank(&self.rule, &self.weighed)
    }

    /// Whether it can be taken today, if not with room for all growth that is asked for.
    pub(super) fn fits_today(&self) -> bool {
        matches!(self.fit, Ok(()) | Err(Unfit::Overfull { grown: true, .. }))
    }

    /// What can be taken first, the best of it first; then what can be taken today, what has the most room first;
    /// then by how near it comes.
    fn order(&self) -> (u8, f64) {
        match self.fit {
            Ok(()) => (0, self.rank()),
            Err(Unfit::Overfull { entries, grown: true }) => (1, entries as f64),
            Err(_) => (2, 1.0 - self.weighed.fill.share_within(MOST_ENTRIES)),
        }
    }
}

/// Weighs ways of one family on one server.
pub(super) struct Search<'a, 'p> {
    /// With all keys of the sample.
    pub(super) scales: &'a Scales<'a, 'p>,
    /// With fewer of them, to look around with.
    pub(super) quick: &'a Scales<'a, 'p>,
    pub(super) model: &'a Model,
    pub(super) limits: LengthLimits,
    pub(super) growth: f64,
    /// What packs the texts in fields, where keys leave any.
    pub(super) table: Option<&'a TextTable>,
    /// Whether each slot of a cluster has buckets of its own.
    pub(super) by_slot: bool,
    /// Most of what the keys take lies in parts: buckets may have few entries.
    pub(super) are_large: bool,
}

impl Search<'_, '_> {
    fn template(&self) -> &Template {
        self.scales.population.template
    }

    /// One way; none where the layout has no such placement or the sample can't show it.
    pub(super) fn way(&self, kind: &Folding, size: u64) -> Option<Way> {
        self.way_on(self.scales, kind, size)
    }

    /// The same from fewer keys, where these can show it.
    fn quick_way(&self, kind: &Folding, size: u64) -> Option<Way> {
        self.way_on(self.quick, kind, size).or_else(|| self.way(kind, size))
    }

    fn way_on(&self, scales: &Scales<'_, '_>, kind: &Folding, size: u64) -> Option<Way> {
        let placement = kind.placement_of(self.scales.population, size, self.by_slot)?;
        let rule = self.limits.rule(packed(placement, self.template(), self.table));
        if !scales.shows(&rule.placement) {
            return None;
        }
        let weighed = scales.weigh(self.model, &rule);
        let one_part = self.template().placeholders().len() == 1;
        let estimated = (scales.members.len() as u64) < scales.population.keys;
        let fit = match judge::check(&rule, &weighed.fill, self.growth, one_part, estimated) {
            Err(Unfit::Scant(_)) if self.are_large => Ok(()),
            fit => fit,
        };
        Some(Way { rule, weighed, fit })
    }

    /// The best way of a kind that can be taken; or else the one that has the most room to grow; or else the one
    /// that comes closest.
    pub(super) fn best(&self, kind: &Folding) -> Option<Way> {
        let mut ways = match kind {
            Folding::Span(_) => self.spans(kind),
            Folding::Count => self.counts(),
            Folding::By(_) => self.quick_way(kind, 0).into_iter().collect(),
        };
        ways.sort_by(|one, other| one.order().partial_cmp(&other.order()).unwrap_or(Ordering::Equal));
        let mut closest: Option<Way> = None;
        for way in ways.iter().take(CLOSE_LOOKS).filter_map(|way| self.way(kind, size(way))) {
            if way.fit.is_ok() {
                return Some(way);
            }
            if closest.as_ref().is_none_or(|closest| way.order() < closest.order()) {
                closest = Some(way);
            }
        }
        closest
    }

    fn spans(&self, kind: &Folding) -> Vec<Way> {
        let coarse = (LEAST_SPAN..=MOST_ENTRIES).step_by(8).filter(|span| *span <= 256 || span.is_multiple_of(32));
        let mut ways: Vec<_> = coarse.filter_map(|span| self.quick_way(kind, span)).collect();
        for span in peaks(&ways) {
            let beside = (span.saturating_sub(SPAN_STEP) + 1..span).chain(span + 1..span + SPAN_STEP);
            ways.extend(
                beside
                    .filter(|span| (LEAST_SPAN..=MOST_ENTRIES).contains(span))
                    .filter_map(|span| self.quick_way(kind, span)),
            );
        }
        ways
    }

    fn counts(&self) -> Vec<Way> {
        let least = self.least_count();
        let mut counts: Vec<_> =
            COUNT_MEANS.iter().map(|mean| self.count_of(*mean)).filter(|count| *count >= least).collect();
        if self.are_large && counts.is_empty() {
            counts.push(least);
        }
        counts.dedup();
        let mut ways: Vec<_> = counts.iter().filter_map(|count| self.quick_way(&Folding::Count, *count)).collect();
        for count in peaks(&ways) {
            let step = |steps: u64| [count.saturating_sub(steps * unit(count)), count + steps * unit(count)];
            let untried = (1..=COUNT_STEPS).flat_map(step).filter(|count| *count >= least && !counts.contains(count));
            ways.extend(untried.filter_map(|count| self.quick_way(&Folding::Count, count)));
        }
        ways
    }

    /// One bucket for all keys is none that a layout allows; one in each slot is.
    fn least_count(&self) -> u64 {
        if self.by_slot { 1 } else { 2 }
    }

    /// The count whose buckets hold so many entries, on the mean. In each slot there is one at the least.
    fn count_of(&self, entries: u64) -> u64 {
        count_of(self.scales.population.keys, entries, self.by_slot)
    }

    /// The way of a kind whose buckets hold about so many entries, on the mean.
    pub(super) fn at_mean(&self, kind: &Folding, entries: u64, density: f64) -> Option<Way> {
        match kind {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a span, checked by its rule")]
            Folding::Span(_) => self.way(kind, (entries as f64 / density).round() as u64),
            Folding::Count => self.way(kind, self.count_of(entries)),
            Folding::By(_) => None,
        }
    }
}

/// The count that spreads so many keys over buckets of so many entries: in all, or in each slot.
pub(super) fn count_of(keys: u64, entries: u64, by_slot: bool) -> u64 {
    if by_slot { round(keys / SLOTS / entries).max(1) } else { round(keys / entries) }
}

/// The placement with the table, where it leaves text in fields.
pub(super) fn packed(placement: Placement, template: &Template, table: Option<&TextTable>) -> Placement {
    let with = table.and_then(|table| placement.clone().with_text_table(slice::from_ref(template), table.clone()).ok());
    with.unwrap_or(placement)
}

/// The number that a placement is made with; 0 where it has none.
pub(super) fn size(way: &Way) -> u64 {
    Folding::of(&way.rule.placement).map_or(0, |(_, size)| size)
}

/// The best sizes of those that can be taken.
fn peaks(ways: &[Way]) -> Vec<u64> {
    let mut fitting: Vec<_> = ways.iter().filter(|way| way.fit.is_ok()).map(|way| (way.rank(), size(way))).collect();
    fitting.sort_by(|one, other| one.0.total_cmp(&other.0));
    fitting.into_iter().take(PEAKS).map(|(_, size)| size).collect()
}

/// The last of two digits.
fn unit(count: u64) -> u64 {
    10_u64.pow(count.max(1).ilog10().saturating_sub(1))
}

/// To two digits, as people write numbers of buckets; exact where there are few.
fn round(count: u64) -> u64 {
    (count + unit(count) / 2) / unit(count) * unit(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_two_digits() {
        assert_eq!([0, 7, 99, 101, 5783, 123_456].map(round), [0, 7, 99, 100, 5800, 120_000]);
    }
}
