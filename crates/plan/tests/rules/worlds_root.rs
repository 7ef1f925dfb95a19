//! The password of the user root: given, changed, taken away, and never the reason why authentication is not what is asked for.

use plan::invariants::{Violation, check};
use plan::observed::{AuthChange, OPERATOR, Password, ROOT, RootPassword};
use plan::{Observed, Step};
use testkit::run::killed_at_every_write;
use testkit::story::{BOUND, seeds, settle};
use testkit::{Run, World};

use crate::worlds_auth::{LOCKED, asking, is_on};

/// A cluster with authentication whose root has the password of a Secret.
fn with_password(seed: u64) -> Run<'static> {
    let mut world = asking(LOCKED, Some(true), 3, 6, seed);
    world.name_root_password(Some(1));
    let mut run = Run::new(world);
    settle(&mut run, "with a password");
    has(&run, Some("1"), "with a password");
    run.world.writes = 0;
    run
}

#[track_caller]
fn has(run: &Run<'_>, version: Option<&str>, what: &str) {
    is_on(run, what);
    let password = run.world.people.passwords.get(ROOT);
    assert_eq!(password.map(String::as_str), version, "{what}");
}

/// What was tried and set is known to that process of the operator only.
fn another_process(world: &mut World) {
    for cluster in world.clusters.values_mut() {
        cluster.accounts.root = RootPassword::Unknown;
    }
}

#[track_caller]
fn told(run: &Run<'_>, words: &str) {
    let conditions = &run.world.object.status.conditions;
    let degraded = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    assert_eq!(degraded.status, "True", "{degraded:?}");
    assert!(degraded.message.contains(words), "{degraded:?}");
}

#[test]
fn root_gets_the_password_that_is_named_another_one_and_none_that_is_kept() {
    for seed in seeds(4) {
        let mut run = with_password(seed);
        run.world.name_root_password(Some(2));
        settle(&mut run, "changed");
        has(&run, Some("2"), "changed");
        another_process(&mut run.world);
        settle(&mut run, "another process");
        has(&run, Some("2"), "another process");
        run.world.people.declared.root = None;
        settle(&mut run, "taken away");
        has(&run, Some("discarded"), "taken away");
        assert!(!run.world.memory().made.root_password);
        run.world.name_root_password(Some(3));
        settle(&mut run, "given again");
        has(&run, Some("3"), "given again");
    }
}

/// A password that was changed by hand is the Secret's again.
#[test]
fn another_password_that_a_person_set_is_replaced() {
    let mut run = with_password(1);
    run.world
        .people
        .passwords
        .insert(ROOT.to_owned(), "theirs".to_owned());
    another_process(&mut run.world);
    settle(&mut run, "by hand");
    has(&run, Some("1"), "by hand");
}

#[test]
fn a_cluster_without_it_makes_root_without_a_password_as_ever() {
    let mut run = Run::new(asking(LOCKED, Some(true), 3, 6, 1));
    settle(&mut run, "without");
    has(&run, None, "without");
}

/// Authentication waits for the Secret, because later a root without a password could not have one.
#[test]
fn a_secret_that_is_missing_is_waited_for_and_told() {
    let mut world = asking(LOCKED, Some(true), 3, 6, 2);
    world.name_root_password(None);
    let mut run = Run::new(world);
    run.turns(80);
    assert!(!run.world.has_auth());
    told(&run, "there is no Secret root-password");
    run.world.name_root_password(Some(1));
    settle(&mut run, "there");
    has(&run, Some("1"), "there");
    run.world.name_root_password(None);
    run.turns(20);
    has(&run, Some("1"), "gone again");
    told(&run, "keeps the password that it has");
}

/// etcd does not give a password to a root that has none, nor lets it be made again, while authentication is on.
#[test]
fn a_root_that_was_made_without_one_gets_it_once_authentication_was_off() {
    for seed in seeds(3) {
        let mut run = Run::new(asking(LOCKED, Some(true), 3, 6, seed));
        settle(&mut run, "without");
        run.world.name_root_password(Some(1));
        run.turns(60);
        has(&run, None, "not taken by etcd");
        let cluster = run.world.clusters.values().next().unwrap();
        let revision = cluster.accounts.revision;
        told(&run, "made without a password");
        run.world.lose_claim(1);
        run.turns(200);
        assert_eq!(run.world.healthy_voters(), 3, "repaired meanwhile");
        let cluster = run.world.clusters.values().next().unwrap();
        assert_eq!(cluster.accounts.revision, revision, "tried once");
        run.world.ask_auth(Some(false));
        settle(&mut run, "off");
        run.world.ask_auth(Some(true));
        settle(&mut run, "on again");
        has(&run, Some("1"), "on again");
    }
}

