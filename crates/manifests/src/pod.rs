//! The pod template: the same for every size, so that a size change restarts no member. What a user says about pods is laid
//! over what we would do.

mod etcd;
mod probes;
mod security;

use std::collections::BTreeMap;

use api::{ClusterIntent, labels, names};
use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, DownwardAPIVolumeSource, EmptyDirVolumeSource,
    ObjectFieldSelector, PodSpec, PodTemplateSpec, ResourceRequirements, TopologySpreadConstraint,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::{Installation, Owner, template_hash, tls};

pub use etcd::named_object;
pub(crate) use security::{etcd_container, pod as pod_context, user};

const AGENT_DIR: &str = "/agent";
const AGENT: &str = "/agent/etcd-agent";
const ANNOTATIONS_DIR: &str = "/podinfo";
/// SIGTERM lets a leader hand over first, which may take 7 s.
const GRACE_SECONDS: i64 = 30;

pub(crate) fn build(
    owner: &Owner,
    intent: &ClusterIntent,
    install: &Installation,
) -> PodTemplateSpec {
    let pod = &intent.pod.settings;
    let mut containers = vec![etcd::build(owner, intent)];
    containers.extend(intent.pod.containers.iter().cloned());
    let mut all_volumes = volumes();
    all_volumes.extend(tls::volume(owner, intent));
    all_volumes.extend(intent.pod.volumes.iter().cloned());
    PodTemplateSpec {
        metadata: Some(metadata(owner, intent)),
        spec: Some(PodSpec {
            service_account_name: Some(
                pod.service_account_name
                    .clone()
                    .unwrap_or_else(|| owner.name.clone()),
            ),
            automount_service_account_token: Some(false),
            // A Service called `etcd` would otherwise put ETCD_* variables into the environment.
            enable_service_links: Some(false),
            termination_grace_period_seconds: Some(
                pod.termination_grace_period_seconds
                    .unwrap_or(GRACE_SECONDS),
            ),
            security_context: Some(security::pod(intent, install.pod_user)),
            node_selector: given(&pod.node_selector, BTreeMap::is_empty),
            tolerations: given(&pod.tolerations, Vec::is_empty),
            affinity: pod.affinity.clone(),
            topology_spread_constraints: Some(
                pod.topology_spread_constraints
                    .clone()
                    .unwrap_or_else(|| spread(owner)),
            ),
            priority_class_name: pod.priority_class_name.clone(),
            image_pull_secrets: given(&pod.image_pull_secrets, Vec::is_empty),
            init_containers: Some(vec![agent_container(&install.agent_image)]),
            containers,
            volumes: Some(all_volumes),
            ..PodSpec::default()
        }),
    }
}

/// The object's own labels and annotations stay out: each `kubectl apply` changes them.
fn metadata(owner: &Owner, intent: &ClusterIntent) -> ObjectMeta {
    let pod = &intent.pod.settings;
    let mut all_labels = pod.labels.clone();
    all_labels.extend(labels::object(&owner.name, "database"));
    let mut annotations = pod.annotations.clone();
    if let Some(at) = &intent.restarted_at {
        annotations.insert(labels::RESTARTED_AT_ANNOTATION.to_owned(), at.clone());
    }
    let transport = intent.tls.transport;
    if !transport.is_plain() {
        annotations.insert(
            labels::TRANSPORT_ANNOTATION.to_owned(),
            transport.to_string(),
        );
        if intent.tls.trust > 0 {
            let generation = intent.tls.trust.to_string();
            annotations.insert(labels::TRUST_ANNOTATION.to_owned(), generation);
        }
    }
    let template = template_hash(intent);
    annotations.insert(labels::TEMPLATE_ANNOTATION.to_owned(), template);
    ObjectMeta {
        labels: Some(all_labels),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}

fn given<T: Clone>(value: &T, is_empty: impl Fn(&T) -> bool) -> Option<T> {
    (!is_empty(value)).then(|| value.clone())
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
            requests: Some(
                [("cpu", "10m"), ("memory", "16Mi")]
                    .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
                    .into(),
            ),
            ..ResourceRequirements::default()
        }),
        volume_mounts: Some(vec![mount("agent", AGENT_DIR, false)]),
        security_context: Some(security::container()),
        ..Container::default()
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

fn field(path: &str) -> ObjectFieldSelector {
    ObjectFieldSelector {
        api_version: Some("v1".to_owned()),
        field_path: path.to_owned(),
    }
}
