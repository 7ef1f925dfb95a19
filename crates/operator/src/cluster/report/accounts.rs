//! What the objects of users and roles are told: written only when it says something new, and best effort. What cannot be
//! written now is written by a later look.

use api::conditions::{ConditionType, Verdict, merge};
use api::v1alpha1::role::{EtcdRole, EtcdRoleStatus};
use api::v1alpha1::user::{EtcdUser, EtcdUserStatus};
use api::{EtcdCluster, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use plan::status::Outcome;
use plan::status::accounts::{Told, tell_roles, tell_users};
use plan::{Decision, Observed};

use crate::cluster::observe::accounts::of_cluster;
use crate::cluster::place;
use crate::context::Context;

/// Tells every user and role of a cluster.
pub(super) async fn report(
    cluster: &EtcdCluster,
    observed: &Observed,
    (decision, outcome): (&Decision, &Outcome),
    ctx: &Context,
) {
    let users = of_cluster(&ctx.caches.users, cluster, |it| &it.spec.cluster_name);
    let told = tell_users(observed, decision, outcome);
    for (user, told) in pairs(users, &told) {
        tell_user(user, told, (cluster, observed), ctx).await;
    }
    let roles = of_cluster(&ctx.caches.roles, cluster, |it| &it.spec.cluster_name);
    let told = tell_roles(observed, decision, outcome);
    for (role, told) in pairs(roles, &told) {
        tell_role(role, told, (cluster, observed), ctx).await;
    }
}

/// Each object with what it is told.
fn pairs<K: ResourceExt>(objects: Option<Vec<K>>, told: &[Told]) -> Vec<(K, &Told)> {
    let objects = objects.into_iter().flatten();
    let pairs = objects.filter_map(|object| {
        let name = object.name_any();
        let told = told.iter().find(|told| told.object == name)?;
        Some((object, told))
    });
    pairs.collect()
}

fn conditions(old: &[Condition], told: &Told, observed: &Observed) -> Vec<Condition> {
    let verdict = Verdict {
        kind: ConditionType::Ready,
        status: Some(told.ready),
        reason: told.reason,
        message: told.message.clone(),
    };
    let now = Time(observed.now);
    merge(old, vec![verdict], told.generation, &now)
}

async fn tell_user(
    mut user: EtcdUser,
    told: &Told,
    (cluster, observed): (&EtcdCluster, &Observed),
    ctx: &Context,
) {
    let (namespace, of) = place(cluster);
    let old = user.status.take().unwrap_or_default();
    let secret = names::user_secret(&of, &told.object);
    let new = EtcdUserStatus {
        conditions: conditions(&old.conditions, told, observed),
        observed_generation: Some(told.generation),
        password: told.password.clone(),
        certificate_secret: user.spec.certificate.filter(|on| *on).map(|_| secret),
    };
    if new == old {
        return;
    }
    user.status = Some(new);
    let api: Api<EtcdUser> = Api::namespaced(ctx.client.clone(), &namespace);
    let written = api
        .replace_status(&told.object, &PostParams::default(), &user)
        .await;
    if let Err(error) = written {
        tracing::debug!(user = told.object, %error, "the status of a user was not written");
    }
}

async fn tell_role(
    mut role: EtcdRole,
    told: &Told,
    (cluster, observed): (&EtcdCluster, &Observed),
    ctx: &Context,
) {
    let (namespace, _) = place(cluster);
    let old = role.status.take().unwrap_or_default();
    let new = EtcdRoleStatus {
        conditions: conditions(&old.conditions, told, observed),
        observed_generation: Some(told.generation),
    };
    if new == old {
        return;
    }
    role.status = Some(new);
    let api: Api<EtcdRole> = Api::namespaced(ctx.client.clone(), &namespace);
    let written = api
        .replace_status(&told.object, &PostParams::default(), &role)
        .await;
    if let Err(error) = written {
        tracing::debug!(role = told.object, %error, "the status of a role was not written");
    }
}
