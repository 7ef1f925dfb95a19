//! Stories of databases that run full, fall apart or differ, in the simulated Kubernetes and etcd.

use api::Reason;
use api::intent::DailyWindow;
use plan::Decision;
use plan::Step;
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};

const MIB: u64 = 1 << 20;
/// A quota that a story fills quickly.
const QUOTA: u64 = 64 * MIB;

/// A cluster whose quota is so small, after so many writes of which each takes 16 KiB: 3000 of them are 47 MiB.
fn filled(size: u32, minor: u8, seed: u64, writes: u64) -> Run<'static> {
    let mut run = settled(size, minor, seed);
    run.world.upkeep.row = MIB / 64;
    run.world.set_quota(QUOTA);
    settle(&mut run, &format!("the quota, seed {seed}"));
    write(&mut run, writes);
    run
}

fn write(run: &mut Run<'_>, entries: u64) {
    let id = *run.world.clusters.keys().next().unwrap();
    run.world.write(id, entries);
}

fn members(run: &Run<'_>) -> Vec<u64> {
    let cluster = run.world.clusters.values().next().unwrap();
    let mut ids: Vec<u64> = cluster.members.iter().map(|member| member.id).collect();
    ids.sort_unstable();
    ids
}

fn is_roomy(run: &Run<'_>) -> bool {
    let full = |id: &u64| run.world.file(*id) * 10 >= QUOTA * 8;
    run.world.upkeep.alarms.is_empty() && !members(run).iter().any(full)
}

fn is_full(decision: &Decision) -> bool {
    (&decision.step, decision.reason()) == (&Step::Refuse, Reason::NoSpace)
}

#[test]
fn a_database_at_its_quota_gets_room_by_itself() {
    for seed in seeds(15) {
        for (size, minor) in [(1, 5), (1, 6), (3, 5), (3, 6), (3, 7), (5, 7)] {
            let mut run = filled(size, minor, seed, 5000);
            let acknowledged = |run: &Run<'_>| {
                let cluster = run.world.clusters.values().next().unwrap();
                cluster.acknowledged
            };
            run.turns(3);
            assert!(!run.world.upkeep.alarms.is_empty(), "seed {seed}");
            let before = acknowledged(&run);
            settle(&mut run, &format!("size {size} of 3.{minor}, seed {seed}"));
            assert!(is_roomy(&run), "size {size} of 3.{minor}, seed {seed}");
            assert!(!run.world.upkeep.defragmented.is_empty(), "seed {seed}");
            // Writes are taken again.
            run.turns(20);
            assert!(acknowledged(&run) > before, "seed {seed}");
            let memory = run.world.memory();
            assert!(memory.compacted.is_some() && memory.disturbance.is_none());
        }
    }
}

#[test]
fn a_database_near_its_quota_gets_room_before_etcd_complains() {
    for seed in seeds(15) {
        let mut run = filled(3, 6, seed, 3800);
        // A member that is behind must have what is kept before the rest is compacted.
        run.turns(30);
        settle(&mut run, &format!("seed {seed}"));
        assert!(!run.world.upkeep.defragmented.is_empty(), "seed {seed}");
        assert!(run.world.upkeep.alarms.is_empty(), "seed {seed}");
        let full = |id: &u64| run.world.file(*id) * 10 >= QUOTA * 9;
        assert!(!members(&run).iter().any(full), "seed {seed}");
    }
}

#[test]
fn making_room_survives_a_kill_at_every_write() {
    for (size, minor) in [(1, 6), (3, 5), (3, 7)] {
        let mut run = filled(size, minor, 3, 5000);
        run.turns(1);
        run.world.writes = 0;
        killed_at_every_write(&run.world, &|run| {
            let turns = run.settle(BOUND)?;
            if is_roomy(run) {
                Ok(turns)
            } else {
                Err("there is no room".to_owned())
            }
        })
        .unwrap();
    }
}

#[test]
fn making_room_survives_every_fault_at_once() {
    for seed in seeds(40) {
        let size = [1, 3, 5][usize::try_from(seed % 3).unwrap()];
        let mut run = filled(size, 6, seed, 5000);
        run.faults = Faults::ALL;
        run.turns(200);
        settle(&mut run, &format!("size {size}, seed {seed}"));
        assert!(is_roomy(&run), "size {size}, seed {seed}");
    }
}

