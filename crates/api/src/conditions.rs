//! Condition types and reasons: one closed vocabulary that conditions, events and logs share.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The four conditions of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// A quorum of voters serves reads and writes.
    Available,
    /// The operator is on its way to what the spec asks for.
    Progressing,
    /// Something is not as it should be, whether or not clients notice.
    Degraded,
    /// All of it: as many healthy voters as the spec asks for, nothing under way, nothing wrong.
    Ready,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why a condition is what it is, or what an event tells.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Reason { $($(#[doc = $doc])+ $name,)+ }

        impl Reason {
            /// Every reason with its meaning, for the reference page.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, concat!($($doc,)+)),)+];
        }
    };
}

reasons! {
    /// Everything is as the spec asks.
    AsExpected,
    /// Size 0: no member runs. The data is kept, unless `storage.claimPolicy.whenStopped` is `Delete`.
    Stopped,
    /// A quorum of voters is healthy.
    QuorumHealthy,
    /// Too few voters are healthy to serve writes.
    QuorumLost,
    /// The cluster has not formed yet.
    NotFormed,
    /// etcd could not be asked, so nothing is known and nothing is done.
    EtcdUnreachable,
    /// Objects of the cluster are being written.
    ApplyingObjects,
    /// A first member is being started.
    Bootstrapping,
    /// Data that an earlier object of this name kept is being taken over.
    Resuming,
    /// A member is being added.
    AddingMember,
    /// A member that was added is starting.
    StartingMember,
    /// A learner is catching up or being promoted.
    PromotingMember,
    /// A member that lost its data or was left over is being removed.
    RemovingMember,
    /// What is left of a cluster that lost its quorum for good is being brought back.
    Recovering,
    /// A member that cannot come back is being replaced by a new one.
    ReplacingMember,
    /// Members are restarted on another template, one at a time.
    RollingOut,
    /// The first member on another template does not come up; the others are left as they are.
    RolloutHalted,
    /// etcd prepares its data for an older release.
    Downgrading,
    /// The database is at its quota, or near it; room is being made, or the message says what to raise.
    NoSpace,
    /// A member whose file is mostly empty is being defragmented.
    Defragmenting,
    /// The data of members differs; the message says whose.
    DataDiffers,
    /// Volumes are being expanded.
    Expanding,
    /// The cluster of an earlier operator is being taken over.
    Adopting,
    /// The annotation `etcd.etcd.io/paused` is set: nothing is changed.
    Paused,
    /// Pods are starting.
    StartingPods,
    /// Members are being stopped.
    Stopping,
    /// The object is being deleted.
    Deleting,
    /// A pod cannot start; the message has the scheduler's or kubelet's own words.
    PodNotStarting,
    /// A member does not answer or does not take part.
    MemberUnhealthy,
    /// etcd lists a member that this operator did not add; it is left alone and not counted on.
    StrangeMember,
    /// A member runs but does not keep up with the others; the message says what its disk does. It is restarted once, and
    /// replaced if it hangs again.
    MemberHangs,
    /// The gate holds a member back because its volume is not what it should be.
    VolumeHeld,
    /// An object that the cluster should have exists and belongs to another owner; it is left alone. It stops a cluster
    /// from forming if it is needed for that, and stops nothing once there is a cluster.
    ForeignObject,
    /// An object of the cluster cannot be written: the API server refuses it, or something changes it back; the message
    /// has the object and the words. Everything that does not need it goes on, and it is tried again.
    WriteRefused,
    /// Objects or claims of an earlier object of this name are still being deleted.
    FormerObject,
    /// The spec asks for something that this release cannot do. Nothing is changed until it is mended; members of a
    /// cluster that has formed are repaired as they are.
    InvalidSpec,
    /// The change that the spec asks for is not safe now.
    Refused,
    /// The Kubernetes API or etcd refused a step, which is tried again; or a step was not taken because it is not safe, which
    /// is a bug.
    StepFailed,
    /// The cluster became Ready for the first time.
    ClusterCreated,
    /// The object was deleted.
    ClusterDeleted,
    /// The cluster reached a new size.
    ClusterScaled,
    /// Every member runs another version of etcd than before.
    ClusterUpgraded,
    /// Every member was restarted on what the spec asks for, with the same version of etcd.
    ClusterUpdated,
    /// The cluster is Ready, and it was not made now: it had been stopped, or was taken over.
    ClusterStarted,
    /// The cluster cannot go on by itself.
    ClusterFailed,
    /// The cluster stopped: size 0.
    ClusterStopped,
    /// The cluster is healthy again.
    ClusterRecovered,
    /// A member was added.
    MemberAdded,
    /// A member's pod was made anew on another template.
    MemberRestarted,
    /// A member was promoted to voter.
    MemberPromoted,
    /// A member was removed.
    MemberRemoved,
    /// A member was defragmented.
    MemberDefragmented,
    /// Old revisions were forgotten to make room.
    HistoryCompacted,
    /// An alarm of etcd was taken back: its cause is gone.
    AlarmDisarmed,
    /// A pod was let through the gate.
    MemberGranted,
    /// A backup was taken. Not used by this release.
    BackupCreated,
    /// A backup failed. Not used by this release.
    BackupFailed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A condition before it meets the one it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which condition.
    pub kind: ConditionType,
    /// `None` is `Unknown`.
    pub status: Option<bool>,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, in a sentence.
    pub message: String,
}

/// The new list of conditions; `lastTransitionTime` moves only when the status does.
pub fn merge(old: &[Condition], new: Vec<Verdict>, generation: i64, now: &Time) -> Vec<Condition> {
    let merged = new.into_iter().map(|verdict| {
        let kind = verdict.kind.to_string();
        let status = match verdict.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let before = old.iter().find(|c| c.type_ == kind && c.status == status);
        Condition {
            last_transition_time: before
                .map_or_else(|| now.clone(), |c| c.last_transition_time.clone()),
            message: verdict.message,
            observed_generation: Some(generation),
            reason: verdict.reason.to_string(),
            status: status.to_owned(),
            type_: kind,
        }
    });
    merged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    fn verdict(status: bool, message: &str) -> Verdict {
        Verdict {
            kind: ConditionType::Ready,
            status: Some(status),
            reason: Reason::AsExpected,
            message: message.into(),
        }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = merge(&[], vec![verdict(false, "a")], 1, &at(1));
        let second = merge(&first, vec![verdict(false, "b")], 2, &at(2));
        assert_eq!(second[0].last_transition_time, at(1));
        assert_eq!(
            (second[0].message.as_str(), second[0].observed_generation),
            ("b", Some(2))
        );
        let third = merge(&second, vec![verdict(true, "c")], 2, &at(3));
        assert_eq!(third[0].last_transition_time, at(3));
    }
}
