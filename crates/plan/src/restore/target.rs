//! What the EtcdCluster says that an EtcdRestore made, or that has the name of the one to be made.

use api::conditions::ConditionType;
use api::v1alpha1::memory::ReplaceMemory;
use api::v1alpha1::restore::Restored;
use api::{EtcdCluster, Reason, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

/// An EtcdCluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// Its UID.
    pub uid: String,
    /// UID of the EtcdRestore that made it, by its annotation.
    pub made_by: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// What it says of itself; `None` where this release cannot read it.
    pub state: Option<State>,
}

/// What an EtcdCluster says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// The backup that it began with.
    pub restored: Option<Restored>,
    /// It took over data that an earlier EtcdCluster of its name had left.
    pub resumed: bool,
    /// ID of the etcd cluster, hexadecimal, once it has formed.
    pub cluster_id: Option<String>,
    /// A backup that is to take the place of its data, or did so last.
    pub replace: Option<ReplaceMemory>,
}

impl Target {
    /// What is written in this object, as far as it can be read.
    pub fn of(metadata: &ObjectMeta, cluster: Option<&EtcdCluster>) -> Self {
        let uid = metadata.uid.clone().unwrap_or_default();
        let annotations = metadata.annotations.as_ref();
        let made_by = annotations.and_then(|all| all.get(labels::RESTORE_ANNOTATION));
        Self {
            made_by: made_by.cloned(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            state: cluster.map(|cluster| State::of(cluster, &uid)),
            uid,
        }
    }
}

impl State {
    fn of(cluster: &EtcdCluster, uid: &str) -> Self {
        let status = cluster.status.clone().unwrap_or_default();
        let memory = status.memory.filter(|memory| memory.object_uid == uid);
        let lineage = memory.as_ref().map(|memory| &memory.lineage);
        Self {
            cluster_id: lineage.and_then(|lineage| lineage.cluster_id.clone()),
            resumed: lineage.is_some_and(|lineage| lineage.resumed == Some(true)),
            replace: memory.and_then(|memory| memory.replace).map(|it| *it),
            conditions: status.conditions,
            restored: status.restored,
        }
    }

    /// This condition is true.
    pub(super) fn is(&self, kind: ConditionType) -> bool {
        self.find(kind).is_some_and(|it| it.status == "True")
    }

    fn find(&self, kind: ConditionType) -> Option<&Condition> {
        let kind = kind.to_string();
        self.conditions.iter().find(|it| it.type_ == kind)
    }

    /// What is wrong with it; else what is done to it; else why it does not serve.
    pub(super) fn says(&self) -> (Reason, String) {
        let when = |kind, status: &str| self.find(kind).filter(|it| it.status == status);
        let told = when(ConditionType::Degraded, "True")
            .or_else(|| when(ConditionType::Progressing, "True"))
            .or_else(|| self.find(ConditionType::Available));
        match told {
            Some(told) => (reason(&told.reason), told.message.clone()),
            None => (
                Reason::Restoring,
                "the operator has not looked at it yet".to_owned(),
            ),
        }
    }
}

/// The reason of that name. A status that another release wrote may have one that this one does not know.
fn reason(name: &str) -> Reason {
    let known = Reason::ALL.iter().map(|(reason, _)| *reason);
    let mut same = known.filter(|reason| reason.to_string() == name);
    same.next().unwrap_or(Reason::RestoreWaiting)
}
