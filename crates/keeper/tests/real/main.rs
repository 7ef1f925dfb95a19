//! The keeper with real etcd: what it stores can be restored, and what is damaged is never used.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod azure;
mod capture;
mod captured;
mod damage;
mod foreign;
mod gcs;
mod kills;
mod kit;
mod moment;
mod round;
mod s3;
mod secrecy;
mod trial;
mod trust;
mod upkeep;
mod wire;
