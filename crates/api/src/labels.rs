//! Every label, annotation, field manager and finalizer.

use std::collections::BTreeMap;

/// `app.kubernetes.io/name`.
pub const NAME: &str = "app.kubernetes.io/name";
/// `app.kubernetes.io/instance`.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// `app.kubernetes.io/component`.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// `app.kubernetes.io/managed-by`.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// `app.kubernetes.io/version`.
pub const VERSION: &str = "app.kubernetes.io/version";
/// The cluster that an object belongs to.
pub const CLUSTER: &str = "etcd.etcd.io/cluster";
/// UID of the `EtcdCluster` that a claim was made for, or that resumed it.
pub const CLUSTER_UID: &str = "etcd.etcd.io/cluster-uid";
/// On a claim: which data it belongs to, as JSON ([`crate::Lineage`]).
pub const LINEAGE_ANNOTATION: &str = "etcd.etcd.io/lineage";
/// Value of [`MANAGED_BY`], and the operator's field manager.
pub const OPERATOR: &str = "etcd-operator";
/// Set by the predecessor on every object; ours never sets it, and takes it off when the object goes.
pub const PREDECESSOR_FINALIZER: &str = "etcd.etcd.io/finalizer";

/// On an `EtcdCluster`: `true` lets the operator look and not act.
pub const PAUSED_ANNOTATION: &str = "etcd.etcd.io/paused";
/// On an `EtcdCluster` that lost its quorum for good: its cluster ID, hexadecimal, lets the operator go on with what is
/// left.
pub const RECOVER_ANNOTATION: &str = "etcd.etcd.io/recover";
/// On an `EtcdCluster`: a new value restarts every member, one after another. On a pod: the value it was made with.
pub const RESTARTED_AT_ANNOTATION: &str = "etcd.etcd.io/restartedAt";
/// On a pod and its template: identity of the template.
pub const TEMPLATE_ANNOTATION: &str = "etcd.etcd.io/template";
/// On a pod: when it was last told of its grant, in seconds since 1970, and how often again. The agent does not read it; a
/// new value makes the kubelet carry the grant into the pod, should it have been left behind.
pub const TOLD_ANNOTATION: &str = "etcd.etcd.io/told";
/// On the StatefulSet: the template that members were seen healthy on.
pub const KEPT_TEMPLATE_ANNOTATION: &str = "etcd.etcd.io/proven-template";
/// On every object but claims: identity of what we said when we applied it, so that something that is no longer said
/// is noticed.
pub const APPLIED_ANNOTATION: &str = "etcd.etcd.io/applied";

/// Labels that select the pods of a cluster; they never change.
pub fn selector(cluster: &str) -> BTreeMap<String, String> {
    [(NAME, "etcd"), (INSTANCE, cluster), (CLUSTER, cluster)]
        .map(owned)
        .into()
}

/// Labels of an object of a cluster.
pub fn object(cluster: &str, component: &str) -> BTreeMap<String, String> {
    let mut labels = selector(cluster);
    labels.extend([(COMPONENT, component), (MANAGED_BY, OPERATOR)].map(owned));
    labels
}

/// The selector in the form that the `scale` subresource wants.
pub fn selector_text(cluster: &str) -> String {
    let pairs: Vec<String> = selector(cluster)
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(",")
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}
