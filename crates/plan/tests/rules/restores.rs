//! Restores in a small world of their own: an API server, a cache behind it, a cluster, and an operator that may be killed
//! between any two writes.

mod world;

use api::EtcdClusterSpec;
use api::v1alpha1::access::Access;
use api::v1alpha1::backup::{EtcdBackup, EtcdBackupSpec, S3};
use api::v1alpha1::restore::{
    BackupLocation, Bootstrap, EtcdRestoreSpec, EtcdRestoreStatus, RestoreFrom, RestorePhase,
    RestoreType,
};
use jiff::SignedDuration;
use plan::restore::Named;

use world::{Fate, UID, World, original};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

#[test]
fn a_cluster_is_made_that_begins_with_the_backup_and_its_facts_are_told() {
    let mut world = World::new();
    world.run(HOUR);
    assert_eq!(world.phase(), Some(RestorePhase::Completed));
    assert_eq!(world.ready(), ("True", "ClusterRestored"));
    assert_eq!((world.made.len(), world.creates), (1, 1));
    assert_eq!(world.events, ["Restoring", "ClusterRestored"]);
    assert_eq!(world.maker().map(String::as_str), Some(UID));
    let cluster = &world.made[0];
    assert_eq!(cluster.metadata.name.as_deref(), Some("db-2"));
    assert_eq!(cluster.metadata.namespace.as_deref(), Some("ns"));
    assert_eq!(cluster.metadata.owner_references, None, "it stays");
    let status = world.status.clone();
    assert_eq!(status.cluster_uid.as_deref(), Some("cluster-1"));
    assert_eq!(status.restored_cluster.as_deref(), Some("db-2"));
    assert_eq!(status.backup.as_deref(), Some("20261118-020000-abcd"));
    assert_eq!(
        (status.restored_size, status.etcd_revision),
        (Some(20), Some(7))
    );
    assert!(status.start_time < status.completion_time);
    // Settled: the same look says the same.
    world.turn();
    assert_eq!(world.status, status);
}

#[test]
fn wherever_the_operator_is_killed_one_cluster_is_made() {
    for kill in 1..12 {
        let mut world = World::new();
        world.kill_at = Some(kill);
        world.run(HOUR);
        assert_eq!(world.phase(), Some(RestorePhase::Completed), "kill {kill}");
        assert_eq!(world.made.len(), 1, "kill {kill}");
        let uid = world.status.cluster_uid.as_deref();
        assert_eq!(uid, Some("cluster-1"), "kill {kill}");
    }
}

#[test]
fn a_status_wiped_at_any_moment_makes_no_second_cluster() {
    for moment in 0..12 {
        let mut world = World::new();
        for turn in 0..12 {
            if turn == moment {
                world.status = EtcdRestoreStatus::default();
            }
            world.turn();
            world.work();
        }
        world.run(HOUR);
        assert_eq!(world.phase(), Some(RestorePhase::Completed), "{moment}");
        assert_eq!(world.made.len(), 1, "{moment}");
        assert!(world.status.start_time.is_some(), "{moment}");
    }
}

#[test]
fn a_cluster_that_something_else_made_is_left_alone_until_it_is_deleted() {
    for made_by in [None, Some("another-restore")] {
        let mut world = World::new();
        world.stranger(made_by);
        let before = world.cluster.clone();
        world.work();
        world.run(HOUR);
        assert_eq!(world.phase(), Some(RestorePhase::Failed));
        assert_eq!(world.ready(), ("False", "RestoreInvalid"));
        assert!(world.says().contains("exists already"), "{}", world.says());
        assert_eq!((world.creates, &world.cluster), (0, &before));
        assert_eq!(world.status.cluster_uid, None);
        assert_eq!(world.events, ["RestoreInvalid"], "told once");
        world.cluster = None;
        world.run(MINUTE);
        assert_eq!(world.phase(), Some(RestorePhase::Completed));
    }
}

#[test]
fn a_cluster_that_the_cache_has_not_heard_of_is_not_taken_for_ours() {
    let mut world = World::new();
    world.stranger(None);
    world.turn();
    assert_eq!((world.creates, world.made.len()), (1, 0));
    world.run(MINUTE);
    assert_eq!(world.phase(), Some(RestorePhase::Failed));
    assert_eq!(world.status.cluster_uid, None);
}

