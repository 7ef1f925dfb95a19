//! Stories of addresses that lead elsewhere: what another pod says is no answer of the one that was asked.

use std::collections::BTreeMap;

use plan::observed::{Latched, Observed, Process};
use plan::status::{Outcome, decide_status};
use plan::{Step, decide, invariants};
use testkit::Run;
use testkit::World;
use testkit::run::Faults;
use testkit::story::{seeds, settle, settled};
use testkit::world::astray::Stray;
use testkit::world::observe::{Blind, Look};

fn members(run: &Run<'_>) -> Vec<u64> {
    let all = run.world.clusters.values();
    let all = all.flat_map(|cluster| cluster.members.iter().map(|member| member.id));
    let mut ids: Vec<u64> = all.collect();
    ids.sort_unstable();
    ids
}

fn look(run: &Run<'_>) -> Look {
    run.world.look_around(&Blind::default())
}

fn strays() -> [Stray; 3] {
    [Stray::waiting(), Stray::serving(), Stray::Sibling(0)]
}

/// The kubelet of a member is silent and its address belongs to another pod: it still runs, and is not removed.
#[test]
fn who_answers_at_a_stale_address_costs_no_member() {
    for seed in seeds(10) {
        for (size, minor) in [(3, 5), (3, 6), (5, 7)] {
            for stray in strays() {
                let what = format!("{stray:?}, size {size}, seed {seed}");
                let mut run = settled(size, minor, seed);
                let before = members(&run);
                run.world.astray.insert(1, stray);
                run.faults = Faults {
                    crash: 3,
                    ..Faults::default()
                };
                run.turns(60);
                run.verdict().unwrap_or_else(|why| panic!("{what}: {why}"));
                assert_eq!(members(&run), before, "{what}");
                run.world.astray.clear();
                settle(&mut run, &what);
                assert_eq!(members(&run), before, "{what}");
            }
        }
    }
}

/// Nothing of it is recorded, least of all the ID of the other cluster.
#[test]
fn a_cluster_that_begins_takes_no_other_for_itself() {
    for seed in seeds(10) {
        for moment in 0..40 {
            let mut run = Run::new(World::new(3, 6, seed));
            run.turns(moment);
            run.world.astray.insert(1, Stray::serving());
            run.turns(40);
            let written = run.world.object.status.cluster_id.clone();
            assert_ne!(written.as_deref(), Some("badc"), "{moment}, seed {seed}");
            run.world.astray.clear();
            settle(&mut run, &format!("{moment}, seed {seed}"));
        }
    }
}

/// Nor does the operator call it a second cluster: it says which pod does not answer, and who does.
#[test]
fn the_condition_says_who_answers_instead() {
    for (stray, who) in [
        (Stray::waiting(), "the pod with UID of another pod"),
        (Stray::serving(), "member bad of cluster badc"),
        (Stray::Sibling(0), "db-0 (member "),
    ] {
        let mut run = settled(3, 6, 1);
        run.world.astray.insert(1, stray);
        let look = look(&run);
        let decision = decide(&look.observed);
        assert!(matches!(decision.step, Step::Wait), "{decision:?}");
        let status = decide_status(&look.observed, &decision, &Outcome::Done, &look.status);
        let text = format!("{decision:?} {status:?}");
        let told = format!("does not respond: at its address {who}");
        assert!(text.contains(&told), "{told} in {text}");
        assert!(!text.contains("two etcd clusters"), "{text}");
    }
}

/// Without a quorum no member gives a list; those that answer are known all the same.
#[test]
fn members_are_known_where_no_member_gives_a_list() {
    let mut run = settled(3, 6, 1);
    run.world.freeze(1, true);
    run.world.freeze(2, true);
    run.turns(5);
    let seen = look(&run).observed;
    assert!(seen.etcd.members.is_none());
    assert!(seen.pods[&0].serving().is_some());
    // Nor where nothing is recorded of them.
    run.world.object.status = api::EtcdClusterStatus::default();
    assert!(look(&run).observed.pods[&0].serving().is_some());
    run.world.astray.insert(0, Stray::serving());
    let seen = look(&run).observed;
    assert_eq!(seen.pods[&0].process, Process::Unknown);
}

/// Wherever it comes from: the check before the act looks whose report it is.
#[test]
fn no_step_rests_on_the_report_of_another_pod() {
    let run = settled(3, 6, 1);
    let mut observed = look(&run).observed;
    let Stray::Waits(report) = Stray::waiting() else {
        panic!("it waits");
    };
    observed.pods.get_mut(&1).unwrap().process = Process::Held(*report);
    let step = decide(&observed).step;
    assert!(!matches!(step, Step::RemoveMember { .. }), "{step:?}");
    let removal = Step::RemoveMember {
        id: observed.member_of(1).unwrap().id,
        ordinal: 1,
        nonce: "of another wait".to_owned(),
    };
    invariants::check(&observed, &removal).unwrap_err();
    observed.disown_waits();
    assert!(matches!(decide(&observed).step, Step::Wait));
}

/// A list is believed for the sake of the one that gave it.
#[test]
fn no_step_rests_on_the_list_of_another_cluster() {
    let mut run = Run::new(World::new(3, 6, 1));
    while !run.world.pods.contains_key(&0) {
        run.turn();
    }
    run.world.astray.insert(0, Stray::serving());
    let mut observed: Observed = look(&run).observed;
    assert!(observed.etcd.members.is_none());
    let Stray::Serves(list) = Stray::serving() else {
        panic!("it serves");
    };
    run.world.astray.insert(0, Stray::Serves(list.clone()));
    let painted = testkit::world::astray::alone(&list);
    observed.pods.get_mut(&0).unwrap().process = Process::Serving(painted);
    assert!(!observed.is_own_list(0, &list));
    observed.etcd.members = Some(list.clone());
    let step = decide(&observed).step;
    let takes = matches!(&step, Step::Latch(latched) if latched.cluster_id.is_some());
    assert!(!takes, "{step:?}");
    let latched = Latched {
        cluster_id: Some(list.cluster_id),
        ..observed.cluster.latched.clone()
    };
    invariants::check(&observed, &Step::Latch(latched)).unwrap_err();
    observed.etcd.members = None;
    observed.disown_members(&BTreeMap::from([(0, list)]));
    assert_eq!(observed.pods[&0].process, Process::Unknown);
}
