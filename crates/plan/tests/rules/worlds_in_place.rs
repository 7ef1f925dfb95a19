//! A backup that takes the place of the data of a cluster that has formed: killed at every write, called off at any moment,
//! with a status that is wiped, on clusters that are stopped, without a quorum or full. However it goes, the cluster ends with
//! the data that it had or with that of the backup, whole, and never with both.

use api::Reason;
use api::v1alpha1::memory::ReplaceStage;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settled};
use testkit::world::backup::JobEnds;
use testkit::{Run, World};

const ID: &str = "20261118-020000-0a1b2c3d";

/// A cluster that serves, and an EtcdRestore that names it.
fn asked(size: u32, minor: u8, seed: u64) -> Run<'static> {
    let mut run = settled(size, minor, seed);
    run.world.ask_to_replace(ID);
    run
}

/// Settles, and waits for a Job that reads: the cluster has settled meanwhile.
fn end(run: &mut Run<'_>) -> Result<usize, String> {
    let mut turns = 0;
    for _ in 0..20 {
        turns += run.settle(BOUND)?;
        let world = &run.world;
        let checks = stage(world) == Some(ReplaceStage::Checking);
        let ended = world.memory().replace.map_or_else(Vec::new, |it| it.ended);
        let cluster = world.memory().cluster_id;
        let mut asks = world.backup.requests.iter();
        let asks = asks.any(|it| it.replaces == cluster && !ended.contains(&it.uid));
        if !checks && !asks {
            return Ok(turns);
        }
        run.turns(20);
    }
    Ok(turns)
}

fn settle(run: &mut Run<'_>, what: &str) {
    if let Err(why) = end(run) {
        panic!("{what}: {why}");
    }
}

fn live(world: &World) -> Option<&str> {
    let id = world.object.status.cluster_id.as_deref();
    let id = id.and_then(plan::observed::parse_id).unwrap();
    world.clusters[&id].restored.as_deref()
}

/// The cluster has the data of the backup, and as many members as are asked for.
fn replaced(run: &Run<'_>, what: &str) {
    let world = &run.world;
    assert_eq!(live(world), Some(ID), "{what}");
    assert_eq!(world.backup.job, None, "{what}");
    let size = usize::try_from(world.object.size).unwrap();
    assert_eq!(world.healthy_voters(), size, "{what}");
    let memory = world.memory();
    assert_eq!(
        (memory.recovery, memory.replace.as_ref().unwrap().stage),
        (None, ReplaceStage::Ended),
        "{what}"
    );
    assert_eq!(memory.replace.unwrap().failure, None, "{what}");
    let restored = world.object.status.restored.as_ref();
    assert_eq!(restored.map(|it| it.backup.as_str()), Some(ID), "{what}");
}

/// It has the data that it had, and serves.
fn as_it_was(run: &Run<'_>, what: &str) {
    let world = &run.world;
    assert_eq!(live(world), None, "{what}");
    assert_eq!(world.backup.job, None, "{what}");
    let size = usize::try_from(world.object.size).unwrap();
    assert_eq!(world.healthy_voters(), size, "{what}");
    assert!(!world.memory().is_being_replaced(), "{what}");
}

fn stage(world: &World) -> Option<ReplaceStage> {
    world.memory().replace.map(|replace| replace.stage)
}

/// Until it is this far.
fn until(run: &mut Run<'_>, far: ReplaceStage) {
    for _ in 0..BOUND {
        if stage(&run.world) == Some(far) {
            return;
        }
        run.turn();
    }
    panic!("never {far:?}");
}

#[test]
fn the_backup_with_which_it_began_takes_the_place_of_what_came_after() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = asked(3, 6, seed);
        settle(&mut run, &what);
        run.world.ask_to_replace(ID);
        settle(&mut run, &what);
        replaced(&run, &what);
        assert_eq!(run.world.clusters.len(), 3, "{what}");
    }
}

