//! Verification: when a backup is tried, what is told of it, and what no loss can change.

use api::v1alpha1::backup::{BackupPhase, Compared, EtcdBackupStatus, Verification};
use archive::work::Depth;
use jiff::SignedDuration;
use plan::backup::{Step, decide};

use super::HOUR;
use super::world::{Fate, Finds, World};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

fn world(schedule: Option<&str>, verify: Option<&str>) -> World {
    let mut world = World::new(schedule);
    world.spec.verify = Some(Verification {
        schedule: verify.map(str::to_owned),
        ..Verification::default()
    });
    world
}

#[test]
fn each_backup_is_tried_once_and_what_was_compared_is_told() {
    let mut world = world(Some("0 2 * * *"), None);
    world.run(HOUR * 13);
    assert_eq!(world.trials, 0, "there is nothing to try");
    assert_eq!(world.verified().1, "VerificationWaiting");
    world.run(HOUR * 72);
    assert_eq!((world.store.len(), world.tried, world.trials), (3, 3, 3));
    let (status, reason, message) = world.verified();
    assert_eq!((status, reason), ("True", "BackupVerified"));
    assert!(message.contains("HashKV"), "{message}");
    let last = world.status.last_verified.clone().unwrap();
    assert_eq!(Some(&last.id), world.store.keys().next_back());
    assert_eq!((last.compared, last.revision), (Compared::HashKv, 7));
    assert!(last.backup_time.is_some());
    assert!(world.status.backups.iter().all(|it| it.verified.is_some()));
    assert_eq!(world.ready(), ("True", "BackupCreated"));
    assert!(world.trial.is_none() && world.job.is_none());
    let events = world.events.iter();
    assert_eq!(events.filter(|it| *it == "BackupVerified").count(), 3);
    // Settled: the same look says the same.
    let before = world.status.clone();
    world.turn();
    assert_eq!(world.status, before);
}

#[test]
fn nothing_is_tried_or_told_where_it_is_not_asked_for() {
    let mut world = World::new(None);
    world.run(HOUR);
    assert_eq!(world.trials, 0);
    assert_eq!(world.status.conditions.len(), 1);
}

#[test]
fn by_a_schedule_the_newest_is_tried_each_time() {
    let mut world = world(Some("0 * * * *"), Some("30 2 * * *"));
    world.run(HOUR * 14);
    assert_eq!(world.tried, 0);
    world.run(HOUR * 24 * 2);
    assert_eq!((world.tried, world.trials), (2, 2));
    // One backup is tried at each time, though it was tried before.
    world.spec.suspend = Some(true);
    world.run(HOUR * 48);
    assert_eq!(world.trials, 2, "suspended");
}

#[test]
fn one_that_failed_its_verification_is_named_and_counts_no_more() {
    let mut world = world(Some("0 * * * *"), None);
    world.run(HOUR + MINUTE * 30);
    let good = world.store.keys().next_back().unwrap().clone();
    world.finds = Finds::Damaged;
    world.run(HOUR);
    let bad = world.store.keys().next_back().unwrap().clone();
    let (status, reason, message) = world.verified();
    assert_eq!((status, reason), ("False", "BackupDamaged"));
    for said in [&bad, &good, "its HashKV differs", "backup-now"] {
        assert!(message.contains(said), "{message}");
    }
    assert_eq!(world.ready(), ("False", "BackupDamaged"));
    assert_eq!(world.phase(), Some(BackupPhase::Failed));
    assert_eq!(world.status.last_verified.as_ref().unwrap().id, good);
    let entry = |id: &str| world.status.backups.iter().find(|it| it.id == id).unwrap();
    assert!(entry(&bad).damaged && entry(&bad).verified.is_none());
    assert!(!entry(&good).damaged && entry(&good).verified.is_some());
    assert!(world.events.contains(&"BackupDamaged".to_owned()));
    let tried = world.tried;
    world.run(MINUTE * 20);
    assert_eq!(world.tried, tried, "it is not tried again and again");
    // The next one is tried, and all is well.
    world.finds = Finds::Good(Depth::Hash);
    world.run(HOUR);
    assert_eq!(world.verified().1, "BackupVerified");
    assert_eq!(world.ready(), ("True", "BackupCreated"));
    assert!(world.status.backups.iter().any(|it| it.damaged), "known");
}

