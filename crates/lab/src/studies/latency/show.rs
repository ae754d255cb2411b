//! What came of it: how long reads took by rate, and what each form takes.

use keyfold_report::number::count;
use keyfold_report::plot::{Axis, Bars, Origin, Plot, Series};

use super::form::Form;
use super::load::Latencies;
use super::{ORIGINAL_RATE, RAISED, Timed, Weighed};
use crate::outcome::{Outcome, Table};

const MIB: f64 = 1_048_576.0;
/// The original's memory, in what Redis calls M: strings, and hashes.
const ORIGINAL_STRINGS: f64 = 62.09;
const ORIGINAL_HASHES: f64 = 54.58;
/// The histogram's first bar ends here, and each ends so many times further than the one before.
const FIRST_NS: u64 = 20_000;
const NEXT: f64 = 1.3;

pub(super) fn conclude(weighed: &[Weighed], timed: &[Timed], outcome: &mut Outcome) {
    outcome.verdict = verdict(weighed, timed);
    weighed.iter().filter(|one| !matches!(one.form, Form::Fewer(_))).for_each(|one| compare_memory(one, outcome));
    for (what, quantile) in [("median", 0.5), ("99 %", 0.99)] {
        for (form, at) in timed.iter().filter_map(|one| Some((one.form, at_original(one)?))) {
            let what = format!("{what} at {ORIGINAL_RATE} a second, {}", form.name());
            outcome.compare(what, "ms", [None, Some(at.quantile_ms(quantile)), None]);
        }
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

fn compare_memory(one: &Weighed, outcome: &mut Outcome) {
    let mib = |bytes: u64| Some(bytes as f64 / MIB * 1e6 / one.records as f64);
    let original = match one.form {
        Form::Strings => Some(ORIGINAL_STRINGS),
        Form::Hashes(_) => Some(ORIGINAL_HASHES),
        _ => None,
    };
    let what = format!("memory of a million, {}", one.form.name());
    outcome.compare(what, "MiB", [original, mib(one.bytes), mib(one.predicted)]);
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
    Table::of(
        "memory",
        "Memory",
        weighed,
        &[
            ("form", &|one| one.form.name().into()),
            ("records", &|one| one.records.into()),
            ("measured_bytes", &|one| one.bytes.into()),
            ("predicted_bytes", &|one| one.predicted.into()),
            ("bytes_per_record", &|one| (one.bytes as f64 / one.records as f64, 2).into()),
        ],
    )
}

fn latency_table(timed: &[Timed]) -> Table {
    Table::of(
        "latencies",
        "Latencies, from when a read was due",
        timed.iter().flat_map(|one| one.rates.iter().map(|rate| (one.form, rate))),
        &[
            ("form", &|(form, _)| form.name().into()),
            ("reads_per_second", &|(_, one)| u64::from(one.rate).into()),
            ("answered_per_second", &|(_, one)| (one.achieved, 0).into()),
            ("reads", &|(_, one)| one.histogram.len().into()),
            ("unanswered", &|(_, one)| one.unanswered.into()),
            ("min_ms", &|(_, one)| (one.min_ms(), 3).into()),
            ("mean_ms", &|(_, one)| (one.mean_ms(), 3).into()),
            ("p50_ms", &|(_, one)| (one.quantile_ms(0.5), 3).into()),
            ("p90_ms", &|(_, one)| (one.quantile_ms(0.9), 3).into()),
            ("p95_ms", &|(_, one)| (one.quantile_ms(0.95), 3).into()),
            ("p99_ms", &|(_, one)| (one.quantile_ms(0.99), 3).into()),
            ("max_ms", &|(_, one)| (one.max_ms(), 3).into()),
        ],
    )
}

/// Latencies up to so many ms, and their share in percent.
fn histogram(latencies: &Latencies) -> Vec<(f64, u64)> {
    let steps = latencies.histogram.iter_log(FIRST_NS, NEXT);
    steps.map(|step| (step.value_iterated_to() as f64 / 1e6, step.count_since_last_iteration())).collect()
}

fn histogram_table(timed: &[Timed]) -> Table {
    let rates = timed.iter().flat_map(|one| one.rates.iter().map(|rate| (one.form, rate)));
    Table::of(
        "histogram",
        "Reads by latency",
        rates.flat_map(|(form, rate)| histogram(rate).into_iter().map(move |bar| (form, rate.rate, bar))),
        &[
            ("form", &|(form, ..)| form.name().into()),
            ("reads_per_second", &|(_, rate, _)| u64::from(*rate).into()),
            ("up_to_ms", &|(.., (up_to, _))| (*up_to, 3).into()),
            ("reads", &|(.., (_, reads))| (*reads).into()),
        ],
    )
}

fn plots(weighed: &[Weighed], timed: &[Timed]) -> [Plot; 4] {
    let plot = |name, title: &str, quantile: f64| {
        let line = |(color, one): (usize, &Timed)| {
            let points = one.rates.iter().map(|rate| (f64::from(rate.rate), rate.quantile_ms(quantile))).collect();
            Series { name: one.form.name(), origin: Origin::Measured, color, points }
        };
        let lines = timed.iter().enumerate().map(line).collect();
        Plot::lines(name, title, Axis::log10("reads a second that are due"), Axis::log2("latency, ms"), lines)
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
        Plot::lines(
            "histogram",
            format!("Reads by latency at {ORIGINAL_RATE} a second"),
            Axis::log10("latency, ms"),
            "share of the reads, %",
            timed.iter().enumerate().filter_map(shares).collect(),
        ),
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
    let series = vec![
        bars("measured", Origin::Measured, 0, |one| one.bytes),
        bars("model", Origin::Predicted, 0, |one| one.predicted),
    ];
    let categories = shown.iter().map(|one| one.form.name()).collect();
    Plot::bars("memory", "Memory by form", "form", "bytes to a record", categories, series)
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
