//! What is said of a choice: the alternatives with their reasons, the settings it relies on.

use keyfold_core::memory::{Limits, Model};
use keyfold_core::placement::Placement;
use keyfold_core::record::FEWEST_IN_PARTS;
use keyfold_core::template::Template;

use super::candidates::{Search, Way};
use super::fill::LEAST_ENTRIES;
use super::folding::Folding;
use super::judge::{self, MOST_ENTRIES, Unfit};
use super::weigh::{Footprint, Rule};
use super::{Aims, Choice, Point, Verdict, saving};
use crate::number::grouped;

/// A way that was weighed and not chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// As a layout says it: `bucket = { span = 128 }`.
    pub what: String,
    /// What the family would take.
    pub bytes: u64,
    /// The server's microseconds for the read of an average key.
    pub read_us: f64,
    /// Why it was not chosen.
    pub why_not: String,
}

/// A setting of the server that a choice relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name since Redis 7.0.
    pub name: &'static str,
    /// At least this.
    pub needs: u64,
    /// What it is on the server.
    pub has: u64,
    /// What the family takes where the setting stays as it is; none where it suffices.
    pub bytes_without: Option<u64>,
}

impl Setting {
    /// Whether the server has it.
    pub fn is_met(&self) -> bool {
        self.has >= self.needs
    }
}

/// The choice to leave a family as it is, before anything else is known.
pub(super) fn left(model: &Model, now: Footprint, read_us: f64) -> Choice {
    let bytes = now.total_bytes(model);
    let default = super::limits::LengthLimits {
        value: keyfold_core::layout::DEFAULT_VALUE_LIMIT as u64,
        field: keyfold_core::layout::DEFAULT_FIELD_LIMIT as u64,
    };
    Choice {
        verdict: Verdict::Leave("nothing was weighed".to_owned()),
        rule: default.rule(Placement::plain()),
        fill: None,
        curve: Vec::new(),
        chosen: None,
        alternatives: Vec::new(),
        after: now.clone(),
        now,
        bytes_now: bytes,
        bytes_after: bytes,
        read_us_now: read_us,
        read_us_after: read_us,
        codec: None,
        compressible: None,
        relies_on: Vec::new(),
        pays_from_keys: None,
        notes: Vec::new(),
        other_ways: Vec::new(),
    }
}

pub(super) fn few(keys: u64) -> String {
    format!("{keys} {} would not fill two buckets", if keys == 1 { "key" } else { "keys" })
}

/// What to do when there is no more room.
const MORE_LATER: &str = "Before there are more, change the count here: `keyfold fold` moves the keys to other buckets \
                          while clients go on";

pub(super) fn less_growth(growth: f64) -> String {
    format!("Room for {growth} times the keys only: with more, buckets would have too few entries today. {MORE_LATER}")
}

/// Why nothing is done.
pub(super) fn why_left(
    choice: &Choice,
    aims: &Aims,
    best: Option<&Way>,
    bests: &[(Folding, Option<Way>)],
    may_zip: bool,
) -> String {
    let Some(way) = best else {
        let unfit = bests.iter().filter_map(|(_, way)| way.as_ref()?.fit.err()).next_back();
        return unfit.map_or_else(|| "the sample shows too little of it".to_owned(), reason);
    };
    let after = way.weighed.footprint.total_bytes(&aims.model);
    let few = few_in_slots(way).map_or_else(String::new, |few| {
        let pays = choice.pays_from_keys.map(|keys| format!(", and it pays from some {} keys on", grouped(keys)));
        format!(" ({few}{})", pays.unwrap_or_default())
    });
    let names = if may_zip { ", and shorter names no more" } else { "" };
    format!("{}{few}{names}", too_little(choice, aims, after))
}

fn too_little(choice: &Choice, aims: &Aims, after: u64) -> String {
    let saved = saving(choice.bytes_now, after) * 100.0;
    let each = choice.bytes_now as f64 / choice.now.keys.max(1.0);
    if saved < 0.05 {
        return format!("folding saves nothing of {each:.0} bytes a key");
    }
    let least = aims.min_saving * 100.0;
    format!("folding saves {saved:.1} % of {each:.0} bytes a key, less than the {least:.0} % asked for")
}