#[test]
fn keys_that_fill_the_quota_are_left_alone_and_a_larger_quota_helps() {
    for seed in seeds(15) {
        for (size, minor) in [(1, 6), (3, 5), (3, 6)] {
            let mut run = filled(size, minor, seed, 100);
            run.world.upkeep.keys = QUOTA;
            let what = format!("size {size} of 3.{minor}, seed {seed}");
            run.settle_as(BOUND, &is_full)
                .unwrap_or_else(|why| panic!("{what}: {why}"));
            let conditions = &run.world.object.status.conditions;
            let degraded = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
            assert_eq!(degraded.reason, "NoSpace");
            assert!(
                degraded.message.contains("quotaBackendBytes"),
                "{degraded:?}"
            );
            run.world.set_quota(4 * QUOTA);
            settle(&mut run, &what);
            assert!(run.world.upkeep.alarms.is_empty(), "{what}");
        }
    }
}

#[test]
fn room_is_made_in_the_middle_of_every_change() {
    for seed in seeds(40) {
        let mut run = filled(3, 6, seed, 2000);
        match seed % 5 {
            0 => run.world.resize(5),
            1 => run.world.edit(1),
            2 => run.world.upgrade(7),
            3 => run.world.resize(1),
            _ => run.world.lose_claim(1),
        }
        let turns = run.world.rng.below(40);
        run.turns(usize::try_from(turns).unwrap());
        write(&mut run, 3000);
        settle(&mut run, &format!("change {}, seed {seed}", seed % 5));
        assert!(is_roomy(&run), "change {}, seed {seed}", seed % 5);
        assert_eq!(run.world.clusters.len(), 1);
    }
}

/// A cluster whose members follow to another template, one of them at this moment, and whose database is full.
fn full_in_a_rollout(size: u32, seed: u64) -> Run<'static> {
    let mut run = filled(size, 6, seed, 2000);
    run.world.edit(1);
    let follows = (0..BOUND).any(|_| {
        run.turn();
        let memory = run.world.memory();
        let proven = memory.proven.as_ref().map(|proven| &proven.template);
        memory.trial().map(|trial| &trial.template) == proven
    });
    assert!(follows, "size {size}, seed {seed}");
    write(&mut run, 3000);
    run
}

#[test]
fn a_rollout_gives_way_to_a_database_that_is_full() {
    for seed in seeds(20) {
        let mut run = full_in_a_rollout(5, seed);
        let raised = (0..20).any(|_| {
            run.turn();
            !run.world.upkeep.alarms.is_empty()
        });
        assert!(raised, "seed {seed}");
        let uids = |run: &Run<'_>| -> Vec<String> {
            let pods = run.world.pods.values();
            pods.map(|pod| pod.uid.clone()).collect()
        };
        let before = uids(&run);
        let freed = (0..BOUND).any(|_| {
            run.turn();
            run.world.upkeep.alarms.is_empty()
        });
        assert!(freed, "seed {seed}");
        // The member that was recorded when the alarm was raised is restarted, and no other.
        let after = uids(&run);
        let same = after.iter().filter(|uid| before.contains(uid)).count();
        assert!(same >= 4, "seed {seed}: {same} pods are the same");
        settle(&mut run, &format!("seed {seed}"));
        assert!(is_roomy(&run), "seed {seed}");
    }
}

#[test]
fn a_rollout_that_gives_way_survives_kills_and_faults() {
    let mut run = full_in_a_rollout(3, 3);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    for seed in seeds(20) {
        let mut run = full_in_a_rollout(if seed % 2 == 0 { 3 } else { 5 }, seed);
        run.faults = Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("seed {seed}"));
        assert!(is_roomy(&run), "seed {seed}");
    }
}

