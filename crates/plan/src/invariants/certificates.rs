//! Invariant 12: members speak schemes under which a quorum can talk, and trust one authority.

use api::{Plane, Transport};
use manifests::Template;

use super::{Violation, auth, ensure, facts};
use crate::decision::Step;
use crate::observed::{Issued, Latched, Member, MemberList, Observed, Offered, Pod};

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
            auth::check_rung(observed, runs, to)?;
            let first = runs == Transport::default() && to != runs;
            ensure(!first || has_certificates(observed), Violation::Transport)?;
            let held = observed.objects.template.as_ref() == Some(&target.template);
            let alone = observed.objects.replicas == Some(1);
            let found = held || alone || can_be_found(observed, runs.peer, to.peer);
            ensure(found, Violation::Transport)
        }
    }
}

/// What the URLs begin with under which a member of this rung listens for the others.
fn listens(plane: Plane) -> &'static str {
    match plane {
        Plane::Plain | Plane::Both => "http://",
        Plane::Tls => "https://",
    }
}

fn is_listed(member: &Member, begin: &str) -> bool {
    member.peer_urls.iter().any(|url| url.starts_with(begin))
}

/// A member that goes to this rung is found by all others, and finds them. Without a list only one that listens as before.
fn can_be_found(observed: &Observed, from: Plane, to: Plane) -> bool {
    let Some(list) = &observed.etcd.members else {
        return listens(from) == listens(to);
    };
    let mut members = list.members.iter();
    let mut pods = observed.pods.values().map(|pod| pod.transport.peer);
    if from == to {
        return true;
    }
    match to {
        // It has no certificates to reach another with.
        Plane::Plain => {
            members.all(|member| !is_listed(member, "https://")) && pods.all(|it| it != Plane::Tls)
        }
        Plane::Both => members.all(|it| is_listed(it, listens(from)) && is_listed(it, listens(to))),
        Plane::Tls => {
            members.all(|it| is_listed(it, listens(from)) && is_listed(it, listens(to)))
                && pods.all(|it| it != Plane::Plain)
        }
    }
}

/// A member comes back on a template only as the others will look for it.
pub(super) fn check_restart(
    observed: &Observed,
    member: &Member,
    template: &str,
) -> Result<(), Violation> {
    let latched = &observed.cluster.latched;
    let target = observed.cluster.target.as_ref();
    let target = target.filter(|target| target.template == template);
    let proven = latched.proven.as_ref().filter(|it| it.template == template);
    let to = target.map(|target| target.intent.tls.transport);
    let to = to.or_else(|| in_force(latched).filter(|_| proven.is_some()));
    let voters = observed.etcd.members.iter();
    let voters = voters.flat_map(MemberList::voters).count();
    let found = to.is_none_or(|to| is_listed(member, listens(to.peer)));
    ensure(found || voters < 2, Violation::Transport)
}

/// The others go on finding the voter: as its pod listens, and as one that is made from what is proven or tried would; and
/// under plaintext while a member has no certificates.
pub(super) fn check_update(observed: &Observed, step: &Step) -> Result<(), Violation> {
    let Step::UpdatePeer {
        id,
        ordinal,
        peer_urls: urls,
    } = step
    else {
        return Err(Violation::Unknown);
    };
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let latched = &observed.cluster.latched;
    let voter = list.voters().find(|voter| voter.id == *id);
    let voter = voter.ok_or(Violation::Learner)?;
    ensure(facts::no_grant_is_open(observed), Violation::OpenGrant)?;
    let runs = in_force(latched).ok_or(Violation::Unknown)?;
    ensure(latched.recovery.is_none(), Violation::Unknown)?;
    let (name, namespace) = (&observed.cluster.name, &observed.cluster.namespace);
    let own = |url: &String| api::names::ordinal_of_url(name, namespace, url) == Some(*ordinal);
    let same = observed.ordinal_of(voter) == Some(*ordinal);
    let given = same && !urls.is_empty() && urls.iter().all(own);
    ensure(given, Violation::WrongMemberList)?;
    let new = Member {
        peer_urls: urls.clone(),
        ..voter.clone()
    };
    let lists = |plane: Plane| is_listed(&new, listens(plane));
    let pod = observed.pods.get(ordinal);
    let gone = pod.is_none_or(|pod| pod.terminating);
    let proven = latched.proven.as_ref().map(|it| &it.template);
    let other = observed.objects.template.as_ref() != proven;
    let mut dropped = voter.peer_urls.iter().filter(|url| !urls.contains(url));
    let drops = dropped.next().is_some();
    let target = observed.cluster.target.as_ref();
    let tried = target.map(|target| target.intent.tls.transport.peer);
    let found = lists(runs.peer)
        && pod.is_none_or(|pod| lists(pod.transport.peer))
        && (!drops || !(gone || other))
        && (latched.trial().is_none() || tried.is_none_or(lists));
    let before = latched.transport_before.map(|it| it.peer);
    let mut all = observed.pods.values().map(|pod| pod.transport.peer);
    let bare = runs.peer == Plane::Plain
        || before == Some(Plane::Plain)
        || all.any(|it| it == Plane::Plain);
    ensure(
        found && (!bare || lists(Plane::Plain)),
        Violation::Transport,
    )
}

/// The members have certificates of the authority, and of the source, that there is.
fn has_certificates(observed: &Observed) -> bool {
    let issued = &observed.certificates;
    is_trusted(observed)
        && match (&issued.authority, &issued.members) {
            (Issued::Recorded(ours), Issued::Recorded(theirs)) => {
                ours.authorities == theirs.authorities
            }
            _other => false,
        }
}

/// A pod starts only if it listens as its member is, or will be, listed.
pub(super) fn check_grant(observed: &Observed, ordinal: u32, pod: &Pod) -> Result<(), Violation> {
    let target = observed.cluster.target.as_ref();
    let Some(runs) = in_force(&observed.cluster.latched) else {
        let asked = target.map(|target| target.intent.tls.transport);
        return ensure(asked == Some(pod.transport), Violation::Transport);
    };
    let latched = &observed.cluster.latched;
    let member = facts::member_of(observed, ordinal);
    let found = if let Some(member) = member.filter(|_| latched.recovery.is_none()) {
        is_listed(member, listens(pod.transport.peer))
    } else {
        // By no list: it has to be what some of the others are on.
        let tried = target.filter(|_| latched.trial().is_some());
        let tried = tried.map(|target| target.intent.tls.transport.peer);
        let before = latched.transport_before.map(|it| it.peer);
        [Some(runs.peer), before, tried].contains(&Some(pod.transport.peer))
    };
    ensure(found, Violation::Transport)
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

/// What would be copied now was issued by what the members were told to trust, as far as any Secret of ours still tells.
pub(super) fn is_trusted(observed: &Observed) -> bool {
    let issued = &observed.certificates;
    let trust = match &issued.offered {
        Offered::Unusable(_) => return false,
        Offered::Own => None,
        Offered::Usable(copied) => Some(&copied.trust),
    };
    let recorded = [&issued.members, &issued.clients].map(Issued::record);
    let mut told = recorded.into_iter().flatten();
    let first = told.next().map(|it| it.copied.as_ref().map(|it| &it.trust));
    first.is_none_or(|told| told == trust)
}

/// Every pod is there and has no certificates, and no template that has some was proven or is tried.
pub(super) fn is_plaintext(observed: &Observed) -> bool {
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
pub(super) fn is_stopped(observed: &Observed) -> bool {
    let replicas = observed.objects.replicas.unwrap_or(0);
    replicas == 0 && observed.pods.is_empty()
}