#[test]
fn a_backup_takes_the_place_of_the_data() {
    for seed in seeds(5) {
        for (size, minor) in [(1, 5), (3, 6), (5, 7)] {
            let what = format!("size {size} of 3.{minor}, seed {seed}");
            let mut run = asked(size, minor, seed);
            settle(&mut run, &what);
            replaced(&run, &what);
            assert_eq!(run.world.clusters.len(), 2, "{what}");
            assert_eq!(run.world.backup.jobs, 2, "{what}");
            // The object is still there, and nothing happens again.
            run.turns(50);
            settle(&mut run, &what);
            assert_eq!(run.world.clusters.len(), 2, "{what}");
        }
    }
}

#[test]
fn without_the_id_of_the_cluster_nothing_happens() {
    let mut run = settled(3, 6, 1);
    run.world.ask_for(None, ID);
    run.world.ask_for(Some(7), ID);
    run.turns(100);
    settle(&mut run, "another ID");
    as_it_was(&run, "another ID");
    assert_eq!(run.world.backup.jobs, 0);
    assert_eq!(run.world.memory().replace, None);
}

#[test]
fn it_survives_a_kill_at_every_write() {
    for (size, seed) in [(1, 1), (3, 2)] {
        let world = asked(size, 6, seed).world;
        let played = killed_at_every_write(&world, &|run| {
            let turns = end(run)?;
            replaced(run, "killed");
            Ok(turns)
        });
        assert!(played.unwrap() > 20);
    }
}

#[test]
fn a_status_wiped_at_any_moment_replaces_it_once() {
    for seed in seeds(2) {
        for wiped in 0..80 {
            let what = format!("wiped at {wiped}, seed {seed}");
            let mut run = asked(3, 6, seed);
            run.turns(wiped);
            run.world.wipe_status();
            settle(&mut run, &what);
            replaced(&run, &what);
        }
    }
}

#[test]
fn an_older_status_at_any_moment_replaces_it_once() {
    for seed in seeds(2) {
        for (older, later) in (0..60).step_by(3).flat_map(|n| [(n, 4), (n, 15), (n, 40)]) {
            let what = format!("{older} after {later}, seed {seed}");
            let mut run = asked(3, 6, seed);
            run.turns(older);
            let status = run.world.object.status.clone();
            run.turns(later);
            run.world.restore_status(status);
            settle(&mut run, &what);
            replaced(&run, &what);
        }
    }
}

#[test]
fn it_survives_every_fault_at_once() {
    for seed in seeds(15) {
        let mut run = asked(3, 6, seed);
        run.faults = Faults::ALL;
        run.turns(200);
        settle(&mut run, &format!("seed {seed}"));
        replaced(&run, &format!("seed {seed}"));
    }
}

#[test]
fn called_off_before_a_member_is_to_begin_the_cluster_goes_on_as_it_was() {
    let (mut off, mut late) = (0, 0);
    for seed in seeds(2) {
        for at in 0..80 {
            let what = format!("called off at {at}, seed {seed}");
            let mut run = asked(3, 6, seed);
            run.turns(at);
            let incarnation = run.world.memory().incarnation;
            run.world.backup.requests.clear();
            settle(&mut run, &what);
            if incarnation > 1 {
                replaced(&run, &what);
                late += 1;
            } else {
                as_it_was(&run, &what);
                off += 1;
            }
        }
    }
    assert!(off > 20 && late > 20, "{off} {late}");
}

#[test]
fn what_cannot_be_read_stops_nothing() {
    for ends in [JobEnds::Failed, JobEnds::Stuck, JobEnds::Lost] {
        let mut run = asked(3, 6, 3);
        run.world.backup.ends = [ends; 4].into();
        for _ in 0..300 {
            run.turn();
            let stopped = run.world.set.as_ref().is_some_and(|set| set.replicas == 0);
            assert!(!stopped || run.world.backup.ends.is_empty(), "{ends:?}");
        }
        let mut run = asked(3, 6, 3);
        run.world.backup.requests[0].backup = Err("there is no EtcdBackup".to_owned());
        run.turns(100);
        assert_eq!(stage(&run.world), Some(ReplaceStage::Checking));
        assert_eq!(run.world.healthy_voters(), 3);
        let failure = run.world.memory().replace.unwrap().failure.unwrap();
        assert!(failure.contains("there is no EtcdBackup"), "{failure}");
        run.world.backup.requests[0].backup = Ok(ID.to_owned());
        settle(&mut run, "there at last");
        replaced(&run, "there at last");
    }
}

