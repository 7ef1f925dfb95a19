//! Invariant 12, of trust: no certificate is shown that a member which runs does not trust, and nothing is trusted no longer
//! that a member or a client shows.

use api::certificates::{Record, for_clients};
use jiff::SignedDuration;

use super::certificates::{is_plaintext, is_stopped, is_trusted};
use super::{Violation, ensure, facts};
use crate::decision::{Issue, Issuer, Rotate};
use crate::observed::{Issued, Login, Observed, Offered, Pod, Process};

/// A kubelet brings a changed Secret in less than this.
const BROUGHT: SignedDuration = SignedDuration::from_secs(110);

/// Users get other certificates in less than this, or not by themselves.
const REISSUED: SignedDuration = SignedDuration::from_secs(590);

fn recorded(issued: &Issued) -> Option<&Record> {
    match issued {
        Issued::Recorded(record) => Some(record),
        Issued::Unknown | Issued::Missing | Issued::Foreign | Issued::Altered => None,
    }
}

/// Whatever authority comes next, no member contradicts it.
fn is_free(observed: &Observed) -> bool {
    let latched = &observed.cluster.latched;
    let never = latched.bootstrap.is_none() && latched.cluster_id.is_none();
    never || is_stopped(observed) || is_plaintext(observed)
}

/// Every member that runs has read what is mounted now.
fn have_all_read(observed: &Observed, members: &Record) -> bool {
    let expected = observed.objects.replicas.unwrap_or(0);
    let generation = members.trust.as_ref().map_or(0, |it| it.generation);
    let read = observed.pods.values();
    let read = read.filter(|pod| !pod.terminating && pod.trust >= generation);
    let read = read.count();
    usize::try_from(expected).is_ok_and(|expected| expected == read) && read == observed.pods.len()
}

/// What issued these is trusted by members that were told this.
fn is_told(members: &Record, issuer: &str, clients_only: bool) -> bool {
    let told = members.trusted();
    let mut told = told.iter();
    told.any(|it| it == issuer || (clients_only && *it == for_clients(issuer)))
}

fn is_pending(ours: &Record) -> bool {
    ours.rotation.as_ref().is_some_and(|it| it.pending)
}

fn previous(ours: &Record) -> Option<&String> {
    ours.rotation.as_ref()?.previous.as_ref()
}

/// Another authority, certificates of another one, or of another source, only where no member contradicts them.
pub(super) fn check_issue(observed: &Observed, issue: Issue) -> Result<(), Violation> {
    let issued = &observed.certificates;
    let free = is_free(observed);
    if issue.authority {
        let over = match &issued.authority {
            Issued::Missing | Issued::Altered => true,
            Issued::Recorded(ours) => ours.not_after.0 <= observed.now,
            Issued::Unknown | Issued::Foreign => false,
        };
        return ensure(free && over, Violation::Transport);
    }
    let Issued::Recorded(ours) = &issued.authority else {
        return Err(Violation::Transport);
    };
    if free {
        return ensure(issue.by == Issuer::Newest, Violation::Transport);
    }
    let members = recorded(&issued.members);
    if issue.members {
        let safe = match issue.by {
            Issuer::Newest => is_shown_safely(observed, ours, members),
            Issuer::Previous => {
                is_trusted(observed) && goes_on(ours, members.or(recorded(&issued.clients)))
            }
        };
        ensure(safe, Violation::Transport)?;
    }
    if issue.clients && !issue.members {
        let safe = match (issue.by, members) {
            (Issuer::Newest, Some(members)) => members.authorities == ours.authorities,
            // What is issued again stays what it was.
            (Issuer::Newest, None) => {
                let before = recorded(&issued.clients);
                !is_pending(ours) || before.is_some_and(|it| it.authorities == ours.authorities)
            }
            (Issuer::Previous, members) => goes_on(ours, members),
        };
        ensure(safe, Violation::Transport)?;
    }
    Ok(())
}

/// The authority before issued what is shown.
fn goes_on(ours: &Record, members: Option<&Record>) -> bool {
    let before = previous(ours);
    before.is_some() && members.is_none_or(|members| Some(&members.authorities) == before)
}

/// Every member trusts what would be shown from now on.
fn is_shown_safely(observed: &Observed, ours: &Record, members: Option<&Record>) -> bool {
    let theirs = match &observed.certificates.offered {
        Offered::Own => None,
        Offered::Usable(copied) => Some(&copied.trust),
        Offered::Unusable(_) => return false,
    };
    let Some(members) = members else {
        let clients = recorded(&observed.certificates.clients);
        let same = clients.is_none_or(|it| it.authorities == ours.authorities);
        let known = clients.is_some() || !is_pending(ours);
        return same && known && is_trusted(observed);
    };
    let renewed = members.authorities == ours.authorities && is_trusted(observed);
    let told = is_told(members, &ours.authorities, theirs.is_some())
        && theirs.is_none_or(|theirs| is_told(members, theirs, false));
    renewed || (told && (have_all_read(observed, members) || is_over(observed, ours, members)))
}

