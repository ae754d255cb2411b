//! The last step: of the best ways of each kind, keys of their own and plain ones, what is taken, and what is said of the
//! others.

use keyfold_core::memory::Model;
use keyfold_core::placement::Placement;

use super::candidates::{self, Search, Way};
use super::fill::LEAST_ENTRIES;
use super::folding::Folding;
use super::pays_from::{Otherwise, pays_from};
use super::report::Alternative;
use super::weigh::Footprint;
use super::{Aims, Choice, Point, Verdict, codec, judge, report, saving};

/// What a span is without holes: a bucket of ids and integers fills a size class of 1,024 bytes.
const USUAL_SPAN: u64 = 126;
/// Entries to a bucket that the curve is drawn at.
const CURVE_ENTRIES: [u64; 10] = [8, 16, 32, 48, 64, 96, 128, 192, 256, 512];

/// The best of those that can be taken: with room for all growth, if there is one, or else today.
fn best(bests: &[(Folding, Option<Way>)]) -> Option<(&Folding, &Way)> {
    let ways = || bests.iter().filter_map(|(kind, way)| Some((kind, way.as_ref()?)));
    let least = |one: &(&Folding, &Way), other: &(&Folding, &Way)| one.1.rank().total_cmp(&other.1.rank());
    let with_room = ways().filter(|(_, way)| way.fit.is_ok()).min_by(least);
    with_room.or_else(|| ways().filter(|(_, way)| way.fits_today()).min_by(least))
}

/// From the best of each kind to the choice.
pub(super) struct Decision<'a, 'p> {
    pub(super) aims: &'a Aims,
    /// The server as it is set.
    pub(super) base: &'a Model,
    pub(super) search: &'a Search<'a, 'p>,
}

impl Decision<'_, '_> {
    pub(super) fn decide(&self, mut choice: Choice) -> Choice {
        let template = self.search.scales.population.template;
        let kinds = Folding::all(template, self.search.by_slot);
        let bests: Vec<(Folding, Option<Way>)> =
            kinds.into_iter().map(|kind| (kind.clone(), self.search.best(&kind))).collect();
        let best = best(&bests);
        let (zipped, zipped_us) = self.search.scales.weigh_zipped(self.base, self.search.by_slot);
        let folds = best.filter(|(_, way)| {
            let after = way.weighed.footprint.total_bytes(self.base);
            saving(choice.bytes_now, after) >= self.aims.min_saving
        });
        // Sets and hashes have no shorter names of their own.
        let may_zip = self.search.scales.population.collection.is_none();
        let zipping_saves = may_zip && saving(choice.bytes_now, zipped.total_bytes(self.base)) >= self.aims.min_saving;
        let folds = folds.filter(|(_, way)| !zipping_saves || !self.is_better_off_alone(way, &zipped, zipped_us));
        let zips = folds.is_none() && zipping_saves;
        if let Some((_, way)) = best.filter(|_| folds.is_none()) {
            let otherwise = Otherwise { now: &choice.now, zipped: zips.then_some(&zipped) };
            choice.pays_from_keys = self.pays_from(way, &otherwise);
        }
        choice.curve = self.curve(best.map_or(&Folding::Count, |(kind, _)| kind), best.map(|(_, way)| way));
        if let Some((_, way)) = folds {
            self.fold(&mut choice, way);
        } else if zips {
            choice.verdict = Verdict::Zip;
            choice.rule.placement = self.own();
            choice.after = zipped.clone();
            choice.bytes_after = zipped.total_bytes(self.base);
            choice.read_us_after = zipped_us;
        } else {
            choice.verdict =
                Verdict::Leave(report::why_left(&choice, self.aims, best.map(|(_, way)| way), &bests, may_zip));
        }
        if zips && let Some(keys) = choice.pays_from_keys {
            choice.notes.extend(best.and_then(|(_, way)| report::pays_later(way, keys)));
        }
        self.weigh_up(&mut choice, &bests, folds, (&zipped, zipped_us));
        if self.search.scales.coding.is_some() && may_zip {
            let own_bytes = zipped.total_bytes(self.base);
            let note = codec::either_or(&choice, own_bytes);
            choice.notes.extend(note);
        }
        choice
    }

    /// From how many keys on buckets pay, where each slot has as few as there can be.
    fn pays_from(&self, way: &Way, otherwise: &Otherwise<'_>) -> Option<u64> {
        let is_few = judge::has_fewest_buckets(&way.rule) && way.weighed.fill.mean() < LEAST_ENTRIES as f64;
        is_few.then(|| pays_from(self.search, self.aims, &way.rule, otherwise)).flatten()
    }

