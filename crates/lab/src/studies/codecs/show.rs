//! What came of it, as tables, plots and sentences.

use keyfold_report::number::count;
use keyfold_report::plot::{Bars, Origin, Plot};

use super::form::Form;
use super::values::ValueKind;
use super::{PAIRS, Point, Subject};
use crate::outcome::{Outcome, Table};

pub(super) fn conclude(subjects: &[Subject], points: &[Point], pairs: u64, outcome: &mut Outcome) {
    for Subject { kind, .. } in subjects {
        for form in Form::ALL.into_iter().skip(1) {
            let (Some(measured), Some(predicted)) =
                (times(points, *kind, form, measured), times(points, *kind, form, predicted))
            else {
                continue;
            };
            let original = (form == Form::All && pairs == PAIRS).then_some(kind.original());
            let what = format!("{}: {}", kind.name(), form.name());
            outcome.compare(what, "times less than plain", [original, Some(measured), Some(predicted)]);
        }
    }
    outcome.verdict = verdict(subjects, points);
    outcome.notes.push(
        "Values are made up, of few words and fixed shapes, and so more alike than real ones: what codecs reach here is \
         more than what they reach on data of yours. docs/codecs.md measures them on real data, 3 to 7 times for JSON and \
         HTML; keyfold plan on your own."
            .to_owned(),
    );
    outcome.notes.push(
        "zlib is what the original had: each value by itself, without a dictionary. keyfold's codecs are trained by pairs \
         that are not weighed, and their dictionaries are in the bytes. The original's smaz is a fixed table of common \
         English; fsst and zstd learn theirs. For HTML the original has 2.5 to 3; 2.75 stands for it."
            .to_owned(),
    );
    outcome.notes.push(
        "Ids to a bucket are chosen by memory alone. A bucket is searched from its start, so large values take more time \
         the more there are in one: keyfold plan weighs both."
            .to_owned(),
    );
    outcome.notes.push(
        "No codec touches integers, so INCR stays the server's own. \"codec\" alone keeps each key's full name, for \
         comparison; keyfold itself gives it a short one. How long commands take in buckets is in int-buckets, and what \
         encoding costs in docs/codecs.md."
            .to_owned(),
    );
    outcome.tables.push(memory_table(points, pairs));
    outcome.tables.push(codec_table(subjects));
    outcome.plots.push(plot(subjects, points, pairs, "memory", "Memory by kind of values and form", false));
    outcome.plots.push(plot(subjects, points, pairs, "times", "Times less memory than plain", true));
}

fn measured(point: &Point) -> u64 {
    point.measured
}

fn predicted(point: &Point) -> u64 {
    point.predicted
}

fn find(points: &[Point], kind: ValueKind, form: Form) -> Option<&Point> {
    points.iter().find(|point| point.kind == kind && point.form == form)
}

/// How many times less the form takes than plain keys.
fn times(points: &[Point], kind: ValueKind, form: Form, bytes: fn(&Point) -> u64) -> Option<f64> {
    let (plain, form) = (find(points, kind, Form::Plain)?, find(points, kind, form)?);
    Some(bytes(plain) as f64 / bytes(form) as f64)
}

fn verdict(subjects: &[Subject], points: &[Point]) -> String {
    let one = |Subject { kind, .. }: &Subject| {
        let times = times(points, *kind, Form::All, measured)?;
        Some(format!("{} {times:.1} ({} in the original)", kind.name(), original(*kind)))
    };
    let all: Vec<_> = subjects.iter().filter_map(one).collect();
    format!("All together, memory shrinks so many times against plain keys: {}.", all.join(", "))
}

fn original(kind: ValueKind) -> String {
    if kind == ValueKind::Html { "2.5 to 3".to_owned() } else { kind.original().to_string() }
}

fn memory_table(points: &[Point], pairs: u64) -> Table {
    let title = format!("Memory of {} pairs of each kind", count(pairs));
    Table::of(
        "memory",
        title,
        points,
        &[
            ("values", &|point| point.kind.name().into()),
            ("form", &|point| point.form.name().into()),
            ("measured_bytes", &|point| point.measured.into()),
            ("predicted_bytes", &|point| point.predicted.into()),
            ("bytes_per_pair", &|point| (point.measured as f64 / pairs as f64, 1).into()),
            ("times_less", &|point| times(points, point.kind, point.form, measured).map(|times| (times, 2)).into()),
            ("ids_per_bucket", &|point| point.span.into()),
            ("spilled_values", &|point| point.spills.into()),
        ],
    )
}

fn codec_table(subjects: &[Subject]) -> Table {
    Table::of(
        "codecs",
        "The values, and the codec that was best on some that it had not seen",
        subjects,
        &[
            ("values", &|subject| subject.kind.name().into()),
            ("mean_bytes", &|subject| (subject.mean_value_bytes, 1).into()),
            ("codec", &|subject| subject.codec.clone().into()),
        ],
    )
}

fn plot(subjects: &[Subject], points: &[Point], pairs: u64, name: &'static str, title: &str, ratio: bool) -> Plot {
    let value = |kind, form| {
        let point = find(points, kind, form)?;
        if ratio { times(points, kind, form, measured) } else { Some(point.measured as f64 / pairs as f64) }
    };
    let forms = Form::ALL.into_iter().enumerate().skip(usize::from(ratio));
    let bars = forms.map(|(color, form)| Bars {
        name: form.name().to_owned(),
        origin: Origin::Measured,
        color,
        values: subjects.iter().map(|subject| value(subject.kind, form)).collect(),
    });
    let original = ratio.then(|| Bars {
        name: "all, in the original".to_owned(),
        origin: Origin::Original,
        color: Form::ALL.len() - 1,
        values: subjects.iter().map(|subject| Some(subject.kind.original())).collect(),
    });
    let y = if ratio { "times less than plain" } else { "bytes a pair" };
    let categories = subjects.iter().map(|subject| subject.kind.name().to_owned()).collect();
    Plot::bars(name, title, "values", y, categories, bars.chain(original).collect())
}
