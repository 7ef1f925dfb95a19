//! The status of `EtcdCluster`: what was observed, for people and programs, and under one key what the operator remembers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::former::FormerMemory;
use super::memory::Memory;
use super::restore::Restored;

/// What the cluster is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterStatus {
    /// One word for people; programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Available, Progressing, Degraded and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Every member that etcd lists and every pod that should become one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberStatus>,
    /// Voting members that are healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods in force; for the `scale` subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Label selector of the pods; for the `scale` subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Member ID of the leader, hexadecimal.
    #[serde(rename = "leaderID", default, skip_serializing_if = "Option::is_none")]
    pub leader_id: Option<String>,
    /// ID of the etcd cluster, hexadecimal, once it has formed.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Where clients connect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_endpoints: Vec<String>,
    /// The certificates that the operator issued, where TLS is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<CertificateStatus>,
    /// Authentication of etcd, where `security.auth` is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthStatus>,
    /// Lowest etcd release that a member runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When the newest backup of this cluster was complete, by the EtcdBackups of its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup_time: Option<Time>,
    /// The backup that the cluster began with, where it did not begin empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Since when no quorum is known to serve; absent while one does, before the cluster has formed, and while it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_since: Option<Time>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What the operator remembers; not for people to write, and of no use to programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// What the release before wrote.
    #[serde(flatten)]
    pub former: FormerMemory,
}

/// The certificates of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// When the first of the certificates of members and clients expires.
    pub not_after: Time,
    /// When they are renewed.
    pub renewal_time: Time,
    /// When the authority that issued them expires; absent while its Secret is lost, or it is being replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority_not_after: Option<Time>,
    /// Secret with what a client needs: `ca.crt`, `tls.crt` and `tls.key`.
    pub client_secret: String,
}

/// Authentication of etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthStatus {
    /// Clients are asked who they are.
    pub enabled: bool,
    /// Users in etcd that no EtcdUser declares; they are left alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmanaged_users: Vec<String>,
    /// Roles in etcd that no EtcdRole declares; they are left alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmanaged_roles: Vec<String>,
}

/// Who tries another template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialIntent {
    /// The member.
    pub member: String,
    /// Hash of the template.
    pub template: String,
    /// UID of its pod before.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
}

/// One word for what the cluster is doing.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Phase {
    /// On its way to its first full membership.
    Creating,
    /// All members serve.
    Running,
    /// Members are being added or removed.
    Scaling,
    /// Members are being restarted on another template.
    Upgrading,
    /// Something stands in the way; the conditions say what.
    Failed,
    /// The object is being deleted.
    Deleting,
    /// Size 0: no member runs, the data is kept.
    Stopped,
    /// Quorum is being recovered.
    Recovering,
    /// A backup is being brought that the cluster begins with, or that takes the place of its data.
    Restoring,
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Name of the member and of its pod.
    pub name: String,
    /// Member ID, hexadecimal; absent until etcd lists it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where the other members reach it.
    #[serde(rename = "peerURL", default, skip_serializing_if = "Option::is_none")]
    pub peer_url: Option<String>,
    /// Where clients reach it.
    #[serde(rename = "clientURL", default, skip_serializing_if = "Option::is_none")]
    pub client_url: Option<String>,
    /// It answers, votes and has a leader.
    #[serde(default)]
    pub ready: bool,
    /// leader, follower or learner; absent while it is none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// etcd release it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is waiting for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a member is to the others.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Votes, and leads.
    Leader,
    /// Votes.
    Follower,
    /// Does not vote yet.
    Learner,
}

/// The member that may bootstrap the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapIntent {
    /// The member.
    pub member: String,
    /// UID of its pod.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// UID of its claim.
    #[serde(rename = "claimUID")]
    pub claim_uid: String,
    /// The wait at the gate.
    pub nonce: String,
}

/// A voter, as last listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnownVoter {
    /// The member.
    pub member: String,
    /// Its ID, hexadecimal.
    #[serde(rename = "memberID")]
    pub member_id: String,
    /// An index of the log that it is known to have applied: a volume with less was rolled back. Raised now and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<i64>,
}

/// A learner, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnownLearner {
    /// Its ID, hexadecimal.
    #[serde(rename = "memberID")]
    pub member_id: String,
    /// When it was last seen to make progress; at first, when it was first listed.
    pub since: Time,
    /// Most bytes of the leader's data that it was seen to have received before it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<i64>,
    /// Fewest entries that it was seen to be behind the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<i64>,
}

/// Who may join.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinIntent {
    /// The member.
    pub member: String,
    /// UID of its pod.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The wait at the gate.
    pub nonce: String,
}

/// A recovery from lost quorum that is under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryIntent {
    /// The cluster that lost its quorum, hexadecimal.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Who goes on with its data, once that is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survivor: Option<Survivor>,
    /// Members that are not waited for: their nodes were gone, or silent where a person gave the word, when everything
    /// was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excused: Vec<String>,
}

/// Who goes on with its data.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Survivor {
    /// The member.
    pub member: String,
    /// UID of its claim.
    #[serde(rename = "claimUID")]
    pub claim_uid: String,
}

/// Who was restarted because it hung.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HangIntent {
    /// The member.
    pub member: String,
    /// Its ID, hexadecimal.
    #[serde(rename = "memberID")]
    pub member_id: String,
    /// UID of the pod that is restarted.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// When this was written.
    pub time: Time,
}

/// Who is leaving.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetireIntent {
    /// The member.
    pub member: String,
    /// Its ID, hexadecimal.
    #[serde(rename = "memberID")]
    pub member_id: String,
    /// UID of its claim, which goes once the member is gone.
    #[serde(rename = "claimUID")]
    pub claim_uid: String,
    /// What is wrong with it, where it leaves because it cannot come back and a new member takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
}
