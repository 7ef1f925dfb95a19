//! Brings the proven template back into the StatefulSet and writes nothing else: what a pause allows.

use api::EtcdCluster;
use kube::Api;
use kube::api::DynamicObject;
use manifests::{Kind, Shape};
use plan::Observed;
use plan::observed::Answer;
use plan::status::Outcome;

use super::apply::{replace_template, resource};
use super::changed_since;
use crate::cluster::observe::{live_object, owner, template};
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn restore(
    cluster: &EtcdCluster,
    observed: &Observed,
    shape: &Shape,
    ctx: &Context,
) -> Outcome {
    let Some(target) = &observed.cluster.target else {
        return Outcome::Done;
    };
    let built = manifests::build_objects(&owner(cluster), &target.intent, shape, &ctx.agent_image);
    let objects = match built {
        Ok(objects) => objects,
        Err(error) => return Outcome::Failed(format!("the objects cannot be rendered: {error}")),
    };
    let mut sets = objects
        .into_iter()
        .filter(|object| object.kind == Kind::StatefulSet);
    let Some(mut set) = sets.next() else {
        return Outcome::Done;
    };
    let (namespace, _) = place(cluster);
    let Some(live) = live_object(ctx, &namespace, Kind::StatefulSet, &set.name) else {
        return Outcome::NotNow("the StatefulSet does not exist".to_owned());
    };
    set.keep_immutable(&live);
    let wanted = template::wanted(&set, &live, shape, &ctx.agent_image);
    if wanted.differs.is_none() {
        return Outcome::Done;
    }
    // It decides over pods that are made long after, and the cache of the object may be older than this one.
    if let Some(changed) = changed_since(cluster, ctx).await {
        return changed;
    }
    let api: Api<DynamicObject> =
        Api::namespaced_with(ctx.client.clone(), &namespace, &resource(Kind::StatefulSet));
    let what = format!("StatefulSet {}", set.name);
    let written = replace_template(&api, &set.name, &live, &wanted, &what).await;
    match written.answer {
        Answer::Written => Outcome::Done,
        Answer::Later(why) => Outcome::NotNow(why),
        Answer::Refused(why) => Outcome::Failed(why),
        Answer::Foreign => Outcome::Failed(format!("{what} belongs to another owner")),
    }
}
