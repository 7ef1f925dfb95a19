//! What holds up the way from one certificate authority to another, and which users it would leave behind. A rotation takes as
//! long as members take to be restarted, so that what keeps them from it is told, also of this.

use api::{Reason, names};

use super::since_switch;
use crate::cluster::rollout;
use crate::decision::Decision;
use crate::observed::{Issued, Observed};

/// Nothing while all goes on by itself.
pub(crate) fn complaints(observed: &Observed, decision: &Decision) -> Vec<(Reason, String)> {
    let held = held_up(observed, decision);
    let left = left_behind(observed);
    let all = held.into_iter().chain(left);
    all.map(|why| (Reason::CertificateProblem, why)).collect()
}

/// Members that have yet to be restarted, and are not.
fn held_up(observed: &Observed, decision: &Decision) -> Option<String> {
    let members = observed.certificates.members.record()?;
    let pods = observed.pods.values();
    let all: Vec<_> = pods.filter(|pod| !pod.transport.is_plain()).collect();
    let read = all.iter().filter(|pod| pod.trust >= members.generation());
    let (done, count) = (read.count(), all.len());
    let halted = decision.reason() == Reason::RolloutHalted;
    let halted = halted || rollout::complaint(observed).is_some();
    let paused = decision.reason() == Reason::Paused;
    let revoking = observed.is_revoking();
    if done == count || !(halted || (paused && revoking)) {
        return None;
    }
    let (by, remedy) = if paused {
        ("reconciliation is paused", "end the pause")
    } else {
        (
            "the rollout that restarts them is halted",
            "correct or revert the change that halts it",
        )
    };
    let what = if revoking && observed.has_switched() {
        "is revoked"
    } else {
        "is replaced"
    };
    let until = match observed.issuer_until() {
        Some(until) if !observed.has_switched() => {
            format!(
                "; the certificates that members show are of the one before, which expires at {until}"
            )
        }
        _other if revoking => "; the others still accept what the one before has issued".to_owned(),
        _other => String::new(),
    };
    Some(format!(
        "the certificate authority {what} by one restart of each member, {done} of {count} were restarted, and {by}: {remedy}{until}"
    ))
}

/// Users that members are about to reject, because their certificates could not be issued again.
fn left_behind(observed: &Observed) -> Option<String> {
    let waits = observed.has_revoked() && observed.has_switched();
    let since = since_switch(observed).filter(|since| waits && *since >= super::BROUGHT)?;
    let left = observed.left_behind();
    let first = left.first()?;
    let named: Vec<&str> = left.iter().map(|wish| wish.object.as_str()).collect();
    let minutes = (super::USERS - since).as_secs().max(0) / 60 + 1;
    Some(format!(
        "the certificate authority before is being revoked, and the certificates of the EtcdUsers {} were not issued again: members reject them in {minutes} minutes, or as soon as they are issued; kubectl get etcduser {} --namespace {} shows why (Secret {})",
        named.join(", "),
        first.object,
        observed.cluster.namespace,
        names::user_secret(&observed.cluster.name, &first.object),
    ))
}

impl Observed {
    /// What the authority before has issued is to count no longer, and some member still accepts it.
    fn is_revoking(&self) -> bool {
        let ours = self.certificates.authority.record();
        let revoked = ours.and_then(|it| it.rotation.as_ref()?.revoked.as_ref());
        revoked.is_some()
    }

    /// When the authority expires that issued what members show.
    fn issuer_until(&self) -> Option<jiff::Timestamp> {
        let ours = match &self.certificates.authority {
            Issued::Recorded(ours) => ours,
            Issued::Unknown | Issued::Missing | Issued::Foreign | Issued::Altered => return None,
        };
        let rotation = ours.rotation.as_ref()?;
        rotation.previous_until.as_ref().map(|until| until.0)
    }
}
