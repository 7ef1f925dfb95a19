//! A backup as of an earlier revision than its newest: a cluster begins with it, or it takes the place of the data. What lies on
//! the volume is made there, so that its hash is another than the one that was read.

use api::v1alpha1::memory::{FetchedMemory, ReplaceStage};
use plan::Step;
use plan::invariants::{Violation, check};
use testkit::run::killed_at_every_write;
use testkit::story::{BOUND, seeds, settled};
use testkit::world::backup::NEWEST;
use testkit::{Run, World};

const ID: &str = "20261118-020000-0a1b2c3d";
const MOMENT: i64 = 5;

fn begins(size: u32, seed: u64) -> World {
    let mut world = World::new(size, 6, seed);
    world.backup.asked = Some(Ok(ID.to_owned()));
    world.backup.moment = Some(MOMENT);
    world
}

fn replaces(seed: u64) -> Run<'static> {
    let mut run = settled(3, 6, seed);
    run.world.backup.moment = Some(MOMENT);
    run.world.ask_to_replace(ID);
    run
}

/// Until what takes the place of the data has done so.
fn end(run: &mut Run<'_>) -> Result<usize, String> {
    let mut turns = 0;
    for _ in 0..40 {
        turns += run.settle(BOUND)?;
        let replace = run.world.memory().replace;
        if replace.is_some_and(|it| it.stage == ReplaceStage::Ended) {
            return Ok(turns);
        }
        run.turns(20);
    }
    Err("it never ends".to_owned())
}

fn came_back(world: &World, what: &str) {
    let restored = world.object.status.restored.clone().unwrap();
    assert_eq!(restored.backup, ID, "{what}");
    assert_eq!((restored.revision, restored.bytes), (MOMENT, 50), "{what}");
    assert_eq!(restored.leases.unwrap().count, 1, "{what}");
    let live = world.object.status.cluster_id.as_deref();
    let live = live.and_then(plan::observed::parse_id).unwrap();
    let data = world.clusters[&live].restored.as_deref();
    assert_eq!(data, Some(ID), "{what}");
}

#[test]
fn a_cluster_begins_with_a_backup_as_of_a_revision_and_says_which() {
    for seed in seeds(5) {
        let mut run = Run::new(begins(3, seed));
        run.settle(BOUND).unwrap();
        came_back(&run.world, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1, "seed {seed}");
    }
    let played = killed_at_every_write(&begins(1, 3), &|run| {
        let turns = run.settle(BOUND)?;
        came_back(&run.world, "killed");
        Ok(turns)
    });
    assert!(played.unwrap() > 10);
}

#[test]
fn a_revision_takes_the_place_of_the_data() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = replaces(seed);
        end(&mut run).unwrap();
        came_back(&run.world, &what);
        assert_eq!(run.world.memory().replace.unwrap().failure, None, "{what}");
        assert_eq!(run.world.backup.jobs, 2, "{what}");
    }
}

#[test]
fn the_newest_revision_is_the_backup_as_it_is() {
    let mut run = settled(3, 6, 4);
    run.world.backup.moment = Some(NEWEST);
    run.world.ask_to_replace(ID);
    end(&mut run).unwrap();
    let restored = run.world.object.status.restored.clone().unwrap();
    assert_eq!((restored.revision, restored.bytes), (NEWEST, 100));
    assert_eq!(restored.leases, None);
}

/// Wrong rules, each of which would begin with something else than was read.
#[test]
fn what_was_not_read_is_not_used() {
    let (mut brought, mut fetched) = (0, 0);
    let others: [fn(&mut FetchedMemory); 4] = [
        |it| it.base_trailer = Some("00".to_owned()),
        |it| it.base_trailer = None,
        |it| it.restored.revision = NEWEST,
        |it| it.restored.backup = "another".to_owned(),
    ];
    let mut run = replaces(9);
    for _ in 0..300 {
        run.world.tick();
        let look = run.look();
        let observed = look.observed.clone();
        let step = plan::decide(&observed).step;
        if let Step::Fetch(fetch) = &step
            && !fetch.check
        {
            for revision in [None, Some(NEWEST)] {
                let mut other = fetch.clone();
                let plan::observed::Wanted::Backup {
                    revision: asked, ..
                } = &mut other.wish.wanted
                else {
                    panic!("a backup")
                };
                *asked = revision;
                let refused = check(&observed, &Step::Fetch(other));
                assert_eq!(refused, Err(Violation::Restore), "{revision:?}");
            }
            fetched += 1;
        }
        if let Step::Latch(new) = &step
            && seed_of(new).is_some()
            && observed.cluster.latched.is_being_replaced()
        {
            for change in others {
                let mut new = new.clone();
                change(seed_of_mut(&mut new));
                let refused = check(&observed, &Step::Latch(new));
                assert_eq!(refused, Err(Violation::Restore));
            }
            brought += 1;
        }
        run.reconcile(&look);
    }
    assert!(brought > 0 && fetched > 0, "{brought} {fetched}");
}

fn seed_of(latched: &plan::observed::Latched) -> Option<&FetchedMemory> {
    let replace = latched.replace.as_ref()?;
    let far = [ReplaceStage::Fetching, ReplaceStage::Bootstrapping].contains(&replace.stage);
    replace.seed.as_ref().filter(|_| far)?.fetched.as_ref()
}

fn seed_of_mut(latched: &mut plan::observed::Latched) -> &mut FetchedMemory {
    let seed = latched.replace.as_mut().unwrap().seed.as_mut().unwrap();
    seed.fetched.as_mut().unwrap()
}
