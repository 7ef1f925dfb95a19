//! The upkeep of databases. What takes long is begun here and goes on beside the looks, which see how it ends
//! ([`crate::tasks`]).

use std::time::Duration;

use api::EtcdCluster;
use etcd::{AlarmKind, Cause};
use plan::observed::{self, Alarm, MemberList, UpkeepTask};
use plan::status::Outcome;
use plan::{Observed, Step};

use super::changed_since;
use super::members::{guarded_voter, no_voter, refused};
use crate::cluster::observe::targets;
use crate::context::{Context, LONGEST};

/// Until a request is worked on.
const DEADLINE: Duration = Duration::from_mins(1);
/// Bytes that a slow disk rewrites in a second.
const SLOW: u64 = 20 << 20;

/// Frees space, or says that there is enough.
pub(super) async fn maintain(
    observed: &Observed,
    step: &Step,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    match step {
        Step::Compact { revision } => compact(observed, *revision, cluster, ctx).await,
        Step::Defragment { id, ordinal } => {
            defragment(observed, (*id, *ordinal), cluster, ctx).await
        }
        Step::Disarm { alarm } => disarm(observed, *alarm, cluster, ctx).await,
        _other => Outcome::Done,
    }
}

/// Forgets what is older than a revision, on every voter.
async fn compact(
    observed: &Observed,
    revision: u64,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    if let Some(changed) = changed_since(cluster, ctx).await {
        return changed;
    }
    let task = UpkeepTask::Compact { revision };
    let list = observed.etcd.members.iter();
    let voters = list.flat_map(MemberList::voters);
    let ordinals: Vec<u32> = voters.filter_map(|v| observed.ordinal_of(v)).collect();
    let targets = targets(cluster, ctx);
    let mut calls = Vec::new();
    for (ordinal, revision) in ladder(&ordinals, revision) {
        let Some(target) = targets.get(&ordinal) else {
            return no_voter();
        };
        let deadline = deadline(observed, ordinal);
        calls.push((ctx.member(target).with_deadline(deadline), revision));
    }
    let work = async move {
        for (member, revision) in calls {
            match member.compact(revision, true).await {
                Ok(()) => {}
                Err(error) if matches!(error.cause, Cause::Compacted) => {}
                Err(error) => return Err(describe(&error)),
            }
        }
        Ok(())
    };
    begin(observed, task, work, ctx)
}

/// Begins a call that takes long; a later look sees how it ends.
fn begin(
    observed: &Observed,
    task: UpkeepTask,
    work: impl Future<Output = Result<(), String>> + Send + 'static,
    ctx: &Context,
) -> Outcome {
    let late = Err(format!("no end within {} min", LONGEST.as_secs() / 60));
    let uid = &observed.cluster.uid;
    if ctx.upkeep.start(uid, (task, observed.now), work, late) {
        Outcome::NotNow("begun".into())
    } else {
        Outcome::NotNow("other clusters come first".into())
    }
}

fn describe(error: &etcd::Error) -> String {
    format!("{error}: {}", error.cause)
}

/// Who is asked for which revision. What a compaction frees shows in the status of a member only after its next write,
/// which may never come, and now and then, where an old read of its own had not ended yet, after the one after that. So
/// each voter is asked twice, and each time for one revision more, up to the one that is meant.
fn ladder(ordinals: &[u32], revision: u64) -> Vec<(u32, i64)> {
    let top = i64::try_from(revision).unwrap_or(i64::MAX);
    let down = (1..=top).rev();
    let twice = ordinals.iter().chain(ordinals);
    let mut rungs: Vec<_> = twice.copied().rev().zip(down).collect();
    rungs.reverse();
    rungs
}

/// Looks once more whether it leads and did not when this was decided: clients of a leader would wait.
async fn defragment(
    observed: &Observed,
    (id, ordinal): (u64, u32),
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    let task = UpkeepTask::Defragment { ordinal };
    let Some(target) = targets(cluster, ctx).remove(&ordinal) else {
        return no_voter();
    };
    let member = ctx.member(&target);
    let led = observed.leader() == Some(id);
    match member.status().await {
        Ok(status) if status.member_id != id => {
            return Outcome::NotNow("another member by now".into());
        }
        Ok(status) if status.leader == id && !led => {
            return Outcome::NotNow("it leads by now".into());
        }
        Ok(_) => {}
        Err(error) => return refused(&error),
    }
    if let Some(changed) = changed_since(cluster, ctx).await {
        return changed;
    }
    let patient = member.with_deadline(deadline(observed, ordinal));
    let work = async move { patient.defragment().await.map_err(|error| describe(&error)) };
    begin(observed, task, work, ctx)
}

/// Takes back one alarm.
async fn disarm(
    observed: &Observed,
    alarm: Alarm,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    let voter = match guarded_voter(observed, cluster, ctx).await {
        Ok(voter) => voter,
        Err(outcome) => return outcome,
    };
    let kind = match alarm.kind {
        observed::AlarmKind::NoSpace => AlarmKind::NoSpace,
        observed::AlarmKind::Corrupt => AlarmKind::Corrupt,
    };
    let member_id = alarm.member_id;
    match voter.disarm(etcd::Alarm { member_id, kind }).await {
        Ok(()) => Outcome::Done,
        Err(error) => refused(&error),
    }
}

/// A minute, and as long as its file takes on a slow disk; but its size is only what the member says.
fn deadline(observed: &Observed, ordinal: u32) -> Duration {
    let serving = observed.pods.get(&ordinal).and_then(|pod| pod.serving());
    let size = serving.map_or(0, |serving| serving.space.size);
    let slow = Duration::from_secs(size / SLOW);
    DEADLINE.saturating_add(slow).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_voter_is_asked_twice_up_to_the_revision_that_is_meant() {
        let asked = ladder(&[0, 1, 2], 100);
        let revisions = [(0, 95), (1, 96), (2, 97), (0, 98), (1, 99), (2, 100)];
        assert_eq!(asked, revisions);
        assert_eq!(ladder(&[4], 100), [(4, 99), (4, 100)]);
    }

    #[test]
    fn a_short_history_is_forgotten_as_far_as_it_goes() {
        assert_eq!(ladder(&[0, 1, 2], 2), [(1, 1), (2, 2)]);
        assert_eq!(ladder(&[0, 1, 2], 0), []);
    }
}
