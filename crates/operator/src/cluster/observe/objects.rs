//! Objects that are missing or not as they should be, and whose they are.

use std::hash::{DefaultHasher, Hash, Hasher};

use api::EtcdCluster;
use manifests::{Kind, Object, Shape, Template, drift};
use plan::Observed;
use plan::observed::{Answer, Refused, Wish};
use plan::shape::decide_shape;
use plan::target::Target;

use super::kubernetes::{self, Belonging, is_owned_against_policy, live_object, owner, unwanted};
use super::template;
use crate::clock::Moment;
use crate::cluster::{Error, place};
use crate::context::Context;

/// Compares what there is with what there should be.
pub(super) fn look(
    observed: &mut Observed,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Result<(), Error> {
    let (former, foreign) = kubernetes::pods_of_others(cluster, ctx);
    observed.objects.former.extend(former);
    let former = kubernetes::claims_of_former(cluster, ctx);
    observed.objects.former.extend(former);
    observed.objects.foreign = foreign;
    observed.objects.client_service = kubernetes::has_client_service(cluster, ctx);
    let shape = decide_shape(observed);
    let target = observed.cluster.target.clone();
    let wishes = match (target, shape) {
        (Some(target), Some(shape)) => compare(observed, (&target, &shape), cluster, ctx)?,
        _nothing_asked_for => Vec::new(),
    };
    ctx.refused.sort(observed, wishes, Moment::now());
    Ok(())
}

fn compare(
    observed: &mut Observed,
    (target, shape): (&Target, &Shape),
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Result<Vec<Wish>, Error> {
    let uid = observed.cluster.uid.clone();
    let stamp = kubernetes::stamp(cluster, target, shape, ctx);
    let known = stamp.as_ref();
    if known.is_some_and(|stamp| ctx.found_right.knows(&uid, stamp)) {
        return Ok(Vec::new());
    }
    let intent = target.rendered(shape.template);
    let built = manifests::build_objects(&owner(cluster), &intent, shape, &ctx.install);
    let (namespace, _) = place(cluster);
    let (now, mut wishes) = (observed.now, Vec::new());
    for object in built.map_err(Error::Render)? {
        let Some(live) = live_object(ctx, &namespace, object.kind, &object.name) else {
            wishes.push(wish(&object, (target, shape), None));
            continue;
        };
        match kubernetes::belonging(&live, object.kind, cluster) {
            Belonging::Ours => {
                let field = difference(&object, &live, shape, (cluster, ctx));
                wishes.extend(field.map(|field| wish(&object, (target, shape), Some(field))));
            }
            Belonging::Former => {
                let what = format!("{:?} {}", object.kind, object.name);
                observed.objects.former.push(what);
            }
            Belonging::Foreign => {
                let wish = wish(&object, (target, shape), None);
                observed.objects.refused.push(foreign(wish, now));
            }
        }
    }
    for (kind, name) in unwanted(cluster, target, shape, ctx) {
        wishes.push(unwished(kind, name));
    }
    let objects = &observed.objects;
    let whose = objects.foreign.is_empty() && objects.former.is_empty();
    let right = wishes.is_empty() && whose && objects.refused.is_empty();
    ctx.found_right.remember(&uid, stamp.filter(|_| right));
    Ok(wishes)
}

/// It belongs to another owner, as the caches show: nothing is tried while it is there.
fn foreign(wish: Wish, now: jiff::Timestamp) -> Refused {
    Refused {
        wish,
        answer: Answer::Foreign,
        manager: None,
        since: now,
        tries: 1,
        retry_at: jiff::Timestamp::MAX,
    }
}

/// The field of an object of ours that differs; `None` where nothing does.
fn difference(
    object: &Object,
    live: &serde_json::Value,
    shape: &Shape,
    (cluster, ctx): (&EtcdCluster, &Context),
) -> Option<String> {
    let mut object = object.clone();
    object.keep_immutable(live);
    if object.kind == Kind::StatefulSet {
        let wanted = template::wanted(&object, live, shape, &ctx.install.agent_image);
        if wanted.differs.is_some() {
            return wanted.differs;
        }
    }
    template::settle(&mut object, live);
    drift::find(&object.body, live).or_else(|| {
        let against = is_owned_against_policy(&object, live, cluster);
        against.then(|| ".metadata.ownerReferences".to_owned())
    })
}

/// What is to be written.
pub(crate) fn wish(
    object: &Object,
    (target, shape): (&Target, &Shape),
    field: Option<String>,
) -> Wish {
    let set = object.kind == Kind::StatefulSet;
    let mut hasher = DefaultHasher::new();
    object.body.to_string().hash(&mut hasher);
    if set {
        format!("{:?}", shape.template).hash(&mut hasher);
    }
    let renders = matches!(shape.template, Template::Render | Template::Try);
    Wish {
        kind: object.kind,
        name: object.name.clone(),
        field,
        body: hasher.finish(),
        template: (set && renders).then(|| target.template.clone()),
    }
}

/// What is not asked for any more.
pub(crate) fn unwished(kind: Kind, name: String) -> Wish {
    Wish {
        kind,
        name,
        field: Some("not asked for any more".to_owned()),
        body: 0,
        template: None,
    }
}
