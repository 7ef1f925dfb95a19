//! What the operator remembers of a cluster: facts that are recorded before they are acted on, or that no look could
//! find out again. Each of them names the witness that restores it where it was wiped (ADR 19).

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::transport::Transport;

use super::restore::Restored;
use super::status::{
    BootstrapIntent, EtcdClusterStatus, HangIntent, JoinIntent, KnownLearner, KnownVoter,
    RecoveryIntent, RetireIntent,
};

/// What the operator remembers of this very object. Wiped, it is restored from claims, pods and etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// UID of the object that this is the memory of. One that was restored under another UID is not believed.
    #[serde(rename = "objectUID", default)]
    pub object_uid: String,
    /// Which data this is. Restored from the annotation etcd.etcd.io/lineage of the claims.
    #[serde(default)]
    pub lineage: LineageMemory,
    /// What members are disturbed for on purpose: at most one thing at a time. Without it what was begun is begun again;
    /// a pod that already runs on another template shows that by its annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<DisturbanceMemory>,
    /// What was tried before, so that it is not tried for ever.
    #[serde(default, skip_serializing_if = "Tried::is_empty")]
    pub tried: Tried,
    /// Members on their way in.
    #[serde(default, skip_serializing_if = "Admissions::is_empty")]
    pub admissions: Admissions,
    /// Members on their way out; written before they are removed. Without it etcd's member list says who is gone, and
    /// claims that no member uses are swept by the rules for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<RetireIntent>,
    /// Members that vote, as last listed; kept while no list can be had. Restored from etcd's member list, and the indexes
    /// from the members themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voters: Vec<KnownVoter>,
    /// The backup that the cluster begins with, while it is brought and afterwards. Without it, it is brought once more, unless
    /// the cluster has formed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<Box<RestoreMemory>>,
    /// A backup that is to take the place of the data, or did so last. Restored from the annotation etcd.etcd.io/lineage of the
    /// claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<Box<ReplaceMemory>>,
    /// Users and roles of etcd that are the operator's to delete once they are declared no more; written before they are
    /// made. Restored from the EtcdUsers and EtcdRoles that there are; what was deleted meanwhile is left alone.
    #[serde(default, skip_serializing_if = "MadeAccounts::is_empty")]
    pub accounts: MadeAccounts,
    /// What members are known to run on, and what their volumes and logs hold.
    #[serde(default, skip_serializing_if = "Proof::is_empty")]
    pub proven: Proof,
}

/// Which data this is, and what is being done to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineageMemory {
    /// How often the data has started over, from 1. Restored from the claims, and from the fence of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<i64>,
    /// The one permission to bootstrap, written before it is given. Restored from the claim of that member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapIntent>,
    /// ID of the etcd cluster, hexadecimal, once it has formed. Restored from the claims, or from what the members say.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// The data was taken over from an earlier object of this name. Restored from the claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<bool>,
    /// Data of an incarnation before this one is held back at the gate. Restored from the claims and from the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<i64>,
    /// A recovery from lost quorum that is under way; written before anything is stopped for it. Restored from the claims;
    /// where they say nothing, from the fenced volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryIntent>,
    /// The data is being deleted because the cluster was stopped under `whenStopped: Delete`. Without it the policy in the
    /// spec says so again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<bool>,
    /// Which planes speak TLS; absent for plaintext. Restored from the claims, and from the annotations of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// How often another transport was proven: a memory that says less than the claims is an older one. Restored from the
    /// claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<i64>,
}

/// A backup that is brought to the volume of the first member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreMemory {
    /// Hash of what was asked for. Something else that is asked for begins again.
    pub wish: String,
    /// The member that begins with it; recorded before any pod is stopped for it.
    pub member: String,
    /// UID of its claim.
    #[serde(rename = "claimUID")]
    pub claim_uid: String,
    /// How many attempts failed.
    #[serde(default)]
    pub attempt: i32,
    /// When the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Time>,
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What lies on the volume, once it was brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<FetchedMemory>,
}

/// A backup that lies on the volume of the first member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FetchedMemory {
    /// What it is.
    #[serde(flatten)]
    pub restored: Restored,
    /// The hash at the end of the file, hexadecimal: nothing else is taken for it.
    pub trailer: String,
    /// Release of etcd that it is from.
    pub etcd_version: String,
    /// Authentication was on in it; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<bool>,
    /// The hash at the end of the backup that the file was made from, where it is as of an earlier revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_trailer: Option<String>,
}

