//! What a schedule promises, whatever its seed.

use super::*;
use std::collections::BTreeSet;

fn rounds(seed: u64, reach: Reach) -> Vec<Round> {
    Schedule::new(seed, reach, Lasting::Briefly, &[])
        .take(60)
        .collect()
}

#[test]
fn a_seed_is_a_schedule() {
    assert_eq!(rounds(7, Reach::Nodes), rounds(7, Reach::Nodes));
    assert_ne!(rounds(7, Reach::Nodes), rounds(8, Reach::Nodes));
    let first: Vec<String> = rounds(1, Reach::Nodes)
        .into_iter()
        .take(3)
        .map(|round| round.to_string())
        .collect();
    // Seeds that people recorded must not change their meaning unnoticed.
    assert_eq!(first, GOLDEN);
}

const GOLDEN: [&str; 3] = [
    "cut pods off of the leader for 7.6 s",
    "request 52m of processor time",
    "resize to 5",
];

#[test]
fn every_kind_comes_before_any_comes_twice() {
    for (reach, kinds) in [(Reach::Api, 4), (Reach::Nodes, 12)] {
        let faults = rounds(3, reach).into_iter().filter_map(|round| round.fault);
        let first: BTreeSet<&str> = faults.take(kinds).map(Fault::kind).collect();
        assert_eq!(first.len(), kinds);
    }
}

#[test]
fn what_is_left_out_does_not_come() {
    for (without, names) in [
        (
            [FaultKind::KillNode, FaultKind::Freeze],
            ["kill node", "freeze process"],
        ),
        (
            [FaultKind::FlipBytes, FaultKind::FillQuota],
            ["flip bytes", "fill quota"],
        ),
    ] {
        let rounds = Schedule::new(3, Reach::Nodes, Lasting::Briefly, &without).take(60);
        let both = rounds.flat_map(|r| [r.fault, r.second.map(|second| second.fault)]);
        let kinds: BTreeSet<&str> = both.flatten().map(Fault::kind).collect();
        assert_eq!(kinds.len(), 10);
        assert!(names.iter().all(|name| !kinds.contains(name)));
    }
}

#[test]
fn sizes_go_to_and_fro_and_never_below_three() {
    for seed in 0..50 {
        let edits = rounds(seed, Reach::Nodes)
            .into_iter()
            .filter_map(|r| r.edit);
        let sizes: Vec<u32> = edits
            .filter_map(|edit| match edit {
                Edit::Resize(size) => Some(size),
                Edit::Restart | Edit::Resources(_) | Edit::RotateAuthority => None,
            })
            .collect();
        let expected: Vec<u32> = [5, 3].into_iter().cycle().take(sizes.len()).collect();
        assert_eq!(sizes, expected);
    }
}

fn lasts(fault: Fault) -> Duration {
    match fault {
        Fault::Freeze(_, time)
        | Fault::CutNode(_, time)
        | Fault::CutPods(_, time)
        | Fault::KillNode(_, time) => time,
        _at_once => Duration::ZERO,
    }
}

#[test]
fn what_lasts_ends() {
    let longest = |lasting| {
        let rounds: Vec<Round> = Schedule::new(9, Reach::Nodes, lasting, &[])
            .take(60)
            .collect();
        assert!(
            rounds
                .iter()
                .all(|round| round.edit.is_some() || round.fault.is_some())
        );
        let faults = rounds.iter().filter_map(|round| round.fault);
        faults.map(lasts).max().unwrap()
    };
    assert!(longest(Lasting::Briefly) <= Duration::from_secs(10));
    let long = longest(Lasting::Long);
    assert!(long > Duration::from_secs(45) && long <= Duration::from_mins(1));
}

#[test]
fn pairs_come_early_and_their_second_is_over_at_once() {
    for seed in 0..50 {
        let rounds = rounds(seed, Reach::Nodes);
        let second = |round: &Round| round.second.map(|second| second.fault);
        // Two minutes are enough for one: the first of them kills the operator.
        let first = rounds.iter().take(8).find_map(second);
        assert_eq!(first, Some(Fault::KillOperator), "{seed}");
        let seconds: Vec<Fault> = rounds.iter().filter_map(second).collect();
        assert!(seconds.iter().all(|fault| lasts(*fault).is_zero()));
        assert!(seconds.iter().any(|fault| *fault != Fault::KillOperator));
    }
}
