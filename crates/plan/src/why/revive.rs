//! A pod template that is carried to pods that run nothing, where there is no quorum to ask.

use std::fmt;

use api::{EtcdVersion, Reason};
use jiff::Timestamp;

use crate::observed::Doing;

/// Why, where templates change without a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revive {
    /// A pod starts neither on the new template nor on the one before.
    StartsOnNone {
        /// Its member.
        member: String,
        /// What it does.
        doing: Doing,
        /// When it is recreated again.
        until: Timestamp,
    },
    /// This member tries in vain, and its pod does this.
    CostsQuorum(String, Doing),
    /// This pod follows.
    Follows(String),
    /// No member can be downgraded.
    NoDowngrade {
        /// A member that does not run.
        member: String,
        /// What its pod does.
        doing: Doing,
        /// The release that is asked for.
        to: EtcdVersion,
        /// The release that runs.
        from: EtcdVersion,
    },
    /// The new template starts.
    Starts,
    /// This pod will try the new template.
    Tries(String),
    /// This pod is recreated to try it.
    Recreated(String),
}

impl Revive {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::StartsOnNone { .. } | Self::NoDowngrade { .. } => Reason::RolloutHalted,
            Self::CostsQuorum(..)
            | Self::Follows(_)
            | Self::Starts
            | Self::Tries(_)
            | Self::Recreated(_) => Reason::RollingOut,
        }
    }
}

impl fmt::Display for Revive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartsOnNone {
                member,
                doing,
                until,
            } => write!(
                out,
                "{member} {doing}, on the new template as on the one before: it is recreated again at {}; correct the spec, or what keeps the pod from starting",
                until.strftime("%H:%M:%S UTC")
            ),
            Self::CostsQuorum(member, doing) => write!(
                out,
                "no quorum responds, and {member} {doing}: it does not try the new template any more"
            ),
            Self::Follows(member) => write!(
                out,
                "{member} does not run and is recreated from the new template"
            ),
            Self::NoDowngrade {
                member,
                doing,
                to,
                from,
            } => write!(
                out,
                "{member} {doing}, and without a quorum no member can be downgraded to v{to}: set spec.version back to v{from} first"
            ),
            Self::Starts => out.write_str("the new template starts; the other members follow"),
            Self::Tries(member) => write!(
                out,
                "{member} does not run and will try the new template first"
            ),
            Self::Recreated(member) => {
                write!(out, "{member} is recreated to try the new template")
            }
        }
    }
}
