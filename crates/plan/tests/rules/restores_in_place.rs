//! What an EtcdRestore with `restoreType: Replace` tells, and that it makes nothing.

use api::EtcdClusterSpec;
use api::v1alpha1::memory::{ReplaceMemory, ReplaceStage, RestoreMemory};
use api::v1alpha1::restore::{
    EtcdRestoreSpec, EtcdRestoreStatus, RestorePhase, RestoreType, Restored,
};
use api::{Reason, conditions::ConditionType};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use plan::restore::{Named, Next, Seen, State, Step, Target, decide};

const UID: &str = "restore-uid";

fn available(status: &str) -> Condition {
    Condition {
        type_: ConditionType::Available.to_string(),
        status: status.to_owned(),
        reason: Reason::QuorumHealthy.to_string(),
        message: "3 of 3".to_owned(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    }
}

/// An EtcdRestore that names a cluster that serves.
fn seen() -> Seen {
    Seen {
        now: "2026-11-18T12:00:00Z".parse().unwrap(),
        namespace: "ns".to_owned(),
        name: "back".to_owned(),
        uid: UID.to_owned(),
        generation: 1,
        spec: EtcdRestoreSpec {
            backup_name: Some("nightly".to_owned()),
            cluster_name: "db".to_owned(),
            restore_type: Some(RestoreType::Replace),
            replaces: Some("c0ffee".to_owned()),
            ..EtcdRestoreSpec::default()
        },
        status: EtcdRestoreStatus::default(),
        target: Some(Target {
            uid: "cluster-1".to_owned(),
            state: Some(State {
                conditions: vec![available("True")],
                cluster_id: Some("c0ffee".to_owned()),
                ..State::default()
            }),
            ..Target::default()
        }),
        withheld: None,
        backup: Named::There("db".to_owned()),
        original: Named::Absent,
        rejected: None,
    }
}

fn with(by: &str, stage: ReplaceStage, failure: Option<&str>) -> Seen {
    let mut seen = seen();
    let cluster = seen.target.as_mut().unwrap().state.as_mut().unwrap();
    cluster.replace = Some(ReplaceMemory {
        by: by.to_owned(),
        name: "first".to_owned(),
        stage,
        seed: Some(RestoreMemory {
            member: "db-0".to_owned(),
            ..RestoreMemory::default()
        }),
        failure: failure.map(str::to_owned),
        ..ReplaceMemory::default()
    });
    seen
}

/// Phase, reason and message. Nothing is ever made.
fn told(seen: &Seen) -> (RestorePhase, String, String) {
    let Next { step, status, .. } = decide(seen);
    assert_eq!(step, Step::Nothing);
    let ready = status.conditions.first().unwrap();
    let completes = status.phase == Some(RestorePhase::Completed);
    assert_eq!(ready.status == "True", completes);
    let (reason, message) = (ready.reason.clone(), ready.message.clone());
    (status.phase.unwrap(), reason, message)
}

fn says(seen: &Seen, phase: RestorePhase, reason: Reason, words: &[&str]) {
    let (is, why, message) = told(seen);
    assert_eq!((is, why), (phase, reason.to_string()), "{message}");
    for words in words {
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn without_the_id_the_condition_has_it_and_the_command() {
    let mut seen = seen();
    seen.spec.replaces = None;
    let command = "kubectl patch etcdrestore back --namespace ns --type merge --patch '{\"spec\":{\"replaces\":\"c0ffee\"}}'";
    says(
        &seen,
        RestorePhase::Running,
        Reason::RestoreWaiting,
        &[command],
    );
    seen.spec.replaces = Some("dead".to_owned());
    let words = ["names etcd cluster dead", "replaces: c0ffee"];
    says(&seen, RestorePhase::Running, Reason::RestoreWaiting, &words);
}

#[test]
fn what_is_not_there_is_waited_for() {
    let mut seen = seen();
    let cluster = seen.target.as_mut().unwrap().state.as_mut().unwrap();
    cluster.cluster_id = None;
    says(
        &seen,
        RestorePhase::Running,
        Reason::RestoreWaiting,
        &["has not formed"],
    );
    seen.target.as_mut().unwrap().state = None;
    says(
        &seen,
        RestorePhase::Running,
        Reason::RestoreWaiting,
        &["cannot be read"],
    );
    seen.target = None;
    says(
        &seen,
        RestorePhase::Running,
        Reason::RestoreWaiting,
        &["there is no EtcdCluster db"],
    );
}

#[test]
fn a_template_is_refused_where_it_was_stored_before_admission_did() {
    let mut seen = seen();
    seen.spec.cluster_template = Some(EtcdClusterSpec::default());
    says(
        &seen,
        RestorePhase::Failed,
        Reason::RestoreInvalid,
        &["spec.clusterTemplate"],
    );
}

#[test]
fn a_second_one_says_what_it_waits_for() {
    let seen = with("another", ReplaceStage::Fetching, None);
    says(
        &seen,
        RestorePhase::Running,
        Reason::RestoreWaiting,
        &["EtcdRestore first is replacing"],
    );
    let seen = with("another", ReplaceStage::Ended, None);
    says(
        &seen,
        RestorePhase::Running,
        Reason::RestoreWaiting,
        &["the turn of EtcdCluster db"],
    );
}

#[test]
fn every_stage_says_how_far_it_is_and_what_comes_next() {
    let running = RestorePhase::Running;
    let seen = with(UID, ReplaceStage::Checking, None);
    says(&seen, running, Reason::Restoring, &["step 1 of 4", "next"]);
    let seen = with(UID, ReplaceStage::Checking, Some("no such bucket"));
    says(
        &seen,
        running,
        Reason::RestoreBlocked,
        &["serves on", "no such bucket"],
    );
    let seen = with(UID, ReplaceStage::Fetching, None);
    says(
        &seen,
        running,
        Reason::Restoring,
        &["step 2 of 4", "db-0", "delete this EtcdRestore"],
    );
    let seen = with(UID, ReplaceStage::Bootstrapping, None);
    says(
        &seen,
        running,
        Reason::Restoring,
        &["step 3 of 4", "cannot be called off"],
    );
    let mut seen = with(UID, ReplaceStage::Ended, None);
    says(&seen, running, Reason::Restoring, &["step 4 of 4"]);
    let cluster = seen.target.as_mut().unwrap().state.as_mut().unwrap();
    cluster.restored = Some(Restored {
        backup: "20261118-020000-abcd".to_owned(),
        revision: 7,
        time: Time(Timestamp::UNIX_EPOCH),
        bytes: 20,
        url: "s3://b/x".to_owned(),
        leases: None,
    });
    cluster.cluster_id = Some("beef".to_owned());
    says(
        &seen,
        RestorePhase::Completed,
        Reason::ClusterRestored,
        &["20261118-020000-abcd"],
    );
    let status = decide(&seen).status;
    assert_eq!(status.etcd_revision, Some(7));
    assert_eq!(status.cluster_uid.as_deref(), Some("cluster-1"));
}

#[test]
fn what_ended_without_success_says_so_and_is_not_begun_again() {
    let seen = with(UID, ReplaceStage::Ended, Some("no such bucket"));
    says(
        &seen,
        RestorePhase::Failed,
        Reason::RestoreInvalid,
        &["no such bucket", "create another one"],
    );
    let mut seen = with("another", ReplaceStage::Fetching, None);
    let cluster = seen.target.as_mut().unwrap().state.as_mut().unwrap();
    cluster.replace.as_mut().unwrap().ended.push(UID.to_owned());
    says(
        &seen,
        RestorePhase::Failed,
        Reason::RestoreInvalid,
        &["create another one"],
    );
}
