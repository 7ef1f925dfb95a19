//! Tests of the tests, for the upkeep of databases: operators that are wrong in one way each. Each is refused before the
//! act, and where it can do harm the world records that harm.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use plan::invariants::Violation;
use plan::observed::{Disturbance, Serving};
use plan::{Observed, Step};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::run::Faults;
use testkit::story::{settle, settled};
use testkit::{Run, World};

const MIB: u64 = 1 << 20;

/// Stories in which a mutant may show itself.
const STORIES: [fn(&mut World); 4] = [
    |world| fill(world, 5000),
    // Nothing that could be forgotten or rewritten would help.
    |world| {
        world.upkeep.keys = 70 * MIB;
        fill(world, 1500);
    },
    |world| {
        world.spoil(1, 7);
        world.raise_corrupt(0);
    },
    |world| {
        world.spoil(0, 7);
        world.spoil(1, 8);
        world.raise_corrupt(0);
    },
];

fn fill(world: &mut World, entries: u64) {
    let id = *world.clusters.keys().next().unwrap();
    world.write(id, entries);
}

/// Clusters that have settled on a small quota.
fn created() -> &'static [World] {
    static CREATED: OnceLock<Vec<World>> = OnceLock::new();
    CREATED.get_or_init(|| {
        let world = |seed| {
            let mut run = settled(3, 6, seed);
            run.world.upkeep.row = MIB / 64;
            run.world.set_quota(64 * MIB);
            settle(&mut run, "the quota");
            run.world
        };
        (0..6).map(world).collect()
    })
}

fn stories(mutant: Mutant, unchecked: bool) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    for story in STORIES {
        for created in created() {
            let mut run = Run::with(created.clone(), &wrong);
            run.unchecked = unchecked;
            story(&mut run.world);
            run.faults = Faults {
                crash: 1,
                stale: 10,
                torn: 10,
                ..Faults::default()
            };
            run.turns(150);
            caught.note(&run);
        }
    }
    caught
}

fn refused_as(mutant: Mutant, violation: &Violation) {
    stories(mutant, false).assert_refused(violation);
}

fn does_harm(mutant: Mutant, what: &str) {
    stories(mutant, true).assert_harm(what);
}

/// A member whose file is mostly empty, and whether it leads.
fn loose(observed: &Observed, leads: bool) -> Option<(u64, u32)> {
    let list = observed.etcd.members.as_ref()?;
    list.voters().find_map(|voter| {
        let serving = observed.serving_as(voter.id)?;
        let waste = serving.space.size - serving.space.in_use.min(serving.space.size);
        let fits = waste > 4 * MIB && (observed.leader() == Some(voter.id)) == leads;
        fits.then_some((voter.id, observed.ordinal_of(voter)?))
    })
}

fn serving(observed: &Observed) -> impl Iterator<Item = &Serving> {
    observed.pods.values().filter_map(|pod| pod.serving())
}

#[test]
fn the_operator_as_it_is_does_no_harm() {
    stories(|_| None, true).assert_nothing();
}

/// A member does not respond, so perhaps it is being defragmented; that does not keep this one from the next.
fn two_at_once(observed: &Observed) -> Option<Step> {
    observed.cluster.latched.defragmenting()?;
    let silent = serving(observed).count() < observed.pods.len();
    let (id, ordinal) = loose(observed, false).filter(|_| silent)?;
    Some(Step::Defragment { id, ordinal })
}

#[test]
fn two_members_defragmented_at_once_are_caught() {
    refused_as(two_at_once, &Violation::Quorum);
    does_harm(two_at_once, "two members were defragmented at once");
}

fn unannounced(observed: &Observed) -> Option<Step> {
    let (id, ordinal) = loose(observed, false)?;
    let latched = observed.cluster.latched.defragmenting().is_none();
    latched.then_some(Step::Defragment { id, ordinal })
}

#[test]
fn a_defragmentation_that_was_not_written_down_is_caught() {
    refused_as(unannounced, &Violation::Busy);
}

fn second_announced(observed: &Observed) -> Option<Step> {
    let latched = &observed.cluster.latched;
    latched.defragmenting()?;
    let (_, ordinal) = loose(observed, false)?;
    let name = observed.member_name(ordinal);
    (latched.defragmenting() != Some(&name)).then(|| {
        let next = Disturbance::Defragment { member: name };
        Step::Latch(latched.clone().with_disturbance(next))
    })
}

#[test]
fn a_second_one_that_is_written_down_is_caught() {
    refused_as(second_announced, &Violation::Busy);
}

fn leader_first(observed: &Observed) -> Option<Step> {
    let (id, ordinal) = loose(observed, true)?;
    let name = observed.member_name(ordinal);
    let latched = &observed.cluster.latched;
    match latched.defragmenting() {
        None => {
            let next = Disturbance::Defragment { member: name };
            Some(Step::Latch(latched.clone().with_disturbance(next)))
        }
        Some(known) if *known == name => Some(Step::Defragment { id, ordinal }),
        Some(_) => None,
    }
}

#[test]
fn a_leader_that_is_defragmented_is_caught() {
    refused_as(leader_first, &Violation::Quorum);
    does_harm(leader_first, "a leader was defragmented");
}

fn disarms_at_once(observed: &Observed) -> Option<Step> {
    let alarm = observed.alarms().into_iter().next()?;
    Some(Step::Disarm { alarm })
}

#[test]
fn an_alarm_that_goes_before_its_cause_is_caught() {
    refused_as(disarms_at_once, &Violation::Cause);
    does_harm(
        disarms_at_once,
        "an alarm was disarmed before its cause was gone",
    );
}

fn compacts_everything(observed: &Observed) -> Option<Step> {
    observed.alarms().first()?;
    let revision = serving(observed).map(|s| s.space.revision).min()?;
    Some(Step::Compact { revision })
}

#[test]
fn a_compaction_of_everything_is_caught() {
    refused_as(compacts_everything, &Violation::History);
    does_harm(
        compacts_everything,
        "history that must be kept was forgotten",
    );
}

/// The member that the alarm names is removed, or, where it names none, the first one that differs from another.
fn removes_without_a_majority(observed: &Observed) -> Option<Step> {
    let list = observed.etcd.members.as_ref()?;
    let hashes: BTreeSet<u32> = serving(observed)
        .filter_map(|s| Some(s.hash?.hash))
        .collect();
    if hashes.len() < 3 {
        return None;
    }
    let voter = list.voters().next()?;
    let ordinal = observed.ordinal_of(voter)?;
    Some(Step::RetireMember {
        id: voter.id,
        ordinal,
    })
}

#[test]
fn a_removal_that_no_majority_asks_for_is_caught() {
    refused_as(removes_without_a_majority, &Violation::NotAskedFor);
    does_harm(
        removes_without_a_majority,
        "though no majority says that its data is wrong",
    );
}
