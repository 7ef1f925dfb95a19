//! Condition types and reasons: one closed vocabulary that conditions, events and logs share.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The four conditions of a cluster, and the one of an `EtcdBackup` beside `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// A quorum of voters serves reads and writes.
    Available,
    /// The operator is reconciling the cluster towards its spec.
    Progressing,
    /// Something is wrong, whether or not clients notice it.
    Degraded,
    /// The cluster has as many healthy voters as `spec.size`, no change is in progress, and nothing is wrong.
    Ready,
    /// The last verification of a backup found it good.
    Verified,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The reason of a condition or an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Reason { $($(#[doc = $doc])+ $name,)+ }

        impl Reason {
            /// Every reason with its meaning, for the reference page.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, concat!($($doc,)+)),)+];
        }
    };
}

reasons! {
    /// The cluster matches its spec.
    AsExpected,
    /// `spec.size` is 0 and no member runs. The data is kept, unless `storage.claimPolicy.whenStopped` is `Delete`.
    Stopped,
    /// A quorum of voters is healthy.
    QuorumHealthy,
    /// Too few voters are healthy for a quorum; etcd serves no writes.
    QuorumLost,
    /// The cluster has not been bootstrapped yet.
    NotFormed,
    /// No member of etcd could be reached; its state is unknown and nothing is changed.
    EtcdUnreachable,
    /// Kubernetes objects of the cluster are being created or updated.
    ApplyingObjects,
    /// The first member is starting a new etcd cluster.
    Bootstrapping,
    /// The cluster is starting from volumes that a deleted EtcdCluster of the same name retained.
    Resuming,
    /// A member is being added as a learner.
    AddingMember,
    /// A member that was added to etcd is starting.
    StartingMember,
    /// A learner is catching up with the leader, or is being promoted to voter.
    PromotingMember,
    /// A member is being removed from etcd: it lost its data, or `spec.size` was reduced.
    RemovingMember,
    /// Quorum is permanently lost, and the cluster is being recovered from a surviving member.
    Recovering,
    /// A member that cannot return is being replaced by a new one.
    ReplacingMember,
    /// Members are being restarted on a new pod template, one at a time.
    RollingOut,
    /// The first member on the new pod template does not become healthy; the other members are not restarted.
    RolloutHalted,
    /// A downgrade is enabled in etcd, which prepares its data for an older minor version.
    Downgrading,
    /// The database is at its quota or close to it. Space is being freed, or the message says which setting to raise.
    NoSpace,
    /// A member whose database file is mostly free space is being defragmented.
    Defragmenting,
    /// The data of members is inconsistent; the message names the members.
    DataInconsistent,
    /// PersistentVolumeClaims are being expanded.
    ExpandingVolumes,
    /// A running cluster of the predecessor is being adopted.
    Adopting,
    /// Reconciliation is paused by the annotation `etcd.etcd.io/paused`; nothing is changed.
    Paused,
    /// Pods are starting.
    StartingPods,
    /// Members are being stopped.
    Stopping,
    /// The EtcdCluster is being deleted.
    Deleting,
    /// A pod cannot start; the message quotes the scheduler or the kubelet.
    PodNotStarting,
    /// A member does not respond, or responds without being part of the quorum.
    MemberUnhealthy,
    /// etcd lists a member that the operator does not manage. It is left alone and not counted towards availability.
    UnmanagedMember,
    /// A member runs but does not keep up with the others; the message has its disk latency. It is restarted once, and
    /// replaced if it stalls again.
    MemberStalled,
    /// A member is not started because its volume does not hold the data that this member must have.
    VolumeRejected,
    /// An object with the name that the cluster needs exists and has another owner; it is left alone. It blocks the
    /// bootstrap of a cluster that needs it, and nothing once the cluster runs.
    ForeignObject,
    /// An object of the cluster cannot be written: the API server rejects it, or another writer reverts it; the message
    /// names the object and quotes the error. The write is retried with a back-off, and whatever does not need it continues.
    WriteRefused,
    /// Objects or PersistentVolumeClaims of a deleted EtcdCluster of the same name are still terminating.
    PreviousOwnerTerminating,
    /// The spec is not valid for this release. No change is made until it is corrected; failed members of a running
    /// cluster are still repaired.
    InvalidSpec,
    /// A change of the spec is not possible or not safe now; the message says what to do instead.
    ChangeRefused,
    /// Certificates of the cluster are being issued.
    IssuingCertificates,
    /// A certificate cannot be issued or used; the message names the Secret and says what to do.
    CertificateProblem,
    /// A member does not accept the certificate of the operator, or presents one that the operator does not accept; its
    /// state is unknown.
    CertificateRejected,
    /// Authentication of etcd is being switched on or off, or its users and roles are being changed.
    ConfiguringAuth,
    /// Authentication of etcd cannot be switched on, or the operator is not known to etcd; the message has the command that
    /// helps.
    AuthProblem,
    /// The Kubernetes API or etcd rejected a step, which is retried; or a step was not taken because it is not safe, which
    /// is a bug in the operator.
    StepFailed,
    /// The cluster became Ready for the first time.
    ClusterCreated,
    /// The EtcdCluster was deleted.
    ClusterDeleted,
    /// The cluster reached the size in its spec.
    ClusterScaled,
    /// Every member runs the new version of etcd.
    ClusterUpgraded,
    /// Every member runs the new pod template, with the same version of etcd as before.
    ClusterUpdated,
    /// The cluster is Ready after it was stopped or adopted.
    ClusterStarted,
    /// The cluster needs manual intervention.
    ClusterFailed,
    /// All members were stopped because `spec.size` is 0.
    ClusterStopped,
    /// The cluster is healthy again.
    ClusterRecovered,
    /// A member was added as a learner.
    MemberAdded,
    /// A member's pod was recreated from the new template.
    MemberRestarted,
    /// A member was promoted to voter.
    MemberPromoted,
    /// A member was removed from etcd.
    MemberRemoved,
    /// A member was defragmented.
    MemberDefragmented,
    /// Old revisions were compacted to free space.
    HistoryCompacted,
    /// An alarm of etcd was disarmed because its cause is gone.
    AlarmDisarmed,
    /// The gate of a pod received permission to start etcd.
    MemberAdmitted,
    /// Certificates of members or clients were issued or renewed.
    CertificatesIssued,
    /// Authentication of etcd was switched on.
    AuthEnabled,
    /// Authentication of etcd was switched off.
    AuthDisabled,
    /// A backup is being brought that the cluster begins with, or that takes the place of its data; the message says how far
    /// that is.
    Restoring,
    /// The backup that the cluster is to begin with, or that is to take the place of its data, cannot be brought or used; the
    /// message says why, and what to change.
    RestoreBlocked,
    /// The cluster has formed with the data of a backup.
    ClusterRestored,
    /// An EtcdRestore waits for something; the message says for what.
    RestoreWaiting,
    /// An EtcdRestore cannot be carried out; the message says what to change.
    RestoreInvalid,
    /// A backup is in its store.
    BackupCreated,
    /// An attempt to make a backup failed; it is tried again.
    BackupFailed,
    /// A backup is being made.
    BackupRunning,
    /// The next backup is not due yet, and the last one, if there was one, is in its store.
    BackupScheduled,
    /// A backup is due, and waits until the cluster can give one, or for its turn.
    BackupWaiting,
    /// `spec.suspend` of the EtcdBackup is true: no backup is begun.
    BackupSuspended,
    /// The spec of the EtcdBackup cannot be carried out; the message says which field to change.
    BackupInvalid,
    /// A backup was restored for a trial, and is as it should be.
    BackupVerified,
    /// A backup failed its verification and no longer counts; the message names it, says what is wrong with it, and which one is
    /// the newest that counts.
    BackupDamaged,
    /// The checksums of an encrypted backup were compared, and nothing else: no identity was given with which it could be
    /// restored.
    ChecksumOnly,
    /// A backup is being restored for a trial.
    VerificationRunning,
    /// No backup has been verified yet, or the next verification waits; the message says for what.
    VerificationWaiting,
    /// A verification could not be carried out, which says nothing of the backup; it is tried again.
    VerificationFailed,
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
    /// Its reason.
    pub reason: Reason,
    /// Its message.
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
