//! `EtcdUser`: a user of etcd in a cluster with authentication.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A user of etcd. It has either a password or a certificate.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "etcd.etcd.io",
    version = "v1alpha1",
    kind = "EtcdUser",
    plural = "etcdusers",
    singular = "etcduser",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    status = "EtcdUserStatus",
    doc = "A user of an etcd cluster whose `security.auth.enabled` is true.",
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName"}"#,
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdUserSpec {
    /// The EtcdCluster in the same namespace. Cannot be changed.
    pub cluster_name: String,
    /// Name of the user in etcd, and the common name of its certificate; the name of this object when absent. Cannot be
    /// changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// Roles of the user: names that EtcdRoles have in etcd, or `root`, which may do everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Secret in the same namespace whose key `password` is the password. Another password there is taken over within a
    /// minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<String>,
    /// The user has no password, and is known by a certificate, which is issued into the Secret
    /// `<cluster>-user-<name of this object>-tls` and renewed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<bool>,
}

/// What became of an `EtcdUser`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdUserStatus {
    /// `Ready`: the user is in etcd with its roles and its password or certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The Secret whose password the user has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretVersion>,
    /// The Secret with the certificate of the user: `ca.crt`, `tls.crt` and `tls.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_secret: Option<String>,
}

/// A Secret as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVersion {
    /// Its UID.
    #[serde(rename = "secretUID")]
    pub secret_uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
}
