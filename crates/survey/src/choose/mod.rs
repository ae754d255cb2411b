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
//! | `merged.rs` | buckets of a *count*, or slots, as a part of the keys shows them |
//! | `slots.rs` | for a cluster: how full its slots are |
//! | `pays_from.rs` | for a cluster: from how many keys on folding pays |
//! | `fill.rs` | how full buckets are |
//! | `shared.rs` | for a cluster: small families that share buckets |
//! | `read_time.rs` | what a read costs a server, measured |
//! | `limits.rs` | the lengths from which values are spilled and keys stay plain |
//! | `folding.rs` | the kinds of folding that are weighed |
//! | `candidates.rs` | the search |
//! | `judge.rs` | which ways can't be taken, and which is the best |
//! | `decision.rs` | what is taken of the best of each kind, and what is said of the others |
//! | `text_table.rs` | whether a table for the text in fields pays |
//! | `codec.rs` | whether a codec pays |
//! | `report.rs` | what is said of it |

mod candidates;
mod codec;
mod decision;
mod fill;
mod folding;
mod judge;
mod limits;
mod members;
mod merged;
mod pays_from;
mod read_time;
mod report;
mod shared;
mod slots;
#[cfg(test)]
mod tests;
mod text_table;
mod weigh;

pub use codec::{CodecChoice, Compressible};
pub use fill::{Fill, LEAST_ENTRIES};
pub use read_time::{FieldKind, ReadTimes};
pub use report::{Alternative, Setting};
pub use shared::{Candidate, Sharing, share};
pub use slots::SlotFills;
pub use weigh::{Footprint, Rule};

use keyfold_core::memory::{Limits, Model, Server};
use keyfold_core::placement::{Placement, TextTable};
use keyfold_core::template::Template;

use crate::codec::Coding;
use crate::population::Population;
use candidates::Search;
use decision::Decision;
use folding::Folding;
use weigh::Scales;

/// Families of fewer keys are not worth a namespace: they would fill one or two buckets.
pub const LEAST_KEYS: u64 = 2 * LEAST_ENTRIES;
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
    /// Whether places are to be by slot, for a cluster: each of its slots then has buckets of its own.
    pub by_slot: bool,
    /// How many keys there are on the server, all families together, and how many of them expire; 0 where that isn't known.
    /// In a cluster, the tables of slots are all families': what a family takes is then what it adds to those of others.
    pub all_keys: (u64, u64),
}

impl Aims {
    /// Room for four times the keys, a tenth to be saved at the least, no text tables, and places by slot where the
    /// server is a node of a cluster.
    pub fn new(model: Model, server: Server, limits: Limits) -> Self {
        let by_slot = model.is_in_cluster_mode();
        Self {
            model,
            server,
            limits,
            growth: 4.0,
            min_saving: 0.1,
            text_tables: false,
            keeps_settings: false,
            by_slot,
            all_keys: (0, 0),
        }
    }

    /// For one family, beside all others.
    fn beside_others(&self, population: &Population<'_>) -> Self {
        let expiring = population.sample.iter().filter(|sampled| sampled.has_expiry).count() as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys")]
        let expiring = (expiring * population.weight()).round() as u64;
        let (keys, all_expiring) = self.all_keys;
        let others = (keys.saturating_sub(population.keys), all_expiring.saturating_sub(expiring));
        Self { model: self.model.clone().beside(others.0, others.1), ..self.clone() }
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
    /// [`Self::now`] if there were no other keys; in a cluster, what it adds to these.
    pub bytes_now: u64,
    /// [`Self::after`] in the same sense.
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
    /// In a cluster, where its slots have too few keys to be folded: from about how many keys on it pays.
    pub pays_from_keys: Option<u64>,
    /// What else there is to know.
    pub notes: Vec<String>,
    /// What else can be done about them, by settings or where they are buckets made by hand.
    pub other_ways: Vec<String>,
}

impl Choice {
    /// The share of the family's bytes that it saves.
    pub fn saving(&self) -> f64 {
        saving(self.bytes_now, self.bytes_after)
    }

    /// Has a family that was to be folded stay as it is, for this reason; folding is one of the other ways then.
    pub(crate) fn leave(&mut self, why: String) {
        if let Some(Point { bytes, read_us, .. }) = self.chosen {
            let (what, why_not) = ("in buckets".to_owned(), "no fewer bytes, and keys to be folded".to_owned());
            self.alternatives.push(Alternative { what, bytes, read_us, why_not });
        }
        self.verdict = Verdict::Leave(why);
        self.rule.placement = Placement::plain();
        (self.fill, self.chosen, self.codec) = (None, None, None);
        (self.after, self.bytes_after, self.read_us_after) = (self.now.clone(), self.bytes_now, self.read_us_now);
        self.relies_on.clear();
        self.notes.clear();
    }
}

impl Rule {
    /// The rule for a share of the family: as many entries to a bucket, where there is a number of buckets.
    #[must_use]
    pub fn for_share(&self, template: &Template, share: f64) -> Self {
        let Some((kind @ Folding::Count, count)) = Folding::of(&self.placement) else { return self.clone() };
        let by_slot = self.placement.is_by_slot();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of buckets")]
        let fewer = (count as f64 * share).round().max(if by_slot { 1.0 } else { 2.0 }) as u64;
        let placement = kind.placement(template, fewer, by_slot);
        let placement = placement.and_then(|placement| folding::holding(placement, self.placement.collection()));
        let Some(placement) = placement else { return self.clone() };
        let placement = candidates::packed(placement, template, self.placement.text_table());
        Self { placement, ..self.clone() }
    }

    /// The placement of the same kind with so `few` entries to a bucket, where it says how many buckets there are, or
    /// how wide they are.
    pub(crate) fn with_few_entries(&self, template: &Template, keys: u64, few: u64) -> Option<Placement> {
        let (kind, _) = Folding::of(&self.placement)?;
        let by_slot = self.placement.is_by_slot();
        let ints = template.placeholders().iter().filter(|part| part.kind.is_int()).count();
        let placement = match kind {
            Folding::Count if by_slot => kind.placement(template, candidates::count_of(keys, few, true), true),
            Folding::Count => kind.placement(template, keys / few, false),
            // Of several ints the layout would have to say which.
            Folding::Span(_) => kind.placement(template, few, by_slot).filter(|_| ints == 1),
            Folding::By(_) => None,
        };
        folding::holding(placement?, self.placement.collection())
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
    let aims = &aims.beside_others(population);
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
    let mut choice = report::left(&base, now.clone(), read_us_now);
    let are_large = members::are_large(&members);
    if population.keys < LEAST_KEYS && !are_large || members.is_empty() {
        choice.verdict = Verdict::Leave(report::few(population.keys));
        return choice;
    }
    let count = candidates::count_of(population.keys, LIMITS_AT_ENTRIES, aims.by_slot);
    let count = if aims.by_slot { count } else { (population.keys / LIMITS_AT_ENTRIES).max(2) };
    let reference = Folding::Count.placement_of(population, count, aims.by_slot);
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
    let search = Search {
        scales: &scales,
        quick,
        model: &model,
        limits: lengths,
        growth,
        table,
        by_slot: aims.by_slot,
        are_large,
    };
    Decision { aims, base: &base, search: &search }.decide(choice)
}

/// What a family takes as it is, and by a rule.
#[derive(Clone, Debug, PartialEq)]
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
        scales.weigh_zipped(&model, rule.placement.is_by_slot())
    } else {
        // Handmade hashes are only ever moved out of.
        (now.clone(), read_us_now)
    };
    Prediction { now, after, read_us_now, read_us_after }
}
