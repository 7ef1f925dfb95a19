//! What a member says about itself and its cluster, as plain values. No judgement: a number
//! that cannot be meant is not corrected here.

use crate::proto;

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consistency {
    /// Confirmed by a quorum. The only kind a membership decision may rest on.
    Linearizable,
    /// What this member believes, quorum or not.
    Local,
}

/// One member's answer to `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The cluster the member belongs to.
    pub cluster_id: u64,
    /// The member that answered.
    pub member_id: u64,
    /// Version of the process, such as `3.6.16`.
    pub version: String,
    /// Version of the data, `3.6.0` for example. Absent below etcd 3.6, and on 3.6 and later as long
    /// as the data is in the shape of 3.5.
    pub storage_version: Option<String>,
    /// Bytes the database takes on disk.
    pub db_size: u64,
    /// Bytes of those that hold data.
    pub db_size_in_use: u64,
    /// Bytes the database may take on disk; absent below etcd 3.6.
    pub db_size_quota: Option<u64>,
    /// What the cluster is being downgraded to, `3.5.0` for example; absent when no downgrade is
    /// enabled, and always below etcd 3.6.
    pub downgrade: Option<String>,
    /// Member ID of the leader; 0 when the member knows of none.
    pub leader: u64,
    /// Last committed index the member knows of.
    pub raft_index: u64,
    /// The member's term.
    pub raft_term: u64,
    /// Last index the member has applied.
    pub raft_applied_index: u64,
    /// What etcd itself complains of: alarms, and the lack of a leader.
    pub errors: Vec<String>,
    /// Whether the member has no vote yet.
    pub is_learner: bool,
    /// Revision of the key space.
    pub revision: i64,
}

impl Status {
    /// `None` if the answer lacks its header.
    pub(crate) fn from_proto(answer: proto::StatusResponse) -> Option<Self> {
        let header = answer.header?;
        Some(Self {
            cluster_id: header.cluster_id,
            member_id: header.member_id,
            version: answer.version,
            storage_version: Some(answer.storage_version).filter(|version| !version.is_empty()),
            db_size: u64::try_from(answer.db_size).unwrap_or_default(),
            db_size_in_use: u64::try_from(answer.db_size_in_use).unwrap_or_default(),
            db_size_quota: u64::try_from(answer.db_size_quota)
                .ok()
                .filter(|quota| *quota != 0),
            downgrade: answer
                .downgrade_info
                .filter(|info| info.enabled)
                .map(|info| info.target_version),
            leader: answer.leader,
            raft_index: answer.raft_index,
            raft_term: answer.raft_term,
            raft_applied_index: answer.raft_applied_index,
            errors: answer.errors,
            is_learner: answer.is_learner,
            revision: header.revision,
        })
    }
}

/// What to do about a downgrade of the cluster by one minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DowngradeAction {
    /// Ask whether it could be enabled; changes nothing.
    Validate,
    /// Let the data be brought into the shape of the older minor, and members of it in.
    Enable,
    /// Take that back.
    Cancel,
}

impl DowngradeAction {
    pub(crate) fn to_proto(self) -> i32 {
        match self {
            Self::Validate => 0,
            Self::Enable => 1,
            Self::Cancel => 2,
        }
    }
}

/// The members of a cluster as one of them lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberList {
    /// The cluster.
    pub cluster_id: u64,
    /// The member that answered.
    pub answered_by: u64,
    /// All members, learners included, ordered by ID.
    pub members: Vec<MemberInfo>,
}

impl MemberList {
    pub(crate) fn from_proto(answer: proto::MemberListResponse) -> Option<Self> {
        let header = answer.header?;
        let mut members: Vec<_> = answer
            .members
            .into_iter()
            .map(MemberInfo::from_proto)
            .collect();
        members.sort();
        Some(Self {
            cluster_id: header.cluster_id,
            answered_by: header.member_id,
            members,
        })
    }
}

/// One entry of the member list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberInfo {
    /// Member ID.
    pub id: u64,
    /// Name; empty until the member has started for the first time.
    pub name: String,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; empty until the member has started for the first time.
    pub client_urls: Vec<String>,
    /// Whether it has no vote yet.
    pub is_learner: bool,
}

impl MemberInfo {
    pub(crate) fn from_proto(member: proto::Member) -> Self {
        Self {
            id: member.id,
            name: member.name,
            peer_urls: member.peer_urls,
            client_urls: member.client_urls,
            is_learner: member.is_learner,
        }
    }
}

/// A key as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The value.
    pub value: Vec<u8>,
    /// Revision that created the key.
    pub create_revision: i64,
    /// Revision that last changed it.
    pub mod_revision: i64,
    /// How often it was written since its creation.
    pub version: i64,
}

impl KeyValue {
    pub(crate) fn from_proto(read: proto::KeyValue) -> Self {
        Self {
            value: read.value,
            create_revision: read.create_revision,
            mod_revision: read.mod_revision,
            version: read.version,
        }
    }
}
