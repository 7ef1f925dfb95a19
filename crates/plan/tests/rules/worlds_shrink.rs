//! Stories of clusters that are made smaller, in the simulated Kubernetes and etcd.

use api::Reason;
use plan::observed::NodeState;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::{Run, World};

#[test]
fn a_cluster_shrinks_by_every_edit_of_its_size() {
    for seed in seeds(15) {
        for minor in [5, 6] {
            let mut run = settled(5, minor, seed);
            for size in [3, 1, 3] {
                run.world.resize(size);
                settle(&mut run, &format!("3.{minor} to {size}, seed {seed}"));
                let voters = usize::try_from(size).unwrap();
                assert_eq!(run.world.healthy_voters(), voters);
                assert_eq!(run.world.claims.len(), voters, "claims of those who left");
            }
            assert_eq!(run.world.clusters.len(), 1);
        }
    }
}

#[test]
fn nothing_is_called_done_before_the_last_volume_is_gone() {
    let mut looks = 0;
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        run.world.resize(1);
        for _ in 0..200 {
            let decision = run.turn();
            let left = run.world.claims.len() > 1;
            looks += usize::from(left);
            let done = decision.reason() == Reason::AsExpected;
            // What the look saw may have gone since, but never the other way round.
            assert!(!(left && done), "seed {seed}: {decision:?}");
        }
        assert_eq!(run.world.claims.len(), 1, "seed {seed}");
    }
    assert!(looks > 100, "{looks}");
}

#[test]
fn shrinking_survives_a_kill_at_every_write() {
    for (size, minor) in [(3, 5), (3, 6)] {
        let mut run = settled(size, minor, 5);
        run.world.resize(1);
        run.world.writes = 0;
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn rapid_edits_end_at_the_last_one() {
    for seed in seeds(30) {
        for edits in [[7, 5], [1, 3], [5, 1], [1, 5]] {
            let mut run = settled(3, 6, seed);
            for size in edits {
                run.world.resize(size);
                run.turns(usize::try_from(seed % 12).unwrap());
            }
            settle(&mut run, &format!("{edits:?}, seed {seed}"));
            let voters = usize::try_from(edits[1]).unwrap();
            assert_eq!(run.world.healthy_voters(), voters, "{edits:?}, seed {seed}");
            assert_eq!(run.world.claims.len(), voters, "{edits:?}, seed {seed}");
        }
    }
}

#[test]
fn shrinking_survives_every_fault_at_once() {
    for seed in seeds(30) {
        let mut run = settled(5, 6, seed);
        run.world.resize(3);
        run.faults = Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1);
    }
}

#[test]
fn no_claim_is_left_behind_though_the_member_list_cannot_always_be_read() {
    for seed in seeds(40) {
        let mut run = settled(3, 6, seed);
        run.world.resize(1);
        run.faults = Faults {
            blind_list: 40,
            ..Faults::default()
        };
        run.turns(120);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.claims.len(), 1, "seed {seed}");
    }
}

#[test]
fn never_shrinks_into_the_dark() {
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        run.world.freeze(0, true);
        run.world.resize(1);
        run.turns(150);
        let cluster = run.world.clusters.values().next().unwrap();
        assert_eq!(cluster.members.len(), 3, "seed {seed}");
        run.world.freeze(0, false);
        settle(&mut run, &format!("seed {seed}"));
    }
}

#[test]
fn an_object_created_anew_smaller_resumes_and_shrinks() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        let acknowledged = run.world.clusters.values().next().unwrap().acknowledged;
        run.world.create_again(1);
        settle(&mut run, &format!("seed {seed}"));
        let cluster = run.world.clusters.values().next().unwrap();
        assert!(cluster.acknowledged >= acknowledged && run.world.clusters.len() == 1);
        assert_eq!(run.world.healthy_voters(), 1);
    }
}

#[test]
fn every_cycle_of_sizes_survives_a_kill_at_every_write() {
    for (minor, sizes) in [
        (6, [1, 3, 1, 0, 1].as_slice()),
        (5, [1, 3, 1, 0, 1].as_slice()),
        (6, [0, 1, 3, 5, 3, 1, 0].as_slice()),
        (6, [3, 0, 5, 0, 1].as_slice()),
    ] {
        let world = World::new(sizes[0], minor, 9);
        let play = |run: &mut Run<'_>| {
            let mut turns = run.settle(BOUND)?;
            for size in &sizes[1..] {
                run.world.resize(*size);
                turns += run.settle(BOUND)?;
            }
            let voters = run.world.healthy_voters();
            let wanted = usize::try_from(sizes[sizes.len() - 1]).map_err(|e| e.to_string())?;
            let same = run.world.clusters.len() == 1 && voters == wanted;
            same.then_some(turns)
                .ok_or_else(|| format!("{voters} voters"))
        };
        let played = killed_at_every_write(&world, &play).unwrap();
        println!("{sizes:?}: {played} kills");
    }
}

#[test]
fn rapid_edits_survive_a_kill_at_every_write() {
    let mut run = settled(3, 6, 5);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| {
        run.world.resize(7);
        run.turns(7);
        run.world.resize(5);
        run.settle(BOUND)
    })
    .unwrap();
}

/// One of those that stay lost its data in the moment in which fewer are asked for.
#[test]
fn a_member_that_is_missing_joins_before_fewer_vote_than_are_asked_for() {
    for seed in seeds(10) {
        for (minor, from, to) in [(6, 5, 3), (5, 5, 3), (6, 7, 5), (6, 3, 1)] {
            let what = format!("3.{minor}, {from} to {to}, seed {seed}");
            let mut run = settled(from, minor, seed);
            run.world.empty_volume(0);
            run.world.resize(to);
            let mut fewest = usize::MAX;
            for _ in 0..400 {
                run.turn();
                run.world.sleep(1);
                let clusters = run.world.clusters.values();
                let voters =
                    |c: &testkit::world::Cluster| c.members.iter().filter(|m| !m.learner).count();
                fewest = fewest.min(clusters.map(voters).max().unwrap());
            }
            assert!(fewest >= usize::try_from(to).unwrap(), "{what}: {fewest}");
            settle(&mut run, &what);
            assert_eq!(
                run.world.healthy_voters(),
                usize::try_from(to).unwrap(),
                "{what}"
            );
        }
    }
}

/// Every node takes one member, and two nodes are gone for good: what is asked for now is what fits.
#[test]
fn members_that_find_no_node_keep_no_other_from_leaving() {
    for seed in seeds(10) {
        let what = format!("seed {seed}");
        let mut run = settled(5, 6, seed);
        run.world.places = Some(3);
        for ordinal in [0, 1] {
            run.world.set_node(ordinal, NodeState::Deleted);
            pass(&mut run, 100);
        }
        run.world.resize(3);
        pass(&mut run, 300);
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
    }
}

fn pass(run: &mut Run<'_>, seconds: u32) {
    for _ in 0..seconds {
        run.turn();
        run.world.sleep(1);
    }
}
