//! Members that lost their data, cannot come back, do not keep up, or differ from the others.

use std::fmt;

use api::Reason;
use gate::State;

use crate::observed::what_is_lost;

/// Why, where a member is repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The data of a member is gone, and the member goes with it.
    Lost {
        /// The member.
        member: String,
        /// What is on its volume.
        state: State,
        /// Its ID.
        id: u64,
    },
    /// The data of this member is gone, and without it there is no quorum.
    LostWithQuorum(String, State),
    /// This member will be replaced, for this cause.
    Recorded(String, String),
    /// This member is replaced, for this cause.
    Replacing(String, String),
    /// The first member leads, and hands over to the second before it is replaced.
    HandsOver(String, String),
    /// This member was removed, and its pod is stopped.
    StoppingPod(String),
    /// No member uses the volume of this pod, which cannot be used, for this cause.
    NewVolume(String, String),
    /// This member does not keep up, for this cause, and will be restarted.
    StallRecorded(String, String),
    /// This member does not keep up, for this cause, and is restarted.
    StallRestart(String, String),
    /// This member does not keep up, for this cause.
    Stalls(String, String),
    /// This member has kept up since it was restarted.
    KeepsUp(String),
    /// Members differ, and no majority agrees.
    Inconsistent {
        /// The revision that all have reached.
        revision: u64,
        /// The hash of each.
        hashes: Vec<(String, u32)>,
    },
    /// Members may differ.
    MayDiffer {
        /// Voters whose hash is not known; where there is none, they are not at the same revision.
        silent: Vec<String>,
        /// A voter that does not run and without which the others are a quorum.
        away: Option<Away>,
    },
    /// All members have the same data again.
    Consistent,
}

/// A member that can be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub member: String,
    /// Its claim.
    pub claim: String,
}

impl Repair {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Lost { .. } => Reason::RemovingMember,
            Self::LostWithQuorum(..) => Reason::QuorumLost,
            Self::Recorded(..)
            | Self::Replacing(..)
            | Self::HandsOver(..)
            | Self::StoppingPod(_)
            | Self::NewVolume(..) => Reason::ReplacingMember,
            Self::StallRecorded(..)
            | Self::StallRestart(..)
            | Self::Stalls(..)
            | Self::KeepsUp(_) => Reason::MemberStalled,
            Self::Inconsistent { .. } | Self::MayDiffer { .. } | Self::Consistent => {
                Reason::DataInconsistent
            }
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { member, state, id } => write!(
                out,
                "{member} {}; its member {id:x} is removed first",
                what_is_lost(*state)
            ),
            Self::LostWithQuorum(member, state) => write!(
                out,
                "{member} {}, and without it there is no quorum that could replace it",
                what_is_lost(*state)
            ),
            Self::Recorded(member, cause) => write!(out, "{member} will be replaced: {cause}"),
            Self::Replacing(member, cause) => write!(out, "{member} is replaced: {cause}"),
            Self::HandsOver(member, to) => write!(
                out,
                "{member} is the leader and will be replaced: transferring leadership to {to}"
            ),
            Self::StoppingPod(member) => write!(out, "{member} was removed: stopping its pod"),
            Self::NewVolume(member, cause) => write!(out, "{member} gets a new volume: {cause}"),
            Self::StallRecorded(member, cause) => write!(
                out,
                "{member} does not keep up and will be restarted: {cause}"
            ),
            Self::StallRestart(member, cause) => {
                write!(out, "restarting {member}, which does not keep up: {cause}")
            }
            Self::Stalls(member, cause) => write!(out, "{member} does not keep up: {cause}"),
            Self::KeepsUp(member) => write!(out, "{member} has kept up since its restart"),
            Self::Inconsistent { revision, hashes } => {
                let hashes = hashes.iter();
                let hashes = hashes.map(|(member, hash)| format!("{member} has {hash:08x}"));
                write!(
                    out,
                    "the data of members is inconsistent at revision {revision} and no majority agrees: {}. Nothing is changed. Find out which member has the right data, make it the leader (etcdctl move-leader), and delete the claim and the pod of one of the others, which then joins again with the data of the leader",
                    hashes.collect::<Vec<_>>().join(", ")
                )
            }
            Self::MayDiffer { silent, away } => {
                out.write_str("the data of members may be inconsistent: waiting for ")?;
                if silent.is_empty() {
                    out.write_str("every voter to reach the same revision")?;
                } else {
                    write!(out, "the hash of {}", silent.join(", "))?;
                }
                away.as_ref().map_or(Ok(()), |away| away.fmt(out))
            }
            Self::Consistent => {
                out.write_str("the data of all voters is consistent; etcd serves again")
            }
        }
    }
}

impl fmt::Display for Away {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            member,
            claim,
        } = self;
        write!(
            out,
            ". Bring {member} back; or, if its data is lost or not needed, make the member that has the right data the leader (etcdctl move-leader) and have {member} join again with the data of that one: kubectl delete pvc -n {namespace} {claim} --wait=false; kubectl delete pod -n {namespace} {member} --force"
        )
    }
}
