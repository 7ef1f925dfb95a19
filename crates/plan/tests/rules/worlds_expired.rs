//! Authorities and certificates that expire under members that run, while no operator does: they come back by themselves, with
//! the data that they had.

use plan::decision::{Issue, Issuer};
use plan::invariants::{Violation, check};
use plan::{Observed, Step};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle};
use testkit::world::tls::LIFETIME;
use testkit::{Run, World};

/// Something happens to the world.
type Change = fn(&mut World);

/// So long an authority is valid.
const AUTHORITY: i64 = LIFETIME * 40;

fn settled(size: u32, seed: u64) -> Run<'static> {
    let mut world = World::new(size, 6, seed);
    world.object.tls = true;
    let mut run = Run::new(world);
    settle(&mut run, &format!("before, size {size}, seed {seed}"));
    run
}

/// All is of one authority, which every member trusts, and it is the one cluster that there was.
fn assert_whole(run: &Run<'_>, made: u64, context: &str) {
    let issued = &run.world.certificates;
    let ours = issued.authority.as_ref().unwrap();
    let members = issued.members.as_ref().unwrap();
    assert_eq!(ours.authorities, members.authorities, "{context}");
    assert!(members.not_after.0 > run.world.now, "{context}");
    assert_eq!(issued.made, made, "{context}");
    let size = usize::try_from(run.world.object.size).unwrap();
    assert_eq!(run.world.healthy_voters(), size, "{context}");
    assert_eq!(run.world.clusters.len(), 1, "{context}");
    for (_, process) in run.world.live() {
        assert!(process.trust.contains(&ours.authorities), "{context}");
    }
}

#[test]
fn certificates_that_expired_are_issued_again_without_a_restart() {
    for seed in seeds(3) {
        let mut run = settled(3, seed);
        let uids = |run: &Run<'_>| -> Vec<String> {
            run.world.pods.values().map(|pod| pod.uid.clone()).collect()
        };
        let before = uids(&run);
        run.world.sleep(LIFETIME + 60);
        run.world.tick();
        assert_eq!(run.world.healthy_voters(), 0, "no member hears another");
        settle(&mut run, "renewed");
        assert_whole(&run, 1, "renewed");
        assert_eq!(uids(&run), before);
    }
}

#[test]
fn an_authority_that_expired_under_members_is_followed_by_another() {
    for size in [1, 3, 5] {
        for seed in seeds(3) {
            let mut run = settled(size, seed);
            run.world.sleep(AUTHORITY + 60);
            let context = format!("size {size}, seed {seed}");
            settle(&mut run, &context);
            assert_whole(&run, 2, &context);
            // What follows is a rotation like any other.
            run.world.sleep(LIFETIME + 60);
            settle(&mut run, &context);
            let told = run.world.certificates.members.as_ref().unwrap();
            assert_eq!(told.trusted(), ["authority-2"], "{context}");
            assert_eq!(told.stranded(), None, "{context}");
        }
    }
}

#[test]
fn the_condition_tells_of_it_and_no_voter_is_called_lost() {
    let mut run = settled(3, 2);
    let voters = run.look().observed.cluster.latched.voters;
    run.world.sleep(AUTHORITY + 60);
    let mut told = false;
    for _turn in 0..60 {
        let decision = run.turn();
        assert!(
            !matches!(
                decision.step,
                Step::RetireMember { .. } | Step::StopPod { .. }
            ),
            "{decision:?}"
        );
        told = told || decision.why.to_string().contains("have expired");
    }
    assert!(told);
    settle(&mut run, "after");
    let after = run.look().observed.cluster.latched.voters;
    let ids = |of: &[api::v1alpha1::status::KnownVoter]| -> Vec<String> {
        of.iter().map(|voter| voter.member_id.clone()).collect()
    };
    assert_eq!(ids(&voters), ids(&after));
}

