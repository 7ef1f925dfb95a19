//! Clusters that begin with a backup: killed at every write, with a status that is wiped, a Job that fails, a volume that is
//! lost. However it goes, none begins empty, and none begins twice.

use api::Reason;
use api::v1alpha1::cluster::Retention;
use api::v1alpha1::status::Phase;
use gate::Action;
use plan::invariants::{Violation, check};
use plan::{Observed, Step};
use testkit::run::killed_at_every_write;
use testkit::story::{BOUND, seeds, settle};
use testkit::world::backup::JobEnds;
use testkit::world::observe::Blind;
use testkit::{Run, World};

const ID: &str = "20261118-020000-0a1b2c3d";

fn asked(size: u32, minor: u8, seed: u64) -> World {
    let mut world = World::new(size, minor, seed);
    world.backup.asked = Some(Ok(ID.to_owned()));
    world
}

/// Every cluster that ever was began with this backup.
fn began_with(world: &World, id: &str) {
    assert!(!world.clusters.is_empty());
    for cluster in world.clusters.values() {
        assert_eq!(cluster.restored.as_deref(), Some(id));
    }
}

fn told(run: &Run<'_>, reason: Reason, words: &str) {
    let conditions = &run.world.object.status.conditions;
    let degraded = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    assert_eq!(degraded.reason, reason.to_string(), "{}", degraded.message);
    assert!(degraded.message.contains(words), "{}", degraded.message);
}

#[test]
fn a_cluster_begins_with_a_backup() {
    for seed in seeds(10) {
        for (size, minor) in [(1, 5), (3, 6), (5, 7)] {
            let mut run = Run::new(asked(size, minor, seed));
            let what = format!("size {size} of 3.{minor}, seed {seed}");
            settle(&mut run, &what);
            began_with(&run.world, ID);
            assert_eq!(run.world.clusters.len(), 1, "{what}");
            assert_eq!(
                Ok(run.world.healthy_voters()),
                usize::try_from(size),
                "{what}"
            );
            assert_eq!(run.world.backup.job, None, "{what}");
            assert_eq!(run.world.backup.jobs, 1, "{what}");
            let restored = run.world.object.status.restored.clone().unwrap();
            assert_eq!((restored.backup.as_str(), restored.revision), (ID, 7));
            assert_eq!(run.world.object.status.phase, Some(Phase::Running));
        }
    }
}

#[test]
fn it_survives_a_kill_at_every_write() {
    for (size, seed) in [(1, 1), (3, 2)] {
        let world = asked(size, 6, seed);
        let played = killed_at_every_write(&world, &|run| {
            let turns = run.settle(BOUND)?;
            began_with(&run.world, ID);
            Ok(turns)
        });
        assert!(played.unwrap() > 20);
    }
}

#[test]
fn a_status_wiped_at_any_moment_brings_it_once_more_and_never_an_empty_cluster() {
    for seed in seeds(3) {
        for wiped in 0..60 {
            let mut run = Run::new(asked(3, 6, seed));
            run.turns(wiped);
            run.world.wipe_status();
            settle(&mut run, &format!("wiped at {wiped}, seed {seed}"));
            began_with(&run.world, ID);
            let restored = run.world.object.status.restored.as_ref();
            assert_eq!(
                restored.map(|it| it.backup.as_str()),
                Some(ID),
                "{wiped}, {seed}"
            );
        }
    }
}

#[test]
fn it_survives_every_fault_at_once() {
    for seed in seeds(20) {
        let mut run = Run::new(asked(3, 6, seed));
        run.faults = testkit::run::Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("seed {seed}"));
        began_with(&run.world, ID);
    }
}

#[test]
fn what_fails_is_told_and_tried_again() {
    for seed in seeds(5) {
        for ends in [JobEnds::Failed, JobEnds::Stuck, JobEnds::Lost] {
            let mut run = Run::new(asked(3, 6, seed));
            run.world.backup.ends = [ends; 3].into();
            let mut complained = false;
            for _ in 0..400 {
                run.turn();
                complained |= run.world.object.status.conditions.iter().any(|it| {
                    it.reason == Reason::RestoreBlocked.to_string()
                        && it.message.contains("tried again")
                });
            }
            assert!(complained, "{ends:?}, seed {seed}");
            settle(&mut run, &format!("{ends:?}, seed {seed}"));
            began_with(&run.world, ID);
            assert_eq!(run.world.backup.jobs, 4, "{ends:?}, seed {seed}");
        }
    }
}

#[test]
fn a_backup_that_the_agent_cannot_use_is_brought_once_more() {
    for seed in seeds(5) {
        let mut run = Run::new(asked(3, 6, seed));
        run.world.backup.spoiled = 2;
        settle(&mut run, &format!("seed {seed}"));
        began_with(&run.world, ID);
        assert_eq!(run.world.backup.jobs, 3, "seed {seed}");
        assert_eq!(run.world.clusters.len(), 1, "seed {seed}");
    }
    let mut world = asked(1, 6, 7);
    world.backup.spoiled = 1;
    killed_at_every_write(&world, &|run| {
        let turns = run.settle(BOUND)?;
        began_with(&run.world, ID);
        Ok(turns)
    })
    .unwrap();
}

