//! A backup that takes the place of the data of a cluster that has formed.

use std::fmt;

use api::{EtcdVersion, Reason};

/// Why, from the EtcdRestore that names the cluster to the cluster that has the data of the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// This names the cluster: its backup is read first.
    Begins(String),
    /// The Job is created that reads it.
    Checks,
    /// This backup, at this revision, was read and found whole.
    Checked(String, i64),
    /// It goes on no further, for this cause; the cluster serves on.
    Blocked(Blocked),
    /// This is there no more, or names another cluster.
    CalledOff(String),
    /// Whether that is still asked for could not be read.
    Unheard(String),
    /// Members are stopped, so that the backup can be brought to the volume of this one.
    Stops(String),
    /// So many pods are still there.
    PodsStopping(usize),
    /// The Job is created that brings it to the volume of this member.
    Fetches(String),
    /// This Job brings it; what keeps its pod from starting.
    Fetching(String, Option<String>),
    /// This Job is being deleted.
    JobEnding(String),
    /// This Job is deleted.
    EndsJob(String),
    /// It lies on the volume.
    Fetched(String, i64),
    /// An attempt failed, for this cause.
    Failed(String),
    /// It failed so often that the cluster goes on as it was.
    GivenUp(String),
    /// The volume of this member cannot be used: another one is chosen.
    AnotherSeed(String),
    /// This member is to bootstrap another cluster with this backup.
    Bootstraps(String, String),
    /// Its pod is not there, or says nothing.
    Awaited(String),
    /// It is let through.
    Grants(String),
    /// It was let through.
    Starts(String),
    /// It serves this cluster: the data was replaced.
    Serves(u64),
}

/// Why a backup cannot take the place of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// What is asked for cannot be had.
    Unknown(String),
    /// It could not be read.
    Unread(String),
    /// It is of a newer minor version than the one that is asked for.
    Newer {
        /// The release that it is from.
        wrote: EtcdVersion,
        /// The release that is asked for.
        asked: EtcdVersion,
    },
    /// Authentication was on in it, and the spec does not switch it on.
    NeedsAuth(String),
    /// No volume has so many bytes, which it needs at least.
    Room(u64),
    /// The spec cannot be carried out, or members run on what an earlier operator left.
    NotReady,
    /// No volume can be used.
    NoSeed,
}

impl InPlace {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Blocked(_) | Self::Failed(_) | Self::GivenUp(_) => Reason::RestoreBlocked,
            Self::Begins(_)
            | Self::Checks
            | Self::Checked(..)
            | Self::CalledOff(_)
            | Self::Unheard(_)
            | Self::Stops(_)
            | Self::PodsStopping(_)
            | Self::Fetches(_)
            | Self::Fetching(..)
            | Self::JobEnding(_)
            | Self::EndsJob(_)
            | Self::Fetched(..)
            | Self::AnotherSeed(_)
            | Self::Bootstraps(..)
            | Self::Awaited(_)
            | Self::Grants(_)
            | Self::Starts(_)
            | Self::Serves(_) => Reason::Restoring,
        }
    }
}

impl InPlace {
    /// From the moment on in which members are stopped.
    fn tell_stopped(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begins(_)
            | Self::Checks
            | Self::Checked(..)
            | Self::Blocked(_)
            | Self::CalledOff(_)
            | Self::Unheard(_)
            | Self::Stops(_) => Ok(()),
            Self::PodsStopping(count) => write!(
                out,
                "waiting for {count} pods to stop before the backup is brought; where the node of one is gone: kubectl delete pod --force"
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
            Self::Failed(why) => write!(
                out,
                "the backup could not be brought or used: {why}; it is tried again"
            ),
            Self::GivenUp(why) => write!(
                out,
                "the backup could not be brought or used: {why}; the cluster goes on with the data that it has"
            ),
            Self::AnotherSeed(member) => write!(
                out,
                "the volume of {member} cannot be used for the backup: another one is chosen"
            ),
            Self::Bootstraps(member, id) => write!(
                out,
                "{member} bootstraps another cluster with backup {id}; the data of the one before is held back"
            ),
            Self::Awaited(member) => {
                write!(out, "waiting for {member}, which begins with the backup")
            }
            Self::Grants(member) => {
                write!(out, "{member} may bootstrap the cluster with the backup")
            }
            Self::Starts(member) => write!(out, "waiting for {member}, which restores the backup"),
            Self::Serves(id) => write!(
                out,
                "the data was replaced, and is that of etcd cluster {id:x}: the other members join it"
            ),
        }
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(why) => write!(out, "the backup is not known: {why}"),
            Self::Unread(why) => write!(out, "the backup could not be read: {why}; it is tried again"),
            Self::Newer { wrote, asked } => write!(
                out,
                "the backup was made by etcd {wrote}, and etcd {asked} cannot start on it: write a spec.version of 3.{} or later into the EtcdCluster",
                wrote.minor
            ),
            Self::NeedsAuth(id) => write!(
                out,
                "authentication of etcd is on in backup {id}, so that the operator would be locked out of the cluster: write security.tls and security.auth.enabled: true into the EtcdCluster"
            ),
            Self::Room(bytes) => write!(
                out,
                "no volume is large enough for the backup twice, which needs {} MiB: write a larger storage.size into the EtcdCluster",
                bytes.div_ceil(1 << 20)
            ),
            Self::NotReady => out.write_str(
                "the EtcdCluster must have a spec that can be carried out, and members that this operator has started once",
            ),
            Self::NoSeed => out.write_str(
                "there is no PersistentVolumeClaim of a member to which the backup could be brought: delete one whose volume or node is gone, or whose data cannot be read, with its pod (kubectl delete pvc --wait=false), so that another is made",
            ),
        }
    }
}

impl fmt::Display for InPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begins(name) => write!(
                out,
                "{name} names this cluster: the backup is read before anything is touched"
            ),
            Self::Checks => out.write_str("a Job is created that reads the backup"),
            Self::Checked(id, revision) => {
                write!(
                    out,
                    "backup {id}, at revision {revision}, was read and is whole"
                )
            }
            Self::Blocked(why) => write!(out, "the data is not replaced: {why}"),
            Self::CalledOff(name) => write!(
                out,
                "{name} no longer asks for the backup: the cluster goes on with the data that it has"
            ),
            Self::Unheard(name) => {
                write!(
                    out,
                    "whether {name} still asks for the backup cannot be read"
                )
            }
            Self::Stops(member) => write!(
                out,
                "all members are stopped, so that a Job can mount the volume of {member} and bring the backup beside the data that it holds"
            ),
            Self::PodsStopping(_)
            | Self::Fetches(_)
            | Self::Fetching(..)
            | Self::JobEnding(_)
            | Self::EndsJob(_)
            | Self::Fetched(..)
            | Self::Failed(_)
            | Self::GivenUp(_)
            | Self::AnotherSeed(_)
            | Self::Bootstraps(..)
            | Self::Awaited(_)
            | Self::Grants(_)
            | Self::Starts(_)
            | Self::Serves(_) => self.tell_stopped(out),
        }
    }
}
