//! What stands in the way of another authority is told, and a revocation waits for users, but not for ever.

use plan::decision::Rotate;
use plan::invariants::Violation;
use plan::observed::Login;
use plan::{Observed, Step};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::story::settle;
use testkit::{Run, World};

use crate::worlds_auth::{LOCKED, asking};

/// With a user by certificate.
fn with_user(seed: u64) -> Run<'static> {
    let mut world = asking(LOCKED, Some(true), 3, 6, seed);
    world.declare_role("app", &["/app/"]);
    world.declare_user("kim", &["app"], None);
    let mut run = Run::new(world);
    settle(&mut run, "with a user");
    run
}

fn degraded(run: &Run<'_>) -> String {
    let conditions = &run.world.object.status.conditions;
    let told = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    told.message.clone()
}

/// What issued the certificate of the user.
fn issuer(world: &World) -> String {
    let Login::Certificate { issued, .. } = &world.people.declared.users[0].login else {
        panic!("it has a password");
    };
    issued.record().unwrap().authorities.clone()
}

/// The authorities that members trust which run.
fn trusted(world: &World) -> Vec<String> {
    world.certificates.members.as_ref().unwrap().trusted()
}

#[test]
fn users_have_other_certificates_before_what_they_had_is_revoked() {
    let mut run = with_user(1);
    run.world.rotate_by("revoke-1");
    settle(&mut run, "switched");
    assert_eq!(issuer(&run.world), "authority-2");
    run.world.sleep(180);
    settle(&mut run, "revoked");
    assert_eq!(trusted(&run.world), ["authority-2"]);
    assert_eq!(degraded(&run), "no problem found");
}

#[test]
fn a_revocation_waits_for_a_user_and_names_it_but_not_for_ever() {
    for helped in [true, false] {
        let mut run = with_user(2);
        run.world.reject("ChangeAuth", None);
        run.world.rotate_by("revoke-1");
        run.turns(300);
        run.world.sleep(180);
        run.turns(40);
        assert_eq!(trusted(&run.world), ["authority-1", "authority-2"]);
        assert_eq!(issuer(&run.world), "authority-1");
        let message = degraded(&run);
        assert!(
            message.contains("EtcdUsers kim were not issued again"),
            "{message}"
        );
        assert!(message.contains("kubectl get etcduser kim"), "{message}");
        if helped {
            run.world.rejects.clear();
        }
        run.world.sleep(if helped { 60 } else { 600 });
        run.turns(300);
        assert_eq!(trusted(&run.world), ["authority-2"], "{}", degraded(&run));
        let rejected = issuer(&run.world) == "authority-1";
        assert_eq!(rejected, !helped);
    }
}

#[test]
fn a_rollout_that_is_halted_tells_that_the_authority_waits_for_it() {
    for value in ["1", "revoke-1"] {
        let mut run = with_user(3);
        run.world.bad_edits.insert(1);
        run.world.edit(1);
        run.turns(120);
        run.world.rotate_by(value);
        run.turns(200);
        let message = degraded(&run);
        let known =
            message.contains("of 3 were restarted, and the rollout that restarts them is halted");
        assert!(
            known && message.contains("authority is replaced"),
            "{value}: {message}"
        );
        assert!(message.contains("which expires at"), "{message}");
        assert_eq!(run.world.healthy_voters(), 2);
        run.world.edit(0);
        settle(&mut run, "reverted");
        let shown = run.world.certificates.members.as_ref().unwrap();
        assert_eq!(shown.authorities, "authority-2");
    }
}

#[test]
fn a_pause_that_keeps_a_revoked_authority_trusted_is_told() {
    let mut run = with_user(4);
    run.world.rotate_by("revoke-1");
    settle(&mut run, "switched");
    run.world.sleep(180);
    while trusted(&run.world).len() > 1 {
        run.turn();
    }
    run.world.pause(true);
    run.turns(100);
    let message = degraded(&run);
    assert!(
        message.contains("reconciliation is paused: end the pause"),
        "{message}"
    );
    assert!(
        message.contains("still accept what the one before has issued"),
        "{message}"
    );
    run.world.pause(false);
    settle(&mut run, "revoked");
    assert_eq!(degraded(&run), "no problem found");
}

/// What users have counts no longer as soon as members have other certificates.
fn revokes_at_once(observed: &Observed) -> Option<Step> {
    let ours = observed.certificates.authority.record()?;
    let told = observed.certificates.members.record()?.trusted();
    let users = observed.etcd.auth.declared.as_ref()?.users.iter();
    let mut old = users.filter(|user| match &user.login {
        Login::Certificate { issued, .. } => issued
            .record()
            .is_some_and(|it| it.authorities != ours.authorities),
        Login::Password { .. } => false,
    });
    let left = old.next().is_some() && told.len() > 1;
    let switched = observed.certificates.members.record()?.authorities == ours.authorities;
    let done = ours.rotation.as_ref().is_some_and(|it| !it.pending);
    (left && switched && done).then_some(Step::RotateAuthority(Rotate::Narrow { revoke: true }))
}

fn story(mutant: Mutant) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    let mut run = Run::with(with_user(5).world, &wrong);
    run.world.reject("ChangeAuth", None);
    run.world.rotate_by("revoke-1");
    run.turns(300);
    run.world.sleep(180);
    run.turns(20);
    caught.note(&run);
    caught
}

#[test]
fn a_revocation_that_leaves_a_user_behind_is_refused() {
    story(revokes_at_once).assert_refused(&Violation::Transport);
}
