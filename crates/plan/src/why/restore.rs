//! A cluster that begins with a backup.

use std::fmt;

use api::{EtcdVersion, Reason};

/// Why, until a cluster that begins with a backup has formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restore {
    /// What the spec asks for cannot be had, for this cause.
    Unknown(String),
    /// The backup is to be brought to the volume of this member.
    Chosen(String),
    /// A Job brought, or brings, a backup to the volume of this member, though the status no longer says so.
    Recalled(String),
    /// The volume of this member was replaced or lost, or what was brought to it is not known any more.
    SeedLost(String),
    /// Another backup is asked for than the one that was being brought.
    Changed,
    /// No backup is asked for any more.
    Dropped,
    /// So many pods are still there.
    PodsStopping(usize),
    /// The Job is created that brings the backup to the volume of this member.
    Fetches(String),
    /// This Job brings it; what keeps its pod from starting.
    Fetching(String, Option<String>),
    /// This Job is being deleted.
    JobEnding(String),
    /// This Job is deleted: it was for something else, or has said what it had to say.
    EndsJob(String),
    /// The backup of this ID, at this revision, lies on the volume.
    Fetched(String, i64),
    /// It could not be brought or used, for this cause; it is tried again.
    Failed(String),
    /// It is of a newer minor version than the one that is asked for.
    Newer {
        /// The release that it is from.
        wrote: EtcdVersion,
        /// The release that is asked for.
        asked: EtcdVersion,
    },
    /// Authentication was on in it, and the spec does not switch it on.
    NeedsAuth(String),
}

impl Restore {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Unknown(_) | Self::Failed(_) | Self::Newer { .. } | Self::NeedsAuth(_) => {
                Reason::RestoreBlocked
            }
            Self::Chosen(_)
            | Self::Recalled(_)
            | Self::SeedLost(_)
            | Self::Changed
            | Self::Dropped
            | Self::PodsStopping(_)
            | Self::Fetches(_)
            | Self::Fetching(..)
            | Self::JobEnding(_)
            | Self::EndsJob(_)
            | Self::Fetched(..) => Reason::Restoring,
        }
    }
}

impl fmt::Display for Restore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(why) => write!(
                out,
                "the backup that the cluster is to begin with (spec.bootstrap.restore) is not known: {why}"
            ),
            Self::Chosen(member) => {
                write!(out, "a backup is to be brought to the volume of {member}")
            }
            Self::Recalled(member) => write!(
                out,
                "a Job brings a backup to the volume of {member}, which the status did not have"
            ),
            Self::SeedLost(member) => write!(
                out,
                "the backup is to be brought to the volume of {member} once more: that volume was replaced, or the status no longer said what lies on it"
            ),
            Self::Changed => out.write_str(
                "another backup is asked for than the one that was being brought: starting over",
            ),
            Self::Dropped => out.write_str(
                "spec.bootstrap.restore was taken out before the cluster had formed: it begins empty",
            ),
            Self::PodsStopping(count) => write!(
                out,
                "waiting for {count} pods to stop, so that a Job can mount the volume and bring the backup"
            ),
            Self::Fetches(member) => write!(
                out,
                "a Job is created that brings the backup to the volume of {member}"
            ),
            Self::Fetching(job, None) => write!(out, "Job {job} brings the backup"),
            Self::Fetching(job, Some(trouble)) => {
                write!(out, "the pod of Job {job} does not start: {trouble}")
            }
            Self::JobEnding(job) => write!(
                out,
                "waiting for Job {job} to be deleted, with its pod; where the node of that is gone: kubectl delete pod --force --selector batch.kubernetes.io/job-name={job}"
            ),
            Self::EndsJob(job) => write!(out, "Job {job} is deleted"),
            Self::Fetched(id, revision) => {
                write!(out, "backup {id}, at revision {revision}, is on the volume")
            }
            Self::Failed(why) => write!(out, "the backup could not be restored: {why}; it is tried again"),
            Self::Newer { wrote, asked } => write!(
                out,
                "the backup was made by etcd {wrote}, and etcd {asked} cannot start on it: write a spec.version of 3.{} or later",
                wrote.minor
            ),
            Self::NeedsAuth(id) => write!(
                out,
                "authentication of etcd is on in backup {id}, so that the operator would be locked out of the cluster: write security.tls and security.auth.enabled: true"
            ),
        }
    }
}