    /// Whether keys are as well kept as keys of their own: where values are compressed, or slots have few keys, buckets
    /// have to be worth it.
    fn is_better_off_alone(&self, way: &Way, own: &Footprint, own_us: f64) -> bool {
        (self.search.scales.coding.is_some() || self.search.by_slot)
            && judge::score(own.smooth_bytes(), own_us) < way.rank()
    }

    /// The placement that leaves keys their own.
    fn own(&self) -> Placement {
        let placement = Placement::zipped().by_slot(self.search.by_slot);
        if self.search.scales.coding.is_some() { placement.with_codec() } else { placement }
    }

    fn fold(&self, choice: &mut Choice, way: &Way) {
        let Way { rule, weighed, .. } = way;
        choice.verdict = Verdict::Fold;
        choice.rule = rule.clone();
        choice.fill = Some(weighed.fill.clone());
        choice.chosen = Some(self.point(way));
        choice.after = weighed.footprint.clone();
        choice.bytes_after = weighed.footprint.total_bytes(self.base);
        choice.read_us_after = weighed.read_us;
        choice.relies_on = report::settings(self.aims, self.search, way);
        choice.notes.extend(report::notes(way, self.search.growth));
        choice.curve.extend(choice.chosen);
        choice.curve.sort_by(|one, other| one.entries_per_bucket.total_cmp(&other.entries_per_bucket));
    }

    fn point(&self, way: &Way) -> Point {
        Point {
            entries_per_bucket: way.weighed.fill.mean(),
            bytes: way.weighed.footprint.total_bytes(self.base),
            read_us: way.weighed.read_us,
        }
    }

    fn curve(&self, kind: &Folding, best: Option<&Way>) -> Vec<Point> {
        // How many entries a span has for each of its ids.
        let density = best.map_or(1.0, |way| way.weighed.fill.mean() / candidates::size(way).max(1) as f64);
        let kind = if matches!(kind, Folding::By(_)) { &Folding::Count } else { kind };
        let mut ways: Vec<Way> =
            CURVE_ENTRIES.iter().filter_map(|entries| self.search.at_mean(kind, *entries, density)).collect();
        // A slot has one bucket at the least.
        ways.dedup_by(|one, other| self.search.by_slot && one.rule == other.rule);
        ways.iter().map(|way| self.point(way)).collect()
    }

    /// The span that one would take if ids had no holes, where they have.
    fn holes(&self, choice: &Choice, kind: &Folding) -> Option<Alternative> {
        let span = matches!(kind, Folding::Span(_)).then_some(USUAL_SPAN)?;
        let way = self.search.way(kind, span).filter(|way| way.fit.is_err())?;
        Some(report::other(choice, self.aims, self.search.scales.population.template, &way, self.point(&way)))
    }

    /// The ways that were not chosen, and why.
    fn weigh_up(
        &self,
        choice: &mut Choice,
        bests: &[(Folding, Option<Way>)],
        folds: Option<(&Folding, &Way)>,
        (zipped, zipped_us): (&Footprint, f64),
    ) {
        let template = self.search.scales.population.template;
        let mut others = Vec::new();
        if !matches!(choice.verdict, Verdict::Leave(_)) {
            others.push(report::plain(choice));
        }
        let may_zip = self.search.scales.population.collection.is_none();
        if choice.verdict != Verdict::Zip && may_zip {
            others.push(report::own(choice, self.own().line(template), zipped.total_bytes(self.base), zipped_us));
        }
        for (kind, way) in bests {
            match way {
                None => others.extend(report::unseen(kind, template, self.search.by_slot)),
                Some(_) if folds.is_some_and(|(chosen, _)| chosen == kind) => {}
                Some(way) => {
                    others.push(report::other(choice, self.aims, template, way, self.point(way)));
                    others.extend(self.holes(choice, kind));
                }
            }
        }
        if let Some((kind, way)) = folds {
            let mean = way.weighed.fill.mean();
            let density = mean / candidates::size(way).max(1) as f64;
            for entries in [64, 128, 256].iter().filter(|entries| (**entries as f64 / mean - 1.0).abs() > 0.002) {
                let size = self.search.at_mean(kind, *entries, density);
                // A slot has one bucket at the least, however few entries that is.
                let size = size.filter(|way| !self.search.by_slot || way.rule != choice.rule);
                others.extend(size.map(|way| report::other(choice, self.aims, template, &way, self.point(&way))));
            }
        }
        choice.alternatives = others;
    }
}
