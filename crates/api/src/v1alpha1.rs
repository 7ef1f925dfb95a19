//! Version `v1alpha1` of the group `etcd.etcd.io`.

pub mod access;
pub mod backup;
pub mod cluster;
pub mod etcd;
pub mod former;
pub mod maintenance;
pub mod memory;
pub mod pod;
pub mod restore;
pub mod role;
pub mod security;
pub mod status;
pub mod storage;
pub mod user;
pub mod verification;
