//! What came of it: how long reads took by rate, and what each form takes.

use keyfold_report::number::count;

use super::form::Form;
use super::load::Latencies;
use super::{ORIGINAL_RATE, RAISED, Timed, Weighed};
use crate::outcome::{Cell, Comparison, Outcome, Table};
use crate::plot::{Axis, Bars, Content, Origin, Plot, Series};

const MIB: f64 = 1_048_576.0;
/// The original's memory, in what Redis calls M: strings, and hashes.
const ORIGINAL_STRINGS: f64 = 62.09;
const ORIGINAL_HASHES: f64 = 54.58;
/// The histogram's first bar ends here, and each ends so many times further than the one before.
const FIRST_NS: u64 = 20_000;
const NEXT: f64 = 1.3;

pub(super) fn conclude(weighed: &[Weighed], timed: &[Timed], outcome: &mut Outcome) {
    outcome.verdict = verdict(weighed, timed);
    outcome.comparisons.extend(weighed.iter().filter(|one| !matches!(one.form, Form::Fewer(_))).map(memory));
    for (what, quantile) in [("median", 0.5), ("99 %", 0.99)] {
        outcome.comparisons.extend(timed.iter().filter_map(|one| latency(one, what, quantile)));
    }
    outcome.tables.extend([memory_table(weighed), latency_table(timed), histogram_table(timed)]);
    outcome.plots.extend(plots(weighed, timed));
    outcome.notes.extend(allocator_note(weighed));
    outcome.notes.extend(notes());
}

fn at_original(timed: &Timed) -> Option<&Latencies> {
    timed.rates.iter().find(|one| one.rate == ORIGINAL_RATE)
}

/// The most that was answered in a second.
fn most(timed: &Timed) -> f64 {
    timed.rates.iter().map(|one| one.achieved).fold(0.0, f64::max)
}

fn memory(one: &Weighed) -> Comparison {
    let mib = |bytes: u64| Some(bytes as f64 / MIB * 1e6 / one.records as f64);
    Comparison {
        what: format!("memory of a million, {}", one.form.name()),
        unit: "MiB",
        original: match one.form {
            Form::Strings => Some(ORIGINAL_STRINGS),
            Form::Hashes(_) => Some(ORIGINAL_HASHES),
            _ => None,
        },
        measured: mib(one.bytes),
        predicted: mib(one.predicted),
    }
}

fn latency(timed: &Timed, what: &str, quantile: f64) -> Option<Comparison> {
    let measured = Some(at_original(timed)?.quantile_ms(quantile));
    let what = format!("{what} at {ORIGINAL_RATE} a second, {}", timed.form.name());
    Some(Comparison { what, unit: "ms", original: None, measured, predicted: None })
}

fn verdict(weighed: &[Weighed], timed: &[Timed]) -> String {
    let medians: Vec<f64> = timed.iter().filter_map(|one| Some(at_original(one)?.quantile_ms(0.5))).collect();
    let find = |form: Form| timed.iter().find(|one| one.form == form);
    let fewer = timed.iter().find(|one| matches!(one.form, Form::Fewer(_)));
    let (Some(strings), Some(fewer), Some(records)) =
        (find(Form::Strings), fewer, weighed.first().map(|one| one.records))
    else {
        return "Nothing was measured.".to_owned();
    };
    let median = |one: &Timed| at_original(one).map_or(0.0, |one| one.quantile_ms(0.5));
    let mut said = format!(
        "No: at {ORIGINAL_RATE} a second half of the reads took {:.2} ms with {} keys and {:.2} ms with a thousandth of \
         them, and {:.2} to {:.2} ms over all forms; at most {} and {} a second were answered.",
        median(strings),
        count(records),
        median(fewer),
        medians.iter().copied().fold(f64::INFINITY, f64::min),
        medians.iter().copied().fold(0.0, f64::max),
        thousands(most(strings)),
        thousands(most(fewer)),
    );
    if let Some(packed) = find(Form::Hashes(RAISED)) {
        said += &format!(
            " What does change it is the length of a packed hash: with 1,000 fields at most {} reads a second",
            thousands(most(packed))
        );
        if let Some(folded) = find(Form::Folded) {
            said += &format!(", in keyfold's buckets {}", thousands(most(folded)));
        }
        if let Some(through) = find(Form::Through) {
            said += &format!(", through a keyfold on the same cores {}", thousands(most(through)));
        }
        said.push('.');
    }
    said
}

