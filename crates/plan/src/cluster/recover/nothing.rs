//! No member has data any more: what is told then, and what proves it where the operator begins with a backup by itself.

use api::v1alpha1::cluster::OnEverythingLost;
use api::v1alpha1::memory::{ReplaceMemory, ReplaceStage};
use api::v1alpha1::status::RecoveryIntent;
use gate::State;

use super::evidence::{self, Account};
use super::{SUSTAINED, fence, hear, longer_elsewhere, most_advanced};
use crate::decision::{Decision, LATER};
use crate::observed::{Claim, Observed, Pod};
use crate::why::{ByItself, Known, Quorum, Way};

/// What is known of whether data may come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Loss {
    /// Every voter's data is proved to be gone.
    Proved,
    /// It cannot be said now.
    Unknown,
    /// Some of it is there, or may be.
    No,
}

pub(super) fn left(observed: &Observed, account: &Account) -> Decision {
    let why = Quorum::NothingLeft {
        voters: account.tell(),
        claims: copies(observed),
        earlier: evidence::earlier_lives(observed),
        way: Box::new(way(observed)),
    };
    Decision::wait(why, LATER)
}

/// Every volume was heard, and none has data of the cluster that lost its quorum.
pub(super) fn remains(observed: &Observed, recovery: &RecoveryIntent) -> Decision {
    let why = Quorum::NoData {
        cluster: recovery.cluster_id.clone(),
        claims: copies(observed),
        way: Box::new(way(observed)),
    };
    Decision::wait(why, LATER)
}

/// The claims that a person looks at before anything is given up.
fn copies(observed: &Observed) -> Vec<String> {
    let name = &observed.cluster.name;
    let claims = observed.claims.keys();
    claims.map(|n| api::names::claim(name, *n)).collect()
}

/// A recovery came to its end without anything to continue with: no member was chosen, and none that reports has data. So
/// nothing was begun, and nothing can begin that was not asked for.
pub(in crate::cluster) fn is_without_survivor(observed: &Observed) -> bool {
    let recovery = observed.cluster.latched.recovery.as_ref();
    recovery.is_some_and(|recovery| {
        recovery.survivor.is_none()
            && fence(observed).is_none()
            && hear(observed).is_none()
            && most_advanced(observed, recovery).is_none()
            && longer_elsewhere(observed, recovery, None).is_none()
    })
}

/// Whether the operator may begin with a backup by itself.
pub(in crate::cluster) fn is_left_to_the_operator(observed: &Observed) -> bool {
    let intent = observed.cluster.intent.as_ref();
    intent.is_ok_and(|intent| {
        intent.on_everything_lost == OnEverythingLost::FromBackup && intent.size > 0
    })
}

/// It has been so for longer than a restart takes.
pub(in crate::cluster) fn is_sustained(observed: &Observed) -> bool {
    observed.is_unavailable_for(SUSTAINED)
}

/// Whether any voter's data may come back. While the backup is brought no pod reports; then the claims count that were seen to
/// be without data before.
pub(in crate::cluster) fn loss(observed: &Observed) -> Loss {
    if observed.etcd.members.is_some() || observed.is_led() {
        return Loss::No;
    }
    let replace = observed.cluster.latched.replacing(ReplaceStage::Fetching);
    if let Some(replace) = replace {
        return loss_while_stopped(observed, replace);
    }
    let account = Account::of(observed);
    if !account.has_no_data() {
        return Loss::No;
    }
    let strange = observed.claims.iter().any(|(ordinal, claim)| {
        let empty = without_data(observed, *ordinal);
        let lost = evidence::is_gone_for_good(observed, *ordinal);
        !empty && !lost && !observed.is_of_removed(claim)
    });
    if account.all_gone() && !strange {
        Loss::Proved
    } else {
        Loss::Unknown
    }
}

fn loss_while_stopped(observed: &Observed, replace: &ReplaceMemory) -> Loss {
    let mut loss = Loss::Proved;
    for (ordinal, claim) in &observed.claims {
        let known = replace.without_data.contains(&claim.uid);
        let gone = evidence::is_gone_for_good(observed, *ordinal);
        if known || gone || observed.is_of_removed(claim) {
            continue;
        }
        // Of one that was gone with its node or its volume, that is known only while these can be asked for.
        let read = observed.node_bindings.contains_key(ordinal);
        if read || !replace.gone.contains(&claim.uid) {
            return Loss::No;
        }
        loss = Loss::Unknown;
    }
    loss
}

/// Its agent sees nothing that etcd could start from.
fn without_data(observed: &Observed, ordinal: u32) -> bool {
    let pod = observed.pods.get(&ordinal);
    let held = pod.and_then(Pod::held);
    held.is_some_and(|report| matches!(report.state, State::Empty | State::Damaged))
}

/// UIDs of the claims of which that is so, and of those that are gone otherwise.
pub(in crate::cluster) fn lost_claims(observed: &Observed) -> (Vec<String>, Vec<String>) {
    let claims = observed.claims.iter();
    let (empty, rest): (Vec<_>, Vec<_>) =
        claims.partition(|(ordinal, _)| without_data(observed, **ordinal));
    let gone = rest.into_iter();
    let gone = gone.filter(|(ordinal, _)| evidence::is_gone_for_good(observed, **ordinal));
    (uids(empty.into_iter()), uids(gone))
}

fn uids<'a>(claims: impl Iterator<Item = (&'a u32, &'a Claim)>) -> Vec<String> {
    claims.map(|(_, claim)| claim.uid.clone()).collect()
}

fn way(observed: &Observed) -> Way {
    let cluster = &observed.cluster;
    let offer = observed.restore.offer.as_deref();
    let backup = offer.map(|offer| Known {
        by: offer.by.clone(),
        id: offer.id.clone(),
        time: offer.time,
        verified: offer.verified,
        newer: offer.newer.clone(),
        locked: offer.locked,
        identity: offer.identity.clone(),
    });
    Way {
        namespace: cluster.namespace.clone(),
        name: cluster.name.clone(),
        lost: cluster.latched.cluster_id.unwrap_or(0),
        backup,
        by_itself: by_itself(observed),
    }
}

fn by_itself(observed: &Observed) -> Option<ByItself> {
    if !is_left_to_the_operator(observed) {
        return None;
    }
    let latched = &observed.cluster.latched;
    let replace = latched.replace.as_deref();
    let own = ReplaceMemory::by_loss_of(latched.cluster_id?);
    if let Some(replace) = replace.filter(|it| it.by == own && it.stage != ReplaceStage::Ended) {
        let failure = replace.failure.clone();
        return Some(failure.map_or(ByItself::Reads, ByItself::Blocked));
    }
    if replace.is_some_and(|replace| replace.ended.contains(&own)) {
        return Some(ByItself::Ended);
    }
    let request = &observed.restore.offer.as_ref()?.request;
    Some(match &request.wish {
        _of_another if request.replaces.is_none() => ByItself::OfAnother,
        Err(why) => ByItself::Blocked(why.clone()),
        Ok(_) if loss(observed) != Loss::Proved => ByItself::Unproved,
        Ok(_) => ByItself::Waits,
    })
}