/// That folding pays once there are more keys.
pub(super) fn pays_later(way: &Way, keys: u64) -> Option<String> {
    few_in_slots(way).map(|few| format!("Folding pays from some {} keys on: {few}", grouped(keys)))
}

/// That slots have few keys, where each has buckets of its own and so they can't be fuller.
fn few_in_slots(way: &Way) -> Option<String> {
    let entries = way.weighed.fill.mean();
    let few = judge::has_fewest_buckets(&way.rule) && entries < LEAST_ENTRIES as f64;
    few.then(|| format!("each slot has a bucket of its own, of {entries:.1} entries on the mean"))
}

/// Why a way can't be taken.
fn reason(unfit: Unfit) -> String {
    match unfit {
        Unfit::NoBuckets => "no key has a place in a bucket: fields would be too long".to_owned(),
        Unfit::Scant(share) => {
            let percent = share * 100.0;
            format!("{percent:.0} % of its buckets would have fewer than {LEAST_ENTRIES} entries")
        }
        Unfit::Overfull { entries, grown: false } => {
            format!("some of its buckets would have {entries} entries, and over {MOST_ENTRIES} they are hashtables")
        }
        Unfit::Overfull { entries, grown: true } => {
            format!("no room to grow: its fullest buckets would have {entries} entries, over {MOST_ENTRIES}")
        }
    }
}

