//! The page as a whole, and how a line of it is written.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, EncodeMetric, LabelSetEncoder, MetricEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::histogram::Histogram;
use signals::{Kind, Metric};

use super::{Metrics, backups, clusters, lock, process};
use crate::health::Health;

/// Everything there is to tell, at the moment of a scrape.
pub(super) struct Page {
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Page")
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let worked_on = lock(&self.metrics.worked_on).clone();
        process::tell(&mut encoder, &self.metrics, &self.health, &worked_on)?;
        clusters::tell(&mut encoder, &worked_on.clusters)?;
        backups::tell(&mut encoder, &worked_on.backups)
    }
}

/// The lines of one metric.
pub(super) struct Lines<'a> {
    metric: &'static Metric,
    encoder: MetricEncoder<'a>,
}

/// Begins a metric: its sentence and its kind.
pub(super) fn begin<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    metric: &'static Metric,
) -> Result<Lines<'a>, fmt::Error> {
    let kind = match metric.kind {
        Kind::Gauge => MetricType::Gauge,
        Kind::Counter => MetricType::Counter,
        Kind::Histogram => MetricType::Histogram,
    };
    let encoder = encoder.encode_descriptor(metric.family(), metric.help, None, kind)?;
    Ok(Lines { metric, encoder })
}

impl Lines<'_> {
    /// A line of a gauge, with the values of its labels in their order.
    pub(super) fn gauge(&mut self, labels: &[&str], value: i64) -> fmt::Result {
        if labels.is_empty() {
            return self.encoder.encode_gauge(&value);
        }
        self.with(labels, |mut encoder| encoder.encode_gauge(&value))
    }

    /// A line of a counter.
    pub(super) fn count(&mut self, labels: &[&str], value: u64) -> fmt::Result {
        self.with(labels, |encoder| ConstCounter::new(value).encode(encoder))
    }

    /// The only line of a counter of seconds.
    pub(super) fn seconds(self, value: f64) -> fmt::Result {
        ConstCounter::new(value).encode(self.encoder)
    }

    /// The lines of a histogram that has no labels.
    pub(super) fn only(self, value: &Histogram) -> fmt::Result {
        value.encode(self.encoder)
    }

    /// The lines of a histogram.
    pub(super) fn histogram(&mut self, labels: &[&str], value: &Histogram) -> fmt::Result {
        self.with(labels, |encoder| value.encode(encoder))
    }

    fn with(
        &mut self,
        values: &[&str],
        write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let names = self.metric.labels;
        debug_assert_eq!(names.len(), values.len(), "{}", self.metric.name);
        let labels = Labels { names, values };
        write(self.encoder.encode_family(&labels)?)
    }
}

/// Labels, each with its value.
struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a [&'a str],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for pair in self.names.iter().copied().zip(self.values.iter().copied()) {
            pair.encode(encoder.encode_label())?;
        }
        Ok(())
    }
}
