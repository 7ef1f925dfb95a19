//! TLS is switched on and off for members that run: one rung at a time, one member after another, and back at any time.

use std::collections::{BTreeMap, BTreeSet};

use api::v1alpha1::status::EtcdClusterStatus;
use api::{Plane, Reason, Transport};
use manifests::Template;
use plan::invariants::{Violation, check};
use plan::observed::Issued;
use plan::shape::decide_shape;
use plan::{Observed, Step};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle};
use testkit::{Run, World};

const PLAIN: Transport = Transport {
    client: Plane::Plain,
    peer: Plane::Plain,
};
const BOTH: Transport = Transport {
    client: Plane::Both,
    peer: Plane::Plain,
};
const TLS: Transport = Transport {
    client: Plane::Tls,
    peer: Plane::Plain,
};
/// Both planes.
const LOCKED: Transport = Transport {
    client: Plane::Tls,
    peer: Plane::Tls,
};
/// On its way there.
const ARMED: Transport = Transport {
    client: Plane::Both,
    peer: Plane::Both,
};
/// From, and where to.
const WAYS: [(Transport, Transport); 4] =
    [(PLAIN, TLS), (TLS, PLAIN), (PLAIN, LOCKED), (LOCKED, PLAIN)];

fn formed(on: Transport, size: u32, minor: u8, seed: u64) -> Run<'static> {
    let mut world = World::new(size, minor, seed);
    world.object.transport = Some(on);
    let mut run = Run::new(world);
    settle(&mut run, &format!("size {size}, 3.{minor}, seed {seed}"));
    run.world.writes = 0;
    run.world.most_away = 0;
    run
}

fn transports(world: &World) -> BTreeSet<Transport> {
    let pods = world.pods.values();
    pods.map(|pod| pod.template.transport).collect()
}

fn uids(world: &World) -> BTreeMap<u32, String> {
    let pods = world.pods.iter();
    pods.map(|(ordinal, pod)| (*ordinal, pod.uid.clone()))
        .collect()
}

fn told(run: &Run<'_>, kind: &str) -> (String, String) {
    let conditions = &run.world.object.status.conditions;
    let told = conditions.iter().find(|c| c.type_ == kind).unwrap();
    (told.reason.clone(), told.message.clone())
}

/// The schemes under which members are listed for each other.
fn listed(world: &World) -> BTreeSet<String> {
    let members = world.clusters.values().flat_map(|cluster| &cluster.members);
    let urls = members.flat_map(|member| &member.peer_urls);
    let schemes = urls.filter_map(|url| url.split_once("://"));
    schemes.map(|(scheme, _)| scheme.to_owned()).collect()
}

fn arrived(run: &Run<'_>, to: Transport, what: &str) {
    let scheme = to.peer.scheme().to_string();
    assert_eq!(listed(&run.world), [scheme].into(), "{what}");
    assert_eq!(transports(&run.world), [to].into(), "{what}");
    let size = usize::try_from(run.world.object.size).unwrap();
    assert_eq!(run.world.healthy_voters(), size, "{what}");
    assert_eq!(run.world.clusters.len(), 1, "{what}");
}

/// Every pod that there was on the way.
fn pods_on_the_way(run: &mut Run<'_>) -> BTreeSet<(u32, String)> {
    let mut pods: BTreeSet<(u32, String)> = BTreeSet::new();
    while run.world.object.status.client_endpoints.len() < 2 {
        run.turn();
        pods.extend(uids(&run.world));
    }
    for _turn in 0..300 {
        run.turn();
        pods.extend(uids(&run.world));
    }
    pods
}

fn is_switched(from: Transport, to: Transport, size: u32, minor: u8) {
    for seed in seeds(3) {
        let what = format!("{from} to {to}, size {size}, 3.{minor}, seed {seed}");
        let mut run = formed(from, size, minor, seed);
        run.world.switch(to);
        let pods = pods_on_the_way(&mut run);
        settle(&mut run, &what);
        arrived(&run, to, &what);
        // The first pod of each, and two that came after it.
        assert_eq!(pods.len(), usize::try_from(size).unwrap() * 3, "{what}");
        assert!(run.world.most_away <= 1, "{what}");
        let ends = &run.world.object.status.client_endpoints;
        let scheme = to.client.scheme();
        assert!(ends[0].starts_with(&format!("{scheme}://")), "{ends:?}");
        assert_eq!(ends.len(), 1, "{ends:?}");
        assert_eq!(run.world.certificates.made, 1, "one authority");
    }
}

