//! The formats in which metrics are answered.

use std::fmt;

use bytes::Bytes;
use hyper::header::HeaderMap;

use super::accept::quality;
use super::collector::gather;
use super::exposition::{self, OPENMETRICS};
use super::protobuf::{self, PROTOBUF};
use super::sources::Sources;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// OpenMetrics, in text.
    Text,
    /// Prometheus' messages, which have native histograms.
    Protobuf,
}

impl Format {
    pub(super) const ALL: [Self; 2] = [Self::Text, Self::Protobuf];

    /// Messages for whoever asks for them first, as Prometheus does where it takes native histograms; else text.
    pub(super) fn wanted(headers: &HeaderMap) -> Self {
        let messages = quality(headers, PROTOBUF);
        if messages > 0.0 && messages >= quality(headers, OPENMETRICS) { Self::Protobuf } else { Self::Text }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Text => OPENMETRICS,
            Self::Protobuf => PROTOBUF,
        }
    }

    /// All metrics at this moment.
    pub(super) fn expose(self, sources: &Sources) -> Result<Bytes, fmt::Error> {
        let all = gather(sources);
        Ok(match self {
            Self::Text => exposition::expose(all)?.into(),
            Self::Protobuf => protobuf::expose(&all).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{ACCEPT, HeaderValue};

    use super::*;

    #[test]
    fn prometheus_is_given_what_it_asks_for_first() {
        let wanted = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            Format::wanted(&headers)
        };
        let messages = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let text = "application/openmetrics-text;version=1.0.0";
        // As 2.42 asks with native histograms, as 3.0 asks without them, and as a person does.
        let first = format!("{messages},{text};q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1").leak();
        assert_eq!(wanted(first), Format::Protobuf);
        assert_eq!(wanted(format!("{text};q=0.6,{messages};q=0.5,*/*;q=0.2").leak()), Format::Text);
        assert_eq!(wanted("*/*"), Format::Text);
        assert_eq!(wanted("application/vnd.google.protobuf;encoding=text"), Format::Text);
        assert_eq!(Format::wanted(&HeaderMap::new()), Format::Text);
    }
}
