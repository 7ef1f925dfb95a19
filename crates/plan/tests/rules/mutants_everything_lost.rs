//! Wrong records where everything is lost: the invariants refuse to begin by themselves without proof, without the owner's word,
//! or twice.

use api::v1alpha1::cluster::OnEverythingLost;
use api::v1alpha1::memory::ReplaceStage;
use gate::{Data, State};
use plan::invariants::{Violation, check};
use plan::observed::{Latched, Process};
use plan::{Observed, Step};
use testkit::story::settled;
use testkit::world::observe::Blind;
use testkit::{Run, World};

fn seen(world: &World) -> Observed {
    world.look_around(&Blind::default()).observed
}

fn lost() -> Run<'static> {
    let mut run = settled(3, 6, 11);
    run.world.leave_to_operator("20261118-020000-0a1b2c3d");
    for ordinal in 0..3 {
        run.world.lose_claim(ordinal);
    }
    run
}

/// Every look that is wrong in one way, at a step that is right at the look there is.
fn wrong(observed: &Observed) -> Vec<(&'static str, Observed)> {
    let mut all = Vec::new();
    let mut add = |what, change: &dyn Fn(&mut Observed)| {
        let mut wrong = observed.clone();
        change(&mut wrong);
        all.push((what, wrong));
    };
    add("the owner asks first", &|it| {
        if let Ok(intent) = &mut it.cluster.intent {
            intent.on_everything_lost = OnEverythingLost::Ask;
        }
    });
    add("stopped", &|it| {
        if let Ok(intent) = &mut it.cluster.intent {
            intent.size = 0;
        }
    });
    add("no backup", &|it| it.restore.offer = None);
    add("of another cluster", &|it| {
        if let Some(offer) = &mut it.restore.offer {
            offer.request.replaces = None;
        }
    });
    add("another claim", &|it| {
        if let Some(claim) = it.claims.get_mut(&1) {
            "another".clone_into(&mut claim.uid);
        }
        it.pods.remove(&1);
    });
    add("a claim of no voter", &|it| {
        let mut claim = it.claims[&1].clone();
        "hidden".clone_into(&mut claim.uid);
        it.claims.insert(7, claim);
    });
    add("data on a volume", &|it| {
        let cluster = plan::observed::format_id(it.cluster.latched.cluster_id.unwrap());
        if let Some(Process::Held(report)) = it.pods.get_mut(&2).map(|pod| &mut pod.process) {
            report.state = State::OtherObject;
            report.data = Some(Data {
                cluster_id: cluster,
                member_id: "1".to_owned(),
                term: 1,
                index: 1,
                commit: 1,
                written: None,
                identity: None,
            });
        } else {
            "another".clone_into(&mut it.claims.get_mut(&2).unwrap().uid);
        }
    });
    add("it serves", &|it| it.cluster.unavailable_since = None);
    all
}

#[test]
fn nothing_begins_by_itself_without_proof_and_the_word_of_its_owner() {
    let mut run = lost();
    let (mut judged, mut stages) = (0, Vec::new());
    for _ in 0..600 {
        let observed = seen(&run.world);
        let step = plan::decide(&observed).step;
        let before = run.world.memory().replace.map(|it| it.stage);
        if let Step::Latch(new) = &step {
            let now = new.replace.as_ref().map(|it| it.stage);
            if now != before && now != Some(ReplaceStage::Ended) {
                assert_eq!(check(&observed, &step), Ok(()));
                for (what, wrong) in wrong(&observed) {
                    let refused = check(&wrong, &step);
                    assert_eq!(refused, Err(Violation::NotAskedFor), "{what}, {now:?}");
                    judged += 1;
                }
                if now == Some(ReplaceStage::Fetching) {
                    refuse_unseen(&observed, new);
                }
                stages.extend(now);
            }
        }
        if matches!(&step, Step::Fetch(fetch) if !fetch.check) {
            for (what, wrong) in wrong(&observed) {
                let refused = check(&wrong, &step);
                assert_eq!(refused, Err(Violation::NotAskedFor), "{what}, the Job");
                judged += 1;
            }
        }
        run.turn();
        run.world.sleep(1);
    }
    let way = [
        ReplaceStage::Checking,
        ReplaceStage::Fetching,
        ReplaceStage::Bootstrapping,
    ];
    assert_eq!(stages, way);
    assert!(judged >= 24, "{judged}");
}

/// A claim counts as one without data only where its agent says so at that look.
fn refuse_unseen(observed: &Observed, new: &Latched) {
    let mut unseen = new.clone();
    let mut replace = unseen.replace.take().unwrap();
    assert_eq!(replace.without_data.len(), 3);
    replace.without_data.push("another".to_owned());
    unseen.replace = Some(replace);
    let refused = check(observed, &Step::Latch(unseen));
    assert_eq!(refused, Err(Violation::LastCopy));
}

#[test]
fn once_it_ended_it_does_not_begin_for_the_same_cluster_again() {
    let mut run = lost();
    for _ in 0..600 {
        let observed = seen(&run.world);
        let step = plan::decide(&observed).step;
        let begins = matches!(&step, Step::Latch(new) if new.replace.is_some());
        if begins && run.world.memory().replace.is_none() {
            let Step::Latch(new) = &step else {
                unreachable!();
            };
            let mut ended = observed.clone();
            let mut over = new.replace.clone().unwrap();
            over.stage = ReplaceStage::Ended;
            over.ended = vec![over.by.clone()];
            ended.cluster.latched.replace = Some(over.clone());
            let mut again = new.clone();
            if let Some(replace) = &mut again.replace {
                replace.record = over.record + 1;
                replace.ended = over.ended;
            }
            let refused = check(&ended, &Step::Latch(again));
            assert_eq!(refused, Err(Violation::SecondBootstrap));
            return;
        }
        run.turn();
        run.world.sleep(1);
    }
    panic!("never begun");
}