/// Nothing can be shown any more that the members trust: their authority has expired by the dates that were recorded; or what
/// they show has, and its issuer is gone.
fn is_over(observed: &Observed, ours: &Record, members: &Record) -> bool {
    let rotation = ours.rotation.as_ref();
    let until = if members.authorities == ours.authorities {
        Some(ours.not_after.0)
    } else if previous(ours) == Some(&members.authorities) {
        let until = rotation.and_then(|it| it.previous_until.as_ref());
        until.map(|until| until.0)
    } else {
        None
    };
    let known =
        members.authorities == ours.authorities || previous(ours) == Some(&members.authorities);
    let other = match &observed.certificates.offered {
        Offered::Own => !known || members.copied.is_some(),
        Offered::Usable(copied) => {
            members.copied.as_ref().map(|it| &it.trust) != Some(&copied.trust)
        }
        Offered::Unusable(_) => false,
    };
    let expired = other && members.not_after.0 <= observed.now;
    expired || until.is_some_and(|until| until <= observed.now)
}

/// All that the pod trusts had expired when other certificates were shown, and it was not recreated since.
pub(super) fn is_stranded(observed: &Observed, pod: &Pod) -> bool {
    let members = recorded(&observed.certificates.members);
    let stranded = members.and_then(|it| it.trust.as_ref()?.stranded.as_ref());
    let tls = pod.transport != api::Transport::default();
    stranded.is_some_and(|it| tls && pod.trust < it.below && it.until.0 >= pod.created)
}

/// One that is stranded takes part in nothing that its restart could end. It comes back on what it runs, or on what members
/// are known to run on and are on their way to; one after the other, so that what keeps one from starting meets no second.
pub(super) fn check_stranded(observed: &Observed, pod: &Pod) -> Result<(), Violation> {
    let held = observed.objects.template.as_ref();
    let proven = observed.cluster.latched.proven.as_ref();
    let follows = proven.is_some_and(|it| !it.everywhere && Some(&it.template) == held);
    ensure(held == Some(&pod.template) || follows, Violation::Unproven)?;
    // What no node runs any more is waited for in vain.
    let dead = |ordinal: u32| facts::is_on_a_dead_node(observed, &observed.member_name(ordinal));
    let mut others = observed.pods.iter().filter(|(_, it)| it.uid != pod.uid);
    let up = others.all(|(ordinal, it)| {
        let runs = is_stranded(observed, it) || it.process != Process::Unknown;
        dead(*ordinal) || (runs && !it.terminating)
    });
    let expected = usize::try_from(observed.objects.replicas.unwrap_or(0));
    let there = expected.is_ok_and(|expected| observed.pods.len() >= expected);
    ensure(up && there && !pod.terminating, Violation::Quorum)
}

/// No user has a certificate that is about to be rejected.
fn are_users_certified(observed: &Observed, ours: &Record) -> bool {
    let intent = observed.cluster.intent.as_ref();
    let managed = intent.is_ok_and(|intent| intent.auth == Some(true));
    let declared = observed.etcd.auth.declared.as_ref().filter(|_| managed);
    let mut users = declared.into_iter().flat_map(|it| &it.users);
    users.all(|user| match &user.login {
        Login::Certificate {
            issued: Issued::Recorded(own),
            ..
        } => own.authorities == ours.authorities || user.twin.is_some(),
        Login::Certificate { .. } | Login::Password { .. } => true,
    })
}

/// A part of the way from one authority to another.
pub(super) fn check_rotation(observed: &Observed, rotate: Rotate) -> Result<(), Violation> {
    let issued = &observed.certificates;
    let members = recorded(&issued.members).ok_or(Violation::Transport)?;
    let ours = match (&issued.authority, rotate) {
        (Issued::Missing | Issued::Altered, Rotate::Begin) => return Ok(()),
        (Issued::Recorded(ours), _) => ours,
        _other => return Err(Violation::Transport),
    };
    let clients = recorded(&issued.clients);
    let known = clients.is_some_and(|it| it.authorities == ours.authorities)
        && members.authorities == ours.authorities;
    let safe = match rotate {
        // One at a time: the key of the one before is the only one that is kept. What has expired is no loss.
        Rotate::Begin => {
            let rotation = ours.rotation.as_ref();
            let before = rotation.and_then(|it| it.previous_until.as_ref());
            let good = before.is_some_and(|it| it.0 > observed.now);
            !is_pending(ours) || (ours.not_after.0 <= observed.now && !good)
        }
        Rotate::Widen => true,
        Rotate::Forget => is_pending(ours) && known,
        Rotate::Narrow { revoke } => {
            let switched = members
                .trust
                .as_ref()
                .and_then(|it| it.switched_at.as_ref());
            let since = switched.unwrap_or(&members.issued_at).0;
            let waited = observed.now.duration_since(since);
            let first = revoke && !are_users_certified(observed, ours);
            known
                && !is_pending(ours)
                && is_trusted(observed)
                && have_all_read(observed, members)
                && waited >= if first { REISSUED } else { BROUGHT }
        }
    };
    ensure(safe, Violation::Transport)
}
