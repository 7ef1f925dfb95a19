//! Stories of members that run and do not keep up, in the simulated Kubernetes and etcd.
#![expect(clippy::panic, reason = "test code: a failure is the point")]

use api::Reason;
use api::v1alpha1::status::HangIntent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::Step;
use plan::events::decide_events;
use plan::observed::{Latched, Process, format_id};
use plan::status::Outcome;
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};

fn members(run: &Run<'_>) -> Vec<u64> {
    let clusters = run.world.clusters.values();
    let members = clusters.flat_map(|cluster| &cluster.members);
    let mut ids: Vec<u64> = members.map(|member| member.id).collect();
    ids.sort_unstable();
    ids
}

fn voters(size: u32) -> usize {
    usize::try_from(size).unwrap_or(0)
}

fn pod(run: &Run<'_>, ordinal: u32) -> String {
    let pod = run.world.pods.get(&ordinal);
    pod.map(|pod| pod.uid.clone()).unwrap_or_default()
}

/// Writes go on until the member that hangs is behind.
fn fall_behind(run: &mut Run<'_>) {
    run.turns(20);
}

#[test]
fn a_member_that_hangs_is_restarted_and_stays_who_it_is() {
    for seed in seeds(15) {
        for (size, minor) in [(3, 5), (3, 6), (5, 7)] {
            let mut run = settled(size, minor, seed);
            let before = members(&run);
            let victim = u32::try_from(seed % u64::from(size)).unwrap();
            let old = pod(&run, victim);
            run.world.hang(victim, false);
            fall_behind(&mut run);
            assert_eq!(pod(&run, victim), old, "too early: seed {seed}");
            settle(&mut run, &format!("{victim} of {size}, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), voters(size));
            assert_ne!(pod(&run, victim), old, "seed {seed}");
            assert_eq!(members(&run), before, "a member was replaced: seed {seed}");
        }
    }
}

#[test]
fn a_member_that_hangs_again_comes_back_on_another_volume() {
    for seed in seeds(15) {
        for (size, minor) in [(3, 5), (3, 6), (5, 7)] {
            let mut run = settled(size, minor, seed);
            let before = members(&run);
            let victim = u32::try_from(seed % u64::from(size)).unwrap();
            run.world.hang(victim, true);
            fall_behind(&mut run);
            settle(&mut run, &format!("{victim} of {size}, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), voters(size));
            let after = members(&run);
            let same = after.iter().filter(|id| before.contains(id)).count();
            assert_eq!(same, voters(size) - 1, "one and only one was replaced");
            assert!(run.world.claims.values().all(|claim| !claim.volume.stalled));
        }
    }
}

#[test]
fn a_person_is_told_what_its_disk_does_and_what_is_done() {
    let mut run = settled(3, 6, 2);
    run.world.hang(1, true);
    let (mut told, mut events) = (Vec::new(), Vec::new());
    for _ in 0..150 {
        run.world.tick();
        let look = run.look();
        let decision = plan::decide(&look.observed);
        let happened = decide_events(&look.observed, &decision, &Outcome::Done, (None, None));
        events.extend(happened.into_iter().map(|event| event.message));
        run.reconcile(&look);
        run.world.sleep(1);
        let conditions = &run.world.object.status.conditions;
        let degraded = conditions.iter().find(|c| c.type_ == "Degraded");
        told.extend(degraded.map(|c| (c.reason.clone(), c.message.clone())));
    }
    let disk = "db-1 does not keep up: it has completed no disk write since ";
    for next in [
        "if this lasts, it is restarted once",
        "it was restarted at ",
    ] {
        let found = told.iter().any(|(reason, text)| {
            reason == "MemberStalled" && text.starts_with(disk) && text.contains(next)
        });
        assert!(found, "no condition says {next:?}: {told:?}");
    }
    for words in [
        "restarted db-1, which did not keep up: it has completed no disk write since ",
        "it stalls again after a restart: it has completed no disk write since ",
    ] {
        let found = events.iter().any(|text| text.contains(words));
        assert!(found, "no event says {words:?}: {events:?}");
    }
}

#[test]
fn what_was_tried_is_forgotten_when_it_has_helped() {
    let mut run = settled(3, 6, 1);
    run.world.hang(1, false);
    fall_behind(&mut run);
    settle(&mut run, "restarted");
    assert_eq!(run.world.memory().hung.len(), 1);
    run.world.sleep(600);
    settle(&mut run, "forgotten");
    assert!(run.world.memory().hung.is_empty());
}

#[test]
fn its_replacement_is_not_replaced_for_the_same_at_once() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        run.world.hang(1, true);
        fall_behind(&mut run);
        settle(&mut run, &format!("seed {seed}"));
        let before = members(&run);
        // The new volume is no better than the old one.
        run.world.hang(1, true);
        let old = pod(&run, 1);
        fall_behind(&mut run);
        for _ in 0..300 {
            run.turn();
            run.world.sleep(1);
        }
        run.verdict().unwrap();
        assert_eq!(members(&run), before, "seed {seed}");
        assert_eq!(pod(&run, 1), old, "seed {seed}");
        assert!(run.reasons.contains_key(&Reason::MemberStalled));
    }
}

#[test]
fn without_a_quorum_of_the_others_no_member_is_touched() {
    for seed in seeds(15) {
        for (size, hung) in [(1, vec![0]), (2, vec![1]), (3, vec![0, 2])] {
            let mut run = settled(size, 6, seed);
            let before = members(&run);
            let pods: Vec<String> = (0..size).map(|n| pod(&run, n)).collect();
            for ordinal in hung {
                run.world.hang(ordinal, true);
            }
            for _ in 0..200 {
                run.turn();
                run.world.sleep(1);
            }
            run.verdict().unwrap();
            assert_eq!(members(&run), before, "size {size}, seed {seed}");
            let now: Vec<String> = (0..size).map(|n| pod(&run, n)).collect();
            assert_eq!(now, pods, "size {size}, seed {seed}");
        }
    }
}

#[test]
fn no_member_is_touched_while_others_do_not_respond() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        run.world.hang(1, true);
        fall_behind(&mut run);
        run.world.sleep(40);
        let seen = run.look();
        // Before it is recorded, before it is restarted, and before it is replaced.
        for pod_uid in [None, Some(pod(&run, 1)), Some("an earlier pod".to_owned())] {
            let mut look = seen.clone();
            let member = look.observed.member_of(1).unwrap();
            assert!(look.observed.hangs(member).is_some(), "seed {seed}");
            let intent = |pod_uid| HangIntent {
                member: "db-1".to_owned(),
                member_id: format_id(member.id),
                pod_uid,
                time: Time(look.observed.now),
            };
            look.observed.cluster.latched.hung = pod_uid.map(intent).into_iter().collect();
            let well = plan::decide(&look.observed);
            assert!(
                matches!(well.step, Step::Latch(_) | Step::RestartPod { .. }),
                "{well:?}"
            );
            let other = look.observed.pods.get_mut(&2).unwrap();
            other.process = Process::Unknown;
            let decision = plan::decide(&look.observed);
            assert_eq!(decision.step, Step::Wait, "{decision:?}");
        }
    }
}

