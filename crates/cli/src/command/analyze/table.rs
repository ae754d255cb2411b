//! The analysis as text: what takes the memory, then what to do.

use keyfold_report::number::{bytes, count, decimals, plural, tenths};
use keyfold_report::room::Room;
use keyfold_report::table::{Column, render as table};
use keyfold_survey::advice::{Advice, Advised};
use keyfold_survey::survey::{Estimate, Folded};

use super::{Analysis, Share};
use crate::print::uses;

/// Families shown; the rest is summed up.
const SHOWN: usize = 40;

/// Heads of a table, as it is rendered.
type Heads = Vec<Column<'static>>;

pub(super) fn render(analysis: &Analysis, room: Room) -> String {
    let report = &analysis.report;
    let mut text = format!("{} at {}\n{}\n", analysis.server, analysis.address, memory(analysis));
    if !analysis.shares.is_empty() {
        let (heads, rows) = nodes(analysis);
        text.push_str(&format!("\n{}\n", table(&heads, rows, room)));
    }
    if report.families.is_empty() && report.folded.is_empty() {
        text.push_str("\nThere are no keys.\n");
    } else {
        let (heads, rows) = costs(analysis);
        text.push_str(&format!("\n{}\n", table(&heads, rows, room)));
        let (heads, rows) = advice(analysis);
        text.push_str(&format!("\n{}\n", table(&heads, rows, room)));
    }
    if report.families.len() > SHOWN {
        let rest = &report.families[SHOWN..];
        let taken: f64 = rest.iter().map(|one| one.family.bytes.value).sum();
        text.push_str(&format!("\n{} more families take {}; --json has all\n", rest.len(), bytes(taken)));
    }
    if let Some(section) = uses::text(&analysis.uses) {
        text.push_str(&format!("\n{section}"));
    }
    for note in &analysis.notes {
        text.push_str(&format!("\n{note}"));
    }
    text.trim_end().to_owned()
}

fn memory(analysis: &Analysis) -> String {
    let report = &analysis.report;
    let (model, after) = (report.model_bytes, report.after_bytes);
    let keys = match report.logical_keys() {
        1 => "1 key takes".to_owned(),
        keys => format!("{} keys take", count(keys)),
    };
    let measured = analysis.measured.map(|measured| format!("{} as measured, ", bytes(measured.keys_bytes as f64)));
    let (measured, model_bytes) = (measured.unwrap_or_default(), bytes(model as f64));
    let mut text =
        format!("{keys} {measured}{model_bytes} by the model; {} after what is advised", bytes(after as f64));
    if let (Some(now), Some(then)) = (analysis.usd(model as f64), analysis.usd(after as f64)) {
        text.push_str(&format!(": {} instead of {} USD a month", price(then), price(now)));
    }
    text
}

/// What each node of a cluster has.
pub(super) fn nodes(analysis: &Analysis) -> (Heads, Vec<Vec<String>>) {
    let heads = vec![
        Column::name("node"),
        Column::number("slots").rank(3),
        Column::number("keys").rank(1),
        Column::number("bytes, measured"),
        Column::number("a key").rank(4),
        Column::number("by the model").rank(2),
        Column::number("after"),
    ];
    let row = |share: &Share| {
        let measured = share.measured.keys_bytes as f64;
        let each = if share.keys > 0 { tenths(measured / share.keys as f64) } else { String::new() };
        let [model, after] =
            [analysis.report.model_bytes, analysis.report.after_bytes].map(|all| bytes(analysis.of_node(share, all)));
        vec![share.address.clone(), count(share.slots as u64), count(share.keys), bytes(measured), each, model, after]
    };
    (heads, analysis.shares.iter().map(row).collect())
}

/// What takes the memory.
pub(super) fn costs(analysis: &Analysis) -> (Heads, Vec<Vec<String>>) {
    let heads = vec![
        Column::name("keys"),
        Column::number("number"),
        Column::number("bytes now"),
        Column::number("a key").rank(1),
        Column::number("values, median").rank(2),
        Column::number("99th").rank(5),
        Column::number("TTL").rank(3),
        Column::word("compressible").rank(4),
        Column::sentence("stored as").rank(6),
    ];
    let row = |one: &Advised| {
        let family = &one.family;
        let summary = &family.summary;
        let sizes = if summary.values.count() > 0 { &summary.values } else { &summary.elements.counts };
        let unit = if summary.values.count() > 0 { " B" } else { " el" };
        let size = |share| sizes.quantile(share).map_or_else(String::new, |size| decimals(size, 0) + unit);
        vec![
            family.name.clone(),
            estimate(family.keys, |keys| count(rounded(keys))),
            estimate(family.bytes, bytes),
            tenths(family.bytes_per_key()),
            size(0.5),
            size(0.99),
            percent(summary.expiring as f64 / summary.keys.max(1) as f64),
            compressible(one),
            stored_as(one),
        ]
    };
    let folded = analysis.report.folded.iter().map(folded_costs);
    (heads, folded.chain(analysis.report.families.iter().take(SHOWN).map(row)).collect())
}

