//! The memory as it is read and written: one key, bound to the object, and what the release before wrote.

use api::EtcdClusterStatus;
use api::v1alpha1::former::{FormerMemory, ProvenTemplate};
use api::v1alpha1::memory::{DisturbanceKind, DisturbanceMemory, Memory};
use api::v1alpha1::status::{
    BootstrapIntent, HangIntent, JoinIntent, KnownLearner, KnownVoter, RecoveryIntent,
    RetireIntent, TrialIntent,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::observed::format_id;
use plan::status::{latched, of_object, with_latched};
use proptest::prelude::*;
use testkit::World;
use testkit::strategies::scene;

/// The same status as the release before wrote it.
pub(crate) fn former(status: &EtcdClusterStatus) -> EtcdClusterStatus {
    let memory = status.memory.clone().unwrap_or_default();
    let disturbance = memory.disturbance.as_ref();
    let of = |kind| disturbance.filter(move |it| it.kind == kind);
    let trial = of(DisturbanceKind::Trial).map(|it| TrialIntent {
        member: it.member.clone().unwrap_or_default(),
        template: it.template.clone().unwrap_or_default(),
        pod_uid: it.pod_uid.clone().unwrap_or_default(),
    });
    let proven = memory.proven.version.clone().map(|version| ProvenTemplate {
        template: memory.proven.template.clone(),
        version,
        everywhere: memory.proven.everywhere.unwrap_or(false),
        before: memory.proven.before.clone(),
    });
    let former = FormerMemory {
        object_uid: status.memory.as_ref().map(|it| it.object_uid.clone()),
        voters: memory.voters.clone(),
        learners: memory.admissions.learners.clone(),
        incarnation: memory.lineage.incarnation,
        bootstrap: memory.lineage.bootstrap.clone(),
        joins: memory.admissions.joins.clone(),
        retiring: memory.leaving.clone(),
        resumed: memory.lineage.resumed,
        fence: memory.lineage.fence,
        recovery: memory.lineage.recovery.clone(),
        proven,
        trial,
        log_line: memory.proven.log_minor,
        renewing_logs: of(DisturbanceKind::RenewLogs).map(|_| true),
        storage_bytes: memory.proven.storage_bytes,
        ending: memory.lineage.ending,
        compacted_revision: memory.tried.compacted_revision,
        defragmenting: of(DisturbanceKind::Defragment).and_then(|it| it.member.clone()),
        hung: memory.tried.hung.clone(),
    };
    EtcdClusterStatus {
        memory: None,
        former,
        ..status.clone()
    }
}

/// A person writes what cannot be true, in one way of several.
#[expect(
    clippy::too_many_lines,
    reason = "a table: one way to edit a memory per arm"
)]
pub(crate) fn edit(world: &mut World, way: usize) {
    let mut status = world.object.status.clone();
    let cluster_id = status.cluster_id.clone();
    let claims: Vec<(u32, String)> = world
        .claims
        .iter()
        .map(|(ordinal, claim)| (*ordinal, claim.uid.clone()))
        .collect();
    let memory = status.memory.get_or_insert_default();
    memory.object_uid.clone_from(&world.object.uid);
    let lineage = &mut memory.lineage;
    match way % 16 {
        0 => lineage.incarnation = Some(-7),
        1 => lineage.incarnation = Some(i64::MAX),
        2 => lineage.fence = Some(i64::MAX),
        3 => lineage.fence = lineage.incarnation.map(|number| number + 1),
        4 => {
            lineage.recovery = Some(RecoveryIntent {
                cluster_id: cluster_id.unwrap_or_default(),
                survivor: None,
                excused: vec!["db-0".to_owned(), "nonsense".to_owned()],
            });
        }
        5 => lineage.ending = Some(true),
        6 => lineage.cluster_id = Some("nonsense".to_owned()),
        7 => {
            lineage.bootstrap = Some(BootstrapIntent {
                member: "db-9".to_owned(),
                pod_uid: String::new(),
                claim_uid: String::new(),
                nonce: "nonsense".to_owned(),
            });
        }
        8 => {
            memory.voters = voters();
        }
        9 => {
            memory.leaving = claims
                .into_iter()
                .map(|(ordinal, claim_uid)| RetireIntent {
                    member: format!("db-{ordinal}"),
                    member_id: format_id(0xdead),
                    claim_uid,
                    replaced: Some("a person says so".to_owned()),
                })
                .collect();
        }
        10 => {
            memory.admissions.joins = vec![JoinIntent {
                member: "db-0".to_owned(),
                pod_uid: "nonsense".to_owned(),
                nonce: "nonsense".to_owned(),
            }];
            memory.admissions.learners = vec![KnownLearner {
                member_id: "beef".to_owned(),
                since: Time(Timestamp::UNIX_EPOCH),
                received_bytes: Some(-1),
                behind: Some(-1),
            }];
        }
        11 => memory.disturbance = Some(trial("db-77")),
        12 => memory.disturbance = Some(trial("nonsense")),
        13 => {
            memory.disturbance = Some(DisturbanceMemory {
                kind: DisturbanceKind::Defragment,
                ..trial("nonsense")
            });
        }
        14 => {
            "nonsense".clone_into(&mut memory.proven.template);
            memory.proven.version = Some("nonsense".to_owned());
            memory.proven.log_minor = Some(-9);
            memory.proven.storage_bytes = Some(-9);
            memory.tried.compacted_revision = Some(i64::MAX);
        }
        _hung => {
            memory.tried.hung = vec![HangIntent {
                member: "db-1".to_owned(),
                member_id: "beef".to_owned(),
                pod_uid: String::new(),
                time: Time(Timestamp::MAX),
            }];
        }
    }
    world.restore_status(status);
}

