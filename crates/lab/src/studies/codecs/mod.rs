//! `codecs` (me-redis, 2018): shorter names, buckets and compressed values, each alone and all together.
//!
//! The codec of each kind of values is trained and chosen by pairs that are not loaded; what is weighed are others, with
//! the dictionary beside them.

mod form;
mod show;
mod values;

use keyfold_report::number::count;

use crate::bench::Bench;
use crate::ground::Setting;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::study::{About, Study};
use form::{Form, LONG_VALUE, Pair, SHORT_VALUE, Trained};
use keyfold_survey::random::Random;
use values::ValueKind;

const VALUE: &str = "hash-max-listpack-value";
/// The original's number of pairs.
const PAIRS: u64 = 100_000;
/// Pairs that codecs are trained by.
const TRAINED_BY: u64 = 10_000;
/// The first id of those that are weighed, and of those that codecs are trained by.
const WEIGHED: u64 = 1_000_000;
const SEEN: u64 = 7_000_000;

pub(crate) struct Codecs;

/// All pairs of one kind in one form.
struct Point {
    kind: ValueKind,
    form: Form,
    measured: u64,
    predicted: u64,
    /// Ids to a bucket; none where there are no buckets.
    span: Option<u64>,
    /// Values too long for their buckets.
    spills: u64,
}

/// What all forms of one kind share.
struct Subject {
    kind: ValueKind,
    mean_value_bytes: f64,
    codec: String,
}

impl Study for Codecs {
    fn about(&self) -> About {
        About {
            name: "codecs",
            by: "me-redis",
            year: 2018,
            asks: "How much do short names, buckets and compressed values save, each alone and all together?",
            figure: "100,000 pairs take 12 times less memory where values are integers, 3 times for short strings by smaz, \
                     2.5 to 3 for HTML by gz, 3 for JSON.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let pairs = options.sized(4000, PAIRS, PAIRS).clamp(100, 5_000_000);
        let mut outcome = Outcome::new(format!("{} pairs of each kind", count(pairs)));
        let (mut subjects, mut points) = (Vec::new(), Vec::new());
        for kind in ValueKind::ALL {
            subjects.push(study_kind(bench, kind, pairs, options.seed, &mut points, &mut outcome)?);
        }
        points.iter().for_each(|point| outcome.hold(point.measured, point.predicted));
        show::conclude(&subjects, &points, pairs, &mut outcome);
        Ok(outcome)
    }
}

fn study_kind(
    bench: &mut Bench<'_>,
    kind: ValueKind,
    count: u64,
    seed: u64,
    points: &mut Vec<Point>,
    outcome: &mut Outcome,
) -> anyhow::Result<Subject> {
    bench.go_on()?;
    let mut random = Random::new(seed);
    let seen = make(kind, SEEN, count.min(TRAINED_BY), &mut random);
    let pairs = make(kind, WEIGHED, count, &mut random);
    let trained = Trained::by(&seen, count)?;
    let longest = pairs.iter().map(|(_, value)| value.len() as u64).max().unwrap_or(0);
    let limit = if longest < SHORT_VALUE { SHORT_VALUE } else { LONG_VALUE };
    let fits = bench.set(VALUE, limit)? == Setting::Is || limit == SHORT_VALUE;
    for form in Form::ALL {
        if form.is_bucketed() && !fits {
            let (kind, form) = (kind.name(), form.name());
            outcome.left_out.push(format!("{kind}, {form}: the server forbids CONFIG, so {VALUE} can't be set"));
        } else {
            points.push(measure(bench, kind, form, &pairs, &trained)?);
        }
    }
    let bytes: usize = pairs.iter().map(|(_, value)| value.len()).sum();
    Ok(Subject { kind, mean_value_bytes: bytes as f64 / count as f64, codec: trained.name() })
}

fn make(kind: ValueKind, from: u64, count: u64, random: &mut Random) -> Vec<Pair> {
    (from..from + count).map(|id| (form::key(id), kind.value(id, random))).collect()
}

fn measure(
    bench: &mut Bench<'_>,
    kind: ValueKind,
    form: Form,
    pairs: &[Pair],
    trained: &Trained,
) -> anyhow::Result<Point> {
    let model = bench.model()?;
    let span = form.best_span(pairs, trained, &model)?;
    let physical = form.physical(pairs, span.unwrap_or(1), trained)?;
    let keyspace = physical.predict(&model, bench.prefix_len());
    let what = format!("codecs: {}, {}", kind.name(), form.name());
    let weight = bench.measure(&what, physical.len(), |writer| physical.write(writer))?;
    let (measured, predicted) = (weight.bytes, weight.predicted(&keyspace));
    Ok(Point { kind, form, measured, predicted, span, spills: physical.spills() })
}
