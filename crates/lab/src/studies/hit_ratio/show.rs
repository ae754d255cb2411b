//! What came of the caches: tables, plots, and where folding wins and loses.

use keyfold_report::plot::{Bars, Origin, Plot, Series};

use super::job::{Given, Keepers, Row};
use super::{LARGE, LFU, LRU, SKEW, SMALL, Whole};
use crate::outcome::{Outcome, Table};
use crate::studies::hit_ratio::objects::Form;

const SIZES: [u64; 2] = [SMALL, LARGE];
/// Differences of less are chance: which keys a server samples for eviction is.
const POINTS_OF_CHANCE: f64 = 0.5;

/// `wholes` are of the objects that most is measured with.
pub(super) fn conclude(all: &[Row], wholes: &[Whole], objects: u64, turnover_s: f64, outcome: &mut Outcome) {
    let main = |row: &&Row| row.given.objects == objects && row.given.form != Form::ByKey;
    let rows = &all.iter().filter(main).copied().collect::<Vec<_>>()[..];
    let kept = kept(all);
    outcome.verdict = match [verdict(rows), kept_verdict(&kept)].concat().trim() {
        "" => "Nothing was measured.".to_owned(),
        said => said.to_owned(),
    };
    for kept in kept.iter().filter(|kept| kept.by_key.given.keepers == Keepers::One) {
        let Given { skew, value_bytes, percent, .. } = kept.by_key.given;
        let requests = skew.map_or_else(|| "the file".to_owned(), |skew| format!("Zipf {skew:.1}"));
        let what =
            format!("by key, over the best of plain keys: {requests}, {value_bytes} bytes, {percent} % of the memory");
        outcome.compare(what, "points", [None, Some(kept.points()), None]);
    }
    for whole in wholes.iter().filter(|whole| whole.value_bytes == SMALL) {
        let what = format!("memory of all objects, {}", whole.form.name());
        outcome.compare_bytes(what, None, [whole.bytes, whole.predicted]);
    }
    outcome.tables.push(kept_table(&kept));
    if !rows.is_empty() {
        outcome.tables.extend([best_table(rows), memory_table(wholes)]);
        outcome.plots.extend(plots(rows));
    }
    outcome.tables.push(caches_table(all));
    outcome.plots.extend(sizes(&kept).into_iter().filter_map(|value_bytes| kept_plot(&kept, value_bytes)));
    outcome.notes.extend(notes(all, turnover_s));
}

/// One kind of value and the server's policy, with the usual requests: what a line of plots is of.
#[derive(Clone, Copy)]
struct Line {
    policy: &'static str,
    value_bytes: u64,
}

impl Line {
    fn rows(self, rows: &[Row]) -> impl Iterator<Item = &Row> {
        rows.iter().filter(move |row| {
            let Given { policy, skew, value_bytes, full_speed, .. } = row.given;
            let usual = skew.is_none_or(|skew| skew == SKEW) && full_speed == (policy == LFU);
            usual && policy == self.policy && value_bytes == self.value_bytes
        })
    }
}

/// Percent points that the cache finds more than the one of plain keys that was given the same.
fn gain(rows: &[Row], row: &Row) -> Option<f64> {
    let plain = rows.iter().find(|other| other.given == Given { form: Form::Plain, ..row.given })?;
    Some((row.tally.hit_ratio() - plain.tally.hit_ratio()) * 100.0)
}

/// A cache that keyfold keeps, and those of plain keys in the same memory.
struct Kept<'a> {
    by_key: &'a Row,
    lru: &'a Row,
    lfu: &'a Row,
}

fn kept(rows: &[Row]) -> Vec<Kept<'_>> {
    let of = |by_key: &Row, policy, full_speed| {
        let wanted = Given { policy, full_speed, form: Form::Plain, keepers: Keepers::One, ..by_key.given };
        rows.iter().find(|row| row.given == wanted)
    };
    let by_key = rows.iter().filter(|row| row.given.form == Form::ByKey);
    by_key
        .filter_map(|by_key| Some(Kept { by_key, lru: of(by_key, LRU, false)?, lfu: of(by_key, LFU, true)? }))
        .collect()
}

