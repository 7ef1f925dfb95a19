//! Tests of the tests: operators that delete claims wrongly, in one way each. Every one of them is caught by the check
//! before the act, and where its mistake can do harm also by what the world records when that check is off.

use api::v1alpha1::cluster::Retention;
use api::v1alpha1::status::RetireIntent;
use plan::invariants::Violation;
use plan::{Observed, Step};
use testkit::Run;
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::story::settled;

/// Claims are made and not used; once the list cannot be had, once a member was added that is none of ours.
fn stories(mutant: Mutant, unchecked: bool, policy: Retention) -> Caught {
    let mut caught = Caught::default();
    for seed in 0..6 {
        for (blind, stranger) in [(0, false), (50, false), (0, true)] {
            let wrong = |observed: &Observed| decide_as(mutant, observed);
            let mut world = settled(3, 6, seed).world;
            world.object.when_scaled = policy;
            let mut run = Run::with(world, &wrong);
            run.unchecked = unchecked;
            run.faults.blind_list = blind;
            run.world.resize(7);
            run.turns(2);
            if stranger {
                run.world.add_stranger(0xdead, true);
            }
            run.world.resize(3);
            run.turns(40);
            caught.note(&run);
        }
    }
    caught
}

/// Writes a claim down as one that no member uses, and deletes it once that is written.
fn discard(observed: &Observed, ordinal: u32) -> Option<Step> {
    let claim = observed.claims.get(&ordinal)?;
    let intent = RetireIntent {
        member: observed.member_name(ordinal),
        member_id: "0".to_owned(),
        claim_uid: claim.uid.clone(),
        replaced: None,
    };
    let mut latched = observed.cluster.latched.clone();
    if latched.retiring.contains(&intent) {
        let uid = claim.uid.clone();
        return (!claim.terminating).then_some(Step::DeleteClaim { ordinal, uid });
    }
    latched.retiring = vec![intent];
    Some(Step::Latch(latched))
}

/// The highest claim of ours that is not listed.
fn unlisted(observed: &Observed) -> Option<u32> {
    let mut claims = observed.claims.iter().rev();
    let free = |ordinal: &u32| observed.member_of(*ordinal).is_none();
    claims.find(|(n, _)| free(n)).map(|(ordinal, _)| *ordinal)
}

/// Deletes what is above the size, whatever the owner's policy is.
fn ignores_the_policy(observed: &Observed) -> Option<Step> {
    observed.etcd.members.as_ref()?;
    let size = observed.cluster.intent.as_ref().ok()?.size;
    discard(observed, unlisted(observed).filter(|n| *n >= size)?)
}

/// Takes silence for a list without members.
fn needs_no_list(observed: &Observed) -> Option<Step> {
    let blind = observed.etcd.members.is_none();
    let size = observed.cluster.intent.as_ref().ok()?.size;
    let formed = observed.cluster.latched.cluster_id.is_some();
    let highest = *observed.claims.keys().next_back()?;
    (blind && formed && highest >= size).then(|| discard(observed, highest))?
}

/// Deletes what a member uses.
fn discards_a_members(observed: &Observed) -> Option<Step> {
    let list = observed.etcd.members.as_ref()?;
    let member = list.members.first()?;
    discard(observed, observed.ordinal_of(member)?)
}

/// Deletes what is asked for and has no member yet.
fn discards_what_is_wanted(observed: &Observed) -> Option<Step> {
    observed.etcd.members.as_ref()?;
    let size = observed.cluster.intent.as_ref().ok()?.size;
    discard(observed, unlisted(observed).filter(|n| *n < size)?)
}

/// Deletes what is above the size though a member is listed that may use it.
fn forgets_strangers(observed: &Observed) -> Option<Step> {
    let list = observed.etcd.members.as_ref()?;
    let stranger = |n: &plan::observed::Member| observed.ordinal_of(n).is_none();
    let strange = list.members.iter().any(stranger);
    let size = observed.cluster.intent.as_ref().ok()?.size;
    let ordinal = unlisted(observed).filter(|n| *n >= size && strange)?;
    discard(observed, ordinal)
}

#[test]
fn a_deletion_against_the_policy_is_refused() {
    stories(ignores_the_policy, false, Retention::Retain).assert_refused(&Violation::NotAskedFor);
}

#[test]
fn a_deletion_without_a_list_is_refused() {
    stories(needs_no_list, false, Retention::Delete).assert_refused(&Violation::Unknown);
}

#[test]
fn a_deletion_of_what_a_member_uses_is_refused() {
    let all = stories(discards_a_members, false, Retention::Delete);
    all.assert_refused(&Violation::DataBeforeMember);
}

#[test]
fn a_deletion_of_what_is_wanted_is_refused() {
    let all = stories(discards_what_is_wanted, false, Retention::Delete);
    all.assert_refused(&Violation::NotAskedFor);
}

#[test]
fn a_deletion_beside_a_member_of_no_known_pod_is_refused() {
    stories(forgets_strangers, false, Retention::Delete).assert_refused(&Violation::Unknown);
}

#[test]
fn nothing_of_this_happens_to_the_operator_as_it_is() {
    for policy in [Retention::Delete, Retention::Retain] {
        stories(|_| None, true, policy).assert_nothing();
    }
}
