//! Observe: from caches and live members to one plain value. Reads only, and guesses nothing.

mod classes;
mod hashes;
mod homes;
mod kubernetes;
mod members;
mod problem;
mod stalls;
pub(crate) mod template;
mod whose;

use std::collections::BTreeMap;

use api::intent::InvalidSpec;
use api::{ClusterIntent, EtcdCluster, labels};
use kube::ResourceExt;
use manifests::{Kind, drift};
use plan::Observed;
use plan::observed::{Cluster, Etcd, Objects, parse_id};
use plan::shape::decide_shape;
use plan::status;
use plan::target::decide_target;

pub(crate) use kubernetes::{is_owned_against_policy, live_object, owner, targets, unwanted};

use crate::clock;
use crate::cluster::{Error, place};
use crate::context::Context;

/// Everything there is to know about a cluster now.
pub async fn observe(cluster: &EtcdCluster, ctx: &Context) -> Result<Observed, Error> {
    let (namespace, name) = place(cluster);
    let claims = kubernetes::claims(cluster, ctx);
    let latched = status::latched(&cluster.status.clone().unwrap_or_default());
    let intent = read_spec(cluster);
    let target = intent.as_ref().ok();
    let target = target.map(|intent| decide_target(intent, &latched));
    let mut observed = Observed {
        now: clock::now(),
        cluster: Cluster {
            name,
            namespace,
            uid: cluster.uid().unwrap_or_default(),
            generation: cluster.metadata.generation.unwrap_or_default(),
            deleting: cluster.metadata.deletion_timestamp.is_some(),
            held_by_predecessor: cluster
                .finalizers()
                .iter()
                .any(|finalizer| finalizer == labels::PREDECESSOR_FINALIZER),
            paused: is_paused(cluster),
            recover: cluster
                .annotations()
                .get(labels::RECOVER_ANNOTATION)
                .and_then(|id| parse_id(id.trim())),
            dark_since: cluster.status.as_ref().and_then(status::dark_since),
            intent,
            target,
            latched,
        },
        // How many pods there are bears on how many there should be.
        objects: template::describe_set(cluster, ctx),
        claims,
        pods: kubernetes::pods(cluster, ctx),
        homes: BTreeMap::new(),
        etcd: Etcd::default(),
    };
    observed.recall_fence();
    members::look(&mut observed, cluster, ctx).await;
    if plan::cluster::has_answers(&observed) {
        stalls::look(&mut observed, cluster, ctx).await;
        hashes::look(&mut observed, cluster, ctx).await;
    }
    homes::look(&mut observed, cluster, ctx).await;
    classes::look(&mut observed, cluster, ctx).await;
    observed.objects = objects(cluster, &observed, ctx)?;
    Ok(observed)
}

/// What the object asks for, with what its annotations add.
fn read_spec(cluster: &EtcdCluster) -> Result<ClusterIntent, InvalidSpec> {
    let mut intent = ClusterIntent::parse(&cluster.spec)?;
    let asked = cluster.annotations().get(labels::RESTARTED_AT_ANNOTATION);
    intent.restarted_at = asked.filter(|asked| !asked.is_empty()).cloned();
    Ok(intent)
}

fn is_paused(cluster: &EtcdCluster) -> bool {
    let paused = cluster.annotations().get(labels::PAUSED_ANNOTATION);
    paused.is_some_and(|paused| paused != "false")
}

/// Compares what there is with what there should be.
fn objects(cluster: &EtcdCluster, observed: &Observed, ctx: &Context) -> Result<Objects, Error> {
    let (namespace, _) = place(cluster);
    let (mut former, foreign) = kubernetes::pods_of_others(cluster, ctx);
    former.extend(kubernetes::claims_of_former(cluster, ctx));
    let client_service = kubernetes::has_client_service(cluster, ctx);
    let mut seen = Objects {
        former,
        foreign,
        client_service,
        ..observed.objects.clone()
    };
    let (Some(target), Some(shape)) = (&observed.cluster.target, decide_shape(observed)) else {
        return Ok(seen);
    };
    let stamp = kubernetes::stamp(cluster, target, &shape, ctx);
    if stamp
        .as_ref()
        .is_some_and(|stamp| ctx.found_right.knows(&observed.cluster.uid, stamp))
    {
        return Ok(seen);
    }
    let wanted =
        manifests::build_objects(&owner(cluster), &target.intent, &shape, &ctx.agent_image)
            .map_err(Error::Render)?;
    for mut object in wanted {
        let what = format!("{:?} {}", object.kind, object.name);
        let Some(live) = live_object(ctx, &namespace, object.kind, &object.name) else {
            seen.drifted.push(what);
            continue;
        };
        object.keep_immutable(&live);
        let other_template = object.kind == Kind::StatefulSet
            && template::wanted(&object, &live, &shape, &ctx.agent_image).differs;
        template::settle(&mut object, &live);
        match kubernetes::belonging(&live, object.kind, cluster) {
            kubernetes::Belonging::Ours => {
                if let Some(path) = drift::find(&object.body, &live) {
                    seen.drifted.push(format!("{what} ({path})"));
                } else if other_template {
                    seen.drifted.push(format!("{what} (.spec.template)"));
                } else if is_owned_against_policy(&object, &live, cluster) {
                    seen.drifted
                        .push(format!("{what} (.metadata.ownerReferences)"));
                }
            }
            kubernetes::Belonging::Former => seen.former.push(what),
            kubernetes::Belonging::Foreign => seen.foreign.push(what),
        }
    }
    for (kind, name) in unwanted(cluster, &target.intent, &shape, ctx) {
        seen.drifted
            .push(format!("{kind:?} {name} (not asked for any more)"));
    }
    let right = seen.drifted.is_empty() && seen.foreign.is_empty() && seen.former.is_empty();
    ctx.found_right
        .remember(&observed.cluster.uid, stamp.filter(|_| right));
    Ok(seen)
}
