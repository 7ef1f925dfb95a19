//! One certificate authority follows another while members run, whichever source it is of: every member is restarted once,
//! and none ever meets a certificate that it does not trust.

use std::collections::BTreeSet;

use api::certificates::Copied;
use plan::decision::{Issue, Issuer, Rotate};
use plan::invariants::{Violation, check};
use plan::{Observed, Step};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle};
use testkit::world::tls::LIFETIME;
use testkit::{Run, World};

/// Something is taken away.
type Loss = fn(&mut World);
type Theirs = Option<Result<Copied, String>>;

fn copied(leaves: &str, trust: &str) -> Copied {
    Copied {
        leaves: leaves.to_owned(),
        trust: trust.to_owned(),
    }
}

fn settled_with(size: u32, seed: u64, theirs: Theirs) -> Run<'static> {
    let mut world = World::new(size, 6, seed);
    world.object.tls = true;
    world.certificates.theirs = theirs;
    let mut run = Run::new(world);
    settle(&mut run, &format!("before, size {size}, seed {seed}"));
    run
}

fn settled(size: u32, seed: u64) -> Run<'static> {
    settled_with(size, seed, None)
}

fn trusted(world: &World) -> Vec<Vec<String>> {
    let live = world.live();
    live.map(|(_, process)| process.trust.clone()).collect()
}

/// All is of one authority, every member trusts it, and the key of the one before is gone.
fn assert_switched(run: &Run<'_>, context: &str) {
    let issued = &run.world.certificates;
    let ours = issued.authority.as_ref().unwrap();
    for record in [&issued.members, &issued.clients] {
        let record = record.as_ref().unwrap();
        assert_eq!(record.authorities, ours.authorities, "{context}");
    }
    assert!(
        ours.rotation.as_ref().is_none_or(|it| !it.pending),
        "{context}"
    );
    let size = usize::try_from(run.world.object.size).unwrap();
    assert_eq!(run.world.healthy_voters(), size, "{context}");
    assert_eq!(run.world.clusters.len(), 1, "{context}");
}

#[test]
fn another_authority_restarts_every_member_once() {
    for size in [1, 3, 5] {
        for seed in seeds(3) {
            let mut run = settled(size, seed);
            let mut pods: BTreeSet<String> = BTreeSet::new();
            run.world.rotate_by("one");
            for _turn in 0..600 {
                run.turn();
                pods.extend(run.world.pods.values().map(|pod| pod.uid.clone()));
            }
            settle(&mut run, &format!("size {size}, seed {seed}"));
            assert_switched(&run, &format!("size {size}, seed {seed}"));
            assert_eq!(run.world.certificates.made, 2);
            let size = usize::try_from(size).unwrap();
            assert_eq!(pods.len(), 2 * size, "seed {seed}");
            // The value is carried out once.
            run.turns(50);
            assert_eq!(run.world.certificates.made, 2);
        }
    }
}

#[test]
fn the_authority_before_is_trusted_until_what_it_issued_has_expired() {
    let mut run = settled(3, 2);
    run.world.rotate_by("one");
    settle(&mut run, "switched");
    let told = |run: &Run<'_>| run.world.certificates.members.as_ref().unwrap().trusted();
    assert_eq!(told(&run), ["authority-1", "authority-2"]);
    let uids = |run: &Run<'_>| -> Vec<String> {
        run.world.pods.values().map(|pod| pod.uid.clone()).collect()
    };
    let before = uids(&run);
    run.world.sleep(LIFETIME + 60);
    settle(&mut run, "later");
    assert_eq!(told(&run), ["authority-2"]);
    assert_eq!(uids(&run), before, "no member is restarted for that");
}

#[test]
fn what_is_revoked_is_trusted_by_no_member_after_a_second_restart() {
    for seed in seeds(3) {
        let mut run = settled(3, seed);
        run.world.rotate_by("revoke-1");
        settle(&mut run, "switched");
        run.world.sleep(180);
        settle(&mut run, "revoked");
        assert_switched(&run, "revoked");
        for trust in trusted(&run.world) {
            assert_eq!(trust, ["authority-2"], "seed {seed}");
        }
    }
}

/// The annotation stays where it is.
#[test]
fn what_was_revoked_once_makes_no_later_rotation_a_revocation() {
    let mut run = settled(3, 4);
    run.world.rotate_by("revoke-1");
    settle(&mut run, "switched");
    run.world.sleep(180);
    settle(&mut run, "revoked");
    run.world.sleep(LIFETIME * 40 / 3 * 2 + 60);
    settle(&mut run, "replaced in time");
    let before: Vec<String> = run.world.pods.values().map(|pod| pod.uid.clone()).collect();
    run.world.sleep(600);
    settle(&mut run, "no second restart");
    let after: Vec<String> = run.world.pods.values().map(|pod| pod.uid.clone()).collect();
    assert_eq!(before, after);
    let told = run.world.certificates.members.as_ref().unwrap().trusted();
    assert_eq!(told, ["authority-2", "authority-3"]);
}

