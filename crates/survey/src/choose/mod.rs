//! Whether to fold a family of keys, and how: every way that its template allows, weighed on its own keys.
//!
//! ```text
//! population ─▶ members ─▶ length limits ─▶ best span │ count │ by   (candidates.rs)
//!                              weighed byte for byte, fill and time (weigh.rs)
//!                              too scant, too full?                 (judge.rs)
//!                                         ─▶ least of memory and time ─▶ saves enough? Fold, Zip or Leave
//! ```
//! What a bucket's fill is counts, not its mean: ids with holes, in runs, in strides, or that cluster otherwise are
//! placed by the core's own rules, and a way whose buckets would be too empty or too full is refused.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `members.rs` | the sampled keys, taken apart |
//! | `weigh.rs` | what one way takes, its fill and its time |
//! | `merged.rs` | buckets of a *count* as a part of the keys shows them |
//! | `fill.rs` | how full buckets are |
//! | `read_time.rs` | what a read costs a server, measured |
//! | `limits.rs` | the lengths from which values are spilled and keys stay plain |
//! | `folding.rs` | the kinds of folding that are weighed |
//! | `candidates.rs` | the search |
//! | `judge.rs` | which ways can't be taken, and which is the best |
//! | `text_table.rs` | whether a table for the text in fields pays |
//! | `codec.rs` | whether a codec pays |
//! | `report.rs` | what is said of it |

mod candidates;
mod codec;
mod fill;
mod folding;
mod judge;
mod limits;
mod members;
mod merged;
mod read_time;
mod report;
#[cfg(test)]
mod tests;
mod text_table;
mod weigh;

pub use codec::{CodecChoice, Compressible};
pub use fill::{Fill, LEAST_ENTRIES};
pub use read_time::{FieldKind, ReadTimes};
pub use report::{Alternative, Setting};
pub use weigh::{Footprint, Rule};

use keyfold_core::memory::{Limits, Model, Server};
use keyfold_core::placement::{Placement, TextTable};
use keyfold_core::template::Template;

use crate::codec::Coding;
use crate::population::Population;
use candidates::{Search, Way};
use folding::Folding;
use weigh::Scales;

/// Families of fewer keys are not worth a namespace: they would fill one or two buckets.
pub const LEAST_KEYS: u64 = 2 * LEAST_ENTRIES;
/// Entries to a bucket that the curve is drawn at.
const CURVE_ENTRIES: [u64; 10] = [8, 16, 32, 48, 64, 96, 128, 192, 256, 512];
/// What a span is without holes: a bucket of ids and integers fills a size class of 1,024 bytes.
const USUAL_SPAN: u64 = 126;
/// What the length limits are found with.
const LIMITS_AT_ENTRIES: u64 = 80;

/// What a choice is to aim at, and on which server.
#[derive(Clone, Debug)]
pub struct Aims {
    /// How the server takes memory; its limits don't matter here.
    pub model: Model,
    /// Which server it is.
    pub server: Server,
    /// The server's settings as they are.
    pub limits: Limits,
    /// How many times as many keys there may be one day.
    pub growth: f64,
    /// The least share of a family's bytes that is worth a namespace, such as 0.1.
    pub min_saving: f64,
    /// Whether to train tables for the text that keys leave in fields. It takes a good part of a second for a family.
    pub text_tables: bool,
    /// Whether the server's settings stay as they are: buckets go by them.
    pub keeps_settings: bool,
}

impl Aims {
    /// Room for four times the keys, a tenth to be saved at the least, and no text tables.
    pub fn new(model: Model, server: Server, limits: Limits) -> Self {
        Self { model, server, limits, growth: 4.0, min_saving: 0.1, text_tables: false, keeps_settings: false }
    }
}

/// What to do with a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Fold it into buckets.
    Fold,
    /// Keep its keys, and shorten their names.
    Zip,
    /// Leave it as it is, for this reason.
    Leave(String),
}

/// Bytes and time with buckets of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// On the mean.
    pub entries_per_bucket: f64,
    /// What the family takes then.
    pub bytes: u64,
    /// The server's microseconds for the read of an average key.
    pub read_us: f64,
}

/// What to do with a family, and what it brings.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Whether to fold.
    pub verdict: Verdict,
    /// The rule of its namespace: plain where it is left as it is.
    pub rule: Rule,
    /// How full its buckets are, where it is folded: those of the sample.
    pub fill: Option<Fill>,
    /// Bytes and time by the size of buckets, for the chosen kind of placement or the best that there is.
    pub curve: Vec<Point>,
    /// The size chosen, where it is folded.
    pub chosen: Option<Point>,
    /// The other ways.
    pub alternatives: Vec<Alternative>,
    /// What the family takes now; with other families', tables are shared.
    pub now: Footprint,
    /// What it takes as chosen.
    pub after: Footprint,
    /// [`Self::now`] if there were no other keys.
    pub bytes_now: u64,
    /// [`Self::after`] if there were no other keys.
    pub bytes_after: u64,
    /// The server's microseconds for the read of an average key, now.
    pub read_us_now: f64,
    /// As chosen.
    pub read_us_after: f64,
    /// The codec of its values, where one pays.
    pub codec: Option<CodecChoice>,
    /// What the codec that makes its values the shortest does, where one was weighed.
    pub compressible: Option<Compressible>,
    /// The settings of the server that it takes.
    pub relies_on: Vec<Setting>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Choice {
    /// The share of the family's bytes that it saves.
    pub fn saving(&self) -> f64 {
        saving(self.bytes_now, self.bytes_after)
    }
}

