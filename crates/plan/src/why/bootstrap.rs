//! The first member.

use std::fmt;

use api::Reason;

/// Why, until a cluster has formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// The cluster of this ID has formed.
    Formed(u64),
    /// There was a cluster, and its ID is not known.
    Forgotten,
    /// This member is chosen.
    Chosen(String),
    /// This member starts.
    Starts(String),
    /// This member was granted its start.
    Granted(String),
    /// This member was chosen on another claim.
    ClaimReplaced(String),
    /// This member is granted its start.
    Grants(String),
    /// This member lost its volume before there was anything to lose.
    StartsOver(String),
    /// The pod of this member cannot start, for this cause.
    PodFails(String, String),
    /// No pod has started yet.
    NoPod,
}

impl Bootstrap {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Formed(_)
            | Self::Chosen(_)
            | Self::Starts(_)
            | Self::Granted(_)
            | Self::ClaimReplaced(_)
            | Self::Grants(_)
            | Self::StartsOver(_) => Reason::Bootstrapping,
            Self::Forgotten => Reason::EtcdUnreachable,
            Self::PodFails(..) | Self::NoPod => Reason::StartingPods,
        }
    }
}

impl fmt::Display for Bootstrap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Formed(cluster) => write!(out, "cluster {cluster:x} has formed"),
            Self::Forgotten => out.write_str(
                "the cluster was bootstrapped before, but the status does not have its ID: waiting for a member to serve",
            ),
            Self::Chosen(member) => write!(out, "{member} is chosen to bootstrap the cluster"),
            Self::Starts(member) => write!(out, "{member} is starting as the first member"),
            Self::Granted(member) => {
                write!(out, "{member} has permission to start and is starting")
            }
            Self::ClaimReplaced(member) => write!(
                out,
                "{member} was chosen to bootstrap the cluster, but its PersistentVolumeClaim was replaced"
            ),
            Self::Grants(member) => write!(out, "{member} bootstraps the cluster"),
            Self::StartsOver(member) => write!(
                out,
                "{member} lost its volume before the cluster was bootstrapped; starting over"
            ),
            Self::PodFails(member, problem) => write!(out, "pod {member} cannot start: {problem}"),
            Self::NoPod => out.write_str("waiting for the first pod to start"),
        }
    }
}
