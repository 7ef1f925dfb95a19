//! Quorum that is lost, what is known of it, and what a person can do.

use std::fmt;

use api::Reason;
use jiff::Timestamp;

use super::Way;

/// Why, where quorum is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// It is proved that no quorum can return.
    Proved(Voters, Command),
    /// No quorum has responded since then, and that is no proof.
    Unproved(Option<Timestamp>, Voters, Command),
    /// Pods of a previous operator cannot be fenced.
    NoGate,
    /// No voter has data any more.
    NothingLeft {
        /// What is known of them.
        voters: Voters,
        /// Every claim.
        claims: Vec<String>,
        /// What is left of earlier incarnations.
        earlier: Vec<String>,
        /// The way back.
        way: Box<Way>,
    },
    /// No volume has data of this cluster.
    NoData {
        /// The cluster.
        cluster: String,
        /// Every claim.
        claims: Vec<String>,
        /// The way back.
        way: Box<Way>,
    },
    /// This member has the latest data of this cluster, and never ran under this object.
    LongerElsewhere(String, String),
}

/// What is known of every voter, each in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voters {
    /// Their data can never come back.
    pub gone: Vec<String>,
    /// They have data.
    pub left: Vec<String>,
    /// They do not respond.
    pub silent: Vec<String>,
    /// They have data, and no vote as far as is known.
    pub voteless: Vec<String>,
}

/// The command by which a person asks for a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The cluster that lost its quorum.
    pub lost: u64,
}

impl Quorum {
    #[expect(
        clippy::unused_self,
        reason = "every group has this function, and here all variants have one reason"
    )]
    pub(super) fn reason(&self) -> Reason {
        Reason::QuorumLost
    }
}

impl fmt::Display for Quorum {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proved(voters, command) => write!(
                out,
                "quorum is permanently lost: {voters}. Bring one of the lost members back, or recover from the remaining ones and lose the writes that only the lost ones had: {command}"
            ),
            Self::Unproved(since, voters, command) => {
                let since = since.map(|since| since.strftime("%F %H:%M UTC"));
                let since = since.map_or_else(String::new, |since| format!(" since {since}"));
                write!(
                    out,
                    "no quorum has responded{since}, and it is not proved that it cannot return: {voters}. Bring one of the missing members back. If that is impossible, make sure that their machines are off, and recover from the remaining ones; every write that only the missing ones have is lost: {command}"
                )
            }
            Self::NothingLeft {
                voters,
                claims,
                earlier,
                way,
            } => {
                write!(
                    out,
                    "no data is left: {voters}. {way}. Or bring a volume back, from a snapshot of the storage for instance. {}",
                    without(claims)
                )?;
                if earlier.is_empty() {
                    return Ok(());
                }
                write!(
                    out,
                    ". Data of an earlier incarnation is left ({}): keep the claims of that",
                    earlier.join("; ")
                )
            }
            Self::NoData {
                cluster,
                claims,
                way,
            } => write!(
                out,
                "no volume has data of cluster {cluster} any more. {way}. Or bring a volume back, from a snapshot of the storage for instance. {}",
                without(claims)
            ),
            Self::LongerElsewhere(member, cluster) => write!(
                out,
                "{member} has the latest data of cluster {cluster}, and never ran under this EtcdCluster. Delete the EtcdCluster while spec.storage.claimPolicy.whenDeleted is Retain, and recreate it: it then resumes its volumes as they are"
            ),
            Self::NoGate => out.write_str(
                "quorum is lost, and pods of a previous operator cannot be fenced. Restore a quorum, or delete the EtcdCluster while spec.storage.claimPolicy.whenDeleted is Retain, and recreate it: it then resumes its volumes as they are, and can be recovered from them",
            ),
        }
    }
}

/// What a person can do without any data, and what to look at before.
fn without(claims: &[String]) -> String {
    let left = if claims.is_empty() {
        "no claim".to_owned()
    } else {
        format!("the claims {}", claims.join(", "))
    };
    format!(
        "To begin with an empty cluster, create one under another name; or look at what is left ({left}) before you give it up together with the EtcdCluster"
    )
}

impl fmt::Display for Voters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            ("gone", &self.gone),
            ("left", &self.left),
            ("silent", &self.silent),
            ("not a voter", &self.voteless),
        ];
        let told = all.iter().filter(|(_, who)| !who.is_empty());
        let told = told.map(|(what, who)| format!("{what}: {}", who.join("; ")));
        out.write_str(&told.collect::<Vec<_>>().join(". "))
    }
}

impl fmt::Display for Command {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "kubectl annotate etcdcluster -n {} {} {}={:x}",
            self.namespace,
            self.name,
            api::labels::RECOVER_ANNOTATION,
            self.lost
        )
    }
}
