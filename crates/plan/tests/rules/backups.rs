//! Backups in a small world of their own: a store, a Job, and an operator that may be killed between any two writes.

mod verify;
mod world;

use api::v1alpha1::backup::{BackupPhase, BackupRun, EtcdBackupStatus, RetentionPolicy};
use archive::work::Task;
use jiff::SignedDuration;
use plan::backup::{Cluster, JobState, Step, decide};

use world::{Fate, World, at, cluster, created};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

#[test]
fn without_a_schedule_there_is_one_backup_and_its_facts_are_told() {
    let mut world = World::new(None);
    world.run(HOUR * 30);
    assert_eq!(world.phase(), Some(BackupPhase::Completed));
    assert_eq!((world.jobs, world.store.len()), (1, 1));
    assert_eq!(world.events, ["BackupCreated"]);
    assert_eq!(world.ready(), ("True", "BackupCreated"));
    let status = &world.status;
    assert_eq!(status.etcd_revision, Some(7));
    assert_eq!(status.backup_size, Some(10));
    assert!(status.storage_path.as_ref().unwrap().starts_with("s3://b/"));
    assert!(status.start_time.is_some() && status.completion_time.is_some());
    assert_eq!(status.backups.len(), 1);
    // Settled: the same look says the same.
    let before = world.status.clone();
    world.turn();
    assert_eq!(world.status, before);
}

#[test]
fn a_schedule_brings_one_each_time_and_none_before() {
    let mut world = World::new(Some("0 2 * * *"));
    world.run(HOUR * 13);
    assert_eq!(
        (world.jobs, world.phase()),
        (0, Some(BackupPhase::Scheduled))
    );
    assert_eq!(world.ready(), ("True", "BackupScheduled"));
    world.run(HOUR * 24 * 3);
    assert_eq!((world.jobs, world.store.len()), (3, 3));
    let next = world.status.next_backup_time.clone().unwrap().0;
    assert_eq!(next, at("2026-11-22T02:00:00Z"));
}

#[test]
fn after_an_absence_only_the_newest_time_is_made_up_for() {
    let mut world = World::new(Some("0 * * * *"));
    world.run(HOUR + HOUR / 2);
    assert_eq!(world.store.len(), 1);
    world.now += HOUR * 100;
    world.run(HOUR / 4);
    assert_eq!(world.store.len(), 2);
}

#[test]
fn another_value_of_the_annotation_asks_for_one_more() {
    let mut world = World::new(Some("0 2 * * *"));
    for (value, backups) in [("a", 1), ("a", 1), ("b", 2)] {
        world.asked = Some(value.to_owned());
        world.run(HOUR);
        assert_eq!(world.store.len(), backups, "{value}");
    }
}

#[test]
fn wherever_the_operator_is_killed_there_is_one_backup() {
    for kill in 1..12 {
        let mut world = World::new(None);
        world.kill_at = Some(kill);
        world.run(HOUR);
        assert_eq!(world.phase(), Some(BackupPhase::Completed), "kill {kill}");
        assert_eq!(world.store.len(), 1, "kill {kill}");
        assert!(world.job.is_none(), "kill {kill}");
    }
}

#[test]
fn a_status_wiped_at_any_moment_makes_no_second_backup() {
    for moment in 0..12 {
        for schedule in [None, Some("0 13 * * *")] {
            let mut world = World::new(schedule);
            world.now += HOUR;
            for turn in 0..12 {
                if turn == moment {
                    world.status = EtcdBackupStatus::default();
                }
                world.turn();
                world.work();
            }
            world.run(HOUR);
            assert_eq!(world.store.len(), 1, "{schedule:?}, turn {moment}");
        }
    }
}

#[test]
fn a_status_of_another_object_is_not_believed() {
    let mut first = World::new(None);
    first.run(HOUR);
    let mut status = first.status.clone();
    status.memory.as_mut().unwrap().object_uid = "another".to_owned();
    let mut world = World::new(None);
    world.status = status;
    world.run(HOUR);
    assert_eq!(world.store.len(), 1);
}

