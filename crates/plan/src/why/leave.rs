//! A member that leaves, and the claim that it leaves behind.

use std::fmt;

use api::Reason;

use crate::observed::Doing;

/// Why, where members and claims go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leave {
    /// This member will be removed.
    Recorded(String),
    /// This member stays after all, or all of it is gone.
    Forgotten(String),
    /// The first member leads, and hands over to the second before it leaves.
    HandsOver(String, String),
    /// This member is removed.
    Removing(String),
    /// The first member is not removed while the second is not healthy.
    OtherUnhealthy(String, String),
    /// A member is not removed before another has joined.
    Needed {
        /// It stays.
        member: String,
        /// It is to join.
        missing: String,
        /// What the pod of the second does.
        doing: Doing,
    },
    /// This member was removed, and its claim is deleted.
    DeletingClaim(String),
    /// No member uses this claim, and it is deleted.
    DeletingUnused(String),
    /// No member uses this claim any more.
    Unused(String),
    /// This member was removed, and this claim is not gone yet.
    ClaimTerminating(String, String),
    /// No member uses this claim, and it is not gone yet.
    UnusedTerminating(String),
    /// This claim is being deleted, and a pod without a member uses it.
    ClaimInUse(String),
    /// The volume of this removed member is kept.
    Retained(String),
    /// The volume of this member is used again.
    RetainedInUse(String),
    /// This member, of this ID, was removed by other means.
    Vanished(String, u64),
}

impl Leave {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Recorded(_)
            | Self::Forgotten(_)
            | Self::HandsOver(..)
            | Self::Removing(_)
            | Self::Needed { .. }
            | Self::DeletingClaim(_)
            | Self::DeletingUnused(_)
            | Self::Unused(_)
            | Self::ClaimTerminating(..)
            | Self::UnusedTerminating(_)
            | Self::Retained(_) => Reason::RemovingMember,
            Self::OtherUnhealthy(..) => Reason::ChangeRefused,
            Self::RetainedInUse(_) => Reason::AddingMember,
            Self::ClaimInUse(_) | Self::Vanished(..) => Reason::ReplacingMember,
        }
    }
}

impl fmt::Display for Leave {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded(member) => write!(out, "{member} will be removed"),
            Self::Forgotten(member) => write!(out, "{member} is no longer leaving"),
            Self::HandsOver(member, to) => write!(
                out,
                "{member} is the leader and will be removed: transferring leadership to {to}"
            ),
            Self::Removing(member) => write!(out, "{member} leaves"),
            Self::OtherUnhealthy(member, dark) => write!(
                out,
                "{member} is not removed while {dark} is not healthy: a smaller cluster would tolerate fewer failures"
            ),
            Self::Needed {
                member,
                missing,
                doing,
            } => write!(
                out,
                "{member} is not removed before {missing} has joined, because fewer voters would tolerate fewer failures; {missing} {doing}"
            ),
            Self::DeletingClaim(member) => {
                write!(out, "{member} was removed: deleting its claim")
            }
            Self::DeletingUnused(claim) => write!(out, "no member uses {claim}: deleting it"),
            Self::Unused(claim) => {
                write!(out, "no member uses {claim} any more; it will be deleted")
            }
            Self::ClaimTerminating(member, claim) => {
                write!(out, "{member} was removed, and {claim} is terminating")
            }
            Self::UnusedTerminating(claim) => {
                write!(out, "no member uses {claim}, which is being deleted")
            }
            Self::ClaimInUse(claim) => write!(
                out,
                "{claim} is being deleted, and the pod that uses it has no member"
            ),
            Self::Retained(member) => {
                write!(out, "the volume of the removed member {member} is retained")
            }
            Self::RetainedInUse(member) => write!(
                out,
                "the retained volume of {member} has the data of a member that was removed"
            ),
            Self::Vanished(member, id) => write!(
                out,
                "{member} ({id:x}) was removed from etcd, but not by the operator; it joins again as a new member"
            ),
        }
    }
}
