//! Version `v1alpha1` of the group `etcd.etcd.io`.

pub mod access;
pub mod cluster;
pub mod etcd;
pub mod maintenance;
pub mod pod;
pub mod status;
pub mod storage;
