//! No member has data any more. The condition names a backup, an EtcdRestore begins with it, and where the spec says so the
//! operator does: once, and never where any of the data may come back.

use api::v1alpha1::cluster::OnEverythingLost;
use api::v1alpha1::memory::ReplaceStage;
use plan::observed::{NodeState, parse_id};
use plan::why::{Quorum, Why};
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settled};
use testkit::world::backup::JobEnds;
use testkit::{Run, World};

const ID: &str = "20261118-020000-0a1b2c3d";

/// A cluster whose owner leaves it to the operator.
fn left(size: u32, seed: u64) -> Run<'static> {
    let mut run = settled(size, 6, seed);
    run.world.leave_to_operator(ID);
    run
}

/// The same without any data.
fn lost(size: u32, seed: u64) -> Run<'static> {
    let mut run = left(size, seed);
    lose(&mut run.world);
    run
}

fn lose(world: &mut World) {
    for ordinal in 0..world.object.size {
        world.lose_claim(ordinal);
    }
}

/// So much time passes that what would begin by itself has begun.
fn pass(run: &mut Run<'_>, turns: usize) {
    for _ in 0..turns {
        run.turn();
        run.world.sleep(1);
    }
}

fn settle(run: &mut Run<'_>, what: &str) {
    if let Err(why) = run.settle(BOUND) {
        panic!("{what}: {why}");
    }
}

fn live(world: &World) -> Option<&str> {
    let id = world.object.status.cluster_id.as_deref();
    let id = id.and_then(parse_id).unwrap();
    world.clusters[&id].restored.as_deref()
}

fn stage(world: &World) -> Option<ReplaceStage> {
    world.memory().replace.map(|replace| replace.stage)
}

fn restored(run: &Run<'_>, what: &str) {
    let world = &run.world;
    assert_eq!(live(world), Some(ID), "{what}");
    assert_eq!(world.backup.job, None, "{what}");
    let size = usize::try_from(world.object.size).unwrap();
    assert_eq!(world.healthy_voters(), size, "{what}");
    let memory = world.memory();
    let replace = memory.replace.unwrap();
    assert_eq!(
        (memory.recovery, replace.stage, replace.failure),
        (None, ReplaceStage::Ended, None),
        "{what}"
    );
}

#[test]
fn a_cluster_that_lost_everything_begins_with_its_backup_by_itself() {
    for seed in seeds(5) {
        for size in [1, 3, 5] {
            let what = format!("size {size}, seed {seed}");
            let mut run = lost(size, seed);
            settle(&mut run, &what);
            restored(&run, &what);
            assert_eq!(run.world.clusters.len(), 2, "{what}");
            pass(&mut run, 100);
            assert_eq!(run.world.clusters.len(), 2, "{what}");
        }
    }
}

#[test]
fn it_survives_a_kill_at_every_write() {
    for (size, seed) in [(1, 1), (3, 2)] {
        let world = lost(size, seed).world;
        let played = killed_at_every_write(&world, &|run| {
            let turns = run.settle(BOUND)?;
            restored(run, "killed");
            Ok(turns)
        });
        assert!(played.unwrap() > 20);
    }
}

#[test]
fn it_survives_every_fault_at_once() {
    for seed in seeds(10) {
        let mut run = lost(3, seed);
        run.faults = Faults::ALL;
        run.turns(200);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(live(&run.world), Some(ID), "seed {seed}");
    }
}

/// The claims that were made since tell which cluster is lost, and how far the way back is.
#[test]
fn a_status_wiped_at_any_moment_begins_it_once() {
    let mut begun = 0;
    for wiped in (20..200).step_by(2) {
        let what = format!("wiped at {wiped}");
        let mut run = lost(3, 3);
        pass(&mut run, wiped);
        run.world.wipe_status();
        settle(&mut run, &what);
        assert_eq!(live(&run.world), Some(ID), "{what}");
        assert_eq!(run.world.clusters.len(), 2, "{what}");
        begun += 1;
    }
    assert!(begun > 50);
}

#[test]
fn nothing_begins_while_a_volume_may_come_back() {
    for state in [
        NodeState::NotReady(jiff::Timestamp::UNIX_EPOCH),
        NodeState::Ready,
    ] {
        let what = format!("{state:?}");
        let mut run = left(3, 4);
        for ordinal in [0, 1] {
            run.world.lose_claim(ordinal);
        }
        if state == NodeState::Ready {
            // Its data is whole, and it alone is no quorum.
            run.world.crash(2);
        } else {
            run.world.set_node(2, state);
        }
        pass(&mut run, 400);
        assert_eq!(stage(&run.world), None, "{what}");
        assert_eq!(run.world.backup.jobs, 0, "{what}");
        assert_eq!(run.world.clusters.len(), 1, "{what}");
    }
}

