//! Observe: from caches and live members to one plain value. Reads only, and guesses nothing.

pub mod accounts;
mod affinity;
pub mod auth;
mod backups;
mod budget;
mod certificates;
mod classes;
mod first;
mod hashes;
mod kubernetes;
mod members;
mod node_bindings;
pub(crate) mod objects;
mod problem;
mod restore;
mod stalls;
pub(crate) mod template;
mod upkeep;
mod whose;

use std::collections::BTreeMap;

use api::intent::InvalidSpec;
use api::{ClusterIntent, EtcdCluster, EtcdClusterStatus, labels};
use kube::ResourceExt;
use plan::Observed;
use plan::observed::{Certificates, Cluster, Etcd, Restore, parse_id};
use plan::status;
use plan::target::{decide_target, keep_in_force};

pub(crate) use kubernetes::{
    is_ours, is_owned, is_owned_against_policy, live_object, owner, targets, unwanted,
};

use self::budget::Budget;
use crate::clock;
use crate::cluster::{Error, place};
use crate::context::Context;

/// Everything there is to know about a cluster now.
pub async fn observe(cluster: &EtcdCluster, ctx: &Context) -> Result<Observed, Error> {
    let (namespace, name) = place(cluster);
    let claims = kubernetes::claims(cluster, ctx);
    let uid = cluster.uid().unwrap_or_default();
    let known = own_status(cluster, &uid);
    let latched = status::latched(&known.cloned().unwrap_or_default());
    // How many pods there are bears on how many there should be.
    let objects = template::describe_set(cluster, ctx);
    let (intent, target) = match read_spec(cluster, ctx) {
        Ok(mut intent) => {
            intent.tls.locked = intent.auth == Some(true) || !ctx.accounts.is_off(&uid);
            let target = decide_target(&intent, &latched);
            (Ok(intent), Some(target))
        }
        Err(invalid) => {
            let kept = keep_in_force(&cluster.spec, (&latched, objects.replicas), &invalid);
            let kept = kept.map(|mut kept| {
                annotated(&mut kept.intent, cluster, ctx);
                kept
            });
            let intent = kept.as_ref().map(|kept| kept.intent.clone());
            (intent.ok_or(invalid), kept)
        }
    };
    let mut observed = Observed {
        now: clock::now(),
        cluster: Cluster {
            name,
            namespace,
            uid,
            generation: cluster.metadata.generation.unwrap_or_default(),
            deleting: cluster.metadata.deletion_timestamp.is_some(),
            held_by_predecessor: cluster
                .finalizers()
                .iter()
                .any(|finalizer| finalizer == labels::PREDECESSOR_FINALIZER),
            paused: is_paused(cluster),
            recover: asked_to_recover(cluster),
            unavailable_since: known.and_then(status::unavailable_since),
            recalled: false,
            intent,
            target,
            latched,
        },
        objects,
        claims,
        pods: kubernetes::pods(cluster, ctx),
        node_bindings: BTreeMap::new(),
        etcd: Etcd::default(),
        certificates: Certificates::default(),
        failed: Vec::new(),
        recreated: BTreeMap::new(),
        not_created: BTreeMap::new(),
        backups: backups::look(cluster, ctx),
        restore: Restore::default(),
        indexes_recorded: None,
    };
    observed.recall();
    ask(&mut observed, cluster, ctx).await?;
    Ok(observed)
}

/// Everything that the caches alone do not tell.
async fn ask(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) -> Result<(), Error> {
    certificates::look(observed, cluster, ctx).await;
    // Hardly any cluster has one: it is not on the stack of every look.
    Box::pin(restore::look(observed, cluster, ctx)).await;
    upkeep::look(observed, ctx);
    let budget = Budget::begin();
    members::look(observed, cluster, ctx, &budget).await;
    if plan::cluster::has_answers(observed) && !budget.is_spent() {
        stalls::look(observed, cluster, ctx).await;
        hashes::look(observed, cluster, ctx).await;
    }
    // Most clusters have none: they are not on the stack of every look.
    Box::pin(accounts::look(observed, cluster, ctx)).await;
    if !budget.is_spent() {
        auth::look(observed, cluster, ctx).await;
    }
    node_bindings::look(observed, cluster, ctx).await;
    classes::look(observed, cluster, ctx).await;
    objects::look(observed, cluster, ctx)
}

/// The status, unless it speaks of another object of this name.
fn own_status<'a>(cluster: &'a EtcdCluster, uid: &str) -> Option<&'a EtcdClusterStatus> {
    status::of_object(cluster.status.as_ref()?, uid)
}

/// What the object asks for, with what its annotations add.
fn read_spec(cluster: &EtcdCluster, ctx: &Context) -> Result<ClusterIntent, InvalidSpec> {
    let mut intent = ClusterIntent::parse(&cluster.spec)?;
    let asked = cluster.annotations().get(labels::RESTARTED_AT_ANNOTATION);
    intent.restarted_at = asked.filter(|asked| !asked.is_empty()).cloned();
    annotated(&mut intent, cluster, ctx);
    Ok(intent)
}

/// What annotations, and what is recorded, add of certificate authorities.
fn annotated(intent: &mut ClusterIntent, cluster: &EtcdCluster, ctx: &Context) {
    intent.tls.trust = certificates::generation(cluster, ctx);
    let asked = cluster.annotations().get(labels::ROTATE_ANNOTATION);
    intent.tls.rotate = asked.filter(|asked| !asked.is_empty()).cloned();
}

/// The cluster that a person asked to go on with.
fn asked_to_recover(cluster: &EtcdCluster) -> Option<u64> {
    let asked = cluster.annotations().get(labels::RECOVER_ANNOTATION);
    asked.and_then(|id| parse_id(id.trim()))
}

fn is_paused(cluster: &EtcdCluster) -> bool {
    let paused = cluster.annotations().get(labels::PAUSED_ANNOTATION);
    paused.is_some_and(|paused| paused != "false")
}
