//! Changes of the member list. The answer of etcd is taken as it is: what it refuses for now is tried
//! again, and what has an unknown outcome is looked at again.

use std::cmp::Reverse;
use std::time::Duration;

use api::EtcdCluster;
use etcd::{Cause, DowngradeAction, GateAnswer};
use plan::observed::{Member, MemberList, NOT_A_USER};
use plan::status::Outcome;
use plan::{Observed, Step};

use super::changed_since;
use crate::cluster::observe::targets;
use crate::context::Context;

/// `MemberAdd` and `MemberRemove` wait for a commit.
const DEADLINE: Duration = Duration::from_secs(7);

/// The member that is asked judges by its own connections whether the cluster is well enough, before anything is proposed. Where
/// it says no, the next one may know better.
pub(super) async fn add(
    observed: &Observed,
    peer_url: &str,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    let mut answer = no_voter();
    for voter in voters(observed, cluster, ctx) {
        let Err(error) = voter.member_add_learner(peer_url).await else {
            return Outcome::Done;
        };
        answer = match &error.cause {
            // It is listed already; the next look finds it by its URL.
            Cause::PeerUrlExists | Cause::MemberExists => Outcome::Done,
            // An ID is made from the URL and the second; one that was removed never returns.
            Cause::MemberNotFound => {
                Outcome::NotNow("etcd needs a second before it adds this URL again".into())
            }
            _other => refused(&error),
        };
        if !matches!(error.cause, Cause::UnhealthyCluster) {
            break;
        }
    }
    answer
}

/// etcd knows no resourceVersion, so the object is looked at once more: under what has been asked for since, a voter may listen
/// otherwise.
pub(super) async fn update(
    observed: &Observed,
    step: &Step,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    let Step::UpdatePeer { id, peer_urls, .. } = step else {
        return Outcome::Done;
    };
    let Some(voter) = voter(observed, cluster, ctx) else {
        return no_voter();
    };
    if let Some(changed) = changed_since(cluster, ctx).await {
        return changed;
    }
    match voter.member_update(*id, peer_urls).await {
        Ok(()) => Outcome::Done,
        Err(error) => refused(&error),
    }
}

pub(super) async fn promote(
    observed: &Observed,
    id: u64,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    // Only the leader knows how far a learner is. A follower would pass the call on without saying whose it is, which the
    // leader refuses where etcd authenticates by certificate.
    let leader = observed.leader().and_then(|leader| {
        let members = observed.etcd.members.as_ref()?;
        let leader = members.voters().find(|voter| voter.id == leader)?;
        targets(cluster, ctx).remove(&observed.ordinal_of(leader)?)
    });
    let Some(leader) = leader else {
        return Outcome::NotNow("no leader can be asked".into());
    };
    match ctx
        .member(&leader)
        .with_deadline(DEADLINE)
        .member_promote(id)
        .await
    {
        Ok(()) => Outcome::Done,
        Err(error) => match &error.cause {
            Cause::NotLearner => Outcome::Done,
            _other => refused(&error),
        },
    }
}

/// Looks once more: only a pod that still waits on its empty volume has lost its member's data. The report has to be
/// that pod's: its address may lead to another one by now.
pub(super) async fn remove(
    observed: &Observed,
    step: &Step,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    let Step::RemoveMember { id, ordinal, nonce } = step else {
        return Outcome::Done;
    };
    let Some(voter) = voter(observed, cluster, ctx) else {
        return no_voter();
    };
    let Some(dial) = targets(cluster, ctx).remove(ordinal) else {
        return no_voter();
    };
    let pod_uid = observed.pods.get(ordinal).map(|pod| pod.uid.as_str());
    match etcd::gate_report(ctx.connect.as_ref(), &dial.target, &dial.security, DEADLINE).await {
        Ok(GateAnswer::Waiting(report)) if Some(report.pod_uid.as_str()) != pod_uid => {
            let other = report.pod_uid;
            let what = format!("the pod with UID {other} answers at the address of this one");
            return Outcome::NotNow(what);
        }
        Ok(GateAnswer::Waiting(report)) if report.nonce == *nonce => {}
        Ok(_) => return Outcome::NotNow("the pod no longer waits".into()),
        Err(error) => return refused(&error),
    }
    if let Some(changed) = changed_since(cluster, ctx).await {
        return changed;
    }
    removed(voter.member_remove(*id).await)
}

