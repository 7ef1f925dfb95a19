//! From one certificate authority to another, ours or another source's, while members run: those that start trust both, every
//! member is restarted once, then certificates of the new one are shown, and at last the one before is trusted no longer.
//! No phase of it is recorded: each follows from what the Secrets hold and from what the pods were started with.

mod complaints;

use jiff::SignedDuration;

use crate::decision::{Decision, Issue, Issuer, Rotate, Step};
use crate::observed::{Issued, Observed, Offered, is_due};
use crate::why::Certificates;

pub(crate) use complaints::complaints;

/// By then every kubelet has brought the certificates that were issued.
const BROUGHT: SignedDuration = SignedDuration::from_mins(2);
/// A revocation waits no longer for users whose certificates cannot be issued again: it was asked for because a key is in wrong
/// hands.
const USERS: SignedDuration = SignedDuration::from_mins(10);

/// The next part of the way.
pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    let formed = observed.cluster.latched.cluster_id.is_some();
    if !formed || !observed.has_tls() {
        return None;
    }
    let decision = match next(observed)? {
        Next::Rotate(what) => {
            Decision::act(Step::RotateAuthority(what), Certificates::Rotating(what))
        }
        Next::Switch => {
            let issue = Issue {
                members: true,
                by: Issuer::Newest,
                ..Issue::default()
            };
            Decision::act(Step::IssueCertificates(issue), Certificates::Issuing(issue))
        }
    };
    (!observed.rests(&decision.step)).then_some(decision)
}

enum Next {
    Rotate(Rotate),
    /// Certificates of the new authority are shown.
    Switch,
}

fn next(observed: &Observed) -> Option<Next> {
    let issued = &observed.certificates;
    issued.members.record()?;
    if should_begin(observed) {
        return Some(Next::Rotate(Rotate::Begin));
    }
    let ours = issued.authority.record()?;
    if observed.lacks_trust() {
        return Some(Next::Rotate(Rotate::Widen));
    }
    let usable = !matches!(issued.offered, Offered::Unusable(_));
    if !observed.has_switched() {
        // What is shown is accepted by none as it is, so that nothing is lost by what some do not trust yet.
        let ready = observed.every_pod_trusts() || observed.trusts_the_expired();
        let ready = usable && ready;
        return ready.then_some(Next::Switch);
    }
    // The rule that renews certificates issues it.
    let clients = issued.clients.record();
    clients.filter(|clients| clients.authorities == ours.authorities)?;
    if ours.rotation.as_ref().is_some_and(|it| it.pending) {
        return Some(Next::Rotate(Rotate::Forget));
    }
    let ended = observed.trusts_too_much() && usable && observed.every_pod_trusts();
    let revoke = observed.has_revoked();
    (ended && has_lasted(observed, revoke)).then_some(Next::Rotate(Rotate::Narrow { revoke }))
}

/// It is time, or a person asked for it, or its keys are lost under members that trust it.
fn should_begin(observed: &Observed) -> bool {
    let ours = match &observed.certificates.authority {
        Issued::Missing | Issued::Altered => return !observed.trusts_nothing(),
        Issued::Unknown | Issued::Foreign => return false,
        Issued::Recorded(ours) => ours,
    };
    // What expired with the one before it, half-way, issues nothing either.
    let over = observed.are_all_over();
    if ours.rotation.as_ref().is_some_and(|it| it.pending) && !over {
        return false;
    }
    let intent = observed.cluster.intent.as_ref().ok();
    let asked = intent.and_then(|intent| intent.tls.rotate.as_ref());
    let before = ours.rotation.as_ref().and_then(|it| it.asked.as_ref());
    let asked = asked.is_some() && asked != before;
    over || (observed.has_switched() && (asked || is_due(ours, observed.now)))
}

/// What the authority before had issued to clients has expired, or is to end at once: as soon as users have other
/// certificates, or could have had.
fn has_lasted(observed: &Observed, revoke: bool) -> bool {
    let Some(since) = since_switch(observed) else {
        return false;
    };
    let target = observed.cluster.target.as_ref();
    let lifetime = target.map_or(0, |target| target.intent.tls.leaf_lifetime);
    let lifetime = SignedDuration::from_secs(lifetime).max(BROUGHT);
    let lasts = match (revoke, observed.left_behind().is_empty()) {
        (false, _) => lifetime,
        (true, true) => BROUGHT,
        (true, false) => USERS,
    };
    since >= lasts
}

/// How long certificates of the newest authority have been shown.
fn since_switch(observed: &Observed) -> Option<SignedDuration> {
    let record = observed.certificates.members.record()?;
    let switched = record.trust.as_ref().and_then(|it| it.switched_at.as_ref());
    let since = switched.unwrap_or(&record.issued_at).0;
    Some(observed.now.duration_since(since))
}
