//! What can be watched of the operator and its clusters, in one table: metrics, alerts, panels. The operator's page, the
//! reference, the rules and the dashboards are made from it, so that none of them names what another does not have. It
//! judges nothing: alerts compare numbers that the operator reports.

pub mod alerts;
pub mod dashboards;
pub mod keep;
pub mod logs;
pub mod metrics;
pub mod reference;
pub mod rules;

pub use metrics::{Kind, Metric};

/// Stands in an expression for the label with the name of a cluster. Installations that have a label `cluster` of their own
/// write another one.
pub const CLUSTER: &str = "@cluster";
