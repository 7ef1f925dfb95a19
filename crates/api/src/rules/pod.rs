//! Pods: what is reserved for the operator, and what Kubernetes would not accept.

use super::{CelRule, always};

const LABEL_KEYS: &str = "self.all(key, key.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'))";
const LABEL_KEYS_MESSAGE: &str = "not a key: write letters, digits, dashes, dots and underscores, with a domain and a slash in front if you like, such as example.com/team";
const LABEL_VALUE: &str =
    "self.size() <= 63 && self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')";
const LABEL_VALUE_MESSAGE: &str =
    "not a value of a label: write at most 63 letters, digits, dashes, dots and underscores";
const GRACE: &str = "too short for a leader to transfer its leadership, which may take 7 seconds: write at least 10";

pub(super) const RULES: &[CelRule] = &[
    always(&["spec", "pod", "labels"], LABEL_KEYS, LABEL_KEYS_MESSAGE),
    always(
        &["spec", "pod", "labels"],
        "!self.exists(key, key.startsWith('etcd.etcd.io/') || key in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/component', 'app.kubernetes.io/managed-by', 'controller-revision-hash', 'statefulset.kubernetes.io/pod-name', 'apps.kubernetes.io/pod-index'])",
        "a label that the operator or Kubernetes sets (etcd.etcd.io/…, app.kubernetes.io/name, …): write one of your own, such as example.com/team",
    ),
    always(
        &["spec", "pod", "labels", "*"],
        LABEL_VALUE,
        LABEL_VALUE_MESSAGE,
    ),
    always(
        &["spec", "pod", "annotations"],
        LABEL_KEYS,
        LABEL_KEYS_MESSAGE,
    ),
    always(
        &["spec", "pod", "annotations"],
        "!self.exists(key, key.startsWith('etcd.etcd.io/'))",
        "annotations below etcd.etcd.io/ are reserved for the operator: write one of your own, such as example.com/team",
    ),
    always(
        &["spec", "pod", "nodeSelector"],
        LABEL_KEYS,
        LABEL_KEYS_MESSAGE,
    ),
    always(
        &["spec", "pod", "nodeSelector", "*"],
        LABEL_VALUE,
        LABEL_VALUE_MESSAGE,
    ),
    always(
        &["spec", "pod", "env", "*", "name"],
        "!self.startsWith('ETCD_') && !(self in ['POD_NAME', 'POD_UID', 'ETCDCTL_CACERT', 'ETCDCTL_CERT', 'ETCDCTL_KEY'])",
        "ETCD_… would override flags, POD_NAME, POD_UID, ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY are reserved for the operator: write another name, or spec.etcd for settings of etcd",
    ),
    always(
        &["spec", "pod", "volumes", "*", "name"],
        "!(self in ['data', 'agent', 'podinfo', 'etcd-tls'])",
        "the operator has a volume of this name: write another one",
    ),
    always(
        &["spec", "pod", "volumeMounts", "*", "mountPath"],
        "self != '/' && !(self + '/').matches('^/(var/lib/etcd|agent|podinfo|etc/etcd/tls)/')",
        "the operator mounts something here (/var/lib/etcd, /agent, /podinfo, /etc/etcd/tls): write another path",
    ),
    always(
        &["spec", "pod"],
        "!has(self.volumeMounts) || self.volumeMounts.all(mount, has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name))",
        "every name must be one of spec.pod.volumes: write the volume there as well",
    )
    .at(".volumeMounts"),
    always(
        &["spec", "pod", "containers", "*", "name"],
        "!(self in ['etcd', 'agent', 'debug'])",
        "the operator has a container of this name: write another one",
    ),
    always(
        &["spec", "pod", "terminationGracePeriodSeconds"],
        "self >= 10",
        GRACE,
    ),
];
