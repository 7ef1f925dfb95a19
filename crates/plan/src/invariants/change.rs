//! What must hold for changes of what members run on, and for the end of their data.

use api::v1alpha1::cluster::Retention;
use manifests::Template;

use super::departed::Departure;
use super::{Violation, certificates, ensure, facts, hang, trust};
use crate::observed::{Latched, Member, Observed, Pod, Process, parse_id, quorum};

/// Pods that are recreated get what is proven; anything else only for a trial that was recorded.
pub(super) fn check_template(observed: &Observed, template: Template) -> Result<(), Violation> {
    let latched = &observed.cluster.latched;
    let target = observed.cluster.target.as_ref();
    let proven = latched
        .proven
        .as_ref()
        .filter(|_| latched.cluster_id.is_some());
    match template {
        Template::Live => Ok(()),
        Template::Kept => {
            let kept = observed.objects.kept_template.as_ref();
            let same = proven.is_some_and(|proven| kept == Some(&proven.template));
            ensure(same, Violation::Unproven)
        }
        Template::Render => {
            let target = target.ok_or(Violation::Unknown)?;
            let forgotten = observed.objects.client_service;
            let same = proven.map_or(!forgotten, |proven| proven.template == target.template);
            // Where what is proven cannot be had, it comes back as well as we can make it.
            let has = |template: &Option<String>| {
                proven.is_some_and(|proven| template.as_ref() == Some(&proven.template))
            };
            let lost = !has(&observed.objects.template) && !has(&observed.objects.kept_template);
            let vanished = observed.objects.template.is_none();
            ensure(
                same || vanished || (lost && proven.is_some()),
                Violation::Unproven,
            )
        }
        Template::Try => {
            let trial = latched.trial().ok_or(Violation::Unproven)?;
            let target = target.ok_or(Violation::Unknown)?;
            ensure(trial.template == target.template, Violation::Unproven)?;
            // A pod that does not end would keep it there for all others.
            let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member);
            let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
            let dead = facts::is_on_a_dead_node(observed, &trial.member);
            let alone = observed.objects.replicas == Some(1);
            let stuck = pod.is_some_and(|pod| pod.terminating) && dead && !alone;
            ensure(!stuck, Violation::Unproven)
        }
    }
}

/// Only what is proven is brought back.
pub(super) fn check_restore(observed: &Observed, template: Template) -> Result<(), Violation> {
    ensure(template == Template::Kept, Violation::Unproven)?;
    check_template(observed, template)
}

/// What is proven was seen to run.
pub(super) fn check_proof(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    let Some(proven) = new.proven.as_ref().filter(|_| new.proven != old.proven) else {
        return Ok(());
    };
    if let Some(before) = old
        .proven
        .as_ref()
        .filter(|before| before.template == proven.template)
    {
        let mut pods = observed.pods.values().filter(|pod| !pod.terminating);
        let reached = pods.all(|pod| pod.template == proven.template);
        return ensure(
            before.everywhere || !proven.everywhere || reached,
            Violation::Unproven,
        );
    }
    if old.proven.is_none() {
        return Ok(());
    }
    let runs = |pod: &Pod| {
        pod.template == proven.template
            && match &observed.etcd.members {
                Some(list) => list.voters().any(|voter| {
                    let this = pod.serving().map(|serving| serving.member_id) == Some(voter.id);
                    this && facts::is_healthy(observed, list, voter)
                }),
                // Without a quorum no more can be had than that it comes up.
                None => pod.process != Process::Unknown && !facts::is_led(observed),
            }
    };
    ensure(observed.pods.values().any(runs), Violation::Unproven)
}

/// Members of two neighbouring minor versions at most.
pub(super) fn check_lines(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let target = observed.cluster.target.as_ref();
    let begins = new
        .trial()
        .filter(|_| observed.cluster.latched.trial().is_none());
    let (Some(target), Some(trial)) = (target, begins) else {
        return Ok(());
    };
    // A member that is called back goes to what is proven.
    let proven = observed.cluster.latched.proven.as_ref();
    let back = proven.filter(|proven| proven.template == trial.template);
    let version = back.map_or(target.intent.version, |proven| proven.version);
    let minor = version.minor;
    let running = observed
        .pods
        .values()
        .filter_map(|pod| pod.serving()?.version);
    let near = |version: api::EtcdVersion| version.minor.abs_diff(minor) <= 1;
    ensure(running.into_iter().all(near), Violation::Line)
}