#[test]
fn a_volume_that_is_lost_on_the_way_is_followed_by_another() {
    for seed in seeds(3) {
        for lost in 0..60 {
            let mut run = Run::new(asked(3, 6, seed));
            run.turns(lost);
            // Afterwards it is a member like any other.
            if run.world.object.status.cluster_id.is_none() {
                run.world.lose_claim(0);
            }
            settle(&mut run, &format!("lost at {lost}, seed {seed}"));
            began_with(&run.world, ID);
        }
    }
}

#[test]
fn nothing_begins_while_the_backup_is_not_known() {
    for seed in seeds(5) {
        let mut world = World::new(3, 6, seed);
        world.backup.asked = Some(Err(
            "there is no EtcdBackup nightly in this namespace".to_owned()
        ));
        let mut run = Run::new(world);
        run.turns(120);
        assert!(run.world.clusters.is_empty(), "seed {seed}");
        told(&run, Reason::RestoreBlocked, "no EtcdBackup nightly");
        run.world.backup.asked = Some(Ok(ID.to_owned()));
        settle(&mut run, &format!("seed {seed}"));
        began_with(&run.world, ID);
    }
}

#[test]
fn another_wish_before_the_cluster_has_formed_is_followed() {
    let mut came = 0;
    for seed in seeds(3) {
        for changed in 0..40 {
            let mut run = Run::new(asked(3, 6, seed));
            run.turns(changed);
            let begun = run.world.object.status.memory.as_ref();
            let begun = begun.is_some_and(|memory| memory.lineage.bootstrap.is_some());
            run.world.backup.asked = Some(Ok("another".to_owned()));
            run.world.object.generation += 1;
            settle(&mut run, &format!("changed at {changed}, seed {seed}"));
            let expected = if begun { ID } else { "another" };
            began_with(&run.world, expected);
            came += usize::from(!begun);
        }
    }
    assert!(came > 20, "most of them come in time");
}

/// Taken out before the cluster has formed, it is a cluster like any other.
#[test]
fn a_wish_that_is_taken_out_leaves_an_empty_cluster() {
    let mut run = Run::new(asked(3, 6, 1));
    run.world.backup.ends = [JobEnds::Failed; 2].into();
    run.turns(60);
    assert!(run.world.clusters.is_empty());
    run.world.backup.asked = None;
    settle(&mut run, "taken out");
    assert!(run.world.clusters.values().all(|it| it.restored.is_none()));
    assert_eq!(run.world.healthy_voters(), 3);
    assert_eq!(run.world.backup.job, None);
}

#[test]
fn once_the_cluster_has_formed_the_wish_says_nothing() {
    let mut run = Run::new(asked(3, 6, 1));
    settle(&mut run, "formed");
    run.world.backup.asked = Some(Ok("another".to_owned()));
    settle(&mut run, "asked for another");
    assert_eq!(run.world.backup.jobs, 1);
    run.world.resize(0);
    settle(&mut run, "stopped");
    run.world.resize(3);
    settle(&mut run, "started");
    assert_eq!(run.world.backup.jobs, 1);
    began_with(&run.world, ID);
}

#[test]
fn data_that_was_kept_is_taken_over_and_no_backup_is_brought_over_it() {
    let mut run = Run::new(World::new(3, 6, 3));
    settle(&mut run, "the first object");
    run.world.create_again(3);
    run.world.backup.asked = Some(Ok(ID.to_owned()));
    settle(&mut run, "resumed");
    assert_eq!((run.world.clusters.len(), run.world.backup.jobs), (1, 0));
    assert!(run.world.clusters.values().all(|it| it.restored.is_none()));
}

#[test]
fn what_etcd_or_the_operator_could_not_run_on_is_told_before_it_is_used() {
    let mut run = Run::new(asked(1, 6, 1));
    run.world.backup.version = Some("3.7.3".to_owned());
    run.turns(150);
    assert!(run.world.clusters.is_empty());
    told(&run, Reason::RestoreBlocked, "spec.version of 3.7 or later");
    run.world.upgrade(7);
    settle(&mut run, "a version that can");
    began_with(&run.world, ID);

    let mut run = Run::new(asked(1, 6, 1));
    run.world.backup.auth = Some(true);
    run.turns(150);
    assert!(run.world.clusters.is_empty());
    told(&run, Reason::RestoreBlocked, "security.auth.enabled: true");

    // A file that something else made tells the least version that an etcd must have, or nothing.
    for (version, begins) in [
        ("3.7.0", false),
        ("3.6.0", true),
        ("3.4.0", true),
        ("", true),
    ] {
        let mut run = Run::new(asked(1, 6, 1));
        run.world.backup.version = Some(version.to_owned());
        run.turns(150);
        assert_eq!(!run.world.clusters.is_empty(), begins, "{version}");
    }
}

