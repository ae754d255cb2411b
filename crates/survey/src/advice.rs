//! What to do with each family that was found, and what it saves.

use keyfold_core::layout::Layout;
use keyfold_core::memory::Keyspace;
use keyfold_core::named;

use crate::choose::{Aims, Choice, Verdict, choose_among};
use crate::codec::Coding;
use crate::observation::Kind;
use crate::plan::{self, Part, Plan};
use crate::population::{Population, SampledKey};
use crate::remedy::Remedy;
use crate::slot_tally::HotSlot;
use crate::summary::HandMade;
use crate::survey::{FamilyFindings, Findings, Folded, NEARLY_ALL};

/// A median of so many elements is large.
const LARGE: f64 = 512.0;
/// Physical names of keyfold's own begin so.
const OWN: [&str; 2] = ["~", "keyfold:"];

named! {
    /// What to do with a family.
    pub enum Advice {
        /// Fold it into buckets.
        Fold = "fold",
        /// Keep its keys, under shorter names.
        Zip = "zip",
        /// Change settings of the server.
        Set = "set",
        /// Leave it as it is.
        Leave = "leave",
    }
}

impl Advice {
    /// Whether a layout places such keys.
    pub fn places(self) -> bool {
        matches!(self, Self::Fold | Self::Zip)
    }
}

/// A family, and what to do with it.
#[derive(Debug)]
pub struct Advised {
    /// What was found.
    pub family: FamilyFindings,
    /// What to do.
    pub advice: Advice,
    /// Why.
    pub why: String,
    /// What was weighed, where it is strings, or small sets or hashes.
    pub choice: Option<Choice>,
    /// What settings of the server would save without folding, where that is worth a word.
    pub remedy: Option<Remedy>,
    /// What it takes if the advice is taken.
    pub after_bytes: f64,
}

/// All families with advice.
#[derive(Debug)]
pub struct Report {
    /// The families, the one that takes most first.
    pub families: Vec<Advised>,
    /// What the server's layout has folded already.
    pub folded: Vec<Folded>,
    /// How many keys were looked at.
    pub seen: u64,
    /// How many there are, as the server counts them.
    pub keys: u64,
    /// What all take by the memory model.
    pub model_bytes: u64,
    /// What they would take if all advice is taken.
    pub after_bytes: u64,
    /// The slots of a cluster that have far more keys than others, the fullest first.
    pub hot_slots: Vec<HotSlot>,
}

