//! `/metrics`: what was done, and how every cluster and every backup is, as Prometheus reads it. Names and sentences are
//! those of `signals`. Steps are counted; objects are read from their caches on each scrape, so that they cost nothing in
//! between and never disagree with the status.

mod backups;
mod clusters;
mod counts;
mod page;
mod process;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::{EtcdClusterStatus, Reason};
use jiff::Timestamp;
use kube::runtime::reflector::Store;
use plan::status::Outcome;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::backup;
use crate::board::Board;
use crate::caches::Guarded;
use crate::clock;
use crate::health::Health;

pub(crate) use self::counts::outcome_word;
use self::page::Page;

/// Seconds of what is done within a look.
const BRIEF: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Seconds of what takes many looks.
const LONG: [f64; 12] = [
    1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
];

/// What `/metrics` reports.
pub struct Metrics {
    started: Timestamp,
    leading: AtomicBool,
    in_flight: AtomicI64,
    looks: Histogram,
    counted: Mutex<Counted>,
    worked_on: Mutex<WorkedOn>,
    admission: Mutex<Admission>,
}

/// What was done.
#[derive(Default)]
struct Counted {
    steps: BTreeMap<Step, u64>,
    seconds: BTreeMap<&'static str, Histogram>,
    changes: BTreeMap<&'static str, Histogram>,
    requests: BTreeMap<ApiRequest, u64>,
}

/// Where what this replica works on is found.
#[derive(Clone, Default)]
struct WorkedOn {
    clusters: Vec<(Store<Guarded>, Arc<Board>)>,
    backups: Vec<Store<backup::Guarded>>,
    calls: Vec<etcd::Calls>,
}

/// What is known of the webhook; nothing where there is none.
#[derive(Clone, Default)]
struct Admission {
    reviews: BTreeMap<&'static str, u64>,
    configured: Option<bool>,
    expires: Option<Timestamp>,
}

/// A kind of step, why it was taken, and how it went.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    name: &'static str,
    reason: Reason,
    outcome: &'static str,
}

/// A request to the Kubernetes API and the status code of the answer, 0 where there was none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ApiRequest {
    pub(crate) verb: &'static str,
    pub(crate) resource: String,
    pub(crate) code: u16,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            started: clock::now(),
            leading: AtomicBool::default(),
            in_flight: AtomicI64::default(),
            looks: Histogram::new(BRIEF),
            counted: Mutex::default(),
            worked_on: Mutex::default(),
            admission: Mutex::default(),
        }
    }
}

impl Metrics {
    /// Counts a step.
    pub(crate) fn count(&self, name: &'static str, reason: Reason, done: &Outcome) {
        let step = Step {
            name,
            reason,
            outcome: outcome_word(done),
        };
        let mut counted = lock(&self.counted);
        let count = counted.steps.entry(step).or_default();
        *count = count.saturating_add(1);
    }

    /// How long a step took that changes something.
    pub(crate) fn time_step(&self, name: &'static str, took: Duration) {
        let mut counted = lock(&self.counted);
        let seconds = counted.seconds.entry(name);
        let seconds = seconds.or_insert_with(|| Histogram::new(BRIEF));
        seconds.observe(took.as_secs_f64());
    }

    /// A look begins; it ends when this is dropped.
    pub(crate) fn begin_look(&self) -> Look<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        Look {
            metrics: self,
            begun,
        }
    }

    /// A status was written in the place of another one: where that ends a time of not being Ready, its length counts.
    pub(crate) fn changed(&self, old: &EtcdClusterStatus, new: &EtcdClusterStatus, now: Timestamp) {
        let Some((kind, seconds)) = counts::change(old, new, now) else {
            return;
        };
        let mut counted = lock(&self.counted);
        let changes = counted.changes.entry(kind);
        let changes = changes.or_insert_with(|| Histogram::new(LONG));
        changes.observe(seconds);
    }

    /// Counts a request to the Kubernetes API.
    pub(crate) fn count_request(&self, request: ApiRequest) {
        let mut counted = lock(&self.counted);
        let count = counted.requests.entry(request).or_default();
        *count = count.saturating_add(1);
    }

    /// Counts a review by its answer.
    pub(crate) fn count_review(&self, answer: &'static str) {
        let mut admission = lock(&self.admission);
        let count = admission.reviews.entry(answer).or_default();
        *count = count.saturating_add(1);
    }

    /// Whether both webhook configurations are there.
    pub(crate) fn admission_configured(&self, configured: bool) {
        lock(&self.admission).configured = Some(configured);
    }

    /// When the certificate of the webhook expires.
    pub(crate) fn admission_expires(&self, end: Option<Timestamp>) {
        lock(&self.admission).expires = end;
    }

    /// This replica works on clusters.
    pub(crate) fn lead(&self) {
        self.leading.store(true, Ordering::Relaxed);
    }

    /// From now on these clusters are reported, too, with what looks see of them.
    pub(crate) fn watch(&self, clusters: Store<Guarded>, board: Arc<Board>) {
        lock(&self.worked_on).clusters.push((clusters, board));
    }

    /// From now on these backups are reported, too.
    pub(crate) fn watch_backups(&self, backups: Store<backup::Guarded>) {
        lock(&self.worked_on).backups.push(backups);
    }

    /// From now on these calls to members are reported, too.
    pub(crate) fn watch_calls(&self, calls: etcd::Calls) {
        lock(&self.worked_on).calls.push(calls);
    }

    /// Writes all of it, piece by piece.
    pub(crate) fn write(
        self: &Arc<Self>,
        health: &Arc<Health>,
        out: &mut impl fmt::Write,
    ) -> fmt::Result {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Page {
            metrics: Arc::clone(self),
            health: Arc::clone(health),
        }));
        prometheus_client::encoding::text::encode(out, &registry)
    }
}

/// A look that is under way.
pub(crate) struct Look<'a> {
    metrics: &'a Metrics,
    begun: Instant,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        let took = self.begun.elapsed();
        self.metrics.looks.observe(took.as_secs_f64());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing can be half done under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::fleet;