/// A backup that takes the place of the data of a cluster that has formed, because an EtcdRestore asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceMemory {
    /// UID of the EtcdRestore; `lost-` and the ID of the etcd cluster where `spec.recovery.onEverythingLost` asks for it.
    pub by: String,
    /// Its name, for people.
    #[serde(default)]
    pub name: String,
    /// How far it is.
    pub stage: ReplaceStage,
    /// Rises with every record: of two records the later one is known.
    #[serde(default)]
    pub record: i64,
    /// What is brought to which volume; absent before it was found, and once nothing is brought any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<RestoreMemory>,
    /// What was read and found whole before anything was touched: that is brought, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<FetchedMemory>,
    /// The hash that etcd itself puts at the end of a snapshot is not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_hash_check: Option<bool>,
    /// Why it goes on no further for now; or why it ended and the data is what it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// UIDs of EtcdRestores that ended: none of them is carried out once more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
    /// Where the loss of everything is why the backup is brought: UIDs of claims that were seen to hold no data before the members
    /// were stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_data: Vec<String>,
    /// The same for claims whose volume or node was gone. That is read again before anything begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
}

/// How a record begins that no EtcdRestore asked for.
const LOST: &str = "lost-";

impl ReplaceMemory {
    /// What stands for an EtcdRestore where this etcd cluster has lost everything.
    pub fn by_loss_of(cluster_id: u64) -> String {
        format!("{LOST}{cluster_id:x}")
    }

    /// No EtcdRestore asked for it: the spec of the cluster did.
    pub fn is_by_loss(&self) -> bool {
        self.by.starts_with(LOST)
    }

    /// What asked for it, for people.
    pub fn who(&self) -> String {
        if self.is_by_loss() {
            "spec.recovery.onEverythingLost".to_owned()
        } else {
            format!("EtcdRestore {}", self.name)
        }
    }
}

/// How far a backup is on its way to take the place of the data.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum ReplaceStage {
    /// It is read once, while the cluster serves.
    #[default]
    Checking,
    /// No pod runs, and it is brought to a volume.
    Fetching,
    /// A member bootstraps another cluster with it; the data of the one before is held back.
    Bootstrapping,
    /// The data was replaced, or is what it was.
    Ended,
}

/// What members are disturbed for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum DisturbanceKind {
    /// A member is restarted on another template, or is the first to try it.
    Trial,
    /// A member is defragmented.
    Defragment,
    /// Members are made to take a snapshot before they go to 3.7.
    RenewLogs,
}

/// The one thing that members are disturbed for; written before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisturbanceMemory {
    /// What is done.
    pub kind: DisturbanceKind,
    /// The member that it is done to; absent where it is done to all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Hash of the template that a trial is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// UID that the pod of a trial had before it.
    #[serde(rename = "podUID", default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
}

/// What was tried before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// Members that were restarted because they hung; written before they are. One that hangs again is replaced. Without it
    /// one more restart comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hung: Vec<HangIntent>,
    /// Hash of the pod template that is not tried again, because no pod could be created from it. Without it, it is tried
    /// once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_off: Option<String>,
    /// Revision up to which the operator last compacted the history, to make room. Without it the same is compacted once
    /// more, which etcd takes as done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted_revision: Option<i64>,
}

/// Members on their way in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Admissions {
    /// Waits at the gate for which a member is, or may be, added; written before it is. Without it a member that was added
    /// is removed and added again, before it holds anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joins: Vec<JoinIntent>,
    /// Members that are listed without a vote, and how far each has come. Restored from etcd's member list; their patience
    /// begins again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learners: Vec<KnownLearner>,
}

/// Users and roles that the operator made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MadeAccounts {
    /// Users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The user root has a password of the operator's: once no Secret is named for it, it is replaced by one that is not
    /// kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_password: Option<bool>,
}

/// What is known to be so, because it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// Hash of the pod template that members are known to run on; empty for what an earlier operator left. A pod that is
    /// recreated for any reason is made from it. Restored from the annotations of the pods that serve.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// The etcd release in that template; absent while nothing is proven. Restored from what the members say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Every member runs on it. Restored from the annotations of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub everywhere: Option<bool>,
    /// The release that was proven before it, while some members still run on that. Without it those members are found by
    /// the annotations of their pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The transport that was proven before the one in the lineage, while some members still run on that. Restored from the
    /// annotations of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport_before: Option<Transport>,
    /// Oldest minor version of etcd (5 for 3.5) whose entries may still be in the members' logs: 3.7 cannot read those of
    /// 3.5. Without it the logs are renewed once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_minor: Option<i32>,
    /// Size that every volume has reached, in bytes; etcd's quota follows from it. Restored from the claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes: Option<i64>,
}

impl Tried {
    /// Nothing was.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl MadeAccounts {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Admissions {
    /// No member is.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Proof {
    /// Nothing is.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl EtcdClusterStatus {
    /// What is remembered here; where nothing is written under `memory`, what the release before wrote. A report of this
    /// operator that has neither lost its memory, and the cluster ID in it alone is no memory either: it does not say where
    /// the data came from. What another operator reported is taken at its word.
    pub fn remembered(&self) -> Cow<'_, Memory> {
        if let Some(memory) = &self.memory {
            return Cow::Borrowed(memory);
        }
        let lost = self.observed_generation.is_some() && self.former.incarnation.is_none();
        let cluster_id = self.cluster_id.as_deref().filter(|_| !lost);
        Cow::Owned(self.former.to_memory(cluster_id))
    }
}
