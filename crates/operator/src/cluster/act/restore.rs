//! Brings the proven template back into the StatefulSet and writes nothing else: what a pause allows.

use api::EtcdCluster;
use manifests::{Kind, Shape};
use plan::Observed;
use plan::observed::Answer;
use plan::status::Outcome;

use super::apply::{build, write_template};
use crate::cluster::observe::live_object;
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
    let objects = match build(cluster, target, shape, ctx) {
        Ok(objects) => objects,
        Err(failed) => return failed,
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
    let Some(written) = write_template(cluster, (&set, &live), shape, ctx).await else {
        return Outcome::Done;
    };
    match written.answer {
        Answer::Written => Outcome::Done,
        Answer::Later(why) => Outcome::NotNow(why),
        Answer::Refused(why) => Outcome::Failed(why),
        Answer::Foreign => {
            Outcome::Failed(format!("StatefulSet {} belongs to another owner", set.name))
        }
    }
}
