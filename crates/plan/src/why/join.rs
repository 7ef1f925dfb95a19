//! A member that joins.

use std::fmt;

use api::Reason;

use crate::observed::Doing;

/// Why, where a member joins or starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Join {
    /// This member may be added for its wait.
    Recorded(String),
    /// This member is added.
    Adding(String),
    /// Some voters do not list this member yet.
    NotListed(String),
    /// This member is granted its start.
    Starts(String),
    /// This member was granted its start, and its pod does this.
    Starting(String, Doing),
    /// This member is so many entries behind.
    CatchingUp(String, u64),
    /// The first member is promoted once the second is added.
    PromotedAfter(String, String),
    /// This member is promoted.
    Promoting(String),
}

impl Join {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Recorded(_) | Self::Adding(_) => Reason::AddingMember,
            Self::NotListed(_) | Self::Starts(_) | Self::Starting(..) => Reason::StartingMember,
            Self::CatchingUp(..) | Self::PromotedAfter(..) | Self::Promoting(_) => {
                Reason::PromotingMember
            }
        }
    }
}

impl fmt::Display for Join {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded(member) => write!(out, "{member} may join as a new member"),
            Self::Adding(member) => write!(out, "adding {member} as a learner"),
            Self::NotListed(member) => {
                write!(out, "waiting until every voter lists {member} as a member")
            }
            Self::Starts(member) => write!(out, "{member} starts as a learner"),
            Self::Starting(member, doing) => write!(
                out,
                "{member} has permission to start and is starting: it {doing}"
            ),
            Self::CatchingUp(member, lag) => {
                write!(out, "{member} is catching up: {lag} entries behind")
            }
            Self::PromotedAfter(member, coming) => {
                write!(out, "{member} is promoted once {coming} is added")
            }
            Self::Promoting(member) => write!(out, "promoting {member}"),
        }
    }
}
