//! Users and roles of etcd: whose they are does not change, and those that the operator needs are its own.

use super::{CelRule, always};

pub(crate) const USER: &[CelRule] = &[
    always(
        &[],
        "!((has(self.spec.userName) ? self.spec.userName : self.metadata.name) in ['root', 'etcd-operator'])",
        "users root and etcd-operator belong to the operator: choose another name; a user with the role root may do everything",
    )
    .at(".spec.userName"),
    always(
        &["spec"],
        "has(self.passwordSecret) != (has(self.certificate) && self.certificate)",
        "a user has either a password or a certificate: write passwordSecret, or certificate: true",
    ),
    always(
        &["spec"],
        "self.clusterName == oldSelf.clusterName && has(self.userName) == has(oldSelf.userName) && (!has(self.userName) || self.userName == oldSelf.userName)",
        "clusterName and userName cannot be changed: create another EtcdUser, and delete this one",
    ),
];

pub(crate) const ROLE: &[CelRule] = &[
    always(
        &[],
        "(has(self.spec.roleName) ? self.spec.roleName : self.metadata.name) != 'root'",
        "role root belongs to etcd, and may do everything: choose another name",
    )
    .at(".spec.roleName"),
    always(
        &["spec"],
        "self.clusterName == oldSelf.clusterName && has(self.roleName) == has(oldSelf.roleName) && (!has(self.roleName) || self.roleName == oldSelf.roleName)",
        "clusterName and roleName cannot be changed: create another EtcdRole, and delete this one",
    ),
    always(
        &["spec", "permissions", "*"],
        "(has(self.key) ? 1 : 0) + (has(self.prefix) ? 1 : 0) + (has(self.range) ? 1 : 0) == 1",
        "write exactly one of key, prefix and range",
    ),
    always(
        &["spec", "permissions", "*", "range"],
        "!has(self.to) || self.to > self.from",
        "an empty range: write a key in to that comes after the one in from, or leave to out for all keys from there on",
    ),
];