#[test]
fn no_member_is_defragmented_that_a_keeper_reads() {
    // Nothing is done for a file below nine tenths of its quota while no alarm stands.
    let pressed = |run: &Run<'_>| {
        let ids = members(run).into_iter();
        let full = ids.filter(|id| run.world.file(*id) * 10 >= QUOTA * 9);
        full.collect::<Vec<u64>>()
    };
    let mut waited = 0;
    for seed in seeds(10) {
        let mut run = filled(3, 6, seed, 2000);
        run.world.upkeep.read.insert(1);
        write(&mut run, 3000);
        run.turns(80);
        assert!(!run.world.upkeep.defragmented.is_empty(), "the others are");
        waited += pressed(&run).len();
        run.world.upkeep.read.clear();
        settle(&mut run, &format!("seed {seed}"));
        assert!(pressed(&run).is_empty(), "seed {seed}");
        assert!(run.world.upkeep.alarms.is_empty(), "seed {seed}");
    }
    assert!(waited > 0, "one that was read is defragmented afterwards");
}

#[test]
fn files_that_are_mostly_empty_are_written_again() {
    for seed in seeds(15) {
        for size in [1, 3, 5] {
            let mut run = fragmented(size, seed);
            settle(&mut run, &format!("size {size}, seed {seed}"));
            let all = members(&run);
            for id in &all {
                assert!(run.world.file(*id) < 100 * MIB, "size {size}, seed {seed}");
            }
        }
    }
}

/// Files of 300 MiB, of which next to nothing is used, far from the quota.
fn fragmented(size: u32, seed: u64) -> Run<'static> {
    let mut run = settled(size, 6, seed);
    run.world.upkeep.keys = 300 * MIB;
    run.world.upkeep.never = true;
    run.turns(8);
    run.world.upkeep.keys = 10 * MIB;
    run.world.upkeep.never = false;
    run
}

#[test]
fn files_are_left_alone_outside_the_window_and_by_wish() {
    for seed in seeds(5) {
        // The world begins an hour after midnight, and no story takes longer than an hour.
        let (start, minutes) = (12 * 60, 60);
        let mut run = fragmented(3, seed);
        run.world.upkeep.window = Some(DailyWindow { start, minutes });
        settle(&mut run, &format!("outside, seed {seed}"));
        assert!(run.world.upkeep.defragmented.is_empty(), "seed {seed}");
        run.world.upkeep.never = true;
        run.world.upkeep.window = None;
        settle(&mut run, &format!("never, seed {seed}"));
        assert!(run.world.upkeep.defragmented.is_empty(), "seed {seed}");
        run.world.upkeep.never = false;
        let start = 0;
        run.world.upkeep.window = Some(DailyWindow { start, minutes });
        run.world.sleep(23 * 3600);
        settle(&mut run, &format!("inside, seed {seed}"));
        assert!(!run.world.upkeep.defragmented.is_empty(), "seed {seed}");
    }
}

#[test]
fn defragmenting_survives_kills_and_faults() {
    for size in [1, 3] {
        let mut run = fragmented(size, 3);
        run.world.writes = 0;
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    }
    for seed in seeds(30) {
        let mut run = fragmented(if seed % 2 == 0 { 3 } else { 5 }, seed);
        run.faults = Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("seed {seed}"));
    }
}

#[test]
fn a_member_whose_data_differs_is_replaced() {
    for seed in seeds(15) {
        for (size, minor) in [(3, 5), (3, 6), (5, 7)] {
            for alarmed in [false, true] {
                let mut run = settled(size, minor, seed);
                let victim = u32::try_from(seed % u64::from(size)).unwrap();
                let bad = spoiled(&mut run, victim, alarmed);
                let what = format!("{victim} of {size}, alarm {alarmed}, seed {seed}");
                settle(&mut run, &what);
                let after = members(&run);
                assert!(!after.contains(&bad), "{what}");
                assert_eq!(after.len(), usize::try_from(size).unwrap(), "{what}");
                assert!(run.world.upkeep.alarms.is_empty(), "{what}");
            }
        }
    }
}

fn spoiled(run: &mut Run<'_>, victim: u32, alarmed: bool) -> u64 {
    run.world.spoil(victim, 7);
    run.turns(1);
    let bad = *run.world.upkeep.wrong.keys().next().unwrap();
    if alarmed {
        run.world.raise_corrupt(bad);
    } else {
        run.world.upkeep.compare = true;
    }
    bad
}