pub(super) fn plain(choice: &Choice) -> Alternative {
    let (bytes, read_us) = (choice.bytes_now, choice.read_us_now);
    let why_not = more_bytes(choice, bytes);
    Alternative { what: r#"placement = "plain""#.to_owned(), bytes, read_us, why_not }
}

/// Keys of their own, with short names; `what` is how a layout says it.
pub(super) fn own(choice: &Choice, what: String, bytes: u64, read_us: f64) -> Alternative {
    let why_not = match choice.verdict {
        Verdict::Leave(_) => format!("saves {:.1} %", saving(choice.bytes_now, bytes) * 100.0),
        _ => more_bytes(choice, bytes),
    };
    Alternative { what, bytes, read_us, why_not }
}

/// The best without the text table that was taken.
pub(super) fn unpacked(choice: &Choice, without: &Choice, template: &Template) -> Alternative {
    let (bytes, read_us) = (without.bytes_after, without.read_us_after);
    let why_not = compare(choice, bytes, read_us);
    Alternative { what: without.rule.placement.line(template), bytes, read_us, why_not }
}

/// What was chosen for the family alone, where it shares buckets.
pub(super) fn alone(choice: &Choice, alone: &Choice, template: &Template) -> Alternative {
    let (bytes, read_us) = (alone.bytes_after, alone.read_us_after);
    let what = format!("alone, {}", alone.rule.placement.line(template));
    Alternative { what, bytes, read_us, why_not: compare(choice, bytes, read_us) }
}

/// A way of folding that was not taken.
pub(super) fn other(choice: &Choice, aims: &Aims, template: &Template, way: &Way, point: Point) -> Alternative {
    let Point { bytes, read_us, .. } = point;
    let why_not = match way.fit {
        Err(unfit) => reason(unfit),
        Ok(()) if choice.verdict == Verdict::Fold => compare(choice, bytes, read_us),
        Ok(()) if saving(choice.bytes_now, bytes) >= aims.min_saving => compare(choice, bytes, read_us),
        Ok(()) => too_little(choice, aims, bytes),
    };
    let table = if way.rule.placement.text_table().is_some() { ", text_table" } else { "" };
    let what = format!("{}{table}", way.rule.placement.rule_line(template));
    Alternative { what, bytes, read_us, why_not }
}

/// A kind of placement that the sample says nothing of.
pub(super) fn unseen(kind: &Folding, template: &Template, by_slot: bool) -> Option<Alternative> {
    let what = kind.placement(template, MOST_ENTRIES, by_slot)?.line(template);
    let why_not = "not weighed: the sample has only parts of its buckets".to_owned();
    Some(Alternative { what, bytes: 0, read_us: 0.0, why_not })
}

fn more_bytes(choice: &Choice, bytes: u64) -> String {
    let more = bytes as f64 / choice.bytes_after.max(1) as f64;
    if more >= 1.995 {
        format!("{more:.1} times the bytes")
    } else {
        format!("{:.0} % more bytes", (more - 1.0) * 100.0)
    }
}

fn compare(choice: &Choice, bytes: u64, read_us: f64) -> String {
    let more = (bytes as f64 / choice.bytes_after.max(1) as f64 - 1.0) * 100.0;
    let slower = (read_us / choice.read_us_after.max(0.001) - 1.0) * 100.0;
    match (more, slower) {
        (1.0.., 1.0..) => format!("{more:.0} % more bytes, and reads take {slower:.0} % longer"),
        (1.0.., _) => format!("{more:.0} % more bytes"),
        (_, 1.0..) => format!("{:.0} % fewer bytes, but reads take {slower:.0} % longer", (-more).max(0.0)),
        _ => "no better".to_owned(),
    }
}

/// The settings that the buckets of a way stay small by.
pub(super) fn settings(aims: &Aims, search: &Search<'_, '_>, way: &Way) -> Vec<Setting> {
    let Rule { placement, value_limit, field_limit } = &way.rule;
    let entries = placement.span().map_or(MOST_ENTRIES, |span| span.max(way.weighed.fill.quantile(1.0)));
    let lengths = (*value_limit).max(*field_limit);
    let needs = [
        ("hash-max-listpack-entries", entries, aims.limits.hash_entries),
        ("hash-max-listpack-value", lengths, aims.limits.hash_value_bytes),
    ];
    let as_set = aims.model.clone().with_limits(Limits { ..aims.limits });
    let without = || search.scales.weigh(&as_set, &way.rule).footprint.total_bytes(&aims.model);
    let setting = |(name, needs, has): (&'static str, u64, u64)| Setting {
        name,
        needs,
        has,
        bytes_without: (has < needs).then(without),
    };
    needs.map(setting).into()
}

pub(super) fn notes(way: &Way, growth: f64) -> Vec<String> {
    let share =
        |share: f64| if share < 0.0001 { "Less than 0.01 %".to_owned() } else { format!("{:.2} %", share * 100.0) };
    let mut notes = Vec::new();
    if let Some(few) = few_in_slots(way) {
        notes.push(format!("With more keys it saves more of each: {few}"));
    }
    if way.fit.is_err() {
        let room = judge::room(&way.rule, &way.weighed.fill);
        notes.push(format!("Room for {room} times the keys instead of {growth}. {MORE_LATER}"));
    }
    if way.weighed.whole_share > 0.0 && way.weighed.whole_share < 1.0 {
        notes.push(format!(
            "{} of the ids can't be divided (hex of less than 8 bytes): they have as many buckets of their own",
            share(way.weighed.whole_share)
        ));
    }
    if way.weighed.spilled_share > 0.0 {
        let limit = way.rule.value_limit;
        notes.push(format!("{} of the values are over {limit} bytes, and spilled", share(way.weighed.spilled_share)));
    }
    if way.weighed.in_parts_share > 0.0 {
        let limit = way.rule.value_limit;
        notes.push(format!(
            "{} of them have more than {FEWEST_IN_PARTS} members and are over {limit} bytes: these lie in parts, where a command on a \
             member takes the server some microseconds",
            share(way.weighed.in_parts_share)
        ));
    }
    if way.weighed.plain_share > 0.0 {
        let limit = way.rule.field_limit;
        notes.push(format!("{} of the keys stay plain: fields over {limit} bytes", share(way.weighed.plain_share)));
    }
    notes
}