impl Rule {
    /// The rule for a share of the family: as many entries to a bucket, where there is a number of buckets.
    #[must_use]
    pub fn for_share(&self, template: &Template, share: f64) -> Self {
        let Some((kind @ Folding::Count, count)) = Folding::of(&self.placement) else { return self.clone() };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of buckets")]
        let fewer = (count as f64 * share).round().max(2.0) as u64;
        let Some(placement) = kind.placement(template, fewer) else { return self.clone() };
        let placement = candidates::packed(placement, template, self.placement.text_table());
        Self { placement, ..self.clone() }
    }

    /// The placement of the same kind with so `few` entries to a bucket, where it says how many buckets there are, or
    /// how wide they are.
    pub(crate) fn with_few_entries(&self, template: &Template, keys: u64, few: u64) -> Option<Placement> {
        let (kind, _) = Folding::of(&self.placement)?;
        let ints = template.placeholders().iter().filter(|part| part.kind.is_int()).count();
        match kind {
            Folding::Count => kind.placement(template, keys / few),
            // Of several ints the layout would have to say which.
            Folding::Span(_) => kind.placement(template, few).filter(|_| ints == 1),
            Folding::By(_) => None,
        }
    }
}

fn saving(now: u64, after: u64) -> f64 {
    if now == 0 { 0.0 } else { 1.0 - after as f64 / now as f64 }
}

/// Chooses for a family whose values stay as they are.
pub fn choose(population: &Population<'_>, aims: &Aims) -> Choice {
    choose_among(population, aims, &[])
}

/// Chooses for a family whose values may have one of these codecs.
pub fn choose_among(population: &Population<'_>, aims: &Aims, codings: &[Coding]) -> Choice {
    let without = choose_in(population, aims, None, None);
    if population.keys < LEAST_KEYS {
        return without;
    }
    let with = codings.iter().map(|coding| (coding, choose_in(population, aims, Some(coding), None))).collect();
    let choice = codec::decide(without, with);
    let coding = codings.iter().find(|coding| choice.codec.as_ref().is_some_and(|codec| codec.is(coding)));
    if aims.text_tables { text_table::choose(population, aims, coding, choice) } else { choice }
}

/// Chooses among the ways that have this codec and this table, or none.
fn choose_in(population: &Population<'_>, aims: &Aims, coding: Option<&Coding>, table: Option<&TextTable>) -> Choice {
    let members = members::members(population, coding);
    let times = ReadTimes::of(aims.server);
    let scales = Scales { population, members: &members, times: &times, coding };
    let base = aims.model.clone().with_limits(aims.limits);
    let (now, read_us_now) = scales.weigh_plain(&base);
    let mut choice = report::left(&base, now, read_us_now);
    if population.keys < LEAST_KEYS || members.is_empty() {
        choice.verdict = Verdict::Leave(report::few(population.keys));
        return choice;
    }
    let reference = Folding::Count.placement(population.template, (population.keys / LIMITS_AT_ENTRIES).max(2));
    let Some(reference) = reference else { return choice };
    let reference = candidates::packed(reference, population.template, table);
    let fewer = members::fewer(population, &members);
    let fewer = fewer.as_ref().map(|(population, members)| Scales { population, members, times: &times, coding });
    let quick = fewer.as_ref().unwrap_or(&scales);
    let lengths = limits::choose(quick, &base, aims, &reference, now.smooth_bytes());
    let model = limits::sufficient(&base, aims.limits, lengths);
    let growth = aims.growth.clamp(1.0, judge::MOST_GROWTH);
    if growth < aims.growth {
        choice.notes.push(report::less_growth(growth));
    }
    let search = Search { scales: &scales, quick, model: &model, limits: lengths, growth, table };
    Decision { aims, base: &base, search: &search }.decide(choice)
}

/// What a family takes as it is, and by a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// As plain keys.
    pub now: Footprint,
    /// By the rule, on a server whose settings suffice for it.
    pub after: Footprint,
    /// Microseconds for the read of an average key, as plain keys.
    pub read_us_now: f64,
    /// By the rule.
    pub read_us_after: f64,
}

