//! What the release before wrote beside the report. It is read where nothing is written under `memory`, which happens once after
//! an upgrade of the operator, and never written. It goes with the release after this one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::memory::{
    Admissions, DisturbanceKind, DisturbanceMemory, LineageMemory, Memory, Proof, Tried,
};
use super::status::{
    BootstrapIntent, HangIntent, JoinIntent, KnownLearner, KnownVoter, RecoveryIntent,
    RetireIntent, TrialIntent,
};

/// The memory, as the release before wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FormerMemory {
    /// Deprecated: read after an upgrade and never written; see memory.objectUID.
    #[serde(rename = "objectUID", default, skip_serializing_if = "Option::is_none")]
    pub object_uid: Option<String>,
    /// Deprecated: read after an upgrade and never written; see memory.voters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voters: Vec<KnownVoter>,
    /// Deprecated: read after an upgrade and never written; see memory.admissions.learners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learners: Vec<KnownLearner>,
    /// Deprecated: read after an upgrade and never written; see memory.lineage.incarnation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<i64>,
    /// Deprecated: read after an upgrade and never written; see memory.lineage.bootstrap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapIntent>,
    /// Deprecated: read after an upgrade and never written; see memory.admissions.joins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joins: Vec<JoinIntent>,
    /// Deprecated: read after an upgrade and never written; see memory.leaving.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retiring: Vec<RetireIntent>,
    /// Deprecated: read after an upgrade and never written; see memory.lineage.resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<bool>,
    /// Deprecated: read after an upgrade and never written; see memory.lineage.fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<i64>,
    /// Deprecated: read after an upgrade and never written; see memory.lineage.recovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryIntent>,
    /// Deprecated: read after an upgrade and never written; see memory.proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<ProvenTemplate>,
    /// Deprecated: read after an upgrade and never written; see memory.disturbance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialIntent>,
    /// Deprecated: read after an upgrade and never written; see memory.proven.logMinor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_line: Option<i32>,
    /// Deprecated: read after an upgrade and never written; see memory.disturbance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewing_logs: Option<bool>,
    /// Deprecated: read after an upgrade and never written; see memory.proven.storageBytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes: Option<i64>,
    /// Deprecated: read after an upgrade and never written; see memory.lineage.ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<bool>,
    /// Deprecated: read after an upgrade and never written; see memory.tried.compactedRevision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted_revision: Option<i64>,
    /// Deprecated: read after an upgrade and never written; see memory.disturbance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defragmenting: Option<String>,
    /// Deprecated: read after an upgrade and never written; see memory.tried.hung.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hung: Vec<HangIntent>,
}

/// A pod template that members are known to run on.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct ProvenTemplate {
    /// Its hash; empty for what an earlier operator left.
    #[serde(default)]
    pub template: String,
    /// The etcd release in it.
    pub version: String,
    /// Every member runs on it.
    #[serde(default)]
    pub everywhere: bool,
    /// The release that was proven before it, while some members still run on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl FormerMemory {
    /// The same under the names of today, with the cluster ID that stands in the report. Of several disturbances the trial
    /// counts: a pod may be on its way to another template.
    pub(super) fn to_memory(&self, cluster_id: Option<&str>) -> Memory {
        let proven = self.proven.as_ref();
        Memory {
            restore: None,
            replace: None,
            accounts: super::memory::MadeAccounts::default(),
            object_uid: self.object_uid.clone().unwrap_or_default(),
            lineage: LineageMemory {
                incarnation: self.incarnation,
                bootstrap: self.bootstrap.clone(),
                cluster_id: cluster_id.map(str::to_owned),
                resumed: self.resumed,
                fence: self.fence,
                recovery: self.recovery.clone(),
                ending: self.ending,
                transport: None,
                switches: None,
            },
            disturbance: self.disturbance(),
            tried: Tried {
                hung: self.hung.clone(),
                called_off: None,
                compacted_revision: self.compacted_revision,
            },
            admissions: Admissions {
                joins: self.joins.clone(),
                learners: self.learners.clone(),
            },
            leaving: self.retiring.clone(),
            voters: self.voters.clone(),
            proven: Proof {
                template: proven.map(|it| it.template.clone()).unwrap_or_default(),
                version: proven.map(|it| it.version.clone()),
                everywhere: proven.map(|it| it.everywhere),
                before: proven.and_then(|it| it.before.clone()),
                transport_before: None,
                log_minor: self.log_line,
                storage_bytes: self.storage_bytes,
            },
        }
    }

    fn disturbance(&self) -> Option<DisturbanceMemory> {
        let trial = self.trial.as_ref().map(|trial| DisturbanceMemory {
            kind: DisturbanceKind::Trial,
            member: Some(trial.member.clone()),
            template: Some(trial.template.clone()),
            pod_uid: Some(trial.pod_uid.clone()),
        });
        let all = |kind, member: Option<&String>| DisturbanceMemory {
            kind,
            member: member.cloned(),
            template: None,
            pod_uid: None,
        };
        let defragmenting = self.defragmenting.as_ref();
        let renews = self.renewing_logs.unwrap_or(false);
        trial
            .or_else(|| defragmenting.map(|name| all(DisturbanceKind::Defragment, Some(name))))
            .or_else(|| renews.then(|| all(DisturbanceKind::RenewLogs, None)))
    }
}