#[test]
fn two_of_five_that_hang_are_repaired_one_after_the_other() {
    for seed in seeds(15) {
        let mut run = settled(5, 6, seed);
        run.world.hang(1, true);
        run.world.hang(3, seed % 2 == 0);
        fall_behind(&mut run);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 5);
    }
}

#[test]
fn mending_survives_a_kill_at_every_write() {
    for (size, minor, victim, bad_disk) in [(3, 5, 0, true), (3, 6, 1, false), (5, 7, 4, true)] {
        let mut run = settled(size, minor, 3);
        run.world.hang(victim, bad_disk);
        let id = *run.world.clusters.first_key_value().unwrap().0;
        run.world.tick();
        run.world.write(id, 10);
        run.world.writes = 0;
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn mending_survives_every_fault_at_once() {
    for seed in seeds(30) {
        let mut run = settled(if seed % 2 == 0 { 3 } else { 5 }, 6, seed);
        let victim = u32::try_from(seed % 3).unwrap();
        run.world.hang(victim, true);
        run.faults = Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("victim {victim}, seed {seed}"));
        let healthy = run.world.healthy_voters();
        assert_eq!(healthy, run.world.pods.len(), "seed {seed}");
    }
}

#[test]
fn a_member_that_hangs_in_the_middle_of_a_change_keeps_nothing_from_ending() {
    for seed in seeds(40) {
        let mut run = settled(3, 6, seed);
        match seed % 4 {
            0 => run.world.resize(5),
            1 => run.world.edit(1),
            2 => run.world.upgrade(7),
            _ => run.world.enlarge(20),
        }
        let turns = run.world.rng.below(40);
        run.turns(usize::try_from(turns).unwrap());
        let victim = u32::try_from(seed % 3).unwrap();
        run.world.hang(victim, seed % 8 < 4);
        fall_behind(&mut run);
        // Where it tries something new, that may be to blame, and a person decides.
        let memory = run.world.memory();
        let proven = memory.proven.as_ref().map(|proven| &proven.template);
        let tries = memory.trial().is_some_and(|trial| {
            trial.member == format!("db-{victim}") && proven != Some(&trial.template)
        });
        if tries {
            continue;
        }
        let what = format!("change {}, {victim} hangs, seed {seed}", seed % 4);
        settle(&mut run, &what);
        assert!(run.world.hung().is_empty(), "{what}");
    }
}

/// Turns until the status says so.
fn until(run: &mut Run<'_>, what: &str, holds: &dyn Fn(&Latched) -> bool) {
    for _ in 0..BOUND {
        if holds(&run.world.memory()) {
            return;
        }
        run.turn();
    }
    panic!("it never came to that: {what}");
}

#[test]
fn a_member_that_hangs_while_the_logs_are_renewed_is_restarted() {
    for seed in seeds(15) {
        for taken_back in [false, true] {
            let what = format!("taken back {taken_back}, seed {seed}");
            let mut run = settled(3, 5, seed);
            run.world.upgrade(6);
            settle(&mut run, &what);
            run.world.upgrade(7);
            until(&mut run, &what, &Latched::is_renewing);
            let victim = u32::try_from(seed % 3).unwrap();
            run.world.hang(victim, false);
            if taken_back {
                run.world.upgrade(6);
            }
            fall_behind(&mut run);
            settle(&mut run, &what);
            assert!(run.world.hung().is_empty(), "{what}");
            let minor = if taken_back { 6 } else { 7 };
            assert!(run.world.minors().iter().all(|runs| *runs == minor));
            assert!(!run.world.memory().is_renewing(), "{what}");
        }
    }
}

#[test]
fn a_renewal_that_is_no_longer_asked_for_is_forgotten() {
    for seed in seeds(15) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 5, seed);
        run.world.upgrade(6);
        settle(&mut run, &what);
        run.world.upgrade(7);
        until(&mut run, &what, &Latched::is_renewing);
        run.world.upgrade(6);
        settle(&mut run, &what);
        assert!(!run.world.memory().is_renewing(), "{what}");
    }
}