#[test]
fn a_cluster_that_is_deleted_is_not_made_again() {
    // Before it served, and after.
    for (turns, phase, said) in [
        (1, RestorePhase::Failed, "before it served"),
        (2, RestorePhase::Failed, "before it served"),
        (8, RestorePhase::Completed, "was deleted since"),
    ] {
        // None of that name, another one, and another one with a copy of the annotation.
        for next in [None, Some(None), Some(Some(UID))] {
            let mut world = World::new();
            for _ in 0..turns {
                world.turn();
                world.work();
            }
            world.cluster = None;
            if let Some(made_by) = next {
                world.stranger(made_by);
            }
            world.run(HOUR);
            assert_eq!(world.phase(), Some(phase), "{turns} {next:?}");
            assert_eq!(world.made.len(), 1, "{turns} {next:?}");
            assert!(world.says().contains(said), "{}", world.says());
        }
    }
}

#[test]
fn what_the_api_server_rejects_is_told_in_its_words_and_tried_again_after_a_while() {
    let mut world = World::new();
    world.rejects = Some("spec.size: 4 is even");
    world.run(HOUR);
    assert_eq!(world.phase(), Some(RestorePhase::Failed));
    assert_eq!(world.ready(), ("False", "RestoreInvalid"));
    assert!(world.says().contains("4 is even"), "{}", world.says());
    // Though its words differ each time.
    assert!((55..=61).contains(&world.creates), "{}", world.creates);
    assert_eq!(world.events, ["RestoreInvalid"]);
    assert!(world.made.is_empty());
    // Another spec is tried at once.
    let creates = world.creates;
    world.edit(|spec| spec.cluster_template = Some(EtcdClusterSpec::default()));
    world.turn();
    assert_eq!(world.creates, creates + 1);
    world.rejects = None;
    world.run(MINUTE * 2);
    assert_eq!(world.phase(), Some(RestorePhase::Completed));
}

fn location(cluster: &str) -> BackupLocation {
    BackupLocation {
        cluster_name: Some(cluster.to_owned()),
        ..BackupLocation::default()
    }
}

#[test]
fn what_cannot_be_carried_out_touches_nothing_and_says_what_to_write() {
    type Edit = fn(&mut EtcdRestoreSpec);
    let cases: [(Edit, &str); 6] = [
        (
            |spec| {
                spec.restore_type = Some(RestoreType::Replace);
                spec.cluster_template = Some(EtcdClusterSpec::default());
            },
            "spec.clusterTemplate is for restoreType New",
        ),
        (|spec| spec.backup_name = None, "write either"),
        (|spec| spec.source = Some(location("db")), "write either"),
        (
            |spec| spec.data_dir = Some("/elsewhere".to_owned()),
            "spec.dataDir",
        ),
        (
            |spec| spec.wal_dir = Some("/fast".to_owned()),
            "spec.walDir",
        ),
        (
            |spec| {
                let restore = Some(Box::default());
                spec.cluster_template = Some(EtcdClusterSpec {
                    bootstrap: Some(Bootstrap { restore }),
                    ..EtcdClusterSpec::default()
                });
            },
            "spec.clusterTemplate.bootstrap",
        ),
    ];
    for (edit, said) in cases {
        for exists in [false, true] {
            let mut world = World::new();
            world.edit(edit);
            if exists {
                world.stranger(None);
            }
            let before = world.cluster.clone();
            world.work();
            world.run(HOUR);
            assert_eq!(world.phase(), Some(RestorePhase::Failed), "{said}");
            assert_eq!(world.ready(), ("False", "RestoreInvalid"));
            assert!(world.says().contains(said), "{}", world.says());
            assert_eq!((world.creates, &world.cluster), (0, &before), "{said}");
            // Taking the remedy helps.
            world.cluster = None;
            world.work();
            world.edit(|spec| *spec = world::spec());
            world.run(MINUTE);
            assert_eq!(world.phase(), Some(RestorePhase::Completed), "{said}");
        }
    }
}

#[test]
fn directories_that_members_have_anyway_and_the_own_namespace_may_be_written() {
    let mut world = World::new();
    world.edit(|spec| {
        spec.data_dir = Some("/var/lib/etcd/data".to_owned());
        spec.wal_dir = Some("/data/member/wal".to_owned());
        spec.backup_namespace = Some("ns".to_owned());
        spec.restore_type = Some(RestoreType::New);
    });
    world.run(MINUTE);
    assert_eq!(world.phase(), Some(RestorePhase::Completed));
}

