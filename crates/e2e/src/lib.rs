//! What every user story on a real cluster needs: a stage (a namespace of its own), the commands a user
//! types, a look at the members behind the operator's back, and a readable account of what went wrong.
//!
//! What must not happen here: a check that belongs to one story only, or a bare sleep.

mod admission;
mod audit;
mod canary;
mod cluster;
mod commands;
mod fixtures;
mod kube_apiserver;
mod load;
pub mod lock;
mod nodes;
mod operator;
mod places;
mod policy;
mod predecessor;
mod remains;
mod schema;
pub mod secrets;
mod stage;
mod story;
mod truth;
mod volumes;
mod wait;
mod witness;

pub use admission::{WEBHOOK, WithoutAdmission};
pub use audit::{Audit, Write, settled};
pub use canary::nothing_leaked;
pub use cluster::Cluster;
pub use commands::{Answer, Commands};
pub use fixtures::{document, documents};
pub use kube_apiserver::KubeApiServer;
pub use load::{Gap, LIMIT, Load, Report};
pub use nodes::{etcd_of, kubelet_of, quiet_node, signal, slow_down, speed_up};
pub use operator::Operator;
pub use policy::PolicyMock;
pub use predecessor::Predecessor;
pub use remains::nothing_is_left;
pub use schema::without_rules;
pub use stage::{Case, Stage};
pub use story::{Failed, Played, deep, skipped, story, tell};
pub use truth::{check_truth, check_truth_of_any_incarnation, comes_true};
pub use volumes::{database, on_volume};
pub use wait::{MINUTE, Violated, stays, until};
pub use witness::{Seen, Witness};

/// The namespace of the operator.
pub const OPERATOR_NAMESPACE: &str = "etcd-operator-system";
/// The operator's Deployment.
pub const OPERATOR: &str = "etcd-operator";
