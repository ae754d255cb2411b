//! What came of the caches: tables, plots, and where folding wins and loses.

use keyfold_report::plot::{Bars, Origin, Plot, Series};

use super::{Given, LARGE, LFU, LRU, Row, SKEW, SMALL, Whole};
use crate::outcome::{Outcome, Table};
use crate::studies::hit_ratio::objects::Form;

const SIZES: [u64; 2] = [SMALL, LARGE];
/// Differences of less are chance: which keys a server samples for eviction is.
const POINTS_OF_CHANCE: f64 = 0.5;

pub(super) fn conclude(rows: &[Row], wholes: &[Whole], turnover_s: f64, outcome: &mut Outcome) {
    outcome.verdict = verdict(rows);
    for whole in wholes.iter().filter(|whole| whole.value_bytes == SMALL) {
        let what = format!("memory of all objects, {}", whole.form.name());
        outcome.compare_bytes(what, None, [whole.bytes, whole.predicted]);
    }
    outcome.tables.extend([best_table(rows), memory_table(wholes), caches_table(rows)]);
    outcome.plots.extend(plots(rows));
    outcome.notes.extend(notes(rows, turnover_s));
}

/// One kind of stream, value and policy: what a line of plots is of.
#[derive(Clone, Copy)]
struct Subject {
    policy: &'static str,
    value_bytes: u64,
}

impl Subject {
    fn rows(self, rows: &[Row]) -> impl Iterator<Item = &Row> {
        rows.iter().filter(move |row| {
            let Given { policy, skew, value_bytes, full_speed, .. } = row.given;
            let usual = skew.is_none_or(|skew| skew == SKEW);
            full_speed == (policy == LFU) && usual && policy == self.policy && value_bytes == self.value_bytes
        })
    }
}

/// Percent points that the cache finds more than the one of plain keys that was given the same.
fn gain(rows: &[Row], row: &Row) -> Option<f64> {
    let plain = rows.iter().find(|other| other.given == Given { form: Form::Plain, ..row.given })?;
    Some((row.tally.hit_ratio() - plain.tally.hit_ratio()) * 100.0)
}

fn verdict(rows: &[Row]) -> String {
    let subjects = [LRU, LFU].into_iter().flat_map(|policy| SIZES.map(|value_bytes| Subject { policy, value_bytes }));
    let said: Vec<String> = subjects.filter_map(|subject| range(rows, subject)).collect();
    if said.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    format!("What folded caches find of 100 requests, beside plain keys in the same memory: {}.", said.join("; "))
}

/// The worst and the best of the folded caches, in words.
fn range(rows: &[Row], subject: Subject) -> Option<String> {
    let folded = subject.rows(rows).filter_map(|row| match row.given.form {
        Form::Plain => None,
        Form::Buckets(entries) => Some((gain(rows, row)?, entries, row.given.percent)),
    });
    let mut gains: Vec<(f64, u64, u64)> = folded.collect();
    gains.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (worst, best) = (gains.first()?, gains.last()?);
    let Subject { policy, value_bytes } = subject;
    let under = format!("under {policy} with values of {value_bytes} bytes");
    if worst.0 > -POINTS_OF_CHANCE && best.0 < POINTS_OF_CHANCE {
        return Some(format!("{under} the same"));
    }
    let points = |gain: f64| format!("{:.1} {}", gain.abs(), if gain < 0.0 { "fewer" } else { "more" });
    let lost = if worst.0 < -POINTS_OF_CHANCE {
        format!(" (at {} a bucket and memory for {} % of the plain keys)", worst.1, worst.2)
    } else {
        String::new()
    };
    Some(format!("{under} from {}{lost} to {}", points(worst.0), points(best.0)))
}