#[test]
fn an_answer_that_was_lost_is_read_again_from_the_store() {
    let mut world = World::new(None);
    world.fate = Fate::Loses;
    for _ in 0..20 {
        world.turn();
        world.work();
    }
    assert_eq!(world.phase(), Some(BackupPhase::Failed));
    world.fate = Fate::Done;
    world.run(HOUR);
    assert_eq!(world.phase(), Some(BackupPhase::Completed));
    assert_eq!(world.store.len(), 1, "the same ID");
}

#[test]
fn a_failure_is_told_in_the_words_of_the_store_and_tried_less_and_less_often() {
    let mut world = World::new(None);
    world.fate = Fate::Fails;
    world.run(HOUR);
    assert_eq!(world.ready(), ("False", "BackupFailed"));
    assert!(
        world.status.conditions[0]
            .message
            .contains("no such bucket")
    );
    // 10 s doubled up to ten minutes: six of them in ten minutes, and six more in the rest of the hour.
    assert!((8..=13).contains(&world.jobs), "{} Jobs", world.jobs);
    assert_eq!(
        world.status.failures,
        Some(i32::try_from(world.jobs).unwrap())
    );
    world.fate = Fate::Done;
    world.run(HOUR);
    assert_eq!(
        (world.phase(), world.status.failures),
        (Some(BackupPhase::Completed), None)
    );
}

#[test]
fn what_failed_all_day_makes_way_for_the_next_time() {
    let mut world = World::new(Some("0 2 * * *"));
    world.fate = Fate::Fails;
    world.run(HOUR * 40);
    world.fate = Fate::Done;
    world.run(HOUR);
    let ids: Vec<&String> = world.store.keys().collect();
    assert_eq!(ids.len(), 1);
    assert!(ids[0].starts_with("20261120-020000-"), "{ids:?}");
}

#[test]
fn a_schedule_that_is_taken_away_leaves_one_backup_to_be_made() {
    let mut world = World::new(Some("0 13 * * *"));
    world.fate = Fate::Fails;
    world.run(HOUR * 2);
    world.spec.schedule = None;
    for _ in 0..20 {
        world.turn();
        world.work();
        assert_ne!(world.ready().0, "True", "no backup is there");
    }
    world.fate = Fate::Done;
    world.run(HOUR);
    assert_eq!(world.phase(), Some(BackupPhase::Completed));
    assert_eq!(world.store.len(), 1);
}

#[test]
fn what_was_asked_for_and_fails_keeps_neither_the_schedule_nor_another_wish_waiting() {
    let mut world = World::new(Some("0 13 * * *"));
    world.asked = Some("first".to_owned());
    world.fate = Fate::Fails;
    world.run(HOUR / 2);
    let run = |world: &World| {
        let memory = world.status.memory.clone().unwrap();
        memory.run.map(|run| run.why)
    };
    assert_eq!(run(&world).unwrap().asked.as_deref(), Some("first"));
    world.asked = Some("second".to_owned());
    world.run(HOUR / 4);
    assert_eq!(run(&world).unwrap().asked.as_deref(), Some("second"));
    world.run(HOUR);
    assert!(run(&world).unwrap().scheduled.is_some());
    world.fate = Fate::Done;
    world.run(HOUR);
    assert_eq!(
        world.store.len(),
        2,
        "of the schedule, and the one that was asked for"
    );
}

#[test]
fn a_clock_that_was_ahead_stops_no_backup() {
    for fate in [Fate::Done, Fate::Fails] {
        let mut world = World::new(Some("0 * * * *"));
        world.fate = fate;
        world.now += HOUR * 9000;
        world.run(HOUR * 2);
        let made = world.store.len();
        world.fate = Fate::Done;
        world.now = created() + HOUR * 3;
        world.run(HOUR * 3);
        assert!(world.store.len() >= made + 3, "{}", world.store.len());
    }
}

#[test]
fn a_pod_that_never_starts_is_given_up_and_told() {
    let mut world = World::new(None);
    world.turn();
    world.turn();
    let (job, _) = world.job.as_mut().unwrap();
    job.state = JobState::Stuck("secret \"keys\" not found".to_owned());
    world.turn();
    assert_eq!(world.ready(), ("False", "BackupFailed"));
    let told = &world.status.conditions[0].message;
    assert!(told.contains("secret \"keys\" not found"), "{told}");
    world.run(HOUR);
    assert_eq!(
        (world.phase(), world.jobs),
        (Some(BackupPhase::Completed), 2)
    );
}