#[test]
fn what_etcd_or_the_operator_could_not_run_on_is_told_while_the_cluster_serves() {
    let mut run = asked(3, 6, 1);
    run.world.backup.version = Some("3.7.3".to_owned());
    run.turns(200);
    as_served(&run, "3.7 or later");
    let mut run = asked(3, 6, 1);
    run.world.backup.auth = Some(true);
    run.turns(200);
    as_served(&run, "security.auth.enabled: true");
}

fn as_served(run: &Run<'_>, words: &str) {
    assert_eq!(stage(&run.world), Some(ReplaceStage::Checking));
    assert_eq!(run.world.clusters.len(), 1);
    assert_eq!(run.world.healthy_voters(), 3);
    let failure = run.world.memory().replace.unwrap().failure.unwrap();
    assert!(failure.contains(words), "{failure}");
}

#[test]
fn a_fetch_that_fails_for_good_starts_the_old_data_again_by_itself() {
    for seed in seeds(3) {
        for ends in [JobEnds::Failed, JobEnds::Stuck] {
            let what = format!("{ends:?}, seed {seed}");
            let mut run = asked(3, 6, seed);
            until(&mut run, ReplaceStage::Fetching);
            let older = run.world.object.status.clone();
            run.world.backup.ends = [ends; 3].into();
            settle(&mut run, &what);
            as_it_was(&run, &what);
            let replace = run.world.memory().replace.unwrap();
            assert!(replace.failure.is_some(), "{what}");
            assert_eq!(run.world.clusters.len(), 1, "{what}");
            // Not once more for the same object, whatever is wiped.
            run.world.wipe_status();
            run.turns(50);
            settle(&mut run, &what);
            as_it_was(&run, &what);
            run.world.restore_status(older);
            run.turns(50);
            settle(&mut run, &what);
            as_it_was(&run, &what);
            // Another one is another wish.
            run.world.ask_to_replace(ID);
            settle(&mut run, &what);
            replaced(&run, &what);
        }
    }
}

#[test]
fn a_backup_that_the_agent_cannot_use_is_brought_again_and_then_the_old_data_is_recovered() {
    for seed in seeds(3) {
        for spoiled in [1, 2, 3, 9] {
            let what = format!("spoiled {spoiled}, seed {seed}");
            let mut run = asked(3, 6, seed);
            run.world.backup.spoiled = spoiled;
            settle(&mut run, &what);
            if spoiled < 3 {
                replaced(&run, &what);
            } else {
                as_it_was(&run, &what);
                assert!(run.world.memory().replace.unwrap().failure.is_some());
            }
        }
    }
    let mut world = asked(1, 6, 7);
    world.world.backup.spoiled = 3;
    killed_at_every_write(&world.world, &|run| {
        let turns = end(run)?;
        assert!(!run.world.memory().is_being_replaced());
        Ok(turns)
    })
    .unwrap();
}

#[test]
fn a_volume_that_is_lost_on_the_way_is_followed_by_another() {
    for seed in seeds(2) {
        for lost in 0..60 {
            let what = format!("lost at {lost}, seed {seed}");
            let mut run = asked(3, 6, seed);
            run.turns(lost);
            // From there on it is the only one that has the data.
            if stage(&run.world) == Some(ReplaceStage::Ended) {
                continue;
            }
            run.world.lose_claim(0);
            settle(&mut run, &what);
            replaced(&run, &what);
        }
    }
}