#[test]
fn after_one_that_failed_the_next_is_not_left_to_the_schedule() {
    let mut world = world(Some("0 * * * *"), Some("30 13 * * *"));
    world.finds = Finds::Damaged;
    world.run(HOUR * 2 - MINUTE * 10);
    assert_eq!((world.tried, world.ready().1), (1, "BackupDamaged"));
    world.finds = Finds::Good(Depth::Restored);
    world.run(HOUR);
    assert_eq!((world.tried, world.ready().0), (2, "True"));
    world.run(HOUR * 3);
    assert_eq!(world.tried, 2);
}

#[test]
fn what_was_not_compared_is_said() {
    let mut world = world(None, None);
    world.finds = Finds::Good(Depth::Restored);
    world.run(HOUR);
    let (status, reason, message) = world.verified();
    assert_eq!((status, reason), ("True", "BackupVerified"));
    assert!(message.contains("not asked for a HashKV"), "{message}");
    world.finds = Finds::Good(Depth::ChecksumOnly);
    world.asked = Some("once more".to_owned());
    world.run(HOUR);
    let (status, reason, message) = world.verified();
    assert_eq!((status, reason), ("Unknown", "ChecksumOnly"));
    assert!(message.contains("spec.verify.identitySecret"), "{message}");
    let last = world.status.last_verified.clone().unwrap();
    assert_eq!(last.compared, Compared::ChecksumOnly);
    assert!(world.status.backups[0].verified.is_none(), "no etcd ran");
}

#[test]
fn a_trial_that_could_not_be_made_says_nothing_of_the_backup() {
    let mut world = world(None, None);
    world.finds = Finds::Fails;
    world.run(HOUR);
    let (status, reason, message) = world.verified();
    assert_eq!((status, reason), ("Unknown", "VerificationFailed"));
    assert!(message.contains("the scratch volume is full"), "{message}");
    assert_eq!(world.ready(), ("True", "BackupCreated"));
    assert!((8..=13).contains(&world.trials), "{} Jobs", world.trials);
    world.finds = Finds::Good(Depth::Hash);
    world.run(HOUR);
    assert_eq!(world.verified().1, "BackupVerified");
    assert_eq!(world.tried, 1);
}

#[test]
fn an_answer_that_was_lost_is_read_again_from_the_store() {
    let mut world = world(None, None);
    world.finds = Finds::Loses;
    world.run(MINUTE);
    assert_eq!(world.verified().1, "VerificationFailed");
    world.finds = Finds::Good(Depth::Hash);
    world.run(HOUR);
    assert_eq!(world.verified().1, "BackupVerified");
    assert_eq!(world.tried, 1, "it is in the store");
}

#[test]
fn wherever_the_operator_is_killed_a_backup_is_tried_once() {
    for kill in 1..16 {
        for finds in [Finds::Good(Depth::Hash), Finds::Damaged] {
            let mut world = world(None, None);
            world.finds = finds;
            world.kill_at = Some(kill);
            world.run(HOUR);
            assert_eq!((world.store.len(), world.tried), (1, 1), "kill {kill}");
            assert!(world.job.is_none() && world.trial.is_none(), "kill {kill}");
            let ready = finds != Finds::Damaged;
            assert_eq!(world.ready().0 == "True", ready, "kill {kill}");
        }
    }
}

