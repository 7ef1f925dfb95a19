//! TLS between members is switched while they run: they are armed, listed under both schemes, restarted, and listed under one.

use std::collections::BTreeSet;

use api::v1alpha1::cluster::OnQuorumLoss;
use api::{Plane, Transport};
use manifests::Template;
use plan::invariants::{Violation, check};
use plan::observed::NodeState;
use plan::shape::decide_shape;
use plan::{Observed, Step, decide};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::story::{BOUND, seeds, settle};
use testkit::{Run, World};

const PLAIN: Transport = Transport {
    client: Plane::Plain,
    peer: Plane::Plain,
};
const PEERS: Transport = Transport {
    client: Plane::Plain,
    peer: Plane::Tls,
};
const WAYS: [(Transport, Transport); 2] = [(PLAIN, PEERS), (PEERS, PLAIN)];

fn formed(on: Transport, seed: u64) -> World {
    let mut world = World::new(3, 6, seed);
    world.object.transport = Some(on);
    let mut run = Run::new(world);
    settle(&mut run, &format!("seed {seed}"));
    run.world
}

fn begun(from: Transport, to: Transport, seed: u64) -> Run<'static> {
    let mut run = Run::new(formed(from, seed));
    run.world.switch(to);
    run
}

fn listed(world: &World) -> BTreeSet<String> {
    let live = world.clusters.values().filter(|it| !it.given_up);
    let urls = live.flat_map(|it| &it.members).flat_map(|it| &it.peer_urls);
    let schemes = urls.filter_map(|url| url.split_once("://"));
    schemes.map(|(scheme, _)| scheme.to_owned()).collect()
}

fn arrived(run: &Run<'_>, to: Transport, what: &str) {
    let pods = run.world.pods.values();
    let rungs: BTreeSet<Transport> = pods.map(|pod| pod.template.transport).collect();
    assert_eq!(rungs, [to].into(), "{what}");
    let scheme = to.peer.scheme().to_string();
    assert_eq!(listed(&run.world), [scheme].into(), "{what}");
    let size = usize::try_from(run.world.object.size).unwrap();
    assert_eq!(run.world.healthy_voters(), size, "{what}");
}

/// What a grant says of the others is what they are listed under at that moment.
#[test]
fn members_come_and_go_half_way() {
    for (from, to) in WAYS {
        for turns in (1..140).step_by(7) {
            for size in [1, 5] {
                let what = format!("{from} to {to}, size {size} after {turns}");
                let mut run = begun(from, to, 3);
                run.turns(turns);
                run.world.resize(size);
                settle(&mut run, &what);
                arrived(&run, to, &what);
            }
        }
    }
}

/// The survivor may have been on either rung, and those that join it as well.
#[test]
fn a_quorum_that_is_lost_half_way_is_recovered_and_the_switch_goes_on() {
    for (from, to) in WAYS {
        for turns in (1..140).step_by(5) {
            let what = format!("{from} to {to}, lost after {turns}");
            let mut run = begun(from, to, 4);
            run.world.object.on_quorum_loss = OnQuorumLoss::FromSurvivor;
            run.turns(turns);
            // Both at once.
            run.world.set_node(0, NodeState::Deleted);
            run.world.set_node(2, NodeState::Deleted);
            run.turns(40);
            run.world.sleep(600);
            settle(&mut run, &what);
            arrived(&run, to, &what);
        }
    }
}

#[test]
fn an_update_that_fails_holds_up_the_switch_and_no_repair() {
    for (from, to) in WAYS {
        let mut run = begun(from, to, 5);
        run.world.reject("UpdatePeer", Some(1));
        run.turns(300);
        run.world.empty_volume(2);
        run.turns(300);
        assert_eq!(run.world.healthy_voters(), 3, "{from} to {to}");
        run.world.rejects.clear();
        run.world.sleep(120);
        settle(&mut run, "written at last");
        arrived(&run, to, "written at last");
    }
}

#[test]
fn a_cluster_that_an_earlier_operator_listed_by_another_name_is_switched_and_else_left_alone() {
    for seed in seeds(3) {
        let mut world = formed(PLAIN, seed);
        for cluster in world.clusters.values_mut() {
            for member in &mut cluster.members {
                let named = |url: &String| url.replace(".svc:", ".svc.cluster.local:");
                member.peer_urls = member.peer_urls.iter().map(named).collect();
            }
        }
        let mut run = Run::new(world);
        let urls = |run: &Run<'_>| -> Vec<String> {
            let members = run.world.clusters.values().flat_map(|it| &it.members);
            members.flat_map(|it| it.peer_urls.clone()).collect()
        };
        let before = urls(&run);
        settle(&mut run, "as it was");
        assert_eq!(urls(&run), before, "nothing is updated");
        run.world.switch(PEERS);
        settle(&mut run, "on");
        arrived(&run, PEERS, "on");
    }
}

/// Its objects say TLS, and its members are listed with the cluster's domain.
#[test]
fn a_cluster_of_an_earlier_operator_is_switched_with_consent_while_it_is_taken_over_and_later() {
    let locked = Transport {
        client: Plane::Tls,
        peer: Plane::Tls,
    };
    for seed in seeds(5) {
        for turns in [0, 20, 60, 200] {
            let what = format!("after {turns}, seed {seed}");
            let mut run = Run::new(World::of_predecessor(3, 5, seed));
            run.world.object.tls = true;
            run.turns(turns);
            let mut pods = run.world.pods.values();
            assert!(pods.all(|pod| pod.template.transport == PLAIN), "{what}");
            run.world.switch(locked);
            settle(&mut run, &what);
            arrived(&run, locked, &what);
            assert_eq!(run.world.clusters.len(), 1, "{what}");
        }
    }
}

