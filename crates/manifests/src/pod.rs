//! The pod template: the same for every size, so that a size change restarts nobody.

use std::collections::BTreeMap;

use api::{ClusterIntent, EtcdVersion, labels, names};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, DownwardAPIVolumeFile, DownwardAPIVolumeSource,
    EmptyDirVolumeSource, EnvVar, EnvVarSource, ExecAction, HTTPGetAction, ObjectFieldSelector,
    PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile,
    SecurityContext, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::claim::quantities;
use crate::{Owner, flags, template_hash};

/// The unprivileged user that etcd's files belong to.
const USER: i64 = 65532;
const AGENT_DIR: &str = "/agent";
const AGENT: &str = "/agent/etcd-agent";
const ANNOTATIONS_DIR: &str = "/podinfo";

pub(crate) fn build(owner: &Owner, intent: &ClusterIntent, agent_image: &str) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels::object(&owner.name, "database")),
            annotations: Some(annotations(intent)),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            service_account_name: Some(owner.name.clone()),
            automount_service_account_token: Some(false),
            // A Service called `etcd` would otherwise put ETCD_* variables into the environment.
            enable_service_links: Some(false),
            // SIGTERM lets a leader hand over first, which may take 7 s.
            termination_grace_period_seconds: Some(30),
            security_context: Some(pod_security()),
            topology_spread_constraints: Some(spread(owner)),
            init_containers: Some(vec![agent_container(agent_image)]),
            containers: vec![etcd_container(owner, intent)],
            volumes: Some(volumes()),
            ..PodSpec::default()
        }),
    }
}

/// What a pod was made from. The object's own annotations stay out: each `kubectl apply` changes them.
fn annotations(intent: &ClusterIntent) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if let Some(at) = &intent.restarted_at {
        all.insert(labels::RESTARTED_AT_ANNOTATION.to_owned(), at.clone());
    }
    let template = template_hash(intent);
    all.insert(labels::TEMPLATE_ANNOTATION.to_owned(), template);
    all
}

/// Brings the agent's binary into the pod.
fn agent_container(image: &str) -> Container {
    Container {
        name: names::AGENT_CONTAINER.to_owned(),
        image: Some(image.to_owned()),
        command: Some(
            ["/usr/local/bin/etcd-agent", "install", AGENT]
                .map(str::to_owned)
                .into(),
        ),
        resources: Some(ResourceRequirements {
            requests: Some(amounts([("cpu", "10m"), ("memory", "16Mi")])),
            ..ResourceRequirements::default()
        }),
        volume_mounts: Some(vec![mount("agent", AGENT_DIR, false)]),
        security_context: Some(container_security()),
        ..Container::default()
    }
}

/// The gate is the entrypoint, so it judges every start of the process; then it becomes etcd.
fn etcd_container(owner: &Owner, intent: &ClusterIntent) -> Container {
    let gate = [
        AGENT,
        "gate",
        "--cluster-uid",
        &owner.uid,
        "--volume",
        flags::VOLUME,
        "--annotations",
        "/podinfo/annotations",
        "--",
    ];
    Container {
        name: names::ETCD_CONTAINER.to_owned(),
        image: Some(intent.image_reference()),
        command: Some(gate.map(str::to_owned).into()),
        args: Some(flags::build(owner, intent)),
        env: Some(vec![
            env("POD_NAME", "metadata.name"),
            env("POD_UID", "metadata.uid"),
        ]),
        ports: Some(vec![
            port("client", names::CLIENT_PORT),
            port("peer", names::PEER_PORT),
            port("metrics", names::METRICS_PORT),
        ]),
        resources: Some(ResourceRequirements {
            requests: Some(quantities(&intent.requests())),
            limits: (!intent.resources.limits.is_empty())
                .then(|| quantities(&intent.resources.limits)),
            ..ResourceRequirements::default()
        }),
        volume_mounts: Some(vec![
            mount(names::CLAIM_TEMPLATE, flags::VOLUME, false),
            mount("agent", AGENT_DIR, true),
            mount("podinfo", ANNOTATIONS_DIR, true),
        ]),
        startup_probe: Some(startup_probe(intent.version)),
        liveness_probe: Some(liveness_probe(intent.version)),
        readiness_probe: Some(readiness_probe(intent.version)),
        security_context: Some(container_security()),
        ..Container::default()
    }
}