#[test]
fn a_status_wiped_at_any_moment_loses_no_result() {
    for moment in 0..20 {
        for (schedule, verify) in [(None, None), (Some("0 13 * * *"), Some("5 13 * * *"))] {
            let mut world = world(schedule, verify);
            world.finds = Finds::Damaged;
            world.now += HOUR + MINUTE * 10;
            for turn in 0..20 {
                if turn == moment {
                    world.status = EtcdBackupStatus::default();
                }
                world.turn();
                world.work();
            }
            // What the store knows is not tried again: it would be found good now.
            world.finds = Finds::Good(Depth::Hash);
            world.run(HOUR);
            assert_eq!(world.tried, 1, "{schedule:?}, turn {moment}");
            assert_eq!(world.ready(), ("False", "BackupDamaged"), "turn {moment}");
            assert_eq!(world.verified().0, "False", "turn {moment}");
        }
    }
}

#[test]
fn a_verification_keeps_no_backup_waiting_and_waits_for_its_own_place() {
    let mut world = world(Some("0 * * * *"), None);
    world.run(HOUR + MINUTE);
    // The Job hangs.
    world.asked = Some("now".to_owned());
    for _ in 0..10 {
        world.turn();
        world.work();
        if world
            .status
            .memory
            .as_ref()
            .is_some_and(|it| it.verify.is_some())
        {
            break;
        }
    }
    while world.trial.is_none() {
        world.turn();
    }
    for _ in 0..3 {
        world.now += HOUR;
        for _ in 0..10 {
            world.turn();
            world.work_on_backups();
        }
    }
    assert_eq!((world.store.len(), world.trials), (5, 2));
    world.run(HOUR);
    assert_eq!(world.verified().1, "BackupVerified");

    world.has_place = false;
    world.status.memory.as_mut().unwrap().tried = None;
    world.run(MINUTE);
    assert_eq!(world.trials, 4);
    world.has_place = true;
    world.run(MINUTE);
    assert_eq!(world.trials, 5);
}

#[test]
fn it_needs_an_image_of_etcd_and_no_running_member() {
    let mut world = world(None, None);
    world.run(SignedDuration::from_millis(25));
    world.cluster.as_mut().unwrap().stopped = true;
    let image = world.cluster.as_mut().unwrap().image.take();
    world.run(HOUR);
    assert_eq!(world.trials, 0);
    let (_, reason, message) = world.verified();
    assert_eq!(reason, "VerificationWaiting");
    assert!(message.contains("EtcdCluster db"), "{message}");
    world.cluster.as_mut().unwrap().image = image;
    world.run(HOUR);
    assert_eq!(world.verified().1, "BackupVerified");
}

#[test]
fn a_rejected_job_is_told_and_tried_again() {
    let mut world = world(None, None);
    let begin = loop {
        let seen = world.seen();
        if let Step::Verify(begin) = decide(&seen).step {
            break begin;
        }
        world.turn();
        world.work();
    };
    let seen = world.seen();
    let next = plan::backup::verification_rejected(&seen, &begin, "exceeded quota");
    assert_eq!(next.event.unwrap().0.to_string(), "VerificationFailed");
    world.status = next.status;
    assert!(world.verified().2.contains("exceeded quota"));
    world.run(HOUR);
    assert_eq!(world.verified().1, "BackupVerified");
}

#[test]
fn a_backup_that_fails_is_told_as_ever() {
    let mut world = world(Some("0 * * * *"), None);
    world.run(HOUR + MINUTE);
    world.fate = Fate::Fails;
    world.run(HOUR);
    assert_eq!(world.ready(), ("False", "BackupFailed"));
    assert_eq!(world.verified().0, "True");
}

#[test]
fn a_trial_that_cannot_succeed_reads_the_backup_less_and_less_often() {
    let mut world = world(None, None);
    world.finds = Finds::Fails;
    world.run(HOUR * 24);
    let first = world.trials;
    world.run(HOUR * 48);
    let later = world.trials - first;
    assert!(first > 5 && (1..=4).contains(&later), "{first} {later}");
}