fn voters() -> Vec<KnownVoter> {
    let voter = |member: &str, id: &str, index| KnownVoter {
        member: member.to_owned(),
        member_id: id.to_owned(),
        index: Some(index),
    };
    vec![
        voter("db-77", "nonsense", -5),
        voter("other-0", "beef", i64::MAX),
        voter("db-0", "dead", i64::MAX),
    ]
}

fn trial(member: &str) -> DisturbanceMemory {
    DisturbanceMemory {
        kind: DisturbanceKind::Trial,
        member: Some(member.to_owned()),
        template: Some("nonsense".to_owned()),
        pod_uid: None,
    }
}

fn written(memory: Memory) -> EtcdClusterStatus {
    EtcdClusterStatus {
        memory: Some(memory),
        ..EtcdClusterStatus::default()
    }
}

#[test]
fn a_memory_of_another_object_is_not_believed() {
    let memory = Memory {
        object_uid: "this".to_owned(),
        ..Memory::default()
    };
    let status = written(memory);
    assert!(of_object(&status, "this").is_some());
    assert!(of_object(&status, "another").is_none());
    // Whatever the release before wrote beside it.
    let mut both = status;
    both.former.object_uid = Some("another".to_owned());
    assert!(of_object(&both, "this").is_some());
    assert!(of_object(&both, "another").is_none());
    both.memory = None;
    assert!(of_object(&both, "another").is_some());
    both.former.object_uid = None;
    assert!(of_object(&both, "this").is_some());
}

#[test]
fn the_memory_counts_and_not_what_the_release_before_wrote() {
    let mut status = written(Memory::default());
    status.cluster_id = Some("beef".to_owned());
    status.former.incarnation = Some(7);
    status.former.resumed = Some(true);
    let memory = latched(&status);
    assert_eq!(
        (memory.incarnation, memory.resumed, memory.cluster_id),
        (1, false, None)
    );
    status.memory = None;
    let memory = latched(&status);
    assert_eq!(
        (memory.incarnation, memory.resumed, memory.cluster_id),
        (7, true, Some(0xbeef))
    );
}

#[test]
fn a_recovery_counts_with_its_fence_only() {
    let recovery = RecoveryIntent {
        cluster_id: "beef".to_owned(),
        survivor: None,
        excused: Vec::new(),
    };
    for (incarnation, fence, counts) in [
        (2, Some(2), true),
        (2, None, false),
        (2, Some(1), false),
        (2, Some(3), false),
    ] {
        let mut memory = Memory::default();
        memory.lineage.incarnation = Some(incarnation);
        memory.lineage.fence = fence;
        memory.lineage.recovery = Some(recovery.clone());
        let read = latched(&written(memory));
        assert_eq!(read.recovery.is_some(), counts, "{incarnation} {fence:?}");
        assert!(read.fence.is_none_or(|fence| fence <= read.incarnation));
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is_left(scene in scene()) {
        let observed = scene.observed();
        let mut memory = observed.cluster.latched.clone();
        memory.replicas = None;
        // What no rule ever records is not believed.
        if memory.fence != Some(memory.incarnation) {
            memory.recovery = None;
        }
        let uid = &observed.cluster.uid;
        let new = with_latched(&EtcdClusterStatus::default(), uid, &memory);
        prop_assert_eq!(&latched(&new), &memory);
        prop_assert!(of_object(&new, uid).is_some());
        // After an upgrade the same is known, and written under its new name.
        let old = former(&new);
        prop_assert_eq!(&latched(&old), &memory);
        prop_assert_eq!(with_latched(&old, uid, &latched(&old)), new);
    }
}
