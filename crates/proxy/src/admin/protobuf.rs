//! Metrics as Prometheus has them in protobuf, with native histograms beside the classic ones.
//!
//! The messages are those of `io.prometheus.client` (`metrics.proto` of Prometheus' client model), as far as anything here
//! fills them; the client library builds its own by a compiler that has to be installed.

use keyfold_core::stats::{NATIVE_SCHEMA, NATIVE_ZERO_THRESHOLD_S, NativeDurations};
use prost::Message;

use super::catalog::{Family, Kind};
use super::exposition::SECOND_US;
use super::series::{Buckets, Measured, Sample, Series, Value};

/// The type of what is answered.
pub(super) const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(enumeration = "MetricType", optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    unit: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// A gauge or a counter, which are the same but for what neither has here.
#[derive(Clone, Copy, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sample_sum: Option<f64>,
    /// Of the classic histogram.
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_spans: Vec<BucketSpan>,
    /// Each bucket's count less that of the one before.
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_deltas: Vec<i64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

/// Buckets that lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct BucketSpan {
    /// How many empty ones lie between them and the span before; of the first its number.
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

/// All metrics, each family behind its length.
pub(super) fn expose(all: &[Series]) -> Vec<u8> {
    let families = all.iter().filter(|series| !series.samples.is_empty()).map(MetricFamily::from);
    families.flat_map(|family| family.encode_length_delimited_to_vec()).collect()
}

impl From<&Series> for MetricFamily {
    fn from(Series { family, samples }: &Series) -> Self {
        let kind = match family.kind {
            Kind::Counter => MetricType::Counter,
            // Infos are of OpenMetrics.
            Kind::Gauge | Kind::Info => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        Self {
            name: Some(family.full_name()),
            help: Some(family.help.to_owned()),
            kind: Some(kind.into()),
            metrics: samples.iter().map(|sample| Metric::of(family, sample)).collect(),
            unit: family.unit.word().map(str::to_owned),
        }
    }
}

impl Metric {
    fn of(family: &Family, sample: &Sample) -> Self {
        let label =
            |(name, value): (&&str, &String)| LabelPair { name: Some((*name).to_owned()), value: Some(value.clone()) };
        let labels = family.labels.iter().zip(&sample.labels).map(label).collect();
        let mut metric = Self { labels, ..Self::default() };
        let mut number = |value: f64| {
            let value = Some(Number { value: Some(value) });
            *(if family.kind == Kind::Counter { &mut metric.counter } else { &mut metric.gauge }) = value;
        };
        match &sample.value {
            Value::Number(value) => number(*value as f64),
            Value::Level(value) => number(*value),
            Value::Nothing => number(1.0),
            Value::Durations(measured) => metric.histogram = Some(Histogram::of(measured)),
            Value::Buckets(buckets) => metric.histogram = Some(Histogram::classic(buckets)),
        }
        metric
    }
}

fn buckets(counts: impl Iterator<Item = (f64, u64)>) -> Vec<Bucket> {
    let mut cumulative_count = 0;
    let bucket = |(bound, count)| {
        cumulative_count += count;
        Bucket { cumulative_count: Some(cumulative_count), upper_bound: Some(bound) }
    };
    counts.map(bucket).collect()
}

impl Histogram {
    fn of(Measured { durations, native }: &Measured) -> Self {
        let bound = |us: Option<u64>| us.map_or(f64::INFINITY, |us| us as f64 / SECOND_US);
        let (positive_spans, positive_deltas) = spans(native);
        Self {
            // What was counted while this was read may be in the one and not yet in the other.
            sample_count: Some(native.count()),
            sample_sum: Some(durations.sum_us() as f64 / SECOND_US),
            buckets: buckets(durations.buckets().map(|(us, count)| (bound(us), count))),
            schema: Some(NATIVE_SCHEMA),
            zero_threshold: Some(NATIVE_ZERO_THRESHOLD_S),
            zero_count: Some(native.zero()),
            positive_spans,
            positive_deltas,
        }
    }

    /// One that has no native form.
    fn classic(Buckets { counts, sum }: &Buckets) -> Self {
        Self {
            sample_count: Some(counts.iter().map(|(_, count)| count).sum()),
            sample_sum: Some(*sum),
            buckets: buckets(counts.iter().copied()),
            ..Self::default()
        }
    }
}

/// Where buckets lie, and by how much each count differs from the one before.
fn spans(native: &NativeDurations) -> (Vec<BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<BucketSpan>::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for (number, count) in native.buckets() {
        match spans.last_mut() {
            Some(BucketSpan { length: Some(length), .. }) if number == next => *length += 1,
            _ => spans.push(BucketSpan { offset: Some(number - next), length: Some(1) }),
        }
        let count = count.cast_signed();
        deltas.push(count - before);
        (next, before) = (number + 1, count);
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use keyfold_core::stats::{Durations, Histogram as Noted};

    use super::*;
    use crate::admin::catalog;

    fn measured(all: &[u64]) -> Measured {
        let noted = Noted::default();
        all.iter().for_each(|took_us| noted.note(*took_us));
        let mut measured = Measured { durations: Durations::default(), native: NativeDurations::default() };
        measured.add(&noted);
        measured
    }

    #[test]
    fn native_buckets_are_spans_and_differences() {
        // Up to 1.0 s is bucket 0, up to 1.09 s bucket 1, up to 2 s bucket 8; each is told apart to a sixteenth.
        let histogram = Histogram::of(&measured(&[3, 980_000, 980_000, 1_045_000, 1_960_000, 1_960_000]));
        let span = |offset, length| BucketSpan { offset: Some(offset), length: Some(length) };
        assert_eq!(histogram.positive_spans, [span(0, 2), span(6, 1)]);
        assert_eq!(histogram.positive_deltas, [2, -1, 1]);
        assert_eq!((histogram.zero_count, histogram.sample_count), (Some(1), Some(6)));
        assert_eq!(histogram.sample_sum, Some(6.925_003));
        let last = histogram.buckets.last().unwrap();
        assert_eq!((last.cumulative_count, last.upper_bound), (Some(6), Some(f64::INFINITY)));
    }

    #[test]
    fn a_family_is_read_back_as_it_was_written() {
        let family = &catalog::COMMAND_DURATION;
        let sample = Sample { labels: vec!["get".to_owned()], value: Value::Durations(Box::new(measured(&[40]))) };
        let bytes =
            expose(&[Series { family: &catalog::WORKERS, samples: vec![] }, Series { family, samples: vec![sample] }]);
        let read = MetricFamily::decode_length_delimited(&bytes[..]).unwrap();
        assert_eq!(read.name.as_deref(), Some("keyfold_command_duration_seconds"));
        assert_eq!((read.kind(), read.unit.as_deref()), (MetricType::Histogram, Some("seconds")));
        assert_eq!(read.metrics[0].labels[0].value.as_deref(), Some("get"));
        assert_eq!(read.metrics[0].histogram, Some(Histogram::of(&measured(&[40]))));
        assert_eq!(read.encoded_len() + prost::length_delimiter_len(read.encoded_len()), bytes.len());
    }
}
