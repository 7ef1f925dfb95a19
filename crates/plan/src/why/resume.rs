//! Data and members that were there before: of a status that was lost, of an earlier object, or of a previous operator.

use std::fmt;

use api::version::PathRefused;
use api::{EtcdVersion, Reason, Transport};
use gate::Report;

/// Why, where something is taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The claims know more than the status.
    Recalled,
    /// What the members run on was not recorded.
    Runs(EtcdVersion),
    /// This member has not reported the data on its volume.
    Unreported(String),
    /// The data was last run on this transport.
    LastRunOn(Transport),
    /// The release that is asked for cannot read the data.
    Unreadable(Unreadable),
    /// The data of this cluster is taken over.
    Cluster(u64),
    /// This member goes on with its data.
    Member(String),
    /// The volumes have data that cannot be started.
    NotStartable(Vec<Found>),
    /// The volumes have data of several clusters.
    SeveralClusters(Vec<Found>),
    /// The quorum of this cluster was being recovered when the status was lost.
    WasRecovering(u64),
    /// The same, and this member has not reported the data on its volume.
    WasRecoveringUnreported(u64, String),
    /// The members of a previous operator do not respond.
    PredecessorSilent,
    /// The members of a previous operator do not tell their version.
    PredecessorVersion,
    /// The status has the first cluster ID, the members of a previous operator have the second.
    PredecessorDiffers(u64, u64),
    /// The cluster of a previous operator is taken over.
    Adopting(u64),
}

/// Why data cannot be read by the release that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A later release wrote it.
    Newer {
        /// The release that wrote it.
        wrote: EtcdVersion,
        /// The release that is asked for.
        asked: EtcdVersion,
    },
    /// A much earlier release wrote it.
    Older {
        /// The release that wrote it.
        wrote: EtcdVersion,
        /// Why that is too far.
        refused: PathRefused,
    },
}

/// What is on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its claim.
    pub claim: String,
    /// What the agent says.
    pub report: Report,
}

impl Resume {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Recalled
            | Self::Runs(_)
            | Self::Unreported(_)
            | Self::LastRunOn(_)
            | Self::Cluster(_)
            | Self::Member(_)
            | Self::WasRecovering(_)
            | Self::WasRecoveringUnreported(..) => Reason::Resuming,
            Self::Unreadable(_)
            | Self::NotStartable(_)
            | Self::SeveralClusters(_)
            | Self::PredecessorDiffers(..) => Reason::VolumeRejected,
            Self::PredecessorSilent | Self::PredecessorVersion | Self::Adopting(_) => {
                Reason::Adopting
            }
        }
    }
}

impl fmt::Display for Resume {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recalled => out.write_str(
                "the status was wiped, or is older than the claims: it is restored from the annotation etcd.etcd.io/lineage of the claims",
            ),
            Self::Runs(version) => write!(out, "the members run on v{version}"),
            Self::Unreported(member) => write!(
                out,
                "waiting for {member} to report the data on its volume, which existed before this EtcdCluster"
            ),
            Self::LastRunOn(transport) => {
                let how = if transport.is_plain() { "plaintext" } else { "TLS" };
                write!(
                    out,
                    "the retained data was last run with {how}, and starts with that again ({transport})"
                )
            }
            Self::Unreadable(why) => {
                write!(out, "{why}. Nothing is deleted or started until then")
            }
            Self::Cluster(cluster) => {
                write!(out, "resuming the retained data of cluster {cluster:x}")
            }
            Self::Member(member) => write!(out, "{member} resumes on its retained data"),
            Self::NotStartable(found) => write!(
                out,
                "the retained volumes have data that cannot be started: {}. Nothing is deleted, and no new cluster is bootstrapped. Restore a readable volume, for instance from a volume snapshot; or keep these claims and create the EtcdCluster under another name",
                list(found)
            ),
            Self::SeveralClusters(found) => write!(
                out,
                "the volumes have data of several clusters: {}. Nothing is deleted or started. Give the EtcdCluster another name, or bind the volumes that do not belong here to claims of another name",
                list(found)
            ),
            Self::WasRecovering(lost) => write!(
                out,
                "the volumes have fenced data of cluster {lost:x}: its quorum was being recovered when the status was lost"
            ),
            Self::WasRecoveringUnreported(lost, member) => write!(
                out,
                "{}; waiting for {member} to report the data on its volume",
                Self::WasRecovering(*lost)
            ),
            Self::PredecessorSilent => out.write_str(
                "the StatefulSet was created by a previous operator; it is adopted once a quorum of its members responds, and left alone until then",
            ),
            Self::PredecessorVersion => out.write_str(
                "the members of the previous operator's cluster do not report their version",
            ),
            Self::PredecessorDiffers(ours, theirs) => write!(
                out,
                "two etcd clusters under one name: the status has cluster ID {ours:x}, the members of the previous operator's cluster have {theirs:x}; nothing is changed until one of them is gone"
            ),
            Self::Adopting(cluster) => {
                write!(out, "adopting cluster {cluster:x} of a previous operator")
            }
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = "the retained volumes have data that etcd";
        match self {
            Self::Newer { wrote, asked } => write!(
                out,
                "{what} v{wrote} wrote, and v{asked} cannot read it: set spec.version to v{wrote}, or to a later release of 3.{}",
                wrote.minor
            ),
            Self::Older { wrote, refused } => write!(
                out,
                "{what} v{wrote} wrote: {refused}. Set spec.version to v{wrote} first, and upgrade once it runs"
            ),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (claim, detail) = (&self.claim, &self.report.detail);
        match &self.report.data {
            Some(data) => write!(
                out,
                "{claim} has member {} of cluster {}, term {}, index {} ({detail})",
                data.member_id, data.cluster_id, data.term, data.index
            ),
            None => write!(out, "{claim}: {detail}"),
        }
    }
}

fn list(found: &[Found]) -> String {
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    found.join("; ")
}