/// A person brings a volume back from a snapshot of the storage at any moment, as another claim.
#[test]
fn a_volume_that_comes_back_on_the_way_calls_it_off() {
    let (mut off, mut late) = (0, 0);
    for at in 0..90 {
        let what = format!("back at {at}");
        let mut run = left(1, 5);
        let kept = run.world.claims[&0].clone();
        lose(&mut run.world);
        pass(&mut run, at);
        let begun = run.world.memory().incarnation > 1;
        if begun {
            late += 1;
            continue;
        }
        run.world.pods.remove(&0);
        let mut back = kept.clone();
        back.uid = format!("back-{at}");
        // What was written while it was being deleted is not on it.
        let log = back.volume.data.map_or(0, |data| data.log);
        for cluster in run.world.clusters.values_mut() {
            cluster.acknowledged = cluster.acknowledged.min(log);
        }
        run.world.claims.insert(0, back);
        settle(&mut run, &what);
        assert_eq!(live(&run.world), None, "{what}");
        assert_eq!(run.world.healthy_voters(), 1, "{what}");
        off += 1;
    }
    assert!(off > 10 && late > 5, "{off} {late}");
}

#[test]
fn an_owner_that_changes_the_spec_calls_it_off_before_a_member_is_to_begin() {
    let (mut off, mut late) = (0, 0);
    for at in 0..90 {
        let what = format!("Ask at {at}");
        let mut run = lost(3, 6);
        pass(&mut run, at);
        let begun = run.world.memory().incarnation > 1;
        run.world.object.on_everything_lost = OnEverythingLost::Ask;
        if begun {
            late += 1;
            continue;
        }
        off += 1;
        pass(&mut run, 150);
        assert_eq!(run.world.clusters.len(), 1, "{what}");
        assert!(!run.world.memory().is_being_replaced(), "{what}");
        assert_eq!(run.verdict(), Ok(()), "{what}");
    }
    assert!(off > 10 && late > 5, "{off} {late}");
}

#[test]
fn a_backup_of_another_etcd_cluster_is_named_and_not_used() {
    let mut run = lost(3, 7);
    run.world.backup.newest = Some((ID.to_owned(), 7));
    pass(&mut run, 200);
    assert_eq!(stage(&run.world), None);
    assert_eq!(run.world.backup.jobs, 0);
}

#[test]
fn it_is_tried_once_and_then_an_etcdrestore_is_the_way() {
    for ends in [JobEnds::Failed, JobEnds::Stuck] {
        let what = format!("{ends:?}");
        let mut run = lost(3, 8);
        for _ in 0..BOUND {
            if stage(&run.world) == Some(ReplaceStage::Fetching) {
                break;
            }
            pass(&mut run, 1);
        }
        run.world.backup.ends = [ends; 3].into();
        pass(&mut run, 300);
        assert_eq!(stage(&run.world), Some(ReplaceStage::Ended), "{what}");
        let jobs = run.world.backup.jobs;
        run.world.wipe_status();
        pass(&mut run, 300);
        assert_eq!(run.world.backup.jobs, jobs, "{what}");
        run.world.ask_to_replace(ID);
        pass(&mut run, 300);
        settle(&mut run, &what);
        restored(&run, &what);
    }
}

/// What was to begin with a backup could not use it, and there is no data from before: the next object is carried out.
#[test]
fn once_nothing_is_left_to_recover_another_etcdrestore_begins() {
    for seed in seeds(3) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        lose(&mut run.world);
        pass(&mut run, 30);
        run.world.backup.spoiled = 3;
        run.world.ask_to_replace(ID);
        pass(&mut run, 400);
        let memory = run.world.memory();
        assert!(memory.recovery.is_some(), "{what}");
        assert_eq!(stage(&run.world), Some(ReplaceStage::Ended), "{what}");
        let observed = run
            .world
            .look_around(&testkit::world::observe::Blind::default());
        let why = plan::decide(&observed.observed).why;
        assert!(matches!(why, Why::Quorum(Quorum::NoData { .. })), "{why}");
        run.world.ask_to_replace(ID);
        pass(&mut run, 300);
        settle(&mut run, &what);
        restored(&run, &what);
    }
}

#[test]
fn an_etcdrestore_comes_before_the_operator_by_itself() {
    let mut run = lost(3, 9);
    run.world.backup.ends = [JobEnds::Failed; 3].into();
    for _ in 0..BOUND {
        if stage(&run.world) == Some(ReplaceStage::Checking) {
            break;
        }
        pass(&mut run, 1);
    }
    let uid = run.world.ask_to_replace(ID);
    pass(&mut run, 20);
    assert_eq!(run.world.memory().replace.unwrap().by, uid);
    pass(&mut run, 300);
    settle(&mut run, "by its EtcdRestore");
    restored(&run, "by its EtcdRestore");
}

#[test]
fn the_condition_names_the_backup_and_the_command() {
    let mut run = lost(3, 10);
    run.world.object.on_everything_lost = OnEverythingLost::Ask;
    pass(&mut run, 100);
    let observed = run
        .world
        .look_around(&testkit::world::observe::Blind::default());
    let told = plan::decide(&observed.observed).why.to_string();
    for words in [
        ID,
        "EtcdBackup nightly",
        "kubectl create -f -",
        "\"replaces\":",
    ] {
        assert!(told.contains(words), "{told}");
    }
}
