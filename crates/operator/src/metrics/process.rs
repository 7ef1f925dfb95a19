//! How the operator itself is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use prometheus_client::encoding::DescriptorEncoder;
use signals::Metric;
use signals::metrics::operator;

use super::page::begin;
use super::{Admission, Counted, Metrics, Step, WorkedOn, lock};
use crate::descriptors;
use crate::health::{CacheState, Health};
use crate::usage::{Usage, usage};

pub(super) fn tell(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &Metrics,
    health: &Health,
    worked_on: &WorkedOn,
) -> fmt::Result {
    of_the_replica(encoder, metrics, worked_on)?;
    of_what_was_done(encoder, &lock(&metrics.counted))?;
    of_calls(encoder, worked_on)?;
    of_the_caches(encoder, health)?;
    of_admission(encoder, &lock(&metrics.admission).clone())?;
    of_the_process(encoder, metrics)
}

fn of_the_replica(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &Metrics,
    worked_on: &WorkedOn,
) -> fmt::Result {
    let release = env!("CARGO_PKG_VERSION");
    begin(encoder, &operator::BUILD)?.gauge(&[release], 1_i64)?;
    let leading = metrics.leading.load(Ordering::Relaxed);
    alone(encoder, &operator::LEADING, Some(i64::from(leading)))?;
    let clusters = worked_on.clusters.iter().map(|(store, _)| store.len());
    let clusters = i64::try_from(clusters.sum::<usize>()).ok();
    alone(encoder, &operator::CLUSTERS, clusters)?;
    let in_flight = metrics.in_flight.load(Ordering::Relaxed);
    alone(encoder, &operator::LOOKS_IN_FLIGHT, Some(in_flight))?;
    begin(encoder, &operator::LOOK_DURATION)?.only(&metrics.looks)
}

fn of_what_was_done(encoder: &mut DescriptorEncoder<'_>, counted: &Counted) -> fmt::Result {
    let mut lines = begin(encoder, &operator::STEPS)?;
    for (step, count) in &counted.steps {
        let Step {
            name,
            reason,
            outcome,
        } = step;
        lines.count(&[name, &reason.to_string(), outcome], *count)?;
    }
    let mut lines = begin(encoder, &operator::STEP_DURATION)?;
    for (step, seconds) in &counted.seconds {
        lines.histogram(&[step], seconds)?;
    }
    let mut lines = begin(encoder, &operator::CHANGE_DURATION)?;
    for (kind, seconds) in &counted.changes {
        lines.histogram(&[kind], seconds)?;
    }
    let mut lines = begin(encoder, &operator::API_REQUESTS)?;
    for (request, count) in &counted.requests {
        let code = request.code.to_string();
        lines.count(&[request.verb, &request.resource, &code], *count)?;
    }
    Ok(())
}

fn of_calls(encoder: &mut DescriptorEncoder<'_>, worked_on: &WorkedOn) -> fmt::Result {
    let mut sums: BTreeMap<(&'static str, bool), u64> = BTreeMap::new();
    for calls in &worked_on.calls {
        for (call, count) in calls.counts() {
            let sum = sums.entry(call).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    let mut lines = begin(encoder, &operator::ETCD_REQUESTS)?;
    for ((call, went_well), count) in sums {
        let outcome = if went_well { "ok" } else { "failed" };
        lines.count(&[call, outcome], count)?;
    }
    Ok(())
}

fn of_the_caches(encoder: &mut DescriptorEncoder<'_>, health: &Health) -> fmt::Result {
    let caches = health.caches();
    let mut lines = begin(encoder, &operator::WATCH_FAILURES)?;
    for (kind, state) in &caches {
        lines.count(&[kind], state.failures)?;
    }
    let second = |time: Option<Timestamp>| time.map(Timestamp::as_second);
    let mut tell = |metric, value: &dyn Fn(&CacheState) -> Option<i64>| {
        let mut lines = begin(encoder, metric)?;
        for (kind, state) in &caches {
            if let Some(value) = value(state) {
                lines.gauge(&[kind], value)?;
            }
        }
        Ok(())
    };
    tell(&operator::CACHE_FILLED, &|state| {
        Some(i64::from(state.filled))
    })?;
    tell(&operator::CACHE_NEWS, &|state| second(state.news))?;
    tell(&operator::CACHE_FAILING, &|state| second(state.failing))?;
    let mut lines = begin(encoder, &operator::NAMESPACE_READABLE)?;
    for (namespace, known) in health.scopes() {
        lines.gauge(&[&namespace], i64::from(known))?;
    }
    Ok(())
}

fn of_admission(encoder: &mut DescriptorEncoder<'_>, admission: &Admission) -> fmt::Result {
    let mut lines = begin(encoder, &operator::ADMISSION_REVIEWS)?;
    for (answer, count) in &admission.reviews {
        lines.count(&[answer], *count)?;
    }
    let configured = admission.configured.map(i64::from);
    alone(encoder, &operator::ADMISSION_CONFIGURED, configured)?;
    let expires = admission.expires.map(Timestamp::as_second);
    alone(encoder, &operator::ADMISSION_EXPIRES, expires)
}

fn of_the_process(encoder: &mut DescriptorEncoder<'_>, metrics: &Metrics) -> fmt::Result {
    let open = descriptors::count().and_then(|count| i64::try_from(count).ok());
    alone(encoder, &operator::PROCESS_OPEN, open)?;
    let most = descriptors::most().and_then(|most| i64::try_from(most).ok());
    alone(encoder, &operator::PROCESS_MOST, most)?;
    let Usage { processor, memory } = usage();
    let lines = begin(encoder, &operator::PROCESS_CPU)?;
    if let Some(processor) = processor {
        lines.seconds(processor.as_secs_f64())?;
    }
    let memory = memory.and_then(|bytes| i64::try_from(bytes).ok());
    alone(encoder, &operator::PROCESS_MEMORY, memory)?;
    let started = metrics.started.as_second();
    alone(encoder, &operator::PROCESS_START, Some(started))
}

/// A number without labels, where it is known.
fn alone(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &'static Metric,
    value: Option<i64>,
) -> fmt::Result {
    let mut lines = begin(encoder, metric)?;
    value.map_or(Ok(()), |value| lines.gauge(&[], value))
}