#[test]
fn a_backup_that_is_missing_is_waited_for() {
    for (backup, said) in [
        (Named::Absent, "there is no EtcdBackup nightly"),
        (Named::Unreadable, "EtcdBackup nightly cannot be read"),
    ] {
        let mut world = World::new();
        world.backup = backup;
        world.run(HOUR);
        assert_eq!(world.phase(), Some(RestorePhase::Running));
        assert_eq!(world.ready(), ("False", "RestoreWaiting"));
        assert!(world.says().contains(said), "{}", world.says());
        assert_eq!((world.creates, &world.status.start_time), (0, &None));
        world.backup = Named::There("db".to_owned());
        world.run(MINUTE);
        assert_eq!(world.phase(), Some(RestorePhase::Completed));
    }
}

#[test]
fn a_backup_of_another_namespace_is_used_once_that_lists_ours_and_credentials_are_named() {
    let mut world = World::new();
    let waits = |world: &mut World, said: &str| {
        world.run(HOUR);
        assert_eq!(world.phase(), Some(RestorePhase::Running));
        assert_eq!(world.ready(), ("False", "RestoreWaiting"));
        assert!(world.says().contains(said), "{}", world.says());
        assert_eq!((world.creates, &world.status.start_time), (0, &None));
    };
    world.edit(|spec| spec.backup_namespace = Some("shop".to_owned()));
    waits(&mut world, "that lists ns in spec.allowedNamespaces");
    let s3 = Some(S3::default());
    let spec = EtcdBackupSpec {
        s3,
        ..EtcdBackupSpec::default()
    };
    world.elsewhere = Some(EtcdBackup::new("nightly", spec));
    waits(&mut world, "that lists ns in spec.allowedNamespaces");
    let backup = world.elsewhere.as_mut().unwrap();
    backup.spec.allowed_namespaces = vec!["other".to_owned(), "ns".to_owned()];
    waits(&mut world, "write credentialsSecret");
    world.edit(|spec| spec.credentials_secret = Some("keys".to_owned()));
    let made = made(&mut world);
    // The spec of a cluster there is none of ours.
    assert_eq!((made.size, made.version), (None, None));
    let restore = made.bootstrap.unwrap().restore.unwrap();
    assert_eq!(restore.backup_namespace.as_deref(), Some("shop"));
    assert_eq!(restore.credentials_secret.as_deref(), Some("keys"));
    // What is allowed no longer changes nothing of a cluster that was made.
    world.elsewhere = None;
    world.run(HOUR);
    assert_eq!(world.phase(), Some(RestorePhase::Completed));
}

/// The spec of the cluster that is made.
fn made(world: &mut World) -> EtcdClusterSpec {
    world.run(MINUTE);
    assert_eq!(world.phase(), Some(RestorePhase::Completed));
    world.made[0].spec.clone()
}

#[test]
fn what_it_begins_with_is_written_as_it_was_asked_for() {
    let mut world = World::new();
    world.edit(|spec| {
        spec.backup_name = None;
        spec.source = Some(location("db"));
        spec.identity_secret = Some("keys".to_owned());
        spec.skip_hash_check = Some(true);
    });
    let restore = made(&mut world).bootstrap.unwrap().restore.unwrap();
    let wanted = RestoreFrom {
        source: Some(location("db")),
        backup: Some("20261118-020000-abcd".to_owned()),
        identity_secret: Some("keys".to_owned()),
        skip_hash_check: Some(true),
        ..RestoreFrom::default()
    };
    assert_eq!(*restore, wanted);
}

#[test]
fn the_template_is_used_else_a_copy_of_the_original_else_defaults() {
    let size = |world: &mut World| made(world).size;
    assert_eq!(size(&mut World::new()), Some(5), "a copy");
    let mut world = World::new();
    world.edit(|spec| {
        spec.cluster_template = Some(EtcdClusterSpec {
            size: Some(0),
            ..EtcdClusterSpec::default()
        });
    });
    assert_eq!(size(&mut world), Some(0), "as it is written");
    let mut world = World::new();
    world.original = None;
    assert_eq!(size(&mut world), None, "defaults");
    // One that cannot be read is no reason for defaults.
    let mut world = World::new();
    world.original = Some(("db".to_owned(), Named::Unreadable));
    world.run(HOUR);
    assert_eq!(world.ready(), ("False", "RestoreWaiting"));
    assert_eq!(world.creates, 0);
}