#[test]
fn an_expired_authority_is_followed_though_the_operator_is_killed_at_every_write() {
    for size in [1, 3] {
        let mut run = settled(size, 7);
        run.world.writes = 0;
        run.world.sleep(AUTHORITY + 60);
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn an_expired_authority_is_followed_through_every_fault_at_once() {
    for seed in seeds(10) {
        let mut run = settled(3, seed);
        run.world.sleep(AUTHORITY + 60);
        run.faults = Faults::ALL;
        run.turns(200);
        let context = format!("seed {seed}");
        settle(&mut run, &context);
        assert_whole(&run, 2, &context);
    }
}

/// Whatever was under way when the operator went.
#[test]
fn an_authority_may_expire_at_any_moment_of_a_change() {
    let changes: [(&str, Change); 4] = [
        ("rotation", |world| world.rotate_by("one")),
        ("template", |world| world.object.edit += 1),
        ("growth", |world| world.resize(5)),
        ("shrinking", |world| world.resize(1)),
    ];
    for (what, change) in changes {
        for turns in (0..40).step_by(3) {
            let mut run = settled(3, 5);
            change(&mut run.world);
            run.turns(turns);
            let made = run.world.certificates.made;
            run.world.sleep(AUTHORITY + 60);
            let context = format!("{what}, after {turns} turns");
            settle(&mut run, &context);
            assert!(run.world.certificates.made > made, "{context}");
            assert_whole(&run, run.world.certificates.made, &context);
        }
    }
}

/// Nothing can be renewed without the key.
#[test]
fn certificates_that_expired_after_their_key_was_lost_are_followed_by_others() {
    for seed in seeds(3) {
        let mut run = settled(3, seed);
        run.world.certificates.authority = None;
        run.world.sleep(LIFETIME + 60);
        let context = format!("seed {seed}");
        settle(&mut run, &context);
        assert_whole(&run, 2, &context);
    }
}

/// Shows certificates of the new authority though the one before is still good.
fn switches_at_once(observed: &Observed) -> Option<Step> {
    let ours = observed.certificates.authority.record()?;
    let members = observed.certificates.members.record()?;
    (ours.authorities != members.authorities).then_some(Step::IssueCertificates(Issue {
        members: true,
        by: Issuer::Newest,
        ..Issue::default()
    }))
}

/// Restarts every member that is stranded at once.
fn restarts_all(observed: &Observed) -> Option<Step> {
    let members = observed.certificates.members.record()?;
    let stranded = members.stranded()?;
    let mut pods = observed.pods.iter();
    let (ordinal, pod) = pods.find(|(_, pod)| pod.trust < stranded.below && !pod.terminating)?;
    Some(Step::RestartPod {
        ordinal: *ordinal,
        uid: pod.uid.clone(),
    })
}

fn story(mutant: Mutant, unchecked: bool, away: i64) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    let mut run = Run::with(settled(3, 1).world, &wrong);
    run.unchecked = unchecked;
    run.world.rotate_by("one");
    run.world.sleep(away);
    run.turns(60);
    caught.note(&run);
    caught
}

#[test]
fn only_what_has_expired_is_left_at_once_and_members_are_restarted_one_by_one() {
    // An hour of it is left.
    let almost = AUTHORITY - 3600;
    story(switches_at_once, false, almost).assert_refused(&Violation::Transport);
    story(switches_at_once, true, almost).assert_harm("the others show a certificate");
    // Not even then before those that start would trust it.
    story(switches_at_once, false, AUTHORITY + 60).assert_refused(&Violation::Transport);
    story(restarts_all, false, AUTHORITY + 60).assert_refused(&Violation::Quorum);
}

#[test]
fn a_member_that_is_not_stranded_is_never_restarted_as_if_it_were() {
    let mut run = settled(3, 3);
    run.world.sleep(AUTHORITY + 60);
    while run
        .look()
        .observed
        .certificates
        .members
        .record()
        .unwrap()
        .stranded()
        .is_none()
    {
        run.turn();
    }
    let mut observed = run.look().observed;
    let restart = |observed: &Observed| {
        let uid = observed.pods.get(&0).unwrap().uid.clone();
        check(observed, &Step::RestartPod { ordinal: 0, uid })
    };
    assert_eq!(restart(&observed), Ok(()));
    // One that would come back on another template.
    let template = observed.objects.template.replace("another".to_owned());
    assert_eq!(restart(&observed), Err(Violation::Unproven));
    observed.objects.template = template;
    // One that was created since.
    observed.pods.get_mut(&0).unwrap().created = observed.now + jiff::SignedDuration::from_secs(1);
    assert_eq!(restart(&observed), Err(Violation::Unknown));
}
