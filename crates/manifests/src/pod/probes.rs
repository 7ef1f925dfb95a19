//! Probes of etcd. What they ask is ours; how patient they are may be the user's.

use api::v1alpha1::pod::ProbePatience;
use api::{ClusterIntent, EtcdVersion, names};
use k8s_openapi::api::core::v1::{ExecAction, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::AGENT;

/// A large data directory may take an hour to load.
pub(super) fn startup(intent: &ClusterIntent) -> Probe {
    let written = intent.pod.settings.probes.as_ref();
    let probe = Probe {
        http_get: Some(http(live_path(intent.version))),
        period_seconds: Some(1),
        timeout_seconds: Some(5),
        failure_threshold: Some(3600),
        ..Probe::default()
    };
    patient(probe, written.and_then(|probes| probes.startup.as_ref()))
}

pub(super) fn liveness(intent: &ClusterIntent) -> Probe {
    let written = intent.pod.settings.probes.as_ref();
    let probe = Probe {
        http_get: Some(http(live_path(intent.version))),
        period_seconds: Some(10),
        timeout_seconds: Some(5),
        failure_threshold: Some(6),
        ..Probe::default()
    };
    patient(probe, written.and_then(|probes| probes.liveness.as_ref()))
}

/// Readiness may need a quorum: not-ready addresses are published to the members. Below 3.5.19
/// etcd itself would call a learner ready, so the agent asks instead.
pub(super) fn readiness(intent: &ClusterIntent) -> Probe {
    let written = intent.pod.settings.probes.as_ref();
    let mut probe = Probe {
        period_seconds: Some(2),
        timeout_seconds: Some(3),
        failure_threshold: Some(3),
        ..Probe::default()
    };
    if intent.version.keeps_learners_unready() {
        probe.http_get = Some(http("/readyz"));
    } else {
        probe.exec = Some(ExecAction {
            command: Some([AGENT, "probe"].map(str::to_owned).into()),
        });
    }
    patient(probe, written.and_then(|probes| probes.readiness.as_ref()))
}

/// Liveness never needs a quorum: a cluster that lost it must not be killed on top.
fn live_path(version: EtcdVersion) -> &'static str {
    if version.has_health_paths() {
        "/livez"
    } else {
        "/health?serializable=true&exclude=NOSPACE"
    }
}

fn http(path: &str) -> HTTPGetAction {
    HTTPGetAction {
        path: Some(path.to_owned()),
        port: IntOrString::Int(i32::from(names::METRICS_PORT)),
        scheme: Some("HTTP".to_owned()),
        ..HTTPGetAction::default()
    }
}

fn patient(probe: Probe, written: Option<&ProbePatience>) -> Probe {
    let written = written.cloned().unwrap_or_default();
    Probe {
        initial_delay_seconds: written
            .initial_delay_seconds
            .or(probe.initial_delay_seconds),
        period_seconds: written.period_seconds.or(probe.period_seconds),
        timeout_seconds: written.timeout_seconds.or(probe.timeout_seconds),
        failure_threshold: written.failure_threshold.or(probe.failure_threshold),
        ..probe
    }
}
