//! The container `etcd`. The gate is its entrypoint, so it judges every start of the process; then it becomes etcd.

use api::image::PullPolicy;
use api::{ClusterIntent, names};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, PodSpec, ResourceRequirements, VolumeMount,
};

use super::{AGENT, AGENT_DIR, ANNOTATIONS_DIR, field, mount, probes, security};
use crate::claim::quantities;
use crate::{Owner, flags, tls};

/// By this the gate is told whose data it may start.
const OBJECT: &str = "--cluster-uid";
/// What follows is etcd's.
const END: &str = "--";

/// UID of the `EtcdCluster` that a pod was made for, as its gate was told; `None` where there is no gate.
pub fn named_object(pod: &PodSpec) -> Option<&str> {
    let mut containers = pod.containers.iter();
    let etcd = containers.find(|container| container.name == names::ETCD_CONTAINER)?;
    let words = etcd.command.iter().flatten().map(String::as_str);
    let mut words = words.take_while(|word| *word != END);
    words.find(|word| *word == OBJECT)?;
    words.next()
}

pub(super) fn build(owner: &Owner, intent: &ClusterIntent) -> Container {
    let gate = [
        AGENT,
        "gate",
        OBJECT,
        &owner.uid,
        "--volume",
        flags::VOLUME,
        "--annotations",
        "/podinfo/annotations",
    ];
    let mut command: Vec<String> = gate.map(str::to_owned).into();
    command.extend(tls::gate(intent));
    command.push(END.to_owned());
    let mut ports = vec![
        port("client", names::CLIENT_PORT),
        port("peer", names::PEER_PORT),
        port("metrics", names::METRICS_PORT),
    ];
    if !intent.tls.transport.client.is_plain() {
        ports.push(port("secure", names::SECURE_PORT));
    }
    let limits = &intent.resources.limits;
    Container {
        name: names::ETCD_CONTAINER.to_owned(),
        image: Some(intent.image_reference()),
        image_pull_policy: intent.image.pull_policy.map(pull_policy),
        command: Some(command),
        args: Some(flags::build(owner, intent)),
        env: Some(environment(owner, intent)),
        ports: Some(ports),
        resources: Some(ResourceRequirements {
            requests: Some(quantities(&intent.requests())),
            limits: (!limits.is_empty()).then(|| quantities(limits)),
            ..ResourceRequirements::default()
        }),
        volume_mounts: Some(mounts(intent)),
        startup_probe: Some(probes::startup(intent)),
        liveness_probe: Some(probes::liveness(intent)),
        readiness_probe: Some(probes::readiness(intent)),
        security_context: Some(security::etcd_container(intent)),
        // The agent records why it ends; etcd says it in its log.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

fn pull_policy(policy: PullPolicy) -> String {
    let text = match policy {
        PullPolicy::Always => "Always",
        PullPolicy::IfNotPresent => "IfNotPresent",
        PullPolicy::Never => "Never",
    };
    text.to_owned()
}

/// Ours, then what the image expects, then the user's, whose word counts where the image has one, too.
fn environment(owner: &Owner, intent: &ClusterIntent) -> Vec<EnvVar> {
    let theirs = &intent.pod.settings.env;
    let mut all = vec![
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_UID", "metadata.uid"),
    ];
    all.extend(tls::environment(intent));
    let of_image = intent
        .image
        .flavour
        .environment(&owner.name, &owner.namespace);
    let of_image = of_image
        .into_iter()
        .filter(|(name, _)| theirs.iter().all(|their| their.name != *name));
    all.extend(of_image.map(|(name, value)| EnvVar {
        name: name.to_owned(),
        value: Some(value),
        ..EnvVar::default()
    }));
    all.extend(theirs.iter().cloned());
    all
}

fn mounts(intent: &ClusterIntent) -> Vec<VolumeMount> {
    let mut all = vec![
        mount(names::CLAIM_TEMPLATE, flags::VOLUME, false),
        mount("agent", AGENT_DIR, true),
        mount("podinfo", ANNOTATIONS_DIR, true),
    ];
    if !intent.tls.transport.is_plain() {
        all.push(mount(tls::VOLUME, tls::DIRECTORY, true));
    }
    all.extend(intent.pod.settings.volume_mounts.iter().cloned());
    all
}

fn from_field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(field(path)),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
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
