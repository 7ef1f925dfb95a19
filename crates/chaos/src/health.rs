//! How the cluster is, asked of its members and not of the operator: who votes, who answers with a quorum behind it,
//! and whether one more may be hit.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::Cluster;
use etcd::Consistency;
use futures::future::join_all;

/// A member that takes longer for a read is not healthy.
const DEADLINE: Duration = Duration::from_secs(1);

/// The voters and those of them that answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Voters {
    pub(crate) listed: usize,
    pub(crate) learners: usize,
    /// Names of pods whose member answers a linearizable read.
    pub(crate) answering: BTreeSet<String>,
}

impl Voters {
    /// Whether a quorum is left when these pods no longer answer.
    pub(crate) fn can_bear(&self, losses: &BTreeSet<String>) -> bool {
        let left = self.answering.difference(losses).count();
        left > self.listed / 2
    }
}

/// Asks every member at once.
pub(crate) async fn voters(cluster: &Cluster) -> Result<Voters> {
    let members = cluster.members().await?;
    let asked = members.into_iter().map(|(name, member)| async move {
        let member = member.with_deadline(DEADLINE);
        let list = member.member_list(Consistency::Linearizable).await.ok()?;
        Some((name, list))
    });
    let answers: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
    let (_, list) = answers.first().context("no member answers")?;
    let learners = list.members.iter().filter(|member| member.is_learner);
    let learners = learners.count();
    Ok(Voters {
        listed: list.members.len() - learners,
        learners,
        answering: answers.into_iter().map(|(name, _)| name).collect(),
    })
}

/// Whether all `size` members vote and answer without an alarm, and the status says Ready of the newest generation.
pub(crate) async fn check(cluster: &Cluster, size: u32) -> Result<()> {
    let size = usize::try_from(size)?;
    let voters = voters(cluster).await?;
    let whole = voters.listed == size && voters.learners == 0 && voters.answering.len() == size;
    ensure!(whole, "{voters:?}, not {size}");
    let alarms = cluster.any_member().await?.alarms().await?;
    ensure!(alarms.is_empty(), "{alarms:?} stand");
    let pods = cluster.pods().await?;
    let going = pods
        .values()
        .filter(|pod| pod.metadata.deletion_timestamp.is_some());
    ensure!(
        pods.len() == size && going.count() == 0,
        "{} pods",
        pods.len()
    );
    let object = cluster.get().await?;
    let generation = object.metadata.generation;
    let conditions = object.status.unwrap_or_default().conditions;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready");
    let ready = ready.context("no condition Ready")?;
    ensure!(
        ready.status == "True",
        "{}: {}",
        ready.reason,
        ready.message
    );
    ensure!(
        ready.observed_generation == generation,
        "the status is of an earlier spec"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_a_minority_may_be_hit() {
        let three = Voters {
            listed: 3,
            learners: 0,
            answering: names(&["c-0", "c-1", "c-2"]),
        };
        assert!(three.can_bear(&names(&["c-0"])));
        assert!(!three.can_bear(&names(&["c-0", "c-1"])));
        let wounded = Voters {
            answering: names(&["c-0", "c-1"]),
            ..three
        };
        assert!(!wounded.can_bear(&names(&["c-0"])));
        // A member that is down already may be hit again.
        assert!(wounded.can_bear(&names(&["c-2"])));
        let five = Voters {
            listed: 5,
            learners: 0,
            answering: names(&["c-0", "c-1", "c-2", "c-3", "c-4"]),
        };
        assert!(five.can_bear(&names(&["c-0", "c-3"])));
    }
}