#[test]
fn tls_is_switched_on_and_off_with_two_restarts_of_each_member() {
    for (from, to) in WAYS {
        for minor in [5, 6, 7] {
            for size in [1, 3, 5] {
                is_switched(from, to, size, minor);
            }
        }
    }
}

#[test]
fn plaintext_clients_are_served_for_as_long_as_they_are_accepted() {
    let mut run = formed(PLAIN, 3, 6, 1);
    for to in [BOTH, TLS, BOTH, PLAIN, BOTH] {
        run.world.switch(to);
        settle(&mut run, &format!("to {to}"));
        arrived(&run, to, "there");
    }
    // Who is refused needs no consent of its own.
    run.world.object.live_switch = false;
    run.world.object.transport = Some(TLS);
    run.world.object.revision += 1;
    settle(&mut run, "refused again");
    arrived(&run, TLS, "there");
    let new = formed(BOTH, 3, 6, 2);
    arrived(&new, BOTH, "a new cluster");
    assert_eq!(new.world.object.status.client_endpoints.len(), 2);
}

#[test]
fn a_switch_survives_a_kill_at_every_write() {
    for (from, to) in WAYS {
        for size in [1, 3] {
            let mut world = formed(from, size, 6, 3).world;
            world.switch(to);
            killed_at_every_write(&world, &|run| {
                let turns = run.settle(BOUND)?;
                arrived(run, to, "killed");
                Ok(turns)
            })
            .unwrap();
        }
    }
}

#[test]
fn a_switch_is_taken_back_half_way() {
    for (from, to) in WAYS {
        for turns in (1..120).step_by(3) {
            let what = format!("{from} to {to}, back after {turns}");
            let mut run = formed(from, 3, 6, 4);
            run.world.switch(to);
            run.turns(turns);
            run.world.switch(from);
            settle(&mut run, &what);
            arrived(&run, from, &what);
            assert!(run.world.most_away <= 1, "{what}");
            // And there once more.
            run.world.switch(to);
            run.turns(turns);
            run.world.switch(from);
            run.turns(turns / 2);
            run.world.switch(to);
            settle(&mut run, &what);
            arrived(&run, to, &what);
        }
    }
}

#[test]
fn a_status_that_is_wiped_half_way_costs_nothing() {
    for (from, to) in WAYS {
        for turns in (1..120).step_by(4) {
            let what = format!("{from} to {to}, wiped after {turns}");
            let mut run = formed(from, 3, 6, 5);
            run.world.switch(to);
            run.turns(turns);
            run.world.wipe_status();
            settle(&mut run, &what);
            arrived(&run, to, &what);
        }
        let mut run = formed(from, 3, 6, 6);
        run.world.switch(to);
        for _turn in 0..30 {
            run.turns(5);
            run.world.wipe_status();
        }
        settle(&mut run, "wiped again and again");
        arrived(&run, to, "wiped again and again");
    }
}

#[test]
fn an_older_status_that_is_restored_half_way_costs_nothing() {
    for (from, to) in WAYS {
        for turns in (1..140).step_by(4) {
            let what = format!("{from} to {to}, restored after {turns}");
            let mut run = formed(from, 3, 6, 5);
            let older: EtcdClusterStatus = run.world.object.status.clone();
            run.world.switch(to);
            run.turns(turns);
            run.world.object.status = older;
            run.world.object.revision += 1;
            settle(&mut run, &what);
            arrived(&run, to, &what);
        }
    }
}

#[test]
fn a_stop_and_a_recreated_object_half_way_come_back_and_go_on() {
    for (from, to) in WAYS {
        for turns in (1..120).step_by(4) {
            let what = format!("{from} to {to}, stopped after {turns}");
            let mut run = formed(from, 3, 6, 7);
            run.world.switch(to);
            run.turns(turns);
            let mut again = Run::new(run.world.clone());
            run.world.resize(0);
            run.turns(60);
            run.world.resize(3);
            settle(&mut run, &what);
            arrived(&run, to, &what);
            // Another object takes over what is kept.
            again.world.create_again(3);
            settle(&mut again, &what);
            arrived(&again, to, &what);
        }
    }
}

