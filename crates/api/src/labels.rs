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
/// Set by the predecessor on every object; this operator never sets it, and removes it from an object that is deleted.
pub const PREDECESSOR_FINALIZER: &str = "etcd.etcd.io/finalizer";

/// On an `EtcdCluster`: `true` pauses reconciliation.
pub const PAUSED_ANNOTATION: &str = "etcd.etcd.io/paused";
/// On an `EtcdCluster` that permanently lost its quorum: its cluster ID, hexadecimal, permits recovery from the survivors.
pub const RECOVER_ANNOTATION: &str = "etcd.etcd.io/recover";
/// On an `EtcdCluster`: a new value restarts every member, one at a time. On a pod: the value it was created with.
pub const RESTARTED_AT_ANNOTATION: &str = "etcd.etcd.io/restartedAt";
/// On a pod and its template: identity of the template.
pub const TEMPLATE_ANNOTATION: &str = "etcd.etcd.io/template";
/// On a pod: when its grant was last written, in seconds since 1970, and how often it was repeated. The agent does not
/// read it; a new value makes the kubelet refresh the downward API volume that holds the grant.
pub const TOLD_ANNOTATION: &str = "etcd.etcd.io/told";
/// On a pod and its template: which planes speak TLS ([`crate::Transport`]); absent for plaintext.
pub const TRANSPORT_ANNOTATION: &str = "etcd.etcd.io/transport";
/// On a pod and its template: the generation of the authorities that it trusts
/// ([`crate::certificates::Trust::generation`]); absent for the first.
pub const TRUST_ANNOTATION: &str = "etcd.etcd.io/trust";
/// On the `EtcdCluster`: another value has the operator replace its certificate authority. One that begins with `revoke` also
/// ends what the authority before had issued.
pub const ROTATE_ANNOTATION: &str = "etcd.etcd.io/rotate-ca";
/// On a Secret of certificates: what is in it, as JSON ([`crate::certificates::Record`]). On a pod: the certificates that
/// the kubelet was told to bring into it, and when; no agent reads it.
pub const CERTIFICATES_ANNOTATION: &str = "etcd.etcd.io/certificates";
/// On the StatefulSet: the template that members were seen healthy on.
pub const KEPT_TEMPLATE_ANNOTATION: &str = "etcd.etcd.io/proven-template";
/// On every object but claims: hash of what the operator applied last, so that a field that is no longer applied is
/// noticed.
pub const APPLIED_ANNOTATION: &str = "etcd.etcd.io/applied";

/// On an `EtcdBackup`: another value has one more backup made.
pub const BACKUP_NOW_ANNOTATION: &str = "etcd.etcd.io/backup-now";
/// On a Job of an `EtcdBackup`: which backup it makes, as JSON ([`crate::v1alpha1::backup::BackupRun`]).
pub const RUN_ANNOTATION: &str = "etcd.etcd.io/run";
/// On a Job of an `EtcdBackup`: which verification it carries out, as JSON ([`crate::v1alpha1::backup::VerifyRun`]).
pub const VERIFIES_ANNOTATION: &str = "etcd.etcd.io/verifies";
/// On a Job of an `EtcdBackup`: the member that it reads.
pub const READS_ANNOTATION: &str = "etcd.etcd.io/reads";
/// Value of [`NAME`] on Jobs and pods of keepers.
pub const KEEPER: &str = "etcd-keeper";
/// On Jobs and pods of keepers: the cluster that they work for.
pub const KEEPER_OF: &str = "etcd.etcd.io/keeper-of";

/// On an `EtcdCluster`: UID of the `EtcdRestore` that made it. The cluster is not owned by it.
pub const RESTORE_ANNOTATION: &str = "etcd.etcd.io/restored-by";

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
