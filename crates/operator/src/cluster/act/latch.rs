//! Records what is about to be done, together with the report on it: one write.

use api::EtcdCluster;
use plan::observed::Latched;
use plan::status::{self, Outcome};
use plan::{Decision, Observed};

use super::outcome_of;
use crate::cluster::report;
use crate::context::Context;

pub(super) async fn latch(
    cluster: &EtcdCluster,
    observed: &Observed,
    decision: &Decision,
    latched: &Latched,
    ctx: &Context,
) -> Outcome {
    let old = cluster.status.clone().unwrap_or_default();
    // Not on the stack of every step.
    let mut with = Box::new(observed.clone());
    with.cluster.latched = latched.clone();
    let status = status::decide_status(&with, decision, &Outcome::Done, &old)
        .unwrap_or_else(|| status::with_latched(&old, &observed.cluster.uid, latched));
    outcome_of("the status", report::write(cluster, status, ctx).await)
}
