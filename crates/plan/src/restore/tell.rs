//! What the status of an EtcdRestore says.

use std::time::Duration;

use api::Reason;
use api::conditions::{ConditionType, Verdict, merge};
use api::v1alpha1::restore::{EtcdRestoreStatus, RestorePhase, Restored};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{CALM, FOLLOW, Next, SOON, Seen, Step, Target};

/// One verdict: the phase, and the condition.
struct Told {
    phase: RestorePhase,
    reason: Reason,
    message: String,
}

fn next(seen: &Seen, told: Told, requeue: Duration) -> Next {
    let old = seen.status.clone();
    let verdict = Verdict {
        kind: ConditionType::Ready,
        status: Some(told.phase == RestorePhase::Completed),
        reason: told.reason,
        message: told.message,
    };
    let now = Time(seen.now);
    let status = EtcdRestoreStatus {
        phase: Some(told.phase),
        conditions: merge(&old.conditions, vec![verdict], seen.generation, &now),
        observed_generation: Some(seen.generation),
        ..old
    };
    Next {
        step: Step::Nothing,
        status,
        event: None,
        requeue,
    }
}

/// It waits for another object.
pub(super) fn waits(seen: &Seen, why: String) -> Next {
    let told = Told {
        phase: RestorePhase::Running,
        reason: Reason::RestoreWaiting,
        message: why,
    };
    next(seen, told, SOON)
}

/// It cannot be carried out as things are.
pub(super) fn fails(seen: &Seen, why: String, requeue: Duration) -> Next {
    let told = Told {
        phase: RestorePhase::Failed,
        reason: Reason::RestoreInvalid,
        message: why.clone(),
    };
    let before = seen.status.phase == Some(RestorePhase::Failed);
    Next {
        event: (!before).then_some((Reason::RestoreInvalid, why)),
        ..next(seen, told, requeue)
    }
}

/// The cluster is about to be created.
pub(super) fn begins(seen: &Seen) -> Next {
    // Until an attempt is not rejected, why the last one was stands there.
    if seen.status.start_time.is_some() && seen.status.phase == Some(RestorePhase::Failed) {
        return Next {
            step: Step::Nothing,
            status: seen.status.clone(),
            event: None,
            requeue: FOLLOW,
        };
    }
    let told = Told {
        phase: RestorePhase::Running,
        reason: Reason::Restoring,
        message: format!("EtcdCluster {} is being created", seen.spec.cluster_name),
    };
    let begun = next(seen, told, FOLLOW);
    let begun_at = seen.status.start_time.clone();
    let status = EtcdRestoreStatus {
        start_time: begun_at.or(Some(Time(seen.now))),
        ..begun.status
    };
    Next { status, ..begun }
}

/// It is recorded which one was made.
pub(super) fn created(seen: &Seen, uid: &str) -> Next {
    let message = format!("EtcdCluster {} was created", seen.spec.cluster_name);
    let told = Told {
        phase: RestorePhase::Running,
        reason: Reason::Restoring,
        message: message.clone(),
    };
    let made = next(seen, told, FOLLOW);
    let status = EtcdRestoreStatus {
        cluster_uid: Some(uid.to_owned()),
        ..made.status
    };
    Next {
        status,
        event: Some((Reason::Restoring, message)),
        ..made
    }
}

/// Whatever is told of a cluster that was made: which one it is, also where the status was wiped.
pub(super) fn of(target: &Target, told: Next) -> Next {
    let created = target.created.map(Time);
    let status = EtcdRestoreStatus {
        start_time: told.status.start_time.or(created),
        cluster_uid: Some(target.uid.clone()),
        ..told.status
    };
    Next { status, ..told }
}

/// The cluster is on its way; its own words are quoted.
pub(super) fn follows(seen: &Seen, target: &Target, (reason, why): (Reason, String)) -> Next {
    let told = Told {
        phase: RestorePhase::Running,
        reason,
        message: format!("EtcdCluster {}: {why}", seen.spec.cluster_name),
    };
    of(target, next(seen, told, FOLLOW))
}

/// The cluster serves, for the first time.
pub(super) fn restored(seen: &Seen, target: &Target, restored: &Restored) -> Next {
    let status = EtcdRestoreStatus {
        completion_time: Some(Time(seen.now)),
        restored_cluster: Some(seen.spec.cluster_name.clone()),
        restored_size: Some(restored.bytes),
        backup: Some(restored.backup.clone()),
        etcd_revision: Some(restored.revision),
        ..seen.status.clone()
    };
    let message = began_with(&status);
    let told = Told {
        phase: RestorePhase::Completed,
        reason: Reason::ClusterRestored,
        message: message.clone(),
    };
    let seen = Seen {
        status,
        ..seen.clone()
    };
    Next {
        event: Some((Reason::ClusterRestored, message)),
        ..of(target, next(&seen, told, CALM))
    }
}

/// From then on the cluster tells of itself.
pub(super) fn completed(seen: &Seen, deleted: bool) -> Next {
    let message = began_with(&seen.status);
    let message = if deleted {
        format!("{message}; the EtcdCluster was deleted since, and is not made again")
    } else {
        message
    };
    let told = Told {
        phase: RestorePhase::Completed,
        reason: Reason::ClusterRestored,
        message,
    };
    next(seen, told, CALM)
}

fn began_with(status: &EtcdRestoreStatus) -> String {
    format!(
        "EtcdCluster {} began with backup {}, which holds revision {}",
        status.restored_cluster.as_deref().unwrap_or_default(),
        status.backup.as_deref().unwrap_or_default(),
        status.etcd_revision.unwrap_or_default()
    )
}

/// What was made is no longer there, and did not serve before.
pub(super) fn gone(seen: &Seen) -> Next {
    let why = format!(
        "EtcdCluster {} was deleted before it served, and is not made again: to try once more, delete what is left of its PersistentVolumeClaims, and create another EtcdRestore",
        seen.spec.cluster_name
    );
    fails(seen, why, CALM)
}

/// The volumes held data.
pub(super) fn resumed(seen: &Seen, target: &Target) -> Next {
    let why = format!(
        "EtcdCluster {} found data on PersistentVolumeClaims that an earlier EtcdCluster of its name had left, and took that over instead of the backup. To bring the backup back create an EtcdRestore with another clusterName; or, if that data is not needed, delete this EtcdRestore, the EtcdCluster and its PersistentVolumeClaims first",
        seen.spec.cluster_name
    );
    of(target, fails(seen, why, SOON))
}

/// It formed in another way.
pub(super) fn without(seen: &Seen, target: &Target) -> Next {
    let why = format!(
        "EtcdCluster {} serves, but did not begin with the backup: its volumes held data already, or spec.bootstrap was taken out of it before it formed. Create an EtcdRestore with another clusterName",
        seen.spec.cluster_name
    );
    of(target, fails(seen, why, SOON))
}
