//! Members and pods that are waited for, where nothing can be done.

use std::fmt;

use api::Reason;

use crate::observed::Doing;

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// No member gives a member list: what each pod does.
    NoQuorum(Vec<(String, Doing)>),
    /// This member serves, and its pod is being deleted.
    PodDeleted(String),
    /// This voter does this.
    Voter(String, Doing),
    /// This learner does this.
    Learner(String, Doing),
    /// The pod of this ordinal waits to be added as a member, and does this.
    NoMember(String, Doing),
    /// The pod of this ordinal does this, and has no member.
    Pod(String, Doing),
    /// A volume has the data of a member that was removed.
    LeftBehind {
        /// Its pod.
        member: String,
        /// Its claim.
        claim: String,
        /// The member that was removed.
        id: u64,
    },
}

impl Incomplete {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::NoQuorum(_) => Reason::EtcdUnreachable,
            Self::PodDeleted(_) | Self::Voter(..) => Reason::MemberUnhealthy,
            Self::Learner(..) => Reason::StartingMember,
            Self::NoMember(..) => Reason::AddingMember,
            Self::Pod(..) => Reason::StartingPods,
            Self::LeftBehind { .. } => Reason::VolumeRejected,
        }
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQuorum(pods) if pods.is_empty() => out.write_str("no pod exists yet"),
            Self::NoQuorum(pods) => {
                let pods = pods.iter();
                let pods = pods.map(|(member, doing)| format!("{member} {doing}"));
                let pods = pods.collect::<Vec<_>>().join(", ");
                write!(out, "no quorum responds: {pods}")
            }
            Self::PodDeleted(member) => {
                write!(out, "{member} serves, but its pod is being deleted")
            }
            Self::Voter(member, doing)
            | Self::Learner(member, doing)
            | Self::NoMember(member, doing)
            | Self::Pod(member, doing) => write!(out, "{member} {doing}"),
            Self::LeftBehind { member, claim, id } => write!(
                out,
                "{member} holds data of member {id:x}, which was removed: delete the claim {claim} and the pod, and it joins again"
            ),
        }
    }
}