/// The first member is lost before the others have joined, or all of them are later: another object is the way back.
#[test]
fn it_works_where_everything_is_lost() {
    for seed in seeds(3) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        for ordinal in 0..3 {
            run.world.lose_claim(ordinal);
        }
        run.turns(100);
        assert_eq!(run.world.healthy_voters(), 0, "{what}");
        run.world.ask_to_replace(ID);
        settle(&mut run, &what);
        replaced(&run, &what);
        let mut run = asked(3, 6, seed);
        until(&mut run, ReplaceStage::Ended);
        run.world.lose_claim(0);
        run.turns(100);
        run.world.ask_to_replace(ID);
        settle(&mut run, &what);
        replaced(&run, &what);
    }
}

#[test]
fn it_works_on_stopped_clusters() {
    for at in 0..60 {
        let what = format!("stopped at {at}");
        let mut run = asked(3, 6, 4);
        run.turns(at);
        run.world.resize(0);
        settle(&mut run, &what);
        run.world.resize(3);
        settle(&mut run, &what);
        replaced(&run, &what);
    }
    // All that can be done is done before the start, and no member runs on the data before.
    let mut run = settled(3, 6, 4);
    run.world.resize(0);
    settle(&mut run, "stopped");
    run.world.ask_to_replace(ID);
    settle(&mut run, "brought");
    assert_eq!(stage(&run.world), Some(ReplaceStage::Bootstrapping));
    run.world.resize(3);
    settle(&mut run, "started");
    replaced(&run, "started");
}

#[test]
fn it_works_without_a_quorum() {
    for seed in seeds(3) {
        let mut run = settled(3, 6, seed);
        for ordinal in [1, 2] {
            run.world.claims.get_mut(&ordinal).unwrap().volume.damaged = true;
            run.world.crash(ordinal);
        }
        run.turns(80);
        assert!(run.world.healthy_voters() < 2, "seed {seed}");
        run.world.ask_to_replace(ID);
        settle(&mut run, &format!("seed {seed}"));
        replaced(&run, &format!("seed {seed}"));
    }
}

#[test]
fn a_second_one_waits_for_the_first_and_then_names_a_cluster_that_is_no_more() {
    let mut run = asked(3, 6, 5);
    run.world.ask_to_replace("another");
    settle(&mut run, "both");
    replaced(&run, "both");
    assert_eq!(run.world.clusters.len(), 2);
}

#[test]
fn while_it_is_not_known_whether_it_is_still_asked_for_nothing_is_called_off() {
    let mut run = asked(3, 6, 6);
    until(&mut run, ReplaceStage::Fetching);
    let requests = std::mem::take(&mut run.world.backup.requests);
    run.world.backup.unheard = true;
    run.turns(60);
    assert_eq!(stage(&run.world), Some(ReplaceStage::Fetching));
    run.world.backup.requests = requests;
    settle(&mut run, "heard");
    replaced(&run, "heard");
}

#[test]
fn it_is_told_as_restoring() {
    let mut run = asked(3, 6, 8);
    let mut told = false;
    for _ in 0..200 {
        run.turn();
        let phase = run.world.object.status.phase;
        told |= phase == Some(api::v1alpha1::status::Phase::Restoring);
    }
    assert!(told);
    assert!(run.reasons.contains_key(&Reason::Restoring));
}

/// A Job that never starts may have a volume that cannot be mounted: the next one is tried.
#[test]
fn any_volume_that_can_be_mounted_is_the_seed() {
    let mut run = asked(3, 6, 14);
    until(&mut run, ReplaceStage::Fetching);
    let seed = |world: &World| world.memory().replace?.seed.map(|seed| seed.member);
    let first = seed(&run.world);
    run.world.backup.ends = [JobEnds::Stuck].into();
    for _ in 0..200 {
        run.turn();
        if seed(&run.world) != first {
            break;
        }
    }
    assert_ne!(seed(&run.world), first);
    settle(&mut run, "another volume");
    replaced(&run, "another volume");
}