/// No voluntary step leaves fewer healthy voters than a quorum, and there is no second disruption.
pub(super) fn check_restart(observed: &Observed, ordinal: u32, uid: &str) -> Result<(), Violation> {
    let pod = observed.pods.get(&ordinal).ok_or(Violation::Unknown)?;
    ensure(pod.uid == uid, Violation::Unknown)?;
    let latched = &observed.cluster.latched;
    let unformed = latched.cluster_id.is_none();
    if facts::cannot_start(pod) || (unformed && facts::has_never_run(pod)) {
        return Ok(());
    }
    if latched.recovery.is_some() {
        return check_mend(observed, pod);
    }
    // With a quorum that responds, one of them may be the first on another template.
    let tries = latched.trial().is_some_and(|trial| trial.pod_uid == uid)
        && observed.etcd.members.is_some();
    if trust::is_stranded(observed, pod) && !tries {
        return trust::check_stranded(observed, pod);
    }
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let Some(member) = facts::member_of(observed, ordinal) else {
        return ensure(facts::has_never_run(pod), Violation::Unknown);
    };
    if hang::is_written(observed, uid) {
        return hang::check_restart(observed, member);
    }
    ensure(facts::no_grant_is_open(observed), Violation::OpenGrant)?;
    ensure(
        !list.learners().any(|learner| learner.id != member.id),
        Violation::Learner,
    )?;
    let voters = list.voters().count();
    let others = || list.voters().filter(|voter| voter.id != member.id);
    let held = pod.held().is_some();
    ensure(
        held || !others().any(|voter| facts::is_away(observed, voter)),
        Violation::Quorum,
    )?;
    let is_healthy = |voter: &&Member| facts::is_healthy(observed, list, voter);
    let healthy = others().filter(is_healthy).count();
    let alone = voters == 1 && !member.learner;
    ensure(alone || healthy >= quorum(voters), Violation::Quorum)?;
    // A member that is well goes only while all the others are.
    let well = is_healthy(&member) && !member.learner;
    ensure(
        !well || healthy.saturating_add(1) == voters,
        Violation::Quorum,
    )?;
    let leads = facts::leader(observed) == Some(member.id);
    ensure(alone || !leads, Violation::Quorum)?;
    // Recorded first, so that a late look leads to the restart of no other member.
    let written = latched
        .trial()
        .filter(|trial| trial.pod_uid == uid && trial.template != pod.template);
    let written = written.ok_or(Violation::NotAskedFor)?;
    certificates::check_restart(observed, member, &written.template)?;
    check_line(observed, &written.template)
}

/// A pod of a recovery that runs no etcd: its agent waits behind the fence and was not let through. It is
/// recreated only where another template is in force.
fn check_mend(observed: &Observed, pod: &Pod) -> Result<(), Violation> {
    let latched = &observed.cluster.latched;
    ensure(pod.held().is_some(), Violation::Unknown)?;
    let fenced = pod.fence.is_some() && pod.fence >= latched.fence;
    ensure(fenced && !facts::is_granted(pod), Violation::OpenGrant)?;
    let other = observed.objects.template.as_ref() != Some(&pod.template);
    ensure(other, Violation::NotAskedFor)
}

/// A member is to try a template only on a node that answers, and only when its data can be read there.
pub(super) fn check_trial(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let new = new.trial();
    let old = observed.cluster.latched.trial();
    let new = new.filter(|new| {
        old.is_none_or(|old| (&old.member, &old.template) != (&new.member, &new.template))
    });
    let Some(new) = new else {
        return Ok(());
    };
    // What no pod could be created from would cost the member once more.
    let old = &observed.cluster.latched;
    let called_off = old.called_off.as_ref() == Some(&new.template);
    ensure(!called_off, Violation::Unproven)?;
    // On a silent node nothing ends and nothing starts: the template would wait for it in the StatefulSet.
    let dead = facts::is_on_a_dead_node(observed, &new.member);
    ensure(!dead, Violation::Unproven)?;
    check_line(observed, &new.template)
}

/// One minor version of etcd at a time: up once the data has followed, down once etcd has prepared it and nothing can
/// raise it.
fn check_line(observed: &Observed, template: &str) -> Result<(), Violation> {
    let (Some(proven), Some(target)) = (&observed.cluster.latched.proven, &observed.cluster.target)
    else {
        return Ok(());
    };
    let (from, to) = (proven.version.minor, target.intent.version.minor);
    if from == to || template == proven.template {
        return Ok(());
    }
    ensure(from.abs_diff(to) == 1, Violation::Line)?;
    let Some(list) = &observed.etcd.members else {
        return ensure(to > from, Violation::Line);
    };
    let mut keeps = false;
    for member in &list.members {
        let ordinal = observed.ordinal_of(member);
        let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
        // Its data was ready when it tried in vain.
        if pod.is_some_and(|pod| facts::cannot_start(pod) && pod.template != proven.template) {
            continue;
        }
        let serving = facts::serving_as(observed, member.id).ok_or(Violation::Unknown)?;
        let runs = serving.version.ok_or(Violation::Unknown)?.minor;
        // 3.5 does not report it.
        let format = serving.storage.unwrap_or(5);
        let ready = if to < from {
            runs <= to || format <= to
        } else {
            format >= from
        };
        ensure(ready, Violation::Line)?;
        keeps = keeps || runs <= to || serving.downgrade == Some(to);
    }
    ensure(to > from || keeps, Violation::Line)
}