/// Every list of URLs that leaves out how the pod of the member listens is refused, at every moment of a switch.
#[test]
fn no_member_is_listed_otherwise_than_it_listens() {
    let (mut refused, mut allowed) = (0, 0);
    for (from, to) in WAYS {
        let mut run = begun(from, to, 6);
        for _turn in 0..200 {
            let observed = run.look().observed;
            let Some(list) = observed.etcd.members.clone() else {
                run.turn();
                continue;
            };
            for member in list.voters() {
                let ordinal = observed.ordinal_of(member).unwrap();
                let listens = observed.peer_url(ordinal);
                let other = if listens.starts_with("https") {
                    listens.replace("https:", "http:")
                } else {
                    listens.replace("http:", "https:")
                };
                let step = |peer_urls: Vec<String>| Step::UpdatePeer {
                    id: member.id,
                    ordinal,
                    peer_urls,
                };
                let wrong = [vec![other.clone()], vec![]];
                for urls in wrong {
                    assert!(check(&observed, &step(urls)).is_err());
                    refused += 1;
                }
                let strange = vec![listens.replace("db-", "other-")];
                assert!(check(&observed, &step(strange)).is_err());
                let both = check(&observed, &step(vec![listens, other]));
                allowed += usize::from(both.is_ok());
            }
            run.turn();
        }
    }
    assert!(refused > 500 && allowed > 100, "{refused} and {allowed}");
}

#[test]
fn no_member_tries_or_follows_before_all_are_listed_for_it_and_no_learner_is_updated() {
    let mut seen = BTreeSet::new();
    for (from, to) in WAYS {
        let mut run = begun(from, to, 7);
        for turn in 0..400 {
            if turn == 50 {
                run.world.resize(5);
            }
            let mut observed = run.look().observed;
            let decision = decide(&observed);
            let Some(list) = observed.etcd.members.clone() else {
                run.turn();
                continue;
            };
            for learner in list.learners() {
                let step = Step::UpdatePeer {
                    id: learner.id,
                    ordinal: observed.ordinal_of(learner).unwrap(),
                    peer_urls: learner.peer_urls.clone(),
                };
                assert_eq!(check(&observed, &step), Err(Violation::Learner));
                seen.insert("learner");
            }
            let (runs, next) = (observed.runs().peer, observed.transport().peer);
            if runs.scheme() != next.scheme() {
                // As if one of them were listed under the old scheme alone.
                let members = &mut observed.etcd.members.as_mut().unwrap().members;
                for member in members.iter_mut() {
                    let old = format!("{}://", runs.scheme());
                    member.peer_urls.retain(|url| url.starts_with(&old));
                }
                if let Step::RestartPod { .. } = &decision.step {
                    assert_eq!(check(&observed, &decision.step), Err(Violation::Transport));
                    seen.insert("restart");
                }
                let mut shape = decide_shape(&observed).unwrap();
                shape.template = Template::Try;
                let target = &observed.cluster.target.as_ref().unwrap().template;
                if observed.objects.template.as_ref() != Some(target) {
                    let step = Step::ApplyObjects(shape);
                    assert_eq!(check(&observed, &step), Err(Violation::Transport));
                    seen.insert("try");
                }
            }
            run.turn();
        }
    }
    assert_eq!(seen, ["learner", "restart", "try"].into());
}

/// Lists members under the scheme of the goal at once.
fn lists_the_goal_only(observed: &Observed) -> Option<Step> {
    let list = observed.etcd.members.as_ref()?;
    let https = |url: &String| url.replace("http:", "https:");
    let bare = list.voters().find(|voter| {
        let mut urls = voter.peer_urls.iter();
        urls.any(|url| url.starts_with("http:"))
    })?;
    let goes = observed.runs() != observed.transport();
    goes.then_some(Step::UpdatePeer {
        id: bare.id,
        ordinal: observed.ordinal_of(bare)?,
        peer_urls: vec![https(bare.peer_urls.first()?)],
    })
}

fn stories(mutant: Mutant, unchecked: bool) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    let mut run = Run::with(formed(PLAIN, 1), &wrong);
    run.unchecked = unchecked;
    run.world.switch(PEERS);
    run.turns(60);
    caught.note(&run);
    caught
}

fn refused_as(mutant: Mutant, violation: &Violation) {
    stories(mutant, false).assert_refused(violation);
}

#[test]
fn a_list_under_which_no_peer_reaches_a_member_is_refused() {
    refused_as(lists_the_goal_only, &Violation::Transport);
    stories(lists_the_goal_only, true).assert_harm("no peer reaches");
}

#[test]
fn what_is_finished_stays_as_it_is() {
    for (from, to) in WAYS {
        let mut run = begun(from, to, 8);
        settle(&mut run, "switched");
        let writes = run.world.writes;
        run.turns(60);
        assert_eq!(run.world.writes, writes, "{from} to {to}");
        assert!(run.settle(BOUND).is_ok());
    }
}
