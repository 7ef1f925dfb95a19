//! Deletes exactly the object that was seen, which its UID proves: the claim and pod of a member that has left, or a
//! pod that is to be recreated.

use api::{EtcdCluster, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use plan::status::Outcome;

use super::{changed_since, outcome_of};
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn claim(
    cluster: &EtcdCluster,
    ordinal: u32,
    uid: &str,
    ctx: &Context,
) -> Outcome {
    let (namespace, name) = place(cluster);
    let claim = names::claim(&name, ordinal);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(ctx.client.clone(), &namespace);
    let deleted = claims.delete(&claim, &exactly(uid)).await;
    outcome_of(&format!("the claim {claim}"), deleted)
}

/// How long a pod has to stop.
#[derive(Clone, Copy)]
pub(super) enum Grace {
    /// As long as its template says: it hands over what it does.
    Full,
    /// A moment, and its node says when it has ended. etcd without a quorum would wait for answers that never come.
    Short,
    /// None, and its node is not waited for.
    Forced,
}

impl Grace {
    /// Of a pod for whose clients nothing is left to do.
    pub(super) fn to_stop(force: bool) -> Self {
        if force { Self::Forced } else { Self::Short }
    }
}

pub(super) async fn pod(
    cluster: &EtcdCluster,
    ordinal: u32,
    uid: &str,
    grace: Grace,
    ctx: &Context,
) -> Outcome {
    let (namespace, name) = place(cluster);
    let pod = names::member(&name, ordinal);
    // Another operator may have recorded another member since, and two must not be away at once.
    if let Some(changed) = changed_since(cluster, ctx).await {
        return changed;
    }
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &namespace);
    let params = DeleteParams {
        grace_period_seconds: match grace {
            Grace::Full => None,
            Grace::Short => Some(1),
            Grace::Forced => Some(0),
        },
        ..exactly(uid)
    };
    let deleted = pods.delete(&pod, &params).await;
    outcome_of(&format!("the pod {pod}"), deleted)
}

fn exactly(uid: &str) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}