#[test]
fn a_member_that_hangs_while_another_is_to_be_defragmented_is_restarted() {
    for seed in seeds(15) {
        for itself in [false, true] {
            let what = format!("itself {itself}, seed {seed}");
            let mut run = settled(3, 6, seed);
            run.world.upkeep.row = (1 << 20) / 64;
            run.world.set_quota(64 << 20);
            settle(&mut run, &what);
            let id = *run.world.clusters.first_key_value().unwrap().0;
            run.world.write(id, 5000);
            until(&mut run, &what, &|memory| memory.defragmenting().is_some());
            let name = run.world.memory().defragmenting().cloned().unwrap();
            let chosen = api::names::ordinal("db", &name).unwrap();
            let victim = if itself { chosen } else { (chosen + 1) % 3 };
            run.world.hang(victim, false);
            // Where etcd takes no writes no member falls behind, and a hang shows by the reads only.
            for _ in 0..60 {
                run.turn();
                run.world.sleep(1);
            }
            settle(&mut run, &what);
            assert!(run.world.hung().is_empty(), "{what}");
            assert_eq!(run.world.memory().disturbance, None, "{what}");
            assert!(run.world.upkeep.alarms.is_empty(), "{what}");
        }
    }
}

/// A change that does not come up may stay so for days, until its owner corrects it.
#[test]
fn a_halted_rollout_keeps_no_other_member_from_being_restarted() {
    for seed in seeds(10) {
        let what = format!("seed {seed}");
        let mut run = settled(5, 6, seed);
        let before = members(&run);
        run.world.bad_edits.insert(1);
        run.world.edit(1);
        let halted = |decision: &plan::Decision| decision.reason() == Reason::RolloutHalted;
        run.settle_as(BOUND, &halted).unwrap();
        let tries = run.world.pods.values().position(|pod| pod.template.bad);
        let tries = u32::try_from(tries.unwrap()).unwrap();
        let victim = (0..5).find(|ordinal| *ordinal != tries).unwrap();
        let old = pod(&run, victim);
        run.world.hang(victim, false);
        for _ in 0..150 {
            run.turn();
            run.world.sleep(1);
        }
        assert_ne!(pod(&run, victim), old, "{what}");
        assert_eq!(run.world.healthy_voters(), 4, "{what}");
        assert!(!run.world.pods[&victim].template.bad, "{what}");
        run.verdict().unwrap();
        run.world.edit(0);
        settle(&mut run, &what);
        assert_eq!(members(&run), before, "{what}");
    }
}