#[test]
fn a_copy_runs_and_takes_nothing_that_clients_outside_know_the_original_by() {
    let mut stopped = original(0);
    stopped.spec.access = Some(Access {
        node_port: Some(30000),
        ..Access::default()
    });
    stopped.spec.bootstrap = Some(Bootstrap::default());
    let mut world = World::new();
    world.original = Some(("db".to_owned(), Named::There(stopped)));
    let made = made(&mut world);
    assert_eq!((made.size, made.access), (None, None));
    assert_eq!(made.version.as_deref(), Some("v3.6.16"));
    assert!(made.bootstrap.unwrap().restore.is_some());
}

#[test]
fn of_a_source_the_original_is_copied_where_it_is_that_very_cluster() {
    type Edit = fn(&mut BackupLocation);
    let cases: [(Edit, Option<i32>); 5] = [
        (|_| {}, Some(5)),
        (|at| at.cluster_namespace = Some("ns".to_owned()), Some(5)),
        (|at| at.cluster_namespace = Some("other".to_owned()), None),
        (|at| at.cluster_id = Some("abc".to_owned()), Some(5)),
        (|at| at.cluster_id = Some("def".to_owned()), None),
    ];
    for (edit, size) in cases {
        let mut source = location("db");
        edit(&mut source);
        let mut world = World::new();
        world.edit(|spec| {
            spec.backup_name = None;
            spec.source = Some(source.clone());
        });
        assert_eq!(made(&mut world).size, size, "{source:?}");
    }
}

#[test]
fn on_its_way_the_words_of_the_cluster_are_quoted() {
    let mut world = World::new();
    world.fate = Fate::Blocked;
    for _ in 0..3 {
        world.turn();
        world.work();
    }
    assert_eq!(world.ready(), ("False", "Restoring"));
    assert!(world.says().contains("Job brings it"), "{}", world.says());
    world.run(HOUR);
    assert_eq!(world.phase(), Some(RestorePhase::Running));
    assert_eq!(world.ready(), ("False", "RestoreBlocked"));
    assert!(world.says().contains("no such bucket"), "{}", world.says());
    // What the spec says by now changes nothing of a cluster that was made.
    world.edit(|spec| spec.restore_type = Some(RestoreType::Replace));
    world.fate = Fate::Restores;
    world.run(MINUTE);
    assert_eq!(world.phase(), Some(RestorePhase::Completed));
}

#[test]
fn a_cluster_that_serves_without_the_backup_is_a_failure() {
    for (fate, said) in [
        (Fate::Resumes, "took that over"),
        (Fate::Without, "did not begin with the backup"),
    ] {
        let mut world = World::new();
        world.fate = fate;
        world.run(HOUR);
        assert_eq!(world.phase(), Some(RestorePhase::Failed));
        assert_eq!(world.ready(), ("False", "RestoreInvalid"));
        assert!(world.says().contains(said), "{}", world.says());
        assert_eq!(world.made.len(), 1);
        assert_eq!(world.status.cluster_uid.as_deref(), Some("cluster-1"));
    }
}

#[test]
fn a_cluster_that_serves_and_has_not_told_everything_yet_is_no_failure() {
    let mut world = World::new();
    world.run(MINUTE);
    world.status = EtcdRestoreStatus::default();
    let state = world.cluster.as_mut().unwrap().state.as_mut().unwrap();
    state.restored = None;
    state.conditions.retain(|it| it.type_ == "Available");
    world.fate = Fate::Blocked;
    world.work();
    world.turn();
    assert_eq!(world.phase(), Some(RestorePhase::Running));
    world.fate = Fate::Restores;
    world.run(MINUTE);
    assert_eq!(world.phase(), Some(RestorePhase::Completed));
}

#[test]
fn what_is_completed_stays_so() {
    let mut world = World::new();
    world.run(MINUTE);
    let before = world.status.clone();
    world.fate = Fate::Blocked;
    let state = world.cluster.as_mut().unwrap().state.as_mut().unwrap();
    state.conditions.clear();
    state.restored = None;
    world.run(HOUR);
    assert_eq!(world.status, before);
    world.edit(|spec| spec.restore_type = Some(RestoreType::Replace));
    world.run(HOUR);
    assert_eq!(world.phase(), Some(RestorePhase::Completed));
    assert_eq!(world.status.completion_time, before.completion_time);
}