#[test]
fn a_pod_a_volume_or_the_statefulset_that_is_lost_half_way_comes_back() {
    let losses: [fn(&mut World); 5] = [
        |world| (0..3).for_each(|ordinal| world.delete_pod(ordinal)),
        |world| world.delete_pod(0),
        |world| world.lose_claim(1),
        |world| world.empty_volume(2),
        |world| world.set = None,
    ];
    for (from, to) in WAYS {
        for turns in (1..120).step_by(6) {
            for (which, lose) in losses.iter().enumerate() {
                let what = format!("{from} to {to}, loss {which} after {turns}");
                let mut run = formed(from, 3, 6, 8);
                run.world.switch(to);
                run.turns(turns);
                lose(&mut run.world);
                settle(&mut run, &what);
                arrived(&run, to, &what);
            }
        }
    }
}

#[test]
fn a_switch_survives_every_fault_at_once() {
    for (from, to) in WAYS {
        for seed in seeds(20) {
            let mut run = formed(from, 3, 6, seed);
            run.world.switch(to);
            run.faults = Faults::ALL;
            run.turns(200);
            settle(&mut run, &format!("{from} to {to}, seed {seed}"));
            arrived(&run, to, &format!("{from} to {to}, seed {seed}"));
        }
    }
}

#[test]
fn a_rung_that_does_not_come_up_halts_at_one_member_and_goes_back() {
    for (from, bad, to) in [
        (PLAIN, BOTH, TLS),
        (PLAIN, TLS, TLS),
        (TLS, BOTH, PLAIN),
        (PLAIN, ARMED, LOCKED),
        (PLAIN, LOCKED, LOCKED),
        (LOCKED, ARMED, PLAIN),
    ] {
        let mut run = formed(from, 3, 6, 9);
        run.world.bad_transports.insert(bad);
        run.world.switch(to);
        run.turns(300);
        let there = run.world.pods.values();
        let there = there.filter(|pod| pod.template.transport == bad).count();
        assert_eq!(there, 1, "{bad} reached one member");
        assert_eq!(run.world.healthy_voters(), 2);
        let (reason, message) = told(&run, "Degraded");
        assert_eq!(reason, Reason::RolloutHalted.to_string());
        let whose = if bad.client == from.client {
            "(peers: "
        } else {
            "(clients: "
        };
        assert!(message.contains(whose), "{message}");
        run.world.switch(from);
        settle(&mut run, "back");
        arrived(&run, from, "back");
    }
}

#[test]
fn without_consent_members_stay_as_they_are_and_the_field_is_named() {
    for (from, to) in WAYS {
        let mut run = formed(from, 3, 6, 10);
        let before = uids(&run.world);
        run.world.object.transport = Some(to);
        run.world.object.revision += 1;
        run.turns(60);
        assert_eq!(uids(&run.world), before, "no member is restarted");
        let kind = if to == PLAIN {
            "Degraded"
        } else {
            "Progressing"
        };
        let (_, message) = told(&run, kind);
        assert!(
            message.contains("security.tls.liveSwitch: true"),
            "{message}"
        );
    }
}

#[test]
fn a_switch_and_an_upgrade_reach_their_ends_together() {
    for (from, to) in WAYS {
        for seed in seeds(5) {
            let mut run = formed(from, 3, 5, seed);
            run.world.object.minor = 6;
            run.world.switch(to);
            run.turns(30);
            run.world.edit(1);
            settle(&mut run, &format!("{from} to {to}, seed {seed}"));
            arrived(&run, to, &format!("{from} to {to}, seed {seed}"));
            let minors: BTreeSet<u8> = run.world.pods.values().map(|p| p.template.minor).collect();
            assert_eq!(minors, [6].into());
        }
    }
}