/// Data is prepared for an older release only while every member takes part, and no member is about to come back on
/// another minor version.
pub(super) fn check_downgrade(observed: &Observed, to: Option<u8>) -> Result<(), Violation> {
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let all = list
        .members
        .iter()
        .all(|m| facts::is_healthy(observed, list, m) && !facts::is_away(observed, m));
    let Some(to) = to else {
        return Ok(());
    };
    ensure(all, Violation::Quorum)?;
    // A member two minor versions above the data would be thrown out of its own cluster.
    let above = to.saturating_add(1);
    let next = list.members.iter().all(|member| {
        let serving = facts::serving_as(observed, member.id);
        serving.is_some_and(|s| s.version.is_some_and(|version| version.minor == above))
    });
    ensure(next, Violation::Line)
}

/// Data is called that of a removed member only if that member was removed, on this very claim.
pub(super) fn check_told(
    observed: &Observed,
    ordinal: u32,
    uid: &str,
    members: &[u64],
) -> Result<(), Violation> {
    let pod = observed.pods.get(&ordinal).ok_or(Violation::Unknown)?;
    ensure(pod.uid == uid, Violation::Unknown)?;
    let removed = |id: &u64| {
        Departure::all(observed).any(|leaves| {
            leaves.ordinal == ordinal
                && leaves.id == Some(*id)
                && leaves.has_left(observed)
                && leaves.claim(observed).is_some()
        })
    };
    // A member that once voted and is listed no more can never come back under its ID.
    let latched = &observed.cluster.latched;
    let list = observed.etcd.members.as_ref();
    let list = list.filter(|list| latched.cluster_id == Some(list.cluster_id));
    let unlisted = |id: u64| list.is_some_and(|list| list.members.iter().all(|m| m.id != id));
    let voted = |id: u64| {
        let mut known = latched.voters.iter();
        known.any(|known| parse_id(&known.member_id) == Some(id))
    };
    let all = members
        .iter()
        .all(|id| removed(id) || (voted(*id) && unlisted(*id)));
    ensure(all, Violation::LastCopy)
}

/// Data ends only by the owner's policy, when nothing runs.
pub(super) fn check_ending(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    if !new.ending || observed.cluster.latched.ending {
        return Ok(());
    }
    let intent = observed.cluster.intent.as_ref();
    let asked = intent
        .is_ok_and(|intent| intent.size == 0 && intent.storage.when_stopped == Retention::Delete);
    ensure(asked && observed.pods.is_empty(), Violation::LastCopy)
}

/// A new incarnation begins only when nothing is left of the old one.
pub(super) fn check_end(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    // What an earlier object kept, and this one never took over, is not part of it.
    let formed = observed.cluster.latched.cluster_id.is_some();
    let mut claims = observed.claims.values();
    let nothing = !claims.any(|claim| claim.ours || formed)
        && observed.pods.is_empty()
        && !observed.objects.client_service
        && new.cluster_id.is_none();
    let raised = new.incarnation > observed.cluster.latched.incarnation;
    ensure(nothing && raised, Violation::Forgets)
}

/// A claim only ever grows.
pub(super) fn check_expand(
    observed: &Observed,
    ordinal: u32,
    uid: &str,
    size: &str,
) -> Result<(), Violation> {
    let claim = observed.claims.get(&ordinal).ok_or(Violation::Unknown)?;
    ensure(
        claim.uid == uid && claim.expandable == Some(true),
        Violation::Unknown,
    )?;
    let requested = claim.requested.ok_or(Violation::Unknown)?;
    let wanted = api::Quantity(size.to_owned()).value();
    ensure(
        wanted.is_some_and(|wanted| wanted > requested),
        Violation::LastCopy,
    )
}

/// A StatefulSet that is recreated gets what is asked for, so that must be proven.
pub(super) fn check_orphan(observed: &Observed, uid: &str) -> Result<(), Violation> {
    ensure(
        observed.objects.set_uid.as_deref() == Some(uid),
        Violation::Unknown,
    )?;
    let latched = &observed.cluster.latched;
    let target = observed.cluster.target.as_ref();
    let target = target.filter(|target| target.refused.is_none());
    let asked_for = target.map(|target| &target.template);
    let proven = latched.proven.as_ref().map(|proven| &proven.template);
    ensure(
        latched.trial().is_none() && proven.is_some() && proven == asked_for,
        Violation::Unproven,
    )
}

/// Data that is taken over is read by the release that wrote it, or by the next minor version.
pub(super) fn check_resumed(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let begins = new.resumed && observed.cluster.latched.cluster_id.is_none();
    let Some(intent) = observed.cluster.intent.as_ref().ok().filter(|_| begins) else {
        return Ok(());
    };
    let asked = intent.version.minor;
    let claims = observed.claims.values();
    let lineages = claims.filter_map(|claim| claim.lineage.as_ref());
    let mut written = lineages.filter_map(|lineage| {
        let version = lineage.version.as_deref()?;
        api::EtcdVersion::parse(version)
    });
    let reads = written.all(|wrote| asked == wrote.minor || asked == wrote.minor.saturating_add(1));
    ensure(reads, Violation::Line)
}
