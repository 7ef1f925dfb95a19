//! Version `v1alpha1` of the group `etcd.etcd.io`.

pub mod cluster;
pub mod status;
pub mod storage;