#[test]
fn a_job_that_the_api_server_rejects_holds_up_nothing_for_good() {
    let mut run = Run::new(asked(1, 6, 2));
    run.world.reject("Fetch", None);
    run.turns(100);
    assert!(run.world.clusters.is_empty());
    run.world.rejects.clear();
    settle(&mut run, "accepted at last");
    began_with(&run.world, ID);
}

/// The volumes of an object that never began are empty, and its successor begins with the backup.
#[test]
fn an_object_that_is_recreated_on_the_way_begins_with_its_backup() {
    for seed in seeds(3) {
        for at in 0..50 {
            let mut run = Run::new(asked(3, 6, seed));
            run.turns(at);
            if run.world.object.status.cluster_id.is_some() {
                continue;
            }
            run.world.create_again(3);
            // What it owned goes with it.
            run.world.backup.job = None;
            settle(&mut run, &format!("recreated at {at}, seed {seed}"));
            assert_eq!(run.world.clusters.len(), 1, "{at}, seed {seed}");
        }
    }
}

#[test]
fn an_older_status_restored_at_any_moment_leads_to_no_other_cluster() {
    for seed in seeds(2) {
        for (older, later) in (0..50).flat_map(|n| [(n, 4), (n, 10), (n, 25)]) {
            let mut run = Run::new(asked(3, 6, seed));
            run.turns(older);
            let status = run.world.object.status.clone();
            run.turns(later);
            run.world.restore_status(status);
            settle(&mut run, &format!("{older} after {later}, seed {seed}"));
            began_with(&run.world, ID);
        }
    }
}

#[test]
fn a_job_that_is_no_longer_wanted_is_gone_before_anything_begins() {
    for seed in seeds(3) {
        for at in 0..30 {
            for wiped in [false, true] {
                let mut run = Run::new(asked(1, 6, seed));
                run.turns(at);
                let begun = run.world.memory().bootstrap.is_some();
                run.world.backup.asked = None;
                if wiped {
                    run.world.wipe_status();
                }
                settle(&mut run, &format!("{at}, {wiped}, seed {seed}"));
                assert_eq!(run.world.backup.job, None, "{at}, {wiped}, seed {seed}");
                let restored = run.world.clusters.values().any(|it| it.restored.is_some());
                assert!(begun || !restored, "{at}, {wiped}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_stop_on_the_way_ends_the_job_and_a_start_goes_on() {
    for keeps in [Retention::Retain, Retention::Delete] {
        for at in 0..30 {
            let mut run = Run::new(asked(3, 6, 5));
            run.world.object.when_stopped = keeps;
            run.turns(at);
            run.world.resize(0);
            settle(&mut run, &format!("stopped at {at}"));
            assert_eq!(run.world.backup.job, None, "stopped at {at}");
            run.world.resize(3);
            settle(&mut run, &format!("started, stopped at {at}"));
            began_with(&run.world, ID);
        }
    }
}

fn refused(observed: &Observed, step: &Step, violation: &Violation) {
    assert_eq!(check(observed, step), Err(violation.clone()));
}

fn seen(world: &World) -> Observed {
    world.look_around(&Blind::default()).observed
}

/// The same grant, with another action.
fn instead(step: &Step, change: impl FnOnce(&mut Action)) -> Step {
    let mut step = step.clone();
    if let Step::Grant { grant, .. } = &mut step {
        change(&mut grant.action);
    }
    step
}

fn begins_empty(action: &mut Action) {
    let Action::Restore {
        token,
        initial_cluster,
        ..
    } = action.clone()
    else {
        panic!("only with the backup: {action:?}")
    };
    *action = Action::Bootstrap {
        token,
        initial_cluster,
        discard: false,
    };
}

fn takes_another(action: &mut Action) {
    if let Action::Restore { trailer, .. } = action {
        "00".clone_into(trailer);
    }
}

/// Wrong rules, each of which would begin without the backup or write to a volume in use.
#[test]
fn wrong_steps_are_refused() {
    let mut run = Run::new(asked(3, 6, 4));
    let (mut granted, mut fetched) = (0, 0);
    run.world.reject("Fetch", None);
    for _ in 0..200 {
        let observed = seen(&run.world);
        let step = plan::decide(&observed).step;
        match &step {
            Step::Grant { .. } if observed.bringing().is_some() => {
                let empty = instead(&step, begins_empty);
                refused(&observed, &empty, &Violation::Restore);
                let other = instead(&step, takes_another);
                refused(&observed, &other, &Violation::Restore);
                granted += 1;
            }
            Step::Fetch(_) => {
                let mut before = Run::new(asked(3, 6, 4));
                before.turns(10);
                let pods = seen(&before.world).pods;
                assert!(!pods.is_empty());
                let busy = Observed { pods, ..observed };
                refused(&busy, &step, &Violation::LastCopy);
                fetched += 1;
                run.world.rejects.clear();
            }
            _other => {}
        }
        run.turn();
    }
    assert!(granted > 0 && fetched > 0, "{granted} {fetched}");
}
