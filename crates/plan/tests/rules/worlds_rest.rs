//! Stories of what cannot come up, in the simulated Kubernetes and etcd: it is not tried again and again, and it does not
//! stay a member for ever.

use jiff::SignedDuration;
use plan::observed::NodeState;
use testkit::Run;
use testkit::story::{seeds, settle, settled};
use testkit::world::Container;
use testkit::world::refuse::How;
use testkit::world::slow::Link;

/// Lets so many seconds pass, with a look every few of them.
fn pass(run: &mut Run<'_>, seconds: i64) {
    let end = run.world.now + SignedDuration::from_secs(seconds);
    while run.world.now < end {
        run.turn();
        run.world.sleep(2);
    }
}

fn said(run: &Run<'_>) -> String {
    format!("{:?}", run.world.object.status.conditions)
}

/// The image of a member is gone, a node is away, and the change that its owner tries does not start either.
#[test]
fn a_pod_that_starts_on_no_template_is_not_recreated_again_and_again() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        let now = run.world.now;
        run.world.set_node(2, NodeState::NotReady(now));
        let spoil = |run: &mut Run<'_>, bad: bool| {
            let set = run.world.set.as_mut().unwrap();
            set.template.bad = bad;
            if let Some(kept) = &mut set.kept {
                kept.bad = bad;
            }
        };
        spoil(&mut run, true);
        let pod = run.world.pods.get_mut(&1).unwrap();
        pod.template.bad = true;
        pod.container = Container::Down;
        run.world.bad_edits.insert(1);
        run.world.edit(1);
        let mut uids = std::collections::BTreeSet::new();
        let end = run.world.now + SignedDuration::from_secs(900);
        while run.world.now < end {
            run.turn();
            run.world.sleep(1);
            uids.extend(run.world.pods.get(&1).map(|pod| pod.uid.clone()));
        }
        assert!((3..12).contains(&uids.len()), "{what}: {}", uids.len());
        let said = said(&run);
        assert!(said.contains("it is recreated again at"), "{what}: {said}");
        // Another edit is tried at once, and mends it.
        spoil(&mut run, false);
        run.world.edit(2);
        run.turns(60);
        assert!(run.world.healthy_voters() >= 2, "{what}");
        run.world.set_node(2, NodeState::Ready);
        settle(&mut run, &what);
    }
}

/// Its claim is lost while it receives the data of the leader, and a quota lets no other be made.
#[test]
fn a_learner_whose_claim_can_never_be_made_does_not_stay_a_member() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.link = Some(Link {
            size: 8 << 30,
            rate: 20 << 20,
        });
        run.world.resize(5);
        let learner = |run: &Run<'_>, ordinal: u32| {
            let list = run.world.clusters.values().next_back().unwrap();
            let url = format!("db-{ordinal}.");
            let mut members = list.members.iter();
            members.any(|member| member.peer_urls.iter().any(|of| of.contains(&url)))
        };
        while !learner(&run, 3) {
            run.turn();
        }
        run.world.refuse("claim 3", Some(How::Refused));
        run.world.lose_claim(3);
        run.world.delete_pod(3);
        pass(&mut run, 200);
        assert!(!run.world.claims.contains_key(&3), "{what}");
        assert!(learner(&run, 3), "{what}: not before its time");
        pass(&mut run, 900);
        assert!(!learner(&run, 3), "{what}: {}", said(&run));
        // It is not added again before there is a claim, and the other one votes.
        let added = |run: &Run<'_>| {
            run.world
                .clusters
                .values()
                .map(|c| c.added.len())
                .sum::<usize>()
        };
        let before = added(&run);
        pass(&mut run, 300);
        assert_eq!(added(&run), before, "{what}");
        assert_eq!(run.world.healthy_voters(), 4, "{what}");
        run.world.refuses.clear();
        pass(&mut run, 900);
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 5, "{what}");
    }
}

/// An object of the same name is created for the retained volumes, on another minor version of etcd.
#[test]
fn retained_data_is_never_started_by_an_etcd_that_cannot_read_it() {
    for seed in seeds(3) {
        for (wrote, asked) in [(6, 5), (7, 5), (7, 6), (5, 7), (5, 6), (6, 7), (6, 6)] {
            let what = format!("3.{wrote} under 3.{asked}, seed {seed}");
            let mut run = settled(3, wrote, seed);
            run.world.object.minor = asked;
            run.world.create_again(3);
            if asked == wrote || asked == wrote + 1 {
                settle(&mut run, &what);
                assert_eq!(run.world.healthy_voters(), 3, "{what}");
                continue;
            }
            pass(&mut run, 120);
            assert_eq!(run.world.healthy_voters(), 0, "{what}");
            assert!(
                run.world.violations.is_empty(),
                "{:?}",
                run.world.violations
            );
            let said = said(&run);
            assert!(
                said.contains(&format!("spec.version to v3.{wrote}.")),
                "{what}: {said}"
            );
            run.world.upgrade(wrote);
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), 3, "{what}");
        }
    }
}

/// What the members run is known on the claims after an upgrade, and after the status was wiped.
#[test]
fn the_claims_know_which_release_wrote_the_data() {
    for seed in seeds(3) {
        let mut run = settled(3, 5, seed);
        run.world.upgrade(6);
        settle(&mut run, "upgraded");
        let all = |run: &Run<'_>| {
            let claims = run.world.claims.values();
            let lineages = claims.map(|claim| api::Lineage::parse(&claim.lineage).unwrap());
            lineages
                .map(|lineage| lineage.version.unwrap())
                .collect::<Vec<_>>()
        };
        assert!(
            all(&run).iter().all(|v| v.starts_with("3.6.")),
            "{:?}",
            all(&run)
        );
        run.world.wipe_status();
        settle(&mut run, "wiped");
        assert!(
            all(&run).iter().all(|v| v.starts_with("3.6.")),
            "{:?}",
            all(&run)
        );
    }
}