/// The best cache of plain keys and the best folded one, whatever their policy.
fn best_table(rows: &[Row]) -> Table {
    let usual =
        |value_bytes: u64| [LRU, LFU].into_iter().flat_map(move |policy| Subject { policy, value_bytes }.rows(rows));
    let bests = |&(value_bytes, percent): &(u64, u64)| {
        let best = |plain: bool| {
            let own = usual(value_bytes).filter(|row| row.given.percent == percent);
            let own = own.filter(|row| (row.given.form == Form::Plain) == plain);
            own.max_by(|one, other| one.tally.hit_ratio().total_cmp(&other.tally.hit_ratio()))
        };
        best(true).zip(best(false))
    };
    let mut given: Vec<(u64, u64)> = rows.iter().map(|row| (row.given.value_bytes, row.given.percent)).collect();
    given.sort_unstable();
    given.dedup();
    Table::of(
        "best",
        "The best cache of plain keys, and the best folded one",
        given.iter().filter_map(bests),
        &[
            ("value_bytes", &|(plain, _)| plain.given.value_bytes.into()),
            ("memory_percent", &|(plain, _)| plain.given.percent.into()),
            ("plain_policy", &|(plain, _)| plain.given.policy.into()),
            ("plain_hit_ratio", &|(plain, _)| (plain.tally.hit_ratio(), 4).into()),
            ("folded_policy", &|(_, folded)| folded.given.policy.into()),
            ("folded_form", &|(_, folded)| folded.given.form.name().into()),
            ("folded_hit_ratio", &|(_, folded)| (folded.tally.hit_ratio(), 4).into()),
        ],
    )
}

fn memory_table(wholes: &[Whole]) -> Table {
    Table::of(
        "memory",
        "What all objects take, without a limit",
        wholes,
        &[
            ("value_bytes", &|whole| whole.value_bytes.into()),
            ("form", &|whole| whole.form.name().into()),
            ("measured_bytes", &|whole| whole.bytes.into()),
            ("predicted_bytes", &|whole| whole.predicted.into()),
        ],
    )
}

fn caches_table(rows: &[Row]) -> Table {
    let skew = |row: &Row| row.given.skew.map_or("trace".into(), |skew| (skew, 1).into());
    let gain = |row: &Row| gain(rows, row).filter(|_| row.given.form != Form::Plain).map(|gain| (gain, 2));
    Table::of(
        "caches",
        "Every cache that was measured",
        rows,
        &[
            ("policy", &|row| row.given.policy.into()),
            ("zipf", &|row| skew(row)),
            ("value_bytes", &|row| row.given.value_bytes.into()),
            ("memory_percent", &|row| row.given.percent.into()),
            ("room_bytes", &|row| row.room_bytes.into()),
            ("form", &|row| row.given.form.name().into()),
            ("speed", &|row| if row.given.full_speed { "full" } else { "held back" }.into()),
            ("requests", &|row| row.tally.requests.into()),
            ("hit_ratio", &|row| (row.tally.hit_ratio(), 4).into()),
            ("points_over_plain", &|row| gain(row).into()),
            ("evicted_keys", &|row| row.tally.evicted_keys.into()),
            ("evicted_objects", &|row| row.tally.evicted().into()),
            ("held_objects", &|row| row.tally.held.into()),
            ("refused_writes", &|row| row.tally.refused.into()),
            ("seconds", &|row| (row.tally.seconds, 2).into()),
        ],
    )
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let found = |row: &Row| Some(row.tally.hit_ratio() * 100.0);
    let points = |row: &Row| gain(rows, row);
    // Evictions are of all requests, of which half count.
    let evictions = |row: &Row| Some(row.tally.evicted() as f64 / row.tally.requests.max(1) as f64 * 500.0);
    let plot = |name, what: &str, y: &str, policy, value_bytes, value: &dyn Fn(&Row) -> Option<f64>| {
        let title = format!("{what}, {policy}, values of {value_bytes} bytes");
        lines(rows, name, title, y, Subject { policy, value_bytes }, value)
    };
    let (hits, hits_y) = ("Hit ratio by memory", "found, % of requests");
    let (gain, gain_y) = ("Folded against plain", "found more than plain keys, points");
    let (lost, lost_y) = ("Objects evicted", "objects evicted to 1,000 requests");
    let mut plots = vec![
        plot("hits-lru", hits, hits_y, LRU, SMALL, &found),
        plot("hits-lfu", hits, hits_y, LFU, SMALL, &found),
        plot("gain-lru", gain, gain_y, LRU, SMALL, &points),
        plot("gain-lfu", gain, gain_y, LFU, SMALL, &points),
        plot("gain-lru-large", gain, gain_y, LRU, LARGE, &points),
        plot("gain-lfu-large", gain, gain_y, LFU, LARGE, &points),
        plot("evictions-lru", lost, lost_y, LRU, SMALL, &evictions),
        plot("evictions-lfu", lost, lost_y, LFU, SMALL, &evictions),
    ];
    plots.extend(skew_plot(rows));
    plots
}

fn forms(rows: &[Row]) -> Vec<Form> {
    let mut forms = Vec::new();
    for row in rows {
        if !forms.contains(&row.given.form) {
            forms.push(row.given.form);
        }
    }
    forms
}