/// As exact as such rates are.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates: positive, below 2^53")]
fn thousands(rate: f64) -> String {
    count((rate / 1000.0).round() as u64 * 1000)
}

fn memory_table(weighed: &[Weighed]) -> Table {
    let row = |one: &Weighed| {
        let each = one.bytes as f64 / one.records as f64;
        vec![one.form.name().into(), one.records.into(), one.bytes.into(), one.predicted.into(), Cell::Number(each, 2)]
    };
    Table {
        name: "memory",
        title: "Memory".to_owned(),
        heads: vec!["form", "records", "measured_bytes", "predicted_bytes", "bytes_per_record"],
        rows: weighed.iter().map(row).collect(),
    }
}

fn latency_table(timed: &[Timed]) -> Table {
    let row = |form: Form, one: &Latencies| {
        let quantile = |quantile: f64| Cell::Number(one.quantile_ms(quantile), 3);
        vec![
            form.name().into(),
            u64::from(one.rate).into(),
            Cell::Number(one.achieved, 0),
            one.histogram.len().into(),
            one.unanswered.into(),
            Cell::Number(one.min_ms(), 3),
            Cell::Number(one.mean_ms(), 3),
            quantile(0.5),
            quantile(0.9),
            quantile(0.95),
            quantile(0.99),
            Cell::Number(one.max_ms(), 3),
        ]
    };
    Table {
        name: "latencies",
        title: "Latencies, from when a read was due".to_owned(),
        heads: vec![
            "form",
            "reads_per_second",
            "answered_per_second",
            "reads",
            "unanswered",
            "min_ms",
            "mean_ms",
            "p50_ms",
            "p90_ms",
            "p95_ms",
            "p99_ms",
            "max_ms",
        ],
        rows: timed.iter().flat_map(|one| one.rates.iter().map(|rate| row(one.form, rate))).collect(),
    }
}

/// Latencies up to so many ms, and their share in percent.
fn histogram(latencies: &Latencies) -> Vec<(f64, u64)> {
    let steps = latencies.histogram.iter_log(FIRST_NS, NEXT);
    steps.map(|step| (step.value_iterated_to() as f64 / 1e6, step.count_since_last_iteration())).collect()
}

fn histogram_table(timed: &[Timed]) -> Table {
    let rows = |one: &Timed| {
        let form = one.form;
        let each = move |rate: &Latencies| {
            let bar = |(up_to, reads): (f64, u64)| {
                vec![form.name().into(), u64::from(rate.rate).into(), Cell::Number(up_to, 3), reads.into()]
            };
            histogram(rate).into_iter().map(bar).collect::<Vec<_>>()
        };
        one.rates.iter().flat_map(each).collect::<Vec<_>>()
    };
    Table {
        name: "histogram",
        title: "Reads by latency".to_owned(),
        heads: vec!["form", "reads_per_second", "up_to_ms", "reads"],
        rows: timed.iter().flat_map(rows).collect(),
    }
}

fn plots(weighed: &[Weighed], timed: &[Timed]) -> [Plot; 4] {
    let by_rate = |quantile: f64| {
        let line = |(color, one): (usize, &Timed)| {
            let points = one.rates.iter().map(|rate| (f64::from(rate.rate), rate.quantile_ms(quantile))).collect();
            Series { name: one.form.name(), origin: Origin::Measured, color, points }
        };
        Content::Lines(timed.iter().enumerate().map(line).collect())
    };
    let plot = |name, title: &str, quantile: f64| Plot {
        name,
        title: title.to_owned(),
        x: Axis::log10("reads a second that are due"),
        y: Axis::log2("latency, ms"),
        content: by_rate(quantile),
    };
    let shares = |(color, one): (usize, &Timed)| {
        let at = at_original(one)?;
        let all = at.histogram.len().max(1) as f64;
        let points = histogram(at).into_iter().map(|(up_to, reads)| (up_to, reads as f64 / all * 100.0)).collect();
        Some(Series { name: one.form.name(), origin: Origin::Measured, color, points })
    };
    [
        plot("median", "Half of the reads took at most", 0.5),
        plot("p99", "99 % of the reads took at most", 0.99),
        Plot {
            name: "histogram",
            title: format!("Reads by latency at {ORIGINAL_RATE} a second"),
            x: Axis::log10("latency, ms"),
            y: Axis::linear("share of the reads, %"),
            content: Content::Lines(timed.iter().enumerate().filter_map(shares).collect()),
        },
        memory_plot(weighed),
    ]
}

