//! What changing a cluster costs: each change beside the floor that Kubernetes sets, taken in the same run, and with the
//! longest time that a writing client had to wait.

mod figures;

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use self::figures::{Figure, Measured};
use super::floors::{build_service, build_statefulset, start_pod};
use super::place::Place;
use crate::cluster::Target;
use crate::live::{Watch, text};

/// How soon a rolling restart must begin; an operator that does not know of it never begins.
const BEGIN: Duration = Duration::from_secs(10);
const THREE: usize = 3;
/// etcd itself removes no member before the others have been connected to the leader for five seconds, so a cluster
/// that was just grown is not what is measured.
const CONNECTED: Duration = Duration::from_secs(6);

/// Measures and prints.
pub(super) fn measure(target: &Target, version: &str, rounds: u8) -> Result<()> {
    let mut measured = Measured::default();
    for round in 1..=rounds {
        eprintln!("etcd {version}, round {round} of {rounds}");
        let mut place = Place::new(target, &format!("life{round}"))?;
        measure_pod(&mut place, version, &mut measured)?;
        measure_plain(&mut place, version, &mut measured)?;
        Life::begin(&mut place, version)?.measure(&mut measured)?;
        place.empty()?;
    }
    figures::print(&measured, version, rounds);
    Ok(())
}

/// One pod of a StatefulSet, without any operator: its start, and its replacement.
fn measure_pod(place: &mut Place<'_>, version: &str, measured: &mut Measured) -> Result<()> {
    measured.add(Figure::PodStart, start_pod(place, version)?);
    let before = uids(&place.pods);
    let started = Instant::now();
    place.kubectl(&["delete", "pod", "p-0", "--wait=false"])?;
    let end = place.until("the old pod is gone", started, |place| {
        uids(&place.pods).values().all(|uid| !is_one(&before, uid))
    })?;
    measured.add(Figure::PodEnd, end);
    measured.add(Figure::PodRestart, place.voters(1, started)?);
    place.empty()
}

/// Three known members, stopped and started with their data. No client writes meanwhile: the last member would wait up
/// to seven seconds for a write that it cannot finish, or not, as it happens.
fn measure_plain(place: &mut Place<'_>, version: &str, measured: &mut Measured) -> Result<()> {
    place.post("/api/v1", "services", &build_service("s"))?;
    let object = build_statefulset("s", &place.namespace, version, 3);
    let started = Instant::now();
    place.post("/apis/apps/v1", "statefulsets", &object)?;
    place.voters(THREE, started)?;
    let started = Instant::now();
    place.kubectl(&["scale", "statefulset", "s", "--replicas=0"])?;
    let stopped = place.until("all pods are gone", started, has_no_pod)?;
    measured.add(Figure::PlainStop, stopped);
    let started = Instant::now();
    place.kubectl(&["scale", "statefulset", "s", "--replicas=3"])?;
    measured.add(Figure::PlainStart, place.voters(THREE, started)?);
    place.empty()
}

/// One cluster of the operator's, and all that is done to it.
struct Life<'a, 'b> {
    place: &'a mut Place<'b>,
    objects: Watch,
}

impl<'a, 'b> Life<'a, 'b> {
    fn begin(place: &'a mut Place<'b>, version: &str) -> Result<Self> {
        let objects = place.watch("etcdclusters")?;
        place.create_cluster("c", 1, version)?;
        let mut life = Self { place, objects };
        life.settle()?;
        Ok(life)
    }

    fn measure(mut self, measured: &mut Measured) -> Result<()> {
        let grown = self.grow()?;
        measured.add(Figure::GrowIdle, grown);
        self.settle()?;

        let writer = self.place.writer()?;
        sleep(CONNECTED);
        let (shrunk, ending) = self.shrink()?;
        measured.add(Figure::Shrink, shrunk);
        measured.add_ending(Figure::Shrink, ending);
        self.settle()?;
        measured.add_gap(Figure::Shrink, writer.stop()?.gap);

        let writer = self.place.writer()?;
        let grown = self.grow()?;
        measured.add(Figure::Grow, grown);
        self.settle()?;
        measured.add_gap(Figure::Grow, writer.stop()?.gap);

        let writer = self.place.writer()?;
        if let Some(restarted) = self.restart()? {
            measured.add(Figure::Restart, restarted);
            measured.add_gap(Figure::Restart, writer.stop()?.gap);
        } else {
            eprintln!("  {}: not available", Figure::Restart.name());
            writer.stop()?;
        }

        // As the plain one, without a writer.
        let started = self.resize(0)?;
        let stopped = self.place.until("all pods are gone", started, has_no_pod)?;
        measured.add(Figure::Stop, stopped);
        let grown = self.grow()?;
        measured.add(Figure::Start, grown);
        self.settle()
    }

    fn resize(&self, size: u8) -> Result<Instant> {
        let started = Instant::now();
        let replicas = format!("--replicas={size}");
        self.place
            .kubectl(&["scale", "etcdclusters.etcd.etcd.io", "c", &replicas])?;
        Ok(started)
    }

    fn grow(&mut self) -> Result<f64> {
        let started = self.resize(3)?;
        self.place.voters(THREE, started)
    }

    /// Until one member is left and the other pods are gone, and how long those were on their way out.
    fn shrink(&mut self) -> Result<(f64, f64)> {
        let started = self.resize(1)?;
        let mut first = None;
        let gone = self.place.until("one pod is left", started, |place| {
            let pods = place.pods.objects.values();
            if pods
                .clone()
                .any(|pod| text(pod, "/metadata/deletionTimestamp").is_some())
            {
                first.get_or_insert_with(|| started.elapsed().as_secs_f64());
            }
            pods.count() == 1
        })?;
        let all = self.place.voters(1, started)?;
        Ok((all, gone - first.unwrap_or(gone)))
    }

    /// `None` when nothing begins.
    fn restart(&mut self) -> Result<Option<f64>> {
        let before = uids(&self.place.pods);
        let started = Instant::now();
        let value = format!("etcd.etcd.io/restartedAt={}", self.place.namespace);
        self.place
            .kubectl(&["annotate", "etcdclusters.etcd.etcd.io", "c", &value])?;
        let mut begun = false;
        self.place.until("a restart begins", started, |place| {
            let pods = uids(&place.pods);
            begun = pods != before;
            begun || started.elapsed() > BEGIN
        })?;
        if !begun {
            return Ok(None);
        }
        self.place
            .until("every pod is another one", started, |place| {
                let pods = uids(&place.pods);
                pods.len() == THREE && pods.values().all(|uid| !is_one(&before, uid))
            })?;
        self.place.voters(THREE, started)?;
        self.settle()?;
        Ok(Some(started.elapsed().as_secs_f64()))
    }

    fn settle(&mut self) -> Result<()> {
        self.place.settle(&mut self.objects)
    }
}

fn has_no_pod(place: &mut Place<'_>) -> bool {
    place.pods.objects.is_empty()
}

fn uids(pods: &Watch) -> BTreeMap<String, String> {
    let uid = |pod: &Value| text(pod, "/metadata/uid").unwrap_or_default().to_owned();
    let pods = pods.objects.iter();
    pods.map(|(name, pod)| (name.clone(), uid(pod))).collect()
}

fn is_one(before: &BTreeMap<String, String>, uid: &str) -> bool {
    before.values().any(|old| old == uid)
}
