//! The recovery from a lost quorum.

use std::fmt;

use api::Reason;

use super::Why;
use super::quorum::Voters;
use crate::observed::Doing;

/// Why, while quorum is recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It begins.
    Begins(Voters),
    /// The survivor is lost as well.
    ChoosesAgain(String),
    /// This pod is stopped once the StatefulSet can be written.
    SetNotWritten(String),
    /// This pod is stopping.
    PodStopping(String),
    /// This pod is stopped.
    StoppingPod(String),
    /// There is no StatefulSet.
    NoSet,
    /// This member has not reported its data, and its pod does this.
    Unreported(String, Doing),
    /// The same, and no node takes its pod.
    Homeless(GiveUp, Doing),
    /// This member is the survivor.
    Chosen(String),
    /// What becomes of it.
    Survivor(Survivor),
    /// What happens on the way, for the reason of the recovery.
    OnTheWay(Box<Why>),
    /// The survivor serves this cluster.
    Complete(u64),
}

/// The member whose data a recovery continues with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survivor {
    /// It cannot use its data, for this cause.
    Broken(GiveUp, String),
    /// It tried and failed, for this cause.
    Failed(GiveUp, String),
    /// It does not start, and its pod does this.
    Absent(String, Doing),
    /// It was granted its start.
    Starts(String),
    /// It does not wait yet.
    Awaited,
    /// It is granted its start.
    Grants {
        /// Its name.
        member: String,
        /// Term of its data.
        term: u64,
        /// Index of its data.
        index: u64,
    },
    /// It could not recover, and will try the new template.
    TriesTemplate(String),
    /// It could not recover, and is recreated from the new template.
    Recreated(String),
}

/// A member that a person can give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveUp {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub member: String,
    /// Its claim.
    pub claim: String,
}

impl Recovery {
    #[expect(
        clippy::unused_self,
        reason = "every group has this function, and here all variants have one reason"
    )]
    pub(super) fn reason(&self) -> Reason {
        Reason::Recovering
    }

    /// The condition says how to give up the member that was chosen.
    pub fn can_give_up_survivor(&self) -> bool {
        matches!(
            self,
            Self::Survivor(Survivor::Broken(..) | Survivor::Failed(..))
        )
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begins(voters) => write!(out, "recovering from lost quorum: {voters}"),
            Self::ChoosesAgain(member) => write!(
                out,
                "{member} was chosen as the survivor and is permanently lost: choosing again"
            ),
            Self::SetNotWritten(member) => write!(
                out,
                "{member} is stopped once the StatefulSet can be written, so that its next pod does not start the old data"
            ),
            Self::PodStopping(member) => write!(
                out,
                "{member} is being stopped, so that its data can be inspected"
            ),
            Self::StoppingPod(member) => write!(
                out,
                "stopping {member}, so that no member of the old cluster runs any more"
            ),
            Self::Unreported(member, doing) => write!(
                out,
                "waiting for {member} to report the data on its volume: it {doing}"
            ),
            Self::Homeless(give_up, doing) => write!(
                out,
                "waiting for {} to report the data on its volume: it {doing}. Bring back a node for it, or recover without it and lose the writes that only it has: {give_up}",
                give_up.member
            ),
            Self::NoSet => out.write_str(
                "waiting for the StatefulSet, without which no pod can report the data on its volume",
            ),
            Self::Chosen(member) => {
                write!(out, "{member} has the longest log of the remaining members")
            }
            Self::Survivor(survivor) => survivor.fmt(out),
            Self::OnTheWay(why) => why.fmt(out),
            Self::Complete(cluster) => {
                write!(out, "the recovered data is served by cluster {cluster:x}")
            }
        }
    }
}

impl fmt::Display for GiveUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            member,
            claim,
        } = self;
        write!(
            out,
            "kubectl delete pvc -n {namespace} {claim} --wait=false; kubectl delete pod -n {namespace} {member}"
        )
    }
}

impl fmt::Display for Survivor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(give_up, cause) => write!(
                out,
                "{} was chosen as the survivor, and its data cannot be used: {cause}. Repair it, or give it up together with all writes since: {give_up}",
                give_up.member
            ),
            Self::Failed(give_up, cause) => write!(
                out,
                "{} was chosen as the survivor and its recovery failed: {cause}. It is retried: remove the cause, or give it up and lose the writes that only it has: {give_up}",
                give_up.member
            ),
            Self::Absent(member, doing) => write!(
                out,
                "{member} was chosen as the survivor and does not start: it {doing}"
            ),
            Self::Starts(member) => {
                write!(out, "{member} starts a new cluster from its data")
            }
            Self::Awaited => out.write_str("waiting for the survivor"),
            Self::Grants {
                member,
                term,
                index,
            } => write!(
                out,
                "{member} starts a new cluster from its data: term {term}, index {index}"
            ),
            Self::TriesTemplate(member) => write!(
                out,
                "{member} could not recover and will try the new template"
            ),
            Self::Recreated(member) => write!(
                out,
                "{member} could not recover and is recreated to try the new template"
            ),
        }
    }
}