/// What codecs make of a family's values, by those of some of the given keys: whoever can read values answers,
/// perhaps with nothing.
pub type Codings<'c> = &'c mut dyn FnMut(&Population<'_>, &[SampledKey]) -> Vec<Coding>;

/// Weighs what was found, on a server that has the layout `stored`.
pub fn advise(findings: Findings, aims: &Aims, stored: Option<Layout>, codings: Codings<'_>) -> Report {
    let Findings { families, folded, seen, keys, model_bytes, hot_slots, .. } = findings;
    let mut advised: Vec<_> = families.into_iter().map(|family| weigh(family, aims, codings)).collect();
    heed_plan(&mut advised, stored, aims);
    for one in &mut advised {
        (one.family.sample, one.family.even) = (Vec::new(), Vec::new());
    }
    let saved: f64 = savings(&advised, &folded, aims);
    let after_bytes = (model_bytes as f64 - saved).max(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 2^53")]
    let after_bytes = after_bytes.round() as u64;
    Report { families: advised, folded, seen, keys, model_bytes, after_bytes, hot_slots }
}

impl Report {
    /// How many keys there are to clients: those in buckets one by one.
    pub fn logical_keys(&self) -> u64 {
        logical_keys(self.keys, &self.folded)
    }
}

/// How many keys there are to clients, where a server counts so many and has these folded.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys, not negative")]
pub fn logical_keys(keys: u64, folded: &[Folded]) -> u64 {
    let more: f64 = folded.iter().map(|one| one.keys.value - one.physical()).sum();
    (keys as f64 + more).max(0.0).round() as u64
}

/// Whether codecs are weighed for a family: it is of what a layout places, and more than one key.
pub fn is_weighed(family: &FamilyFindings) -> bool {
    not_placed(family).is_none() && family.template.is_some()
}

fn weigh(family: FamilyFindings, aims: &Aims, codings: Codings<'_>) -> Advised {
    let remedy = family.remedy(&aims.limits, aims.min_saving).filter(|_| !aims.keeps_settings);
    let (mut advice, mut why, choice) = match not_placed(&family) {
        Some(why) => (Advice::Leave, why, None),
        None => match family.population() {
            None => (Advice::Leave, "a single key".to_owned(), None),
            Some(population) => {
                let mut choice = choose_among(&population, aims, &codings(&population, &family.even));
                choice.other_ways.extend(family.hand_made().map(HandMade::describe));
                if let Some(remedy) = &remedy {
                    remedy.tell(&mut choice);
                }
                decide(choice)
            }
        },
    };
    if advice == Advice::Leave && family.hand_made().is_some() {
        why = hashes(&family);
    }
    if let (Advice::Leave, Some(remedy)) = (advice, &remedy) {
        advice = Advice::Set;
        why = format!("{}. {why}", remedy.describe());
    }
    let after_bytes = match (advice, &remedy) {
        (Advice::Set, Some(remedy)) => remedy.bytes,
        _ => after_bytes(&family, advice, choice.as_ref(), aims),
    };
    Advised { family, advice, why, choice, remedy, after_bytes }
}

/// What a family takes once the advice is taken.
fn after_bytes(family: &FamilyFindings, advice: Advice, choice: Option<&Choice>, aims: &Aims) -> f64 {
    let now = family.bytes.value;
    match (choice, advice) {
        // Its share of the slots' tables stays as it is.
        (Some(choice), Advice::Fold | Advice::Zip) if aims.model.has_tables_by_slot() => {
            (now - choice.bytes_now as f64 + choice.bytes_after as f64).max(0.0)
        }
        (Some(choice), Advice::Fold | Advice::Zip) => now * choice.bytes_after as f64 / choice.bytes_now.max(1) as f64,
        _ => now,
    }
}

fn decide(choice: Choice) -> (Advice, String, Option<Choice>) {
    let (advice, why) = match &choice.verdict {
        Verdict::Fold => {
            let entries = choice.chosen.map_or(0.0, |point| point.entries_per_bucket);
            let unmet = choice.relies_on.iter().filter(|setting| !setting.is_met());
            let unmet: Vec<_> = unmet.map(|setting| format!("{} {}", setting.name, setting.needs)).collect();
            let needs = if unmet.is_empty() { String::new() } else { format!("; set {}", unmet.join(", ")) };
            (Advice::Fold, format!("about {entries:.0} keys in a bucket{needs}"))
        }
        Verdict::Zip if choice.codec.is_some() => (Advice::Zip, "such values do best in keys of their own".to_owned()),
        Verdict::Zip => (Advice::Zip, "shorter names save enough".to_owned()),
        Verdict::Leave(why) => (Advice::Leave, why.clone()),
    };
    (advice, why, Some(choice))
}

/// Why a family that is neither strings nor small sets or hashes is left as it is.
fn not_placed(family: &FamilyFindings) -> Option<String> {
    if OWN.iter().any(|prefix| family.name.starts_with(prefix)) {
        return Some("keyfold's own".to_owned());
    }
    let summary = &family.summary;
    let (all, strings) = (summary.keys as f64, summary.values.count() as f64);
    if strings >= all * NEARLY_ALL || family.collection().is_some() {
        return None;
    }
    if strings > 0.0 {
        return Some(format!("keys of several types; {:.0} % are strings", 100.0 * strings / all));
    }
    Some(match summary.kind() {
        Kind::Hash => hashes(family),
        Kind::Other => "of a type that isn't known, or that the server didn't tell".to_owned(),
        Kind::String => "strings whose length the server didn't tell".to_owned(),
        kind => collections(family, kind),
    })
}

fn hashes(family: &FamilyFindings) -> String {
    let tables = tables(family);
    match family.hand_made() {
        Some(made) => format!("{}{tables}", made.describe()),
        None => format!("hashes{}{tables}", size(family)),
    }
}

fn collections(family: &FamilyFindings, kind: Kind) -> String {
    let name = match kind {
        Kind::Set => "sets",
        Kind::List => "lists",
        Kind::SortedSet => "sorted sets",
        _ => "streams",
    };
    format!("{name}{}{}", size(family), tables(family))
}

fn size(family: &FamilyFindings) -> String {
    let counts = &family.summary.elements.counts;
    match counts.quantile(0.5) {
        Some(median) if median >= LARGE => format!(", large ones: {median:.0} elements and up to {}", counts.max()),
        Some(median) => format!(" of about {median:.0} elements, {} at most", counts.max()),
        None => String::new(),
    }
}

/// Hashtables are over the limits, and cost most.
fn tables(family: &FamilyFindings) -> String {
    let (tables, keys) = (family.summary.elements.tables, family.summary.keys.max(1));
    if tables == 0 {
        return String::new();
    }
    let share = 100.0 * tables as f64 / keys as f64;
    format!("; {share:.0} % are hashtables")
}

/// What is advised for each family is what a plan of all makes of it: some can't be folded beside others, some share the
/// buckets of others.
fn heed_plan(advised: &mut [Advised], stored: Option<Layout>, aims: &Aims) {
    let family = |one: &Advised| {
        let (template, choice) = (one.family.template.clone()?, one.choice.clone()?);
        Some(plan::Family { template, keys: one.family.population()?.keys, choice })
    };
    let mut plan = Plan::new(advised.iter().filter_map(family).collect(), stored);
    let populations: Vec<_> =
        advised.iter().filter(|one| one.choice.is_some()).filter_map(|one| one.family.population()).collect();
    plan.share(&populations, aims);
    drop(populations);
    for (family, part) in plan.families {
        let named = |one: &&mut Advised| one.family.template.as_ref() == Some(&family.template);
        let Some(one) = advised.iter_mut().find(named) else { continue };
        match part {
            Part::Dropped(reason) => (one.advice, one.why) = (Advice::Leave, reason),
            Part::GoesWith(wider) => {
                (one.advice, one.why) = (Advice::Leave, format!("too few for a namespace: they go with `{wider}`"));
            }
            Part::Shared(templates) => {
                (one.advice, one.why) = (Advice::Fold, format!("in the buckets of {templates}"));
                one.choice = Some(family.choice);
            }
            Part::Namespace | Part::KeptPlain | Part::Left => continue,
        }
        one.after_bytes = after_bytes(&one.family, one.advice, one.choice.as_ref(), aims);
    }
}

/// What all advice saves together: the tables of keys shrink for all.
fn savings(advised: &[Advised], folded: &[Folded], aims: &Aims) -> f64 {
    let (mut now, mut after) = (Keyspace::new(&aims.model), Keyspace::new(&aims.model));
    let mut packed = 0.0;
    for one in folded {
        let (keys, expiring) = (one.physical(), one.expiring());
        let footprint = crate::choose::Footprint { keys, expiring, ..Default::default() };
        footprint.add_to(&mut now);
        footprint.add_to(&mut after);
    }
    for one in advised {
        match (&one.choice, one.advice) {
            (Some(choice), Advice::Fold | Advice::Zip) => {
                choice.now.add_to(&mut now);
                choice.after.add_to(&mut after);
            }
            _ => {
                let (keys, expiring) = (one.family.keys.value, one.family.summary.expiring as f64);
                let scale = keys / (one.family.summary.keys as f64).max(1.0);
                let footprint = crate::choose::Footprint { keys, expiring: expiring * scale, ..Default::default() };
                footprint.add_to(&mut now);
                footprint.add_to(&mut after);
                packed += one.family.bytes.value - one.after_bytes;
            }
        }
    }
    now.total_bytes() as f64 - after.total_bytes() as f64 + packed
}
