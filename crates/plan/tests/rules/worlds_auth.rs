//! Authentication of etcd: switched on and off, and everything else that happens to a cluster while it is on.

use api::{Plane, Reason, Transport};
use plan::invariants::{Violation, check};
use plan::observed::{AuthChange, NodeState, OPERATOR, Process, ROOT};
use plan::{Observed, Step};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle};
use testkit::{Run, World};

pub(crate) const LOCKED: Transport = Transport {
    client: Plane::Tls,
    peer: Plane::Tls,
};
const PLAIN: Transport = Transport {
    client: Plane::Plain,
    peer: Plane::Plain,
};

pub(crate) fn asking(on: Transport, auth: Option<bool>, size: u32, minor: u8, seed: u64) -> World {
    let mut world = World::new(size, minor, seed);
    world.object.transport = Some(on);
    world.object.auth = auth;
    world
}

/// A cluster that asks its clients who they are.
fn formed(size: u32, minor: u8, seed: u64) -> Run<'static> {
    let mut run = Run::new(asking(LOCKED, Some(true), size, minor, seed));
    settle(&mut run, &format!("size {size}, 3.{minor}, seed {seed}"));
    is_on(&run, "formed");
    run.world.writes = 0;
    run
}

#[track_caller]
pub(crate) fn is_on(run: &Run<'_>, what: &str) {
    let live = run.world.clusters.values().find(|it| !it.given_up).unwrap();
    assert!(live.accounts.enabled, "{what}");
    for user in [OPERATOR, ROOT] {
        assert!(live.accounts.has(user, ROOT), "{what}");
    }
    let size = usize::try_from(run.world.object.size).unwrap();
    assert_eq!(run.world.healthy_voters(), size, "{what}");
    let status = run.world.object.status.auth.as_ref();
    assert!(status.is_some_and(|status| status.enabled), "{what}");
}

fn told(run: &Run<'_>, kind: &str) -> (String, String) {
    let conditions = &run.world.object.status.conditions;
    let told = conditions.iter().find(|c| c.type_ == kind).unwrap();
    (told.reason.clone(), told.message.clone())
}

#[test]
fn authentication_is_switched_on_when_a_cluster_is_made() {
    for minor in [5, 6, 7] {
        for size in [1, 3, 5] {
            for seed in seeds(3) {
                formed(size, minor, seed);
            }
        }
    }
}

#[test]
fn it_is_switched_on_and_off_for_a_cluster_that_runs_without_a_restart() {
    for seed in seeds(3) {
        let mut run = Run::new(asking(LOCKED, None, 3, 6, seed));
        settle(&mut run, "formed");
        assert!(!run.world.has_auth() && run.world.object.status.auth.is_none());
        let uids: Vec<String> = run.world.pods.values().map(|pod| pod.uid.clone()).collect();
        run.world.ask_auth(Some(true));
        settle(&mut run, "on");
        is_on(&run, "on");
        run.world.ask_auth(Some(false));
        settle(&mut run, "off");
        assert!(!run.world.has_auth());
        let cluster = run.world.clusters.values().next().unwrap();
        assert!(cluster.accounts.has(OPERATOR, ROOT), "users stay");
        run.world.ask_auth(Some(true));
        settle(&mut run, "on again");
        is_on(&run, "on again");
        let after: Vec<String> = run.world.pods.values().map(|pod| pod.uid.clone()).collect();
        assert_eq!(uids, after);
    }
}

#[test]
fn tls_and_authentication_are_asked_for_together_of_a_plaintext_cluster() {
    for seed in seeds(3) {
        let mut run = Run::new(asking(PLAIN, None, 3, 6, seed));
        settle(&mut run, "plain");
        run.world.switch(LOCKED);
        run.world.ask_auth(Some(true));
        settle(&mut run, "both");
        is_on(&run, "both");
    }
}

#[test]
fn switching_it_on_survives_a_kill_at_every_write() {
    for size in [1, 3] {
        let mut run = Run::new(asking(LOCKED, None, size, 6, 3));
        settle(&mut run, "formed");
        run.world.writes = 0;
        run.world.ask_auth(Some(true));
        killed_at_every_write(&run.world, &|run| {
            let turns = run.settle(BOUND)?;
            is_on(run, "killed");
            Ok(turns)
        })
        .unwrap();
    }
}

#[test]
fn a_status_that_is_wiped_on_the_way_costs_nothing() {
    for turns in 0..12 {
        for wish in [true, false] {
            let mut run = formed(3, 6, 5);
            run.world.ask_auth(Some(false));
            if wish {
                settle(&mut run, "off");
                run.world.ask_auth(Some(true));
            }
            run.turns(turns);
            run.world.wipe_status();
            settle(&mut run, "wiped");
            assert_eq!(run.world.has_auth(), wish, "after {turns}");
        }
    }
}

