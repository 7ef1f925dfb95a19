//! How much of a cluster should exist now: how many pods, which claims, whether clients may come.

use std::collections::BTreeMap;

use manifests::{Shape, Template};

use crate::observed::{MemberList, Observed, Proven, quorum};

/// The shape that follows from what was seen; `None` while the spec makes no sense.
pub fn decide_shape(observed: &Observed) -> Option<Shape> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    // A spec that cannot be read cannot be rendered: only what exists is kept as it is.
    if observed.is_spec_invalid() && observed.objects.set_uid.is_none() {
        return None;
    }
    let replicas = replicas(observed, size);
    let voters = observed
        .etcd
        .members
        .iter()
        .flat_map(MemberList::voters)
        .count();
    let voters = voters.max(usize::try_from(size).unwrap_or(usize::MAX));
    let claims = claims(observed, replicas);
    Some(Shape {
        lineage: observed.lineages(&claims),
        replicas,
        // A single member can only be drained by stopping it, so its budget lets that happen.
        min_available: if voters <= 1 {
            0
        } else {
            u32::try_from(quorum(voters)).unwrap_or(0)
        },
        // Invariant: clients come only once the cluster ID is latched, so that nothing they wrote
        // can be in a first volume that was lost before.
        client_service: observed.cluster.latched.cluster_id.is_some()
            && !observed.cluster.latched.ending,
        closing: observed.cluster.latched.ending,
        claims,
        template: template(observed),
        fence: observed.cluster.latched.fence,
        floors: floors(observed),
    })
}

/// What brings the proven template back into the StatefulSet while nothing else is to be written; `None` where it is there,
/// or cannot be had. The data of a single member follows what it tries at once, so that there is no way back for it.
pub(crate) fn restoring(observed: &Observed) -> Option<Shape> {
    let (latched, objects) = (&observed.cluster.latched, &observed.objects);
    let proven = latched
        .proven
        .as_ref()
        .filter(|_| latched.cluster_id.is_some())?;
    let live = objects.template.as_ref()?;
    let kept = objects.kept_template.as_ref() == Some(&proven.template);
    let replicas = objects.replicas.filter(|_| !is_alone(observed))?;
    let shape = decide_shape(observed)?;
    (kept && *live != proven.template).then_some(Shape {
        replicas,
        template: Template::Kept,
        ..shape
    })
}

/// There is no other pod.
fn is_alone(observed: &Observed) -> bool {
    observed.pods.len() <= 1 && observed.objects.replicas == Some(1)
}

/// How far members are known to have come.
fn floors(observed: &Observed) -> BTreeMap<String, u64> {
    let voters = observed.cluster.latched.voters.iter();
    voters
        .filter_map(|voter| {
            let index = u64::try_from(voter.index?).ok()?;
            Some((voter.member_id.clone(), index))
        })
        .collect()
}

/// Which template new pods are made from. Once there is a cluster it is the proven one, except while the first member
/// that shall try another is being made.
fn template(observed: &Observed) -> Template {
    let (cluster, objects) = (&observed.cluster, &observed.objects);
    let (Some(target), Some(live)) = (&cluster.target, &objects.template) else {
        return Template::Render;
    };
    if cluster.latched.cluster_id.is_none() {
        // Clients were let in once, so members run on what is there, though the status no longer says so.
        let forgotten = objects.client_service || objects.predecessor;
        return if forgotten {
            Template::Live
        } else {
            Template::Render
        };
    }
    let Some(proven) = &cluster.latched.proven else {
        return Template::Live;
    };
    if target.invalid.is_some() {
        let back =
            *live != proven.template && objects.kept_template.as_ref() == Some(&proven.template);
        return if back { Template::Kept } else { Template::Live };
    }
    if is_being_tried(observed) {
        Template::Try
    } else if *live == proven.template {
        Template::Live
    } else if objects.kept_template.as_ref() == Some(&proven.template) {
        Template::Kept
    } else if target.template == proven.template
        || target.intent.version.minor == proven.version.minor
    {
        // What is proven cannot be had: what is asked for is nearer to it than what an older minor version left.
        Template::Render
    } else {
        Template::Live
    }
}

