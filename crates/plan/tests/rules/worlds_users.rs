//! Declared users and roles: made, changed, repaired and deleted, and what others made is left alone.

use plan::invariants::Violation;
use plan::observed::{AuthChange, Login, NodeState, OPERATOR, ROOT};
use plan::{Observed, Step};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::run::killed_at_every_write;
use testkit::story::{BOUND, seeds, settle};
use testkit::{Run, World};

use crate::worlds_auth::{LOCKED, asking, is_on};

/// A cluster with a role, a user by password and one by certificate.
fn with_users(seed: u64) -> Run<'static> {
    let mut world = asking(LOCKED, Some(true), 3, 6, seed);
    declare(&mut world);
    let mut run = Run::new(world);
    settle(&mut run, "with users");
    as_declared(&run, "with users");
    run.world.writes = 0;
    run
}

fn declare(world: &mut World) {
    world.declare_role("app", &["/app/"]);
    world.declare_user("pat", &["app"], Some(1));
    world.declare_user("kim", &["app", "root"], None);
}

/// etcd has what is declared, and what others made.
#[track_caller]
fn as_declared(run: &Run<'_>, what: &str) {
    is_on(run, what);
    let live = run.world.clusters.values().find(|it| !it.given_up).unwrap();
    let declared = &run.world.people.declared;
    for wish in &declared.users {
        assert_eq!(
            live.accounts.users.get(&wish.user),
            Some(&wish.roles),
            "{what}"
        );
        match &wish.login {
            Login::Password { seen, .. } => {
                let version = &seen.as_ref().unwrap().resource_version;
                let has = run.world.people.passwords.get(&wish.user);
                assert_eq!(has, Some(version), "{what}: password");
                assert_eq!(&wish.applied, seen, "{what}: recorded");
            }
            Login::Certificate { issued, .. } => assert!(issued.record().is_some(), "{what}"),
        }
    }
    for wish in &declared.roles {
        assert_eq!(
            live.accounts.roles.get(&wish.role),
            Some(&wish.grants),
            "{what}"
        );
    }
    let own = |user: &&String| *user != ROOT && *user != OPERATOR;
    let others = live.accounts.users.keys().filter(own);
    let others = others.filter(|user| !declared.has_user(user));
    let others: Vec<&String> = others.collect();
    let foreign: Vec<&String> = run.world.people.foreign.iter().collect();
    assert_eq!(others, foreign, "{what}");
}

#[test]
fn users_and_roles_are_made_changed_and_deleted() {
    for seed in seeds(5) {
        let mut run = with_users(seed);
        run.world.declare_role("app", &["/app/", "/more/"]);
        run.world.declare_user("pat", &[], Some(2));
        settle(&mut run, "changed");
        as_declared(&run, "changed");
        // From a password to a certificate, and back.
        run.world.declare_user("pat", &["app"], None);
        run.world.declare_user("kim", &["app"], Some(7));
        settle(&mut run, "exchanged");
        as_declared(&run, "exchanged");
        // Drift is repaired.
        let cluster = run.world.clusters.values_mut().next().unwrap();
        cluster.accounts.users.remove("pat");
        cluster.accounts.roles.get_mut("app").unwrap().clear();
        settle(&mut run, "repaired");
        as_declared(&run, "repaired");
        run.world.people.declared.users.clear();
        run.world.people.declared.roles.clear();
        settle(&mut run, "deleted");
        as_declared(&run, "deleted");
        let cluster = run.world.clusters.values().next().unwrap();
        assert_eq!(cluster.accounts.roles.len(), 1);
        assert!(run.world.memory().made.users.is_empty());
    }
}

#[test]
fn users_of_others_are_left_alone_and_reported() {
    let mut run = with_users(1);
    run.world.add_foreign_user("theirs");
    settle(&mut run, "theirs");
    as_declared(&run, "theirs");
    let status = run.world.object.status.auth.clone().unwrap();
    assert_eq!(status.unmanaged_users, ["theirs"]);
}

/// A wiped memory never deletes what is not declared; what is declared becomes the operator's again.
#[test]
fn a_wiped_status_deletes_no_user() {
    for turns in 0..10 {
        let mut run = with_users(2);
        run.world.add_foreign_user("theirs");
        run.world.declare_user("new", &["app"], Some(1));
        run.turns(turns);
        run.world.wipe_status();
        settle(&mut run, "wiped");
        as_declared(&run, &format!("wiped after {turns}"));
        run.world
            .people
            .declared
            .users
            .retain(|wish| wish.user != "pat");
        settle(&mut run, "deleted");
        as_declared(&run, "deleted");
    }
}

#[test]
fn changes_of_users_survive_a_kill_at_every_write() {
    let mut run = with_users(3);
    run.world.declare_user("new", &["app"], Some(1));
    run.world.declare_role("more", &["/more/"]);
    run.world
        .people
        .declared
        .users
        .retain(|wish| wish.user != "kim");
    killed_at_every_write(&run.world, &|run| {
        let turns = run.settle(BOUND)?;
        as_declared(run, "killed");
        Ok(turns)
    })
    .unwrap();
}

#[test]
fn users_are_changed_while_a_member_is_down() {
    let mut run = with_users(4);
    let now = run.world.now;
    run.world.set_node(1, NodeState::NotReady(now));
    run.turns(5);
    run.world.declare_user("new", &["app"], Some(1));
    run.turns(40);
    let cluster = run.world.clusters.values().next().unwrap();
    assert!(cluster.accounts.has("new", "app"));
}

/// Deletes a user that it did not make.
fn deletes_others(observed: &Observed) -> Option<Step> {
    let accounts = observed.etcd.auth.accounts.as_ref()?;
    let user = accounts.users.keys().find(|user| *user == "theirs")?;
    let user = user.clone();
    Some(Step::ChangeAuth(AuthChange::DeleteUser { user }))
}

/// Takes the role root from the operator.
fn revokes_itself(observed: &Observed) -> Option<Step> {
    let accounts = observed.etcd.auth.accounts.as_ref()?;
    accounts.has(OPERATOR, ROOT).then(|| {
        let (user, role) = (OPERATOR.to_owned(), ROOT.to_owned());
        Step::ChangeAuth(AuthChange::RevokeRole { user, role })
    })
}

/// Records what is not declared as its own to delete.
fn claims_others(observed: &Observed) -> Option<Step> {
    observed.etcd.auth.accounts.as_ref()?;
    let mut latched = observed.cluster.latched.clone();
    latched.made.users.insert("theirs".to_owned());
    Some(Step::Latch(latched))
}

#[test]
fn no_user_of_others_and_no_right_of_the_operator_is_taken_away() {
    let told = |mutant: Mutant, unchecked: bool| {
        let wrong = |observed: &Observed| decide_as(mutant, observed);
        let mut world = with_users(1).world;
        world.add_foreign_user("theirs");
        let mut run = Run::with(world, &wrong);
        run.unchecked = unchecked;
        run.turns(20);
        let mut caught = Caught::default();
        caught.note(&run);
        caught
    };
    told(deletes_others, false).assert_refused(&Violation::NotAskedFor);
    told(deletes_others, true).assert_harm("a user of another was deleted");
    told(claims_others, false).assert_refused(&Violation::NotAskedFor);
    told(revokes_itself, false).assert_refused(&Violation::LockOut);
    told(revokes_itself, true).assert_harm("locked out");
}