/// Predicts what a rule makes of a family, its values stored by a codec where there is one, without choosing.
pub fn predict(population: &Population<'_>, rule: &Rule, aims: &Aims, coding: Option<&Coding>) -> Prediction {
    let members = members::members(population, coding);
    let times = ReadTimes::of(aims.server);
    let scales = Scales { population, members: &members, times: &times, coding };
    let lengths = limits::LengthLimits { value: rule.value_limit, field: rule.field_limit };
    let model = limits::sufficient(&aims.model, aims.limits, lengths);
    let (now, read_us_now) = scales.weigh_plain(&model);
    let (after, read_us_after) = if rule.placement.has_buckets() {
        let weighed = scales.weigh(&model, rule);
        (weighed.footprint, weighed.read_us)
    } else if rule.placement.has_names() {
        scales.weigh_zipped(&model)
    } else {
        // Handmade hashes are only ever moved out of.
        (now, read_us_now)
    };
    Prediction { now, after, read_us_now, read_us_after }
}

/// The best of those that can be taken: with room for all growth, if there is one, or else today.
fn best(bests: &[(Folding, Option<Way>)]) -> Option<(&Folding, &Way)> {
    let ways = || bests.iter().filter_map(|(kind, way)| Some((kind, way.as_ref()?)));
    let least = |one: &(&Folding, &Way), other: &(&Folding, &Way)| one.1.rank().total_cmp(&other.1.rank());
    let with_room = ways().filter(|(_, way)| way.fit.is_ok()).min_by(least);
    with_room.or_else(|| ways().filter(|(_, way)| way.fits_today()).min_by(least))
}

/// From the best of each kind to the choice.
struct Decision<'a, 'p> {
    aims: &'a Aims,
    /// The server as it is set.
    base: &'a Model,
    search: &'a Search<'a, 'p>,
}

impl Decision<'_, '_> {
    fn decide(&self, mut choice: Choice) -> Choice {
        let template = self.search.scales.population.template;
        let kinds = Folding::all(template);
        let bests: Vec<(Folding, Option<Way>)> =
            kinds.into_iter().map(|kind| (kind.clone(), self.search.best(&kind))).collect();
        let best = best(&bests);
        let (zipped, zipped_us) = self.search.scales.weigh_zipped(self.base);
        let folds = best.filter(|(_, way)| {
            let after = way.weighed.footprint.total_bytes(self.base);
            saving(choice.bytes_now, after) >= self.aims.min_saving
        });
        let zipping_saves = saving(choice.bytes_now, zipped.total_bytes(self.base)) >= self.aims.min_saving;
        let folds = folds.filter(|(_, way)| !zipping_saves || !self.is_better_off_alone(way, zipped, zipped_us));
        let zips = folds.is_none() && zipping_saves;
        choice.curve = self.curve(best.map_or(&Folding::Count, |(kind, _)| kind), best.map(|(_, way)| way));
        if let Some((_, way)) = folds {
            self.fold(&mut choice, way);
        } else if zips {
            choice.verdict = Verdict::Zip;
            choice.rule.placement = self.own();
            choice.after = zipped;
            choice.bytes_after = zipped.total_bytes(self.base);
            choice.read_us_after = zipped_us;
        } else {
            choice.verdict = Verdict::Leave(report::why_left(&choice, self.aims, best.map(|(_, way)| way), &bests));
        }
        self.weigh_up(&mut choice, &bests, folds, (zipped, zipped_us));
        if self.search.scales.coding.is_some() {
            let own_bytes = zipped.total_bytes(self.base);
            let note = codec::either_or(&choice, own_bytes);
            choice.notes.extend(note);
        }
        choice
    }

    /// Whether compressed values are as well kept in keys of their own: buckets have to be worth it.
    fn is_better_off_alone(&self, way: &Way, own: Footprint, own_us: f64) -> bool {
        self.search.scales.coding.is_some() && judge::score(own.smooth_bytes(), own_us) < way.rank()
    }

    /// The placement that leaves keys their own.
    fn own(&self) -> Placement {
        let placement = Placement::zipped();
        if self.search.scales.coding.is_some() { placement.with_codec() } else { placement }
    }

    fn fold(&self, choice: &mut Choice, way: &Way) {
        let Way { rule, weighed, .. } = way;
        choice.verdict = Verdict::Fold;
        choice.rule = rule.clone();
        choice.fill = Some(weighed.fill.clone());
        choice.chosen = Some(self.point(way));
        choice.after = weighed.footprint;
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
        let ways = CURVE_ENTRIES.iter().filter_map(|entries| self.search.at_mean(kind, *entries, density));
        ways.map(|way| self.point(&way)).collect()
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
        (zipped, zipped_us): (Footprint, f64),
    ) {
        let template = self.search.scales.population.template;
        let mut others = Vec::new();
        if !matches!(choice.verdict, Verdict::Leave(_)) {
            others.push(report::plain(choice));
        }
        if choice.verdict != Verdict::Zip {
            others.push(report::own(choice, self.own().line(template), zipped.total_bytes(self.base), zipped_us));
        }
        for (kind, way) in bests {
            match way {
                None => others.extend(report::unseen(kind, template)),
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
                others.extend(size.map(|way| report::other(choice, self.aims, template, &way, self.point(&way))));
            }
        }
        choice.alternatives = others;
    }
}