#[test]
fn a_wish_that_was_granted_before_brings_no_older_facts() {
    let mut world = World::new(Some("0 2 * * *"));
    world.asked = Some("a".to_owned());
    world.run(HOUR);
    let status = world.status.clone();
    // The store has an older one of the next ID.
    world.asked = Some("b".to_owned());
    for _ in 0..10 {
        world.turn();
        if let Some((_, request)) = &world.job {
            assert!(matches!(&request.task, Task::Snapshot(it) if it.id != "a"));
        }
        let now = world.now;
        world.now = created();
        world.work();
        world.now = now;
    }
    assert_eq!(world.status.completion_time, status.completion_time);
    assert_eq!(world.status.storage_path, status.storage_path);
}

#[test]
fn what_a_backup_waits_for_is_said() {
    type Edit = fn(&mut World);
    let cases: [(Edit, &str); 8] = [
        (|w| w.cluster = None, "no EtcdCluster db"),
        (|w| w.cluster.as_mut().unwrap().stopped = true, "is stopped"),
        (
            |w| w.cluster.as_mut().unwrap().available = false,
            "no quorum",
        ),
        (|w| w.cluster.as_mut().unwrap().voters.clear(), "no member"),
        (|w| w.cluster.as_mut().unwrap().differs = true, "differs"),
        (
            |w| {
                let cluster = w.cluster.as_mut().unwrap();
                (cluster.tls, cluster.auth) = (true, true);
            },
            "spec.etcdUser",
        ),
        (|w| w.spec.suspend = Some(true), "spec.suspend"),
        (
            |w| {
                w.spec.retention_policy = Some(RetentionPolicy {
                    max_age: Some("soon".to_owned()),
                    ..RetentionPolicy::default()
                });
            },
            "spec.retentionPolicy.maxAge",
        ),
    ];
    for (edit, said) in cases {
        let mut world = World::new(None);
        edit(&mut world);
        world.run(HOUR);
        assert_eq!(world.jobs, 0, "{said}");
        let message = &world.status.conditions[0].message;
        assert!(message.contains(said), "{message}");
        assert_eq!(world.ready().0, "False");
        // Taking the remedy helps.
        let healthy = World::new(None);
        (world.cluster, world.spec) = (healthy.cluster, healthy.spec);
        world.run(HOUR);
        assert_eq!(world.phase(), Some(BackupPhase::Completed), "{said}");
    }
}

#[test]
fn a_follower_is_read_and_none_that_is_defragmented() {
    let begun = |cluster: Cluster, attempt: i32| {
        let mut world = World::new(None);
        world.cluster = Some(cluster);
        world.turn();
        let run: &mut BackupRun = world.status.memory.as_mut().unwrap().run.as_mut()?;
        run.attempt = attempt;
        match decide(&world.seen()).step {
            Step::Begin(begin) => Some(begin.member),
            Step::Nothing | Step::Verify(_) | Step::Forget { .. } => None,
        }
    };
    assert_eq!(begun(cluster(), 0).as_deref(), Some("db-1"));
    assert_eq!(begun(cluster(), 1).as_deref(), Some("db-2"));
    assert_eq!(begun(cluster(), 2).as_deref(), Some("db-1"));
    let busy = Cluster {
        defragmented: Some("db-1".to_owned()),
        ..cluster()
    };
    assert_eq!(begun(busy, 0).as_deref(), Some("db-2"));
    let mut alone = cluster();
    alone.voters.truncate(1);
    assert_eq!(begun(alone.clone(), 0).as_deref(), Some("db-0"));
    alone.defragmented = Some("db-0".to_owned());
    assert_eq!(begun(alone, 0), None);
}

#[test]
fn the_keeper_is_told_what_restores_need() {
    let mut world = World::new(None);
    world.spec.retention_policy = Some(RetentionPolicy {
        max_backups: Some(1),
        ..RetentionPolicy::default()
    });
    world.spared = vec!["a".to_owned()];
    for _ in 0..5 {
        world.turn();
        if let Some((_, request)) = &world.job {
            let Task::Snapshot(task) = &request.task else {
                panic!("no backup");
            };
            let keep = task.keep.clone().unwrap();
            assert_eq!((keep.newest, keep.spared), (Some(1), world.spared.clone()));
            return;
        }
    }
    panic!("never begun");
}
