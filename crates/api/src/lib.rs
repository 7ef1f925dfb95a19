//! Room 1, the contract with users: kinds, fields, names, labels, conditions, and the parsing of a
//! spec into an intent. Types and pure functions only; no IO.

pub mod absent;
pub mod certificates;
pub mod conditions;
pub mod crd;
pub mod image;
pub mod intent;
pub mod labels;
pub mod lineage;
pub mod names;
pub mod quantity;
pub mod rules;
pub mod transport;
pub mod v1alpha1;
pub mod version;

pub use conditions::{ConditionType, Reason};
pub use intent::ClusterIntent;
pub use lineage::Lineage;
pub use quantity::Quantity;
pub use transport::{Plane, Transport};
pub use v1alpha1::cluster::{EtcdCluster, EtcdClusterSpec, EtcdClusterStatus};
pub use version::EtcdVersion;