/// While another owner holds the Secret, no member is restarted to mount it.
#[test]
fn no_member_is_switched_before_its_certificates_are_there() {
    let mut run = formed(PLAIN, 3, 6, 11);
    run.world.reject("IssueCertificates", None);
    let before = uids(&run.world);
    run.world.switch(TLS);
    run.turns(120);
    assert_eq!(uids(&run.world), before);
    let (_, message) = told(&run, "Degraded");
    assert!(message.contains("denied IssueCertificates"), "{message}");
    let mut observed = run.look().observed;
    assert_eq!(observed.certificates.members, Issued::Missing);
    let mut shape = decide_shape(&observed).unwrap();
    shape.template = Template::Try;
    let step = Step::ApplyObjects(shape);
    assert_eq!(check(&observed, &step), Err(Violation::Transport));
    observed.certificates.members = Issued::Foreign;
    assert_eq!(check(&observed, &step), Err(Violation::Transport));
    run.world.rejects.clear();
    run.world.sleep(120);
    settle(&mut run, "written at last");
    arrived(&run, TLS, "written at last");
}

/// An authority that was lost with the Secrets of a plaintext cluster is not missed.
#[test]
fn secrets_of_an_earlier_switch_may_be_deleted_in_plaintext_and_are_made_again() {
    let mut run = formed(TLS, 3, 6, 12);
    run.world.switch(PLAIN);
    settle(&mut run, "off");
    run.world.certificates.authority = None;
    run.world.switch(TLS);
    settle(&mut run, "on again");
    arrived(&run, TLS, "on again");
    assert_eq!(run.world.certificates.made, 2);
}

/// Goes from plaintext to TLS at once.
fn jumps(observed: &Observed) -> Option<Step> {
    let target = observed.cluster.target.as_ref()?;
    let jumps = target.runs == PLAIN && target.intent.tls.transport == BOTH;
    let ordinal = *observed.pods.keys().next()?;
    let mut latched = observed.cluster.latched.clone();
    latched.cluster_id?;
    let pod = observed.pods.get(&ordinal)?;
    jumps.then_some(())?;
    let mut proven = latched.proven.clone()?;
    proven.template.clone_from(&pod.template);
    latched.proven = Some(proven);
    latched.transport = Some(TLS);
    latched.switches += 1;
    Some(Step::Latch(latched))
}

/// Records the next rung before any member was seen on it.
fn records_too_early(observed: &Observed) -> Option<Step> {
    let target = observed.cluster.target.as_ref()?;
    let mut latched = observed.cluster.latched.clone();
    latched.cluster_id?;
    let switches = target.runs != target.intent.tls.transport;
    latched.transport = Some(target.intent.tls.transport);
    latched.switches += 1;
    switches.then_some(Step::Latch(latched))
}

fn stories(mutant: Mutant) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    let mut run = Run::with(formed(PLAIN, 3, 6, 1).world, &wrong);
    run.world.switch(TLS);
    run.turns(60);
    caught.note(&run);
    caught
}

#[test]
fn a_rung_that_is_left_out_or_recorded_too_early_is_refused() {
    for mutant in [jumps, records_too_early] {
        stories(mutant).assert_refused(&Violation::Transport);
    }
}

#[test]
fn no_template_is_tried_more_than_a_rung_away_or_while_others_are_on_their_way() {
    let mut run = formed(PLAIN, 3, 6, 1);
    run.world.switch(TLS);
    let mut seen = 0;
    for _turn in 0..300 {
        let mut observed = run.look().observed;
        let runs = observed.runs();
        let everywhere = observed.cluster.latched.proven.as_ref().unwrap().everywhere;
        let before = observed.cluster.latched.transport_before;
        if observed.certificates.clients == Issued::Missing {
            run.turn();
            continue;
        }
        for to in [PLAIN, BOTH, TLS] {
            let Some(mut shape) = decide_shape(&observed) else {
                continue;
            };
            shape.template = Template::Try;
            let target = observed.cluster.target.as_mut().unwrap();
            target.intent.tls.transport = to;
            let distance = |one: Transport| match (one.client, to.client) {
                (one, other) if one == other => 0,
                (Plane::Both, _) | (_, Plane::Both) => 1,
                _ends => 2,
            };
            let far = distance(runs) > 1;
            let early = to != runs && !everywhere && before != Some(to);
            let checked = check(&observed, &Step::ApplyObjects(shape));
            if far || early {
                assert_eq!(checked, Err(Violation::Transport), "{runs} to {to}");
                seen += 1;
            } else {
                assert_ne!(checked, Err(Violation::Transport), "{runs} to {to}");
            }
        }
        run.turn();
    }
    assert!(seen > 100, "{seen}");
}