fn lines(
    rows: &[Row],
    name: &'static str,
    title: String,
    y: &str,
    subject: Subject,
    value: &dyn Fn(&Row) -> Option<f64>,
) -> Plot {
    let line = |(color, form): (usize, Form)| {
        let own = subject.rows(rows).filter(|row| row.given.form == form);
        let points = own.filter_map(|row| Some((row.given.percent as f64, value(row)?))).collect();
        Series { name: form.name(), origin: Origin::Measured, color, points }
    };
    let lines = forms(rows).into_iter().enumerate().map(line).collect();
    Plot::lines(name, title, "memory, % of what all objects take as plain keys", y, lines)
}

/// Folded against plain by skew; none for a trace.
fn skew_plot(rows: &[Row]) -> Option<Plot> {
    let others: Vec<&Row> = rows.iter().filter(|row| row.given.skew.is_some_and(|skew| skew != SKEW)).collect();
    let mut given: Vec<(u64, f64)> = Vec::new();
    for row in &others {
        let percent = row.given.percent;
        given.extend([row.given.skew?, SKEW].map(|skew| (percent, skew)));
    }
    given.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    given.dedup();
    if given.is_empty() {
        return None;
    }
    let bars = |(color, form): (usize, Form)| {
        let value = |(percent, skew): &(u64, f64)| {
            let row = rows.iter().find(|row| {
                let wanted = Given {
                    policy: LRU,
                    skew: Some(*skew),
                    value_bytes: SMALL,
                    percent: *percent,
                    form,
                    full_speed: false,
                };
                row.given == wanted
            })?;
            gain(rows, row)
        };
        Bars { name: form.name(), origin: Origin::Measured, color, values: given.iter().map(value).collect() }
    };
    let series = forms(rows).into_iter().enumerate().filter(|(_, form)| *form != Form::Plain).map(bars).collect();
    Some(Plot::bars(
        "gain-skew",
        format!("Folded against plain by the requests' skew, {LRU}, values of {SMALL} bytes"),
        "Zipf's exponent, and memory in % of what all objects take as plain keys",
        "found more than plain keys, points",
        given.iter().map(|(percent, skew)| format!("{skew:.1}, {percent} %")).collect(),
        series,
    ))
}

fn notes(rows: &[Row], turnover_s: f64) -> Vec<String> {
    let mut notes = vec![
        "A server evicts keys, and a bucket is one. Folding lets more objects into the same memory, but what stays is \
         chosen by the bucket: an object that nobody asks for stays with a popular neighbour, and leaves with unpopular \
         ones. Under LFU the popular buckets stay for good and fill with all that was ever asked for, and every other one is \
         new, seldom used, and soon gone: so it loses where not everything fits. Under LRU a bucket is gone as a whole now \
         and then, and comes back with what is asked for alone. Which objects share a bucket is by chance here; where \
         neighbours are popular together, folding loses less."
            .to_owned(),
        "Objects are written to keyfold's places by commands in batches, without its proxy. The first half of the \
         requests fills the cache; hit ratios are of the second half, evictions of all. Which keys a server samples \
         for eviction is by chance, so hit ratios differ by some tenths of a point from run to run, and from seed to seed; \
         what all objects take does not."
            .to_owned(),
    ];
    let fast: Vec<String> = rows
        .iter()
        .filter(|row| row.given.full_speed && row.given.policy == LRU)
        .filter_map(|row| {
            let slow = rows.iter().find(|other| other.given == Given { full_speed: false, ..row.given })?;
            let (slow, fast) = (slow.tally.hit_ratio() * 100.0, row.tally.hit_ratio() * 100.0);
            Some(format!("{} {fast:.1} % instead of {slow:.1} %", row.given.form.name()))
        })
        .collect();
    notes.push(format!(
        "A server tells idle times by whole seconds. So under {LRU} requests are held back to a speed at which a cache of \
         plain keys is turned over in some {turnover_s} s; faster, its LRU would be near to chance, which is worse for plain \
         keys.{} LFU does not depend on it, and runs at full speed.",
        if fast.is_empty() { String::new() } else { format!(" At full speed the same caches find: {}.", fast.join(", ")) }
    ));
    let refused: u64 = rows.iter().map(|row| row.tally.refused).sum();
    if refused > 0 {
        notes.push(format!("{refused} writes found no room, as nothing could be evicted in time."));
    }
    notes
}
