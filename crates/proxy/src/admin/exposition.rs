//! Metrics as OpenMetrics has them in text, by the official client library.
//!
//! That text has classic histograms. Native ones are of [Prometheus' own messages](super::protobuf).

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{self, Registry};

use super::catalog::{Family, Kind, Unit};
use super::series::{Buckets, Sample, Series, Value};

/// The type of what is answered.
pub(super) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Microseconds of a second.
pub(super) const SECOND_US: f64 = 1e6;

/// All metrics, to the end of the text.
pub(super) fn expose(all: Vec<Series>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Gathered(all)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// What was gathered, to be written.
#[derive(Debug)]
struct Gathered(Vec<Series>);

impl Collector for Gathered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Series { family, samples } in self.0.iter().filter(|series| !series.samples.is_empty()) {
            let unit = match family.unit {
                Unit::Bytes => Some(registry::Unit::Bytes),
                Unit::Seconds => Some(registry::Unit::Seconds),
                Unit::None => None,
            };
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
                Kind::Info => MetricType::Info,
            };
            let mut metrics = encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
            samples.iter().try_for_each(|sample| sample.encode(family, &mut metrics))?;
        }
        Ok(())
    }
}

impl Sample {
    fn encode(&self, family: &Family, metrics: &mut MetricEncoder<'_>) -> fmt::Result {
        debug_assert_eq!(self.labels.len(), family.labels.len(), "{}", family.name);
        let labels: Vec<(&str, &str)> =
            family.labels.iter().copied().zip(self.labels.iter().map(String::as_str)).collect();
        let labels = labels.as_slice();
        if family.kind == Kind::Info {
            return metrics.encode_info(&labels);
        }
        if labels.is_empty() {
            return self.value.encode(family.kind, metrics);
        }
        self.value.encode(family.kind, &mut metrics.encode_family(&labels)?)
    }
}

impl Value {
    #[expect(clippy::cast_precision_loss, reason = "seconds need no more than 15 digits")]
    fn encode(&self, kind: Kind, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Number(number) if kind == Kind::Counter => {
                metric.encode_counter::<NoLabelSet, u64, f64>(number, None)
            }
            Self::Number(number) => metric.encode_gauge(number),
            Self::Level(level) => metric.encode_gauge(level),
            Self::Durations(measured) => {
                let durations = &measured.durations;
                let bound = |bound: Option<u64>| bound.map_or(f64::INFINITY, |us| us as f64 / SECOND_US);
                let buckets: Vec<_> = durations.buckets().map(|(us, count)| (bound(us), count)).collect();
                let sum = durations.sum_us() as f64 / SECOND_US;
                metric.encode_histogram::<NoLabelSet>(sum, durations.count(), &buckets, None)
            }
            Self::Buckets(Buckets { counts, sum }) => {
                let count = counts.iter().map(|(_, count)| count).sum();
                metric.encode_histogram::<NoLabelSet>(*sum, count, counts, None)
            }
            Self::Nothing => Ok(()),
        }
    }
}