/// Only the leader can hand over.
pub(super) async fn hand_over(
    (to, ordinal): (u64, u32),
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    let Some(target) = targets(cluster, ctx).remove(&ordinal) else {
        return no_voter();
    };
    match ctx
        .member(&target)
        .with_deadline(DEADLINE)
        .move_leader(to)
        .await
    {
        Ok(()) => Outcome::Done,
        Err(error) => refused(&error),
    }
}

/// Has etcd prepare its data for an older minor version, or stop that.
pub(super) async fn downgrade(
    observed: &Observed,
    to: Option<u8>,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    // Where minor versions are mixed, 3.5 carries it out but does not answer in time.
    let newest = |voter: &Member| observed.serving_as(voter.id).and_then(|s| s.version);
    let Some(voter) = best_voters(observed, cluster, ctx, newest)
        .into_iter()
        .next()
    else {
        return no_voter();
    };
    // An order that comes late would let the data fall under members that have gone on.
    if let Some(changed) = changed_since(cluster, ctx).await {
        return changed;
    }
    let (action, target) = match to {
        Some(to) => (DowngradeAction::Enable, format!("3.{to}")),
        None => (DowngradeAction::Cancel, String::new()),
    };
    match voter.downgrade(action, &target).await {
        Ok(()) => Outcome::Done,
        Err(error) => match &error.cause {
            Cause::DowngradeInProgress | Cause::NoDowngrade => Outcome::Done,
            _other => refused(&error),
        },
    }
}

/// Removes a member that is not asked for any more.
pub(super) async fn retire(
    observed: &Observed,
    id: u64,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    match guarded_voter(observed, cluster, ctx).await {
        Ok(voter) => removed(voter.member_remove(id).await),
        Err(outcome) => outcome,
    }
}

fn removed(result: Result<(), etcd::Error>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(error) => match &error.cause {
            Cause::MemberNotFound => Outcome::Done,
            _other => refused(&error),
        },
    }
}

/// A voter to ask for what cannot be taken back, while the object still says what it said at the look.
pub(super) async fn guarded_voter(
    observed: &Observed,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Result<etcd::Member, Outcome> {
    let voter = voter(observed, cluster, ctx).ok_or_else(no_voter)?;
    match changed_since(cluster, ctx).await {
        Some(changed) => Err(changed),
        None => Ok(voter),
    }
}

/// Any healthy voter, the leader first: it need not forward.
pub(crate) fn voter(
    observed: &Observed,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Option<etcd::Member> {
    voters(observed, cluster, ctx).into_iter().next()
}

/// All of them, in the order in which they are best asked.
fn voters(observed: &Observed, cluster: &EtcdCluster, ctx: &Context) -> Vec<etcd::Member> {
    let leader = observed.leader();
    best_voters(observed, cluster, ctx, |voter| Some(voter.id) == leader)
}

fn best_voters<K: Ord>(
    observed: &Observed,
    cluster: &EtcdCluster,
    ctx: &Context,
    by: impl Fn(&Member) -> K,
) -> Vec<etcd::Member> {
    let list = observed.etcd.members.iter();
    let all = list.flat_map(MemberList::voters);
    let mut healthy: Vec<&Member> = all.filter(|voter| observed.is_healthy(voter)).collect();
    healthy.sort_by_key(|voter| Reverse(by(voter)));
    let targets = targets(cluster, ctx);
    let targets = healthy
        .into_iter()
        .filter_map(|voter| targets.get(&observed.ordinal_of(voter)?));
    targets
        .map(|target| ctx.member(target).with_deadline(DEADLINE))
        .collect()
}

pub(super) fn no_voter() -> Outcome {
    Outcome::NotNow("no healthy voter can be asked".into())
}

pub(super) fn refused(error: &etcd::Error) -> Outcome {
    let text = format!("{error}: {}", error.cause);
    let later = error.outcome_is_unknown()
        || matches!(
            &error.cause,
            Cause::LearnerNotReady
                | Cause::TooManyLearners
                | Cause::UnhealthyCluster
                | Cause::NotEnoughStarted
                | Cause::NotLeader
                | Cause::MemberNotFound
                | Cause::Connect { .. }
        );
    if later {
        Outcome::NotNow(text)
    } else if matches!(
        error.cause,
        Cause::PermissionDenied | Cause::UserNotFound | Cause::NoUser
    ) {
        Outcome::Failed(format!("{text}. {NOT_A_USER}"))
    } else {
        Outcome::Failed(text)
    }
}