/// The way out of a root without a password is not walked past: with the Secret away, authentication stays off.
#[test]
fn a_root_that_is_there_does_not_make_up_for_a_secret_that_is_missing() {
    let mut run = Run::new(asking(LOCKED, Some(true), 3, 6, 3));
    settle(&mut run, "without");
    run.world.ask_auth(Some(false));
    settle(&mut run, "off");
    run.world.name_root_password(None);
    run.world.ask_auth(Some(true));
    run.turns(80);
    assert!(!run.world.has_auth());
    told(&run, "there is no Secret root-password");
    run.world.name_root_password(Some(1));
    settle(&mut run, "there");
    has(&run, Some("1"), "there");
}

#[test]
fn all_of_it_survives_a_kill_at_every_write() {
    let mut first = asking(LOCKED, Some(true), 3, 6, 5);
    first.name_root_password(Some(1));
    let mut changed = with_password(5).world;
    changed.name_root_password(Some(2));
    let mut taken = with_password(5).world;
    taken.people.declared.root = None;
    let mut off = with_password(5).world;
    off.ask_auth(Some(false));
    for (world, version) in [(first, "1"), (changed, "2"), (taken, "discarded")] {
        killed_at_every_write(&world, &|run| {
            another_process(&mut run.world);
            let turns = run.settle(BOUND)?;
            has(run, Some(version), "killed");
            Ok(turns)
        })
        .unwrap();
    }
    killed_at_every_write(&off, &|run| {
        let turns = run.settle(BOUND)?;
        run.world.ask_auth(Some(true));
        let more = run.settle(BOUND)?;
        has(run, Some("1"), "on again");
        Ok(turns + more)
    })
    .unwrap();
}

/// A status that is wiped takes nothing from root.
#[test]
fn a_wiped_status_leaves_the_password() {
    for turns in 0..8 {
        let mut run = with_password(3);
        run.world.name_root_password(Some(2));
        run.turns(turns);
        run.world.wipe_status();
        settle(&mut run, "wiped");
        has(&run, Some("2"), "wiped");
    }
}

fn password() -> Password {
    let observed = with_password(1).look().observed;
    observed
        .etcd
        .auth
        .declared
        .unwrap()
        .root
        .unwrap()
        .password()
        .unwrap()
}

fn refused(observed: &Observed, change: AuthChange) {
    let step = Step::ChangeAuth(change);
    assert_eq!(check(observed, &step), Err(Violation::LockOut), "{step:?}");
}

/// What the invariant rejects, whichever rule proposes it.
#[test]
fn root_is_touched_only_as_the_cluster_asks() {
    let (root, secret) = (ROOT.to_owned(), password());
    let set = |user: &str| AuthChange::SetPassword {
        user: user.to_owned(),
        password: secret.clone(),
        had_one: true,
    };
    let mut run = with_password(1);
    let good = run.look().observed;
    assert_eq!(check(&good, &Step::ChangeAuth(set(ROOT))), Ok(()));
    // The operator is known by its certificate, and has no password.
    refused(&good, set(OPERATOR));
    // Not while etcd asks its callers who they are.
    refused(
        &good,
        AuthChange::AddUser {
            user: root.clone(),
            password: Some(secret.clone()),
            replaces: true,
        },
    );
    refused(&good, AuthChange::DiscardPassword { user: root.clone() });
    refused(&good, AuthChange::DeleteUser { user: root.clone() });
    let mut unrecorded = run.look().observed;
    unrecorded.cluster.latched.made.root_password = false;
    refused(&unrecorded, set(ROOT));
    let mut other = run.look().observed;
    other.cluster.intent.as_mut().unwrap().root_password = Some("other".to_owned());
    refused(&other, set(ROOT));
    let mut none = run.look().observed;
    none.cluster.intent.as_mut().unwrap().root_password = None;
    refused(&none, set(ROOT));
    assert_eq!(
        check(
            &none,
            &Step::ChangeAuth(AuthChange::DiscardPassword { user: root })
        ),
        Ok(())
    );
}

/// Whose the password is, is recorded only where a Secret is named.
#[test]
fn a_password_that_is_not_asked_for_is_not_recorded() {
    let mut run = Run::new(asking(LOCKED, Some(true), 3, 6, 1));
    settle(&mut run, "without");
    let observed = run.look().observed;
    let mut latched = observed.cluster.latched.clone();
    latched.made.root_password = true;
    let step = Step::Latch(latched);
    assert_eq!(check(&observed, &step), Err(Violation::NotAskedFor));
}