fn memory_plot(weighed: &[Weighed]) -> Plot {
    let shown: Vec<&Weighed> = weighed.iter().filter(|one| !matches!(one.form, Form::Fewer(_))).collect();
    let bars = |name: &str, origin, color, value: fn(&Weighed) -> u64| Bars {
        name: name.to_owned(),
        origin,
        color,
        values: shown.iter().map(|one| Some(value(one) as f64 / one.records as f64)).collect(),
    };
    Plot {
        name: "memory",
        title: "Memory by form".to_owned(),
        x: Axis::linear("form"),
        y: Axis::linear("bytes to a record"),
        content: Content::Bars {
            categories: shown.iter().map(|one| one.form.name()).collect(),
            series: vec![
                bars("measured", Origin::Measured, 0, |one| one.bytes),
                bars("model", Origin::Predicted, 0, |one| one.predicted),
            ],
        },
    }
}

/// Why the original's numbers are others, where that is the allocator.
fn allocator_note(weighed: &[Weighed]) -> Option<String> {
    let of = |wanted: fn(Form) -> bool| weighed.iter().find(|one| wanted(one.form));
    let strings = of(|form| form == Form::Strings)?;
    let hashes = of(|form| matches!(form, Form::Hashes(limit) if limit < RAISED))?;
    let mib = |one: &Weighed| one.bundled as f64 / MIB * 1e6 / one.records as f64;
    (strings.bundled.abs_diff(strings.predicted) > strings.predicted / 50).then(|| {
        format!(
            "This server's jemalloc has size classes of 16 bytes, where the one that servers are built with has 8: an entry \
             of a table, 24 bytes, takes 32. With 8 the model says {:.1} MiB for a million strings and {:.1} for hashes \
             over the limit; the original's {ORIGINAL_STRINGS} and {ORIGINAL_HASHES} have the empty server's 0.8 in them.",
            mib(strings),
            mib(hashes)
        )
    })
}

fn notes() -> [String; 3] {
    [
        "Why the original saw no difference with its “configured value”: 1,000 fields are over \
         hash-max-ziplist-entries, 512 by default, so its hashes were hashtables, which save the keys' share of the \
         server's table and little else; and the configuration file with the raised limit was never loaded, so they were \
         hashtables the second time too. `keyfold doctor` finds such hashes and says by how many fields they are over. \
         With a limit that is in force they are packed, at a seventh of the memory."
            .to_owned(),
        "Packed hashes are searched from end to end, so their reads take the server longer the more fields they have: \
         reads go to keyfold's buckets of 126 in a fraction of the time of 1,000. Finding a key takes as many steps however \
         many there are; where a thousandth of them is read faster at the highest rates, it is because they fit into the \
         processor's caches. “Folded, read directly” is HGET on \
         physical places, as a client that knows them would; “through keyfold” is GET by a proxy in the lab's own \
         process, on the same cores as the server and the load, and so includes the proxy's own time."
            .to_owned(),
        "Reads are due at a constant rate, whatever became of those before, and latencies count from then: a read that \
         had to wait for its connection shows it. Late clients send all that is due at once, so that the highest rates \
         are pipelined. A rate of which less than 95 % was answered is the last for its form. The original's memory is \
         what INFO said, in MiB, the empty server's share included; today's is without it."
            .to_owned(),
    ]
}
