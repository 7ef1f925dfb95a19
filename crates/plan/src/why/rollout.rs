//! A pod template that is carried to one member after another.

use std::fmt;

use api::names::Scheme;
use api::{EtcdVersion, Reason};

use crate::observed::{Doing, describe_schemes};

/// Why, where templates change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// How far it is, and what is done next or waited for.
    Under(Progress, Next),
    /// Every member and its data are on this minor version.
    DataUpgraded(u8),
    /// Every member runs a later minor version than this one, and their data is about to follow.
    DataUpgrading(u8),
    /// This member is healthy on the new template.
    TargetHealthy(String),
    /// Every member runs this release.
    Complete(EtcdVersion),
    /// This pod got the new template before its turn.
    Stray(String),
    /// The member that tries comes up.
    Tries(Tried),
    /// The member that tries does not come up, and so many others are not changed.
    Halted(Tried, usize),
    /// This member tries the new template when it joins.
    JoinerTries(String),
    /// What became of the trial of this member.
    Trial(String, Trial),
    /// No pod could be created from the new template of this object.
    CalledOff {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// What was called off is not asked for any more.
    CallOffForgotten,
    /// A member is listed under these schemes.
    Listed {
        /// The member.
        member: String,
        /// The schemes.
        schemes: Vec<Scheme>,
        /// What changes of the transport.
        switch: String,
    },
}

/// How far a rollout is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// So many members run on what is asked for.
    pub done: usize,
    /// Of so many.
    pub all: usize,
    /// What changes of the transport.
    pub switch: String,
}

/// What is next in a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// This member is waited for, whose pod does this.
    Awaits(String, Doing),
    /// This member is restarted next.
    Restarts(String),
    /// This member will try the new template.
    Tries(String),
    /// The first member leads, and hands over to the second.
    HandsOver(String, String),
    /// This member is restarted.
    Restarting(String),
    /// This member is recreated to try the new template.
    Recreating(String),
    /// The StatefulSet does not have the new template yet.
    WritesTemplate,
    /// Members may not listen otherwise yet.
    NotListed(Unlisted),
}

/// Why members may not go to another rung among themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// This member is to be listed under these schemes.
    Member(String, Vec<Scheme>),
    /// This member is not ours, and not listed under these schemes.
    Unmanaged(String, Vec<Scheme>),
    /// This claim does not record the transport that runs.
    Claim(String),
}

/// The member that tries a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Its name.
    pub member: String,
    /// What changes of the transport.
    pub switch: String,
    /// What its pod does.
    pub doing: Doing,
}

/// What became of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// It is no member any more.
    NoMember,
    /// Its node is not ready.
    NodeNotReady,
    /// Its pod was recreated before the template was there.
    TooEarly,
    /// It cannot run the new template yet.
    NotPossible,
    /// The StatefulSet with the new template is rejected.
    Rejected,
    /// It is back on the proven template.
    Returned,
    /// The change was reverted.
    Reverted,
    /// Its pod cannot be created from the new template.
    NotCreated,
    /// Its pod cannot be created without a claim.
    NoClaim,
}

impl Rollout {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Halted(..) | Self::CalledOff { .. } => Reason::RolloutHalted,
            Self::Under(..)
            | Self::DataUpgraded(_)
            | Self::DataUpgrading(_)
            | Self::TargetHealthy(_)
            | Self::Complete(_)
            | Self::Stray(_)
            | Self::Tries(_)
            | Self::JoinerTries(_)
            | Self::Trial(..)
            | Self::CallOffForgotten
            | Self::Listed { .. } => Reason::RollingOut,
        }
    }
}