impl Kept<'_> {
    /// The better one of plain keys.
    fn plain(&self) -> &Row {
        if self.lru.tally.hit_ratio() > self.lfu.tally.hit_ratio() { self.lru } else { self.lfu }
    }

    /// Percent points that it finds more than that.
    fn points(&self) -> f64 {
        (self.by_key.tally.hit_ratio() - self.plain().tally.hit_ratio()) * 100.0
    }
}

fn verdict(rows: &[Row]) -> String {
    let lines = [LRU, LFU].into_iter().flat_map(|policy| SIZES.map(|value_bytes| Line { policy, value_bytes }));
    let said: Vec<String> = lines.filter_map(|line| range(rows, line)).collect();
    if said.is_empty() {
        return String::new();
    }
    format!("What folded caches find of 100 requests, beside plain keys in the same memory: {}.", said.join("; "))
}

/// Of how many bytes values are, in all caches that keyfold keeps.
fn sizes(kept: &[Kept<'_>]) -> Vec<u64> {
    let mut sizes: Vec<u64> = kept.iter().map(|kept| kept.by_key.given.value_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// What keyfold's own eviction finds, in words.
fn kept_verdict(kept: &[Kept<'_>]) -> String {
    let range = |value_bytes: u64| {
        let is_usual = |given: Given| given.value_bytes == value_bytes && given.keepers == Keepers::One;
        let own = kept.iter().filter(|kept| is_usual(kept.by_key.given));
        let mut points: Vec<f64> = own.map(Kept::points).collect();
        points.sort_by(f64::total_cmp);
        let (worst, best) = (points.first()?, points.last()?);
        Some(format!("with values of {value_bytes} bytes from {worst:+.1} to {best:+.1} points"))
    };
    let said: Vec<String> = sizes(kept).into_iter().filter_map(range).collect();
    if said.is_empty() {
        return String::new();
    }
    format!(" Kept by keyfold, by the key, beside the better of LRU and LFU with plain keys: {}.", said.join("; "))
}

fn kept_table(kept: &[Kept<'_>]) -> Table {
    let percent = |row: &Row| (row.tally.hit_ratio() * 100.0, 1);
    Table::of(
        "kept",
        "Caches that keyfold keeps by the key, and plain keys in the same memory: found, percent of the requests",
        kept,
        &[
            ("zipf", &|kept| kept.by_key.given.skew.map_or("trace".into(), |skew| (skew, 1).into())),
            ("objects", &|kept| kept.by_key.given.objects.into()),
            ("value_bytes", &|kept| kept.by_key.given.value_bytes.into()),
            ("memory_percent", &|kept| kept.by_key.given.percent.into()),
            ("room_bytes", &|kept| kept.by_key.room_bytes.into()),
            ("kept_by", &|kept| kept.by_key.given.keepers.name().into()),
            ("plain_lru", &|kept| percent(kept.lru).into()),
            ("plain_lfu", &|kept| percent(kept.lfu).into()),
            ("by_key", &|kept| percent(kept.by_key).into()),
            ("points", &|kept| (kept.points(), 1).into()),
            ("plain_held", &|kept| kept.plain().tally.held.into()),
            ("by_key_held", &|kept| kept.by_key.tally.held.into()),
            ("counters_bytes", &|kept| kept.by_key.tally.counters_bytes.into()),
            ("evicted_by_server", &|kept| kept.by_key.tally.evicted_keys.into()),
            ("refused_writes", &|kept| kept.by_key.tally.refused.into()),
        ],
    )
}

/// What each finds by its memory; none where that is one.
fn kept_plot(kept: &[Kept<'_>], value_bytes: u64) -> Option<Plot> {
    let usual = |kept: &&Kept<'_>| {
        let Given { skew, value_bytes: bytes, keepers, .. } = kept.by_key.given;
        skew.is_none_or(|skew| skew == SKEW) && bytes == value_bytes && keepers == Keepers::One
    };
    let own: Vec<_> = kept.iter().filter(usual).collect();
    if own.len() < 2 {
        return None;
    }
    let line = |name: &str, color, row: &dyn Fn(&Kept<'_>) -> f64| Series {
        name: name.to_owned(),
        origin: Origin::Measured,
        color,
        points: own.iter().map(|kept| (kept.by_key.given.percent as f64, row(kept) * 100.0)).collect(),
    };
    let lines = vec![
        line("plain, LRU", 0, &|kept| kept.lru.tally.hit_ratio()),
        line("plain, LFU", 1, &|kept| kept.lfu.tally.hit_ratio()),
        line("kept by keyfold", 2, &|kept| kept.by_key.tally.hit_ratio()),
    ];
    let name = if value_bytes == LARGE { "kept-large" } else { "kept" };
    let title = format!("Kept by the key: found by memory, values of {value_bytes} bytes");
    Some(Plot::lines(name, title, "memory, % of what all objects take as plain keys", "found, % of requests", lines))
}

/// The worst and the best of the folded caches, in words.
fn range(rows: &[Row], line: Line) -> Option<String> {
    let folded = line.rows(rows).filter_map(|row| match row.given.form {
        Form::Plain | Form::ByKey => None,
        Form::Buckets(entries) => Some((gain(rows, row)?, entries, row.given.percent)),
    });
    let mut gains: Vec<(f64, u64, u64)> = folded.collect();
    gains.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (worst, best) = (gains.first()?, gains.last()?);
    let Line { policy, value_bytes } = line;
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
        |value_bytes: u64| [LRU, LFU].into_iter().flat_map(move |policy| Line { policy, value_bytes }.rows(rows));
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
        "The best cache of plain keys, and the best one that evicts whole buckets",
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
    let gain = |row: &Row| gain(rows, row).filter(|_| matches!(row.given.form, Form::Buckets(_))).map(|gain| (gain, 2));
    Table::of(
        "caches",
        "Every cache that was measured",
        rows,
        &[
            ("policy", &|row| row.given.policy.into()),
            ("zipf", &|row| skew(row)),
            ("objects", &|row| row.given.objects.into()),
            ("value_bytes", &|row| row.given.value_bytes.into()),
            ("memory_percent", &|row| row.given.percent.into()),
            ("room_bytes", &|row| row.room_bytes.into()),
            ("form", &|row| row.given.form.name().into()),
            ("kept_by", &|row| if row.given.form == Form::ByKey { row.given.keepers.name() } else { "server" }.into()),
            ("speed", &|row| if row.given.full_speed { "full" } else { "held back" }.into()),
            ("requests", &|row| row.tally.requests.into()),
            ("hit_ratio", &|row| (row.tally.hit_ratio(), 4).into()),
            ("points_over_plain", &|row| gain(row).into()),
            ("evicted_keys", &|row| row.tally.evicted_keys.into()),
            ("evicted_objects", &|row| row.tally.evicted().into()),
            ("held_objects", &|row| row.tally.held.into()),
            ("refused_writes", &|row| row.tally.refused.into()),
            ("counters_bytes", &|row| row.tally.counters_bytes.into()),
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
        lines(rows, name, title, y, Line { policy, value_bytes }, value)
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
    line: Line,
    value: &dyn Fn(&Row) -> Option<f64>,
) -> Plot {
    let line = |(color, form): (usize, Form)| {
        let own = line.rows(rows).filter(|row| row.given.form == form);
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
                    objects: row.given.objects,
                    policy: LRU,
                    skew: Some(*skew),
                    value_bytes: SMALL,
                    percent: *percent,
                    form,
                    full_speed: false,
                    keepers: Keepers::One,
                };
                row.given == wanted
            })?;
            gain(rows, row)
        };
        Bars { name: form.name(), origin: Origin::Measured, color, values: given.iter().map(value).collect() }
    };
    let folded = |(_, form): &(usize, Form)| matches!(form, Form::Buckets(_));
    let series = forms(rows).into_iter().enumerate().filter(folded).map(bars).collect();
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
        "Objects are written to keyfold's places by commands in batches, without its proxy; by key, through a keyfold that \
         evicts from a mark at the plain keys' maxmemory, less what its counters of keys take. The first half of the \
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
         keys.{} LFU and keyfold do not depend on it, and run at full speed.",
        if fast.is_empty() { String::new() } else { format!(" At full speed the same caches find: {}.", fast.join(", ")) }
    ));
    let refused: u64 = rows.iter().map(|row| row.tally.refused).sum();
    if refused > 0 {
        notes.push(format!("{refused} writes found no room, as nothing could be evicted in time."));
    }
    notes
}