/// What etcd refuses for good is told, and holds up nothing else.
#[test]
fn a_change_that_is_rejected_is_told_and_repairs_go_on() {
    let mut run = Run::new(asking(LOCKED, None, 3, 6, 7));
    settle(&mut run, "formed");
    run.world.reject("ChangeAuth", None);
    run.world.ask_auth(Some(true));
    run.turns(60);
    let (_, message) = told(&run, "Degraded");
    assert!(message.contains("denied ChangeAuth"), "{message}");
    assert!(!run.world.has_auth());
    run.world.lose_claim(1);
    run.turns(200);
    assert_eq!(run.world.healthy_voters(), 3, "repaired meanwhile");
    run.world.rejects.clear();
    run.world.sleep(120);
    settle(&mut run, "taken at last");
    is_on(&run, "taken at last");
}

#[test]
fn it_waits_for_a_member_that_is_down_and_repairs_go_on() {
    for seed in seeds(5) {
        let mut run = Run::new(asking(LOCKED, None, 3, 6, seed));
        settle(&mut run, "formed");
        let now = run.world.now;
        run.world.set_node(1, NodeState::NotReady(now));
        run.turns(5);
        run.world.ask_auth(Some(true));
        for _turn in 0..40 {
            run.turn();
            assert!(!run.world.has_auth(), "while a member is down");
        }
        // The users are made already: that needs no more than a quorum.
        let cluster = run.world.clusters.values().next().unwrap();
        assert!(cluster.accounts.has(OPERATOR, ROOT));
        run.world.set_node(1, NodeState::Deleted);
        settle(&mut run, "replaced");
        is_on(&run, "replaced");
    }
}

#[test]
fn members_come_go_change_and_are_repaired_while_it_is_on() {
    for seed in seeds(3) {
        for minor in [5, 6] {
            let mut run = formed(3, minor, seed);
            run.world.resize(5);
            settle(&mut run, "grown");
            is_on(&run, "grown");
            run.world.edit(1);
            run.world.upgrade(minor + 1);
            settle(&mut run, "rolled out");
            is_on(&run, "rolled out");
            run.world.lose_claim(2);
            run.world.empty_volume(4);
            settle(&mut run, "repaired");
            is_on(&run, "repaired");
            run.world.resize(1);
            settle(&mut run, "shrunk");
            is_on(&run, "shrunk");
            run.world.resize(0);
            settle(&mut run, "stopped");
            run.world.resize(3);
            settle(&mut run, "started");
            is_on(&run, "started");
        }
    }
}

/// What a survivor holds has users and authentication as well.
#[test]
fn quorum_is_recovered_while_it_is_on() {
    for seed in seeds(5) {
        let mut run = formed(3, 6, seed);
        for ordinal in [0, 2] {
            run.world.set_node(ordinal, NodeState::Deleted);
        }
        run.turns(10);
        run.world.approve_recovery();
        settle(&mut run, "recovered");
        assert_eq!(run.world.clusters.len(), 2);
        is_on(&run, "recovered");
    }
}

#[test]
fn every_fault_at_once_locks_no_one_out() {
    for seed in seeds(10) {
        let mut run = Run::new(asking(LOCKED, Some(true), 3, 6, seed));
        run.world.forgiving = true;
        run.faults = Faults::REFUSING;
        for wish in [true, false, true] {
            run.turns(150);
            run.world.ask_auth(Some(wish));
        }
        run.turns(150);
        let what = format!("seed {seed}");
        settle(&mut run, &what);
        is_on(&run, &what);
    }
}

#[test]
fn tls_for_clients_stays_on_while_authentication_is() {
    for (to, seed) in [
        (PLAIN, 1),
        (
            Transport {
                client: Plane::Both,
                ..LOCKED
            },
            2,
        ),
    ] {
        let mut run = formed(3, 6, seed);
        run.world.switch(to);
        run.turns(120);
        let kept = |run: &Run<'_>| {
            let mut pods = run.world.pods.values();
            pods.all(|pod| pod.template.transport.client == Plane::Tls)
        };
        assert!(kept(&run));
        let (reason, message) = told(&run, "Degraded");
        assert_eq!(reason, Reason::ChangeRefused.to_string());
        assert!(
            message.contains("security.auth.enabled: false"),
            "{message}"
        );
        // Both at once are carried out one after the other.
        run.world.ask_auth(Some(false));
        settle(&mut run, "off");
        assert!(!kept(&run) && !run.world.has_auth());
        let mut pods = run.world.pods.values();
        assert!(pods.all(|pod| pod.template.transport == to));
    }
}

#[test]
fn without_tls_it_is_told_what_to_write() {
    let mut run = Run::new(asking(PLAIN, Some(true), 3, 6, 1));
    run.turns(200);
    assert!(!run.world.has_auth());
    assert_eq!(run.world.healthy_voters(), 3);
    let (reason, message) = told(&run, "Degraded");
    assert_eq!(reason, Reason::AuthProblem.to_string());
    assert!(message.contains("clientTLSEnabled: true"), "{message}");
}

