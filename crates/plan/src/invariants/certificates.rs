//! Invariant 12: members speak the schemes that they are listed under, and trust one authority.

use api::Transport;
use manifests::Template;

use super::{Violation, ensure};
use crate::observed::{Issued, Latched, Observed, Pod};

/// What a cluster that has formed runs; an earlier release formed plaintext ones only, and recorded nothing.
fn in_force(latched: &Latched) -> Option<Transport> {
    latched.cluster_id?;
    Some(latched.transport.unwrap_or_default())
}

/// Pods are made with the schemes that the members have.
pub(super) fn check_template(observed: &Observed, template: Template) -> Result<(), Violation> {
    let renders = match template {
        Template::Render | Template::Try => true,
        Template::Live | Template::Kept => false,
    };
    let (Some(runs), Some(target)) = (
        in_force(&observed.cluster.latched),
        &observed.cluster.target,
    ) else {
        return Ok(());
    };
    ensure(
        !renders || target.intent.tls.transport == runs,
        Violation::Transport,
    )
}

/// A pod starts only if it listens as its member is, or will be, listed.
pub(super) fn check_grant(observed: &Observed, pod: &Pod) -> Result<(), Violation> {
    let target = observed.cluster.target.as_ref();
    let asked = target.map(|target| target.intent.tls.transport);
    let listed = in_force(&observed.cluster.latched).or(asked);
    ensure(listed == Some(pod.transport), Violation::Transport)
}

/// What a cluster was formed with stays, unless nothing was recorded and a member is seen to run otherwise.
pub(super) fn check_latch(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    if old.recovery.is_some() != new.recovery.is_some() {
        return ensure(old.transport == new.transport, Violation::Transport);
    }
    let (Some(before), Some(after)) = (in_force(old), in_force(new)) else {
        return Ok(());
    };
    let mut pods = observed.pods.values().filter(|pod| pod.serving().is_some());
    let seen = old.transport.is_none() && pods.any(|pod| pod.transport == after);
    ensure(before == after || seen, Violation::Transport)
}

/// Another authority only where the cluster is stopped, or no pod was granted its start: members read what they trust once,
/// when they start. Nor are certificates of another authority written under them.
pub(super) fn check_issue(observed: &Observed, authority: bool) -> Result<(), Violation> {
    let issued = &observed.certificates.authority;
    let latched = &observed.cluster.latched;
    let never = latched.bootstrap.is_none() && latched.cluster_id.is_none();
    if authority {
        let none = never || is_stopped(observed);
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
        !of_another || never || is_stopped(observed),
        Violation::Transport,
    )
}

/// No pod has read anything that a later one would contradict.
fn is_stopped(observed: &Observed) -> bool {
    let replicas = observed.objects.replicas.unwrap_or(0);
    replicas == 0 && observed.pods.is_empty()
}