/// A member is to try the target, and its pod has not been made from it yet.
fn is_being_tried(observed: &Observed) -> bool {
    let cluster = &observed.cluster;
    let (Some(trial), Some(target)) = (cluster.latched.trial(), &cluster.target) else {
        return false;
    };
    let ordinal = api::names::ordinal(&cluster.name, &trial.member);
    let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
    let made = pod.is_some_and(|pod| !pod.terminating && pod.template == trial.template);
    let proven = cluster.latched.proven.as_ref();
    let untried = proven.is_none_or(|proven| proven.template != trial.template);
    let readable = proven.is_none_or(|proven| observed.may_be_read(proven));
    // A pod that its node does not end keeps the template there for as long, and others could meet it.
    let stuck = ordinal
        .is_some_and(|n| pod.is_some_and(|p| p.terminating) && !observed.is_on_a_live_node(n));
    // Where there is no other pod, no other can start on it; and the data of a single member follows it at once.
    let tries = is_alone(observed) || (!made && !stuck);
    // It may stay where it is though the member list cannot be had for a moment.
    let held = observed.objects.template.as_ref() == Some(&target.template);
    let found = held || is_alone(observed) || observed.may_listen();
    trial.template == target.template && untried && readable && tries && found
}

/// As many pods as the spec asks for, and one for everything that already has a vote, or, while the member list is not
/// known, data: a membership is started as it was stopped, and a member goes before its pod does.
fn replicas(observed: &Observed, size: u32) -> u32 {
    if size == 0 || observed.cluster.latched.ending || observed.is_fetching() {
        return 0;
    }
    // The pod of a member that has left goes, so that its claim can; members leave from the top.
    let gone = observed
        .leaving()
        .filter(|leaving| leaving.listed == Some(false) && observed.goes(leaving))
        .filter(|leaving| leaving.ordinal >= size || leaving.intent.replaced.is_none());
    let next = |highest: Option<u32>| highest.map_or(0, |highest| highest.saturating_add(1));
    let listed = observed
        .own_list()
        .into_iter()
        .flat_map(|list| &list.members);
    let listed = next(
        listed
            .filter_map(|member| observed.ordinal_of(member))
            .max(),
    );
    if let Some(lowest) = gone.map(|leaving| leaving.ordinal).min() {
        // Pods do not end in order: who left later may be gone before who left first, and is not recreated.
        return lowest.min(size).max(listed);
    }
    if observed.cluster.latched.cluster_id.is_some() && observed.own_list().is_some() {
        return room(observed, size).max(listed);
    }
    // Who is a member is not known: nothing changes on that account. A set that is to be made, or was stopped, gets a
    // pod for everything that has data.
    let in_force = observed
        .objects
        .replicas
        .or(observed.cluster.latched.replicas);
    let in_force = in_force.filter(|replicas| *replicas > 0 && observed.own_list().is_none());
    let with_data = || {
        let claims = observed.claims.iter();
        claims.filter(|(_, claim)| !observed.is_of_removed(claim))
    };
    let with_claim = || next(with_data().map(|(ordinal, _)| *ordinal).max());
    size.max(listed).max(in_force.unwrap_or_else(with_claim))
}

/// As many as are asked for; but the template that an earlier operator left lets no member join, so no pod is made from
/// it, and the member that is to try the gate comes alone.
fn room(observed: &Observed, size: u32) -> u32 {
    let latched = &observed.cluster.latched;
    let theirs = |proven: &Proven| proven.template.is_empty();
    if !latched.proven.as_ref().is_some_and(theirs) {
        return size;
    }
    let trial = latched.trial();
    let comes = trial.and_then(|trial| api::names::ordinal(&observed.cluster.name, &trial.member));
    let comes = comes.map_or(0, |ordinal| ordinal.saturating_add(1));
    observed
        .objects
        .replicas
        .map_or(size, |there| there.max(comes).min(size))
}

/// Claims that we make and label. What an earlier object kept is left alone until it is resumed.
fn claims(observed: &Observed, replicas: u32) -> Vec<u32> {
    let formed = observed.cluster.latched.cluster_id.is_some();
    let wanted = (0..replicas).filter(|ordinal| match observed.claims.get(ordinal) {
        // The StatefulSet makes it, as the others were made.
        None => !observed.is_spec_invalid(),
        Some(claim) => !claim.terminating && (claim.ours || formed),
    });
    wanted.collect()
}