#[test]
fn switched_on_by_hand_it_is_left_alone_and_told() {
    // With certificates the operator still sees everything, and may change nothing.
    let mut run = Run::new(asking(LOCKED, None, 3, 6, 1));
    settle(&mut run, "formed");
    run.world.enable_auth_by_hand();
    settle(&mut run, "nothing asked");
    run.world.ask_auth(Some(true));
    run.turns(60);
    let (reason, _) = told(&run, "Degraded");
    assert_eq!(reason, Reason::AuthProblem.to_string());
    assert!(run.world.has_auth());
    // Without them it is refused by every member, which is neither silent nor starting.
    let mut run = Run::new(asking(PLAIN, None, 3, 6, 1));
    settle(&mut run, "formed");
    let uids: Vec<String> = run.world.pods.values().map(|pod| pod.uid.clone()).collect();
    run.world.enable_auth_by_hand();
    run.turns(30);
    run.world.sleep(900);
    run.turns(60);
    let observed = run.look().observed;
    let refusing = |process: &Process| matches!(process, Process::Refusing(_));
    assert!(observed.pods.values().all(|pod| refusing(&pod.process)));
    let (_, message) = told(&run, "Degraded");
    assert!(message.contains("does not know who asks"), "{message}");
    let after: Vec<String> = run.world.pods.values().map(|pod| pod.uid.clone()).collect();
    assert_eq!(uids, after);
    assert_eq!(run.world.clusters.len(), 1);
    run.verdict().unwrap();
}

/// Switches it on before the operator is a user.
fn forgets_itself(observed: &Observed) -> Option<Step> {
    let accounts = observed.etcd.auth.accounts.as_ref()?;
    let first = accounts.has(ROOT, ROOT) || accounts.has(OPERATOR, ROOT);
    (!first && !accounts.enabled).then(|| {
        let user = ROOT.to_owned();
        let change = if !accounts.roles.contains_key(ROOT) {
            AuthChange::AddRole { role: user }
        } else if !accounts.users.contains_key(ROOT) {
            AuthChange::AddUser {
                user,
                password: None,
                replaces: false,
            }
        } else {
            AuthChange::GrantRole {
                role: user.clone(),
                user,
            }
        };
        Step::ChangeAuth(change)
    })
}

/// And with no more than etcd itself demands.
fn enables_for_root(observed: &Observed) -> Option<Step> {
    let accounts = observed.etcd.auth.accounts.as_ref()?;
    let early = accounts.has(ROOT, ROOT) && !accounts.enabled;
    let early = early && !accounts.has(OPERATOR, ROOT);
    let enable = early.then_some(Step::ChangeAuth(AuthChange::Enable));
    enable.or_else(|| forgets_itself(observed))
}

fn stories(mutant: Mutant, unchecked: bool) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    let mut run = Run::new(asking(LOCKED, None, 3, 6, 1));
    settle(&mut run, "formed");
    let mut run = Run::with(run.world, &wrong);
    run.unchecked = unchecked;
    run.world.ask_auth(Some(true));
    run.turns(60);
    caught.note(&run);
    caught
}

#[test]
fn enabling_before_the_operator_is_known_is_refused_and_would_lock_it_out() {
    stories(enables_for_root, false).assert_refused(&Violation::LockOut);
    stories(enables_for_root, true).assert_harm("locked out");
    stories(|_| None, false).assert_nothing();
}

#[test]
fn enabling_while_a_member_serves_without_certificates_is_refused() {
    let mut run = Run::new(asking(PLAIN, None, 3, 6, 1));
    settle(&mut run, "formed");
    run.world.switch(LOCKED);
    run.world.ask_auth(Some(true));
    let enable = Step::ChangeAuth(AuthChange::Enable);
    let (mut refused, mut allowed) = (0, 0);
    for _turn in 0..400 {
        run.turn();
        let mut observed = run.look().observed;
        let Some(accounts) = &mut observed.etcd.auth.accounts else {
            continue;
        };
        for user in [OPERATOR, ROOT] {
            let user = user.to_owned();
            accounts
                .users
                .entry(user)
                .or_default()
                .insert(ROOT.to_owned());
        }
        accounts.roles.entry(ROOT.to_owned()).or_default();
        let mut pods = observed.pods.values();
        let locked = pods.all(|pod| pod.transport.client == Plane::Tls);
        match check(&observed, &enable) {
            Ok(()) => {
                assert!(locked);
                allowed += 1;
            }
            Err(violation) => {
                assert_eq!(violation, Violation::LockOut);
                refused += 1;
            }
        }
    }
    assert!(refused > 30 && allowed > 10, "{refused} {allowed}");
}

#[test]
fn no_rung_without_certificates_is_tried_while_it_is_on() {
    let mut run = formed(3, 6, 1);
    let mut observed = run.look().observed;
    let mut shape = plan::shape::decide_shape(&observed).unwrap();
    shape.template = manifests::Template::Try;
    let target = observed.cluster.target.as_mut().unwrap();
    target.intent.tls.transport.client = Plane::Both;
    let step = Step::ApplyObjects(shape);
    assert_eq!(check(&observed, &step), Err(Violation::LockOut));
    // Once it is off, and not asked for, nothing stands in the way.
    observed.cluster.intent.as_mut().unwrap().auth = Some(false);
    assert_eq!(check(&observed, &step), Err(Violation::LockOut));
    observed.etcd.auth.accounts.as_mut().unwrap().enabled = false;
    assert_ne!(check(&observed, &step), Err(Violation::LockOut));
}