/// What a folded namespace takes.
fn folded_costs(one: &Folded) -> Vec<String> {
    let mut row = vec![
        one.name.clone(),
        estimate(one.keys, |keys| count(rounded(keys))),
        estimate(one.bytes, bytes),
        tenths(one.bytes_per_key()),
    ];
    row.extend([const { String::new() }; 4]);
    row.push(folded_in(one));
    row
}

/// `folded in 157 buckets`.
pub(super) fn folded_in(one: &Folded) -> String {
    let held = &one.held;
    let mut text = match held.buckets {
        0 => "folded under shorter names".to_owned(),
        buckets => format!("folded in {}", plural(buckets, "bucket")),
    };
    if held.tables > 0 {
        text += &format!(", {} of them hashtables", count(held.tables));
    }
    if held.spills > 0 {
        text += &format!(", and {} in keys of their own", plural(held.spills, "long value"));
    }
    text
}

/// By which line of the layout a namespace is folded, and what is to be done about it.
pub(super) fn folded_how(one: &Folded) -> String {
    let mut text = one.line.clone();
    if let Some(from) = &one.moving_from {
        text += &format!("; a move of its keys from {from} is open, which `keyfold fold` or `keyfold unfold` ends");
    }
    if one.held.tables > 0 {
        text += "; `keyfold doctor` says why some buckets are hashtables";
    }
    text
}

/// How many times shorter a codec makes the values.
fn compressible(one: &Advised) -> String {
    let best = one.choice.as_ref().and_then(|choice| choice.compressible.as_ref());
    best.map_or_else(String::new, |best| format!("{:.1}× {}", best.ratio, best.codec))
}

/// What to do.
pub(super) fn advice(analysis: &Analysis) -> (Heads, Vec<Vec<String>>) {
    let mut heads = vec![
        Column::name("keys"),
        Column::word("do"),
        Column::number("bytes now").rank(3),
        Column::number("after").rank(2),
        Column::number("ratio").rank(1),
        Column::number("read now").rank(6),
        Column::number("after").rank(5),
    ];
    if analysis.usd_per_gb_month.is_some() {
        heads.extend([Column::number("USD a month").rank(4), Column::number("saved").rank(1)]);
    }
    heads.push(Column::sentence("how, or why not"));
    let row = |one: &Advised| {
        let now = one.family.bytes.value;
        let mut row = vec![one.family.name.clone(), one.advice.name().to_owned(), bytes(now), bytes(one.after_bytes)];
        row.push(if one.advice == Advice::Leave {
            String::new()
        } else {
            format!("{:.2}×", now / one.after_bytes.max(1.0))
        });
        let us = |us: f64| format!("{us:.2} µs");
        let choice = one.choice.as_ref();
        row.push(choice.map_or_else(String::new, |choice| us(choice.read_us_now)));
        let after = choice.filter(|_| one.advice.places());
        row.push(after.map_or_else(String::new, |choice| us(choice.read_us_after)));
        if let (Some(cost), Some(saved)) = (analysis.usd(now), analysis.usd(now - one.after_bytes)) {
            row.extend([price(cost), price(saved)]);
        }
        row.push(how(one));
        row
    };
    let folded = analysis.report.folded.iter().map(|one| {
        let mut row = vec![one.name.clone(), "folded".to_owned(), bytes(one.bytes.value)];
        row.extend([const { String::new() }; 4]);
        if let Some(cost) = analysis.usd(one.bytes.value) {
            row.extend([price(cost), String::new()]);
        }
        row.push(folded_how(one));
        row
    });
    (heads, folded.chain(analysis.report.families.iter().take(SHOWN).map(row)).collect())
}

/// The line of a layout, or the reason.
pub(super) fn how(one: &Advised) -> String {
    match (&one.choice, &one.family.template) {
        (Some(choice), Some(template)) if one.advice.places() => {
            let codec = choice.codec.as_ref().map(|codec| format!(", codec = {}", codec.rule)).unwrap_or_default();
            format!("{}{codec}: {}", choice.rule.placement.line(template), one.why)
        }
        _ => one.why.clone(),
    }
}

/// `string (embstr 90 %, int 10 %)`.
pub(super) fn stored_as(one: &Advised) -> String {
    let summary = &one.family.summary;
    let mut stored: Vec<_> = summary.stored.iter().collect();
    stored.sort_by_key(|(_, keys)| std::cmp::Reverse(**keys));
    let all = summary.keys.max(1) as f64;
    let shown = stored.iter().take(3).map(|((kind, encoding), keys)| {
        let kind = if *kind == keyfold_survey::observation::Kind::String { String::new() } else { format!("{kind} ") };
        if stored.len() == 1 {
            format!("{kind}{encoding}")
        } else {
            format!("{kind}{encoding} {}", percent(**keys as f64 / all))
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn estimate(estimate: Estimate, show: impl Fn(f64) -> String) -> String {
    if estimate.within > 0.0 {
        format!("{} ± {}", show(estimate.value), show(estimate.within))
    } else {
        show(estimate.value)
    }
}

pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        small @ ..1.0 => format!("{small:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

fn price(usd: f64) -> String {
    if usd.abs() >= 100.0 { decimals(usd, 0) } else { format!("{usd:.2}") }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of keys")]
fn rounded(keys: f64) -> u64 {
    keys.round() as u64
}