impl fmt::Display for Rollout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Under(progress, next) => write!(out, "{progress}: {next}"),
            Self::DataUpgraded(minor) => {
                write!(out, "every member and its data are on 3.{minor}")
            }
            Self::DataUpgrading(minor) => write!(
                out,
                "every member runs a newer minor version than 3.{minor}: waiting until etcd has finished the upgrade, before it can be downgraded"
            ),
            Self::TargetHealthy(member) => write!(
                out,
                "{member} is healthy on the new template; the other members follow"
            ),
            Self::Complete(version) => {
                write!(out, "every member runs v{version}, as in the spec")
            }
            Self::Stray(member) => write!(
                out,
                "{member} got the new template too early; it is recreated from the proven one"
            ),
            Self::Tries(tried) => tried.fmt(out),
            Self::Halted(tried, others) => {
                let others = match others {
                    0 => String::new(),
                    1 => "; the other member is not changed".to_owned(),
                    others => format!("; the other {others} members are not changed"),
                };
                write!(out, "{tried}{others}: correct the change, or revert it")
            }
            Self::JoinerTries(member) => {
                write!(out, "{member} will try the new template when it joins")
            }
            Self::Trial(member, trial) => trial.tell(member, out),
            Self::CalledOff { namespace, name } => write!(
                out,
                "no pod could be created from the new template, so the members stay on the one that they run on: kubectl describe statefulset -n {namespace} {name} shows why; correct the change, revert it, or, once a pod can be created from it, have it tried again: kubectl annotate etcdcluster -n {namespace} {name} --overwrite {}=\"$(date)\"",
                api::labels::RESTARTED_AT_ANNOTATION
            ),
            Self::CallOffForgotten => out.write_str(
                "the template from which no pod could be created is not asked for any more",
            ),
            Self::Listed {
                member,
                schemes,
                switch,
            } => write!(
                out,
                "{member} is listed for the other members under {}{switch}",
                describe_schemes(schemes)
            ),
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, all, switch } = self;
        write!(out, "{done} of {all} members are up to date{switch}")
    }
}

impl fmt::Display for Next {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Awaits(member, doing) => write!(out, "waiting for {member}, which {doing}"),
            Self::Restarts(member) => write!(out, "{member} is restarted next"),
            Self::Tries(member) => write!(out, "{member} will try the new template first"),
            Self::HandsOver(member, to) => write!(
                out,
                "{member} is the leader and will be restarted: transferring leadership to {to}"
            ),
            Self::Restarting(member) => write!(out, "restarting {member}"),
            Self::Recreating(member) => {
                write!(out, "{member} is being recreated to try the new template")
            }
            Self::WritesTemplate => out.write_str("writing the new template to the StatefulSet"),
            Self::NotListed(unlisted) => unlisted.fmt(out),
        }
    }
}

impl fmt::Display for Unlisted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(member, schemes) => write!(
                out,
                "waiting until {member} is listed for the other members under {}",
                describe_schemes(schemes)
            ),
            Self::Unmanaged(member, schemes) => write!(
                out,
                "member {member} is not managed by the operator: TLS between members is switched once it is removed, or listed under {}",
                describe_schemes(schemes)
            ),
            Self::Claim(claim) => write!(
                out,
                "waiting until PersistentVolumeClaim {claim} records how the members speak now"
            ),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            member,
            switch,
            doing,
        } = self;
        write!(
            out,
            "{member} tries the new template first{switch} and {doing}"
        )
    }
}

impl Trial {
    fn tell(self, member: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMember => write!(
                out,
                "{member} is not a member any more and does not try the new template"
            ),
            Self::NodeNotReady => write!(
                out,
                "the node of {member} is not ready, so its pod does not terminate: it does not try the new template"
            ),
            Self::TooEarly => write!(out, "{member} came back on the old template"),
            Self::NotPossible => write!(out, "{member} does not run the new template yet"),
            Self::Rejected => write!(
                out,
                "{member} does not try the new template: the StatefulSet with it is rejected"
            ),
            Self::Returned => write!(out, "{member} is back on the proven template"),
            Self::Reverted => {
                write!(
                    out,
                    "the change that {member} was going to try was reverted"
                )
            }
            Self::NotCreated => write!(
                out,
                "no pod of {member} can be created from the new template: it does not try it any more"
            ),
            Self::NoClaim => write!(
                out,
                "no pod of {member} can be created, because it has no claim: it does not try the new template for now"
            ),
        }
    }
}
