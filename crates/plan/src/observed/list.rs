//! The members of a cluster, as a quorum of it lists them.

/// A member list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberList {
    /// The cluster.
    pub cluster_id: u64,
    /// Its members.
    pub members: Vec<Member>,
}

/// A member as the others list it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its ID.
    pub id: u64,
    /// Its name; empty until it has started once.
    pub name: String,
    /// Where the others reach it.
    pub peer_urls: Vec<String>,
    /// It does not vote.
    pub learner: bool,
}

impl Member {
    /// It has never started.
    pub fn is_unstarted(&self) -> bool {
        self.name.is_empty()
    }
}

impl MemberList {
    /// Members that vote.
    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.learner)
    }

    /// Members that do not vote yet.
    pub fn learners(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.learner)
    }
}