/// Liveness never needs a quorum: a cluster that lost it must not be killed on top.
fn live_path(version: EtcdVersion) -> &'static str {
    if version.has_health_paths() {
        "/livez"
    } else {
        "/health?serializable=true&exclude=NOSPACE"
    }
}

/// A large data directory may take an hour to load.
fn startup_probe(version: EtcdVersion) -> Probe {
    Probe {
        http_get: Some(http(live_path(version))),
        period_seconds: Some(5),
        timeout_seconds: Some(5),
        failure_threshold: Some(720),
        ..Probe::default()
    }
}

fn liveness_probe(version: EtcdVersion) -> Probe {
    Probe {
        http_get: Some(http(live_path(version))),
        period_seconds: Some(10),
        timeout_seconds: Some(5),
        failure_threshold: Some(6),
        ..Probe::default()
    }
}

/// Readiness may need a quorum: not-ready addresses are published to the members. Below 3.5.19
/// etcd itself would call a learner ready, so the agent asks instead.
fn readiness_probe(version: EtcdVersion) -> Probe {
    let mut probe = Probe {
        period_seconds: Some(2),
        timeout_seconds: Some(3),
        failure_threshold: Some(3),
        ..Probe::default()
    };
    if version.keeps_learners_unready() {
        probe.http_get = Some(http("/readyz"));
    } else {
        probe.exec = Some(ExecAction {
            command: Some([AGENT, "probe"].map(str::to_owned).into()),
        });
    }
    probe
}

fn http(path: &str) -> HTTPGetAction {
    HTTPGetAction {
        path: Some(path.to_owned()),
        port: IntOrString::Int(i32::from(names::METRICS_PORT)),
        scheme: Some("HTTP".to_owned()),
        ..HTTPGetAction::default()
    }
}

/// Apart from each other where that is possible, together where it is not.
fn spread(owner: &Owner) -> Vec<TopologySpreadConstraint> {
    let constraint = |key: &str| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some(labels::selector(&owner.name)),
            ..LabelSelector::default()
        }),
        ..TopologySpreadConstraint::default()
    };
    vec![
        constraint("topology.kubernetes.io/zone"),
        constraint("kubernetes.io/hostname"),
    ]
}

fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        // Walking a large volume at every start would cost minutes.
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}

fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: None,
        }),
        ..SecurityContext::default()
    }
}

fn volumes() -> Vec<Volume> {
    let annotations = DownwardAPIVolumeFile {
        path: "annotations".to_owned(),
        field_ref: Some(field("metadata.annotations")),
        ..DownwardAPIVolumeFile::default()
    };
    vec![
        Volume {
            name: "agent".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        },
        Volume {
            name: "podinfo".to_owned(),
            downward_api: Some(DownwardAPIVolumeSource {
                items: Some(vec![annotations]),
                ..DownwardAPIVolumeSource::default()
            }),
            ..Volume::default()
        },
    ]
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

fn env(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(field(path)),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn field(path: &str) -> ObjectFieldSelector {
    ObjectFieldSelector {
        api_version: Some("v1".to_owned()),
        field_path: path.to_owned(),
    }
}

fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

fn amounts<const N: usize>(
    pairs: [(&str, &str); N],
) -> BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity> {
    pairs
        .map(|(name, amount)| {
            let amount = k8s_openapi::apimachinery::pkg::api::resource::Quantity(amount.to_owned());
            (name.to_owned(), amount)
        })
        .into()
}
