//! Invariant 12: members speak schemes under which a quorum can talk, and trust one authority.

use api::{Plane, Transport};
use manifests::Template;

use super::{Violation, ensure};
use crate::observed::{Issued, Latched, Observed, Pod};

/// What a cluster that has formed runs; an earlier release formed plaintext ones only, and recorded nothing.
fn in_force(latched: &Latched) -> Option<Transport> {
    latched.cluster_id?;
    Some(latched.transport.unwrap_or_default())
}

/// A rung of the ladder, by its height.
fn height(plane: Plane) -> u8 {
    match plane {
        Plane::Plain => 0,
        Plane::Both => 1,
        Plane::Tls => 2,
    }
}

/// From what is in force members may go there: it is a neighbour, and every member has reached what is in force, or those that
/// have not are there.
fn may_go(latched: &Latched, from: Transport, to: Transport) -> bool {
    let everywhere = latched.proven.as_ref().is_some_and(|it| it.everywhere);
    let before = latched.transport_before;
    let plane = |from: Plane, to: Plane, before: Option<Plane>| {
        let near = height(from).abs_diff(height(to)) <= 1;
        from == to || (near && (everywhere || before == Some(to)))
    };
    plane(from.client, to.client, before.map(|it| it.client))
        && plane(from.peer, to.peer, before.map(|it| it.peer))
}

/// Pods are made with the schemes that the members have; one that tries a template may be a rung away, once its certificates
/// are there.
pub(super) fn check_template(observed: &Observed, template: Template) -> Result<(), Violation> {
    let latched = &observed.cluster.latched;
    let (Some(runs), Some(target)) = (in_force(latched), &observed.cluster.target) else {
        return Ok(());
    };
    let to = target.intent.tls.transport;
    match template {
        Template::Live | Template::Kept => Ok(()),
        Template::Render => ensure(target.runs == runs, Violation::Transport),
        Template::Try => {
            ensure(may_go(latched, runs, to), Violation::Transport)?;
            let first = runs == Transport::default() && to != runs;
            ensure(!first || has_certificates(observed), Violation::Transport)
        }
    }
}

/// The members have certificates of the authority that there is.
fn has_certificates(observed: &Observed) -> bool {
    let issued = &observed.certificates;
    match (&issued.authority, &issued.members) {
        (Issued::Recorded(ours), Issued::Recorded(theirs)) => {
            ours.authorities == theirs.authorities
        }
        _other => false,
    }
}

/// A pod starts only if it listens as its member is, or will be, listed.
pub(super) fn check_grant(observed: &Observed, pod: &Pod) -> Result<(), Violation> {
    let Some(runs) = in_force(&observed.cluster.latched) else {
        let target = observed.cluster.target.as_ref();
        let asked = target.map(|target| target.intent.tls.transport);
        return ensure(asked == Some(pod.transport), Violation::Transport);
    };
    ensure(runs.peer == pod.transport.peer, Violation::Transport)
}

/// What a cluster was formed with stays, until a member is seen to run otherwise: where nothing was known of what they run, or
/// on a template that is a rung away.
pub(super) fn check_latch(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    ensure(new.switches >= old.switches, Violation::Forgets)?;
    if old.recovery.is_some() != new.recovery.is_some() {
        return ensure(old.transport == new.transport, Violation::Transport);
    }
    let (Some(before), Some(after)) = (in_force(old), in_force(new)) else {
        return Ok(());
    };
    if before == after {
        return Ok(());
    }
    let proven = new.proven.as_ref().ok_or(Violation::Transport)?;
    let mut pods = observed.pods.values().filter(|pod| pod.serving().is_some());
    let seen = pods.any(|pod| pod.template == proven.template && pod.transport == after);
    let known = old.proven.is_some();
    let counted = new.switches > old.switches || old.transport.is_none();
    ensure(
        seen && counted && (!known || may_go(old, before, after)),
        Violation::Transport,
    )
}

/// Another authority only where the cluster is stopped, is plaintext, or no pod was granted its start: members read what they trust once,
/// when they start. Nor are certificates of another authority written under them.
pub(super) fn check_issue(observed: &Observed, authority: bool) -> Result<(), Violation> {
    let issued = &observed.certificates.authority;
    let latched = &observed.cluster.latched;
    let never = latched.bootstrap.is_none() && latched.cluster_id.is_none();
    if authority {
        let none = never || is_stopped(observed) || is_plaintext(observed);
        let free = matches!(issued, Issued::Missing | Issued::Altered);
        return ensure(none && free, Violation::Transport);
    }
    let Issued::Recorded(ours) = issued else {
        return Err(Violation::Transport);
    };
    let of_another = match &observed.certificates.members {
        Issued::Recorded(theirs) => theirs.authorities != ours.authorities,
        Issued::Unknown | Issued::Missing | Issued::Foreign | Issued::Altered => false,
    };
    ensure(
        !of_another || never || is_stopped(observed) || is_plaintext(observed),
        Violation::Transport,
    )
}

/// Every pod is there and has no certificates, and no template that has some was proven or is tried.
fn is_plaintext(observed: &Observed) -> bool {
    let latched = &observed.cluster.latched;
    let plain =
        |transport: Option<Transport>| transport.is_none_or(|it| it == Transport::default());
    let recorded = plain(latched.transport) && plain(latched.transport_before);
    let pods = observed.pods.values();
    let seen = pods.filter(|pod| plain(Some(pod.transport))).count();
    let replicas = observed.objects.replicas.unwrap_or(0);
    let all = usize::try_from(replicas).is_ok_and(|replicas| replicas == seen);
    all && seen == observed.pods.len() && recorded && latched.trial().is_none()
}

/// No pod has read anything that a later one would contradict.
fn is_stopped(observed: &Observed) -> bool {
    let replicas = observed.objects.replicas.unwrap_or(0);
    replicas == 0 && observed.pods.is_empty()
}