#[test]
fn what_is_deleted_while_a_cluster_is_stopped_keeps_its_generation() {
    for expired in [false, true] {
        let mut run = settled(3, 6);
        run.world.rotate_by("one");
        settle(&mut run, "switched");
        run.world.resize(0);
        settle(&mut run, "stopped");
        run.world.certificates.members = None;
        run.world.certificates.clients = None;
        if expired {
            run.world.sleep(LIFETIME * 40 + 60);
        }
        run.turns(20);
        run.world.resize(3);
        let mut pods: BTreeSet<String> = BTreeSet::new();
        for _turn in 0..300 {
            run.turn();
            pods.extend(run.world.pods.values().map(|pod| pod.uid.clone()));
        }
        settle(&mut run, "started");
        assert_switched(&run, "started");
        assert_eq!(pods.len(), 3, "expired: {expired}");
        let made = if expired { 3 } else { 2 };
        assert_eq!(run.world.certificates.made, made);
    }
}

#[test]
fn an_authority_is_replaced_in_time() {
    let mut run = settled(3, 2);
    run.world.sleep(LIFETIME * 40 / 3 * 2 + 60);
    settle(&mut run, "in time");
    assert_eq!(run.world.certificates.made, 2);
    assert_switched(&run, "in time");
}

#[test]
fn a_rotation_survives_a_kill_at_every_write() {
    for size in [1, 3] {
        let mut run = settled(size, 7);
        run.world.writes = 0;
        run.world.rotate_by("one");
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn a_rotation_survives_every_fault_at_once() {
    for seed in seeds(15) {
        let mut run = settled(3, seed);
        run.world.rotate_by("one");
        run.faults = Faults::ALL;
        run.turns(200);
        settle(&mut run, &format!("seed {seed}"));
        assert_switched(&run, &format!("seed {seed}"));
    }
}

/// At any moment of it.
#[test]
fn no_secret_or_status_that_is_lost_half_way_cuts_a_member_off() {
    let lose: [(&str, Loss); 6] = [
        ("authority", |world| world.certificates.authority = None),
        ("members", |world| world.certificates.members = None),
        ("clients", |world| world.certificates.clients = None),
        ("status", World::wipe_status),
        ("volume", |world| world.lose_claim(1)),
        ("pod", |world| world.delete_pod(2)),
    ];
    for (what, lose) in lose {
        for turns in 0..60 {
            let mut run = settled(3, 11);
            run.world.rotate_by("one");
            run.turns(turns);
            lose(&mut run.world);
            let context = format!("{what} lost after {turns} turns");
            settle(&mut run, &context);
            assert_switched(&run, &context);
        }
    }
}

#[test]
fn a_lost_authority_is_followed_by_another_without_a_stop() {
    for seed in seeds(5) {
        for size in [1, 3] {
            let mut run = settled(size, seed);
            run.world.certificates.authority = None;
            run.world.delete_pod(0);
            settle(&mut run, &format!("size {size}, seed {seed}"));
            assert_switched(&run, &format!("size {size}, seed {seed}"));
            assert_eq!(run.world.certificates.made, 2);
        }
    }
}

/// A backup of an older authority is restored, with all that is recorded on it.
#[test]
fn an_older_authority_is_led_in_like_a_new_one() {
    let mut run = settled(3, 2);
    let mut older = run.world.certificates.authority.clone().unwrap();
    older.authorities = "authority-0".to_owned();
    run.world.certificates.authority = Some(older);
    let mut observed = run.look().observed;
    let issue = Step::IssueCertificates(Issue {
        members: true,
        ..Issue::default()
    });
    assert_eq!(check(&observed, &issue), Err(Violation::Transport));
    observed.pods.clear();
    observed.objects.replicas = Some(0);
    assert_eq!(check(&observed, &issue), Ok(()));
    // Not even where they are due, or the one for clients is gone.
    run.world.certificates.clients = None;
    run.world.sleep(LIFETIME / 3 * 2 + 1);
    settle(&mut run, "led in");
    assert_switched(&run, "led in");
}

/// Their authority is another one, or the source itself is.
#[test]
fn another_source_or_authority_of_it_is_taken_over_while_members_run() {
    let sources = [
        Some(Ok(copied("one", "theirs"))),
        None,
        Some(Ok(copied("two", "others"))),
    ];
    for (from, to) in [(0, 2), (0, 1), (1, 0)] {
        for seed in seeds(3) {
            let context = format!("{from} to {to}, seed {seed}");
            let mut run = settled_with(3, seed, sources[from].clone());
            run.world.certificates.theirs.clone_from(&sources[to]);
            let mut pods: BTreeSet<String> = BTreeSet::new();
            for _turn in 0..400 {
                assert_eq!(run.turn().forbidden, None, "{context}");
                pods.extend(run.world.pods.values().map(|pod| pod.uid.clone()));
            }
            settle(&mut run, &context);
            assert_switched(&run, &context);
            assert_eq!(pods.len(), 6, "one restart each, {context}");
            let shown = run.world.certificates.members.as_ref().unwrap();
            let wanted = sources[to].clone().and_then(Result::ok);
            assert_eq!(shown.copied, wanted, "{context}");
            run.world.sleep(LIFETIME + 60);
            settle(&mut run, &format!("{context}, later"));
        }
        let mut run = settled_with(3, 7, sources[from].clone());
        run.world.writes = 0;
        run.world.certificates.theirs.clone_from(&sources[to]);
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    }
}

/// To and fro, before anything has come to an end.
#[test]
fn sources_that_change_again_half_way_cut_no_member_off() {
    for turns in 0..40 {
        let mut run = settled_with(3, 5, Some(Ok(copied("one", "theirs"))));
        run.world.certificates.theirs = Some(Ok(copied("two", "others")));
        run.turns(turns);
        run.world.certificates.theirs = Some(Ok(copied("three", "third")));
        run.turns(turns);
        run.world.certificates.theirs = Some(Ok(copied("one", "theirs")));
        let context = format!("after {turns} turns");
        settle(&mut run, &context);
        assert_switched(&run, &context);
        run.world.sleep(LIFETIME + 60);
        // They are renewed where they come from.
        run.world.certificates.theirs = Some(Ok(copied("four", "theirs")));
        settle(&mut run, &context);
        run.world.certificates.theirs = Some(Ok(copied("two", "others")));
        settle(&mut run, &context);
        assert_switched(&run, &context);
    }
}

#[test]
fn certificates_that_are_due_during_a_rotation_are_of_the_authority_that_members_trust() {
    let mut run = settled(3, 3);
    run.world.rotate_by("one");
    // No member can be restarted.
    run.world.reject("RestartPod", None);
    run.turns(60);
    run.world.sleep(LIFETIME / 3 * 2 + 1);
    run.turns(60);
    let members = run.world.certificates.members.clone().unwrap();
    assert_eq!(members.authorities, "authority-1");
    assert!(members.renew_at.0 > run.world.now, "they were renewed");
    run.world.rejects.clear();
    run.world.sleep(700);
    settle(&mut run, "at last");
    assert_switched(&run, "at last");
}

#[test]
fn a_rotation_that_cannot_be_written_holds_up_no_repair_and_is_told() {
    let mut run = settled(3, 4);
    run.world.rotate_by("one");
    run.world.reject("RotateAuthority", None);
    run.world.lose_claim(1);
    run.turns(400);
    assert_eq!(run.world.healthy_voters(), 3, "the member was replaced");
    let conditions = &run.world.object.status.conditions;
    let told = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    let message = &told.message;
    assert!(message.contains("denied RotateAuthority"), "{message}");
}

/// Shows certificates of the new authority as soon as it is there.
fn switches_at_once(observed: &Observed) -> Option<Step> {
    let ours = observed.certificates.authority.record()?;
    let members = observed.certificates.members.record()?;
    (ours.authorities != members.authorities).then_some(Step::IssueCertificates(Issue {
        members: true,
        clients: true,
        by: Issuer::Newest,
        authority: false,
    }))
}

/// Trusts the new authority alone while the one before is still shown.
fn narrows_at_once(observed: &Observed) -> Option<Step> {
    let ours = observed.certificates.authority.record()?;
    let members = observed.certificates.members.record()?;
    let both = members.trusted().len() > 1 && ours.authorities != members.authorities;
    both.then_some(Step::RotateAuthority(Rotate::Narrow { revoke: false }))
}

/// Destroys the key of the authority before while that one is still needed.
fn forgets_at_once(observed: &Observed) -> Option<Step> {
    let ours = observed.certificates.authority.record()?;
    let pending = ours.rotation.as_ref().is_some_and(|it| it.pending);
    pending.then_some(Step::RotateAuthority(Rotate::Forget))
}

/// Another authority before the last one is trusted.
fn begins_again(observed: &Observed) -> Option<Step> {
    let ours = observed.certificates.authority.record()?;
    let pending = ours.rotation.as_ref().is_some_and(|it| it.pending);
    pending.then_some(Step::RotateAuthority(Rotate::Begin))
}

fn stories(mutant: Mutant, unchecked: bool) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    let mut run = Run::with(settled(3, 1).world, &wrong);
    run.unchecked = unchecked;
    run.world.rotate_by("one");
    run.turns(120);
    caught.note(&run);
    caught
}

#[test]
fn no_certificate_is_shown_and_no_trust_ended_too_early() {
    for mutant in [
        switches_at_once,
        narrows_at_once,
        forgets_at_once,
        begins_again,
    ] {
        stories(mutant, false).assert_refused(&Violation::Transport);
    }
    stories(switches_at_once, true).assert_harm("the others show a certificate");
    stories(narrows_at_once, true).assert_harm("the others show a certificate");
}