#[test]
fn replacing_what_differs_survives_kills_and_faults() {
    for alarmed in [false, true] {
        let mut run = settled(3, 6, 3);
        spoiled(&mut run, 1, alarmed);
        run.world.writes = 0;
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
        for seed in seeds(20) {
            let mut run = settled(if seed % 2 == 0 { 3 } else { 5 }, 6, seed);
            let victim = u32::try_from(seed % 3).unwrap();
            let bad = spoiled(&mut run, victim, alarmed);
            run.faults = Faults::ALL;
            run.turns(150);
            settle(&mut run, &format!("victim {victim}, seed {seed}"));
            assert!(!members(&run).contains(&bad), "seed {seed}");
        }
    }
}

#[test]
fn without_a_majority_a_person_wipes_one_and_the_rest_follows() {
    for seed in seeds(15) {
        let mut run = settled(3, 6, seed);
        let leader = run.world.clusters.values().next().unwrap().leader.unwrap();
        let data = |run: &Run<'_>, ordinal: u32| run.world.claims[&ordinal].volume.data.unwrap();
        let others: Vec<u32> = (0..3)
            .filter(|ordinal| data(&run, *ordinal).member != leader)
            .collect();
        for (ordinal, into) in others.iter().zip(1..) {
            run.world.spoil(*ordinal, into);
        }
        run.world.raise_corrupt(0);
        let refused = |decision: &Decision| decision.step == Step::Refuse;
        run.settle_as(BOUND, &refused).unwrap();
        run.world.lose_claim(others[0]);
        settle(&mut run, &format!("seed {seed}"));
        let wrong = members(&run)
            .into_iter()
            .filter(|id| run.world.upkeep.wrong.contains_key(id));
        assert_eq!(wrong.count(), 0, "seed {seed}");
        assert!(run.world.upkeep.alarms.is_empty(), "seed {seed}");
    }
}

#[test]
fn without_a_majority_that_agrees_nothing_is_touched() {
    for seed in seeds(15) {
        for (size, bad) in [(3, vec![(0, 1), (1, 2)]), (5, vec![(0, 1), (2, 1), (4, 2)])] {
            let mut run = settled(size, 6, seed);
            let before = members(&run);
            for (ordinal, into) in bad {
                run.world.spoil(ordinal, into);
            }
            run.world.raise_corrupt(0);
            let claims: Vec<String> = run.world.claims.values().map(|c| c.uid.clone()).collect();
            let refused = |decision: &Decision| {
                (&decision.step, decision.reason()) == (&Step::Refuse, Reason::DataInconsistent)
            };
            run.settle_as(BOUND, &refused).unwrap();
            run.faults = Faults::ALL;
            run.turns(100);
            run.verdict().unwrap();
            assert_eq!(members(&run), before, "size {size}, seed {seed}");
            let kept = run.world.claims.values().map(|c| c.uid.clone());
            assert_eq!(kept.collect::<Vec<_>>(), claims, "seed {seed}");
        }
    }
}

/// What may be forgotten is the owner's word.
#[test]
fn history_that_the_owner_keeps_is_kept() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        run.world.upkeep.kept = Some(2500);
        run.world.upkeep.row = MIB / 64;
        run.world.set_quota(QUOTA);
        settle(&mut run, &format!("the quota, seed {seed}"));
        write(&mut run, 5000);
        settle(&mut run, &format!("seed {seed}"));
        let cluster = run.world.clusters.values().next().unwrap();
        let kept = cluster.acknowledged - run.world.upkeep.compacted;
        assert!(kept >= 2500, "{kept}, seed {seed}");
        assert!(run.world.upkeep.compacted > 0, "seed {seed}");
    }
}

#[test]
fn where_nothing_may_be_compacted_the_condition_says_so() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        run.world.upkeep.keep_all = true;
        run.world.upkeep.row = MIB / 64;
        run.world.set_quota(QUOTA);
        settle(&mut run, &format!("the quota, seed {seed}"));
        write(&mut run, 5000);
        run.turns(100);
        run.verdict().unwrap();
        assert_eq!(run.world.upkeep.compacted, 0, "seed {seed}");
        let told = format!("{:?}", run.world.object.status.conditions);
        assert!(told.contains("spec.maintenance.compact is Never"), "{told}");
        // The remedy that is named works.
        run.world.upkeep.keep_all = false;
        settle(&mut run, &format!("taken back, seed {seed}"));
        assert!(is_roomy(&run), "seed {seed}");
    }
}
