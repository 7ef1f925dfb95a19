//! The object and what it owns: whose it is, whether it makes sense, and whether its parts can be written.

use std::fmt;

use api::Reason;
use api::intent::InvalidSpec;

/// Why, of the object and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// It is deleted, and has the finalizer of a previous operator.
    Finalizer,
    /// It is deleted.
    Deleting,
    /// It is paused.
    Paused,
    /// It is paused while another template than the proven one is in the StatefulSet.
    PausedOnTrial,
    /// The StatefulSet is being deleted, to be recreated around its pods.
    SetTerminating,
    /// The spec makes no sense.
    Invalid(InvalidSpec),
    /// This object is of a deleted EtcdCluster of the same name.
    PreviousOwner(String),
    /// These objects are of another owner.
    Foreign(Vec<String>),
    /// This object is written, and so many more.
    Writing(String, usize),
    /// What cannot be written; each with its reason. The first counts.
    NotWritten(Vec<(Reason, String)>),
    /// This object is written in a moment, for this cause.
    WrittenShortly(String, String),
    /// The pod of this member was created before the spec was changed, and runs nothing yet.
    CreatedTooEarly(String),
    /// Two clusters: where each was seen, and its ID.
    TwoClusters([(String, u64); 2]),
    /// The debug container is added to this pod.
    DebugContainer(String),
    /// So many voters are healthy, as asked for, and what is to be said of their transport.
    Settled(usize, &'static str),
}

impl Object {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Finalizer | Self::Deleting => Reason::Deleting,
            Self::Paused | Self::PausedOnTrial => Reason::Paused,
            Self::SetTerminating
            | Self::Writing(..)
            | Self::WrittenShortly(..)
            | Self::DebugContainer(_) => Reason::ApplyingObjects,
            Self::Invalid(_) => Reason::InvalidSpec,
            Self::PreviousOwner(_) => Reason::PreviousOwnerTerminating,
            Self::Foreign(_) => Reason::ForeignObject,
            Self::NotWritten(all) => all
                .first()
                .map_or(Reason::WriteRefused, |(reason, _)| *reason),
            Self::CreatedTooEarly(_) => Reason::StartingPods,
            Self::TwoClusters(_) => Reason::VolumeRejected,
            Self::Settled(..) => Reason::AsExpected,
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalizer => out.write_str("removing the finalizer that a previous operator set"),
            Self::Deleting => {
                out.write_str("Kubernetes is deleting the objects that the EtcdCluster owns")
            }
            Self::Paused => write!(
                out,
                "reconciliation is paused by the annotation {}: nothing is changed until it is removed",
                api::labels::PAUSED_ANNOTATION
            ),
            Self::PausedOnTrial => write!(
                out,
                "{}; the StatefulSet is set back to the pod template that the members run on",
                Self::Paused
            ),
            Self::SetTerminating => out.write_str(
                "the StatefulSet is being deleted; it is recreated and adopts the running pods",
            ),
            Self::Invalid(invalid) => invalid.fmt(out),
            Self::PreviousOwner(first) => write!(
                out,
                "{first} belongs to a deleted EtcdCluster of the same name and is still terminating"
            ),
            Self::Foreign(all) => write!(
                out,
                "{} has another owner and is left alone: delete or rename it, or give the EtcdCluster another name",
                all.join(", ")
            ),
            Self::Writing(first, 0) => write!(out, "writing {first}"),
            Self::Writing(first, more) => write!(out, "writing {first} and {more} more"),
            Self::NotWritten(all) => {
                let all: Vec<&str> = all.iter().map(|(_, text)| text.as_str()).collect();
                out.write_str(&all.join("; "))
            }
            Self::WrittenShortly(what, words) => write!(out, "{what} is written shortly: {words}"),
            Self::CreatedTooEarly(member) => write!(
                out,
                "{member} was created before the spec was changed and is recreated"
            ),
            Self::TwoClusters([(first, one), (second, other)]) => write!(
                out,
                "two etcd clusters under one name: {first} has cluster ID {one:x}, {second} has {other:x}; nothing is changed until one of them is gone"
            ),
            Self::DebugContainer(member) => write!(out, "adding the debug container to {member}"),
            Self::Settled(voters, remark) => {
                write!(out, "{voters} healthy voters, as in the spec{remark}")
            }
        }
    }
}
